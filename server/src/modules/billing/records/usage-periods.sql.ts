import type { Meter } from '@bursar/contract'
import { sql } from 'kysely'
import { newId } from '../../../kernel/ids.ts'
import type { BusinessTx, Tx } from '../../../platform/postgres/postgres.ts'

/** A time in which a subscription is billed for usage on a meter, at one price. Numbers of units are decimal text. */
export interface UsagePeriodRow {
  organization_id: string
  id: string
  created_at: Date
  subscription_id: string
  customer_id: string
  meter_id: string
  price_id: string
  unit_amount: string
  cap_amount: number | null
  currency: string
  /** The start of the billing period of the subscription. Credits without rollover are given for one billing period. */
  billing_start: Date
  starts_at: Date
  /** Null while the period is open. */
  ends_at: Date | null
  closed_at: Date | null
  billed_quantity: string
  billed_amount: number
  /** The units of credits that the billed quantity has used. */
  credited_units: string
  /** True if the usage may differ from the billed quantity. */
  is_unsettled: boolean
  /** The definition of the meter when the ended period was last settled. Null: it was not settled since it ended. */
  settled_as: string | null
  /** When the last order after the end of the subscription was made. */
  final_at: Date | null
  unbilled_quantity: string
  unbilled_amount: number
  due_at: Date | null
  clock_id: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    usage_periods: UsagePeriodRow
  }
}

/** The open period of a metered price, as it is loaded with its subscription. */
export interface OpenPeriod {
  readonly id: string
  readonly price_id: string
  readonly meter_id: string
  readonly starts_at: Date
}

export interface Key {
  readonly organization_id: string
  readonly id: string
}

/** Usage that arrives within this time after the end of a subscription is billed with one last order. */
export const lateUsageDays = 35

/**
 * Locks the usage of a customer until the transaction ends, so that its periods never overlap. This is a statement of its own. The
 * next statement then sees everything that the last holder of the lock has committed. Other locks of usage are taken after it.
 */
export const holdUsage = async (
  tx: Tx,
  { organization_id, customer_id }: { readonly organization_id: string; readonly customer_id: string },
): Promise<void> => {
  await sql`select hold_usage(${organization_id}, ${customer_id})`.execute(tx.q)
}

/** Holds the meters of periods that were never billed, because a settlement may fix their filter and aggregation. */
const holdMeters = async (tx: Tx, organization_id: string, periods: ReturnType<typeof sql>): Promise<void> => {
  await sql`
    select from meters where organization_id = ${organization_id} and billed_at is null
      and id in (select p.meter_id from usage_periods p where ${periods}) order by id for no key update`.execute(tx.q)
}

/**
 * Ends open periods of a subscription, and attaches their credits. The caller has called `holdUsage`. First locks the meters and all
 * periods that a settlement may need, in the sequence of their ids. The merge of totals locks periods in the same sequence, so the
 * two cannot deadlock.
 */
export const closePeriods = async (tx: BusinessTx, { organization_id, id }: Key, ids: readonly string[], ends_at: Date): Promise<void> => {
  const waiting = sql`p.organization_id = ${organization_id} and p.subscription_id = ${id} and (p.ends_at is null or p.is_unsettled)`
  await holdMeters(tx, organization_id, waiting)
  await sql`select from usage_periods p where ${waiting} order by p.id for no key update`.execute(tx.q)
  await sql`
    update usage_periods set ends_at = greatest(starts_at, ${ends_at}::timestamptz), closed_at = ${tx.clock.business()}, is_unsettled = true
    where organization_id = ${organization_id} and id = any(${ids}::uuid[]) and ends_at is null`.execute(tx.q)
  await attachCredits(tx, organization_id, ids)
}

/**
 * Attaches the credits that apply to periods: those of grants in force, for the same billing period or beyond it. Credits of other
 * subscriptions without rollover apply to the time until the next credit or the revocation. Settlements use these credits only, even if the
 * grant is revoked later. A trigger attaches credits of a billing period that are given after its end.
 */
export const attachCredits = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<void> => {
  await sql`
    insert into usage_credit_uses (organization_id, period_id, credit_id, since, until)
    select p.organization_id, p.id, c.id, w.since, w.until from usage_periods p ${creditsOfPeriod}
    where p.organization_id = ${organization_id} and p.id = any(${ids}::uuid[]) and ${appliesToPeriod}
    on conflict (organization_id, period_id, credit_id) do update set until = excluded.until
      where usage_credit_uses.since is not null and usage_credit_uses.until is distinct from excluded.until`.execute(tx.q)
}

/**
 * SQL that joins the credits `c` of grants `g` to the usage period `p` of their customer. `w` is the range that the credit applies to: from its
 * billing period on until the next credit of the grant, or until its revocation. Null for credits that apply to the whole usage period.
 */
