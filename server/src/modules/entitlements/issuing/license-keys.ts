import type { Benefit } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import { licenseKeyHint, newLicenseKey, type Secret } from '../../../kernel/secrets.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { trialEnd } from '../../billing/index.ts'
import type { BenefitTable } from '../../catalog/index.ts'
import type { GrantRow } from '../records/grants.sql.ts'
import { lockKeysOf, revokeKeysOf, saveKeys, type LicenseKeyRow, type Setting } from '../records/license-keys.sql.ts'

/** Services that hash and seal a license key. */
export type Locksmith = Pick<Platform, 'hasher' | 'sealer'>

interface GrantWithBenefit {
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

type Properties = Extract<Benefit, { type: 'license_keys' }>['properties']
const propertiesOf = ({ properties }: BenefitTable): Properties => properties as Properties

/**
 * Returns the settings that a benefit defines for a key created at `made_at`. The key of a subscription has no expiry,
 * because it is revoked when the subscription ends.
 */
export const keySettings = (benefit: BenefitTable, { subscription_id }: GrantRow, made_at: Date): Pick<LicenseKeyRow, Setting> => {
  const { activations, limit_usage, expires } = propertiesOf(benefit)
  return {
    limit_activations: activations?.limit ?? null,
    limit_usage,
    expires_at: subscription_id === null && expires ? trialEnd(made_at, expires.timeframe, expires.ttl) : null,
  }
}

/** Applies the benefit's settings to a key, except those overridden for this key. */
const settled = (key: LicenseKeyRow, benefit: BenefitTable, grant: GrantRow): LicenseKeyRow => {
  const said = Object.entries(keySettings(benefit, grant, key.created_at)).filter(([name]) => !key.overrides.includes(name as Setting))
  return { ...key, ...(Object.fromEntries(said) as Partial<LicenseKeyRow>) }
}

/** Returns the context that the key is sealed with. A value sealed for another key cannot be opened in this context. */
export const sealedFor = ({ organization_id, id }: Pick<LicenseKeyRow, 'organization_id' | 'id'>): string => `license_key:${organization_id}:${id}`

/** Generates a new secret for a key. Returns the columns to store. No column contains the secret in clear text. */
export const cut = (platform: Locksmith, benefit: BenefitTable, key: Pick<LicenseKeyRow, 'organization_id' | 'id'>) =>
  lockKeyAway(platform, newLicenseKey(propertiesOf(benefit).prefix), key)

/** Hashes and seals an existing secret. Returns the columns to store. */
export const lockKeyAway = ({ hasher, sealer }: Locksmith, secret: Secret, key: Pick<LicenseKeyRow, 'organization_id' | 'id'>) => ({
  hash: hasher.hash(secret),
  pepper: hasher.current,
  key_sealed: sealer.seal(secret, sealedFor(key)),
  display_key: licenseKeyHint(secret),
})

const newKey = (tx: BusinessTx, platform: Locksmith, { grant, benefit }: GrantWithBenefit): LicenseKeyRow => {
  const { organization_id, id: grant_id, benefit_id, buyer_customer_id, holder_customer_id, member_id } = grant
  const created_at = tx.clock.business()
  const named = { organization_id, id: newId(tx.clock.wall()) }
  return {
    ...named,
    created_at,
    modified_at: null,
    benefit_id,
    grant_id,
    buyer_customer_id,
    holder_customer_id,
    member_id,
    ...cut(platform, benefit, named),
    status: 'granted',
    usage: 0,
    validations: 0,
    last_validated_at: null,
    overrides: [],
    ...keySettings(benefit, grant, created_at),
  }
}

/**
 * Gives each license-key grant its key. The key is created once. It is reused when a revoked grant is given again, so a
 * disabled key stays disabled. Returns the grants with their key's id in the properties.
 */
export const giveKeys = async <G extends GrantWithBenefit>(tx: BusinessTx, platform: Locksmith, given: readonly G[]): Promise<G[]> => {
  const keyed = given.filter(({ benefit }) => benefit.type === 'license_keys')
  if (keyed.length === 0) return [...given]
  const known = new Map(
    (
      await lockKeysOf(
        tx,
        keyed[0]!.grant.organization_id,
        keyed.map(({ grant }) => grant),
      )
    ).map((key) => [key.grant_id, key]),
  )
  const keys = new Map(
    keyed.map((one) => {
      const key = known.get(one.grant.id)
      const status = key?.status === 'disabled' ? ('disabled' as const) : ('granted' as const)
      const again = key && { ...settled(key, one.benefit, one.grant), status, modified_at: tx.clock.business() }
      return [one.grant.id, again ?? newKey(tx, platform, one)]
    }),
  )
  await saveKeys(tx, [...keys.values()])
  return given.map((one) => {
    const key = keys.get(one.grant.id)
    return key ? { ...one, grant: { ...one.grant, properties: { license_key_id: key.id, display_key: key.display_key } } } : one
  })
}

/** Revokes the keys of these grants, in the transaction that revokes the grants. */
export const takeKeys = async (tx: BusinessTx, grants: readonly GrantRow[]): Promise<void> => {
  if (grants.length > 0) await revokeKeysOf(tx, grants[0]!.organization_id, grants)
}

/** Applies an edited benefit to its keys, except the settings overridden for a single key. */
export const editKeys = async (tx: BusinessTx, benefit: BenefitTable, grants: readonly Locked<GrantRow>[]): Promise<void> => {
  if (benefit.type !== 'license_keys') return
  const byId = new Map(grants.map((grant) => [grant.id, grant]))
  const keys = await lockKeysOf(tx, benefit.organization_id, grants)
  const changed = keys.map((key) => ({ key, after: settled(key, benefit, byId.get(key.grant_id)!) })).filter(({ key, after }) => !isSame(key, after))
  await saveKeys(
    tx,
    changed.map(({ after }) => ({ ...after, modified_at: tx.clock.business() })),
  )
}

const isSame = (a: LicenseKeyRow, b: LicenseKeyRow): boolean =>
  a.limit_activations === b.limit_activations && a.limit_usage === b.limit_usage && a.expires_at?.getTime() === b.expires_at?.getTime()
