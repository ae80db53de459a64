import { sql } from 'kysely'
import { newId } from '../../../kernel/ids.ts'
import { insertRows } from '../../../platform/postgres/many.sql.ts'
import type { BusinessTx, Tx } from '../../../platform/postgres/postgres.ts'
import type { PeriodCredit } from '../calc/usage-credits.ts'
import { lateUsageDays, type Key } from './usage-periods.sql.ts'

/** An order line of usage, as a difference to earlier lines of the period. */
interface SettlementRow {
  organization_id: string
  id: string
  created_at: Date
  period_id: string
  order_id: string
  quantity: string
  /** The difference of the amount before discounts. */
  amount: number
  /** The amount that the order charges for it: after its discount, or the credit that it gives. */
  charged_amount: number
  /** True if the row takes back a credit whose money was refunded. */
  is_taken_back: boolean
  voided_at: Date | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    usage_settlements: SettlementRow
  }
}

/** Returns the credits of periods, in the sequence in which they are used: first those that end first, then the oldest. */
export const applicableCredits = async (tx: Tx, organization_id: string, period_ids: readonly string[]): Promise<PeriodCredit[]> => {
  const { rows } = await sql<PeriodCredit>`
    select u.period_id, u.credit_id, u.since, u.until, (c.units - coalesce(
      (select sum(o.units) from usage_credit_uses o where o.organization_id = u.organization_id and o.credit_id = u.credit_id
        and o.period_id <> all(${period_ids}::uuid[])), 0))::text as left
    from usage_credit_uses u join meter_credits c on c.organization_id = u.organization_id and c.id = u.credit_id
    join usage_periods p on p.organization_id = u.organization_id and p.id = u.period_id
    where u.organization_id = ${organization_id} and u.period_id = any(${period_ids}::uuid[])
    order by ${usedFirst('u')}`.execute(tx.q)
  return rows
}

/** SQL for the sequence of the credits `c` of the period `p`. A credit with a range ends with it. The range is in the given row. */
export const usedFirst = (range: 'u' | 'w') => sql`
  c.rollover or c.period_start is null, case when ${sql.ref(`${range}.since`)} is null then p.ends_at else ${sql.ref(`${range}.until`)} end nulls last, c.created_at, c.id`

/** The new state of a settled period, and its difference to the earlier state. */
export interface SettledPeriod {
  readonly id: string
  readonly meter_id: string
  /** The definition of the meter that the quantity was computed with. */
  readonly settled_as: string
  readonly quantity: string
  readonly amount: number
  readonly credited: string
  readonly more_quantity: string
  readonly more_amount: number
  /** The amount of the order line: `more_amount`, or a smaller credit. */
  readonly line_amount: number
  readonly uses: readonly { readonly credit_id: string; readonly units: string }[]
}

/** An order that bills usage, and the amount after discounts of the line of each period. */
export interface BilledOrder {
  readonly id: string
  readonly charged: ReadonlyMap<string, number>
}

/**
 * Stores what the lines of an order have billed. Without an order, the amounts are equal to those that were billed before. The first
 * settled quantity fixes the meter, also if it costs nothing. A quantity of 0 fixes only its own period: `settled_as` keeps the
 * definition of the meter. A period that has not ended is computed again in any case.
 */
