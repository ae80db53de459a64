import type { Benefit, GrantProperties } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { BenefitTable } from '../../catalog/index.ts'
import { giveKeys, takeKeys, type Locksmith } from '../license-keys/giving.ts'
import { provideDownloads } from '../downloadables/downloadables.ts'
import { insertCredits, saveGrants, type Credit, type GrantError, type GrantRow } from './grants.sql.ts'
import { tell, type News } from './presenting.ts'

/** Kinds that somebody outside has to let people in for. */
const outside: readonly Benefit['type'][] = ['github_repository', 'discord', 'slack_shared_channel']
export const isOutside = ({ type }: BenefitTable): boolean => outside.includes(type)

/** Whom a grant is for: the account that its recipient gave. */
export const accountOf = ({ properties }: GrantRow): string | null => {
  const { account_id, invited_email } = properties as Outside
  return account_id ?? invited_email ?? null
}
type Outside = GrantProperties['discord'] & GrantProperties['slack_shared_channel']

/** The properties of somebody who is not let in, and whether they say that somebody is. */
export const withoutAccess = (properties: GrantRow['properties']): { rest: GrantRow['properties']; said: boolean } => {
  const { granted_account_id, channel_id, channel_name: _, ...rest } = properties as Outside
  return { rest, said: granted_account_id !== undefined || channel_id !== undefined }
}

/** Nothing can be done before its recipient says who they are there. */
export const accountMissing = (now: Date): GrantError => ({
  type: 'BenefitActionRequiredError',
  message: 'Whom to let in is not known: its recipient names an account in the customer portal (account_id of the grant).',
  timestamp: now.toISOString(),
})

type Belonging = Pick<
  GrantRow,
  'organization_id' | 'benefit_id' | 'subscription_id' | 'order_id' | 'seat_id' | 'buyer_customer_id' | 'holder_customer_id' | 'member_id'
>

/** A grant that is nobody's yet. */
export const newGrant = (tx: Tx, belonging: Belonging): GrantRow => ({
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

interface Given {
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

/**
 * From now on these grants are to be there. What needs nobody outside is there at once, and that is told; for the rest
 * somebody outside is asked soon, and it is told when they have done it.
 */
export const want = async (tx: Tx, reach: Reach, platform: Locksmith, given: readonly Given[], period_start: Date | null): Promise<GrantRow[]> => {
  if (given.length === 0) return []
  const now = tx.clock.business()
  const wanted = given.map(({ grant, benefit }): Given => {
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
  await tell(
    tx,
    reach,
    keyed.flatMap(({ grant, benefit }) => (isOutside(benefit) ? [] : [{ grant, became: 'created' as const }])),
    keyed.map(({ grant }) => grant),
  )
  return keyed.map(({ grant }) => grant)
}

/** Units on meters, once for each period, whoever asks how often. */
export const credit = async (tx: Tx, given: readonly Given[], period_start: Date | null): Promise<Given[]> => {
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
 * From now on these grants are not to be there. Where nobody was let in outside they are gone at once; elsewhere they are
 * gone when their account has been shown out. Each is one recipient's: nobody else loses anything.
 */
export const unwant = async (
  tx: Tx,
  reach: Reach,
  grants: readonly Locked<GrantRow>[],
  changes: Partial<Pick<GrantRow, 'is_withheld'>> = {},
): Promise<GrantRow[]> => {
  if (grants.length === 0) return []
  const now = tx.clock.business()
  const news: News[] = []
  const gone = grants.map((grant): GrantRow => {
    const common = { ...grant, ...changes, is_wanted: false, modified_at: now, attempts: 0 }
    if (grant.place !== null) return { ...common, due_at: tx.clock.wall() }
    return ended(common, now, news)
  })
  await saveGrants(tx, gone)
  await takeKeys(tx, gone)
  await tell(tx, reach, news, gone)
  return gone
}

/** It is gone. That is told, unless nobody ever heard that it was there. */
export const ended = (grant: GrantRow, now: Date, news: News[]): GrantRow => {
  const { rest, said } = withoutAccess(grant.properties)
  const after = { ...grant, granted_at: null, revoked_at: grant.revoked_at ?? now, error: null, due_at: null, properties: rest }
  if (said || grant.granted_at !== null) news.push({ grant: after, became: 'revoked', before: said ? grant.properties : null })
  return after
}
