import { DisputeNotOpenError, ResourceNotFound, type Dispute, type DisputeStatus } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { ProcessorRefusal, ProcessorSilent, type Processor, type ProcessorDispute } from '../../../gateways/payments/payments.ts'
import { days, later } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Deps, type Refusal } from '../../handlers.ts'
import { presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { divideWithin, taxWithin } from '../calc/taxes.ts'
import { refundable } from '../calc/totals.ts'
import { loseDispute, returnDispute, withholdDispute } from '../ledger/ledger.ts'
import { changeOrder, type OrderRow } from '../records/orders.sql.ts'
import { changePayment, findAccount, lockPayment } from '../payments/attempts.sql.ts'
import { firstLook, follow as followPayment, nextLook, processorOf } from '../payments/attempts.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { settleCredits } from '../invoicing/taking-back.ts'
import { reportReversed } from '../taxes/reporting.ts'
import { reckon, writeRefund } from '../refunds/refunds.ts'
import { lockOrderToCollect, type LockedOrder } from '../invoicing/collecting.ts'
import { end } from '../renewals/renewals.ts'
import { loadSubscriptions } from '../records/subscriptions.sql.ts'
import {
  changeDispute,
  insertDispute,
  isClosed,
  lockDispute,
  lockNamed,
  paymentBehind,
  presentBare,
  readDispute,
  selectDisputes,
  type DisputeRow,
  type LoadedDispute,
} from '../records/disputes.sql.ts'

/** Converts a dispute to its API representation, with its customer. */
export const presentDispute = ({ dispute, customer }: LoadedDispute): Dispute => ({
  ...presentBare(dispute),
  customer: presentCustomer(customer),
  case_id: null,
})

/** Finds a dispute by id. Throws if it is out of scope or the caller may not read sales. */
export const requireDispute = async (db: Db, scope: TenantScope, id: string): Promise<LoadedDispute> => {
  const [found] = await selectDisputes(db, scope, [id])
  if (!found) throw new ResourceNotFound()
  permit(scope, found.dispute.organization_id, 'sales:read')
  return found
}

/** The ids that the first step of an acceptance has committed. */
export interface Intended extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly dispute_id: string
}

/**
 * Stores that the seller accepts the dispute, before the processor is called. The sweep repeats the call until it
 * succeeds. Only a dispute that needs a response can be accepted.
 */
export const begin = async (tx: BusinessTx, scope: TenantScope, id: string): Promise<Intended> => {
  const dispute = await lockDispute(tx, scope, id)
  if (!dispute) throw new ResourceNotFound()
  const { organization_id } = dispute
  permit(scope, organization_id, 'sales:manage')
  if (dispute.status !== 'needs_response') throw new DisputeNotOpenError()
  if (dispute.accepted_at === null) await changeDispute(tx, dispute, { accepted_at: tx.clock.wall(), due_at: later(tx.clock.wall(), firstLook) })
  return { organization_id, dispute_id: id }
}

/**
 * Sends the acceptance to the processor and returns the dispute. Returns an error if the bank decided the dispute at
 * the same moment.
 */
export const proceed = async (deps: Deps, scope: TenantScope, { organization_id, dispute_id }: Intended): Promise<Dispute | Refusal> => {
  await follow(deps, organization_id, dispute_id).catch((error: unknown) => {
    if (!(error instanceof ProcessorSilent)) throw error
  })
  const found = (await selectDisputes(deps.db, scope, [dispute_id]))[0]!
  if (found.dispute.status !== 'lost' && found.dispute.status !== 'needs_response') return refuse(new DisputeNotOpenError())
  return presentDispute(found)
}

/**
 * Reads a dispute at the processor and applies its state. If the seller accepted the dispute, sends the acceptance
 * again.
 */
