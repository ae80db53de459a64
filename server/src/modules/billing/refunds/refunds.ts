import {
  invalidAt,
  InvalidRequest,
  orderRefunded,
  orderUpdated,
  RefundDisputedPayment,
  RefundedAlready,
  refundCreated,
  RefundsBlocked,
  RefundUnknownPayment,
  refundUpdated,
  RevokeSubscriptionBenefitsProhibited,
  type Refund,
  type RefundCreate,
} from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { isId, newId } from '../../../kernel/ids.ts'
import { stepOf } from '../../../kernel/money.ts'
import { ProcessorRefusal, ProcessorSilent, type Processor, type ProcessorRefund } from '../../../gateways/payments/payments.ts'
import { hours, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit, emitAll } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { capabilities, findLivingOrganization, permit } from '../../organizations/index.ts'
import { noteRefund } from '../documents/documents.ts'
import { divideWithin, refundTax } from '../calc/taxes.ts'
import { refundable } from '../calc/totals.ts'
import { isDisputed, paymentBehind } from '../records/disputes.sql.ts'
import { postRefund, reverseRefund } from '../ledger/ledger.ts'
import { changeOrder, loadOrders, lockOrder, readOrder, type OrderRow } from '../records/orders.sql.ts'
import { presentOrder } from '../records/orders.ts'
import { findAccount, readPayment } from '../payments/attempts.sql.ts'
import { ageOf, firstLook, follow as followPayment, keysKnown, lookInto, nextLook, processorFor, processorOf } from '../payments/attempts.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { settleCredits } from '../invoicing/taking-back.ts'
import { reportReversed } from '../taxes/reporting.ts'
import { lockOrderToCollect, type LockedOrder } from '../invoicing/collecting.ts'
import {
  changeRefund,
  findByProcessorId,
  insertRefund,
  isRevokedBesides,
  lockRefund,
  paidBy,
  pendingOf,
  presentRefund,
  readRefund,
  type RefundRow,
} from '../records/refunds.sql.ts'

/**
 * Age after which a refund that is missing from the processor's list was never made. The last request was sent six
 * hours earlier, when the idempotency key could expire.
 */
const listsComplete = keysKnown + 6 * hours

/** The ids that the first step of a refund has committed. */
export interface Intended extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly refund_id: string
}

/**
 * Locks the order and stores a pending refund, before the processor is called. Concurrent requests together can
 * therefore never refund more than was paid.
 */
export const begin = async (wall: Tx, scope: TenantScope, body: z.output<typeof RefundCreate>): Promise<Intended> => {
  const order = await lockOrder(wall, scope, body.order_id)
  if (!order) throw new InvalidRequest(invalidAt(['body', 'order_id'], 'There is no order with this id.', body.order_id))
  const tx = await inTimeOf(wall, order)
  const { organization_id } = order
  permit(scope, organization_id, 'sales:manage')
  const seller = (await findLivingOrganization(tx, { id: organization_id }))!
  if (!capabilities[seller.status].refunds) throw new RefundsBlocked()
  if (body.revoke_benefits && order.subscription_id !== null) throw new RevokeSubscriptionBenefitsProhibited()
  const payment = isPaid(order) ? await paidBy(tx, order) : undefined
  if (!payment) throw new RefundUnknownPayment()
  if (await isDisputed(tx, organization_id, payment.id)) throw new RefundDisputedPayment()
  const share = await shareOf(tx, order, body.amount)
  const { id } = await writeRefund(tx, order, {
    payment_id: payment.id,
    status: 'pending',
    reason: body.reason,
    amount: body.amount,
    tax_amount: share,
    comment: body.comment ?? null,
    revoke_benefits: body.revoke_benefits,
    metadata: body.metadata ?? {},
  })
  return { organization_id, refund_id: id }
}

const isPaid = ({ status }: OrderRow): boolean => ['paid', 'partially_refunded', 'refunded'].includes(status)

/** Returns the refundable amounts of an order. Pending refunds count as refunded. */
const leftOf = async (tx: Tx, order: OrderRow): Promise<ReturnType<typeof refundable>> => {
  const pending = await pendingOf(tx, order)
  return refundable({
    ...order,
    refunded_amount: order.refunded_amount + pending.amount,
    refunded_tax_amount: order.refunded_tax_amount + pending.tax_amount,
  })
}

