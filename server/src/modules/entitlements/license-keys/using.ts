import { isDeepStrictEqual } from 'node:util'
import { BadRequest, NotPermitted, ResourceNotFound, type LicenseKeyActivate, type LicenseKeyDeactivate, type LicenseKeyValidate } from '@bursar/contract'
import type { z } from 'zod'
import { phaseOf, within, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { capabilities, permit } from '../../organizations/index.ts'
import {
  changeKey,
  countActivations,
  countValidation,
  deleteActivation,
  insertActivation,
  loadUse,
  lockByHash,
  lockUse,
  type ActivationRow,
  type KeyUse,
  type LicenseKeyRow,
  type LoadedKey,
  type PresentedKey,
} from '../records/license-keys.sql.ts'

/** Returns the scope of a key's bearer: the seller's organization, with portal rights. */
const scopeOfBearer = ({ key, seller }: PresentedKey): TenantScope => {
  if (!capabilities[seller.status].api_access) throw new ResourceNotFound()
  return within(key.organization_id, 'portal', seller.member_phase)
}

/** Returns the scope of a request by the seller's server. Requires the permission to manage customers. */
export const scopeOfSeller = (scope: TenantScope, organization_id: string): TenantScope => {
  if (!scope.organizations.has(organization_id)) throw new ResourceNotFound()
  permit(scope, organization_id, 'customers:manage')
  return scope
}

/** The scope of the seller's server, or `bearer` for an anonymous request that presents the key. */
export type KeyUser = TenantScope | 'bearer'

interface LockedKey {
  readonly tx: BusinessTx
  readonly loaded: LoadedKey
  readonly key: Locked<LicenseKeyRow>
  /** Reason why the key is unusable. Null if it is usable. */
  readonly unusable: string | null
  readonly activation: ActivationRow | undefined
}

interface Presented {
  readonly key: string
  readonly organization_id: string
  /** The activation to load with the key. */
  readonly activation_id?: string | null | undefined
}

/** Locks the presented key. Returns a transaction that uses the buyer's clock. */
const hold = async (wall: Tx, user: KeyUser, { hasher }: Platform, { organization_id, activation_id, ...presented }: Presented): Promise<LockedKey> => {
  const secret = new Secret(presented.key)
  const hashes = hasher.candidates(secret)
  // The phase of a bearer's seller is known only afterwards. Almost all sellers are in phase 2.
  const assumed = user === 'bearer' ? within(organization_id, 'portal', 'phase2') : user
  const both = await lockUse(wall, assumed, organization_id, hashes, activation_id ?? null)
  const found = both?.found ?? (await lockByHash(wall, organization_id, hashes))
  if (!found) throw new ResourceNotFound()
  const scope = user === 'bearer' ? scopeOfBearer(found) : user
  // Rehashes the key with the newest pepper, so that the old pepper can be retired.
  const key = found.key.pepper === hasher.current ? found.key : await changeKey(wall, found.key, { hash: hasher.hash(secret), pepper: hasher.current })
  const isComplete = both && key === found.key && phaseOf(scope, organization_id) === phaseOf(assumed, organization_id)
  const use = isComplete ? both.use : await loadUse(wall, scope, key, activation_id ?? null)
  const tx = await inTimeOf(wall, use.clock)
  return { tx, loaded: use.loaded, key, unusable: whyUnusable(tx, use), activation: use.activation }
}

/** Returns the reason why a key is unusable now, or null if it is usable. */
export const whyUnusable = (tx: BusinessTx, { loaded: { key }, is_held }: KeyUse): string | null => {
  if (key.status !== 'granted') return `This license key is ${key.status}.`
  // The key's customer or member may be deleted before the job has revoked the key.
  if (!is_held) return 'This license key is revoked.'
  const now = tx.clock.business()
  return key.expires_at !== null && key.expires_at <= now ? `This license key expired at ${key.expires_at.toISOString()}.` : null
}

const most = 2_147_483_647

/**
 * Validates a key and counts the validation. Locks the key, so that its usage never exceeds the limit and a key that
 * was just revoked is invalid.
 */
export const validate = async (
  wall: Tx,
  user: KeyUser,
  platform: Platform,
  body: LicenseKeyValidate,
): Promise<{ loaded: LoadedKey; activation: ActivationRow | null }> => {
  const { tx, key, loaded, unusable, ...held } = await hold(wall, user, platform, body)
  const other = (said: string | null | undefined, is: string) => Boolean(said) && said !== is
  if (unusable || other(body.benefit_id, key.benefit_id) || other(body.customer_id, loaded.customer.id)) throw new ResourceNotFound()
  const activation = body.activation_id ? held.activation : null
  if (activation === undefined || (activation && !isDeepStrictEqual(activation.conditions, { ...body.conditions }))) throw new ResourceNotFound()
  const more = body.increment_usage ?? 0
  const limit = key.limit_usage ?? most
  if (more > 0 && key.usage + more > limit)
    throw new BadRequest(`This license key has ${key.usage} of ${limit} uses; ${more} more would exceed its limit_usage.`)
  const counted = countValidation(tx, key, {
    usage: key.usage + more,
    validations: Math.min(key.validations + 1, most),
    last_validated_at: tx.clock.business(),
  })
  return { loaded: { ...loaded, key: counted }, activation }
}

/** Activates a key. Locks the key, so that concurrent requests never exceed its limit. */
export const activateKey = async (
  wall: Tx,
  user: KeyUser,
  platform: Platform,
  body: LicenseKeyActivate,
): Promise<{ loaded: LoadedKey; activation: ActivationRow }> => {
  const { tx, key, loaded, unusable } = await hold(wall, user, platform, body)
  if (unusable !== null) throw new NotPermitted(unusable)
  if (key.limit_activations === null) throw new NotPermitted('This license key cannot be activated. Validate it without an activation.')
  const taken = await countActivations(tx, key)
  if (taken >= key.limit_activations)
    throw new NotPermitted(`This license key has ${taken} of ${key.limit_activations} activations. Deactivate one of them first.`)
  const activation: ActivationRow = {
    organization_id: key.organization_id,
    id: newId(tx.clock.wall()),
    license_key_id: key.id,
    created_at: tx.clock.business(),
    modified_at: null,
    label: body.label,
    meta: body.meta ?? {},
    conditions: body.conditions ?? {},
  }
  await insertActivation(tx, activation)
  return { loaded, activation }
}

/** Removes an activation, even of an unusable key. */
export const deactivate = async (wall: Tx, user: KeyUser, platform: Platform, body: z.output<typeof LicenseKeyDeactivate>): Promise<void> => {
  const { tx, key } = await hold(wall, user, platform, body)
  if (!(await deleteActivation(tx, key, body.activation_id))) throw new ResourceNotFound()
}
