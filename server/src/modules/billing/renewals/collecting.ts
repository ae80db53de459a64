import type { Reach } from '../../../kernel/actors.ts'
import { within } from '../../../kernel/actors.ts'
import { isFinal, type Intent } from '../../../gateways/payments/payments.ts'
import { hours, later, minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { checkHeld, checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { loadCustomers, lockCustomers } from '../../customers/index.ts'
import { capabilities, findLivingOrganization, type OrganizationRow } from '../../organizations/index.ts'
import { bill, reopen } from '../drafts/drafts.ts'
import { nextAttempt } from '../engine/dunning.ts'
import { promiseMail } from '../mails/promises.sql.ts'
import { markPaid, type Issued } from '../orders/issuing.ts'
import { changeOrder, findOpenFailures, findOwed, loadOrders, lockOrder, readOrder, type OrderRow } from '../orders/orders.sql.ts'
import { ageOf, charge, openAttempt, settle } from '../payments/attempts.ts'
import {
  changePayment,
  chargedWith,
  findAccount,
  type AccountRow,
  type HeldMethod,
  holdDefault,
  holdMethod,
  isOpen,
  keepMethod,
  lockPayment,
  paymentsOfOrder,
  readPayment,
} from '../payments/attempts.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { applyPaid } from '../subscriptions/applying.ts'
import { loadSubscriptions, lockSubscription, type SubscriptionRow } from '../subscriptions/subscriptions.sql.ts'
import { keep, tell } from '../subscriptions/telling.ts'
import { moveBalance } from '../ledger/ledger.ts'
import { deleteUpdate, findPaying } from '../subscriptions/updates.sql.ts'
import { callOff, callOffOpen, ended } from './ending.ts'

/** An order and what it belongs to, held in the order in which everybody holds them: customer, subscription, order. */
export interface Held {
  /** In the time of the customer. */
  readonly tx: Tx
  readonly reach: Reach
  readonly seller: OrganizationRow
  readonly subscription: Locked<SubscriptionRow> | null
  readonly order: Locked<OrderRow>
}

export const hold = async (tx: Tx, organization_id: string, order_id: string, { customer = false } = {}): Promise<Held | undefined> => {
  const seller = await findLivingOrganization(tx, { id: organization_id })
  const found = await readOrder(tx, organization_id, order_id)
  if (!seller || !found) return undefined
  const reach = within(organization_id, 'machine', seller.member_phase)
  if (customer) await lockCustomers(tx, reach, { id: found.customer_id })
  const subscription = found.subscription_id === null ? null : ((await lockSubscription(tx, reach, found.subscription_id)) ?? null)
  const order = (await lockOrder(tx, reach, order_id))!
  return { tx: await inTimeOf(tx, order), reach, seller, subscription, order }
}

/** An attempt that is to be made now, and who makes it. */
export interface Charge {
  readonly payment: PaymentRow
  /** What the processor calls what is charged. */
  readonly method: string
  /** Where the money goes; absent where that is yet to be looked up. */
  readonly account?: AccountRow
  readonly lease: Lease
}

/** What a subscription is paid with: its own card, or else whatever its customer pays with. It is held: nobody deletes it before there is an attempt with it. */
export const methodFor = async (
  tx: Tx,
  subscription: Pick<SubscriptionRow, 'organization_id' | 'customer_id' | 'payment_method_id'> | null,
  customer: { id: string; organization_id: string },
): Promise<HeldMethod | undefined> => {
  const own = subscription?.payment_method_id ? await holdMethod(tx, customer, subscription.payment_method_id) : undefined
  // One that was deleted while we waited for it has made room for another default.
  return own ?? (await holdDefault(tx, customer)) ?? holdDefault(tx, customer)
}

/**
 * Opens an attempt to collect an order with what its customer has left with us; the order is held. Nothing where there is
 * nothing to charge with.
 */
export const prepare = async (
  tx: Tx,
  { order, customer }: Pick<Issued, 'order' | 'customer'>,
  subscription: SubscriptionRow | null,
  trigger: PaymentRow['trigger'],
): Promise<Omit<Charge, 'lease'> | undefined> => {
  const method = await methodFor(tx, subscription, customer)
  if (!method) return undefined
  // Only the account that it was kept with can charge it, whichever the seller has come to prefer.
  const account = (await findAccount(tx, order.organization_id, method.account_id))!
  const payment = await openAttempt(tx, account, {
    organization_id: order.organization_id,
    customer_id: order.customer_id,
    order_id: order.id,
    kind: 'payment',
    amount: order.due_amount - order.carried_amount,
    currency: order.currency,
    trigger,
    reusable: true,
    payment_method_id: method.id,
  })
  return { payment, method: method.name, account }
}

/** The sweep over orders whose money is to be asked for: a first time, once more, or on where somebody was stopped. */
export const collect = async (means: Means, lease: Lease): Promise<void> => {
  const begun = await means.transact(async (tx) => begin(tx, means, lease))
  if (begun) await pay(means, begun)
}

const begin = async (wall: Tx, means: Means, lease: Lease): Promise<Charge | undefined> => {
  const held = await hold(wall, lease.organization_id, lease.id, { customer: true })
  await checkLease(wall, lease)
  const leave = async (next: Date | null) => {
    await releaseLease(wall, lease, next)
    return undefined
  }
  if (held?.order.status !== 'pending') return leave(null)
  const { tx, reach, order, subscription } = held
  const now = tx.clock.business()
  const underWay = (await paymentsOfOrder(tx, order.organization_id, order.id)).find(isOpen)
  // Settled by somebody who only asked, and its order is to hear of it by a job: it hears of it now, for it may be paid.
  if (underWay && underWay.status !== 'pending') return leave(await conclude(held, (await lockPayment(tx, order.organization_id, underWay.id))!))
  if (underWay) {
    // Somebody was stopped in the middle, and it goes on under its own keys; or the customer is just paying by hand.
    const method = await chargedWith(tx, underWay)
    return method === undefined ? leave(later(now, 1 * hours)) : { payment: underWay, method, lease }
  }
  // The last order of a subscription is made when it has ended; those before it are not asked for any more.
  if (subscription?.ended_at && order.created_at < subscription.ended_at) {
    await callOff(tx, reach, order)
    return leave(null)
  }
  if (order.due_at !== null && order.due_at > now) return leave(order.due_at)
  // Who may not renew may not ask again either; what was asked already is seen through.
  if (!capabilities[held.seller.status].subscription_renewals) return leave(later(now, 1 * hours))
  const customer = (await loadCustomers(tx, reach, [order.customer_id]))[0]!
  // A customer that is gone pays nothing: its subscriptions are about to end.
  if (customer.deleted_at !== null) {
    await callOff(tx, reach, order)
    return leave(null)
  }
  const begun = await prepare(tx, { order, customer }, subscription, order.first_failed_at === null ? 'subscription_cycle' : 'retry_dunning')
  if (begun) return { ...begun, lease }
  return leave(await failed(held, { final: false }))
}

/** Charges, and writes down what came of it. Where nobody answers it goes on soon; where the answer takes its time the attempt is followed up, and the order waits for that. */
export const pay = async (means: Means, { payment, method, account, lease }: Charge): Promise<void> => {
  const intent = await charge(means, payment, { kind: 'method', id: method }, { off_session: true, account })
  await means.transact(async (tx) => {
    const held = (await hold(tx, lease.organization_id, lease.id))!
    checkHeld(held.order, lease, tx.clock.wall())
    const settled = intent
      ? await settle(held.tx, payment, intent, { concludes: true })
      : ((await lockPayment(tx, payment.organization_id, payment.id)) ?? payment)
    const after = settled.status === 'pending' ? (isUnderWay(intent) ? null : soon(held.tx, payment)) : await conclude(held, settled as Locked<PaymentRow>)
    await releaseLease(tx, lease, after)
  })
}

/** The processor has it, and takes its time. */
const isUnderWay = (intent: Intent | undefined): boolean => intent !== undefined && intent.status !== 'requires_confirmation'

/** Nobody answered, and nobody is there who could go on: it is asked again under the same keys, ever less often. */
const soon = (tx: Tx, { id }: PaymentRow): Date => later(tx.clock.business(), Math.min(Math.max(ageOf(id, tx.clock.wall()), 5 * seconds), 5 * minutes))

/** What an attempt was for has been settled by somebody who only asked: now its order hears of it, once. */
export const orderPaymentSettled = ({ transact }: Means, { organization_id, payment_id }: { organization_id: string; payment_id: string }): Promise<void> =>
  transact(async (tx) => {
    await settleOrder(tx, organization_id, payment_id)
  })

/** Somebody works on it now. Who died left a lease behind, which ends by itself. */
const isLeased = (tx: Tx, { lease_until }: OrderRow): boolean => lease_until !== null && lease_until > tx.clock.wall()

/** The same, for whoever waits for the outcome: what is known of the attempt is written down with all that follows from it. */
export const settleOrder = async (
  tx: Tx,
  organization_id: string,
  payment_id: string,
  intent?: Parameters<typeof settle>[2],
): Promise<Locked<PaymentRow> | undefined> => {
  const seen = await readPayment(tx, organization_id, payment_id)
  if (!seen || seen.order_id === null) return undefined
  const held = await hold(tx, organization_id, seen.order_id, { customer: true })
  if (!held) return undefined
  const payment = intent ? await settle(held.tx, seen, intent, { concludes: true }) : (await lockPayment(tx, organization_id, payment_id))!
  if (payment.status === 'pending') return payment
  const due_at = await conclude(held, payment)
  const order = await lockOrder(held.tx, held.reach, held.order.id)
  if (order?.status === 'pending' && !isLeased(tx, order)) await changeOrder(held.tx, order, { due_at })
  return payment
}

/** How often a customer may try an order, by hand or with another card. */
export const tries = 5

/** Whatever a customer owes is asked for at once with what they pay with now. It is a try of theirs, and does not count among ours. */
export const methodChanged = async (means: Means, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> => {
  for (const order_id of await findOwed(means.db, organization_id, customer_id)) {
    const begun = await means.transact(async (tx) => {
      const held = await hold(tx, organization_id, order_id)
      if (held?.order.status !== 'pending' || isLeased(tx, held.order)) return undefined
      // What has a card of its own is not helped by another one.
      if (held.subscription && held.subscription.payment_method_id !== null) return undefined
      if (!capabilities[held.seller.status].subscription_renewals) return undefined
      const attempts = await paymentsOfOrder(tx, organization_id, order_id)
      // Whoever changes cards to and fro has as many tries as by hand.
      if (attempts.some(isOpen) || attempts.filter(({ trigger }) => trigger === 'retry_payment_method_update').length >= tries) return undefined
      const customer = (await loadCustomers(tx, held.reach, [customer_id]))[0]!
      return prepare(held.tx, { order: held.order, customer }, held.subscription, 'retry_payment_method_update')
    })
    if (!begun) continue
    const intent = await charge(means, begun.payment, { kind: 'method', id: begun.method }, { off_session: true })
    if (intent) await means.transact((tx) => settleOrder(tx, organization_id, begun.payment.id, intent))
  }
}

/** What follows from an attempt for its order, once, and when the order is to be looked at again. */
const conclude = async (held: Held, payment: Locked<PaymentRow>): Promise<Date | null> => {
  const { tx, order, reach, subscription } = held
  if (payment.concluded_at !== null) return order.status === 'pending' ? order.due_at : null
  await changePayment(tx, payment, { concluded_at: tx.clock.business() })
  if (order.status !== 'pending') return null
  if (payment.status === 'succeeded') return paid(held, payment)
  if (isFinalized(order)) {
    await reopen(tx, reach, order)
    return null
  }
  const change = await findPaying(tx, order.organization_id, order.id)
  // A change that nobody paid for does not happen; and what has ended is not asked for again.
  if (change || (subscription && subscription.ended_at !== null)) {
    await callOff(tx, reach, order)
    return null
  }
  // A try of the customer's own changes nothing about ours; one that was given up was none.
  if (payment.trigger === 'retry_customer' || payment.trigger === 'retry_payment_method_update') return order.next_payment_attempt_at ?? order.due_at
  if (payment.decline_reason === 'canceled') return tx.clock.business()
  return failed(held, { final: payment.decline_final || isFinal(payment.decline_reason ?? '') })
}

/** It was a draft: of a checkout there is no order before it is paid, and everything else is billed before it is asked for. */
const isFinalized = ({ billing_reason, checkout_id }: OrderRow): boolean => billing_reason === 'purchase' && checkout_id === null

const paid = async ({ tx, reach, seller, subscription, order }: Held, payment: Locked<PaymentRow>): Promise<null> => {
  if (isFinalized(order)) await bill(tx, order)
  const [loaded] = await loadOrders(tx, reach, [order])
  const issued = await markPaid(tx, seller, { ...loaded!, order })
  if (!subscription) return null
  const changes: Partial<SubscriptionRow> = {}
  // It goes on with what it was rescued with.
  if (payment.trigger === 'retry_customer' && payment.processor_method) {
    const own = await keepMethod(tx, issued.customer, payment.account_id, payment.processor_method)
    if (own !== subscription.payment_method_id) changes.payment_method_id = own
  }
  const change = await findPaying(tx, order.organization_id, order.id)
  if (change && subscription.ended_at !== null) {
    // It was paid for too late: nothing is left to change, and the money is the customer's.
    await deleteUpdate(tx, change)
    await moveBalance(tx, {
      organization_id: order.organization_id,
      id: payment.id,
      customer_id: order.customer_id,
      currency: payment.currency,
      amount: payment.amount,
    })
    return null
  }
  const current = change ? await applyPaid(tx, reach, subscription, change, order) : subscription
  if (subscription.past_due_at !== null && subscription.ended_at === null && !(await findOpenFailures(tx, subscription)))
    Object.assign(changes, {
      past_due_at: null,
      ...(subscription.status === 'past_due' ? { status: 'active' as const } : {}),
    } satisfies Partial<SubscriptionRow>)
  if (Object.keys(changes).length === 0) return null
  const after = await keep(tx, current, changes)
  if (after.status !== current.status) await tell(tx, current, (await loadSubscriptions(tx, reach, [after]))[0]!)
  return null
}

/**
 * A payment that failed, or could not even be tried: the subscription is past due, and the order is tried again on its
 * days, or never again: then the subscription ends, and everything open of it is called off.
 */
export const failed = async ({ tx, reach, subscription, order }: Held, { final }: { final: boolean }): Promise<Date | null> => {
  if (!subscription) return null
  if (subscription.ended_at !== null) {
    await callOff(tx, reach, order)
    return null
  }
  const now = tx.clock.business()
  const past_due_at = subscription.past_due_at ?? now
  const first_failed_at = order.first_failed_at ?? now
  const next = nextAttempt({ first_failed_at, past_due_at, final, now })
  const marked = await changeOrder(tx, order, { first_failed_at, next_payment_attempt_at: next, due_at: next })
  await promiseMail(tx, 'mail.payment_failed', marked, now)
  // A pause is no period that could be past due, and goes on; how long it is owed counts all the same.
  const status = subscription.status === 'paused' ? 'paused' : 'past_due'
  if (next !== null && status === subscription.status && subscription.past_due_at !== null) return next
  const after = await keep(tx, subscription, next === null ? ended(subscription, now) : { status, past_due_at })
  if (after.status !== subscription.status) await tell(tx, subscription, (await loadSubscriptions(tx, reach, [after]))[0]!)
  if (next === null) await callOffOpen(tx, reach, after)
  return next
}
