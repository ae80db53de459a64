import { isDeepStrictEqual } from 'node:util'
import { BadRequest, NotPermitted, ResourceNotFound, type LicenseKeyActivate, type LicenseKeyDeactivate, type LicenseKeyValidate } from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { clockOf } from '../../customers/index.ts'
import { findSeller, permit } from '../../organizations/index.ts'
import {
  isHeld,
  changeKey,
  countActivations,
  deleteActivation,
  findActivation,
  insertActivation,
  lockByHash,
  type ActivationRow,
  type LicenseKeyRow,
} from './license-keys.sql.ts'
import { loadKeys, type LoadedKey } from './presenting.ts'

/** Whoever has a key reaches the seller that it is of, and there what the key shows. */
export const reachOfBearer = async (db: Db, organization_id: string): Promise<Reach> => {
  const seller = await findSeller(db, { id: organization_id })
  if (!seller) throw new ResourceNotFound()
  return within(organization_id, 'portal', seller.member_phase)
}

/** A seller's own server may ask about the seller's own keys. */
export const reachOfSeller = (reach: Reach, organization_id: string): Reach => {
  if (!reach.organizations.has(organization_id)) throw new ResourceNotFound()
  permit(reach, organization_id, 'customers:manage')
  return reach
}

interface Held {
  readonly tx: Tx
  readonly loaded: LoadedKey
  readonly key: Locked<LicenseKeyRow>
  /** Why it is of no use; null where it is. */
  readonly unusable: string | null
}

/** The key that is named by itself, held, in the time of whoever pays for it. */
const hold = async (wall: Tx, reach: Reach, { hasher }: Platform, presented: { key: string; organization_id: string }): Promise<Held> => {
  const secret = new Secret(presented.key)
  const found = await lockByHash(wall, presented.organization_id, hasher.candidates(secret))
  if (!found) throw new ResourceNotFound()
  // Under the newest pepper from now on: the old one can be retired once nothing hangs on it.
  const key = found.pepper === hasher.current ? found : await changeKey(wall, found, { hash: hasher.hash(secret), pepper: hasher.current })
  const { organization_id, buyer_customer_id: customer_id } = key
  const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id }))
  const loaded = (await loadKeys(tx, reach, [key]))[0]!
  return { tx, loaded, key, unusable: await whyUnusable(tx, loaded) }
}

/** Why a key cannot be used at this moment; null where it can. */
export const whyUnusable = async (tx: Tx, { key }: LoadedKey): Promise<string | null> => {
  if (key.status !== 'granted') return `This license key is ${key.status}.`
  // Somebody may be gone whose key is still to be taken.
  if (!(await isHeld(tx, key))) return 'This license key is revoked.'
  const now = tx.clock.business()
  return key.expires_at !== null && key.expires_at <= now ? `This license key expired at ${key.expires_at.toISOString()}.` : null
}

const most = 2_147_483_647

/**
 * Says whether a key counts, and counts that it was asked. The key is held: what it is used for never exceeds its limit,
 * and one that was revoked a moment ago is not valid.
 */
export const validate = async (
  wall: Tx,
  reach: Reach,
  platform: Platform,
  body: LicenseKeyValidate,
): Promise<{ loaded: LoadedKey; activation: ActivationRow | null }> => {
  const { tx, key, loaded, unusable } = await hold(wall, reach, platform, body)
  const other = (said: string | null | undefined, is: string) => Boolean(said) && said !== is
  if (unusable || other(body.benefit_id, key.benefit_id) || other(body.customer_id, loaded.customer.id)) throw new ResourceNotFound()
  const activation = body.activation_id ? await findActivation(tx, key, body.activation_id) : null
  if (activation === undefined || (activation && !isDeepStrictEqual(activation.conditions, { ...body.conditions }))) throw new ResourceNotFound()
  const more = body.increment_usage ?? 0
  const limit = key.limit_usage ?? most
  if (more > 0 && key.usage + more > limit)
    throw new BadRequest(`This license key is used ${key.usage} of ${limit} times: ${more} more would exceed its limit_usage.`)
  const counted = await changeKey(tx, key, {
    usage: key.usage + more,
    validations: Math.min(key.validations + 1, most),
    last_validated_at: tx.clock.business(),
  })
  return { loaded: { ...loaded, key: counted }, activation }
}

/** One more place to use a key in. The key is held: there are never more than it allows, however many ask at once. */
export const activate = async (
  wall: Tx,
  reach: Reach,
  platform: Platform,
  body: LicenseKeyActivate,
): Promise<{ loaded: LoadedKey; activation: ActivationRow }> => {
  const { tx, key, loaded, unusable } = await hold(wall, reach, platform, body)
  if (unusable !== null) throw new NotPermitted(unusable)
  if (key.limit_activations === null) throw new NotPermitted('This license key is not to be activated: it is validated without an activation.')
  const taken = await countActivations(tx, key)
  if (taken >= key.limit_activations)
    throw new NotPermitted(`This license key has ${taken} of ${key.limit_activations} activations: deactivate one of them first.`)
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

/** Gives a place back, also of a key that is of no use any more. */
export const deactivate = async (wall: Tx, reach: Reach, platform: Platform, body: z.output<typeof LicenseKeyDeactivate>): Promise<void> => {
  const { tx, key } = await hold(wall, reach, platform, body)
  if (!(await deleteActivation(tx, key, body.activation_id))) throw new ResourceNotFound()
}
