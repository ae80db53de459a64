import type { Aggregation, Meter } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { groupByValues } from '../../../platform/postgres/values.ts'
import { filterSql, quantitySql, tallySql, uniqueHashSql } from '../../catalog/index.ts'
import { wholeQuarters } from '../calc/quarters.ts'
import { countedSubjects, holdersBilledSince } from './counted-subjects.sql.ts'

/** The usage of a customer on a meter, from `since` on and before `until`. Null means without bound. */
export interface Consumption {
  readonly organization_id: string
  readonly customer_id: string
  readonly meter: Pick<Meter, 'id' | 'filter' | 'aggregation'>
  readonly since: Date | null
  readonly until: Date | null
}

type Asked = Consumption & { readonly at: number }

/** If `billed` is true, usage of seat holders counts for the buyer only from the switch to phase 2 on. */
export interface ConsumptionOptions {
  readonly billed?: boolean
}

/**
 * Computes quantities in one statement, and so from one snapshot. Returns decimal text, in the given sequence. Whole
 * quarter hours are added up from their totals, merged or not. So a quantity contains every event of an answered ingest.
 * The rest of the range is read from the events, and the whole range while the meter still counts earlier events.
 * The number of unique values has no bound, so use `loadConsumed`. Filters with more values than a statement can have are divided between
 * statements.
 */
export const loadAtOnce = async (db: Db, scope: TenantScope, asked: readonly Consumption[], { billed = false }: ConsumptionOptions = {}): Promise<string[]> => {
  if (asked.length === 0) return []
  const numbered = asked.map((one, at) => ({ ...one, at }))
  const branches = [...Map.groupBy(numbered, ({ organization_id, meter }) => `${organization_id} ${meter.id}`).values()].map((own) =>
    consumedOn(scope, own, billed),
  )
  const found = new Map<number, string>()
  for (const group of groupByValues(db, branches, (branch) => branch)) {
    const { rows } = await sql<{ at: number; quantity: string }>`${sql.join(group, sql` union all `)}`.execute(db.q)
    for (const { at, quantity } of rows) found.set(at, quantity)
  }
  return asked.map((_, at) => found.get(at) ?? '0')
}

/** SQL for one quantity, for statements that need it from the snapshot of other facts. Not for meters with `unique`, which have no bound. */
export const quantityOf = (scope: TenantScope, one: Consumption): RawBuilder<unknown> =>
  sql`coalesce((select c.quantity::numeric from (${consumedOn(scope, [{ ...one, at: 0 }], false)}) c), 0)`

const moments = (dates: readonly (Date | null)[], otherwise: '-infinity' | 'infinity') =>
  sql`${dates.map((date) => date?.toISOString() ?? otherwise)}::timestamptz[]`

/** The columns of a total over events. */
const tallyOf = (aggregation: Aggregation): RawBuilder<unknown> => {
  const { count, total, low, high } = tallySql(aggregation)
  return sql`${count} as count, ${total} as total, ${low} as low, ${high} as high`
}

/** The quantity of the totals `t`. */
const mergedQuantity = (func: Exclude<Aggregation['func'], 'unique'>): RawBuilder<unknown> => {
  const sums = { count: sql`sum(t.count)`, total: sql`sum(t.total)`, low: sql`min(t.low)`, high: sql`max(t.high)` }
  return sql`trim_scale(coalesce(${quantitySql(func, sums)}, 0))`
}

/** Returns the part of the statement for one meter. */
const consumedOn = (scope: TenantScope, asked: readonly Asked[], billed: boolean): RawBuilder<unknown> => {
  const { organization_id, meter } = asked[0]!
  const { aggregation } = meter
  const quarters = asked.map(wholeQuarters)
  const ranges = sql`unnest(
    ${asked.map(({ at }) => at)}::int[], ${asked.map(({ customer_id }) => customer_id)}::uuid[],
    ${moments(
      asked.map(({ since }) => since),
      '-infinity',
    )}, ${moments(
      asked.map(({ until }) => until),
      'infinity',
    )},
    ${moments(
      quarters.map(({ from }) => from),
      '-infinity',
    )}, ${moments(
      quarters.map(({ to }) => to),
      'infinity',
    )}) a (at, customer_id, since, until, whole_from, whole_to)`
  const holdersSince = billed ? holdersBilledSince(organization_id, sql`a.until`) : undefined
  const subjects = countedSubjects(scope, organization_id, sql`a.customer_id`, holdersSince)
  const events = (from: RawBuilder<unknown>, to: RawBuilder<unknown>) => sql`(
    select name, source, timestamp, metadata from usage_events e
    where e.organization_id = ${organization_id} and e.subject_id = s.id and e.corrected_at is null and e.timestamp >= greatest(${from}, s.since) and e.timestamp < least(${to}, s.until)) e
    where ${filterSql(meter.filter)}`
  // Unique values are counted from their hashes, and other functions from totals.
  const { table, stored, live, quantity } =
    aggregation.func === 'unique'
      ? { table: 'usage_uniques', stored: sql`q.hash`, live: sql`${uniqueHashSql(aggregation.property)} as hash`, quantity: sql`count(distinct t.hash)` }
      : { table: 'usage_quarters', stored: sql`q.count, q.total, q.low, q.high`, live: tallyOf(aggregation), quantity: mergedQuantity(aggregation.func) }
  return sql`
    select a.at, (
      select ${quantity} from (${subjects}) s
      cross join lateral (
        select ${stored} from ${sql.table(table)} q
        where q.organization_id = ${organization_id} and q.subject_id = s.id and q.meter_id = ${meter.id} and q.version = u.version
          and q.starts_at >= greatest(u.whole_from, s.since) and q.starts_at < least(u.whole_to, s.until)
        union all select e.* from (values (a.since, least(u.whole_from, a.until)), (greatest(u.whole_to, a.since), a.until)) rest (since, until)
        cross join lateral (select ${live} from ${events(sql`rest.since`, sql`rest.until`)}) e where rest.since < rest.until
      ) t
    )::text as quantity
    from ${ranges} cross join lateral (
      select m.version, case when m.counted_at is null then 'infinity' else a.whole_from end as whole_from,
        case when m.counted_at is null then 'infinity' else a.whole_to end as whole_to
      from usage_meters m where m.organization_id = ${organization_id} and m.id = ${meter.id}
    ) u`
}
