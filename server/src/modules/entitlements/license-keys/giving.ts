import type { Benefit } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import { licenseKeyHint, newLicenseKey, type Secret } from '../../../kernel/secrets.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { trialEnd } from '../../billing/index.ts'
import type { BenefitTable } from '../../catalog/index.ts'
import type { GrantRow } from '../grants/grants.sql.ts'
import { lockKeysOf, revokeKeysOf, saveKeys, type LicenseKeyRow, type Setting } from './license-keys.sql.ts'

/** What a key is hashed and sealed with. */
export type Locksmith = Pick<Platform, 'hasher' | 'sealer'>

interface Given {
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

type Properties = Extract<Benefit, { type: 'license_keys' }>['properties']
const propertiesOf = ({ properties }: BenefitTable): Properties => properties as Properties

/**
 * What a benefit says of a key that was made at this moment. A subscription's key does not run out: it goes with the
 * subscription.
 */
export const settingsOf = (benefit: BenefitTable, { subscription_id }: GrantRow, made_at: Date): Pick<LicenseKeyRow, Setting> => {
  const { activations, limit_usage, expires } = propertiesOf(benefit)
  return {
    limit_activations: activations?.limit ?? null,
    limit_usage,
    expires_at: subscription_id === null && expires ? trialEnd(made_at, expires.timeframe, expires.ttl) : null,
  }
}

/** The key as its benefit says it is to be, but for what was set for this key alone. */
const settled = (key: LicenseKeyRow, benefit: BenefitTable, grant: GrantRow): LicenseKeyRow => {
  const said = Object.entries(settingsOf(benefit, grant, key.created_at)).filter(([name]) => !key.overrides.includes(name as Setting))
  return { ...key, ...(Object.fromEntries(said) as Partial<LicenseKeyRow>) }
}

/** What the key is sealed as belonging to: nobody else's seal opens. */
export const sealedFor = ({ organization_id, id }: Pick<LicenseKeyRow, 'organization_id' | 'id'>): string => `license_key:${organization_id}:${id}`

/** A secret of its own for a key: what is stored of it, and nothing of it in clear. */
export const cut = (platform: Locksmith, benefit: BenefitTable, key: Pick<LicenseKeyRow, 'organization_id' | 'id'>) =>
  lockAway(platform, newLicenseKey(propertiesOf(benefit).prefix), key)

/** The same for a secret that there is already. */
export const lockAway = ({ hasher, sealer }: Locksmith, secret: Secret, key: Pick<LicenseKeyRow, 'organization_id' | 'id'>) => ({
  hash: hasher.hash(secret),
  pepper: hasher.current,
  key_sealed: sealer.seal(secret, sealedFor(key)),
  display_key: licenseKeyHint(secret),
})

const newKey = (tx: Tx, platform: Locksmith, { grant, benefit }: Given): LicenseKeyRow => {
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
    ...settingsOf(benefit, grant, created_at),
  }
}

/**
 * Every grant of keys has one key, made with it and used again whenever it is given again: what a seller has disabled
 * stays disabled. Hands back the grants, which say which key is theirs.
 */
export const giveKeys = async <G extends Given>(tx: Tx, platform: Locksmith, given: readonly G[]): Promise<G[]> => {
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

/** The keys of these grants are refused from now on: in the transaction that takes the grants away. */
export const takeKeys = async (tx: Tx, grants: readonly GrantRow[]): Promise<void> => {
  if (grants.length > 0) await revokeKeysOf(tx, grants[0]!.organization_id, grants)
}

/** A benefit was edited: its keys are as it says now, but for what was set for one of them alone. */
export const editKeys = async (tx: Tx, benefit: BenefitTable, grants: readonly Locked<GrantRow>[]): Promise<void> => {
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
