import { newId, timeOf } from '../../../kernel/ids.ts'
import { ProcessorRefusal, ProcessorSilent, type Instrument, type Intent, type Processor } from '../../../gateways/payments/payments.ts'
import { days, hours, later, minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Gateways, Deps, Platform } from '../../handlers.ts'
import { clockOf } from '../../customers/index.ts'
import { postPayment } from '../ledger/ledger.ts'
import {
  changePayment,
  chargedWith,
  findAccount,
  findProcessorCustomer,
  insertPayment,
  isDeleted,
  lockPayment,
  nameIntents,
  nameProcessorCustomer,
  openAccount,
  readPayment,
  type AccountRow,
  type IntentName,
  type StoredIntent,
  isCalledFor,
} from './attempts.sql.ts'
import { refused, settledBy } from './outcomes.ts'
import type { PaymentRow } from './payments.sql.ts'
import { adopt, type HasUnmatched } from './unmatched-charges.ts'

/** Time before the first check of an attempt that was left pending. Later checks follow at growing intervals. */
export const firstLook = 30 * seconds
/**
 * Time during which an unanswered request is retried under its idempotency key. Processors discard keys after a day, so
 * retries must stop before that.
 */
export const keysKnown = 20 * hours
/** Time after which an attempt without an intent is marked as failed if the processor still does not answer. */
const silentFor = 3 * days
/** Time that a buyer has to answer a 3-D Secure challenge. */
const actionTime = 1 * hours

type AttemptRequest = Pick<PaymentRow, 'organization_id' | 'customer_id' | 'kind' | 'amount' | 'currency' | 'trigger' | 'reusable'> &
  Partial<Pick<PaymentRow, 'checkout_id' | 'order_id' | 'payment_method_id' | 'sets_default'>>

/**
 * Inserts a payment attempt before the processor is called. After a crash, the sweep finds this row and determines the
 * result.
 */
export const openAttempt = async (tx: BusinessTx, account: AccountRow, wish: AttemptRequest): Promise<PaymentRow> => {
  const row = attemptOf(tx, account, wish)
  await insertPayment(tx, row)
  return row
}

/** Composes the row of a new attempt without writing it. */
export const attemptOf = (tx: BusinessTx, account: AccountRow, wish: AttemptRequest): PaymentRow => {
  const wall = tx.clock.wall()
  return {
    id: newId(wall),
    created_at: tx.clock.business(),
    modified_at: null,
    account_id: account.id,
    checkout_id: null,
    order_id: null,
    status: 'pending',
    intent_id: null,
    intent_status: null,
    method: null,
    method_metadata: null,
    processor_method: null,
    payment_method_id: null,
    sets_default: false,
    early_dispute: null,
    decline_reason: null,
    decline_message: null,
    decline_final: false,
    settled_at: null,
    concluded_at: null,
    ...unleased,
    due_at: later(wall, firstLook),
    ...wish,
  }
}

export const processorOf = ({ gateways, platform }: { gateways: Gateways; platform: Platform }, account: AccountRow): Processor =>
  gateways.payments.of(openAccount(platform.sealer, account))

/** Returns the processor that an attempt was made with. */
export const processorFor = async (deps: { db: Db; gateways: Gateways; platform: Platform }, payment: PaymentRow): Promise<Processor> =>
  processorOf(deps, (await findAccount(deps.db, payment.organization_id, payment.account_id))!)

/**
 * Returns the processor's intent id of an attempt and creates the intent if necessary. The intent id is committed
 * before any money moves.
 */
const ensureIntent = async (deps: Deps, processor: Processor, payment: PaymentRow, together: Together = {}): Promise<NamedIntent> => {
  if (payment.intent_id !== null) return { intent_id: payment.intent_id }
  const adopted = payment.order_id === null ? undefined : await adopt(deps, payment, together.hasUnmatched)
  if (adopted !== undefined) return { intent_id: adopted }
  // A create request without an answer is retried under the same key. Once the key may have expired, the intent is
  // searched for instead.
  if (ageOf(payment.id, deps.platform.clock.wall()) >= keysKnown) return findLost(deps, processor, payment)
  const metadata = { payment_id: payment.id, organization_id: payment.organization_id, trigger: payment.trigger }
  const intent = await processor.createIntent({
    key: payment.id,
    kind: payment.kind,
    amount: payment.amount,
    currency: payment.currency,
    customer: await ensureCustomer(deps, processor, payment),
    metadata,
    // A saved method that is charged off-session need not be saved again.
    reusable: payment.reusable && payment.payment_method_id === null,
    // Only the buyer of a checkout can go to another site and return. The value must not change, because the request may
    // be repeated under its key.
    ...(payment.checkout_id === null ? {} : { leaves: true }),
  })
  return name(deps, processor, payment, intent, together.store)
}