/** Returns the tax that is refunded together with the given amount. Throws if the amount cannot be refunded. */
const shareOf = async (tx: Tx, order: OrderRow, amount: number): Promise<number> => {
  const left = await leftOf(tx, order)
  if (left.refundable_amount === 0) throw new RefundedAlready()
  if (amount > left.refundable_amount)
    throw new InvalidRequest(invalidAt(['body', 'amount'], `At most ${left.refundable_amount} can still be refunded.`, amount))
  const tax = refundTax({ currency: order.currency, amount, net_amount: order.net_amount, tax_amount: order.tax_amount, ...left })
  if ((amount + tax) % stepOf(order.currency) !== 0)
    throw new InvalidRequest(invalidAt(['body', 'amount'], `With its tax of ${tax}, this is not an amount that ${order.currency} allows.`, amount))
  return tax
}

/** Requests the refund from the processor and returns it. If the result is unknown, the sweep determines it later. */
export const proceed = async (deps: Deps, { organization_id, refund_id }: Intended): Promise<Refund> => {
  await follow(deps, organization_id, refund_id).catch((error: unknown) => {
    if (!(error instanceof ProcessorSilent)) throw error
  })
  return presentRefund((await readRefund(deps.db, organization_id, refund_id))!)
}

/**
 * Job that refunds the rest of an order, except the debt that the order collected. Idempotent: a second run finds
 * nothing left to refund.
 */
export const refundOrder = async (deps: Deps, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const refund = await deps.transact(async (wall) => {
    const held = await lockOrderToCollect(wall, organization_id, order_id)
    const payment = held && isPaid(held.order) ? await paidBy(held.tx, held.order) : undefined
    if (!held || !payment || (await isDisputed(held.tx, organization_id, payment.id))) return undefined
    const left = await leftOf(held.tx, held.order)
    const amount = left.refundable_amount - Math.max(0, held.order.applied_balance_amount)
    if (amount <= 0) return undefined
    return writeRefund(held.tx, held.order, { payment_id: payment.id, status: 'pending', reason: 'other', amount, tax_amount: left.refundable_tax_amount })
  })
  if (refund) await proceed(deps, { organization_id, refund_id: refund.id })
}

/**
 * Gets the status of a refund from the processor and applies it. Reads the refund by its id, or repeats the request
 * under its idempotency key. Once the key may have expired, searches for the refund by its metadata.
 */
export const follow = async (deps: Deps, organization_id: string, id: string): Promise<'parked' | undefined> => {
  const refund = await readRefund(deps.db, organization_id, id)
  if (!refund || refund.status === 'failed' || refund.status === 'canceled') return undefined
  const payment = (await readPayment(deps.db, organization_id, refund.payment_id))!
  const processor = await processorFor(deps, payment)
  const fitting = await fits(deps.db, refund)
  const told = fitting ? await ask(processor, payment, refund, ageOf(id, deps.platform.clock.wall())) : await lookFor(processor, payment, refund)
  if (told) {
    await deps.transact((tx) => settle(tx, refund, told))
    await lookAround(deps, processor, payment, told)
    return undefined
  }
  if (fitting) return undefined
  // The processor has made the refund, and a dispute has taken the money too. The refund stays pending and counts as
  // refunded. A person must check it.
  deps.platform.log.error('refund_parked', { organization_id, refund_id: id })
  return 'parked'
}

/**
 * Whether the refundable amount of the order still covers this refund. A dispute may have reduced it meanwhile. A
 * refund with a processor id or a final status is already counted.
 */
const fits = async (db: Db, { organization_id, order_id, status, processor_refund_id, amount, tax_amount }: RefundRow): Promise<boolean> => {
  if (status !== 'pending' || processor_refund_id !== null) return true
  const left = refundable((await readOrder(db, organization_id, order_id))!)
  return amount <= left.refundable_amount && tax_amount <= left.refundable_tax_amount
}

/**
 * Searches at the processor for a refund that exceeds the refundable amount of its order and must not be requested.
 * Returns `failed` if the processor never made it. Returns undefined if the processor made it. Such a refund cannot be
 * posted, and a person must check it.
 */
const lookFor = async (processor: Processor, payment: PaymentRow, refund: RefundRow): Promise<Told | undefined> => {
  const found = await processor.findRefunds({ intent_id: payment.intent_id!, metadata: { refund_id: refund.id } })
  return found.some(({ status }) => status !== 'failed' && status !== 'canceled') ? undefined : { id: '', status: 'failed' }
}

/**
 * After a refund failed, looks for disputes and refunds that were created at the processor. A dispute or another refund
 * may be the reason for the failure. Its event may have been skipped while our refund was pending.
 */
const lookAround = async (deps: Deps, processor: Processor, payment: PaymentRow, { status }: Told): Promise<void> => {
  if (status === 'failed' || status === 'canceled') await lookInto(deps, processor, payment)
}

type Told = Pick<ProcessorRefund, 'id' | 'status'>

