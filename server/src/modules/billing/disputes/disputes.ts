import { DisputeNotOpenError, ResourceNotFound, type Dispute, type DisputeStatus } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { ProcessorRefusal, ProcessorSilent, type Processor, type ProcessorDispute } from '../../../gateways/payments/payments.ts'
import { days, later } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Means, type Refusal } from '../../handlers.ts'
import { loadCustomers, presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { divideWithin, taxWithin } from '../engine/taxes.ts'
import { refundable } from '../engine/totals.ts'
import { loseDispute, returnDispute, withholdDispute } from '../ledger/ledger.ts'
import { changeOrder, type OrderRow } from '../orders/orders.sql.ts'
import { changePayment, findAccount, lockPayment } from '../payments/attempts.sql.ts'
import { firstLook, follow as followPayment, nextLook, processorOf } from '../payments/attempts.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { reckon, writeRefund } from '../refunds/refunds.ts'
import { hold, type Held } from '../renewals/collecting.ts'
import { end } from '../renewals/renewals.ts'
import { loadSubscriptions } from '../subscriptions/subscriptions.sql.ts'
import {
  changeDispute,
  findDispute,
  insertDispute,
  isClosed,
  lockDispute,
  lockNamed,
  paymentBehind,
  presentBare,
  readDispute,
  type DisputeRow,
} from './disputes.sql.ts'

/** Disputes with whose they are. */
export const show = async (db: Db, reach: Reach, rows: readonly DisputeRow[]): Promise<Dispute[]> => {
  const customers = await loadCustomers(
    db,
    reach,
    rows.map(({ customer_id }) => customer_id),
  )
  return rows.map((row) => ({ ...presentBare(row), customer: presentCustomer(customers.find(({ id }) => id === row.customer_id)!), case_id: null }))
}

/** The one dispute that a caller means, if the caller may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<DisputeRow> => {
  const dispute = await findDispute(db, reach, id)
  if (!dispute) throw new ResourceNotFound()
  permit(reach, dispute.organization_id, 'sales:read')
  return dispute
}

/** What the first step has committed. */
export interface Intended extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly dispute_id: string
}

/** Writes down that the seller gives up, before the processor hears of it: whatever happens then, it will. Only what waits for an answer can be given up. */
export const begin = async (tx: Tx, reach: Reach, id: string): Promise<Intended> => {
  const dispute = await lockDispute(tx, reach, id)
  if (!dispute) throw new ResourceNotFound()
  const { organization_id } = dispute
  permit(reach, organization_id, 'sales:manage')
  if (dispute.status !== 'needs_response') throw new DisputeNotOpenError()
  if (dispute.accepted_at === null) await changeDispute(tx, dispute, { accepted_at: tx.clock.wall(), due_at: later(tx.clock.wall(), firstLook) })
  return { organization_id, dispute_id: id }
}

/** Tells the processor, and answers how the dispute stands then. One that the bank decided in the same moment is not the seller's to give up. */
export const proceed = async (means: Means, reach: Reach, { organization_id, dispute_id }: Intended): Promise<Dispute | Refusal> => {
  await follow(means, organization_id, dispute_id).catch((error: unknown) => {
    if (!(error instanceof ProcessorSilent)) throw error
  })
  const dispute = (await readDispute(means.db, organization_id, dispute_id))!
  if (dispute.status !== 'lost' && dispute.status !== 'needs_response') return refuse(new DisputeNotOpenError())
  return (await show(means.db, reach, [dispute]))[0]!
}

/** Asks the processor how a dispute stands; where it was given up, by saying so once more. */
export const follow = async (means: Means, organization_id: string, id: string): Promise<void> => {
  const dispute = await readDispute(means.db, organization_id, id)
  if (!dispute || isClosed(dispute.status)) return
  const processor = processorOf(means, (await findAccount(means.db, organization_id, dispute.account_id))!)
  const told = dispute.accepted_at === null ? await processor.readDispute(dispute.processor_dispute_id) : await giveUp(processor, dispute)
  await means.transact((tx) => settle(tx, means, dispute, told))
}

const giveUp = async (processor: Processor, { id, processor_dispute_id: name }: DisputeRow): Promise<ProcessorDispute> => {
  try {
    return await processor.acceptDispute(name, { key: `${id}:accept` })
  } catch (error) {
    if (error instanceof ProcessorRefusal) return processor.readDispute(name)
    throw error
  }
}

/** The sweep over disputes that are open, and over those that were given up and whose processor has not said so. */
export const followDue = async (means: Means, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  try {
    await follow(means, organization_id, id)
  } catch (error) {
    if (!(error instanceof ProcessorSilent)) throw error
  }
  await underLease(means.transact, lease, async (tx) => {
    const dispute = await readDispute(tx, organization_id, id)
    // Nobody is to look again at what is over, or asleep.
    if (!dispute || isClosed(dispute.status) || dispute.due_at === null) return null
    return dispute.accepted_at ? nextLook(id, tx.clock.wall()) : later(tx.clock.wall(), 1 * days)
  })
}

/** A processor says that something happened to a dispute: it is read there, and what it says is applied. */
export const followNamed = async (
  means: Means,
  { organization_id, account_id, processor_dispute_id }: { organization_id: string; account_id: string; processor_dispute_id: string },
): Promise<void> => {
  const told = await processorOf(means, (await findAccount(means.db, organization_id, account_id))!).readDispute(processor_dispute_id)
  const payment = await paymentBehind(means.db, organization_id, account_id, told.intent_id)
  // It may be faster than the news of the payment itself.
  if (payment?.status === 'pending') await followPayment(means, organization_id, payment.id)
  await means.transact((tx) => settle(tx, means, { organization_id, account_id }, told))
}

