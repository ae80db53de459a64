import { writeLabel, type LineLabel } from '@bursar/views'
import { anchorOf, nextPeriod } from '../calc/periods.ts'
import { QuantityBeyondTiers, upfrontLines, type UpfrontLine } from '../calc/prices.ts'
import type { TenantScope } from '../../../kernel/actors.ts'
import { sum } from '../../../kernel/money.ts'
import type { BusinessTx, Db, Locked } from '../../../platform/postgres/postgres.ts'
import { findDiscountEver, loadPrices, loadProducts, presentPrice, type DiscountTable, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { becomeBuyer, loadCustomers } from '../../customers/index.ts'
import { seatBuyer } from '../seats/assigning.ts'
import type { OrderRow } from '../records/orders.sql.ts'
import { loadSubscriptions, replacePrices, type LoadedSubscription, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import { updateSubscription, emitSubscriptionEvents } from '../records/subscription-events.ts'
import { deleteUpdate, putUpdate, type UpdateRow } from '../records/subscription-updates.sql.ts'

/**
 * Returns one line for each price that is paid in advance for a period. Metered prices are excluded, because usage is
 * not paid in advance.
 */
export const staticLines = (prices: readonly PriceRow[], { amount, seats }: { amount: number; seats: number | null }): UpfrontLine[] =>
  upfrontLines(prices.filter(({ amount_type }) => amount_type !== 'metered_unit').map(presentPrice), { amount, seats })

/** Returns the label of an order line: the product name and the number of seats. */
export const labelOf = (name: string, seats: number | null): LineLabel => writeLabel({ type: 'product', name, seats })

/** The product, prices, seats and interval of a subscription after a change. */
export interface Shape {
  readonly product: LoadedProduct
  readonly prices: readonly PriceRow[]
  readonly seats: number | null
  readonly lines: readonly UpfrontLine[]
  readonly amount: number
  readonly recurring_interval: SubscriptionRow['recurring_interval']
  readonly recurring_interval_count: number
}

/**
 * Computes the shape of a subscription after a change. Returns undefined if the product has no price in the
 * subscription's currency. Throws `QuantityBeyondTiers` for a number of seats outside the price tiers.
 */
export const shapeOf = (
  loaded: LoadedSubscription,
  product: LoadedProduct | null,
  seats: number | null,
  /** The prices at the time of the request, if they differ from the current catalog prices. */
  agreed?: readonly PriceRow[],
): Shape | undefined => {
  const { subscription } = loaded
  const target = product ?? loaded.product
  const prices = agreed ?? (product ? product.prices.filter(({ price_currency }) => price_currency === subscription.currency) : loaded.prices)
  if (prices.length === 0) return undefined
  const seated = prices.find(({ amount_type }) => amount_type === 'seat_based')
  const wanted = seated ? (seats ?? subscription.seats ?? seated.seat_tiers!.tiers[0]!.min_seats) : null
  const lines = staticLines(prices, { amount: subscription.amount, seats: wanted })
  const { recurring_interval, recurring_interval_count } = product ? product.product : subscription
  return {
    product: target,
    prices,
    seats: wanted,
    lines,
    amount: sum(lines.map(({ amount }) => amount)),
    recurring_interval: recurring_interval ?? subscription.recurring_interval,
    recurring_interval_count: recurring_interval_count ?? subscription.recurring_interval_count,
  }
}

/**
 * Returns undefined instead of throwing if the number of seats is no longer sold. Used by renewals, which have no
 * caller to report the error to.
 */
export const stillPossible = <T>(make: () => T): T | undefined => {
  try {
    return make()
  } catch (error) {
    if (error instanceof QuantityBeyondTiers) return undefined
    throw error
  }
}

/**
 * Returns the discount if it applies to the product, otherwise null. A discount that is limited to other products is
 * lost when the product changes.
 */
export const discountWith = async (db: Db, organization_id: string, discount_id: string | null, product_id: string): Promise<DiscountTable | null> => {
  const found = discount_id === null ? undefined : await findDiscountEver(db, organization_id, discount_id)
  return found && (found.products.length === 0 || found.products.some(({ id }) => id === product_id)) ? found : null
}

/** Whether the change alters the length of the billing period. */
export const changesInterval = (subscription: SubscriptionRow, shape: Shape): boolean =>
  shape.recurring_interval !== subscription.recurring_interval || shape.recurring_interval_count !== subscription.recurring_interval_count

/**
 * Converts a shape to column values. If `restarts_at` is given, the values include a new period that begins at that
 * moment.
 */
export const changesOf = (shape: Shape, restarts_at: Date | null): Partial<SubscriptionRow> => {
  const { recurring_interval, recurring_interval_count } = shape
  const changes = { product_id: shape.product.product.id, seats: shape.seats, amount: shape.amount, recurring_interval, recurring_interval_count }
  if (restarts_at === null) return changes
  const anchor_day = anchorOf(restarts_at)
  const period = nextPeriod(restarts_at, recurring_interval, recurring_interval_count, anchor_day)
  return { ...changes, anchor_day, calendar_from: restarts_at, current_period_start: period.start, current_period_end: period.end }
}

/**
 * Applies a shape to a subscription without emitting events. A new product deletes the whole pending change. New seats
 * delete only the pending number of seats.
 */
export const takeShape = async (
  tx: BusinessTx,
  scope: TenantScope,
  { subscription, pending }: { subscription: Locked<SubscriptionRow>; pending: UpdateRow | null },
  shape: Shape,
  changes: Partial<SubscriptionRow>,
): Promise<{ after: Locked<SubscriptionRow>; loaded: LoadedSubscription }> => {
  if (pending) await overtake(tx, pending, shape.product.product.id === subscription.product_id ? 'seats' : 'everything')
  await replacePrices(
    tx,
    subscription,
    shape.prices.map(({ id }) => id),
  )
  const after = await updateSubscription(tx, subscription, changes)
  if (after.seats !== null && subscription.seats === null) {
    const [customer] = await loadCustomers(tx, scope, [subscription.customer_id])
    await becomeBuyer(tx, scope, customer!, { seats: true })
    // The old plan had no seats and gave access to the customer. Assigns a seat, so that the customer keeps the access.
    await seatBuyer(tx, scope, customer!, { organization_id: after.organization_id, subscription_id: after.id, order_id: null })
  }
  return { after, loaded: (await loadSubscriptions(tx, scope, [after]))[0]! }
}

/** Clears the given field of the pending change, or all of it. Returns whether the pending change had that field. */
export const overtake = async (tx: BusinessTx, pending: UpdateRow, field: 'product_id' | 'seats' | 'everything'): Promise<boolean> => {
  if (field !== 'everything' && pending[field] === null) return false
  const rest = { ...pending, ...(field === 'everything' ? { product_id: null, seats: null } : { [field]: null }) }
  await (rest.product_id === null && rest.seats === null ? deleteUpdate(tx, pending) : putUpdate(tx, rest))
  return true
}

/** Applies a shape to a subscription and emits its events. `told`: a receipt tells the customer of the change. */
export const reshape = async (
  tx: BusinessTx,
  scope: TenantScope,
  { subscription, pending }: { subscription: Locked<SubscriptionRow>; pending: UpdateRow | null },
  shape: Shape,
  restarts_at: Date | null,
  others: Partial<SubscriptionRow> = {},
  { told = false } = {},
): Promise<Locked<SubscriptionRow>> => {
  const changes = changesOf(shape, restarts_at)
  // If the customer canceled while the payment was in progress, the subscription ends with the new, paid period.
  const leaves = subscription.cancel_at_period_end && changes.current_period_end ? { ends_at: changes.current_period_end } : {}
  const { after, loaded } = await takeShape(tx, scope, { subscription, pending }, shape, { ...changes, ...leaves, ...others })
  await emitSubscriptionEvents(tx, scope, subscription, loaded, { told })
  return after
}

/**
 * Applies a subscription change after its payment. Uses the prices at the time of the request, even if the catalog has
 * changed since. A new period begins at the time of the order, not of the payment.
 */
export const applyPaid = async (
  tx: BusinessTx,
  scope: TenantScope,
  subscription: Locked<SubscriptionRow>,
  change: UpdateRow,
  order: OrderRow,
): Promise<Locked<SubscriptionRow>> => {
  await deleteUpdate(tx, change)
  const loaded = (await loadSubscriptions(tx, scope, [subscription]))[0]!
  const { organization_id } = subscription
  const { redeemed: _, discount_applied_at, ...others } = change.besides
  const product = change.product_id === null ? null : (await loadProducts(tx, [{ tenant: organization_id, id: change.product_id }]))[0]!
  const agreed = await loadPrices(
    tx,
    change.price_ids!.map((id) => ({ tenant: organization_id, id })),
  )
  const shape = shapeOf(loaded, product, change.seats, agreed)!
  const besides = {
    ...others,
    ...(discount_applied_at === undefined ? {} : { discount_applied_at: discount_applied_at === null ? null : new Date(discount_applied_at) }),
  }
  return reshape(tx, scope, { subscription, pending: loaded.pending }, shape, change.restarts ? order.created_at : null, besides, { told: true })
}