export const follow = async (deps: Deps, organization_id: string, id: string): Promise<void> => {
  const dispute = await readDispute(deps.db, organization_id, id)
  if (!dispute || isClosed(dispute.status)) return
  const processor = processorOf(deps, (await findAccount(deps.db, organization_id, dispute.account_id))!)
  const told = dispute.accepted_at === null ? await processor.readDispute(dispute.processor_dispute_id) : await giveUp(processor, dispute)
  await deps.transact((tx) => settle(inWallTime(tx), deps, dispute, told))
}

const giveUp = async (processor: Processor, { id, processor_dispute_id: name }: DisputeRow): Promise<ProcessorDispute> => {
  try {
    return await processor.acceptDispute(name, { key: `${id}:accept` })
  } catch (error) {
    if (error instanceof ProcessorRefusal) return processor.readDispute(name)
    throw error
  }
}

/** Sweep task for open disputes, including accepted ones that the processor has not confirmed. */
export const followDue = async (deps: Deps, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  try {
    await follow(deps, organization_id, id)
  } catch (error) {
    if (!(error instanceof ProcessorSilent)) throw error
  }
  await underLease(deps.transact, lease, async (tx) => {
    const dispute = await readDispute(tx, organization_id, id)
    // Closed disputes are not polled again. `due_at` is null for early warnings that the bank has closed, which are not
    // polled either.
    if (!dispute || isClosed(dispute.status) || dispute.due_at === null) return null
    return dispute.accepted_at ? nextLook(id, tx.clock.wall()) : later(tx.clock.wall(), 1 * days)
  })
}

/** Job for a processor event about a dispute: reads the dispute at the processor and applies its state. */
export const followNamed = async (
  deps: Deps,
  { organization_id, account_id, processor_dispute_id }: { organization_id: string; account_id: string; processor_dispute_id: string },
): Promise<void> => {
  const told = await processorOf(deps, (await findAccount(deps.db, organization_id, account_id))!).readDispute(processor_dispute_id)
  const payment = await paymentBehind(deps.db, organization_id, account_id, told.intent_id)
  // The dispute event may arrive before the payment event. The payment is therefore updated first.
  if (payment?.status === 'pending') await followPayment(deps, organization_id, payment.id)
  await deps.transact((tx) => settle(inWallTime(tx), deps, { organization_id, account_id }, told))
}

const rank: Record<DisputeStatus, number> = { early_warning: 0, needs_response: 1, under_review: 2, won: 3, lost: 3, prevented: 3 }

/**
 * Applies the processor's state of a dispute and all its consequences in one transaction. The same or an older state
 * changes nothing. Locks the order and its subscription, so that concurrent calls create one dispute row and one ledger
 * posting.
 */
export const settle = async (
  wall: BusinessTx,
  { platform }: Pick<Deps, 'platform'>,
  { organization_id, account_id }: { organization_id: string; account_id: string },
  told: ProcessorDispute,
): Promise<void> => {
  const payment = await paymentBehind(wall, organization_id, account_id, told.intent_id)
  // No payment has this intent id. The charge belongs to another system that uses the same account.
  if (!payment) return
  if (payment.order_id === null) return wait(wall, payment, told)
  const held = await lockOrderToCollect(wall, organization_id, payment.order_id)
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
    // The amount of a dispute is in the ledger and must not change. An early warning is not in the ledger, so its amount may still change.
    ...(!before || before.status === 'early_warning' ? divide(order, told.amount) : {}),
    // Polls an open dispute daily, in case its event is lost.
    ...(isClosed(told.status) || told.asleep ? { due_at: null } : before?.accepted_at ? {} : { due_at: later(tx.clock.wall(), 1 * days) }),
  }
  const dispute = before ? await changeDispute(tx, before, seen) : await insertDispute(tx, { ...anew(tx, order, payment.id, account_id, told), ...seen })
  if (!moves) return
  await book(tx, dispute)
  await tellOf(tx, dispute)
  if (dispute.status === 'lost') {
    await endAccess(held)
    await reportReversed(tx, order, { dispute_id: dispute.id })
    await settleCredits(held, { source: order.id })
  }
  if (dispute.status === 'prevented' && told.given_back) await giveBack(held, dispute)
}

