import {
  CannotPauseSubscription,
  AlreadyCanceledSubscription,
  InactiveSubscription,
  invalidAt,
  InvalidRequest,
  NoScheduledPause,
  NotPausedSubscription,
  PaymentFailed,
  ResourceNotFound,
  SubscriptionEnded,
  SubscriptionLocked,
  SubscriptionNotScheduledToCancel,
  type CustomerCancellationReason,
  type SubscriptionUpdate,
} from '@bursar/contract'
import { isDeepStrictEqual } from 'node:util'
import { TaxUnavailable } from '../../../gateways/tax/tax.ts'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { sum } from '../../../kernel/money.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { Finished, refuse, type Deps, type Platform, type Refusal } from '../../handlers.ts'
import { findDiscount } from '../../catalog/index.ts'
import { permit } from '../../organizations/index.ts'
import { applicable } from '../calc/discounts.ts'
import { reductionOf } from '../invoicing/issuing.ts'
import { TaxUnknown } from '../taxes/taxes.ts'
import { charge } from '../payments/attempts.ts'
import { readPayment } from '../payments/attempts.sql.ts'
import { personKey } from '../redemptions/persons.ts'
import { insertRedemption, reserveUse } from '../redemptions/redemptions.sql.ts'
import { settleOrder } from '../invoicing/collecting.ts'
import { callOffOpen, ended } from '../invoicing/ending.ts'
import { type RenewalContext } from '../invoicing/billing.ts'
import { usageLines, type UsageLines } from '../invoicing/metering.ts'
import { billedAlready, billPeriod, resumed } from '../renewals/renewals.ts'
import { lockSubscription, selectSold, type LoadedSubscription } from '../records/subscriptions.sql.ts'
import { changeProduct, changeSeats, nothingToPay, type Begun } from './switching.ts'
import { updateSubscription, emitSubscriptionEvents } from '../records/subscription-events.ts'
import { changeWithin, refuseEnding, tellAgain, type ChangeContext, type Wished } from './trials.ts'
import { clearUpdate, openEntries } from '../records/subscription-updates.sql.ts'

/** The ids that the second step of a change request needs to charge the payment. */
export interface Intended extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly subscription_id: string
  readonly payment_id: string | null
  readonly method: string | null
}

/**
 * Locks a subscription for a change and switches the transaction to the customer's clock. Throws 404 if the
 * subscription is out of scope.
 */
export const requireLockedSubscription = async (wall: Tx, scope: TenantScope, platform: Platform, id: string): Promise<ChangeContext> => {
  const subscription = await lockSubscription(wall, scope, id)
  if (!subscription) throw new ResourceNotFound()
  const tx = await inTimeOf(wall, subscription)
  // Loads the related rows after the lock is held, because the transaction that held it before may have changed them.
  const { seller, ...loaded } = (await selectSold(tx, scope, [id]))[0]!
  return { platform, tx, scope, seller, subscription, loaded }
}

/** Refuses changes while the payment for another change is in progress. Cancel and uncancel are allowed, because they must not wait for a bank. */
export const refusePaying = ({ loaded }: ChangeContext, body: object = {}): void => {
  if (loaded.paying && !('cancel_at_period_end' in body)) throw new SubscriptionLocked()
}

/** Starts a change that the seller requests, in any of the eight request shapes. */
export const begin = async (tx: Tx, scope: TenantScope, platform: Platform, id: string, body: SubscriptionUpdate): Promise<Intended> => {
  const asking = await requireLockedSubscription(tx, scope, platform, id)
  const { organization_id } = asking.subscription
  permit(scope, organization_id, 'sales:manage')
  refusePaying(asking, body)
  return { organization_id, subscription_id: id, ...(await withTax(() => apply(asking, body))) }
}

