import type { Meter } from '@bursar/contract'
import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { filterSql } from '../../catalog/index.ts'
import { decimal, partsOf, quarterSql, shownCustomer } from '../quantities/quantities.sql.ts'

export interface Range {
  readonly organization_id: string
  readonly start: Date
  readonly end: Date
}

/** The events of a range in the sequence of the index on their time. */
const eventsIn = ({ organization_id, start, end }: Range) => sql`
  usage_events where organization_id = ${organization_id} and corrected_at is null and timestamp >= ${start} and timestamp < ${end}`

/** Counts the events of a range up to `most`. If there are more, also returns the time of the first one that is left out, going back. */
export const countEvents = async (db: Db, range: Range, most: number): Promise<{ events: number; left_out_at: Date | null }> => {
  const { rows } = await sql<{ events: number; left_out_at: Date | null }>`
    select least(count(*), ${most})::int as events, case when count(*) > ${most} then min(timestamp) end as left_out_at
    from (select timestamp from ${eventsIn(range)} order by timestamp desc limit ${most + 1}) newest`.execute(db.q)
  return rows[0]!
}

export interface Counted {
  /** The quantity of each day with usage, by its position, as decimal text. */
  readonly days: ReadonlyMap<number, string>
  readonly total: string
  readonly customers: number
  /** Whole minor units. Null without a price. */
  readonly amount: string | null
  readonly top: readonly CountedCustomer[]
}

export interface CountedCustomer {
  readonly customer_id: string | null
  readonly external_customer_id: string | null
  readonly quantity: string
  readonly amount: string | null
}

interface Row extends CountedCustomer {
  readonly kind: 'day' | 'total' | 'all' | 'top'
  readonly bucket: number | null
  readonly customers: number | null
}

/**
 * Counts events as a meter would have, in one statement, and so from one snapshot. The total is aggregated from the events and not from the days.
 * The amount of each customer is rounded half away from zero, as on an order.
 */
export const countAsMeter = async (
  db: Db,
  scope: TenantScope,
  range: Range,
  { filter, aggregation, unit_amount }: Pick<Meter, 'filter' | 'aggregation'> & { readonly unit_amount: string | null },
  { starts, top }: { readonly starts: readonly Date[]; readonly top: number },
): Promise<Counted> => {
  const { live, grouping, quantity, isUsed } = partsOf(aggregation)
  const amount = sql`round(greatest(quantity, 0) * ${unit_amount}::numeric)`
  const { rows } = await sql<Row>`
    with counted as materialized (
      select t.*, ${shownCustomer(scope, range.organization_id)} as who from (
        select width_bucket(timestamp, ${starts.map((at) => at.toISOString())}::timestamptz[]) as bucket, subject_id, ${quarterSql} as starts_at, ${live}
        from (select subject_id, name, source, timestamp, metadata from ${eventsIn(range)}) e where ${filterSql(filter)} ${grouping}
      ) t
    ), per_customer as materialized (
      select who, ${quantity} as quantity from counted group by who having ${isUsed}
    )
    select case when bucket is null then 'total' else 'day' end as kind, bucket, null::uuid as customer_id, null as external_customer_id,
      ${decimal(quantity)} as quantity, null as amount, null::int as customers
    from counted group by grouping sets ((bucket), ())
    union all select 'all', null, null, null, '0', trim_scale(sum(${amount}))::text, count(*)::int from per_customer
    union all select 'top', null, c.id, coalesce(c.external_id, s.external_id), ${decimal(sql`quantity`)}, trim_scale(${amount})::text, null
    from (select * from per_customer order by quantity desc, who limit ${top}) p
    left join customers c on c.organization_id = ${range.organization_id} and c.id = p.who
    left join usage_subjects s on s.organization_id = ${range.organization_id} and s.id = p.who and s.customer_id is null`.execute(db.q)
  const all = rows.find(({ kind }) => kind === 'all')!
  return {
    days: new Map(rows.flatMap(({ kind, bucket, quantity: units }) => (kind === 'day' ? [[bucket! - 1, units]] : []))),
    total: rows.find(({ kind }) => kind === 'total')?.quantity ?? '0',
    customers: all.customers!,
    amount: unit_amount === null ? null : (all.amount ?? '0'),
    top: rows.filter(({ kind }) => kind === 'top').toSorted((a, b) => Number(b.quantity) - Number(a.quantity)),
  }
}