export const saveSettled = async (tx: BusinessTx, organization_id: string, settled: readonly SettledPeriod[], order: BilledOrder | null): Promise<void> => {
  if (settled.length === 0) return
  await sql`
    update usage_periods p set billed_quantity = v.quantity, billed_amount = v.amount, credited_units = v.credited, is_unsettled = false,
      settled_as = case when p.ends_at is not null then v.settled_as end
    from unnest(${settled.map(({ id }) => id)}::uuid[], ${settled.map(({ quantity }) => quantity)}::numeric[], ${settled.map(({ amount }) => amount)}::bigint[],
      ${settled.map(({ credited }) => credited)}::numeric[], ${settled.map(({ settled_as }) => settled_as)}::text[]) v (id, quantity, amount, credited, settled_as)
    where p.organization_id = ${organization_id} and p.id = v.id`.execute(tx.q)
  const uses = settled.flatMap(({ id: period_id, uses: own }) => own.map((use) => ({ period_id, ...use })))
  if (uses.length > 0)
    await sql`
      update usage_credit_uses u set units = v.units
      from unnest(${uses.map(({ period_id }) => period_id)}::uuid[], ${uses.map(({ credit_id }) => credit_id)}::uuid[], ${uses.map(({ units }) => units)}::numeric[])
        v (period_id, credit_id, units)
      where u.organization_id = ${organization_id} and u.period_id = v.period_id and u.credit_id = v.credit_id and u.units <> v.units`.execute(tx.q)
  const metered = settled.filter(({ quantity }) => quantity !== '0').map(({ meter_id }) => meter_id)
  if (metered.length > 0)
    await sql`
      update meters set billed_at = ${tx.clock.wall()} where organization_id = ${organization_id} and id = any(${metered}::uuid[]) and billed_at is null`.execute(
      tx.q,
    )
  const billed = settled.filter(({ more_amount }) => more_amount !== 0)
  if (order === null || billed.length === 0) return
  const created_at = tx.clock.business()
  const rows = billed.map(({ id: period_id, more_quantity: quantity, more_amount: amount }) => ({
    organization_id,
    id: newId(tx.clock.wall()),
    created_at,
    period_id,
    order_id: order.id,
    quantity,
    amount,
    charged_amount: order.charged.get(period_id) ?? 0,
    is_taken_back: false,
  }))
  await insertRows('usage_settlements', rows).execute(tx.q)
}

/**
 * Returns true if an order bills usage. Then first locks the usage of the customer, because `releaseUsage` needs it. Call this before
 * the locks of the ledger are taken.
 */
export const holdBilledUsage = async (tx: Tx, { organization_id, customer_id, id }: Key & { readonly customer_id: string }): Promise<boolean> => {
  const { rows } = await sql`
    select hold_usage(${organization_id}, ${customer_id})
    where exists (select from usage_settlements where organization_id = ${organization_id} and order_id = ${id} and voided_at is null)`.execute(tx.q)
  return rows.length > 0
}

/**
 * Takes back the usage lines of a voided order, so that the next order bills them again. If the subscription has ended, this is its last
 * order. If that was the voided one, the amounts are listed as unbilled. The caller has called `holdBilledUsage`.
 */
export const releaseUsage = async (tx: BusinessTx, organization_id: string, order_id: string): Promise<void> => {
  await sql`
    select from usage_periods where organization_id = ${organization_id}
      and id in (select period_id from usage_settlements where organization_id = ${organization_id} and order_id = ${order_id} and voided_at is null)
    order by id for no key update`.execute(tx.q)
  await sql`
    with voided as (
      update usage_settlements set voided_at = ${tx.clock.business()} where organization_id = ${organization_id} and order_id = ${order_id} and voided_at is null
      returning period_id, quantity, amount
    )
    update usage_periods p set billed_quantity = p.billed_quantity - v.quantity, billed_amount = p.billed_amount - v.amount,
      is_unsettled = p.ends_at is not null,
      due_at = case when s.ended_at is null then p.due_at when p.final_at is null then s.ended_at + ${`${lateUsageDays} days`}::interval
        else ${tx.clock.business()}::timestamptz end
    from voided v, subscriptions s
    where p.organization_id = ${organization_id} and p.id = v.period_id and s.organization_id = p.organization_id and s.id = p.subscription_id`.execute(tx.q)
}

/** The amount that an order line of usage has charged for a period. Negative for a credit. */
export interface ChargedUsage {
  readonly period_id: string
  readonly order_id: string
  readonly order_status: string
  readonly charged_amount: number
  readonly is_taken_back: boolean
}