/** Maps `TaxUnknown` to 422, because an immediate charge needs a complete address. */
export const withTax = async <T>(work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof TaxUnknown)) throw error
    const problem = 'The tax cannot be computed from the billing address of the customer. Add the country, and the state if its taxes differ.'
    throw new InvalidRequest(invalidAt(['body'], problem))
  }
}

const apply = async (asking: ChangeContext, body: SubscriptionUpdate): Promise<Begun> => {
  if ('seats' in body) return changeSeats(asking, body.seats, body.proration_behavior)
  if ('current_billing_period_end' in body) await changePeriod(asking, body.current_billing_period_end)
  else if ('cancel_at_period_end' in body)
    await (body.cancel_at_period_end ? cancel(asking, body.customer_cancellation_reason, body.customer_cancellation_comment) : uncancel(asking))
  else if ('revoke' in body) await revokeSubscription(asking, body.customer_cancellation_reason, body.customer_cancellation_comment)
  else if ('pause_at_period_end' in body) await (body.pause_at_period_end ? pause(asking, body.resumes_at ?? null) : unpause(asking))
  else if ('resume' in body) await resume(asking)
  else if ('pending_update' in body) await clearPending(asking)
  else return changeBase(asking, body)
  return nothingToPay
}

type BaseUpdate = Exclude<
  SubscriptionUpdate,
  | { seats: unknown }
  | { current_billing_period_end: unknown }
  | { cancel_at_period_end: unknown }
  | { revoke: unknown }
  | { pause_at_period_end: unknown }
  | { resume: unknown }
  | { pending_update: unknown }
>

/** Changes metadata, discount, trial and product. All parts are applied together or not at all, with one event. */
const changeBase = async (asking: ChangeContext, body: BaseUpdate): Promise<Begun> => {
  const { subscription } = asking
  const besides: Wished = {}
  if (body.metadata !== undefined && !isDeepStrictEqual(body.metadata, subscription.metadata)) besides.metadata = body.metadata
  if (body.discount_id !== undefined && body.discount_id !== subscription.discount_id) {
    refuseEnding(subscription)
    if (body.discount_id !== null) await redeem(asking, body.discount_id, body.product_id ?? subscription.product_id)
    Object.assign(besides, { discount_id: body.discount_id, discount_applied_at: null } satisfies Wished)
  }
  const trial_end = body.trial_end ?? null
  if (body.product_id) return changeProduct(asking, body.product_id, body.proration_behavior, { besides, trial_end })
  await changeWithin(asking, besides, trial_end)
  return nothingToPay
}

/** Redeems a discount for the subscription. The discount applies from the next period on. It counts as one use. */
const redeem = async ({ tx, scope, subscription, loaded, platform }: ChangeContext, discount_id: string, product_id: string): Promise<void> => {
  const { organization_id } = subscription
  const found = await findDiscount(tx, scope, discount_id)
  const wrong = (problem: string) => new InvalidRequest(invalidAt(['body', 'discount_id'], problem, discount_id))
  if (!found || found.organization_id !== organization_id) throw wrong('There is no discount with this id.')
  const offer = { starts_at: found.starts_at, ends_at: found.ends_at, product_ids: found.products.map(({ id }) => id), ...reductionOf(found) }
  const occasion = { now: tx.clock.business(), product_id, currency: subscription.currency, is_free_product_price: false }
  if (!applicable(offer, occasion)) throw wrong('This discount does not apply to this product at the moment.')
  if (!(await reserveUse(tx, { organization_id, discount_id }))) throw wrong('This discount has reached its redemption limit.')
  await insertRedemption(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.business(),
    discount_id,
    checkout_id: null,
    subscription_id: subscription.id,
    customer_id: loaded.customer.id,
    email_key: personKey(platform.hasher, loaded.customer.email ?? loaded.customer.id),
    card_key: null,
  })
}

/**
 * Moves the end of the current period. Later periods start from the new date. The end of a trial moves with its period.
 */