/** Stores the intent id of one attempt and commits it. */
type StoreIntent = (named: IntentName) => Promise<StoredIntent>

/** Steps that several charges take together. An absent step is taken for each charge alone. */
export interface Together {
  readonly store?: StoreIntent
  readonly hasUnmatched?: HasUnmatched
}

/** The stored intent id of an attempt. `wanted` is present if the statement that stored the id has also read it. */
interface NamedIntent {
  readonly intent_id: string
  readonly wanted?: boolean
}

/**
 * Enqueues jobs for all refunds and disputes that the processor lists for a payment. Finds also those for which no
 * event arrived.
 */
export const lookInto = async ({ transact }: Deps, processor: Processor, { organization_id, account_id, intent_id }: PaymentRow): Promise<void> => {
  const disputes = await processor.findDisputes({ intent_id: intent_id! })
  const refunds = await processor.findRefunds({ intent_id: intent_id!, metadata: {} })
  if (disputes.length + refunds.length === 0) return
  await transact(async (tx) => {
    for (const { id } of disputes) await enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: id })
    for (const { id } of refunds) await enqueue(tx, 'billing.follow_refund', { organization_id, account_id, processor_refund_id: id })
  })
}

/**
 * Job that looks for refunds and disputes of a charge that is missing from a restored backup. Their events may have
 * arrived before the restore, so the restored database does not contain them.
 */
export const charged = async (deps: Deps, { organization_id, payment_id }: { organization_id: string; payment_id: string }): Promise<void> => {
  const payment = (await readPayment(deps.db, organization_id, payment_id))!
  await lookInto(deps, await processorFor(deps, payment), payment)
}

/**
 * Finds an intent by its metadata after its create request got no answer. If there is none, throws a refusal: nothing
 * was charged, and the attempt fails.
 */
const findLost = async (deps: Deps, processor: Processor, payment: PaymentRow): Promise<NamedIntent> => {
  const customer = processor.createCustomer ? await findProcessorCustomer(deps.db, payment) : payment.customer_id
  // The processor has no id for this customer, so no intent was ever requested.
  const [found] =
    customer === undefined
      ? []
      : await processor.findIntents({ customer, metadata: { payment_id: payment.id } }).catch((error: unknown) => {
          if (!(error instanceof ProcessorSilent) || ageOf(payment.id, deps.platform.clock.wall()) < silentFor) throw error
          // The account has not answered for three days: it was closed, or its key was revoked. An intent without a
          // stored id was never confirmed.
          deps.platform.log.error('attempt_lost', { organization_id: payment.organization_id, payment_id: payment.id })
          return []
        })
  if (!found) throw new ProcessorRefusal('lost', 'The processor did not answer.')
  return name(deps, processor, payment, found)
}

/**
 * Returns the processor's id of the customer and creates the customer there if necessary. The id is committed before
 * its first use, so that later searches use the same customer.
 */
const ensureCustomer = async (deps: Deps, processor: Processor, payment: PaymentRow): Promise<string> => {
  const { organization_id, account_id, customer_id } = payment
  if (!processor.createCustomer) return customer_id
  const known = await findProcessorCustomer(deps.db, payment)
  if (known !== undefined) return known
  const made = await processor.createCustomer({ key: `${account_id}:${customer_id}`, metadata: { customer_id, organization_id } })
  return deps.transact((tx) => nameProcessorCustomer(tx, payment, made))
}

/**
 * Stores the intent id of the attempt and returns the id to continue with. If a concurrent call stored another id
 * first, cancels this intent and returns the stored id.
 */
const name = async ({ transact }: Deps, processor: Processor, payment: PaymentRow, intent: Intent, store?: StoreIntent): Promise<NamedIntent> => {
  const { organization_id, id } = payment
  const naming = { id, intent_id: intent.id, intent_status: intent.status }
  const { intent_id, wanted } = store ? await store(naming) : (await transact((tx) => nameIntents(tx, organization_id, [naming])))[0]!
  if (intent_id === intent.id) return { intent_id, wanted }
  await callOff(processor, intent)
  // The attempt was settled as failed without an intent, so it must not be charged now.
  if (intent_id === null) throw new ProcessorSilent('createIntent')
  return { intent_id, wanted }
}