const ask = async (processor: Processor, payment: PaymentRow, refund: RefundRow, age: number): Promise<Told | undefined> => {
  if (refund.processor_refund_id !== null) return processor.readRefund(refund.processor_refund_id)
  const metadata = { refund_id: refund.id, organization_id: refund.organization_id }
  if (age >= keysKnown) {
    const [found] = await processor.findRefunds({ intent_id: payment.intent_id!, metadata: { refund_id: refund.id } })
    // The last request was six hours ago. If the list does not contain the refund by now, the processor never made it.
    return found ?? (age >= listsComplete ? { id: '', status: 'failed' } : undefined)
  }
  try {
    return await processor.createRefund({ key: refund.id, intent_id: payment.intent_id!, amount: refund.amount + refund.tax_amount, metadata })
  } catch (error) {
    if (error instanceof ProcessorRefusal) return { id: '', status: 'failed' }
    throw error
  }
}

/**
 * Stores the result of a refund and updates the order and the ledger in the same transaction. If a succeeded refund
 * fails later, reverses it in all of them.
 */
export const settle = async (wall: Tx, { organization_id, id, order_id }: RefundRow, told: Told): Promise<void> => {
  // Lock the order before the refund. Another refund of the same order waits here.
  const held = (await lockOrderToCollect(wall, organization_id, order_id))!
  const { tx, scope } = held
  const refund = (await lockRefund(tx, scope, id))!
  const named = refund.processor_refund_id ?? (told.id === '' ? null : told.id)
  // The status from the processor may be outdated. Only two transitions are valid: from pending to a final status, and
  // from succeeded to failed or canceled.
  const goesOn =
    (refund.status === 'pending' && told.status !== 'pending') || (refund.status === 'succeeded' && (told.status === 'failed' || told.status === 'canceled'))
  if (!goesOn) {
    if (named !== refund.processor_refund_id) await changeRefund(tx, refund, { processor_refund_id: named })
    return
  }
  const changed = await changeRefund(tx, refund, { status: told.status, processor_refund_id: named, due_at: null })
  const sign = told.status === 'succeeded' ? 1 : refund.status === 'succeeded' ? -1 : 0
  if (sign !== 0) await reckon(held, refund, sign)
  // While the refund was pending, proration credits of its order were withheld. The refund failed, so they are
  // restored.
  else await settleCredits(held, { source: order_id })
  await emit(tx, refundUpdated, { organization_id, resource_id: id, customer_id: refund.customer_id }, presentRefund(changed))
}

/** Applies a succeeded refund to the ledger, the order and its benefits. With `sign` -1, reverses it. */
export const reckon = async (held: LockedOrder, refund: Locked<RefundRow>, sign: 1 | -1): Promise<void> => {
  const { tx, scope, order } = held
  const { organization_id, id, order_id } = refund
  const { account_id } = (await readPayment(tx, organization_id, refund.payment_id))!
  const fact = { ...refund, id, account_id }
  if (sign === 1) await postRefund(tx, fact)
  else await reverseRefund(tx, fact)
  const refunded_amount = order.refunded_amount + sign * refund.amount
  const refunded_tax_amount = order.refunded_tax_amount + sign * refund.tax_amount
  const left = refundable({ ...order, refunded_amount, refunded_tax_amount })
  const status = refunded_amount + refunded_tax_amount === 0 ? 'paid' : left.refundable_amount === 0 ? 'refunded' : 'partially_refunded'
  const revokes = refund.revoke_benefits && !(await isRevokedBesides(tx, refund)) ? { benefits_revoked_at: sign === 1 ? tx.clock.business() : null } : {}
  const after = await changeOrder(tx, order, { refunded_amount, refunded_tax_amount, status, ...revokes })
  if (refund.revoke_benefits) {
    const container = { organization_id, subscription_id: null, order_id }
    if (sign === 1 && order.seats !== null) await enqueue(tx, 'billing.end_seats', container)
    await enqueue(tx, 'entitlements.reconcile', { ...container, seat_id: null })
  }
  if (sign === 1) {
    await noteRefund(tx, scope, after, refund)
    await enqueue(tx, 'mail.order_refunded', { organization_id, refund_id: id })
  }
  await reportReversed(tx, order, { refund_id: id })
  await settleCredits(held, { source: order_id })
  const [loaded] = await loadOrders(tx, scope, [after])
  const about = { organization_id, resource_id: order_id, customer_id: order.customer_id }
  await emitAll(tx, [orderUpdated, ...(sign === 1 ? [orderRefunded] : [])], about, presentOrder(loaded!))
}