const changePeriod = async ({ tx, scope, subscription, loaded }: RenewalContext, current_period_end: Date): Promise<void> => {
  refuseEnding(subscription)
  if (subscription.status !== 'trialing' && subscription.status !== 'active') throw new InactiveSubscription()
  const now = tx.clock.business()
  if (current_period_end <= now)
    throw new InvalidRequest(invalidAt(['body', 'current_billing_period_end'], 'The end of a period must be in the future.', current_period_end.toISOString()))
  const after = await updateSubscription(tx, subscription, {
    current_period_end,
    anchor_day: current_period_end.getUTCDate(),
    calendar_from: current_period_end,
    // Resumes billing of a parked subscription. The caller sets the period by hand and has therefore checked the
    // subscription.
    parked_at: null,
    ...(subscription.status === 'trialing' ? { trial_end: current_period_end } : {}),
  })
  await emitSubscriptionEvents(tx, scope, subscription, { ...loaded, subscription: after })
}

type Reason = CustomerCancellationReason | null | undefined

/** Cancels the subscription at the end of the current period. Returns the subscription afterwards. */
export const cancel = async (
  { tx, scope, subscription, loaded }: RenewalContext,
  reason: Reason,
  comment: string | null | undefined,
): Promise<LoadedSubscription> => {
  refuseEnding(subscription)
  if (subscription.status === 'paused') throw new InactiveSubscription('A paused subscription has no period. Revoke it, or resume it first.')
  const after = await updateSubscription(tx, subscription, {
    cancel_at_period_end: true,
    canceled_at: tx.clock.business(),
    ends_at: subscription.current_period_end,
    pause_at_period_end: false,
    resumes_at: null,
    customer_cancellation_reason: reason ?? null,
    customer_cancellation_comment: comment ?? null,
  })
  const canceled = { ...loaded, subscription: after }
  await emitSubscriptionEvents(tx, scope, subscription, canceled)
  return canceled
}

export const uncancel = async ({ tx, scope, subscription, loaded }: RenewalContext): Promise<void> => {
  if (subscription.ended_at !== null) throw new SubscriptionEnded()
  if (!subscription.cancel_at_period_end) throw new SubscriptionNotScheduledToCancel()
  const after = await updateSubscription(tx, subscription, {
    cancel_at_period_end: false,
    canceled_at: null,
    ends_at: null,
    customer_cancellation_reason: null,
    customer_cancellation_comment: null,
  })
  await emitSubscriptionEvents(tx, scope, subscription, { ...loaded, subscription: after })
}

/**
 * Ends the subscription at once and voids its open orders. Bills the usage up to now. If the open prorations sum to a credit, it
 * is added to the customer's balance. Returns the subscription afterwards.
 */
export const revokeSubscription = async (turn: RenewalContext, reason: Reason, comment: string | null | undefined): Promise<LoadedSubscription> => {
  const { tx, scope, subscription, loaded } = turn
  if (subscription.ended_at !== null) throw new AlreadyCanceledSubscription()
  const now = tx.clock.business()
  const after = await updateSubscription(tx, subscription, {
    ...ended(subscription, now),
    cancel_at_period_end: false,
    customer_cancellation_reason: reason ?? subscription.customer_cancellation_reason,
    customer_cancellation_comment: comment ?? subscription.customer_cancellation_comment,
  })
  const over = { ...loaded, subscription: after, pending: null }
  await emitSubscriptionEvents(tx, scope, subscription, over)
  await callOffOpen(tx, scope, after)
  await billEnd({ ...turn, subscription: after, loaded: over })
  return over
}

/**
 * Bills the usage of a revoked subscription, and open prorations that sum to a credit. If the tax is unknown or the tax service does
 * not answer, the subscription ends anyway. Its usage then waits for the last order.
 */
