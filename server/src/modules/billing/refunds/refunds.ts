import {
  invalidAt,
  InvalidRequest,
  orderRefunded,
  orderUpdated,
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
import { newId } from '../../../kernel/ids.ts'
import { stepOf } from '../../../kernel/money.ts'
import { ProcessorRefusal, ProcessorSilent, type Processor, type ProcessorRefund } from '../../../gateways/payments/payments.ts'
import { later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { capabilities, findLivingOrganization, permit } from '../../organizations/index.ts'
import { refundTax } from '../engine/taxes.ts'
import { refundable } from '../engine/totals.ts'
import { postRefund, reverseRefund } from '../ledger/ledger.ts'
import { changeOrder, loadOrders, lockOrder, type OrderRow } from '../orders/orders.sql.ts'
import { presentOrder } from '../orders/orders.ts'
import { readPayment } from '../payments/attempts.sql.ts'
import { ageOf, firstLook, keysKnown, nextLook, processorFor } from '../payments/attempts.ts'
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
  const payment = ['paid', 'partially_refunded', 'refunded'].includes(order.status) ? await paidBy(tx, order) : undefined
  if (!payment) throw new RefundUnknownPayment()
  const share = await shareOf(tx, order, body.amount)
  const row: RefundRow = {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.business(),
    modified_at: null,
    order_id: order.id,
    payment_id: payment.id,
    customer_id: order.customer_id,
    subscription_id: order.subscription_id,
    status: 'pending',
    reason: body.reason,
    amount: body.amount,
    tax_amount: share,
    currency: order.currency,
    comment: body.comment ?? null,
    revoke_benefits: body.revoke_benefits,
    metadata: body.metadata ?? {},
    processor_refund_id: null,
    ...unleased,
    due_at: later(tx.clock.wall(), firstLook),
  }
  await insertRefund(tx, row)
  await emit(tx, refundCreated, { organization_id, resource_id: row.id, customer_id: row.customer_id }, presentRefund(row))
  return { organization_id, refund_id: row.id }
}

/** The tax that goes back with so much of an order, what is on its way counted as gone. */
const shareOf = async (tx: Tx, order: OrderRow, amount: number): Promise<number> => {
  const pending = await pendingOf(tx, order)
  const left = refundable({
    ...order,
    refunded_amount: order.refunded_amount + pending.amount,
    refunded_tax_amount: order.refunded_tax_amount + pending.tax_amount,
  })
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
  const told = await ask(processor, payment, refund, ageOf(id, means.platform.clock.wall()))
  if (told) {
    await means.transact((tx) => settle(tx, refund, told))
    return undefined
  }
  // Nobody can tell any more whether the money went back: it counts as gone, and a person looks at it.
  means.platform.log.error('refund_parked', { organization_id, refund_id: id })
  return 'parked'
}

type Told = Pick<ProcessorRefund, 'id' | 'status'>

const ask = async (processor: Processor, payment: PaymentRow, refund: RefundRow, age: number): Promise<Told | undefined> => {
  if (refund.processor_refund_id !== null) return processor.readRefund(refund.processor_refund_id)
  const metadata = { refund_id: refund.id, organization_id: refund.organization_id }
  if (age >= keysKnown) {
    const [found] = await processor.findRefunds({ intent_id: payment.intent_id!, metadata: { refund_id: refund.id } })
    return found
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
  const payment = (await readPayment(tx, organization_id, refund.payment_id))!
  const fact = {
    organization_id,
    id,
    account_id: payment.account_id,
    customer_id: refund.customer_id,
    amount: refund.amount,
    tax_amount: refund.tax_amount,
    currency: refund.currency,
  }
  const sign = told.status === 'succeeded' ? 1 : refund.status === 'succeeded' ? -1 : 0
  if (sign === 1) await postRefund(tx, fact)
  if (sign === -1) await reverseRefund(tx, fact)
  if (sign !== 0) {
    const refunded_amount = order.refunded_amount + sign * refund.amount
    const refunded_tax_amount = order.refunded_tax_amount + sign * refund.tax_amount
    const left = refundable({ ...order, refunded_amount, refunded_tax_amount })
    const status = refunded_amount === 0 ? 'paid' : left.refundable_amount === 0 ? 'refunded' : 'partially_refunded'
    const revokes = refund.revoke_benefits && !(await isRevokedBesides(tx, refund)) ? { benefits_revoked_at: sign === 1 ? tx.clock.business() : null } : {}
    const after = await changeOrder(tx, order, { refunded_amount, refunded_tax_amount, status, ...revokes })
    if (refund.revoke_benefits) {
      const container = { organization_id, subscription_id: null, order_id }
      if (sign === 1 && order.seats !== null) await enqueue(tx, 'billing.end_seats', container)
      await enqueue(tx, 'entitlements.reconcile', { ...container, seat_id: null })
    }
    const [loaded] = await loadOrders(tx, reach, [after])
    const about = { organization_id, resource_id: order_id, customer_id: order.customer_id }
    await emit(tx, orderUpdated, about, presentOrder(loaded!))
    if (sign === 1) await emit(tx, orderRefunded, about, presentOrder(loaded!))
  }
  await emit(tx, refundUpdated, { organization_id, resource_id: id, customer_id: refund.customer_id }, presentRefund(changed))
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
  if (id !== undefined) await follow(means, organization_id, id)
}