/** Sweep task that polls pending refunds, in case no event arrives. */
export const followDue = async (deps: Deps, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  let parked: 'parked' | undefined
  try {
    parked = await follow(deps, organization_id, id)
  } catch (error) {
    if (!(error instanceof ProcessorSilent)) throw error
  }
  await underLease(deps.transact, lease, async (tx) =>
    !parked && (await readRefund(tx, organization_id, id))?.status === 'pending' ? nextLook(id, tx.clock.wall()) : null,
  )
}

/**
 * Job for a processor event about a refund: finds the refund and updates it. A refund with an unknown id is matched by
 * its metadata. Without a match, it is recorded as a refund that the seller made at the processor.
 */
export const followNamed = async (
  deps: Deps,
  { organization_id, account_id, processor_refund_id }: { organization_id: string; account_id: string; processor_refund_id: string },
): Promise<void> => {
  const id = await findByProcessorId(deps.db, organization_id, account_id, processor_refund_id)
  if (id !== undefined) {
    await follow(deps, organization_id, id)
    return
  }
  const processor = processorOf(deps, (await findAccount(deps.db, organization_id, account_id))!)
  const told = await processor.readRefund(processor_refund_id)
  const payment = await paymentBehind(deps.db, organization_id, account_id, told.intent_id)
  if (!payment) return
  const ours = isId(told.metadata.refund_id) ? await readRefund(deps.db, organization_id, told.metadata.refund_id) : undefined
  // This is our own refund, whose processor id was not stored yet. If the metadata names an unknown refund, it comes
  // from before a restore or from another system.
  if (ours?.payment_id === payment.id) {
    // The refund exceeds the refundable amount and cannot be posted. The sweep logs this as an error.
    if (!(await fits(deps.db, ours))) return
    await deps.transact((tx) => settle(tx, ours, told))
    return lookAround(deps, processor, payment, told)
  }
  if (told.status === 'failed' || told.status === 'canceled') return
  if (payment.status === 'pending') await followPayment(deps, organization_id, payment.id)
  await deps.transact((tx) => takeOver(tx, deps, organization_id, payment.id, told))
}

/** Records a refund that the seller made at the processor. Idempotent. */
const takeOver = async (wall: Tx, { platform }: Pick<Deps, 'platform'>, organization_id: string, payment_id: string, told: ProcessorRefund): Promise<void> => {
  const payment = (await readPayment(wall, organization_id, payment_id))!
  // The payment failed here and was never posted to the ledger, although the processor charged it. Its refund is not
  // posted either.
  if (payment.status === 'failed') return
  // The order may be created, or marked as paid, only after its payment. The error makes the job retry.
  if (payment.order_id === null) throw new Error('the payment of this refund has no order yet')
  const held = (await lockOrderToCollect(wall, organization_id, payment.order_id))!
  const { tx, order } = held
  if (!isPaid(order)) throw new Error('the order of this refund has no record of its payment yet')
  if ((await findByProcessorId(tx, organization_id, payment.account_id, told.id)) !== undefined) return
  const share = divideWithin(told.amount, { ...order, ...(await leftOf(tx, order)) })
  if (share.amount + share.tax_amount !== told.amount) {
    // One of our own refunds is pending too, and the processor makes only one of the two. If ours fails, this refund is
    // looked up again.
    if ((await pendingOf(tx, order)).amount > 0) return
    // The amount exceeds the refundable amount of the order. The money was already posted in another way, or one of our
    // refunds failed and this is not known yet.
    platform.log.error('refund_unclear', { organization_id, payment_id })
    return
  }
  const refund = await writeRefund(tx, order, {
    payment_id,
    status: told.status,
    reason: 'other',
    ...share,
    comment: 'Refunded at the processor.',
    processor_refund_id: told.id,
  })
  if (told.status === 'succeeded') await reckon(held, refund, 1)
}

/** Inserts a refund of a locked order and emits `refund.created`. Schedules the sweep for a pending refund. */
export const writeRefund = async (
  tx: BusinessTx,
  order: Locked<OrderRow>,
  said: Pick<RefundRow, 'payment_id' | 'status' | 'reason' | 'amount' | 'tax_amount'> & Partial<RefundRow>,
  dispute?: Parameters<typeof presentRefund>[1],
): Promise<Locked<RefundRow>> => {
  const { organization_id, customer_id, subscription_id, currency } = order
  const refund = await insertRefund(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.business(),
    modified_at: null,
    order_id: order.id,
    customer_id,
    subscription_id,
    currency,
    comment: null,
    revoke_benefits: false,
    metadata: {},
    dispute_id: null,
    processor_refund_id: null,
    ...unleased,
    ...(said.status === 'pending' ? { due_at: later(tx.clock.wall(), firstLook) } : {}),
    ...said,
  })
  await emit(tx, refundCreated, { organization_id, resource_id: refund.id, customer_id }, presentRefund(refund, dispute))
  return refund
}
