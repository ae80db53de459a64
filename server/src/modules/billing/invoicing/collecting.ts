import type { TenantScope } from '../../../kernel/actors.ts'
import { within } from '../../../kernel/actors.ts'
import { isFinal, type Intent } from '../../../gateways/payments/payments.ts'
import { hours, later, minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { checkHeld, checkLease, releaseLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { loadCustomers, lockCustomers } from '../../customers/index.ts'
import { capabilities, type OrganizationRow } from '../../organizations/index.ts'
import { billDraftOrder, reopen } from './drafts.ts'
import { nextAttempt } from '../calc/dunning.ts'
import { promiseMail } from './promises.sql.ts'
import { markPaid, type Issued } from './issuing.ts'
import { changeOrder, findOpenFailures, findOrderKeys, findOwed, loadOrders, lockOrder, type OrderRow } from '../records/orders.sql.ts'
import { ageOf, attemptOf, charge, settle, type Together } from '../payments/attempts.ts'
import {
  changePayment,
  chargedWith,
  findAccount,
  type AccountRow,
  type HeldMethod,
  holdDefault,
  holdMethod,
  insertPayment,
  isOpen,
  keepMethod,
  lockPayment,
  paymentsOfOrder,
  readPayment,
} from '../payments/attempts.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { forgetProrations } from '../prorations/prorations.sql.ts'
import { settleCredits } from './taking-back.ts'
import { applyPaid } from './applying.ts'
import { loadSubscriptions, lockSubscription, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import { updateSubscription, emitSubscriptionEvents } from '../records/subscription-events.ts'
import { moveBalance } from '../ledger/ledger.ts'
import { deleteUpdate, findPaying, type UpdateRow } from '../records/subscription-updates.sql.ts'
import { holdBilledUsage, releaseUsage } from '../records/usage-settlements.sql.ts'
import { callOff, callOffOpen, ended } from './ending.ts'

/** A locked order with its subscription. Lock the customer first, then the subscription, then the order. */
export interface LockedOrder {
  /** Uses the customer's clock, which may be a test clock. */
  readonly tx: BusinessTx
  readonly scope: TenantScope
  readonly seller: OrganizationRow
  readonly subscription: Locked<SubscriptionRow> | null
  readonly order: Locked<OrderRow>
}

export const lockOrderToCollect = async (tx: Tx, organization_id: string, order_id: string, { customer = false } = {}): Promise<LockedOrder | undefined> => {
  const found = await findOrderKeys(tx, organization_id, order_id)
  if (!found) return undefined
  const { seller } = found
  const scope = within(organization_id, 'machine', seller.member_phase)
  if (customer) await lockCustomers(tx, scope, { id: found.customer_id })
  const subscription = found.subscription_id === null ? null : ((await lockSubscription(tx, scope, found.subscription_id)) ?? null)
  const order = (await lockOrder(tx, scope, order_id))!
  return { tx: await inTimeOf(tx, order), scope, seller, subscription, order }
}

/** A payment attempt to charge now, and the lease of the worker that charges it. */
export interface Charge {
  readonly payment: PaymentRow
  /** The processor's id of the payment method. */
  readonly method: string
  /** The account that receives the money. Absent if it must still be looked up. */
  readonly account?: AccountRow
  readonly lease: Lease
}

/**
 * Locks the payment method of a subscription: its own, or else the customer's default. The lock prevents the deletion
 * of the method before the attempt is stored.
 */
export const methodFor = async (
  tx: Tx,
  subscription: Pick<SubscriptionRow, 'organization_id' | 'customer_id' | 'payment_method_id'> | null,
  customer: { id: string; organization_id: string },
): Promise<HeldMethod | undefined> => {
  const own = subscription?.payment_method_id ? await holdMethod(tx, customer, subscription.payment_method_id) : undefined
  // Reads the default twice. While the first call waits for the lock, the default may be deleted and replaced.
  return own ?? (await holdDefault(tx, customer)) ?? holdDefault(tx, customer)
}

/**
 * Opens an attempt to collect an order with a saved payment method. The caller must have locked the order. Returns
 * undefined if there is no payment method.
 */
export const prepare = async (
  tx: BusinessTx,
  { order, customer }: Pick<Issued, 'order' | 'customer'>,
  subscription: SubscriptionRow | null,
  trigger: PaymentRow['trigger'],
): Promise<Omit<Charge, 'lease'> | undefined> => {
  const method = await methodFor(tx, subscription, customer)
  if (!method) return undefined
  // Only the account that saved the method can charge it, even if the seller now prefers another account.
  const account = (await findAccount(tx, order.organization_id, method.account_id))!
  const payment = attemptFor(tx, order, account, method, trigger)
  await insertPayment(tx, payment)
  return { payment, method: method.name, account }
}

/** Composes the attempt to charge the due amount of an order, without writing it. */
export const attemptFor = (tx: BusinessTx, order: OrderRow, account: AccountRow, method: HeldMethod, trigger: PaymentRow['trigger']): PaymentRow =>
  attemptOf(tx, account, {
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

/** Sweep task for orders that are due for payment: makes the first attempt, a retry, or continues an interrupted attempt. */
export const collect = async (deps: Deps, lease: Lease): Promise<void> => {
  const begun = await deps.transact(async (tx) => begin(tx, deps, lease))
  if (begun) await pay(deps, begun)
}

const begin = async (wall: Tx, deps: Deps, lease: Lease): Promise<Charge | undefined> => {
  const held = await lockOrderToCollect(wall, lease.organization_id, lease.id, { customer: true })
  await checkLease(wall, lease)
  const leave = async (next: Date | null) => {
    await releaseLease(wall, lease, next)
    return undefined
  }
  if (held?.order.status !== 'pending') return leave(null)
  const { tx, scope, order, subscription } = held
  const now = tx.clock.business()
  const underWay = (await paymentsOfOrder(tx, order.organization_id, order.id)).find(isOpen)
  // The payment sweep has settled the attempt, but the job that updates the order has not run. Applies the result now,
  // because the order may be paid already.
  if (underWay && underWay.status !== 'pending') return leave(await conclude(held, (await lockPayment(tx, order.organization_id, underWay.id))!))
  if (underWay) {
    // Continues the attempt of an interrupted worker under the same idempotency keys. An attempt without a saved method
    // is made by the customer in the portal, so it is left alone.
    const method = await chargedWith(tx, underWay)
    return method === undefined ? leave(later(now, 1 * hours)) : { payment: underWay, method, lease }
  }
  // The subscription has ended. Only its final order, created at that end, is still collected. Earlier orders are
  // voided.
  if (subscription?.ended_at && order.created_at < subscription.ended_at) {
    await callOff(tx, scope, order)
    return leave(null)
  }
  if (order.due_at !== null && order.due_at > now) return leave(order.due_at)
  // A seller that may not renew subscriptions may not retry payments either. Attempts in progress are still completed.
  if (!capabilities[held.seller.status].subscription_renewals) return leave(later(now, 1 * hours))
  const customer = (await loadCustomers(tx, scope, [order.customer_id]))[0]!
  // A deleted customer is not charged. A job is about to end the subscriptions of that customer.
  if (customer.deleted_at !== null) {
    await callOff(tx, scope, order)
    return leave(null)
  }
  const begun = await prepare(tx, { order, customer }, subscription, order.first_failed_at === null ? 'subscription_cycle' : 'retry_dunning')
  if (begun) return { ...begun, lease }
  return leave(await failed(held, { final: false }))
}

/**
 * Charges an attempt and stores the result. If the processor does not answer, the order is retried soon. If the payment
 * is still processing, the payment sweep polls the attempt, and the order is not charged again meanwhile.
 */
export const pay = async (deps: Deps, begun: Charge): Promise<void> => record(deps, begun, await chargeSaved(deps, begun))

/** Charges an attempt with its saved payment method. */
export const chargeSaved = (deps: Deps, { payment, method, account }: Charge, together?: Together): Promise<Intent | undefined> =>
  charge(deps, payment, { kind: 'method', id: method }, { off_session: true, account, together })

/** Stores the result of a charge and applies it to the order, under the order's lease. */
export const record = async (deps: Deps, { payment, lease }: Charge, intent: Intent | undefined): Promise<void> => {
  await deps.transact(async (tx) => {
    const held = (await lockOrderToCollect(tx, lease.organization_id, lease.id))!
    checkHeld(held.order, lease, tx.clock.wall())
    const settled = intent
      ? await settle(held.tx, payment, intent, { concludes: true })
      : ((await lockPayment(tx, payment.organization_id, payment.id)) ?? payment)
    const after = settled.status === 'pending' ? (isUnderWay(intent) ? null : soon(held.tx, payment)) : await conclude(held, markLocked(settled))
    await releaseLease(tx, lease, after)
  })
}

/** Whether the processor has received the confirmation of the charge, even if the result is not known yet. */
const isUnderWay = (intent: Intent | undefined): boolean => intent !== undefined && intent.status !== 'requires_confirmation'

/**
 * Returns when to retry a charge that the processor did not answer. The retry uses the same idempotency keys. The delay
 * grows from 5 seconds to 5 minutes.
 */
const soon = (tx: BusinessTx, { id }: PaymentRow): Date => later(tx.clock.business(), Math.min(Math.max(ageOf(id, tx.clock.wall()), 5 * seconds), 5 * minutes))

/** Job that updates the order after the payment sweep has settled its payment. Idempotent. */
export const orderPaymentSettled = ({ transact }: Deps, { organization_id, payment_id }: { organization_id: string; payment_id: string }): Promise<void> =>
  transact(async (tx) => {
    await settleOrder(tx, organization_id, payment_id)
  })

/** Whether a worker has leased the order. The lease of a crashed worker expires. A lease without a holder is a pause after a failure. */
const isLeased = (tx: Tx, { lease_until, lease_holder }: OrderRow): boolean => lease_holder !== null && lease_until !== null && lease_until > tx.clock.wall()

/** Settles a payment and applies its result to the order in one transaction. */
export const settleOrder = async (
  tx: Tx,
  organization_id: string,
  payment_id: string,
  intent?: Parameters<typeof settle>[2],
): Promise<Locked<PaymentRow> | undefined> => {
  const seen = await readPayment(tx, organization_id, payment_id)
  if (!seen || seen.order_id === null) return undefined
  const held = await lockOrderToCollect(tx, organization_id, seen.order_id, { customer: true })
  if (!held) return undefined
  const payment = intent ? await settle(held.tx, seen, intent, { concludes: true }) : (await lockPayment(tx, organization_id, payment_id))!
  if (payment.status === 'pending') return payment
  const due_at = await conclude(held, payment)
  const order = await lockOrder(held.tx, held.scope, held.order.id)
  if (order?.status === 'pending' && !isLeased(tx, order)) await changeOrder(held.tx, order, { ...unleased, clock_id: order.clock_id, due_at })
  return payment
}

/**
 * Maximum number of attempts by the customer per order. The limit applies separately to payments by hand and to changes
 * of the payment method.
 */
export const tries = 5

/**
 * Job that runs after the customer's default payment method changed. Charges the orders whose payment failed with the
 * new default. These attempts do not change the dunning schedule.
 */
export const methodChanged = async (deps: Deps, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> => {
  for (const order_id of await findOwed(deps.db, organization_id, customer_id)) {
    const begun = await deps.transact(async (tx) => {
      const held = await lockOrderToCollect(tx, organization_id, order_id)
      if (held?.order.status !== 'pending' || isLeased(tx, held.order)) return undefined
      // A subscription with its own payment method does not use the default.
      if (held.subscription && held.subscription.payment_method_id !== null) return undefined
      if (!capabilities[held.seller.status].subscription_renewals) return undefined
      const attempts = await paymentsOfOrder(tx, organization_id, order_id)
      // Limits these attempts, because a customer could change the default any number of times.
      if (attempts.some(isOpen) || attempts.filter(({ trigger }) => trigger === 'retry_payment_method_update').length >= tries) return undefined
      const customer = (await loadCustomers(tx, held.scope, [customer_id]))[0]!
      return prepare(held.tx, { order: held.order, customer }, held.subscription, 'retry_payment_method_update')
    })
    if (!begun) continue
    const intent = await charge(deps, begun.payment, { kind: 'method', id: begun.method }, { off_session: true })
    if (intent) await deps.transact((tx) => settleOrder(tx, organization_id, begun.payment.id, intent))
  }
}

/**
 * Applies the result of an attempt to its order, at most once. Returns when the order is due next, or null if it is not
 * due any more.
 */
const conclude = async (held: LockedOrder, payment: Locked<PaymentRow>): Promise<Date | null> => {
  const { tx, order, scope, subscription } = held
  if (payment.concluded_at !== null) return order.status === 'pending' ? order.due_at : null
  await changePayment(tx, payment, { concluded_at: tx.clock.business() })
  if (order.status !== 'pending') return null
  if (payment.status === 'succeeded') return paid(held, payment)
  if (isFinalized(order)) {
    await reopen(tx, scope, order)
    return null
  }
  const change = await findPaying(tx, order.organization_id, order.id)
  // If the payment of a subscription change fails, the change is dropped. The order of an ended subscription is not
  // retried.
  if (change || (subscription && subscription.ended_at !== null)) {
    await callOff(tx, scope, order)
    return null
  }
  // An attempt by the customer does not change the dunning schedule. A canceled attempt does not count as a failed
  // payment, so the order is due again now.
  if (payment.trigger === 'retry_customer' || payment.trigger === 'retry_payment_method_update') return order.next_payment_attempt_at ?? order.due_at
  if (payment.decline_reason === 'canceled') return tx.clock.business()
  return failed(held, { final: payment.decline_final || isFinal(payment.decline_reason ?? '') })
}

/**
 * Whether the order is a finalized draft, which is posted to the ledger only when it is paid. A checkout creates its
 * order after the payment. All other orders are posted before they are charged.
 */
const isFinalized = ({ billing_reason, checkout_id }: OrderRow): boolean => billing_reason === 'purchase' && checkout_id === null

const paid = async ({ tx, scope, seller, subscription, order }: LockedOrder, payment: Locked<PaymentRow>): Promise<null> => {
  if (isFinalized(order)) await billDraftOrder(tx, order)
  const [loaded] = await loadOrders(tx, scope, [order])
  const change = subscription && (await findPaying(tx, order.organization_id, order.id))
  const late = change && subscription.ended_at !== null ? change : undefined
  // The lock of usage comes before those of the ledger.
  const bills_usage = late !== undefined && (await holdBilledUsage(tx, order))
  const issued = await markPaid(tx, seller, { ...loaded!, order })
  if (!subscription) return null
  if (late) {
    await dropLateChange(tx, order, late, bills_usage)
    return null
  }
  // The payments behind the credits on this order may have been refunded while the order was pending.
  await settleCredits({ tx, scope, seller, subscription }, { carrier: order.id })
  const changes: Partial<SubscriptionRow> = {}
  // The customer paid this order in the portal. The subscription uses that payment method from now on.
  if (payment.trigger === 'retry_customer' && payment.processor_method) {
    const own = await keepMethod(tx, issued.customer, payment.account_id, payment.processor_method)
    if (own !== subscription.payment_method_id) changes.payment_method_id = own
  }
  const current = change ? await applyPaid(tx, scope, subscription, change, order) : subscription
  if (subscription.past_due_at !== null && subscription.ended_at === null && !(await findOpenFailures(tx, subscription)))
    Object.assign(changes, {
      past_due_at: null,
      ...(subscription.status === 'past_due' ? { status: 'active' as const } : {}),
    } satisfies Partial<SubscriptionRow>)
  if (Object.keys(changes).length === 0) return null
  const after = await updateSubscription(tx, current, changes)
  if (after.status !== current.status) await emitSubscriptionEvents(tx, scope, current, (await loadSubscriptions(tx, scope, [after]))[0]!)
  return null
}

/**
 * Drops a subscription change whose payment succeeded after the subscription had ended. Refunds the payment and returns
 * the credit that the order used.
 */
const dropLateChange = async (tx: BusinessTx, order: Locked<OrderRow>, change: UpdateRow, bills_usage: boolean): Promise<void> => {
  const { organization_id, id, customer_id, currency, applied_balance_amount } = order
  await deleteUpdate(tx, change)
  await forgetProrations(tx, order)
  if (bills_usage) await releaseUsage(tx, organization_id, id)
  await moveBalance(tx, { organization_id, id, customer_id, currency, amount: Math.max(0, 0 - applied_balance_amount) })
  await enqueue(tx, 'billing.refund_order', { organization_id, order_id: id })
}

/**
 * Handles a payment that failed or could not be attempted. The subscription becomes past due, and the order is retried
 * on schedule. After the last retry the subscription ends and its open orders are voided.
 */
export const failed = async ({ tx, scope, subscription, order }: LockedOrder, { final }: { final: boolean }): Promise<Date | null> => {
  if (!subscription) return null
  if (subscription.ended_at !== null) {
    await callOff(tx, scope, order)
    return null
  }
  const now = tx.clock.business()
  const past_due_at = subscription.past_due_at ?? now
  const first_failed_at = order.first_failed_at ?? now
  const next = nextAttempt({ first_failed_at, past_due_at, final, now })
  const marked = await changeOrder(tx, order, { first_failed_at, next_payment_attempt_at: next, due_at: next })
  await promiseMail(tx, 'mail.payment_failed', marked, now)
  // A paused subscription has no period that could be past due, so it stays paused. `past_due_at` still starts the
  // dunning period.
  const status = subscription.status === 'paused' ? 'paused' : 'past_due'
  if (next !== null && status === subscription.status && subscription.past_due_at !== null) return next
  const after = await updateSubscription(tx, subscription, next === null ? ended(subscription, now) : { status, past_due_at })
  // The mail about the failed payment also tells of its consequence.
  if (after.status !== subscription.status)
    await emitSubscriptionEvents(tx, scope, subscription, (await loadSubscriptions(tx, scope, [after]))[0]!, { told: true })
  if (next === null) await callOffOpen(tx, scope, after)
  return next
}
