import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { exactly, nothing, wholeOf, type Reading, type Sum } from '../calc/evaluating.ts'
import { figures, measures, type FigureName, type Measure } from '../calc/figures.ts'
import type { Bucket } from '../calc/buckets.ts'
import { all, conditionsOf, moments, ofOrganizations, ofSubjects } from '../metrics/filters.sql.ts'
import type { Question } from '../calc/question.ts'

/*
 * The same figures from the records themselves, without the quarter hours: each record is compared with each interval. It is
 * slow, and exists to check the stored sums. Orders, refunds, checkouts and usage are read from their own tables.
 */

/** The columns of a source of facts. */
const columns = sql.raw('(organization_id, measure, at, count, amount, currency, customer_id, product_id)')

const classSql = sql.raw(
  `case when o.subscription_id is null then 'one_time' when o.billing_reason = 'subscription_create' then 'new' when o.billing_reason = 'subscription_cycle' then 'renewed' else 'changed' end`,
)

/** The records of each kind of measure. The moment of a payment or a success is only in its fact. */
const sources: Readonly<Record<'orders' | 'refunds' | 'checkouts' | 'subscriptions', RawBuilder<unknown>>> = {
  orders: sql`
    select o.organization_id, 'orders.' || ${classSql}, f.at, 1::bigint, o.net_amount, o.currency, o.customer_id, o.product_id from orders o
    join metric_facts f on f.organization_id = o.organization_id and f.resource_id = o.id and f.measure = 'orders.' || ${classSql}
    where o.status in ('paid', 'refunded', 'partially_refunded')`,
  refunds: sql`
    select o.organization_id, 'refunds.' || ${classSql}, t.business_at, sign(e.amount)::bigint, e.amount, e.currency, o.customer_id, o.product_id
    from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id and e.account = 'revenue'
    left join refunds r on r.organization_id = t.organization_id and r.id = t.reference
    left join disputes d on d.organization_id = t.organization_id and d.id = t.reference
    join orders o on o.organization_id = t.organization_id and o.id = coalesce(r.order_id, d.order_id)
    where t.kind in ('refund_paid', 'refund_reversed', 'dispute_lost')`,
  checkouts: sql`
    select c.organization_id, 'checkouts.created', c.created_at, 1::bigint, 0::bigint, null::text, f.customer_id, f.product_id from checkouts c
    join metric_facts f on f.organization_id = c.organization_id and f.resource_id = c.id and f.measure = 'checkouts.created'
    union all
    select c.organization_id, 'checkouts.succeeded', f.at, 1::bigint, 0::bigint, null::text, c.customer_id, c.product_id from checkouts c
    join metric_facts f on f.organization_id = c.organization_id and f.resource_id = c.id and f.measure = 'checkouts.succeeded'
    where c.status = 'succeeded'`,
  subscriptions: sql`
    select organization_id, measure, at, count, amount, currency, customer_id, product_id from metric_facts
    where measure in ('subscriptions.started', 'subscriptions.ended') or measure like 'subscriptions.canceled.%'`,
}

const flowsOf = (question: Question, chosen: readonly Measure[]): RawBuilder<unknown> => {
  const kinds = (Object.keys(sources) as (keyof typeof sources)[]).filter((kind) => chosen.some((measure) => measure.startsWith(kind)))
  const parts = kinds.map(
    (kind) => sql`
      select measure, at, count, amount::numeric as amount, currency from (${sources[kind]}) f ${columns}
      where ${all(conditionsOf(question))} and measure = any(${chosen}::text[])`,
  )
  if (chosen.includes('usage'))
    parts.push(
      sql`select 'usage', timestamp, 1::bigint, coalesce((metadata #>> '{_cost,amount}')::numeric, 0), 'usd' from usage_events
        where ${ofOrganizations(question)} and ${ofSubjects(question)} and source = 'user' and corrected_at is null`,
    )
  return sql.join(parts, sql` union all `)
}

/** The states of all spans, one row for each measure that a span belongs to. */
const spansOf = (question: Question, chosen: readonly Measure[]): RawBuilder<unknown> => sql`
  select m.measure, starts_at, ends_at, m.count, m.amount, currency from metric_spans cross join lateral (values
    (case when resource = 'subscription' then 'subscriptions.' || state || case when is_open then '.open' else '.ending' end end, 1::bigint, amount::numeric),
    (case when resource <> 'seat' then 'seats.total' end, seats::bigint, 0),
    (case when resource = 'seat' then 'seats.' || state end, 1, 0)) m (measure, count, amount)
  where ${all(conditionsOf(question))} and m.measure = any(${chosen}::text[])`

type Ranges = readonly { readonly from: Date | null; readonly to: Date }[]

/** Sums flows in ranges, or states at the ends of ranges. Returns the sums of each range. */
const sumsOf = async (db: Db, question: Question, kind: 'flow' | 'state', chosen: readonly Measure[], ranges: Ranges): Promise<Map<Measure, Sum>[]> => {
  const found = ranges.map(() => new Map<Measure, Sum>())
  if (chosen.length === 0) return found
  const early = new Date(0)
  const bounds = sql`unnest(${moments(ranges.map(({ from }) => from ?? early))}, ${moments(ranges.map(({ to }) => to))}) with ordinality b ("from", "to", place)`
  const matching =
    kind === 'flow'
      ? sql`from ${bounds} join (${flowsOf(question, chosen)}) f (measure, at, count, amount, currency) on f.at >= b."from" and f.at < b."to"`
      : sql`from ${bounds} join (${spansOf(question, chosen)}) f on f.starts_at < b."to" and (f.ends_at is null or f.ends_at >= b."to")`
  const { rows } = await sql<{ place: number; measure: Measure; count: string; amount: string }>`
    select b.place, f.measure, sum(f.count)::text as count, coalesce(sum(f.amount) filter (where f.currency = ${question.currency}), 0)::text as amount
    ${matching} group by 1, 2`.execute(db.q)
  for (const { place, measure, count, amount } of rows) found[place - 1]!.set(measure, { count: BigInt(count), amount: exactly(amount) })
  return found
}

