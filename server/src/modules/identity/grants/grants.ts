import { ResourceNotFound, type Scope } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { accountUrl, sendMail } from '../../organizations/index.ts'
import { endFamilies, familiesOf, narrowFamilies } from './oauth.sql.ts'
import { deleteGrants, findAllowed, storeGrant } from './grants.sql.ts'

export interface Allowed {
  readonly client_id: string
  readonly user_id: string
  readonly scopes: readonly Scope[]
  /** Null means every organization, including those joined later. */
  readonly organizations: readonly string[] | null
}

/**
 * Stores the consent of a user to an app. New scopes are added to the earlier ones. The choice of organizations
 * replaces the earlier choice. A wider choice applies to new authorizations only. A narrower choice also applies to
 * existing tokens. A token that is left without any organization is revoked.
 */
export const allowApp = async (tx: Tx, { client_id, user_id, scopes, organizations }: Allowed): Promise<void> => {
  const wall = tx.clock.wall()
  await storeGrant(tx, { client_id, user_id, id: newId(wall), scopes: [...scopes], organizations: organizations === null ? null : [...organizations] }, wall)
  if (organizations !== null) await narrowFamilies(tx, client_id, user_id, organizations)
}

/** Withdraws a user's consent. Every token of the app for this user is rejected from the next request on. */
export const withdrawApp = async (tx: Tx, user_id: string, client_id: string): Promise<void> => {
  await endFamilies(tx, await familiesOf(tx, client_id, user_id))
  if (!(await deleteGrants(tx, client_id, user_id))) throw new ResourceNotFound()
}

export const endGrantsOf = async (tx: Tx, client_id: string): Promise<void> => {
  await endFamilies(tx, await familiesOf(tx, client_id))
  await deleteGrants(tx, client_id)
}

/** Mails the user that an app was given access, so that the user can withdraw an unintended consent. */
export const mailAllowed = async (deps: Deps, { user_id, client_id }: { user_id: string; client_id: string }): Promise<void> => {
  const found = await findAllowed(deps.db, user_id, client_id)
  if (!found) return
  const view = { kind: 'app_allowed', app: found.client_name, apps_url: accountUrl(deps.platform, '/settings/apps') } as const
  await sendMail(deps, { to: found.email, seller: null, language: 'en', view })
}