/** Returns the order lines of periods that still stand, oldest first. */
export const chargedUsage = async (tx: Tx, organization_id: string, period_ids: readonly string[]): Promise<ChargedUsage[]> =>
  (
    await sql<ChargedUsage>`
      select u.period_id, u.order_id, o.status as order_status, u.charged_amount, u.is_taken_back from usage_settlements u
      join orders o on o.organization_id = u.organization_id and o.id = u.order_id
      where u.organization_id = ${organization_id} and u.period_id = any(${period_ids}::uuid[]) and u.voided_at is null
      order by u.created_at, u.id`.execute(tx.q)
  ).rows

/** A period that an order has billed, with the price and the name of its meter. */
export interface BilledPeriod {
  readonly id: string
  readonly price_id: string
  readonly meter: string
  readonly starts_at: Date
  readonly ends_at: Date | null
}

/** Returns the periods of the lines of usage of an order. */
export const periodsBilledBy = async (tx: Tx, organization_id: string, order_id: string): Promise<BilledPeriod[]> =>
  (
    await sql<BilledPeriod>`
      select p.id, p.price_id, m.name as meter, p.starts_at, p.ends_at from usage_periods p
      join meters m on m.organization_id = p.organization_id and m.id = p.meter_id
      where p.organization_id = ${organization_id} and p.id in (
        select u.period_id from usage_settlements u where u.organization_id = ${organization_id} and u.order_id = ${order_id} and u.voided_at is null)
      order by p.starts_at, p.id`.execute(tx.q)
  ).rows

/** Stores that an order has taken back credits for lowered usage. A negative amount restores them. */
export const saveTakenBack = async (
  tx: BusinessTx,
  organization_id: string,
  order_id: string,
  taken: readonly { readonly period_id: string; readonly amount: number }[],
): Promise<void> => {
  const created_at = tx.clock.business()
  const rows = taken.map(({ period_id, amount }) => ({
    organization_id,
    id: newId(tx.clock.wall()),
    created_at,
    period_id,
    order_id,
    quantity: '0',
    amount: 0,
    charged_amount: amount,
    is_taken_back: true,
  }))
  await insertRows('usage_settlements', rows).execute(tx.q)
}

/** Returns the amount that other periods of the same price and billing period have billed, for each of the given periods with a cap. */
export const billedBeside = async (tx: Tx, organization_id: string, period_ids: readonly string[]): Promise<ReadonlyMap<string, number>> => {
  const { rows } = await sql<{ id: string; amount: number }>`
    select p.id, coalesce(sum(o.billed_amount), 0)::bigint as amount from usage_periods p
    join usage_periods o on o.organization_id = p.organization_id and o.subscription_id = p.subscription_id and o.price_id = p.price_id
      and o.billing_start = p.billing_start and o.id <> all(${period_ids}::uuid[])
    where p.organization_id = ${organization_id} and p.id = any(${period_ids}::uuid[]) and p.cap_amount is not null group by 1`.execute(tx.q)
  return new Map(rows.map(({ id, amount }) => [id, amount]))
}

/** Ends the billing of periods. Usage that arrives from now on is listed as unbilled. */
export const finalizePeriods = async (tx: BusinessTx, { organization_id, id }: Key): Promise<void> => {
  const due = sql`organization_id = ${organization_id} and subscription_id = ${id} and final_at is null and due_at is not null`
  await sql`select from usage_periods where ${due} order by id for no key update`.execute(tx.q)
  // A period that could not be settled is due again, and is then listed as unbilled.
  await sql`
    update usage_periods set final_at = ${tx.clock.business()}, due_at = case when is_unsettled then ${tx.clock.business()}::timestamptz end
    where ${due}`.execute(tx.q)
}

/** Stores the usage of a period that is not billed any more. */
export const saveUnbilled = async (tx: BusinessTx, { organization_id, id }: Key, quantity: string, amount: number): Promise<void> => {
  await sql`
    update usage_periods set unbilled_quantity = ${quantity}::numeric, unbilled_amount = ${amount}, is_unsettled = false,
      final_at = coalesce(final_at, ${tx.clock.business()})
    where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
}