const rank: Record<DisputeStatus, number> = { early_warning: 0, needs_response: 1, under_review: 2, won: 3, lost: 3, prevented: 3 }

/**
 * Writes down what a processor says of a dispute, with everything that follows from it, in one transaction: the first to
 * know decides, and whoever comes with the same or with older news changes nothing. Its order is held, and so is its
 * subscription, so that one dispute is one row and one booking however many hear of it at once.
 */
export const settle = async (
  wall: Tx,
  { platform }: Pick<Means, 'platform'>,
  { organization_id, account_id }: { organization_id: string; account_id: string },
  told: ProcessorDispute,
): Promise<void> => {
  const payment = await paymentBehind(wall, organization_id, account_id, told.intent_id)
  // Not a payment of ours: somebody else sells with this account too.
  if (!payment) return
  if (payment.order_id === null) return wait(wall, payment, told)
  const held = await hold(wall, organization_id, payment.order_id)
  if (!held) return
  const { tx, order } = held
  const before = await lockNamed(tx, payment, told.id)
  const moves = !before || rank[told.status] > rank[before.status]
  if (before && isClosed(before.status) && isClosed(told.status) && told.status !== before.status)
    platform.log.error('dispute_after_all', { organization_id, dispute_id: before.id })
  if (!moves && !(before.status === told.status && (differs(before, told) || (told.asleep && before.due_at !== null)))) return
  const seen = {
    status: told.status,
    reason: told.reason,
    evidence_due_by: told.respond_by,
    past_due: told.past_due,
    // What is booked stays as it was; a warning may become a dispute about something else.
    ...(!before || before.status === 'early_warning' ? divide(order, told.amount) : {}),
    // Nobody has to tell us how it goes on: it is looked at, day by day.
    ...(isClosed(told.status) || told.asleep ? { due_at: null } : before?.accepted_at ? {} : { due_at: later(tx.clock.wall(), 1 * days) }),
  }
  const dispute = before ? await changeDispute(tx, before, seen) : await insertDispute(tx, { ...anew(tx, order, payment.id, account_id, told), ...seen })
  if (!moves) return
  await book(tx, dispute)
  if (dispute.status === 'lost') await endAccess(held)
  if (dispute.status === 'prevented' && told.given_back) await giveBack(held, dispute)
}

/** The order comes a moment after its payment: whoever makes it finds this, and has the dispute looked into then. */
const wait = async (tx: Tx, { organization_id, id, account_id }: PaymentRow, told: ProcessorDispute): Promise<void> => {
  const payment = (await lockPayment(tx, organization_id, id))!
  // It has come while we waited.
  if (payment.order_id !== null) await enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: told.id })
  else await changePayment(tx, payment, { early_dispute: told.id })
}

const differs = (before: DisputeRow, told: ProcessorDispute): boolean =>
  before.evidence_due_by?.getTime() !== told.respond_by?.getTime() || before.past_due !== told.past_due

const divide = (order: OrderRow, gross: number) => {
  const tax_amount = taxWithin(gross, { ...order, ...refundable(order) })
  return { amount: gross - tax_amount, tax_amount }
}

const anew = (tx: Tx, order: OrderRow, payment_id: string, account_id: string, { id, currency }: ProcessorDispute) => ({
  organization_id: order.organization_id,
  id: newId(tx.clock.wall()),
  created_at: tx.clock.business(),
  modified_at: null,
  account_id,
  processor_dispute_id: id,
  order_id: order.id,
  payment_id,
  customer_id: order.customer_id,
  currency,
  accepted_at: null,
  ...unleased,
  amount: 0,
  tax_amount: 0,
})

/** The processor keeps the money while the bank decides, and gives it back or not. Each is written once, however it came to that. */
const book = async (tx: Tx, dispute: DisputeRow): Promise<void> => {
  const { status } = dispute
  if (status === 'needs_response' || status === 'under_review' || status === 'lost') await withholdDispute(tx, dispute)
  if (status === 'won' || status === 'prevented') await returnDispute(tx, dispute)
  if (status === 'lost') await loseDispute(tx, dispute)
}

/** What was bought with money that is gone for good is over: the subscription with all that it gives, or what a single purchase gave. */
const endAccess = async ({ tx, reach, seller, subscription, order }: Held): Promise<void> => {
  if (subscription) {
    if (subscription.ended_at !== null) return
    const loaded = (await loadSubscriptions(tx, reach, [subscription]))[0]!
    await end({ tx, reach, seller, subscription, loaded }, tx.clock.business())
    return
  }
  if (order.benefits_revoked_at !== null) return
  await changeOrder(tx, order, { benefits_revoked_at: tx.clock.business() })
  const container = { organization_id: order.organization_id, subscription_id: null, order_id: order.id }
  if (order.seats !== null) await enqueue(tx, 'billing.end_seats', container)
  await enqueue(tx, 'entitlements.reconcile', { ...container, seat_id: null })
}

/** A dispute that was prevented has cost what a refund costs, and is one: the processor has paid it already. */
const giveBack = async ({ tx, reach, order }: Held, dispute: Locked<DisputeRow>): Promise<void> => {
  const { payment_id } = dispute
  // What was given back before is not given back again.
  const { amount, tax_amount } = divideWithin(dispute.amount + dispute.tax_amount, { ...order, ...refundable(order) })
  if (amount + tax_amount === 0) return
  const refund = await writeRefund(
    tx,
    order,
    { payment_id, status: 'succeeded', reason: 'dispute_prevention', amount, tax_amount, dispute_id: dispute.id },
    dispute,
  )
  await reckon(tx, reach, order, refund, 1)
}