export const creditsOfPeriod = sql`
  join benefit_grants g on g.organization_id = p.organization_id and g.buyer_customer_id = p.customer_id
  join meter_credits c on c.organization_id = g.organization_id and c.grant_id = g.id and c.meter_id = p.meter_id
  cross join lateral (
    select c.period_start as since, least(g.revoked_at,
      (select min(n.period_start) from meter_credits n where n.organization_id = c.organization_id and n.grant_id = c.grant_id and n.period_start > c.period_start)) as until
    where not c.rollover and g.subscription_id is distinct from p.subscription_id
    union all select null, null where c.rollover or g.subscription_id is not distinct from p.subscription_id
  ) w`

/** SQL condition: the credit `c` of the grant `g` applies to the usage period `p`, in the range `w`. */
export const appliesToPeriod = sql`(
  (g.granted_at is not null and g.is_wanted and (
    (g.subscription_id = p.subscription_id and c.period_start = p.billing_start)
    or (c.created_at < coalesce(p.ends_at, 'infinity') and (c.rollover or c.period_start is null))))
  or (w.since < coalesce(p.ends_at, 'infinity') and c.created_at < coalesce(p.ends_at, 'infinity')
    and coalesce(w.until, 'infinity') > greatest(p.starts_at, w.since) and (g.revoked_at is not null or (g.granted_at is not null and g.is_wanted))))`

/** A metered price that begins to be billed. */
export interface NewPeriod extends Pick<UsagePeriodRow, 'organization_id' | 'subscription_id' | 'customer_id' | 'currency' | 'billing_start' | 'clock_id'> {
  readonly prices: readonly { readonly id: string; readonly meter_id: string; readonly unit_amount: string; readonly cap_amount: number | null }[]
}

/**
 * Opens periods of metered prices. A period begins at `from`, but not before the last period of this customer and meter has ended.
 * Skips a meter that another subscription of the customer is billed for, or another price of this subscription. The caller has called
 * `holdUsage`. Otherwise the end of a period that is not committed yet would be overlooked.
 */
export const openPeriods = async (tx: BusinessTx, { prices, ...period }: NewPeriod, from: Date): Promise<void> => {
  const { organization_id, subscription_id, customer_id, currency, billing_start, clock_id } = period
  await sql`
    insert into usage_periods
      (organization_id, id, created_at, subscription_id, customer_id, meter_id, price_id, unit_amount, cap_amount, currency, billing_start, starts_at, clock_id)
    select ${organization_id}::uuid, n.id, ${tx.clock.business()}::timestamptz, ${subscription_id}::uuid, ${customer_id}::uuid, n.meter_id, n.price_id,
      n.unit_amount, n.cap_amount, ${currency}::text, ${billing_start}::timestamptz,
      greatest(${from}::timestamptz, (select max(p.ends_at) from usage_periods p
        where p.organization_id = ${organization_id} and p.customer_id = ${customer_id} and p.meter_id = n.meter_id)),
      ${clock_id}::uuid
    from unnest(
      ${prices.map(() => newId(tx.clock.wall()))}::uuid[], ${prices.map(({ meter_id }) => meter_id)}::uuid[], ${prices.map(({ id }) => id)}::uuid[],
      ${prices.map(({ unit_amount }) => unit_amount)}::text[], ${prices.map(({ cap_amount }) => cap_amount)}::bigint[]
    ) n (id, meter_id, price_id, unit_amount, cap_amount)
    on conflict (organization_id, customer_id, meter_id) where ends_at is null do nothing`.execute(tx.q)
}

/**
 * Opens the periods of imported subscriptions, from the start of their current billing period on. The number of statements does not
 * depend on the number of subscriptions. If several subscriptions of a customer have a price on one meter, the first is billed.
 */
export const openImportedPeriods = async (tx: BusinessTx, organization_id: string, subscription_ids: readonly string[]): Promise<void> => {
  if (subscription_ids.length === 0) return
  const metered = sql`
    from subscriptions s
    join subscription_prices b on b.organization_id = s.organization_id and b.subscription_id = s.id
    join product_prices r on r.organization_id = b.organization_id and r.id = b.price_id and r.meter_id is not null
    where s.organization_id = ${organization_id} and s.id = any(${subscription_ids}::uuid[]) and s.status in ('active', 'past_due')`
  const { rows } = await sql`
    select hold_usage(${organization_id}, c.customer_id) from (select distinct s.customer_id ${metered} order by 1) c`.execute(tx.q)
  if (rows.length === 0) return
  await sql`
    insert into usage_periods
      (organization_id, id, created_at, subscription_id, customer_id, meter_id, price_id, unit_amount, cap_amount, currency, billing_start, starts_at, clock_id)
    select distinct on (s.customer_id, r.meter_id) s.organization_id, gen_random_uuid(), ${tx.clock.business()}::timestamptz, s.id, s.customer_id, r.meter_id,
      r.id, r.unit_amount, r.cap_amount, s.currency, s.current_period_start,
      greatest(coalesce(s.current_meter_period_start, s.current_period_start), (select max(p.ends_at) from usage_periods p
        where p.organization_id = s.organization_id and p.customer_id = s.customer_id and p.meter_id = r.meter_id)),
      s.clock_id
    ${metered} order by s.customer_id, r.meter_id, s.created_at, s.id, b.position
    on conflict (organization_id, customer_id, meter_id) where ends_at is null do nothing`.execute(tx.q)
}

