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
import { within, type Reach } from '../../../kernel/actors.ts'
import { isId, newId } from '../../../kernel/ids.ts'
import { stepOf } from '../../../kernel/money.ts'
import { ProcessorRefusal, ProcessorSilent, type Processor, type ProcessorRefund } from '../../../gateways/payments/payments.ts'
import { hours, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { capabilities, findLivingOrganization, permit } from '../../organizations/index.ts'
import { noteRefund } from '../documents/documents.ts'
import { divideWithin, refundTax } from '../engine/taxes.ts'
import { refundable } from '../engine/totals.ts'
import { isDisputed, paymentBehind } from '../disputes/disputes.sql.ts'
import { postRefund, reverseRefund } from '../ledger/ledger.ts'
import { changeOrder, loadOrders, lockOrder, readOrder, type OrderRow } from '../orders/orders.sql.ts'
import { presentOrder } from '../orders/orders.ts'
import { findAccount, readPayment } from '../payments/attempts.sql.ts'
import { ageOf, firstLook, follow as followPayment, keysKnown, lookInto, nextLook, processorFor, processorOf } from '../payments/attempts.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
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
} from './refunds.sql.ts'

/** After so long no list of a processor can lack what was asked for while its key was known. */
const listsComplete = keysKnown + 6 * hours

/** What the first step has committed. */
export interface Intended extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly refund_id: string
}

/**
 * Writes down what goes back, under the lock of its order, before the processor hears of it: however many ask at once,
 * together they never give back more than was paid.
 */
