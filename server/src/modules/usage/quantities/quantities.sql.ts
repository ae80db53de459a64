import type { Aggregation, Meter } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { metadataHas } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { countedSql, filterSql, quantitySql, tallySql, uniqueHashSql } from '../../catalog/index.ts'
import { quarter, wholeQuarters } from '../calc/quarters.ts'
import { countedCustomer, type CountedSubject } from '../records/counted-subjects.sql.ts'

export interface Question {
  /** The range does not contain its end. */
  readonly start: Date
  readonly end: Date
  /** The starts of the intervals, oldest first. */
  readonly starts: readonly Date[]
  /** Only usage of these subjects, each in its span. Undefined for all. */
  readonly subjects: readonly CountedSubject[] | undefined
  readonly metadata: Readonly<Record<string, readonly string[]>> | undefined
  /** Combines the quantities of customers. Undefined: the events of all customers are aggregated together. */
  readonly combine: Aggregation['func'] | undefined
}

export interface Answer {
  /** The quantity of each interval with usage, by its position, as decimal text. */
  readonly quantities: ReadonlyMap<number, string>
  readonly total: string
}

/** Conditions for the events that the question counts. */
export const countedConditions = (meter: Meter, { start, end, metadata }: Question): RawBuilder<unknown>[] => [
  sql`timestamp >= ${start}`,
  sql`timestamp < ${end}`,
  filterSql(meter.filter),
  countedSql(meter.aggregation),
  ...metadataHas(metadata),
]

export const decimal = (quantity: RawBuilder<unknown>) => sql<string>`trim_scale(${quantity})::text`

const combined = (func: Aggregation['func']): RawBuilder<unknown> => {
  if (func === 'count') return sql`count(*)::numeric`
  if (func === 'unique') return sql`count(distinct quantity)::numeric`
  return func === 'avg' ? sql`round(avg(quantity), 12)` : sql`${sql.raw(func)}(quantity)`
}

/**
 * Returns the quantity of each interval and of the whole range, in one statement. The total is aggregated from the same
 * events as the intervals, and not from the quantities of the intervals: averages and unique values cannot be added.
 */
export const loadQuantities = async (db: Db, scope: TenantScope, meter: Meter, question: Question): Promise<Answer> => {
  const { organization_id } = meter
  const { rows, quantity, isUsed } = rowsOf(meter, question)
  const whole = question.combine
    ? sql`
      select bucket, ${decimal(combined(question.combine))} as quantity from (
        select bucket, customer_id, ${quantity} as quantity from (
          select t.*, ${shownCustomer(scope, organization_id)} as customer_id from (${rows}) t
        ) t group by grouping sets ((bucket, customer_id), (customer_id)) having ${isUsed}
      ) c group by bucket`
    : sql`select bucket, ${decimal(quantity)} as quantity from (${rows}) t group by grouping sets ((bucket), ())`
  const found = await sql<{ bucket: number | null; quantity: string | null }>`${whole}`.execute(db.q)
  const total = found.rows.find(({ bucket }) => bucket === null)?.quantity
  return {
    quantities: new Map(found.rows.flatMap(({ bucket, quantity: one }) => (bucket === null || one === null ? [] : [[bucket - 1, one]]))),
    total: total ?? '0',
  }
}

interface Rows {
  /** The rows to aggregate, with the columns bucket, subject_id and starts_at, the quarter hour. */
  readonly rows: RawBuilder<unknown>
  /** The aggregate over the rows. */
  readonly quantity: RawBuilder<unknown>
  /** True if an event counts. If all events of a customer were corrected, the customer is not combined with others. */
  readonly isUsed: RawBuilder<unknown>
}

const startsOf = ({ starts }: Question) => sql`${starts.map((at) => at.toISOString())}::timestamptz[]`
const bySubject = ({ subjects }: Question, at: 'timestamp' | 'starts_at') => {
  if (!subjects) return sql``
  const ids = sql`${subjects.map(({ id }) => id)}::uuid[]`
  const spans = sql`unnest(${ids}, ${subjects.map(({ since }) => since)}::timestamptz[], ${subjects.map(({ until }) => until)}::timestamptz[]) w (id, since, until)`
  return sql`and subject_id = any(${ids}) and exists (select from ${spans} where w.id = subject_id and ${sql.ref(at)} >= w.since and ${sql.ref(at)} < w.until)`
}
/** SQL for the quarter hour of an event. The customer that usage counts for changes only between quarter hours. */
export const quarterSql = sql`date_bin('15 minutes', timestamp, '2000-01-01T00:00:00Z')`

