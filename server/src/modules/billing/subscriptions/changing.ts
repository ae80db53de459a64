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
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { sum } from '../../../kernel/money.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Means, type Platform, type Refusal } from '../../handlers.ts'
import { findDiscount } from '../../catalog/index.ts'
import { findLivingOrganization, permit } from '../../organizations/index.ts'
import { applicable } from '../engine/discounts.ts'
import { reductionOf } from '../orders/issuing.ts'
import { TaxUnknown } from '../taxes/taxes.ts'
import { charge } from '../payments/attempts.ts'
import { readPayment } from '../payments/attempts.sql.ts'
import { personKey } from '../redemptions/persons.ts'
import { insertRedemption, reserveUse } from '../redemptions/redemptions.sql.ts'
import { settleOrder } from '../renewals/collecting.ts'
import { callOffOpen, ended } from '../renewals/ending.ts'
import { billedAlready, billPeriod, resumed, type Turn } from '../renewals/renewals.ts'
import { loadSubscriptions, lockSubscription } from './subscriptions.sql.ts'
import { changeProduct, changeSeats, nothingToPay, type Begun } from './switching.ts'
import { keep, tell } from './telling.ts'
import { changeWithin, refuseEnding, tellAgain, type Asking, type Wished } from './trials.ts'
import { deleteUpdate, openEntries } from './updates.sql.ts'

/** What a request needs to find its change again. */
export interface Intended extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly subscription_id: string
  readonly payment_id: string | null
  readonly method: string | null
}

/** Holds a subscription for whoever wants to change it, in its customer's time. */
export const hold = async (wall: Tx, reach: Reach, platform: Platform, id: string): Promise<Asking> => {
  const subscription = await lockSubscription(wall, reach, id)
  if (!subscription) throw new ResourceNotFound()
  const tx = await inTimeOf(wall, subscription)
  const seller = (await findLivingOrganization(tx, { id: subscription.organization_id }))!
  return { platform, tx, reach, seller, subscription, loaded: (await loadSubscriptions(tx, reach, [subscription]))[0]! }
}

/** While a change is being paid for there is no other; but whoever wants to leave with the period, or to stay after all, does not wait for a bank. */
export const refusePaying = ({ loaded }: Asking, body: object = {}): void => {
  if (loaded.paying && !('cancel_at_period_end' in body)) throw new SubscriptionLocked()
}

/** The seller's door: any of the eight shapes. */
export const begin = async (tx: Tx, reach: Reach, platform: Platform, id: string, body: SubscriptionUpdate): Promise<Intended> => {
  const asking = await hold(tx, reach, platform, id)
  const { organization_id } = asking.subscription
  permit(reach, organization_id, 'sales:manage')
  refusePaying(asking, body)
  return { organization_id, subscription_id: id, ...(await withTax(() => apply(asking, body))) }
}

/** Whoever asks for what is billed at once is told what is missing for it. */
export const withTax = async <T>(work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof TaxUnknown)) throw error
    const problem =
      'The billing address of the customer does not tell which tax is due. Complete it first: the country, and the state where taxes differ by it.'
    throw new InvalidRequest(invalidAt(['body'], problem))
  }
}

