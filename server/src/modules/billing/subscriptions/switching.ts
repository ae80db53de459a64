import {
  AboveMaximumSeats,
  BelowMinimumSeats,
  InactiveSubscription,
  invalidAt,
  InvalidRequest,
  NotASeatBasedSubscription,
  NotBillableSubscription,
  PaymentFailed,
  SeatsAlreadyAssigned,
  SubscriptionLocked,
  type SubscriptionProrationBehavior,
} from '@bursar/contract'
import type { z } from 'zod'
import { newId } from '../../../kernel/ids.ts'
import { findDiscountEver, loadProducts, type DiscountTable, type LoadedProduct } from '../../catalog/index.ts'
import { isDiscountOver } from '../engine/discounts-over-time.ts'
import { QuantityBeyondTiers } from '../engine/prices.ts'
import { prorate, type Plan, type Proration } from '../engine/prorations.ts'
import { reductionOf } from '../orders/issuing.ts'
import { isPeriodRefunded, lockOpenOrders } from '../orders/orders.sql.ts'
import { prepare } from '../renewals/collecting.ts'
import { billLines, lineOf } from '../renewals/renewals.ts'
import { countTaken } from '../seats/seats.sql.ts'
import { changesInterval, discountWith, labelOf, overtake, reshape, shapeOf, staticLines, type Shape } from './applying.ts'
import { billable } from './telling.ts'
import { changeTrial, changeWithin, refuseEnding, tellAgain, type Asking, type Wished } from './trials.ts'
import { insertEntries, putUpdate, type Besides } from './updates.sql.ts'

type Behavior = z.output<typeof SubscriptionProrationBehavior>

/** What is left to do when a change has begun: nothing, or to charge for it first. */
export interface Begun {
  readonly payment_id: string | null
  readonly method: string | null
}
export const nothingToPay: Begun = { payment_id: null, method: null }

/** As many as a checkout sells. */
const manySeats = 10_000

const wrong = (field: string, problem: string, input: unknown) => new InvalidRequest(invalidAt(['body', field], problem, input))

const behaviorOf = ({ seller }: Asking, wanted: Behavior | null | undefined): Behavior => {
  if (wanted === 'reset' && !seller.feature_settings.reset_proration_behavior_enabled)
    throw new InvalidRequest(
      invalidAt(['body', 'proration_behavior'], 'This organization cannot restart periods. Choose invoice, prorate or next_period.', wanted),
    )
  return wanted ?? seller.subscription_settings.proration_behavior
}

/** What is asked for together with another product. */
export interface Together {
  /** Only what anybody may buy, besides what one has. */
  readonly publicOnly?: boolean
  readonly besides?: Wished
  readonly trial_end?: Date | 'now' | null
}

/** Another product: one that recurs, is on sale, and can be paid for in the same currency. All that is asked for with it is one change, told once. */
export const changeProduct = async (
  asking: Asking,
  product_id: string,
  wanted: Behavior | null | undefined,
  { publicOnly = false, besides = {}, trial_end = null }: Together = {},
): Promise<Begun> => {
  const { tx, subscription, loaded } = asking
  refuseEnding(subscription)
  if (!billable.includes(subscription.status)) throw new NotBillableSubscription()
  const behavior = behaviorOf(asking, wanted)
  if (product_id === subscription.product_id) {
    const always = loaded.pending !== null && (await overtake(tx, loaded.pending, 'product_id'))
    await changeWithin(asking, besides, trial_end, { always })
    return nothingToPay
  }
  const product = (await loadProducts(tx, [{ tenant: subscription.organization_id, id: product_id }]))[0]
  if (!product || (publicOnly && product.product.visibility !== 'public')) throw wrong('product_id', 'There is no product with this id.', product_id)
  const shape = checkedShape(asking, product, behavior)
  if (subscription.status === 'trialing' || trial_end !== null) {
    await changeTrial(asking, shape, besides, trial_end)
    return nothingToPay
  }
  if (behavior === 'next_period') {
    await wait(asking, { product_id, seats: null }, besides)
    return nothingToPay
  }
  return change(asking, shape, behavior, { product_id, seats: shape.seats }, besides)
}

