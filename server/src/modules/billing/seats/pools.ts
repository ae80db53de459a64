import type { MemberPhase, TenantScope } from '../../../kernel/actors.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { lockOrder, type OrderRow } from '../records/orders.sql.ts'
import { lockSubscription, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import { billable } from '../records/subscription-events.ts'
import {
  findOrderSeats,
  findSubscriptionSeats,
  sumPools,
  type Pool,
  type PoolKey,
  type PoolNaming,
  type Purchase,
  type SeatOrder,
  type SeatSubscription,
} from './pools.sql.ts'

/** A pool that was found without a lock. */
export interface FoundPool extends Pool {
  /** True if the organization sells seats. */
  readonly sells: boolean
}

/** Finds the pool that a request names, within the scope. A checkout id is looked up among subscriptions first. */
export const findPool = (db: Db, scope: TenantScope, naming: PoolNaming): Promise<FoundPool | undefined> => find(db, scope, naming, 'no lock')

/** Finds a pool like `findPool`, and locks the member phase of its organization like `holdPhase`. The pool is not locked. */
export const findPoolInPhase = async (tx: Tx, scope: TenantScope, naming: PoolNaming): Promise<(FoundPool & { phase: MemberPhase }) | undefined> => {
  const pool = await find(tx, scope, naming, 'phase locked')
  return pool && { ...pool, phase: pool.phase! }
}

const find = async (db: Db, scope: TenantScope, { subscription_id, order_id, checkout_id }: PoolNaming, lock: 'phase locked' | 'no lock') => {
  const bought = checkout_id ? { checkout_id } : undefined
  const first = subscription_id ? { id: subscription_id } : bought
  const subscription = first && (await findSubscriptionSeats(db, scope, first, lock))
  if (subscription) return { ...withPlaces(ofSubscription(subscription), subscription.coming), sells: subscription.sells, phase: subscription.phase }
  const second = order_id ? { id: order_id } : bought
  const order = second && (await findOrderSeats(db, scope, second, lock))
  return order && { ...withPlaces(ofOrder(order), null), sells: order.sells, phase: order.phase }
}

/**
 * Locks the subscription or order of the pool. Seats are then assigned and counted by one transaction at a time, and
 * the number of bought seats cannot change.
 */
export const lockPurchase = async (tx: Tx, scope: TenantScope, { subscription_id, order_id }: PoolKey): Promise<Locked<Purchase>> =>
  markLocked(
    subscription_id === null ? ofOrder((await lockOrder(tx, scope, order_id!))!) : ofSubscription((await lockSubscription(tx, scope, subscription_id))!),
  )

/** Adds the number of seats that may be assigned. `coming` is the lowest number of seats in the scheduled changes. */
export const withPlaces = <P extends Purchase>(purchase: P, coming: number | null): P & Pool => ({
  ...purchase,
  places: Math.min(purchase.bought, coming ?? purchase.bought),
})

/** Sums the bought and the available seats of all purchases within the scope. */
export const sumAllPools = (db: Db, scope: TenantScope, now: Date) => sumPools(db, scope, now, { subscriptions: billable, orders: settled })

const ended: readonly SubscriptionRow['status'][] = ['canceled', 'unpaid']
const settled: readonly OrderRow['status'][] = ['paid', 'partially_refunded']

const ofSubscription = ({ organization_id, id, customer_id, product_id, clock_id, seats, status, ended_at }: SeatSubscription): Purchase => {
  const closed =
    seats === null
      ? 'This subscription is not priced per seat.'
      : billable.includes(status) && ended_at === null
        ? null
        : `This subscription is ${status}, so it has no seats.`
  const key = { organization_id, subscription_id: id, order_id: null }
  return { ...key, customer_id, product_id, clock_id, bought: seats ?? 0, closed, over: ended.includes(status) }
}

const ofOrder = ({ organization_id, id, customer_id, product_id, clock_id, seats, status, subscription_id, benefits_revoked_at }: SeatOrder): Purchase => {
  const over = benefits_revoked_at !== null
  const closed = over
    ? 'The benefits of this order were revoked with its refund.'
    : subscription_id !== null
      ? 'This order belongs to a subscription, which has the seats. Give its subscription_id.'
      : seats === null
        ? 'This order is not priced per seat.'
        : settled.includes(status)
          ? null
          : `This order is ${status}, so it has no seats.`
  const bought = subscription_id === null ? (seats ?? 0) : 0
  return { organization_id, subscription_id: null, order_id: id, customer_id, product_id, clock_id, bought, closed, over }
}