/**
 * Schedules the last order for late usage of an ended subscription. All its periods become due, also settled and old ones, because
 * usage of each may still arrive. Locks them in the sequence of their ids.
 */
export const scheduleLastUsage = async (tx: BusinessTx, { organization_id, id }: Key, ended_at: Date): Promise<void> => {
  const waiting = sql`organization_id = ${organization_id} and subscription_id = ${id} and ends_at is not null and final_at is null`
  await sql`select from usage_periods where ${waiting} order by id for no key update`.execute(tx.q)
  await sql`update usage_periods set due_at = ${ended_at}::timestamptz + ${`${lateUsageDays} days`}::interval where ${waiting}`.execute(tx.q)
}

/** A period to settle, with its meter. */
export interface UnsettledPeriod extends UsagePeriodRow {
  readonly meter: Pick<Meter, 'id' | 'name' | 'filter' | 'aggregation'>
  /** The present definition of the meter: its filter and its aggregation. */
  readonly definition: string
}

/**
 * Locks periods of a locked subscription, so that no other transaction bills the same usage. Locks in the sequence of all code: the usage
 * of the customer, meters, periods by their ids. `open` and `due` add further periods to those that wait for a settlement.
 */
export const lockUnsettled = async (
  tx: Tx,
  { organization_id, id, customer_id }: Key & { readonly customer_id: string },
  { open = [], due = false }: { readonly open?: readonly string[]; readonly due?: boolean } = {},
): Promise<UnsettledPeriod[]> => {
  const chosen = sql`p.organization_id = ${organization_id} and p.subscription_id = ${id}
    and (p.is_unsettled or p.id = any(${open}::uuid[])${due ? sql` or p.due_at is not null` : sql``}) and p.final_at is null`
  const { rows: found } = await sql`select from usage_periods p where ${chosen} limit 1`.execute(tx.q)
  if (found.length === 0) return []
  await holdUsage(tx, { organization_id, customer_id })
  await holdMeters(tx, organization_id, chosen)
  return selectLocked(tx, chosen)
}

const selectLocked = async (tx: Tx, condition: ReturnType<typeof sql>): Promise<UnsettledPeriod[]> =>
  (
    await sql<UnsettledPeriod>`
      select p.*, json_build_object('id', m.id, 'name', m.name, 'filter', m.filter, 'aggregation', m.aggregation) as meter,
        meter_definition(m.filter, m.aggregation) as definition
      from usage_periods p join meters m on m.organization_id = p.organization_id and m.id = p.meter_id
      where ${condition} order by p.id for no key update of p`.execute(tx.q)
  ).rows.toSorted((a, b) => a.starts_at.getTime() - b.starts_at.getTime())

/** Returns the subscription of a period, without locking it. The subscription must be locked first. */
export const findPeriod = async (tx: Tx, { organization_id, id }: Key): Promise<Pick<UsagePeriodRow, 'subscription_id'> | undefined> =>
  tx.q.selectFrom('usage_periods').select('subscription_id').where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Locks the periods of a locked subscription that are due or wait for a settlement, in the sequence of `lockUnsettled`. */
export const lockDuePeriods = async (tx: Tx, { organization_id, id, customer_id }: Key & { readonly customer_id: string }): Promise<void> => {
  const due = sql`p.organization_id = ${organization_id} and p.subscription_id = ${id} and (p.is_unsettled or p.due_at is not null)`
  await holdUsage(tx, { organization_id, customer_id })
  await holdMeters(tx, organization_id, due)
  await sql`select from usage_periods p where ${due} order by p.id for no key update`.execute(tx.q)
}

/** Locks one period in any state. Several periods must be locked together. */
export const lockPeriod = async (tx: Tx, { organization_id, id }: Key): Promise<UnsettledPeriod | undefined> =>
  (await selectLocked(tx, sql`p.organization_id = ${organization_id} and p.id = ${id}`))[0]
