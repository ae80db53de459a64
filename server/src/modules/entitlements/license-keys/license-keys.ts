import { invalidAt, InvalidRequest, NotPermitted, ResourceNotFound, RotateNotPermitted, type LicenseKeyUpdate } from '@bursar/contract'
import { within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadBenefits } from '../../catalog/index.ts'
import { clockOf } from '../../customers/index.ts'
import { holdPhase, permit } from '../../organizations/index.ts'
import { unwant } from '../grants/giving.ts'
import { lockGrant, saveGrants, type GrantRow } from '../grants/grants.sql.ts'
import { tell } from '../grants/presenting.ts'
import { giveBack } from '../grants/reconciling.ts'
import { cut, type Locksmith } from './giving.ts'
import { changeKey, findActivation, findKey, findOwnKey, lockKey, type ActivationRow, type LicenseKeyRow, type Setting } from './license-keys.sql.ts'

/** One key, for those who may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<LicenseKeyRow> => {
  const key = await findKey(db, reach, id)
  if (!key) throw new ResourceNotFound()
  permit(reach, key.organization_id, 'customers:read')
  return key
}

export const findOwn = async (db: Db, reach: Reach, actor: PortalActor, id: string): Promise<LicenseKeyRow> => {
  const key = await findOwnKey(db, reach, actor, id)
  if (!key) throw new ResourceNotFound()
  return key
}

/** One of the places where a key is in use. */
export const activationOf = async (db: Db, key: LicenseKeyRow, id: string): Promise<ActivationRow> => {
  const activation = await findActivation(db, key, id)
  if (!activation) throw new ResourceNotFound()
  return activation
}

/** A key of theirs that a seller means to change. */
export const findManaged = async (db: Db, reach: Reach, id: string): Promise<LicenseKeyRow> => {
  const key = await findKey(db, reach, id)
  if (!key) throw new ResourceNotFound()
  permit(reach, key.organization_id, 'customers:manage')
  return key
}

interface Held {
  readonly tx: Tx
  readonly reach: Reach
  readonly grant: Locked<GrantRow>
  readonly key: Locked<LicenseKeyRow>
}

/** The key with its grant, in the time of whoever pays for it: first the grant, as everybody does who takes grants away. */
const hold = async (wall: Tx, given: Reach, { organization_id, id, grant_id, buyer_customer_id: customer_id }: LicenseKeyRow): Promise<Held> => {
  const reach = within(organization_id, given.organizations.get(organization_id)!, await holdPhase(wall, organization_id))
  const grant = (await lockGrant(wall, reach, grant_id))!
  const key = await lockKey(wall, { organization_id, id })
  return { tx: await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id })), reach, grant, key }
}

const settings = ['limit_activations', 'limit_usage', 'expires_at'] as const satisfies readonly Setting[]

/**
 * What is said of this key alone holds for it from now on, whatever becomes of its benefit: also that there is no limit.
 * Revoking takes the grant with it, and granting gives it back, both in this transaction.
 */
export const update = async (
  wall: Tx,
  given: Reach,
  platform: Locksmith,
  found: LicenseKeyRow,
  body: LicenseKeyUpdate,
): Promise<{ key: LicenseKeyRow; reach: Reach }> => {
  if (body.usage !== undefined && body.usage < 0)
    throw new InvalidRequest(invalidAt(['body', 'usage'], 'A key is used at least 0 times. To allow more, raise limit_usage.', body.usage))
  // What was bought is held before what it gives.
  if (body.status === 'granted') await giveBack(wall, platform, { organization_id: found.organization_id, id: found.grant_id })
  const { tx, reach, grant, key } = await hold(wall, given, found)
  if (body.status === 'granted' && !grant.is_wanted)
    throw new NotPermitted('What gave this license key gives nothing any more. Grant the benefit by hand instead: POST /v1/benefit-grants/.')
  if (body.status === 'revoked' && grant.is_wanted) await unwant(tx, reach, [grant], { is_withheld: !grant.is_manual })
  const said = settings.filter((name) => body[name] !== undefined)
  const changed = await changeKey(tx, key, {
    modified_at: tx.clock.business(),
    ...(body.status ? { status: body.status } : {}),
    ...(body.usage === undefined ? {} : { usage: body.usage }),
    ...Object.fromEntries(said.map((name) => [name, body[name]])),
    overrides: [...new Set([...key.overrides, ...said])],
  })
  return { key: changed, reach }
}

/** Another key in the place of this one, which is void at once. Its holder cannot replace what the seller has disabled. */
export const rotate = async (
  wall: Tx,
  given: Reach,
  platform: Locksmith,
  found: LicenseKeyRow,
  by: 'seller' | 'holder',
): Promise<{ key: LicenseKeyRow; reach: Reach }> => {
  const { tx, reach, grant, key } = await hold(wall, given, found)
  if (key.status === 'revoked') throw new RotateNotPermitted()
  if (key.status === 'disabled' && by === 'holder') throw new RotateNotPermitted('This key is disabled by its seller, so there is nothing to replace.')
  const [benefit] = await loadBenefits(tx, [{ tenant: key.organization_id, id: key.benefit_id }])
  const now = tx.clock.business()
  const changed = await changeKey(tx, key, { ...cut(platform, benefit!, key), modified_at: now })
  const told = { ...grant, properties: { ...grant.properties, display_key: changed.display_key }, modified_at: now }
  await saveGrants(tx, [told])
  await tell(tx, reach, [{ grant: told, became: 'updated', before: grant.properties }])
  return { key: changed, reach }
}