const apply = async (asking: Asking, body: SubscriptionUpdate): Promise<Begun> => {
  if ('seats' in body) return changeSeats(asking, body.seats, body.proration_behavior)
  if ('current_billing_period_end' in body) await changePeriod(asking, body.current_billing_period_end)
  else if ('cancel_at_period_end' in body)
    await (body.cancel_at_period_end ? cancel(asking, body.customer_cancellation_reason, body.customer_cancellation_comment) : uncancel(asking))
  else if ('revoke' in body) await revoke(asking, body.customer_cancellation_reason, body.customer_cancellation_comment)
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

/** Several of these may be asked for at once: they happen together or not at all, and are told once. */
const changeBase = async (asking: Asking, body: BaseUpdate): Promise<Begun> => {
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

/** A discount counts from the next period on, and is a use like any other. */
const redeem = async ({ tx, reach, subscription, loaded, platform }: Asking, discount_id: string, product_id: string): Promise<void> => {
  const { organization_id } = subscription
  const found = await findDiscount(tx, reach, discount_id)
  const wrong = (problem: string) => new InvalidRequest(invalidAt(['body', 'discount_id'], problem, discount_id))
  if (!found || found.organization_id !== organization_id) throw wrong('There is no discount with this id.')
  const offer = { starts_at: found.starts_at, ends_at: found.ends_at, product_ids: found.products.map(({ id }) => id), ...reductionOf(found) }
  const occasion = { now: tx.clock.business(), product_id, currency: subscription.currency, is_free_product_price: false }
  if (!applicable(offer, occasion)) throw wrong('This discount does not count for this product now.')
  if (!(await reserveUse(tx, { organization_id, discount_id }))) throw wrong('This discount has been used as often as it can be.')
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

/** The period ends at another moment, and those after it are counted from there. Usage and trials end with it. */
const changePeriod = async ({ tx, subscription, loaded }: Turn, current_period_end: Date): Promise<void> => {
  refuseEnding(subscription)
  if (subscription.status !== 'trialing' && subscription.status !== 'active') throw new InactiveSubscription()
  const now = tx.clock.business()
  if (current_period_end <= now)
    throw new InvalidRequest(invalidAt(['body', 'current_billing_period_end'], 'A period ends in the future.', current_period_end.toISOString()))
  const after = await keep(tx, subscription, {
    current_period_end,
    anchor_day: current_period_end.getUTCDate(),
    calendar_from: current_period_end,
    // Whoever says when its period ends has looked at it.
    parked_at: null,
    ...(subscription.status === 'trialing' ? { trial_end: current_period_end } : {}),
  })
  await tell(tx, subscription, { ...loaded, subscription: after })
}

type Reason = CustomerCancellationReason | null | undefined

/** It ends with the period that is paid for. */
export const cancel = async ({ tx, subscription, loaded }: Turn, reason: Reason, comment: string | null | undefined): Promise<void> => {
  refuseEnding(subscription)
  if (subscription.status === 'paused') throw new InactiveSubscription('A paused subscription has no period to end with. Revoke it, or resume it first.')
  const after = await keep(tx, subscription, {
    cancel_at_period_end: true,
    canceled_at: tx.clock.business(),
    ends_at: subscription.current_period_end,
    pause_at_period_end: false,
    resumes_at: null,
    customer_cancellation_reason: reason ?? null,
    customer_cancellation_comment: comment ?? null,
  })
  await tell(tx, subscription, { ...loaded, subscription: after })
}

export const uncancel = async ({ tx, subscription, loaded }: Turn): Promise<void> => {
  if (subscription.ended_at !== null) throw new SubscriptionEnded()
  if (!subscription.cancel_at_period_end) throw new SubscriptionNotScheduledToCancel()
  const after = await keep(tx, subscription, {
    cancel_at_period_end: false,
    canceled_at: null,
    ends_at: null,
    customer_cancellation_reason: null,
    customer_cancellation_comment: null,
  })
  await tell(tx, subscription, { ...loaded, subscription: after })
}

/** It is over at once: what is still owed for it is called off, what it still owes the customer becomes their credit. */
export const revoke = async (turn: Turn, reason: Reason, comment: string | null | undefined): Promise<void> => {
  const { tx, reach, subscription, loaded } = turn
  if (subscription.ended_at !== null) throw new AlreadyCanceledSubscription()
  const now = tx.clock.business()
  const after = await keep(tx, subscription, {
    ...ended(subscription, now),
    cancel_at_period_end: false,
    customer_cancellation_reason: reason ?? subscription.customer_cancellation_reason,
    customer_cancellation_comment: comment ?? subscription.customer_cancellation_comment,
  })
  const over = { ...loaded, subscription: after, pending: null }
  await tell(tx, subscription, over)
  await callOffOpen(tx, reach, after)
  // It is for no period: the one that begins at this moment may have an order already.
  if (sum((await openEntries(tx, after)).map(({ amount }) => amount)) < 0)
    await billPeriod({ turn: { ...turn, subscription: after, loaded: over }, lines: [], period: undefined }, undefined)
}

/** Nothing is used and nothing is paid from the end of the period on. */
export const pause = async ({ tx, subscription, loaded }: Turn, resumes_at: Date | null): Promise<void> => {
  if (subscription.status !== 'active' || subscription.cancel_at_period_end || subscription.pause_at_period_end) throw new CannotPauseSubscription()
  if (resumes_at !== null && resumes_at <= subscription.current_period_end)
    throw new InvalidRequest(
      invalidAt(
        ['body', 'resumes_at'],
        `The pause begins at ${subscription.current_period_end.toISOString()}: it can end only after that.`,
        resumes_at.toISOString(),
      ),
    )
  const after = await keep(tx, subscription, { pause_at_period_end: true, resumes_at })
  await tell(tx, subscription, { ...loaded, subscription: after })
}

export const unpause = async ({ tx, subscription, loaded }: Turn): Promise<void> => {
  if (!subscription.pause_at_period_end) throw new NoScheduledPause()
  const after = await keep(tx, subscription, { pause_at_period_end: false, resumes_at: null })
  await tell(tx, subscription, { ...loaded, subscription: after })
}

/** A new period begins now, and is charged within a moment. */
export const resume = async (turn: Turn): Promise<void> => {
  if (turn.subscription.status !== 'paused') throw new NotPausedSubscription()
  const cycled = await resumed(turn, turn.tx.clock.business())
  if (!cycled) throw new SubscriptionLocked(billedAlready)
  await billPeriod(cycled, { due_at: turn.tx.clock.business() })
}

export const clearPending = async (turn: Asking): Promise<void> => {
  const { pending } = turn.loaded
  if (!pending) throw new InvalidRequest(invalidAt(['body', 'pending_update'], 'No change waits for the next period.', null))
  await deleteUpdate(turn.tx, pending)
  await tellAgain(turn)
}

/** Charges for a change that has to be paid for, and shows the subscription as it is then. */
export const proceed = async <T>(means: Means, { organization_id, payment_id, method }: Intended, show: (db: Db) => Promise<T>): Promise<T | Refusal> => {
  if (payment_id !== null) {
    const payment = (await readPayment(means.db, organization_id, payment_id))!
    const intent = payment.status === 'pending' ? await charge(means, payment, { kind: 'method', id: method! }, { off_session: true }) : undefined
    // Also what somebody else has settled meanwhile: what was paid for is shown as it is then.
    const settled = (await means.transact((tx) => settleOrder(tx, organization_id, payment_id, intent))) ?? payment
    if (settled.status === 'failed') return refuse(new PaymentFailed(`${settled.decline_message ?? 'The payment failed.'} Nothing was changed.`))
    if (settled.status === 'pending')
      return refuse(new SubscriptionLocked('The payment for this change is not confirmed yet. The change is made as soon as it is.'))
  }
  return show(means.db)
}
