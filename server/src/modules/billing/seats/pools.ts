import type { Reach } from '../../../kernel/actors.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { lockOrder, type OrderRow } from '../orders/orders.sql.ts'
import { lockSubscription, type SubscriptionRow } from '../subscriptions/subscriptions.sql.ts'
import { billable } from '../subscriptions/telling.ts'
import { loadUpdates, type UpdateRow } from '../subscriptions/updates.sql.ts'
import { findOrderRow, findSubscriptionRow, type Pool, type PoolKey, type PoolNaming } from './pools.sql.ts'

/** The pool that a caller means, wherever in reach; what a checkout became is looked for among subscriptions first. */
export const findPool = async (db: Db, reach: Reach, { subscription_id, order_id, checkout_id }: PoolNaming): Promise<Pool | undefined> => {
  const bought = checkout_id ? { checkout_id } : undefined
  const first = subscription_id ? { id: subscription_id } : bought
  const subscription = first && (await findSubscriptionRow(db, reach, first))
  if (subscription) return ofSubscription(subscription, await loadUpdates(db, [{ tenant: subscription.organization_id, id: subscription.id }]))
  const second = order_id ? { id: order_id } : bought
  const order = second && (await findOrderRow(db, reach, second))
  return order && ofOrder(order)
}

/** Holds the pool: its seats are given and counted by one caller at a time, and nobody changes their number meanwhile. */
export const lockPool = async (tx: Tx, reach: Reach, { organization_id, subscription_id, order_id }: PoolKey): Promise<Locked<Pool>> => {
  if (subscription_id !== null) {
    const row = await lockSubscription(tx, reach, subscription_id)
    return ofSubscription(row!, await loadUpdates(tx, [{ tenant: organization_id, id: subscription_id }])) as Locked<Pool>
  }
  return ofOrder((await lockOrder(tx, reach, order_id!))!) as Locked<Pool>
}

const ended: readonly SubscriptionRow['status'][] = ['canceled', 'unpaid']
const settled: readonly OrderRow['status'][] = ['paid', 'partially_refunded']

const ofSubscription = (subscription: SubscriptionRow, updates: readonly UpdateRow[]): Pool => {
  const { organization_id, id, customer_id, product_id, clock_id, seats, status } = subscription
  const closed =
    seats === null
      ? 'This subscription is not priced by seat.'
      : billable.includes(status) && subscription.ended_at === null
        ? null
        : `This subscription is ${status}: it gives no seats.`
  const coming = updates.flatMap((update) => (update.subscription_id === id && update.seats !== null ? [update.seats] : []))
  const places = Math.min(seats ?? 0, ...coming)
  const pool = { organization_id, subscription_id: id, order_id: null, customer_id, product_id, clock_id }
  return { ...pool, bought: seats ?? 0, places, closed, over: ended.includes(status) }
}

const ofOrder = ({ organization_id, id, customer_id, product_id, clock_id, seats, status, subscription_id, benefits_revoked_at }: OrderRow): Pool => {
  const over = benefits_revoked_at !== null
  const closed = over
    ? 'What this order gave was taken back with its refund.'
    : subscription_id !== null
      ? 'This order belongs to a subscription, which has the seats: give its subscription_id.'
      : seats === null
        ? 'This order is not priced by seat.'
        : settled.includes(status)
          ? null
          : `This order is ${status}: it gives no seats.`
  const bought = subscription_id === null ? (seats ?? 0) : 0
  return { organization_id, subscription_id: null, order_id: id, customer_id, product_id, clock_id, bought, places: bought, closed, over }
}
