import { anchorOf, nextPeriod } from '../engine/periods.ts'
import { QuantityBeyondTiers, upfrontLines, type UpfrontLine } from '../engine/prices.ts'
import type { Reach } from '../../../kernel/actors.ts'
import { sum } from '../../../kernel/money.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findDiscountEver, loadPrices, loadProducts, presentPrice, type DiscountTable, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { becomeBuyer, loadCustomers } from '../../customers/index.ts'
import { seatBuyer } from '../seats/assigning.ts'
import type { OrderRow } from '../orders/orders.sql.ts'
import { loadSubscriptions, replacePrices, type LoadedSubscription, type SubscriptionRow } from './subscriptions.sql.ts'
import { keep, tell } from './telling.ts'
import { deleteUpdate, putUpdate, type UpdateRow } from './updates.sql.ts'

/** What is paid for a period at once, price by price; what is metered is counted elsewhere. */
export const staticLines = (prices: readonly PriceRow[], { amount, seats }: { amount: number; seats: number | null }): UpfrontLine[] =>
  upfrontLines(prices.filter(({ amount_type }) => amount_type !== 'metered_unit').map(presentPrice), { amount, seats })

/** A line's own words: what is bought, and how many seats of it. */
export const labelOf = (name: string, seats: number | null): string => (seats === null ? name : `${name} (${seats} ${seats === 1 ? 'seat' : 'seats'})`)

/** What a subscription will be like, with another product or another number of seats. */
export interface Shape {
  readonly product: LoadedProduct
  readonly prices: readonly PriceRow[]
  readonly seats: number | null
  readonly lines: readonly UpfrontLine[]
  readonly amount: number
  readonly recurring_interval: SubscriptionRow['recurring_interval']
  readonly recurring_interval_count: number
}

/** Nothing where the product cannot be paid for in the subscription's currency. Seats that its tiers do not know throw `QuantityBeyondTiers`. */
export const shapeOf = (
  loaded: LoadedSubscription,
  product: LoadedProduct | null,
  seats: number | null,
  /** The prices that it was agreed at, where they are not those of today. */
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

/** A number of seats that is not sold any more cannot be had: nothing instead of a refusal, where nobody is there to be refused. */
export const stillPossible = <T>(make: () => T): T | undefined => {
  try {
    return make()
  } catch (error) {
    if (error instanceof QuantityBeyondTiers) return undefined
    throw error
  }
}

/** The discount that counts with a product: one that is bound to other products does not come along. */
export const discountWith = async (db: Db, organization_id: string, discount_id: string | null, product_id: string): Promise<DiscountTable | null> => {
  const found = discount_id === null ? undefined : await findDiscountEver(db, organization_id, discount_id)
  return found && (found.products.length === 0 || found.products.some(({ id }) => id === product_id)) ? found : null
}

/** Whether periods are counted differently from then on. */
export const changesInterval = (subscription: SubscriptionRow, shape: Shape): boolean =>
  shape.recurring_interval !== subscription.recurring_interval || shape.recurring_interval_count !== subscription.recurring_interval_count

/** The shape as it is written, with a new period from a moment where one begins with it. */
export const changesOf = (shape: Shape, restarts_at: Date | null): Partial<SubscriptionRow> => {
  const { recurring_interval, recurring_interval_count } = shape
  const changes = { product_id: shape.product.product.id, seats: shape.seats, amount: shape.amount, recurring_interval, recurring_interval_count }
  if (restarts_at === null) return changes
  const anchor_day = anchorOf(restarts_at)
  const period = nextPeriod(restarts_at, recurring_interval, recurring_interval_count, anchor_day)
  return { ...changes, anchor_day, calendar_from: restarts_at, current_period_start: period.start, current_period_end: period.end }
}

/** Gives a subscription another shape, without a word. What waited is overtaken: all of it by a product, what is about seats by seats. */
export const takeShape = async (
  tx: Tx,
  reach: Reach,
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
  const after = await keep(tx, subscription, changes)
  if (after.seats !== null && subscription.seats === null) {
    const [customer] = await loadCustomers(tx, reach, [subscription.customer_id])
    await becomeBuyer(tx, reach, customer!, { seats: true })
    // Whoever had it alone goes on having it.
    await seatBuyer(tx, reach, customer!, { organization_id: after.organization_id, subscription_id: after.id, order_id: null })
  }
  return { after, loaded: (await loadSubscriptions(tx, reach, [after]))[0]! }
}

/** What waited is overtaken as far as it is about this; true where something was. */
export const overtake = async (tx: Tx, pending: UpdateRow, field: 'product_id' | 'seats' | 'everything'): Promise<boolean> => {
  if (field !== 'everything' && pending[field] === null) return false
  const rest = { ...pending, ...(field === 'everything' ? { product_id: null, seats: null } : { [field]: null }) }
  await (rest.product_id === null && rest.seats === null ? deleteUpdate(tx, pending) : putUpdate(tx, rest))
  return true
}

/** Gives a subscription another shape, and says so. */
export const reshape = async (
  tx: Tx,
  reach: Reach,
  { subscription, pending }: { subscription: Locked<SubscriptionRow>; pending: UpdateRow | null },
  shape: Shape,
  restarts_at: Date | null,
  others: Partial<SubscriptionRow> = {},
): Promise<Locked<SubscriptionRow>> => {
  const changes = changesOf(shape, restarts_at)
  // Whoever canceled while it was being paid for leaves with the period that they paid for.
  const leaves = subscription.cancel_at_period_end && changes.current_period_end ? { ends_at: changes.current_period_end } : {}
  const { after, loaded } = await takeShape(tx, reach, { subscription, pending }, shape, { ...changes, ...leaves, ...others })
  await tell(tx, subscription, loaded)
  return after
}

/** A change that was paid for happens as it was figured, as of the moment it was figured for, whatever is on sale by now. */
export const applyPaid = async (
  tx: Tx,
  reach: Reach,
  subscription: Locked<SubscriptionRow>,
  change: UpdateRow,
  order: OrderRow,
): Promise<Locked<SubscriptionRow>> => {
  await deleteUpdate(tx, change)
  const loaded = (await loadSubscriptions(tx, reach, [subscription]))[0]!
  const { organization_id } = subscription
  const { redeemed: _, discount_applied_at, ...others } = change.besides
  const product = change.product_id === null ? null : (await loadProducts(tx, [{ tenant: organization_id, id: change.product_id }]))[0]!
  const agreed = await loadPrices(
    tx,
    change.price_ids!.map((id) => ({ tenant: organization_id, id })),
  )
  const shape = shapeOf(loaded, product, change.seats, agreed)!
  return reshape(tx, reach, { subscription, pending: loaded.pending }, shape, change.restarts ? order.created_at : null, {
    ...others,
    ...(discount_applied_at === undefined ? {} : { discount_applied_at: discount_applied_at === null ? null : new Date(discount_applied_at) }),
  })
}
