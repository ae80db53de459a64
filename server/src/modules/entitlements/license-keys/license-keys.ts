import { invalidAt, InvalidRequest, NotPermitted, ResourceNotFound, RotateNotPermitted, type LicenseKeyUpdate } from '@bursar/contract'
import { within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadBenefits } from '../../catalog/index.ts'
import { clockOf } from '../../customers/index.ts'
import { holdPhase, permit } from '../../organizations/index.ts'
import { unwant } from '../grants/giving.ts'
import { lockGrant, saveGrants, type GrantRow } from '../records/grants.sql.ts'
import { emitGrantEvents } from '../grants/presenting.ts'
import { giveBack } from '../grants/reconciling.ts'
import { cut, type Locksmith } from '../issuing/license-keys.ts'
import {
  changeKey,
  findKey,
  findLoadedKey,
  findLoadedOwnKey,
  findOwnKey,
  lockKey,
  type KeyWithActivations,
  type LicenseKeyRow,
  type Setting,
} from '../records/license-keys.sql.ts'

/** Returns a key with its activations, or with only one of them. Requires the permission to read customers. */
export const requireLicenseKey = async (db: Db, scope: TenantScope, id: string, activation_id?: string): Promise<KeyWithActivations> => {
  const loaded = await findLoadedKey(db, scope, id, activation_id)
  if (!loaded) throw new ResourceNotFound()
  permit(scope, loaded.key.organization_id, 'customers:read')
  return loaded
}

export const findOwn = async (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<LicenseKeyRow> => {
  const key = await findOwnKey(db, scope, actor, id)
  if (!key) throw new ResourceNotFound()
  return key
}

export const requireOwnKey = async (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<KeyWithActivations> => {
  const loaded = await findLoadedOwnKey(db, scope, actor, id)
  if (!loaded) throw new ResourceNotFound()
  return loaded
}

/** Returns a key that the caller may change. Requires the permission to manage customers. */
export const findManaged = async (db: Db, scope: TenantScope, id: string): Promise<LicenseKeyRow> => {
  const key = await findKey(db, scope, id)
  if (!key) throw new ResourceNotFound()
  permit(scope, key.organization_id, 'customers:manage')
  return key
}

interface LockedKey {
  readonly tx: BusinessTx
  readonly scope: TenantScope
  readonly grant: Locked<GrantRow>
  readonly key: Locked<LicenseKeyRow>
}

/** Locks the grant before the key, in the same order as the code that revokes grants. Returns a transaction that uses the buyer's clock. */
const hold = async (wall: Tx, given: TenantScope, { organization_id, id, grant_id, buyer_customer_id: customer_id }: LicenseKeyRow): Promise<LockedKey> => {
  const scope = within(organization_id, given.organizations.get(organization_id)!, await holdPhase(wall, organization_id))
  const grant = (await lockGrant(wall, scope, grant_id))!
  const key = await lockKey(wall, { organization_id, id })
  return { tx: await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id })), scope, grant, key }
}

const settings = ['limit_activations', 'limit_usage', 'expires_at'] as const satisfies readonly Setting[]

/**
 * Updates a key. Settings in the body override the benefit's settings for this key. A null overrides them too, and
 * means no limit. The status `revoked` revokes the key's grant, and `granted` restores it. Both happen in this
 * transaction.
 */
export const updateLicenseKey = async (
  wall: Tx,
  given: TenantScope,
  platform: Locksmith,
  found: LicenseKeyRow,
  body: LicenseKeyUpdate,
): Promise<{ key: LicenseKeyRow; scope: TenantScope }> => {
  if (body.usage !== undefined && body.usage < 0)
    throw new InvalidRequest(invalidAt(['body', 'usage'], 'The usage of a key cannot be below 0. To allow more, raise limit_usage.', body.usage))
  // The purchase must be locked before the grant. `giveBack` locks the purchase, and `hold` locks the grant.
  if (body.status === 'granted') await giveBack(wall, platform, { organization_id: found.organization_id, id: found.grant_id })
  const { tx, scope, grant, key } = await hold(wall, given, found)
  if (body.status === 'granted' && !grant.is_wanted)
    throw new NotPermitted('The purchase of this license key no longer grants the benefit. Grant it by hand instead: POST /v1/benefit-grants/.')
  if (body.status === 'revoked' && grant.is_wanted) await unwant(tx, scope, [grant], { is_withheld: !grant.is_manual })
  const said = settings.filter((name) => body[name] !== undefined)
  const changed = await changeKey(tx, key, {
    modified_at: tx.clock.business(),
    ...(body.status ? { status: body.status } : {}),
    ...(body.usage === undefined ? {} : { usage: body.usage }),
    ...Object.fromEntries(said.map((name) => [name, body[name]])),
    overrides: [...new Set([...key.overrides, ...said])],
  })
  return { key: changed, scope }
}

/** Replaces the secret of a key. The old secret is invalid at once. A revoked key cannot be rotated, and a disabled one only by the seller. */
export const rotate = async (
  wall: Tx,
  given: TenantScope,
  platform: Locksmith,
  found: LicenseKeyRow,
  by: 'seller' | 'holder',
): Promise<{ key: LicenseKeyRow; scope: TenantScope }> => {
  const { tx, scope, grant, key } = await hold(wall, given, found)
  if (key.status === 'revoked') throw new RotateNotPermitted()
  if (key.status === 'disabled' && by === 'holder') throw new RotateNotPermitted('This key is disabled by the seller and cannot be replaced.')
  const [benefit] = await loadBenefits(tx, [{ tenant: key.organization_id, id: key.benefit_id }])
  const now = tx.clock.business()
  const changed = await changeKey(tx, key, { ...cut(platform, benefit!, key), modified_at: now })
  const told = { ...grant, properties: { ...grant.properties, display_key: changed.display_key }, modified_at: now }
  await saveGrants(tx, [told])
  await emitGrantEvents(tx, scope, [{ grant: told, became: 'updated', before: grant.properties }])
  return { key: changed, scope }
}
