import type { Benefit, GrantProperties } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import type { BenefitTable } from '../../catalog/index.ts'
import { giveKeys, takeKeys, type Locksmith } from '../issuing/license-keys.ts'
import { provideDownloads } from '../downloadables/downloadables.ts'
import { insertCredits, saveGrants, type Credit, type GrantError, type GrantRow } from '../records/grants.sql.ts'
import type { LoadedGrant } from '../records/grant-lists.sql.ts'
import { emitGrantEvents, type News } from './presenting.ts'

/** Benefit types that give access to an external community. */
const outside: readonly Benefit['type'][] = ['github_repository', 'discord', 'slack_shared_channel']
export const isOutside = ({ type }: BenefitTable): boolean => outside.includes(type)

/** Returns the external account that the grant's recipient has named. */
export const accountOf = ({ properties }: GrantRow): string | null => {
  const { account_id, invited_email } = properties as Outside
  return account_id ?? invited_email ?? null
}
type Outside = GrantProperties['discord'] & GrantProperties['slack_shared_channel']

/** Removes the properties that record the account's access to a place. `said` is true if there were any. */
export const withoutAccess = (properties: GrantRow['properties']): { rest: GrantRow['properties']; said: boolean } => {
  const { granted_account_id, channel_id, channel_name: _, ...rest } = properties as Outside
  return { rest, said: granted_account_id !== undefined || channel_id !== undefined }
}

/** Error of a grant whose recipient has not named an external account yet. */
export const accountMissing = (now: Date): GrantError => ({
  type: 'BenefitActionRequiredError',
  message: 'The account to admit is unknown. The recipient must choose an account in the customer portal (account_id of the grant).',
  timestamp: now.toISOString(),
})

type Belonging = Pick<
  GrantRow,
  'organization_id' | 'benefit_id' | 'subscription_id' | 'order_id' | 'seat_id' | 'buyer_customer_id' | 'holder_customer_id' | 'member_id'
>

/** Builds a grant that is neither wanted nor granted yet. */
export const newGrant = (tx: BusinessTx, belonging: Belonging): GrantRow => ({
  ...unleased,
  clock_id: null,
  id: newId(tx.clock.wall()),
  created_at: tx.clock.business(),
  modified_at: null,
  is_manual: belonging.subscription_id === null && belonging.order_id === null,
  is_withheld: false,
  is_wanted: false,
  granted_at: null,
  revoked_at: null,
  properties: {},
  error: null,
  attempts: 0,
  place: null,
  account: null,
  cycled_for: null,
  ...belonging,
})

interface GrantWithBenefit {
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

/** Grants after a change, and those of them that an event has shown, with their related records. */
interface ChangedGrants {
  readonly grants: readonly GrantRow[]
  readonly told: readonly LoadedGrant[]
}

/**
 * Marks grants as wanted. Grants of internal benefits are given at once and emit `created`. Grants of external benefits
 * become due for a sweep. The sweep calls the community and emits the event when the call has succeeded.
 */
export const want = async (
  tx: BusinessTx,
  scope: TenantScope,
  platform: Locksmith,
  given: readonly GrantWithBenefit[],
  period_start: Date | null,
): Promise<ChangedGrants> => {
  if (given.length === 0) return { grants: [], told: [] }
  const now = tx.clock.business()
  const wanted = given.map(({ grant, benefit }): GrantWithBenefit => {
    const again = grant.revoked_at !== null || grant.granted_at !== null || grant.place !== null
    const fresh = { ...grant, modified_at: again ? now : null, is_wanted: true, revoked_at: null, attempts: 0 }
    if (!isOutside(benefit)) return { benefit, grant: { ...fresh, granted_at: now, error: null, cycled_for: period_start } }
    const known = accountOf(grant) !== null || grant.place !== null
    return {
      benefit,
      grant: { ...fresh, cycled_for: period_start, error: known ? null : accountMissing(now), due_at: known ? tx.clock.wall() : null },
    }
  })
  await saveGrants(
    tx,
    wanted.map(({ grant }) => grant),
  )
  const keyed = await giveKeys(tx, platform, await provideDownloads(tx, await credit(tx, wanted, period_start)))
  await saveGrants(
    tx,
    keyed.filter(({ benefit }) => benefit.type === 'license_keys').map(({ grant }) => grant),
  )
  const told = await emitGrantEvents(
    tx,
    scope,
    keyed.flatMap(({ grant, benefit }) => (isOutside(benefit) ? [] : [{ grant, became: 'created' as const }])),
    keyed.map(({ grant }) => grant),
  )
  return { grants: keyed.map(({ grant }) => grant), told }
}

/** Credits the meter units of a benefit once per grant and billing period. Idempotent. */
export const credit = async (tx: BusinessTx, given: readonly GrantWithBenefit[], period_start: Date | null): Promise<GrantWithBenefit[]> => {
  const now = tx.clock.business()
  const credits = given.flatMap(({ grant, benefit }): Credit[] => {
    if (benefit.type !== 'meter_credit') return []
    const { meter_id, units, rollover } = benefit.properties as Extract<Benefit, { type: 'meter_credit' }>['properties']
    const { organization_id, id: grant_id, holder_customer_id, buyer_customer_id } = grant
    const customer_id = holder_customer_id ?? buyer_customer_id
    return [{ organization_id, id: newId(tx.clock.wall()), created_at: now, grant_id, meter_id, customer_id, units, rollover, period_start }]
  })
  const first = await insertCredits(tx, credits)
  if (first.size === 0) return [...given]
  const noted = given.map((one) => {
    const made = first.has(one.grant.id) && credits.find(({ grant_id }) => grant_id === one.grant.id)
    if (!made) return one
    const properties: GrantProperties['meter_credit'] = {
      last_credited_meter_id: made.meter_id,
      last_credited_units: made.units,
      last_credited_at: now.toISOString(),
    }
    return { ...one, grant: { ...one.grant, properties } }
  })
  await saveGrants(
    tx,
    noted.filter(({ grant }) => first.has(grant.id)).map(({ grant }) => grant),
  )
  return noted
}

/**
 * Marks grants as unwanted. Grants without external access end at once. Grants with external access end when the
 * account has been removed from the community. Each grant has one recipient, so no other recipient loses access.
 */
export const unwant = async (
  tx: BusinessTx,
  scope: TenantScope,
  grants: readonly Locked<GrantRow>[],
  changes: Partial<Pick<GrantRow, 'is_withheld'>> = {},
): Promise<ChangedGrants> => {
  if (grants.length === 0) return { grants: [], told: [] }
  const now = tx.clock.business()
  const news: News[] = []
  const gone = grants.map((grant): GrantRow => {
    const common = { ...grant, ...changes, is_wanted: false, modified_at: now, attempts: 0 }
    if (grant.place !== null) return { ...common, due_at: tx.clock.wall() }
    return ended(common, now, news)
  })
  await saveGrants(tx, gone)
  await takeKeys(tx, gone)
  return { grants: gone, told: await emitGrantEvents(tx, scope, news, gone) }
}

/** Ends a grant. Adds a `revoked` event only if an earlier event reported the grant as given. */
export const ended = (grant: GrantRow, now: Date, news: News[]): GrantRow => {
  const { rest, said } = withoutAccess(grant.properties)
  const after = { ...grant, granted_at: null, revoked_at: grant.revoked_at ?? now, error: null, due_at: null, properties: rest }
  if (said || grant.granted_at !== null) news.push({ grant: after, became: 'revoked', before: said ? grant.properties : null })
  return after
}