type People = Extract<(typeof figures)[FigureName], { kind: 'distinct' }>['of']

const peopleOf = async (db: Db, question: Question, of: People, buckets: readonly Bucket[]): Promise<number[]> => {
  const bounds = sql`unnest(${moments(buckets.map(({ since }) => since))}, ${moments(buckets.map(({ until }) => until))}, ${moments(buckets.map(({ ends_at }) => ends_at))})
    with ordinality b (since, until, ends_at, place)`
  const spans = sql`(select customer_id, starts_at, coalesce(ends_at, 'infinity') as ends_at from metric_spans where ${all(conditionsOf(question))}
    and ${of === 'subscribers' ? sql`resource = 'subscription'` : sql`resource <> 'seat' and seats > 0`} and (ends_at is null or ends_at > starts_at))`
  const counted =
    of === 'users'
      ? sql`select count(distinct coalesce(u.customer_id, e.subject_id)) from usage_events e
          join usage_subjects u on u.organization_id = e.organization_id and u.id = e.subject_id
          where (e.organization_id, e.id) in (select organization_id, id from usage_events where ${ofOrganizations(question)} and ${ofSubjects(question)} and source = 'user' and corrected_at is null)
            and e.timestamp >= b.since and e.timestamp < b.until`
      : of === 'new_seat_customers'
        ? sql`select count(distinct (s.customer_id, s.starts_at)) from ${spans} s where s.starts_at >= b.since and s.starts_at < b.until
            and not exists (select from ${spans} o where o.customer_id = s.customer_id and o.starts_at < s.starts_at and o.ends_at >= s.starts_at)`
        : of === 'churned_seat_customers'
          ? sql`select count(distinct (s.customer_id, s.ends_at)) from ${spans} s where s.ends_at >= b.since and s.ends_at < b.until
              and not exists (select from ${spans} o where o.customer_id = s.customer_id and o.starts_at <= s.ends_at and o.ends_at > s.ends_at)`
          : sql`select count(distinct s.customer_id) from ${spans} s where s.starts_at < b.ends_at and s.ends_at >= b.ends_at`
  const { rows } = await sql<{ people: number }>`select (${counted})::int as people from ${bounds} order by b.place`.execute(db.q)
  return rows.map(({ people }) => people)
}

/** Answers all questions about the given intervals from the records themselves. The result is the same as that of `readStored`. */
export const readScratch = async (
  db: Db,
  question: Question,
  names: ReadonlySet<FigureName>,
  buckets: readonly Bucket[],
): Promise<{ of: Reading[]; whole: Reading }> => {
  const chosen = [...names].map((name) => figures[name])
  const asked = [...buckets, wholeOf(buckets)]
  const measuresOf = (holds: (figure: (typeof chosen)[number]) => boolean): Measure[] => {
    const wanted = new Set(chosen.filter(holds).flatMap((figure) => ('terms' in figure ? figure.terms.map(({ measure }) => measure) : [])))
    return measures.filter((measure) => wanted.has(measure))
  }
  const flows = await sumsOf(
    db,
    question,
    'flow',
    measuresOf((figure) => figure.kind === 'sum' && figure.span === 'flow'),
    asked.map(({ since, until }) => ({ from: since, to: until })),
  )
  const pasts = await sumsOf(
    db,
    question,
    'flow',
    measuresOf((figure) => figure.kind === 'sum' && figure.span === 'past'),
    asked.map(({ until }) => ({ from: null, to: until })),
  )
  const states = await sumsOf(
    db,
    question,
    'state',
    measuresOf((figure) => figure.kind === 'sum' && figure.span === 'state'),
    asked.map(({ ends_at }) => ({ from: null, to: ends_at })),
  )
  const before = await sumsOf(
    db,
    question,
    'state',
    measuresOf((figure) => figure.kind === 'trailing' && figure.at === 'start'),
    asked.map(({ trailing }) => ({ from: null, to: trailing })),
  )
  const during = await sumsOf(
    db,
    question,
    'flow',
    measuresOf((figure) => figure.kind === 'trailing' && figure.at === 'during'),
    asked.map(({ trailing, ends_at }) => ({ from: trailing, to: ends_at })),
  )
  const people = new Map<People, number[]>()
  for (const figure of chosen) if (figure.kind === 'distinct' && !people.has(figure.of)) people.set(figure.of, await peopleOf(db, question, figure.of, asked))
  const readings = asked.map((_, at): Reading => ({
    sum: (measure, span) => (span === 'flow' ? flows : span === 'past' ? pasts : states)[at]!.get(measure) ?? nothing,
    trailing: (measure, moment) => (moment === 'start' ? before : during)[at]!.get(measure) ?? nothing,
    distinct: (of) => people.get(of)![at]!,
  }))
  return { of: readings.slice(0, -1), whole: readings.at(-1)! }
}
