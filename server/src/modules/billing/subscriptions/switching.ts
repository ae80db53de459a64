import { writeLabel } from '@bursar/views'
import {
  accountLimits,
  AboveMaximumSeats,
  BelowMinimumSeats,
  InactiveSubscription,
  invalidAt,
  InvalidRequest,
  NotASeatBasedSubscription,
  NotBillableSubscription,
  PaymentFailed,
  PaymentMethodRequired,
  SeatsAlreadyAssigned,
  SubscriptionLocked,
  type SubscriptionProrationBehavior,
} from '@bursar/contract'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { z } from 'zod'
import { newId } from '../../../kernel/ids.ts'
import { sum } from '../../../kernel/money.ts'
import { findDiscountEver, loadProducts, type DiscountTable, type LoadedProduct } from '../../catalog/index.ts'
import { isDiscountOver } from '../calc/discounts-over-time.ts'
import { QuantityBeyondTiers } from '../calc/prices.ts'
import { prorate, type Plan, type Proration } from '../calc/prorations.ts'
import { findSwitchProblem } from '../calc/switches.ts'
import { reductionOf } from '../invoicing/issuing.ts'
import { lockOpenOrders } from '../records/orders.sql.ts'
import { limitCredits, recordProrations, type ChangeLine } from '../prorations/crediting.ts'
import { isPeriodDisputed } from '../prorations/prorations.sql.ts'
import { prepare } from '../invoicing/collecting.ts'
import { billLines, lineOf } from '../invoicing/billing.ts'
import { keepUsage, usageLines, type UsageLines } from '../invoicing/metering.ts'
import { holdUsage } from '../records/usage-periods.sql.ts'
import { countTaken } from '../seats/seats.sql.ts'
import { changesInterval, discountWith, labelOf, overtake, reshape, shapeOf, staticLines, type Shape } from '../invoicing/applying.ts'
import { billable } from '../records/subscription-events.ts'
import { changeTrial, changeWithin, needMethod, refuseEnding, tellAgain, type ChangeContext, type Wished } from './trials.ts'
import { assignEntries, insertEntries, openEntries, putUpdate, type Besides } from '../records/subscription-updates.sql.ts'

type Behavior = z.output<typeof SubscriptionProrationBehavior>

/** The payment that must succeed before a change is applied. Both fields are null if no payment is needed. */
export interface Begun {
  readonly payment_id: string | null
  readonly method: string | null
}
export const nothingToPay: Begun = { payment_id: null, method: null }

/** Maximum number of seats per subscription. A checkout has the same limit. */
const manySeats = accountLimits.seats_per_subscription

const wrong = (field: string, problem: string, input: unknown) => new InvalidRequest(invalidAt(['body', field], problem, input))

const behaviorOf = ({ seller }: ChangeContext, wanted: Behavior | null | undefined): Behavior => {
  if (wanted === 'reset' && !seller.feature_settings.reset_proration_behavior_enabled)
    throw new InvalidRequest(
      invalidAt(['body', 'proration_behavior'], 'This organization cannot restart periods. Choose invoice, prorate or next_period.', wanted),
    )
  return wanted ?? seller.subscription_settings.proration_behavior
}

/** Options that a request combines with a new product. */
export interface Together {
  /**
   * True if the customer requests the change in the portal. Only public products are allowed then, and a higher price
   * is charged at once.
   */
  readonly portal?: boolean
  readonly besides?: Wished
  readonly trial_end?: Date | 'now' | null
}

/**
 * Changes the product. The new product must be recurring, not archived, and priced in the same currency. All parts of
 * the request are one change with one event.
 */
export const changeProduct = async (
  asking: ChangeContext,
  product_id: string,
  wanted: Behavior | null | undefined,
  { portal = false, besides = {}, trial_end = null }: Together = {},
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
  if (!product || (portal && product.product.visibility !== 'public')) throw wrong('product_id', 'There is no product with this id.', product_id)
  const shape = checkedShape(asking, product, behavior)
  await refuseDisputed(asking)
  if (subscription.status === 'trialing' || trial_end !== null) {
    await changeTrial(asking, shape, { ...besides, proration_behavior: behavior }, trial_end, { portal })
    return nothingToPay
  }
  if (behavior === 'next_period') {
    if (portal) await needMethodToCome(asking, shape)
    await wait(asking, { product_id, seats: null }, besides)
    return nothingToPay
  }
  return change(asking, shape, behavior, { product_id, seats: shape.seats }, { portal, besides })
}

const checkedShape = ({ subscription, loaded }: ChangeContext, product: LoadedProduct, behavior: Behavior): Shape => {
  const { currency, seats } = subscription
  const problem = findSwitchProblem({ currency, seats, prices: loaded.prices }, { ...product.product, prices: product.prices }, behavior)
  if (problem) throw wrong(problem.field, problem.message, problem.field === 'product_id' ? product.product.id : behavior)
  return shapeOf(loaded, product, null)!
}