/** The events of a part of the range that the meter counts. */
const eventsOf = (meter: Meter, question: Question, from: RawBuilder<unknown>, to: RawBuilder<unknown>): RawBuilder<unknown> => {
  const filters = [filterSql(meter.filter), ...metadataHas(question.metadata)]
  return sql`(
    select subject_id, name, source, timestamp, metadata from usage_events
    where organization_id = ${meter.organization_id} and corrected_at is null and timestamp >= ${from} and timestamp < ${to} ${bySubject(question, 'timestamp')}
  ) e where ${sql.join(filters, sql` and `)}`
}

/** How an aggregation reads stored rows and events, and what it computes from both. */
export const partsOf = (aggregation: Aggregation) => {
  if (aggregation.func === 'unique')
    return {
      table: 'usage_uniques',
      stored: sql`hash`,
      live: sql`${uniqueHashSql(aggregation.property)} as hash`,
      grouping: sql``,
      quantity: sql`count(distinct hash)::numeric`,
      isUsed: sql`count(hash) > 0`,
    }
  const { count, total, low, high } = tallySql(aggregation)
  return {
    table: 'usage_quarters',
    stored: sql`count, total, low, high`,
    live: sql`${count} as count, ${total} as total, ${low} as low, ${high} as high`,
    grouping: sql`group by 1, 2, 3`,
    quantity: quantitySql(aggregation.func, { count: sql`sum(count)`, total: sql`sum(total)`, low: sql`min(low)`, high: sql`max(high)` }),
    isUsed: sql`sum(count) > 0`,
  }
}

/**
 * Reads the stored rows of whole quarter hours, and the events of the rest of the range. Metadata is known of events
 * only. Also, intervals may begin inside a quarter hour, in years in which a zone had such an offset.
 */
const rowsOf = (meter: Meter, question: Question): Rows => {
  const { start, end } = question
  const { table, stored, live, grouping, quantity, isUsed } = partsOf(meter.aggregation)
  const isStored = Object.keys(question.metadata ?? {}).length === 0 && question.starts.slice(1).every((at) => at.getTime() % quarter === 0)
  const { from, to } = isStored ? wholeQuarters({ since: start, until: end }) : { from: end, to: end }
  const moment = (at: Date | null) => sql`${at}::timestamptz`
  const events = (after: RawBuilder<unknown>, before: RawBuilder<unknown>) => sql`
    select width_bucket(timestamp, ${startsOf(question)}) as bucket, subject_id, ${quarterSql} as starts_at, ${live}
    from ${eventsOf(meter, question, after, before)} ${grouping}`
  const bounds = (name: 'whole_from' | 'whole_to') => sql`(select ${sql.ref(name)} from bounds)`
  return {
    rows: sql`
      with bounds as materialized (
        select version, case when counted_at is null then ${moment(end)} else ${moment(from)} end as whole_from,
          case when counted_at is null then ${moment(end)} else ${moment(to)} end as whole_to
        from usage_meters where organization_id = ${meter.organization_id} and id = ${meter.id}
      )
      select width_bucket(starts_at::timestamptz, ${startsOf(question)}) as bucket, subject_id, starts_at, ${stored} from ${sql.table(table)}
      where organization_id = ${meter.organization_id} and meter_id = ${meter.id} and version = (select version from bounds)
        and starts_at >= ${bounds('whole_from')} and starts_at < ${bounds('whole_to')} ${bySubject(question, 'starts_at')}
      union all ${events(moment(start), bounds('whole_from'))}
      union all ${events(bounds('whole_to'), moment(end))}`,
    quantity,
    isUsed,
  }
}

/** The customer that usage of a subject counts for. A subject without a customer counts as a customer of its own. */
export const shownCustomer = (scope: TenantScope, organization_id: string): RawBuilder<unknown> => sql`(
  select coalesce(${countedCustomer(scope, organization_id, sql`t.starts_at`)}, s.id) from usage_subjects s
  where s.organization_id = ${organization_id} and s.id = t.subject_id)`