const checkedShape = ({ subscription, loaded }: Asking, product: LoadedProduct, behavior: Behavior): Shape => {
  const { id, is_archived, recurring_interval } = product.product
  if (is_archived) throw wrong('product_id', 'This product is archived.', id)
  if (recurring_interval === null) throw wrong('product_id', 'This product is bought once, and cannot be subscribed to.', id)
  const prices = product.prices.filter(({ price_currency }) => price_currency === subscription.currency)
  if (prices.length === 0) throw wrong('product_id', `This product has no price in ${subscription.currency}, the currency of the subscription.`, id)
  if (prices.some(({ amount_type }) => amount_type === 'custom'))
    throw wrong('product_id', 'The price of this product is chosen by the buyer: it needs a checkout.', id)
  const seated = (one: readonly { amount_type: string }[]) => one.some(({ amount_type }) => amount_type === 'seat_based')
  if (seated(loaded.prices) && !seated(prices)) throw wrong('product_id', 'This subscription has seats, and the product has none.', id)
  if (!seated(loaded.prices) && seated(prices) && behavior === 'next_period')
    throw wrong('proration_behavior', 'A product with seats can only be taken at once.', behavior)
  try {
    return shapeOf(loaded, product, null)!
  } catch (error) {
    if (error instanceof QuantityBeyondTiers) throw wrong('product_id', `${error.message} Change the number of seats first.`, id)
    throw error
  }
}

/** Another number of seats, within what the price allows. */
export const changeSeats = async (asking: Asking, seats: number, wanted: Behavior | null | undefined): Promise<Begun> => {
  const { subscription, loaded } = asking
  refuseEnding(subscription)
  if (!billable.includes(subscription.status)) throw new InactiveSubscription()
  const tiers = loaded.prices.find(({ amount_type }) => amount_type === 'seat_based')?.seat_tiers?.tiers
  if (!tiers) throw new NotASeatBasedSubscription()
  const least = tiers[0]!.min_seats
  const most = tiers.at(-1)!.max_seats ?? null
  if (seats > manySeats) throw new AboveMaximumSeats(`${seats} seats were asked for, and nobody can have more than ${manySeats}.`)
  if (seats < least) throw new BelowMinimumSeats(`${seats} seats were asked for, and at least ${least} can be bought.`)
  if (most !== null && seats > most) throw new AboveMaximumSeats(`${seats} seats were asked for, and at most ${most} can be bought.`)
  const behavior = behaviorOf(asking, wanted)
  const { tx, reach } = asking
  const { organization_id, id: subscription_id } = subscription
  // The subscription is held: nobody is given one of them meanwhile.
  const taken = await countTaken(tx, { organization_id, subscription_id, order_id: null }, tx.clock.business())
  if (seats < taken) throw new SeatsAlreadyAssigned(`${seats} seats were asked for, and ${taken} are assigned. Revoke some of them first.`)
  const { pending } = loaded
  if (seats === subscription.seats) {
    if (pending && (await overtake(tx, pending, 'seats'))) await tellAgain(asking)
    return nothingToPay
  }
  if (behavior === 'next_period' && subscription.status !== 'trialing') {
    if (pending?.product_id != null) await checkComing(asking, pending.product_id, seats)
    await wait(asking, { product_id: pending?.product_id ?? null, seats })
    return nothingToPay
  }
  const shape = shapeOf(loaded, null, seats)!
  if (subscription.status === 'trialing') {
    await reshape(tx, reach, { subscription, pending }, shape, null)
    return nothingToPay
  }
  return change(asking, shape, behavior, { product_id: null, seats })
}

/** Seats that wait together with another product must be sold with that one too. */
const checkComing = async ({ tx, subscription, loaded }: Asking, product_id: string, seats: number): Promise<void> => {
  const product = (await loadProducts(tx, [{ tenant: subscription.organization_id, id: product_id }]))[0]!
  try {
    shapeOf(loaded, product, seats)
  } catch (error) {
    if (error instanceof QuantityBeyondTiers) throw wrong('seats', `The product to come is not sold so. ${error.message}`, seats)
    throw error
  }
}

/** Keeps a change for the next period: only what is wanted, for when and how much is known then. */
const wait = async (asking: Asking, { product_id, seats }: { product_id: string | null; seats: number | null }, besides: Wished = {}): Promise<void> => {
  const { tx, subscription } = asking
  const { organization_id, id: subscription_id } = subscription
  await putUpdate(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.business(),
    modified_at: null,
    subscription_id,
    kind: 'pending',
    product_id,
    seats,
    restarts: false,
    price_ids: null,
    besides: {},
    order_id: null,
  })
  await changeWithin(asking, besides, null, { always: true })
}

/** Nothing is given back of what is not paid: a period that is still owed for is paid first. */
const refuseUnpaid = async ({ tx, subscription }: Asking): Promise<void> => {
  if ((await lockOpenOrders(tx, subscription)).length > 0)
    throw new SubscriptionLocked('The current period is not paid for yet. Pay what is open first, or ask for the change with the next period.')
}