/** Changes the number of seats, within the limits of the price. */
export const changeSeats = async (
  asking: ChangeContext,
  seats: number,
  wanted: Behavior | null | undefined,
  { portal = false }: Pick<Together, 'portal'> = {},
): Promise<Begun> => {
  const { subscription, loaded } = asking
  refuseEnding(subscription)
  if (!billable.includes(subscription.status)) throw new InactiveSubscription()
  const tiers = loaded.prices.find(({ amount_type }) => amount_type === 'seat_based')?.seat_tiers?.tiers
  if (!tiers) throw new NotASeatBasedSubscription()
  const least = tiers[0]!.min_seats
  const most = tiers.at(-1)!.max_seats ?? null
  if (seats > manySeats) throw new AboveMaximumSeats(`Received ${seats} seats; the maximum is ${manySeats}.`)
  if (seats < least) throw new BelowMinimumSeats(`Received ${seats} seats; at least ${least} can be bought.`)
  if (most !== null && seats > most) throw new AboveMaximumSeats(`Received ${seats} seats; at most ${most} can be bought.`)
  const behavior = behaviorOf(asking, wanted)
  const { tx, scope } = asking
  const { organization_id, id: subscription_id } = subscription
  // The subscription is locked, so no seat can be assigned meanwhile.
  const taken = await countTaken(tx, { organization_id, subscription_id, order_id: null }, tx.clock.business())
  if (seats < taken) throw new SeatsAlreadyAssigned(`Received ${seats} seats, but ${taken} are assigned. Revoke some of them first.`)
  const { pending } = loaded
  if (seats === subscription.seats) {
    if (pending && (await overtake(tx, pending, 'seats'))) await tellAgain(asking)
    return nothingToPay
  }
  await refuseDisputed(asking)
  if (behavior === 'next_period' && subscription.status !== 'trialing') {
    const coming = pending?.product_id == null ? shapeOf(loaded, null, seats)! : await checkComing(asking, pending.product_id, seats)
    if (portal) await needMethodToCome(asking, coming)
    await wait(asking, { product_id: pending?.product_id ?? null, seats })
    return nothingToPay
  }
  const shape = shapeOf(loaded, null, seats)!
  if (subscription.status === 'trialing') {
    await reshape(tx, scope, { subscription, pending }, shape, null, { proration_behavior: behavior })
    return nothingToPay
  }
  return change(asking, shape, behavior, { product_id: null, seats }, { portal })
}

/** Checks that the scheduled product can be bought with this number of seats. Returns the resulting product, prices and seats. */
const checkComing = async ({ tx, subscription, loaded }: ChangeContext, product_id: string, seats: number): Promise<Shape> => {
  const product = (await loadProducts(tx, [{ tenant: subscription.organization_id, id: product_id }]))[0]!
  try {
    return shapeOf(loaded, product, seats) ?? shapeOf(loaded, null, seats)!
  } catch (error) {
    if (error instanceof QuantityBeyondTiers) throw wrong('seats', `The scheduled product does not allow this number of seats. ${error.message}`, seats)
    throw error
  }
}

/**
 * Stores a change for the next period. Only the request is stored: date and price are determined when that period
 * begins.
 */
const wait = async (asking: ChangeContext, { product_id, seats }: { product_id: string | null; seats: number | null }, besides: Wished = {}): Promise<void> => {
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
  await enqueue(tx, 'mail.subscription', { organization_id, subscription_id, change: product_id === null ? 'seats' : 'plan' })
  await changeWithin(asking, besides, null, { always: true })
}

/**
 * Refuses a change while an order of the subscription is open. An unpaid period must be paid first, because nothing can
 * be credited for it.
 */
const refuseUnpaid = async ({ tx, subscription }: ChangeContext): Promise<void> => {
  if ((await lockOpenOrders(tx, subscription)).length > 0)
    throw new SubscriptionLocked('The current period is not paid yet. Pay the open order first, or schedule the change for the next period.')
}

/**
 * Refuses a change while the payment of the current period is disputed. Otherwise the change could give a credit for
 * money that the bank takes back.
 */
const refuseDisputed = async ({ tx, subscription }: ChangeContext): Promise<void> => {
  if (await isPeriodDisputed(tx, subscription))
    throw new SubscriptionLocked(
      'The payment for the current period is disputed. Until the dispute is decided, the plan and the seats cannot change. Canceling is possible.',
    )
}

/** Requires a payment method for a change at the next period that costs more or changes the billing interval. */
const needMethodToCome = async (asking: ChangeContext, shape: Shape): Promise<void> => {
  const { subscription } = asking
  if (shape.amount > subscription.amount || (shape.amount > 0 && changesInterval(subscription, shape))) await needMethod(asking)
}

/**
 * Applies a change from now on. With `prorate`, the difference is billed with the next order. Otherwise the change gets
 * its own order, which also bills open entries. In the portal, a higher price is always charged at once, even if the
 * seller's default is `prorate`.
 */
