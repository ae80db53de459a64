import { sql, type RawBuilder } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

/**
 * Compares two sets of rows by their keys: rows that should be equal have sums of zero. Each check reads everything of one
 * organization again, and returns the number of keys that differ.
 */
const differing = (keys: string, one: RawBuilder<unknown>, other: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  select count(*)::int as differences from (
    select 1 from (select * from (${one}) a union all select ${sql.raw(keys)}, 0 - count, 0 - amount from (${other}) b) both_sides
    group by ${sql.raw(keys)} having sum(count) <> 0 or sum(amount) <> 0) d`

const isPaid = sql.raw(`o.status in ('paid', 'refunded', 'partially_refunded')`)

/** The checks of one organization, by their names. */
const checks: Readonly<Record<string, (organization_id: string) => RawBuilder<unknown>>> = {
  'quarter hours equal the facts': (id) =>
    differing(
      'measure, starts_at, product_id, currency',
      sql`select measure, metric_quarter_of(at) as starts_at, product_id, currency, count, amount::numeric as amount from metric_facts where organization_id = ${id} and is_folded`,
      sql`select measure, starts_at, product_id, currency, count, amount from metric_quarters where organization_id = ${id} and measure <> 'usage'`,
    ),
  'usage equals the events': (id) =>
    differing(
      'subject_id, starts_at',
      sql`select subject_id, starts_at, events as count, cost as amount from metric_usage where organization_id = ${id}`,
      sql`select subject_id, metric_quarter_of(timestamp) as starts_at, 1 as count, coalesce((metadata #>> '{_cost,amount}')::numeric, 0) as amount
        from usage_events where organization_id = ${id} and source = 'user' and corrected_at is null`,
    ),
  'quarter hours of usage equal the usage of all subjects': (id) =>
    differing(
      'starts_at',
      sql`select starts_at, events as count, cost as amount from metric_usage where organization_id = ${id} and is_merged`,
      sql`select starts_at, count, amount from metric_quarters where organization_id = ${id} and measure = 'usage'`,
    ),
  'facts equal the states': (id) =>
    differing(
      'resource_id, measure, at, customer_id, product_id, currency',
      sql`select resource_id, measure, at, customer_id, product_id, currency, count, amount::numeric as amount from metric_facts
        where organization_id = ${id} and (measure like 'seats.%' or measure like 'subscriptions.paid.%' or measure like 'subscriptions.trial.%')`,
      sql`select s.resource_id, m.measure, e.at, s.customer_id, s.product_id, m.currency, m.count * e.sign as count, m.amount * e.sign as amount from metric_spans s
        cross join lateral (values (s.starts_at, 1), (s.ends_at, -1)) e (at, sign)
        cross join lateral (values
          (case when resource = 'subscription' then 'subscriptions.' || state || case when is_open then '.open' else '.ending' end end, 1::bigint, s.amount::numeric, s.currency),
          (case when resource <> 'seat' and seats > 0 then 'seats.total' end, seats::bigint, 0, null),
          (case when resource = 'seat' then 'seats.' || state end, 1, 0, null)) m (measure, count, amount, currency)
        where s.organization_id = ${id} and e.at is not null and m.measure is not null`,
    ),
  'paid orders have one fact with their net amount': (id) =>
    differing(
      'resource_id, currency',
      sql`select resource_id, currency, count, amount::numeric as amount from metric_facts where organization_id = ${id} and measure like 'orders.%'`,
      sql`select o.id as resource_id, o.currency, 1 as count, o.net_amount::numeric as amount from orders o where o.organization_id = ${id} and ${isPaid}`,
    ),
  'revenue equals the ledger': (id) =>
    differing(
      'resource_id, currency',
      sql`select resource_id, currency, 0 as count, amount::numeric as amount from metric_facts where organization_id = ${id} and measure like 'orders.%'`,
      sql`select o.id as resource_id, e.currency, 0 as count, 0 - e.amount as amount from orders o
        join ledger_transactions t on t.organization_id = o.organization_id and t.kind = 'order_billed' and t.reference = o.id
        join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id and e.account = 'revenue'
        where o.organization_id = ${id} and ${isPaid}`,
    ),
  'refunds and lost disputes equal the ledger': (id) =>
    differing(
      'resource_id, at, currency',
      sql`select resource_id, at, currency, 0 as count, amount::numeric as amount from metric_facts where organization_id = ${id} and measure like 'refunds.%'`,
      sql`select t.reference as resource_id, t.business_at as at, e.currency, 0 as count, e.amount from ledger_transactions t
        join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id and e.account = 'revenue'
        where t.organization_id = ${id} and t.kind in ('refund_paid', 'refund_reversed', 'dispute_lost')`,
    ),
  'current states equal the subscriptions and seats': (id) =>
    differing(
      'resource_id, customer_id, product_id, is_open, seats',
      sql`select resource_id, customer_id, case when resource = 'subscription' then product_id end as product_id, is_open, case when resource = 'subscription' then seats end as seats, 1 as count, 0 as amount
        from metric_spans where organization_id = ${id} and ends_at is null and resource <> 'order'`,
      sql`select id as resource_id, customer_id, product_id, not cancel_at_period_end as is_open, coalesce(seats, 0) as seats, 1 as count, 0 as amount from subscriptions
          where organization_id = ${id} and started_at is not null and ended_at is null and status not in ('incomplete', 'incomplete_expired')
        union all select id, buyer_customer_id, null, true, null, 1, 0 from seats where organization_id = ${id} and status <> 'revoked'`,
    ),
  'starts, ends and checkouts have one fact': (id) =>
    differing(
      'resource_id, measure',
      sql`select resource_id, measure, count, 0 as amount from metric_facts where organization_id = ${id}
        and measure in ('subscriptions.started', 'subscriptions.ended', 'checkouts.created', 'checkouts.succeeded')`,
      sql`select id as resource_id, 'subscriptions.started' as measure, 1 as count, 0 as amount from subscriptions where organization_id = ${id} and started_at is not null
        union all select id, 'subscriptions.ended', 1, 0 from subscriptions where organization_id = ${id} and ended_at is not null
        union all select id, 'checkouts.created', 1, 0 from checkouts where organization_id = ${id}
        union all select id, 'checkouts.succeeded', 1, 0 from checkouts where organization_id = ${id} and status = 'succeeded'`,
    ),
}

export const checkNames = Object.keys(checks)

/** Runs one check of an organization. Returns the number of records or quarter hours that differ. */
export const runCheck = async (db: Db, name: string, organization_id: string): Promise<number> => {
  const { rows } = await sql<{ differences: number }>`${checks[name]!(organization_id)}`.execute(db.q)
  return rows[0]!.differences
}

/** Returns the organizations that exist. */
export const organizationsToCheck = async (db: Db, slug: string | undefined): Promise<{ id: string; slug: string; currency: string }[]> => {
  const { rows } = await sql<{ id: string; slug: string; currency: string }>`
    select id, slug, default_presentment_currency as currency from organizations where ${slug === undefined ? sql`deleted_at is null` : sql`slug = ${slug}`} order by slug`.execute(
    db.q,
  )
  return rows
}

/** Returns a random quarter hour with facts, of one organization or of a random one. Undefined if nothing was folded. */
export const anyQuarter = async (db: Db, organization_id: string | undefined): Promise<{ id: string; currency: string; starts_at: Date } | undefined> => {
  const { rows } = await sql<{ id: string; currency: string; starts_at: Date }>`
    select o.id, o.default_presentment_currency as currency, q.starts_at from (
      select id, default_presentment_currency from organizations o
      where ${organization_id === undefined ? sql`exists (select from metric_quarters q where q.organization_id = o.id)` : sql`o.id = ${organization_id}`}
      order by random() limit 1) o
    cross join lateral (select starts_at from metric_quarters q where q.organization_id = o.id order by random() limit 1) q`.execute(db.q)
  return rows[0]
}

/** Stores how many values of a sample differed. Old results are deleted. */
export const saveCheck = async (tx: Tx, organization_id: string, differences: number): Promise<void> => {
  await sql`delete from metric_checks where checked_at < ${tx.clock.wall()}::timestamptz - interval '7 days'`.execute(tx.q)
  await sql`insert into metric_checks (organization_id, checked_at, differences) values (${organization_id}, ${tx.clock.wall()}, ${differences})`.execute(tx.q)
}

/** Returns the number of values that differed in the samples of the last day. */
export const loadDrift = async (db: Db, now: Date): Promise<number> => {
  const { rows } = await sql<{ drift: number }>`
    select coalesce(sum(differences), 0)::int as drift from metric_checks where checked_at > ${now}::timestamptz - interval '1 day'`.execute(db.q)
  return rows[0]!.drift
}

/**
 * Replaces the quarter hours of one measure by the sums of its folded facts. A reader sees the old sums until the transaction
 * is committed, and then the new ones. The caller holds the lock of folding.
 */
export const rebuildMeasure = async (tx: Tx, organization_id: string, measure: string): Promise<void> => {
  await sql`delete from metric_quarters where organization_id = ${organization_id} and measure = ${measure}`.execute(tx.q)
  const facts =
    measure === 'usage'
      ? sql`select starts_at, null::uuid as product_id, 'usd' as currency, events as count, cost as amount from metric_usage where organization_id = ${organization_id} and is_merged`
      : sql`select metric_quarter_of(at) as starts_at, product_id, currency, count, amount from metric_facts
          where organization_id = ${organization_id} and measure = ${measure} and is_folded`
  await sql`
    insert into metric_quarters (organization_id, measure, starts_at, product_id, currency, count, amount, facts)
    select ${organization_id}, ${measure}, starts_at, product_id, currency, sum(count), sum(amount), count(*) from (${facts}) f group by 3, 4, 5`.execute(tx.q)
}