/**
 * Charges an attempt: creates the intent, commits its id, confirms it. Returns the processor's result. Returns
 * undefined if the processor did not answer. The charge may have happened then, and `follow` determines the result.
 * Retries always use the same idempotency key.
 */
export const charge = async (
  deps: Deps,
  payment: PaymentRow,
  instrument: Instrument,
  {
    off_session = false,
    return_url,
    account,
    together,
  }: { off_session?: boolean; return_url?: string; account?: AccountRow | undefined; together?: Together | undefined } = {},
): Promise<Intent | undefined> => {
  const processor = account ? processorOf(deps, account) : await processorFor(deps, payment)
  try {
    const { intent_id, wanted } = await ensureIntent(deps, processor, payment, together)
    // The subscription may have ended while this attempt was interrupted. Its order must not be charged then.
    if (payment.payment_method_id !== null && !(wanted ?? (await isCalledFor(deps.db, payment))))
      return await callOff(processor, await processor.readIntent(intent_id))
    return await close(processor, await confirm(processor, intent_id, payment, instrument, { off_session, return_url }))
  } catch (error) {
    if (error instanceof ProcessorSilent) return undefined
    // A refusal fails the attempt only if its intent was never created. Otherwise the processor's status of the intent
    // decides.
    if (error instanceof ProcessorRefusal) return refused(payment, error)
    throw error
  }
}

/**
 * Reads the state of an attempt at the processor without changing it. Returns undefined if the processor does not
 * answer.
 */
export const look = async (deps: { db: Db; gateways: Gateways; platform: Platform }, payment: PaymentRow): Promise<Intent | undefined> => {
  const processor = await processorFor(deps, payment)
  try {
    return await close(processor, await processor.readIntent(payment.intent_id!))
  } catch (error) {
    if (error instanceof ProcessorSilent) return undefined
    throw error
  }
}

/** Confirms the intent. If the call is refused or unanswered, reads the state of the intent instead. */
const confirm = async (
  processor: Processor,
  intent_id: string,
  payment: PaymentRow,
  instrument: Instrument,
  { off_session, return_url }: { off_session: boolean; return_url?: string | undefined },
): Promise<Intent> => {
  try {
    return await processor.confirmIntent(intent_id, { key: `${payment.id}:confirm`, deps: instrument, off_session, require_3ds: false, return_url })
  } catch (error) {
    if (error instanceof ProcessorSilent) return processor.readIntent(intent_id)
    if (!(error instanceof ProcessorRefusal)) throw error
    const intent = await processor.readIntent(intent_id)
    // The processor refused the confirmation and the intent is unchanged, so this token cannot pay.
    return intent.status === 'requires_confirmation'
      ? { ...intent, status: 'failed', decline: { code: error.code, message: error.message, final: false } }
      : intent
  }
}

/** Cancels a failed intent, so that it cannot be charged later with another card. */
const close = async (processor: Processor, intent: Intent): Promise<Intent> => (intent.status === 'failed' ? callOff(processor, intent) : intent)

/** Cancels an intent if that is still possible. An intent that was charged at the last moment stays charged. */
const callOff = async (processor: Processor, intent: Intent): Promise<Intent> => {
  try {
    const after = await processor.cancelIntent(intent.id)
    return after.status === 'canceled' ? { ...after, decline: intent.decline } : after
  } catch (error) {
    if (error instanceof ProcessorRefusal) return processor.readIntent(intent.id)
    throw error
  }
}

/**
 * Records the result of an attempt. Idempotent: the first call decides, later calls return the settled attempt. A
 * successful payment is posted to the ledger. Jobs for its checkout or order are enqueued in the same transaction.
 */
export const settle = async (
  wall: Tx,
  { organization_id, id }: Pick<PaymentRow, 'organization_id' | 'id'>,
  intent: Intent,
  /** If true, the caller updates the order in the same transaction, so no job is enqueued for it. */
  { concludes = false } = {},
): Promise<Locked<PaymentRow>> => {
  const payment = (await lockPayment(wall, organization_id, id))!
  if (payment.status !== 'pending') return payment
  // A concurrent call stored another intent for this attempt. The result of that intent counts.
  if (payment.intent_id !== null && intent.id !== payment.intent_id) return payment
  const tx = await inTimeOf(wall, await clockOf(wall, payment))
  const changes = settledBy(payment, intent, tx.clock.business())
  await changePayment(tx, payment, changes)
  const settled = markLocked({ ...payment, ...changes })
  if (settled.status === 'succeeded' && settled.kind === 'payment') await postPayment(tx, settled)
  if (settled.status !== 'pending' && settled.checkout_id !== null)
    await enqueue(tx, 'checkout.payment_settled', { organization_id, checkout_id: settled.checkout_id })
  if (settled.status !== 'pending' && settled.order_id !== null && !concludes)
    await enqueue(tx, 'billing.order_payment_settled', { organization_id, payment_id: id })
  if (settled.status === 'succeeded' && settled.kind === 'setup' && settled.checkout_id === null && !concludes)
    await enqueue(tx, 'billing.method_added', { organization_id, payment_id: id })
  // The method was deleted during the charge. Now it can be deleted at the processor too.
  if (settled.status !== 'pending' && settled.payment_method_id !== null && (await isDeleted(tx, organization_id, settled.payment_method_id)))
    await enqueue(tx, 'billing.forget_method', { organization_id, payment_method_id: settled.payment_method_id })
  return settled
}