const change = async (
  asking: ChangeContext,
  shape: Shape,
  behavior: Behavior,
  wish: { product_id: string | null; seats: number | null },
  { portal = false, besides = {} }: Pick<Together, 'portal' | 'besides'> = {},
): Promise<Begun> => {
  const { tx, scope, subscription, loaded } = asking
  const { pending } = loaded
  await refuseUnpaid(asking)
  // The lock of usage comes before that of the balance, as in renewals.
  if (loaded.has_usage || shape.prices.some(({ meter_id }) => meter_id !== null)) await holdUsage(tx, subscription)
  const now = tx.clock.business()
  const restarts = behavior === 'reset' || changesInterval(subscription, shape)
  const { billed, counted, discount } = await discountsOf(asking, shape, besides, restarts)
  const wanted = prorations(asking, shape, behavior, { billed, counted })
  const paysNow = portal && (shape.amount > subscription.amount || sum(wanted.map(({ amount }) => amount)) > 0)
  if (paysNow) await needMethod(asking)
  const credited = await limitCredits(tx, subscription, wanted)
  const lines = credited.filter(({ amount }) => amount !== 0)
  const proration_behavior = behavior === 'prorate' && paysNow ? 'invoice' : behavior
  const others: Wished = { ...besides, ...discount, period_discount_id: counted?.id ?? null, proration_behavior }
  const { organization_id, id: subscription_id, currency } = subscription
  const period_start = restarts ? now : subscription.current_period_start
  const waits = behavior === 'prorate' && !restarts && !paysNow
  const usage = waits ? noUsage : await endingUsage(asking, shape, restarts)
  if (waits || lines.length + usage.lines.length === 0) {
    const entry_ids = credited.map(({ amount }) => (amount === 0 ? null : newId(tx.clock.wall())))
    await insertEntries(
      tx,
      credited.flatMap(({ product_price_id, label, amount }, position) =>
        amount === 0
          ? []
          : [
              {
                organization_id,
                id: entry_ids[position]!,
                created_at: now,
                subscription_id,
                product_price_id,
                position,
                label,
                amount,
                currency,
                order_id: null,
              },
            ],
      ),
    )
    await recordProrations(tx, subscription, credited, period_start, { entry_ids })
    await keepUsage(asking, usage, null)
    await reshape(tx, scope, { subscription, pending }, shape, restarts ? now : null, others)
    return nothingToPay
  }
  const waiting = await openEntries(tx, subscription)
  const issued = await billLines(
    { ...asking, loaded: { ...loaded, product: shape.product, discount: null } },
    [...[...waiting, ...lines].map(lineOf), ...usage.lines],
    { billing_reason: 'subscription_update', seats: shape.seats },
  )
  await assignEntries(tx, waiting, issued.order.id)
  await keepUsage(asking, usage, issued, waiting.length + lines.length)
  await recordProrations(tx, subscription, credited, period_start, { order_id: issued.order.id })
  if (issued.order.status !== 'pending') {
    await reshape(tx, scope, { subscription, pending }, shape, restarts ? now : null, others, { told: issued.order.total_amount !== 0 })
    return nothingToPay
  }
  // Stores the change with all its parts. It is applied when its payment succeeds.
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
  if (!attempt)
    throw portal
      ? new PaymentMethodRequired()
      : new PaymentFailed('There is no payment method to charge, so nothing was changed. The customer must add one first.')
  return { payment_id: attempt.payment.id, method: attempt.method }
}

/**
 * Returns the lines of usage that the order of a change bills: that of periods which the change ends, and of earlier ones. A change
 * that ends no period bills no usage. The period itself ends when the change is applied. If the payment fails, the lines are taken back.
 */
const endingUsage = async (asking: ChangeContext, shape: Shape, restarts: boolean): Promise<UsageLines> => {
  const open = asking.loaded.periods.filter(({ price_id }) => restarts || !shape.prices.some(({ id }) => id === price_id)).map(({ id }) => id)
  return open.length === 0 ? noUsage : usageLines(asking, { open })
}
const noUsage: UsageLines = { lines: [], settled: [] }

/**
 * Returns three discounts. `billed` is the one that the current period was billed with. `counted` applies to the new
 * plan for the rest of the period, or to a period that begins now. `discount` is the discount of the subscription after
 * the change. A period that continues keeps its discount. A period that begins now uses the discount after the change.
 */
const discountsOf = async ({ tx, subscription }: ChangeContext, shape: Shape, besides: Wished, restarts: boolean) => {
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

/**
 * Computes the charges and credits of a change, line by line. Assumes that the whole period was paid: `limitCredits`
 * reduces the credits afterwards.
 */
const prorations = (
  { tx, subscription, loaded }: ChangeContext,
  shape: Shape,
  behavior: Behavior,
  { billed, counted }: Record<'billed' | 'counted', DiscountTable | null>,
): ChangeLine[] => {
  const fixed = (lines: Shape['lines']) => lines.filter(({ amount_type }) => amount_type !== 'custom')
  const before: Plan = { lines: fixed(staticLines(loaded.prices, subscription)), discount: billed && reductionOf(billed) }
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
    kind === 'credit' ? writeLabel({ type: 'remaining', name: loaded.product.product.name, seats }) : labelOf(shape.product.product.name, seats)
  return found.map((line) => ({ product_price_id: line.product_price_id, amount: line.amount, label: label(line) }))
}
