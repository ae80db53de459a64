import { ResourceNotFound, type Scope } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { endFamilies, familiesOf } from '../oauth/oauth.sql.ts'
import { deleteGrants, findAllowed, storeGrant } from './grants.sql.ts'

export interface Allowed {
  readonly client_id: string
  readonly user_id: string
  readonly scopes: readonly Scope[]
  /** Null: every organization, also later ones. */
  readonly organizations: readonly string[] | null
}

/** A person allows an app something: what they allowed before stays, the organizations are those they chose last. */
export const allow = (tx: Tx, { client_id, user_id, scopes, organizations }: Allowed): Promise<void> => {
  const wall = tx.clock.wall()
  return storeGrant(tx, { client_id, user_id, id: newId(wall), scopes: [...scopes], organizations: organizations === null ? null : [...organizations] }, wall)
}

/** A person takes back what they allowed: every token of that app for them is refused from the next request on. */
export const withdraw = async (tx: Tx, user_id: string, client_id: string): Promise<void> => {
  await endFamilies(tx, await familiesOf(tx, client_id, user_id))
  if (!(await deleteGrants(tx, client_id, user_id))) throw new ResourceNotFound()
}

export const endGrantsOf = async (tx: Tx, client_id: string): Promise<void> => {
  await endFamilies(tx, await familiesOf(tx, client_id))
  await deleteGrants(tx, client_id)
}

/** Tells a person by mail what they allowed: whoever did not mean to, or was not asked, finds the way to undo it. */
export const mailAllowed = async ({ db, gateways, platform }: Means, { user_id, client_id }: { user_id: string; client_id: string }): Promise<void> => {
  const found = await findAllowed(db, user_id, client_id)
  if (!found) return
  const address = new URL('/settings/apps', platform.config.auth_url).href
  await gateways.mail.send({
    to: found.email,
    subject: `${found.client_name} can now use your Bursar account`,
    text: `You allowed the app "${found.client_name}" to use your account.\n\nIf this was not you, or you have changed your mind, remove it here; it stops at once:\n${address}`,
  })
}
