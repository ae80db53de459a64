import type { MetricFactResource } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { figures, FigureName, Term } from '../calc/figures.ts'
import type { Bucket } from '../calc/buckets.ts'
import { all, conditionsOf, ofOrganizations, ofSubjects } from './filters.sql.ts'
import type { Question } from '../calc/question.ts'

export interface FactRow {
  readonly resource: MetricFactResource
  readonly resource_id: string
  readonly timestamp: Date
  /** Exact decimal text. */
  readonly value: string
  readonly customer_id: string | null
  readonly product_id: string | null
}

/** A figure with facts of its own: a sum of records, or a number of customers. */
type Traceable = Extract<(typeof figures)[FigureName], { kind: 'sum' | 'distinct' }>

/** SQL for the factor of the measure of a row, as in the terms of the figure. */
const factorOf = (terms: readonly Term[], measure: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case ${sql.join(
    terms.map((term) => sql`when ${measure} = ${term.measure} and ${sql.lit(term.part)} = part then ${sql.lit(term.factor)}`),
    sql` `,
  )} else 0 end`

/** The two parts of a row: its count and its amount, if the amount has the currency of the question. */
const partsOf = ({ currency }: Question, count: RawBuilder<unknown>) =>
  sql`cross join lateral (values ('count', ${count}), ('amount', case when currency = ${currency} then amount else 0 end)) v (part, value)`

/** Facts of orders, subscriptions and checkouts that happened in a range. */
const flows = (question: Question, terms: readonly Term[], since: Date | null, until: Date): RawBuilder<unknown> => sql`
  select resource, resource_id, at, value::numeric * ${factorOf(terms, sql`measure`)} as value, customer_id, product_id
  from metric_facts ${partsOf(question, sql`count`)}
  where ${all(conditionsOf(question))} and measure = any(${terms.map(({ measure }) => measure)}::text[]) and at < ${until} ${since ? sql`and at >= ${since}` : sql``}`

/** The spans that hold just before a moment. */
const states = (question: Question, terms: readonly Term[], at: Date): RawBuilder<unknown> => {
  const isSeats = terms.some(({ measure }) => measure === 'seats.total')
  const measure = isSeats
    ? sql`case when resource in ('subscription', 'order') then 'seats.total' end`
    : sql`resource || 's.' || state || case when resource = 'subscription' then case when is_open then '.open' else '.ending' end else '' end`
  return sql`
    select resource, resource_id, starts_at, value::numeric * ${factorOf(terms, measure)}, customer_id, product_id
    from metric_spans ${partsOf(question, isSeats ? sql`seats` : sql`1`)}
    where ${all(conditionsOf(question))} and starts_at < ${at} and (ends_at is null or ends_at >= ${at})`
}

/** The usage events with costs of a range. */
const costs = (question: Question, factor: number, since: Date | null, until: Date): RawBuilder<unknown> => sql`
  select 'usage_event', e.id, e.timestamp, case when ${question.currency} = 'usd' then metric_cost_of(e.metadata) else 0 end * ${sql.lit(factor)}, s.customer_id, null::uuid
  from (select * from usage_events where ${ofOrganizations(question)} and ${ofSubjects(question)} and source = 'user' and corrected_at is null
    and timestamp < ${until} ${since ? sql`and timestamp >= ${since}` : sql``}) e
  join usage_subjects s on s.organization_id = e.organization_id and s.id = e.subject_id`

const people = (question: Question, of: Extract<Traceable, { kind: 'distinct' }>['of'], { since, until, ends_at }: Bucket): RawBuilder<unknown> => {
  if (of === 'users')
    return sql`
      select 'customer' as resource, who as resource_id, min(starts_at) as at, 1::numeric as value, customer_id, null::uuid as product_id
      from (select coalesce(s.customer_id, u.subject_id) as who, s.customer_id, u.starts_at, u.events
        from (select * from metric_usage where ${ofOrganizations(question)} and ${ofSubjects(question)} and starts_at >= ${since} and starts_at < ${until}) u
        join usage_subjects s on s.organization_id = u.organization_id and s.id = u.subject_id) f
      group by who, customer_id having sum(events) > 0`
  const spans = sql`
    select customer_id, starts_at, coalesce(ends_at, 'infinity') as ends_at from metric_spans
    where ${all(conditionsOf(question))} and ${of === 'subscribers' ? sql`resource = 'subscription'` : sql`resource in ('subscription', 'order') and seats > 0`}
      and (ends_at is null or ends_at > starts_at)`
  const moment = of === 'churned_seat_customers' ? sql`j.ends_at` : sql`j.starts_at`
  const chosen =
    of === 'new_seat_customers' || of === 'churned_seat_customers'
      ? sql`${moment} >= ${since} and ${moment} < ${until}`
      : sql`j.starts_at < ${ends_at} and j.ends_at >= ${ends_at}`
  return sql`
    select 'customer' as resource, j.customer_id as resource_id, ${moment} as at, 1::numeric as value, j.customer_id, null::uuid as product_id from (
      select customer_id, min(starts_at) as starts_at, max(ends_at) as ends_at from (
        select *, count(*) filter (where is_apart) over (partition by customer_id order by starts_at, ends_at rows unbounded preceding) as number from (
          select *, starts_at > max(ends_at) over (partition by customer_id order by starts_at, ends_at rows between unbounded preceding and 1 preceding) as is_apart
          from (${spans}) s) m) n
      group by customer_id, number) j where ${chosen}`
}

const rowsOf = (question: Question, figure: Traceable, bucket: Bucket): RawBuilder<unknown> => {
  if (figure.kind === 'distinct') return people(question, figure.of, bucket)
  if (figure.span === 'state') return states(question, figure.terms, bucket.ends_at)
  const since = figure.span === 'flow' ? bucket.since : null
  const plain = figure.terms.filter(({ measure }) => measure !== 'usage')
  const usage = figure.terms.filter(({ measure }) => measure === 'usage')
  const parts = [
    ...(plain.length > 0 ? [flows(question, plain, since, bucket.until)] : []),
    ...usage.map(({ factor }) => costs(question, factor, since, bucket.until)),
  ]
  return sql.join(parts, sql` union all `)
}

/** Lists the records behind a figure of an interval, oldest first, with their number and their sum. */
export const listFacts = async (
  db: Db,
  question: Question,
  figure: Traceable,
  bucket: Bucket,
  { size, offset }: { readonly size: number; readonly offset: number },
): Promise<{ rows: FactRow[]; total: number; value: string }> => {
  const facts = sql`(select * from (${rowsOf(question, figure, bucket)}) f (resource, resource_id, "timestamp", value, customer_id, product_id) where value <> 0) facts`
  const { rows: sums } = await sql<{ total: number; value: string }>`select count(*) as total, coalesce(sum(value), 0)::text as value from ${facts}`.execute(
    db.q,
  )
  const { rows } = await sql<FactRow>`
    select resource, resource_id, "timestamp", trim_scale(value)::text as value, customer_id, product_id from ${facts}
    order by "timestamp", resource_id, value limit ${size} offset ${offset}`.execute(db.q)
  return { rows, ...sums[0]! }
}