export const begin = async (wall: Tx, reach: Reach, body: z.output<typeof RefundCreate>): Promise<Intended> => {
  const order = await lockOrder(wall, reach, body.order_id)
  if (!order) throw new InvalidRequest(invalidAt(['body', 'order_id'], 'There is no order with this id.', body.order_id))
  const tx = await inTimeOf(wall, order)
  const { organization_id } = order
  permit(reach, organization_id, 'sales:manage')
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

/** What can still go back of an order, what is on its way counted as gone. */
const leftOf = async (tx: Tx, order: OrderRow): Promise<ReturnType<typeof refundable>> => {
  const pending = await pendingOf(tx, order)
  return refundable({
    ...order,
    refunded_amount: order.refunded_amount + pending.amount,
    refunded_tax_amount: order.refunded_tax_amount + pending.tax_amount,
  })
}

/** The tax that goes back with so much of an order. */
const shareOf = async (tx: Tx, order: OrderRow, amount: number): Promise<number> => {
  const left = await leftOf(tx, order)
  if (left.refundable_amount === 0) throw new RefundedAlready()
  if (amount > left.refundable_amount)
    throw new InvalidRequest(invalidAt(['body', 'amount'], `At most ${left.refundable_amount} can still be paid back.`, amount))
  const tax = refundTax({ currency: order.currency, amount, net_amount: order.net_amount, tax_amount: order.tax_amount, ...left })
  if ((amount + tax) % stepOf(order.currency) !== 0)
    throw new InvalidRequest(invalidAt(['body', 'amount'], `With its tax of ${tax} this is not a whole amount of ${order.currency}.`, amount))
  return tax
}

/** Asks for the money to go back, and tells how it stands; what is not known yet is found out by whoever looks after it. */
export const proceed = async (means: Means, { organization_id, refund_id }: Intended): Promise<Refund> => {
  await follow(means, organization_id, refund_id).catch((error: unknown) => {
    if (!(error instanceof ProcessorSilent)) throw error
  })
  return presentRefund((await readRefund(means.db, organization_id, refund_id))!)
}

/** Asks the processor what a refund has become: by its name, or by asking for it under its own key, or when that is forgotten by looking for it. */
export const follow = async (means: Means, organization_id: string, id: string): Promise<'parked' | undefined> => {
  const refund = await readRefund(means.db, organization_id, id)
  if (!refund || refund.status === 'failed' || refund.status === 'canceled') return undefined
  const payment = (await readPayment(means.db, organization_id, refund.payment_id))!
  const processor = await processorFor(means, payment)
  const fitting = await fits(means.db, refund)
  const told = fitting ? await ask(processor, payment, refund, ageOf(id, means.platform.clock.wall())) : await lookFor(processor, payment, refund)
  if (told) {
    await means.transact((tx) => settle(tx, refund, told))
    await lookAround(means, processor, payment, told)
    return undefined
  }
  if (fitting) return undefined
  // It went back twice, by a refund and by a bank: it counts as gone, and a person looks at it.
  means.platform.log.error('refund_parked', { organization_id, refund_id: id })
  return 'parked'
}

/** Whether its order still has so much to give back: a bank may have taken it meanwhile. One that has a name or an end was counted. */
const fits = async (db: Db, { organization_id, order_id, status, processor_refund_id, amount, tax_amount }: RefundRow): Promise<boolean> => {
  if (status !== 'pending' || processor_refund_id !== null) return true
  const left = refundable((await readOrder(db, organization_id, order_id))!)
  return amount <= left.refundable_amount && tax_amount <= left.refundable_tax_amount
}

/** It is not asked for any more. If it was given all the same, nobody can book it, and a person looks at it. */
const lookFor = async (processor: Processor, payment: PaymentRow, refund: RefundRow): Promise<Told | undefined> => {
  const found = await processor.findRefunds({ intent_id: payment.intent_id!, metadata: { refund_id: refund.id } })
  return found.some(({ status }) => status !== 'failed' && status !== 'canceled') ? undefined : { id: '', status: 'failed' }
}

/** Ours was refused, or failed: because of a dispute, or of a refund made at the processor, that was passed over while ours was under way. */
const lookAround = async (means: Means, processor: Processor, payment: PaymentRow, { status }: Told): Promise<void> => {
  if (status === 'failed' || status === 'canceled') await lookInto(means, processor, payment)
}

type Told = Pick<ProcessorRefund, 'id' | 'status'>

const ask = async (processor: Processor, payment: PaymentRow, refund: RefundRow, age: number): Promise<Told | undefined> => {
  if (refund.processor_refund_id !== null) return processor.readRefund(refund.processor_refund_id)
  const metadata = { refund_id: refund.id, organization_id: refund.organization_id }
  if (age >= keysKnown) {
    const [found] = await processor.findRefunds({ intent_id: payment.intent_id!, metadata: { refund_id: refund.id } })
    // Whoever asked last did so hours ago: what is not in the list by now never was.
    return found ?? (age >= listsComplete ? { id: '', status: 'failed' } : undefined)
  }
  try {
    return await processor.createRefund({ key: refund.id, intent_id: payment.intent_id!, amount: refund.amount + refund.tax_amount, metadata })
  } catch (error) {
    if (error instanceof ProcessorRefusal) return { id: '', status: 'failed' }
    throw error
  }
}

/** Writes down what became of a refund, with the order and the ledger in the same transaction. One that failed after all is taken back everywhere. */
const settle = async (wall: Tx, { organization_id, id, order_id }: RefundRow, told: Told): Promise<void> => {
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  // The order first, always: whoever asks for another refund waits here.
  const reach = within(organization_id, 'machine', seller.member_phase)
  const order = (await lockOrder(wall, reach, order_id))!
  const tx = await inTimeOf(wall, order)
  const refund = (await lockRefund(tx, reach, id))!
  const named = refund.processor_refund_id ?? (told.id === '' ? null : told.id)
  // An answer may be older than what we know: a refund goes from pending to its end, and one that succeeded can still fail.
  const goesOn =
    (refund.status === 'pending' && told.status !== 'pending') || (refund.status === 'succeeded' && (told.status === 'failed' || told.status === 'canceled'))
  if (!goesOn) {
    if (named !== refund.processor_refund_id) await changeRefund(tx, refund, { processor_refund_id: named })
    return
  }
  const changed = await changeRefund(tx, refund, { status: told.status, processor_refund_id: named, due_at: null })
  const sign = told.status === 'succeeded' ? 1 : refund.status === 'succeeded' ? -1 : 0
  if (sign !== 0) await reckon(tx, reach, order, refund, sign)
  await emit(tx, refundUpdated, { organization_id, resource_id: id, customer_id: refund.customer_id }, presentRefund(changed))
}

/** Money that went back, or did not after all: the ledger, the order and what it gave say so together. */
export const reckon = async (tx: Tx, reach: Reach, order: Locked<OrderRow>, refund: Locked<RefundRow>, sign: 1 | -1): Promise<void> => {
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
  if (sign === 1) await noteRefund(tx, reach, after, refund)
  const [loaded] = await loadOrders(tx, reach, [after])
  const about = { organization_id, resource_id: order_id, customer_id: order.customer_id }
  await emit(tx, orderUpdated, about, presentOrder(loaded!))
  if (sign === 1) await emit(tx, orderRefunded, about, presentOrder(loaded!))
}

/** The sweep over refunds that nobody has heard of. */
export const followDue = async (means: Means, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  let parked: 'parked' | undefined
  try {
    parked = await follow(means, organization_id, id)
  } catch (error) {
    if (!(error instanceof ProcessorSilent)) throw error
  }
  await underLease(means.transact, lease, async (tx) =>
    !parked && (await readRefund(tx, organization_id, id))?.status === 'pending' ? nextLook(id, tx.clock.wall()) : null,
  )
}

/** A processor says that something happened to a refund: it is looked up, and followed. One whose name we do not know yet is left to the sweep. */
export const followNamed = async (
  means: Means,
  { organization_id, account_id, processor_refund_id }: { organization_id: string; account_id: string; processor_refund_id: string },
): Promise<void> => {
  const id = await findByProcessorId(means.db, organization_id, account_id, processor_refund_id)
  if (id !== undefined) {
    await follow(means, organization_id, id)
    return
  }
  const processor = processorOf(means, (await findAccount(means.db, organization_id, account_id))!)
  const told = await processor.readRefund(processor_refund_id)
  const payment = await paymentBehind(means.db, organization_id, account_id, told.intent_id)
  if (!payment) return
  const ours = isId(told.metadata.refund_id) ? await readRefund(means.db, organization_id, told.metadata.refund_id) : undefined
  // Its name is news to us. What names a refund that we do not have was lost with a restore, or made by somebody else who counts theirs.
  if (ours?.payment_id === payment.id) {
    // Where it cannot be booked, the sweep says so.
    if (!(await fits(means.db, ours))) return
    await means.transact((tx) => settle(tx, ours, told))
    return lookAround(means, processor, payment, told)
  }
  if (told.status === 'failed' || told.status === 'canceled') return
  if (payment.status === 'pending') await followPayment(means, organization_id, payment.id)
  await means.transact((tx) => takeOver(tx, means, organization_id, payment.id, told))
}

/** Money that the seller gave back at the processor itself: it is a refund like any other, written down once. */
const takeOver = async (wall: Tx, { platform }: Pick<Means, 'platform'>, organization_id: string, payment_id: string, told: ProcessorRefund): Promise<void> => {
  const payment = (await readPayment(wall, organization_id, payment_id))!
  // Charged after all, though we had called it off: it was never booked, and going back it is not either.
  if (payment.status === 'failed') return
  // The order comes a moment after its payment, and hears of it a moment later: the job is tried again.
  if (payment.order_id === null) throw new Error('this refund is of a payment that has no order yet')
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  const reach = within(organization_id, 'machine', seller.member_phase)
  const order = (await lockOrder(wall, reach, payment.order_id))!
  if (!isPaid(order)) throw new Error('this refund is of an order that does not know of its payment yet')
  const tx = await inTimeOf(wall, order)
  if ((await findByProcessorId(tx, organization_id, payment.account_id, told.id)) !== undefined) return
  const share = divideWithin(told.amount, { ...order, ...(await leftOf(tx, order)) })
  if (share.amount + share.tax_amount !== told.amount) {
    // One of ours is under way as well: the processor gives one of them, and when ours has failed this is looked into again.
    if ((await pendingOf(tx, order)).amount > 0) return
    // More than there is: it was booked in another way, or one of ours has failed and we do not know it yet.
    platform.log.error('refund_unclear', { organization_id, payment_id })
    return
  }
  const refund = await writeRefund(tx, order, {
    payment_id,
    status: told.status,
    reason: 'other',
    ...share,
    comment: 'Given back at the processor.',
    processor_refund_id: told.id,
  })
  if (told.status === 'succeeded') await reckon(tx, reach, order, refund, 1)
}

/** Writes down a refund of an order that is held, and says that there is one. What is not over yet is looked after. */
export const writeRefund = async (
  tx: Tx,
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
