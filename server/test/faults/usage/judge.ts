import { within } from '../../../src/kernel/actors.ts'
import { aggregate } from '../../../src/modules/catalog/calc/aggregations.ts'
import type { Counted } from '../../../src/modules/catalog/calc/filters.ts'
import { loadConsumed } from '../../../src/modules/usage/index.ts'
import type { World } from '../../harness/world.ts'
import type { Known, Traffic } from './traffic.ts'

/** Returns work that is not done yet, as words. All of it must be done soon after the last kill. */
export const findUnsettled = async (world: World): Promise<string[]> => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ what: string; count: number }>(`
      select 'meters with events to count' as what, count(*)::int as count from usage_meters where counted_at is null
      union all select 'totals to merge', count(*) from usage_quarters where not is_merged
      union all select 'unique values to merge', count(*) from usage_uniques where not is_merged
      union all select 'customer meters to compute', count(*) from customer_meters where due_at is not null
      union all select 'subjects without their customer', count(*) from usage_subjects where customer_id is null
      union all select 'subscriptions to renew', count(*) from subscriptions where due_at <= clock_timestamp() or (due_at is not null and lease_token is not null)
      union all select 'orders to collect', count(*) from orders where due_at <= clock_timestamp() or (due_at is not null and lease_token is not null)
      union all select 'payments without an outcome', count(*) from payments where status = 'pending' or due_at <= clock_timestamp()
      union all select 'last orders to make', count(*) from usage_periods where due_at <= clock_timestamp() or (due_at is not null and lease_token is not null)
      union all select 'jobs in the queue', count(*) from graphile_worker._private_jobs`),
  )
  return rows.filter(({ count }) => count > 0).map(({ what, count }) => `${count} ${what}`)
}

export interface Verdict {
  /** Events that count, by the totals of the first meter. It must be their number by the senders. */
  readonly counted: number
  readonly lost: number
  readonly double: number
  readonly problems: string[]
}

const countedOf = ({ units, timestamp }: Pick<Known, 'units' | 'timestamp'>): Counted => ({ name: 'call', source: 'user', timestamp, metadata: { units } })

/**
 * Compares three counts of each meter and customer: from the senders, from the stored events, and from the totals. Finds
 * events that are stored twice or not at all.
 */
export const judge = async (
  world: World,
  organization_id: string,
  { known, customers, subscribers, meters }: Pick<Traffic, 'known' | 'customers' | 'subscribers' | 'meters'>,
): Promise<Verdict> => {
  const problems: string[] = []
  const { rows: stored } = await world.database.owner((owner) =>
    owner.query<{ external_id: string; customer: string; customer_id: string; units: string; timestamp: Date; corrected: boolean }>(
      `select e.external_id, c.external_id as customer, c.id as customer_id, e.metadata->>'units' as units, e.timestamp, e.corrected_at is not null as corrected
       from usage_events e join usage_subjects s on s.organization_id = e.organization_id and s.id = e.subject_id
       join customers c on c.organization_id = s.organization_id and c.id = s.customer_id where e.organization_id = $1`,
      [organization_id],
    ),
  )
  const times = new Map<string, number>()
  for (const { external_id } of stored) times.set(external_id, (times.get(external_id) ?? 0) + 1)
  const missing = [...known.keys()].filter((id) => !times.has(id))
  const repeated = [...times].filter(([, count]) => count > 1).map(([id]) => id)
  const strange = [...times.keys()].filter((id) => !known.has(id))
  const differing = stored.filter(({ external_id, corrected }) => known.has(external_id) && known.get(external_id)!.corrected !== corrected)
  for (const [what, ids] of [
    ['events that are not stored', missing],
    ['events that are stored twice', repeated],
    ['events that no sender knows', strange],
    ['events that are corrected for one side only', differing.map(({ external_id }) => external_id)],
  ] as const)
    if (ids.length > 0) problems.push(`${ids.length} ${what}, such as ${ids.slice(0, 3).join(', ')}`)

  let [counted, lost, double] = [0, missing.length, repeated.length]
  for (const customer of customers) {
    const customer_id = stored.find((row) => row.customer === customer)?.customer_id
    if (customer_id === undefined) continue
    const isSubscriber = subscribers.has(customer)
    const bySenders = [...known.values()].filter((event) => event.customer === customer && !event.corrected).map(countedOf)
    const byEvents = stored
      .filter((row) => row.customer === customer && !row.corrected)
      .map(({ units, timestamp }) => countedOf({ units: Number(units), timestamp }))
    const byTotals = await loadConsumed(
      world.api.postgres.db,
      within(organization_id, 'machine', 'before'),
      meters.map((meter) => ({ organization_id, customer_id, meter, since: null, until: null })),
    )
    const { rows: sorted } = await world.database.owner((owner) =>
      owner.query<{ meter_id: string; units: string }>(
        'select meter_id, trim_scale(consumed_units)::text as units from customer_meters where organization_id = $1 and customer_id = $2',
        [organization_id, customer_id],
      ),
    )
    for (const [at, { id, aggregation }] of meters.entries()) {
      const quantities = [
        aggregate(aggregation, bySenders),
        aggregate(aggregation, byEvents),
        byTotals[at]!,
        // The stored units of a subscriber contain the current billing period only.
        ...(isSubscriber ? [] : [sorted.find(({ meter_id }) => meter_id === id)?.units ?? '0']),
      ]
      if (new Set(quantities).size > 1)
        problems.push(`${aggregation.func} of ${customer} on meter ${at}: ${quantities.join(', ')} (by senders, by events, by totals, for sorting)`)
      if (aggregation.func !== 'count') continue
      const difference = Number(byTotals[at]) - bySenders.length
      lost += Math.max(0, -difference)
      double += Math.max(0, difference)
    }
    counted += Number(byTotals[0] ?? 0)
  }
  return { counted, lost, double, problems }
}