/** A change that counts from now on: what it costs or gives back waits for the next order, or is an order of its own. */
const change = async (
  asking: Asking,
  shape: Shape,
  behavior: Behavior,
  wish: { product_id: string | null; seats: number | null },
  besides: Wished = {},
): Promise<Begun> => {
  const { tx, reach, subscription, loaded } = asking
  const { pending } = loaded
  await refuseUnpaid(asking)
  const now = tx.clock.business()
  const restarts = behavior === 'reset' || changesInterval(subscription, shape)
  const { billed, counted, discount } = await discountsOf(asking, shape, besides, restarts)
  const lines = prorations(asking, shape, behavior, { billed, counted, refunded: await isPeriodRefunded(tx, subscription) })
  const others: Wished = { ...besides, ...discount, period_discount_id: counted?.id ?? null }
  const { organization_id, id: subscription_id, currency } = subscription
  if (behavior === 'prorate' && !restarts) {
    await insertEntries(
      tx,
      lines.map((line, position) => ({
        ...line,
        position,
        organization_id,
        id: newId(tx.clock.wall()),
        created_at: now,
        subscription_id,
        currency,
        order_id: null,
      })),
    )
    await reshape(tx, reach, { subscription, pending }, shape, null, others)
    return nothingToPay
  }
  const restarts_at = restarts ? now : null
  const issued =
    lines.length === 0
      ? undefined
      : await billLines({ ...asking, loaded: { ...loaded, product: shape.product, discount: null } }, lines.map(lineOf), {
          billing_reason: 'subscription_update',
          seats: shape.seats,
        })
  if (issued?.order.status !== 'pending') {
    await reshape(tx, reach, { subscription, pending }, shape, restarts_at, others)
    return nothingToPay
  }
  // It happens when it is paid for, with all that was asked for along with it; whoever hears of the payment sees to it.
  await putUpdate(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: now,
    modified_at: null,
    subscription_id,
    kind: 'paying',
    ...wish,
    restarts,
    price_ids: shape.prices.map(({ id }) => id),
    besides: {
      ...others,
      ...(others.discount_applied_at === undefined ? {} : { discount_applied_at: others.discount_applied_at?.toISOString() ?? null }),
      ...(besides.discount_id ? { redeemed: besides.discount_id } : {}),
    } as Besides,
    order_id: issued.order.id,
  })
  const attempt = await prepare(tx, issued, subscription, 'purchase')
  if (!attempt) throw new PaymentFailed('There is no payment method to charge, so nothing was changed. The customer can add one.')
  return { payment_id: attempt.payment.id, method: attempt.method }
}

/**
 * The discount that the period was billed with; the one that counts for what is left of it, or for the one that begins
 * now; and the one that there is afterwards. A period under way keeps the discount that it began with; one that begins now has what is there from now on.
 */
const discountsOf = async ({ tx, subscription }: Asking, shape: Shape, besides: Wished, restarts: boolean) => {
  const { organization_id, discount_id, discount_applied_at, period_discount_id } = subscription
  const now = tx.clock.business()
  const to = shape.product.product.id
  const billed = period_discount_id === null ? null : ((await findDiscountEver(tx, organization_id, period_discount_id)) ?? null)
  const goesAlong = await discountWith(tx, organization_id, period_discount_id, to)
  const next = await discountWith(tx, organization_id, besides.discount_id === undefined ? discount_id : besides.discount_id, to)
  const applied_at = next?.id === discount_id ? discount_applied_at : null
  const over = restarts && next !== null && isDiscountOver({ ...next, applied_at, period_start: now })
  const stays = over ? null : next
  return {
    billed,
    counted: restarts ? stays : goesAlong,
    discount: { discount_id: stays?.id ?? null, discount_applied_at: stays === null ? null : restarts ? (applied_at ?? now) : applied_at },
  }
}

/** What the change costs and gives back, line by line. */
const prorations = (
  { tx, subscription, loaded }: Asking,
  shape: Shape,
  behavior: Behavior,
  { billed, counted, refunded }: Record<'billed' | 'counted', DiscountTable | null> & { refunded: boolean },
) => {
  const fixed = (lines: Shape['lines']) => lines.filter(({ amount_type }) => amount_type !== 'custom')
  // What was given back already is not given back again.
  const before: Plan = { lines: refunded ? [] : fixed(staticLines(loaded.prices, subscription)), discount: billed && reductionOf(billed) }
  const after: Plan = { lines: fixed(shape.lines), discount: counted && reductionOf(counted) }
  const found = prorate({
    currency: subscription.currency,
    period: { start: subscription.current_period_start, end: subscription.current_period_end },
    now: tx.clock.business(),
    before,
    after,
    calendar: behavior === 'reset' ? 'reset' : changesInterval(subscription, shape) ? 'restarted' : 'kept',
  })
  const label = ({ kind, seats }: Proration) =>
    kind === 'credit' ? `Remaining time on ${labelOf(loaded.product.product.name, seats)}` : labelOf(shape.product.product.name, seats)
  return found.map((line) => ({ product_price_id: line.product_price_id, amount: line.amount, label: label(line) }))
}