/**
 * Determines the result of a pending attempt by reading its intent at the processor. Cancels an intent that the buyer
 * did not confirm, so that it cannot be charged later. Cancels a 3-D Secure challenge that is not answered within one
 * hour.
 */
export const follow = async (deps: Deps, organization_id: string, id: string): Promise<void> => {
  const payment = await readPayment(deps.db, organization_id, id)
  if (!payment || payment.status === 'succeeded') return
  const processor = await processorFor(deps, payment)
  if (payment.status === 'failed') return watchOver(deps, processor, payment)
  const age = ageOf(id, deps.platform.clock.wall())
  let intent: Intent
  try {
    intent = await close(processor, await processor.readIntent((await ensureIntent(deps, processor, payment)).intent_id))
  } catch (error) {
    if (!(error instanceof ProcessorRefusal) || payment.intent_id !== null) throw error
    intent = refused(payment, error)
  }
  // An off-session charge has no buyer who could continue it, so it is confirmed here. A canceled intent does not show
  // its decline reason. Repeating the confirmation under the same key returns that reason.
  const unexplained = intent.status === 'canceled' && intent.decline === null
  if ((intent.status === 'requires_confirmation' || unexplained) && payment.payment_method_id !== null) intent = await goOn(deps, processor, payment, intent)
  // An attempt is abandoned if the buyer did not confirm it, or did not answer the 3-D Secure challenge in time. An
  // unconfirmed off-session charge is retried instead.
  const abandoned =
    (payment.payment_method_id === null && intent.status === 'requires_confirmation') || (intent.status === 'requires_action' && age > actionTime)
  if (abandoned && age >= firstLook) intent = await callOff(processor, intent)
  await deps.transact((tx) => settle(tx, payment, intent))
}

const goOn = async (deps: Deps, processor: Processor, payment: PaymentRow, intent: Intent): Promise<Intent> => {
  if (!(await isCalledFor(deps.db, payment))) return callOff(processor, intent)
  const method = await chargedWith(deps.db, payment)
  if (method === undefined) return callOff(processor, intent)
  const said = await close(processor, await confirm(processor, intent.id, payment, { kind: 'method', id: method }, { off_session: true }))
  // The processor answers a repeated idempotency key with the first response. Its decline reason is valid, but its status is outdated.
  return intent.status === 'canceled' ? { ...intent, decline: said.decline } : said
}

/**
 * Logs an error if a failed payment was charged after all. This should be impossible, because failed intents are
 * canceled. An operator must handle it, because the customer paid for nothing.
 */
const watchOver = async ({ platform }: Deps, processor: Processor, { organization_id, id, intent_id }: PaymentRow): Promise<void> => {
  if (intent_id !== null && (await processor.readIntent(intent_id)).status === 'succeeded')
    platform.log.error('payment_after_all', { organization_id, payment_id: id })
}

/**
 * Sweep task for pending attempts: determines the result, and schedules the next check while the attempt is pending.
 */
export const followDue = async (deps: Deps, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  try {
    await follow(deps, organization_id, id)
  } catch (error) {
    if (!(error instanceof ProcessorSilent)) throw error
  }
  await underLease(deps.transact, lease, async (tx) => {
    const payment = await lockPayment(tx, organization_id, id)
    return payment?.status === 'pending' ? nextLook(id, tx.clock.wall()) : null
  })
}

/** Time of the next check. The delay equals the age of the attempt, between 15 seconds and 30 minutes. */
export const nextLook = (id: string, now: Date): Date => later(now, Math.min(Math.max(ageOf(id, now), 15 * seconds), 30 * minutes))

/** Age of a row by the wall clock, taken from the timestamp in its id. */
export const ageOf = (id: string, now: Date): number => now.getTime() - timeOf(id).getTime()
