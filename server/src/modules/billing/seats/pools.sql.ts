import type { Reach } from '../../../kernel/actors.ts'
import type { Clocked } from '../../../platform/clocks.sql.ts'
import { withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { OrderRow } from '../orders/orders.sql.ts'
import type { SubscriptionRow } from '../subscriptions/subscriptions.sql.ts'

/** Which seats: those of a subscription, or those of an order. */
export interface PoolKey {
  readonly organization_id: string
  readonly subscription_id: string | null
  readonly order_id: string | null
}

/** The seats that were bought at once, and are given out together. */
export interface Pool extends PoolKey, Clocked {
  /** Who pays for them. */
  readonly customer_id: string
  readonly product_id: string | null
  /** As many as were bought. */
  readonly bought: number
  /** As many as may be given: a smaller number to come counts already. */
  readonly places: number
  /** Why none can be given or claimed at this moment; null where they can. */
  readonly closed: string | null
  /** It gives nothing any more, to nobody. */
  readonly over: boolean
}

/** How a caller names a pool. */
export interface PoolNaming {
  readonly subscription_id?: string | null | undefined
  readonly order_id?: string | null | undefined
  readonly checkout_id?: string | null | undefined
}

/** A subscription by its own id, or by the checkout that it was bought through. */
export const findSubscriptionRow = (db: Db, reach: Reach, by: { id: string } | { checkout_id: string }): Promise<SubscriptionRow | undefined> => {
  const found = db.q.selectFrom('subscriptions').selectAll().where('organization_id', '=', withinReach(reach))
  return ('id' in by ? found.where('id', '=', by.id) : found.where('checkout_id', '=', by.checkout_id)).executeTakeFirst()
}

/** An order by its own id, or by the checkout that it was bought through. */
export const findOrderRow = (db: Db, reach: Reach, by: { id: string } | { checkout_id: string }): Promise<OrderRow | undefined> => {
  const found = db.q.selectFrom('orders').selectAll().where('organization_id', '=', withinReach(reach))
  return ('id' in by ? found.where('id', '=', by.id) : found.where('checkout_id', '=', by.checkout_id)).executeTakeFirst()
}
