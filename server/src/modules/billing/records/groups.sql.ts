import { sql } from 'kysely'
import { lockRows } from '../../../platform/postgres/locks.ts'
import { insertRows, updateRows } from '../../../platform/postgres/many.sql.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { taxQuoteRow, type NewOrderItem, type NewOrderTax, type NewTaxQuote, type OrderRow } from './orders.sql.ts'
import type { SubscriptionRow } from './subscriptions.sql.ts'

/** Locks subscriptions of one organization in the order of their ids. */
export const lockSubscriptions = (tx: Tx, organization_id: string, ids: readonly string[]): Promise<Locked<SubscriptionRow>[]> =>
  lockRows(tx.q.selectFrom('subscriptions').selectAll().where('organization_id', '=', organization_id).where('id', '=', oneOf(ids)).orderBy('id'))

/** Locks orders of one organization in the order of their ids. The caller has locked their subscriptions. */
export const lockOrders = (tx: Tx, organization_id: string, ids: readonly string[]): Promise<Locked<OrderRow>[]> =>
  lockRows(tx.q.selectFrom('orders').selectAll().where('organization_id', '=', organization_id).where('id', '=', oneOf(ids)).orderBy('id'))

/** The facts about a locked subscription that decide whether it can be renewed in a group. */
export interface RenewalFacts {
  /** Starts of the last periods that were billed, for the stop-loss check. Like `periodsBilled`. */
  readonly earlier: readonly Date[]
  /** True if a billing entry waits for the next order. */
  readonly has_entries: boolean
  /** True if usage of an ended period waits for the next order. */
  readonly has_unsettled_usage: boolean
}

/** Returns the renewal facts of locked subscriptions by subscription id. */
export const findRenewalFacts = async (
  tx: Tx,
  organization_id: string,
  subscriptions: readonly Locked<SubscriptionRow>[],
): Promise<Map<string, RenewalFacts>> => {
  const { rows } = await sql<RenewalFacts & { id: string }>`
    select s.id,
      array(select period_start from orders o where o.organization_id = ${organization_id} and o.subscription_id = s.id
        and o.billing_reason = 'subscription_cycle' and o.period_start >= s.calendar_from order by o.period_start desc limit 12) as earlier,
      exists (select from billing_entries e where e.organization_id = ${organization_id} and e.subscription_id = s.id and e.order_id is null) as has_entries,
      exists (select from usage_periods p where p.organization_id = ${organization_id} and p.subscription_id = s.id and p.is_unsettled) as has_unsettled_usage
    from unnest(${subscriptions.map(({ id }) => id)}::uuid[], ${subscriptions.map(({ calendar_from }) => calendar_from)}::timestamptz[]) as s (id, calendar_from)`.execute(
    tx.q,
  )
  return new Map(rows.map(({ id, ...facts }) => [id, facts]))
}

/** Updates locked subscriptions of one organization. All of them change the same columns. */
export const updateSubscriptions = async (
  tx: Tx,
  organization_id: string,
  changes: readonly (Partial<SubscriptionRow> & Pick<SubscriptionRow, 'id'>)[],
): Promise<void> => {
  await updateRows('subscriptions', organization_id, changes).execute(tx.q)
}

/** Updates locked orders of one organization. All of them change the same columns. */
export const updateOrders = async (tx: Tx, organization_id: string, changes: readonly (Partial<OrderRow> & Pick<OrderRow, 'id'>)[]): Promise<void> => {
  await updateRows('orders', organization_id, changes).execute(tx.q)
}

/** Inserts orders with their lines, taxes and tax quotes, in one statement. Each order has at least one line. */
export const insertOrders = async (
  tx: Tx,
  orders: readonly {
    readonly order: OrderRow
    readonly items: readonly NewOrderItem[]
    readonly taxes: readonly NewOrderTax[]
    readonly quote: NewTaxQuote | null
  }[],
): Promise<void> => {
  const lines = orders.flatMap(({ order: { organization_id, id: order_id, created_at }, items }) =>
    items.map((item, position) => ({ ...item, organization_id, order_id, created_at, position })),
  )
  const levied = orders.flatMap(({ order: { organization_id, created_at }, taxes }) => taxes.map((tax) => ({ ...tax, organization_id, created_at })))
  const taxed = levied.length === 0 ? sql`` : sql`, levied as (${insertRows('order_taxes', levied)})`
  const quotes = orders.flatMap(({ order, quote }) => (quote ? [taxQuoteRow(order, quote)] : []))
  const quoted = quotes.length === 0 ? sql`` : sql`, quoted as (${insertRows('tax_quotes', quotes)})`
  await sql`
    with lines as (${insertRows('order_items', lines)})${taxed}${quoted}
    ${insertRows(
      'orders',
      orders.map(({ order }) => order),
    )}`.execute(tx.q)
}

/** The facts about a charged payment that decide whether its result can be recorded in a group. */
export interface PaymentFacts {
  /** True if the order pays for a subscription change. */
  readonly is_change: boolean
  /** True if the order contains proration credits, whose payments may have been refunded since. */
  readonly has_credits: boolean
  /** True if the payment method was deleted during the charge, but not yet at the processor. */
  readonly is_method_deleted: boolean
}

/** Returns the facts about locked payments of one organization, by payment id. */
export const findPaymentFacts = async (tx: Tx, organization_id: string, payment_ids: readonly string[]): Promise<Map<string, PaymentFacts>> => {
  const { rows } = await sql<PaymentFacts & { id: string }>`
    select p.id,
      exists (select from subscription_updates u where u.organization_id = ${organization_id} and u.order_id = p.order_id) as is_change,
      exists (select from proration_credits k left join billing_entries e on e.organization_id = k.organization_id and e.id = k.entry_id
        where k.organization_id = ${organization_id} and k.subscription_id = o.subscription_id and coalesce(k.order_id, e.order_id) = o.id) as has_credits,
      exists (select from payment_methods m where m.organization_id = ${organization_id} and m.id = p.payment_method_id
        and m.deleted_at is not null and m.forgotten_at is null) as is_method_deleted
    from payments p join orders o on o.organization_id = p.organization_id and o.id = p.order_id
    where p.organization_id = ${organization_id} and p.id = any(${payment_ids}::uuid[])`.execute(tx.q)
  return new Map(rows.map(({ id, ...facts }) => [id, facts]))
}