/**
 * Stores the id of a dispute on its payment while the order does not exist. The code that creates the order enqueues
 * the dispute job.
 */
const wait = async (tx: BusinessTx, { organization_id, id, account_id }: PaymentRow, told: ProcessorDispute): Promise<void> => {
  const payment = (await lockPayment(tx, organization_id, id))!
  // The order was created while this transaction waited for the lock.
  if (payment.order_id !== null) await enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: told.id })
  else await changePayment(tx, payment, { early_dispute: told.id })
}

const differs = (before: DisputeRow, told: ProcessorDispute): boolean =>
  before.evidence_due_by?.getTime() !== told.respond_by?.getTime() || before.past_due !== told.past_due

const divide = (order: OrderRow, gross: number) => {
  const tax_amount = taxWithin(gross, { ...order, ...refundable(order) })
  return { amount: gross - tax_amount, tax_amount }
}

const anew = (tx: BusinessTx, order: OrderRow, payment_id: string, account_id: string, { id, currency }: ProcessorDispute) => ({
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

/**
 * Posts the status of a dispute to the ledger: the processor withholds the money, returns it, or the money is lost.
 * Each posting is idempotent.
 */
const book = async (tx: BusinessTx, dispute: DisputeRow): Promise<void> => {
  const { status } = dispute
  if (status === 'needs_response' || status === 'under_review' || status === 'lost') await withholdDispute(tx, dispute)
  if (status === 'won' || status === 'prevented') await returnDispute(tx, dispute)
  if (status === 'lost') await loseDispute(tx, dispute)
}

/** Enqueues the mails about a dispute: to the customer when it is opened and decided, to the seller when it is opened. */
const tellOf = async (tx: Tx, { organization_id, id: dispute_id, status }: DisputeRow): Promise<void> => {
  if (status === 'needs_response' || status === 'won' || status === 'lost') await enqueue(tx, 'mail.dispute', { organization_id, dispute_id })
  if (status === 'needs_response') await enqueue(tx, 'mail.seller_dispute', { organization_id, dispute_id })
}

/**
 * Ends the access that the disputed payment bought: ends the subscription, or revokes the benefits of a one-time order.
 */
const endAccess = async ({ tx, scope, seller, subscription, order }: LockedOrder): Promise<void> => {
  if (subscription) {
    if (subscription.ended_at !== null) return
    const loaded = (await loadSubscriptions(tx, scope, [subscription]))[0]!
    await end({ tx, scope, seller, subscription, loaded }, tx.clock.business(), { told: true })
    return
  }
  if (order.benefits_revoked_at !== null) return
  await changeOrder(tx, order, { benefits_revoked_at: tx.clock.business() })
  const container = { organization_id: order.organization_id, subscription_id: null, order_id: order.id }
  if (order.seats !== null) await enqueue(tx, 'billing.end_seats', container)
  await enqueue(tx, 'entitlements.reconcile', { ...container, seat_id: null })
}

/**
 * Records a prevented dispute as a successful refund, because the processor has already returned the money to the
 * customer.
 */
const giveBack = async (held: LockedOrder, dispute: Locked<DisputeRow>): Promise<void> => {
  const { tx, order } = held
  const { payment_id } = dispute
  // The refund is limited to the part of the order that was not refunded before.
  const { amount, tax_amount } = divideWithin(dispute.amount + dispute.tax_amount, { ...order, ...refundable(order) })
  if (amount + tax_amount === 0) return
  const refund = await writeRefund(
    tx,
    order,
    { payment_id, status: 'succeeded', reason: 'dispute_prevention', amount, tax_amount, dispute_id: dispute.id },
    dispute,
  )
  await reckon(held, refund, 1)
}