const billEnd = async (turn: RenewalContext): Promise<void> => {
  const { tx, subscription } = turn
  const open = await openEntries(tx, subscription)
  const entries = sum(open.map(({ amount }) => amount)) < 0 ? open : []
  const usage = await usageLines(turn)
  // The order has no period, because a period that begins at this moment may already have an order.
  const bill = (billed: UsageLines) => billPeriod({ turn, lines: [], entries, usage: billed, period: undefined }, { due_at: tx.clock.business() })
  try {
    await bill(usage)
  } catch (error) {
    if (!(error instanceof TaxUnknown || error instanceof TaxUnavailable) || usage.lines.length === 0) throw error
    await bill({ lines: [], settled: [] })
  }
}

/**
 * Schedules a pause from the end of the period on. During the pause the subscription gives no benefits and is not
 * charged.
 */
export const pause = async ({ tx, scope, subscription, loaded }: RenewalContext, resumes_at: Date | null): Promise<void> => {
  if (subscription.status !== 'active' || subscription.cancel_at_period_end || subscription.pause_at_period_end) throw new CannotPauseSubscription()
  if (resumes_at !== null && resumes_at <= subscription.current_period_end)
    throw new InvalidRequest(
      invalidAt(
        ['body', 'resumes_at'],
        `The pause begins at ${subscription.current_period_end.toISOString()}. It must end after that.`,
        resumes_at.toISOString(),
      ),
    )
  const after = await updateSubscription(tx, subscription, { pause_at_period_end: true, resumes_at })
  await emitSubscriptionEvents(tx, scope, subscription, { ...loaded, subscription: after })
}

export const unpause = async ({ tx, scope, subscription, loaded }: RenewalContext): Promise<void> => {
  if (!subscription.pause_at_period_end) throw new NoScheduledPause()
  const after = await updateSubscription(tx, subscription, { pause_at_period_end: false, resumes_at: null })
  await emitSubscriptionEvents(tx, scope, subscription, { ...loaded, subscription: after })
}

/** Ends a pause. A new period begins now, and the sweep charges its order shortly after. */
export const resume = async (turn: RenewalContext): Promise<void> => {
  if (turn.subscription.status !== 'paused') throw new NotPausedSubscription()
  const cycled = await resumed(turn, turn.tx.clock.business())
  if (!cycled) throw new SubscriptionLocked(billedAlready)
  await billPeriod(cycled, { due_at: turn.tx.clock.business() })
}

export const clearPending = async (turn: ChangeContext): Promise<void> => {
  const { pending } = turn.loaded
  if (!pending) throw new InvalidRequest(invalidAt(['body', 'pending_update'], 'No change is scheduled for the next period.', null))
  await clearUpdate(turn.tx, pending)
  await tellAgain(turn)
}

/** Finishes a change that needs no payment, in its own transaction. Returns the intent of a change that needs one. */
export const finish = async <T>(tx: Tx, intended: Intended, show: (db: Db) => Promise<T>): Promise<Intended | Finished<T>> =>
  intended.payment_id === null ? new Finished(await show(tx)) : intended

/** Charges the payment of a change, if there is one. Returns the subscription after the change. */
export const proceed = async <T>(deps: Deps, { organization_id, payment_id, method }: Intended, show: (db: Db) => Promise<T>): Promise<T | Refusal> => {
  if (payment_id !== null) {
    const payment = (await readPayment(deps.db, organization_id, payment_id))!
    const intent = payment.status === 'pending' ? await charge(deps, payment, { kind: 'method', id: method! }, { off_session: true }) : undefined
    // Calls `settleOrder` even if another worker has already settled the payment, so that the response shows the applied change.
    const settled = (await deps.transact((tx) => settleOrder(tx, organization_id, payment_id, intent))) ?? payment
    if (settled.status === 'failed') return refuse(new PaymentFailed(`${settled.decline_message ?? 'The payment failed.'} Nothing was changed.`))
    if (settled.status === 'pending')
      return refuse(new SubscriptionLocked('The payment for this change is not confirmed yet. The change takes effect as soon as it is.'))
  }
  return show(deps.db)
}
