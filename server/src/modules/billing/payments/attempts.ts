import { newId, timeOf } from '../../../kernel/ids.ts'
import { ProcessorRefusal, ProcessorSilent, type Instrument, type Intent, type Processor } from '../../../gateways/payments/payments.ts'
import { days, hours, later, minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { underLease, unleased, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Gateways, Means, Platform } from '../../handlers.ts'
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
  nameIntent,
  nameProcessorCustomer,
  openAccount,
  readPayment,
  type AccountRow,
  isCalledFor,
} from './attempts.sql.ts'
import type { PaymentRow } from './payments.sql.ts'
import { adopt } from './strays.ts'

/** Whoever began is left alone for so long; then somebody looks what has become of it, and again, ever less often. */
export const firstLook = 30 * seconds
/** A processor forgets keys after a day: what got no answer is asked for again until shortly before. */
export const keysKnown = 20 * hours
/** Whoever has not answered for so long is not waited for any more. */
const silentFor = 3 * days
/** A buyer whose bank asks for more has so long to answer. */
const actionTime = 1 * hours

type Wish = Pick<PaymentRow, 'organization_id' | 'customer_id' | 'kind' | 'amount' | 'currency' | 'trigger' | 'reusable'> &
  Partial<Pick<PaymentRow, 'checkout_id' | 'order_id' | 'payment_method_id' | 'sets_default'>>

/** Writes down that money will be asked for, before anybody is asked: whatever happens then, this row is looked after. */
export const openAttempt = async (tx: Tx, account: AccountRow, wish: Wish): Promise<PaymentRow> => {
  const wall = tx.clock.wall()
  const row: PaymentRow = {
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
  await insertPayment(tx, row)
  return row
}

export const processorOf = ({ gateways, platform }: { gateways: Gateways; platform: Platform }, account: AccountRow): Processor =>
  gateways.payments.of(openAccount(platform.sealer, account))

/** The processor that an attempt was made with. */
export const processorFor = async (means: { db: Db; gateways: Gateways; platform: Platform }, payment: PaymentRow): Promise<Processor> =>
  processorOf(means, (await findAccount(means.db, payment.organization_id, payment.account_id))!)

/** The processor's object for an attempt, and our record of its name: no money moves before that record is committed. */
const ensureIntent = async (means: Means, processor: Processor, payment: PaymentRow): Promise<string> => {
  if (payment.intent_id !== null) return payment.intent_id
  const adopted = payment.order_id === null ? undefined : await adopt(means, payment)
  if (adopted !== undefined) return adopted
  // A creation that got no answer is asked for again under its own key; when that is forgotten, it is looked for.
  if (ageOf(payment.id, means.platform.clock.wall()) >= keysKnown) return findLost(means, processor, payment)
  const metadata = { payment_id: payment.id, organization_id: payment.organization_id, trigger: payment.trigger }
  const intent = await processor.createIntent({
    key: payment.id,
    kind: payment.kind,
    amount: payment.amount,
    currency: payment.currency,
    customer: await ensureCustomer(means, processor, payment),
    metadata,
    // What is charged while nobody is there was kept before.
    reusable: payment.reusable && payment.payment_method_id === null,
  })
  return name(means, processor, payment, intent)
}

/** Has everything looked into that went back of a payment, or that a bank wants back, whether or not anybody told us of it. */
export const lookInto = async ({ transact }: Means, processor: Processor, { organization_id, account_id, intent_id }: PaymentRow): Promise<void> => {
  const disputes = await processor.findDisputes({ intent_id: intent_id! })
  const refunds = await processor.findRefunds({ intent_id: intent_id!, metadata: {} })
  if (disputes.length + refunds.length === 0) return
  await transact(async (tx) => {
    for (const { id } of disputes) await enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: id })
    for (const { id } of refunds) await enqueue(tx, 'billing.follow_refund', { organization_id, account_id, processor_refund_id: id })
  })
}

/** What has become of a charge that was adopted was told to a database that nobody has any more. */
export const charged = async (means: Means, { organization_id, payment_id }: { organization_id: string; payment_id: string }): Promise<void> => {
  const payment = (await readPayment(means.db, organization_id, payment_id))!
  await lookInto(means, await processorFor(means, payment), payment)
}

/** The name of an intent whose creation got no answer, by what it carries. Where there is none, nothing was ever charged, and nothing will be. */
const findLost = async (means: Means, processor: Processor, payment: PaymentRow): Promise<string> => {
  const customer = processor.createCustomer ? await findProcessorCustomer(means.db, payment) : payment.customer_id
  // Nothing was ever asked in the name of somebody whom the processor was not told of.
  const [found] =
    customer === undefined
      ? []
      : await processor.findIntents({ customer, metadata: { payment_id: payment.id } }).catch((error: unknown) => {
          if (!(error instanceof ProcessorSilent) || ageOf(payment.id, means.platform.clock.wall()) < silentFor) throw error
          // Nobody can be asked any more: a closed account, a key that was taken back. What has no name was never confirmed.
          means.platform.log.error('attempt_lost', { organization_id: payment.organization_id, payment_id: payment.id })
          return []
        })
  if (!found) throw new ProcessorRefusal('lost', 'The processor did not answer.')
  return name(means, processor, payment, found)
}

/** The processor's name of whoever pays, and our record of it: committed before anything is asked in that name, so that it is found again under it. */
const ensureCustomer = async (means: Means, processor: Processor, payment: PaymentRow): Promise<string> => {
  const { organization_id, account_id, customer_id } = payment
  if (!processor.createCustomer) return customer_id
  const known = await findProcessorCustomer(means.db, payment)
  if (known !== undefined) return known
  const made = await processor.createCustomer({ key: `${account_id}:${customer_id}`, metadata: { customer_id, organization_id } })
  return means.transact((tx) => nameProcessorCustomer(tx, payment, made))
}

/** The name that the attempt goes on under. Who was later than somebody else takes back what they have made, and goes on with the other's. */
const name = async ({ transact }: Means, processor: Processor, { organization_id, id }: PaymentRow, intent: Intent): Promise<string> => {
  const named = await transact((tx) => nameIntent(tx, organization_id, id, intent))
  if (named === intent.id) return named
  await callOff(processor, intent)
  // It was settled as never made: nobody charges it now.
  if (named === null) throw new ProcessorSilent('createIntent')
  return named
}

/**
 * Asks for the money: create, commit the name, confirm. What comes back is what the processor says, or nothing where it
 * did not answer: then it may have been charged, and whoever looks after the attempt finds out. It is never asked under
 * another key.
 */
export const charge = async (
  means: Means,
  payment: PaymentRow,
  instrument: Instrument,
  { off_session = false, account }: { off_session?: boolean; account?: AccountRow | undefined } = {},
): Promise<Intent | undefined> => {
  const processor = account ? processorOf(means, account) : await processorFor(means, payment)
  try {
    const intent_id = await ensureIntent(means, processor, payment)
    // Nobody is charged for what has ended while somebody was stopped in the middle.
    if (payment.payment_method_id !== null && !(await isCalledFor(means.db, payment))) return await callOff(processor, await processor.readIntent(intent_id))
    return await close(processor, await confirm(processor, intent_id, payment, instrument, off_session))
  } catch (error) {
    if (error instanceof ProcessorSilent) return undefined
    // Only what was never made at all is refused by that: once it has a name, the processor's own word counts.
    if (error instanceof ProcessorRefusal) return refused(payment, error)
    throw error
  }
}

/** Where an attempt stands at the processor, without asking for anything; nothing where it does not answer. */
export const look = async (means: { db: Db; gateways: Gateways; platform: Platform }, payment: PaymentRow): Promise<Intent | undefined> => {
  const processor = await processorFor(means, payment)
  try {
    return await close(processor, await processor.readIntent(payment.intent_id!))
  } catch (error) {
    if (error instanceof ProcessorSilent) return undefined
    throw error
  }
}

/** Confirms; whatever is refused or unheard then, the intent itself says where it stands. */
const confirm = async (processor: Processor, intent_id: string, payment: PaymentRow, instrument: Instrument, off_session: boolean): Promise<Intent> => {
  try {
    return await processor.confirmIntent(intent_id, { key: `${payment.id}:confirm`, means: instrument, off_session, require_3ds: false })
  } catch (error) {
    if (error instanceof ProcessorSilent) return processor.readIntent(intent_id)
    if (!(error instanceof ProcessorRefusal)) throw error
    const intent = await processor.readIntent(intent_id)
    // Refused, and still nothing happened: this token cannot pay.
    return intent.status === 'requires_confirmation'
      ? { ...intent, status: 'failed', decline: { code: error.code, message: error.message, final: false } }
      : intent
  }
}

/** What failed is called off as well: nobody can charge it later, behind our back, with another card. */
const close = async (processor: Processor, intent: Intent): Promise<Intent> => (intent.status === 'failed' ? callOff(processor, intent) : intent)

/** Takes back an intent, if it still can be: what was charged in the last moment is charged. */
const callOff = async (processor: Processor, intent: Intent): Promise<Intent> => {
  try {
    const after = await processor.cancelIntent(intent.id)
    return after.status === 'canceled' ? { ...after, decline: intent.decline } : after
  } catch (error) {
    if (error instanceof ProcessorRefusal) return processor.readIntent(intent.id)
    throw error
  }
}

/** A definite no is a decline like any other. */
const refused = (payment: PaymentRow, error: ProcessorRefusal): Intent => ({
  id: payment.intent_id ?? '',
  kind: payment.kind,
  status: 'failed',
  amount: payment.amount,
  currency: payment.currency,
  client_secret: '',
  metadata: {},
  method: null,
  decline: { code: error.code, message: error.message, final: false },
  charged_at: null,
})

/**
 * Writes down what became of an attempt, once: the first to know decides, everybody later finds it settled. With money
 * that came the ledger is written; and whoever waits for it is told by a job of the same transaction.
 */
export const settle = async (
  wall: Tx,
  { organization_id, id }: Pick<PaymentRow, 'organization_id' | 'id'>,
  intent: Intent,
  /** The caller sees to its order in the same transaction, so that nobody has to be told. */
  { concludes = false } = {},
): Promise<Locked<PaymentRow>> => {
  const payment = (await lockPayment(wall, organization_id, id))!
  if (payment.status !== 'pending') return payment
  // Somebody has begun it meanwhile, or otherwise: what became of that counts.
  if (payment.intent_id !== null && intent.id !== payment.intent_id) return payment
  const tx = await inTimeOf(wall, await clockOf(wall, payment))
  if (intent.status === 'succeeded' && (intent.amount !== payment.amount || intent.currency !== payment.currency))
    throw new Error('the processor charged another amount than it was asked for')
  const seen = {
    intent_status: intent.status,
    ...(intent.method
      ? {
          method: intent.method.type,
          method_metadata: intent.method.type === 'card' ? { brand: intent.method.brand ?? 'unknown', last4: intent.method.last4 ?? '0000' } : null,
          processor_method: intent.method,
        }
      : {}),
  }
  const changes: Partial<PaymentRow> =
    intent.status === 'succeeded'
      ? { ...seen, status: 'succeeded', settled_at: tx.clock.business(), due_at: null }
      : intent.status === 'failed' || intent.status === 'canceled'
        ? {
            ...seen,
            status: 'failed',
            settled_at: tx.clock.business(),
            due_at: null,
            decline_reason: intent.decline?.code ?? 'canceled',
            decline_message: intent.decline?.message ?? 'The payment was given up.',
            decline_final: intent.decline?.final ?? false,
          }
        : seen
  await changePayment(tx, payment, changes)
  const settled = { ...payment, ...changes } as Locked<PaymentRow>
  if (settled.status === 'succeeded' && settled.kind === 'payment') await postPayment(tx, settled)
  if (settled.status !== 'pending' && settled.checkout_id !== null)
    await enqueue(tx, 'checkout.payment_settled', { organization_id, checkout_id: settled.checkout_id })
  if (settled.status !== 'pending' && settled.order_id !== null && !concludes)
    await enqueue(tx, 'billing.order_payment_settled', { organization_id, payment_id: id })
  if (settled.status === 'succeeded' && settled.kind === 'setup' && settled.checkout_id === null && !concludes)
    await enqueue(tx, 'billing.method_added', { organization_id, payment_id: id })
  // Whoever deleted it while it was being charged has waited for this.
  if (settled.status !== 'pending' && settled.payment_method_id !== null && (await isDeleted(tx, organization_id, settled.payment_method_id)))
    await enqueue(tx, 'billing.forget_method', { organization_id, payment_method_id: settled.payment_method_id })
  return settled
}

/**
 * Finds out what became of an attempt that was left alone: asks the processor by the name we committed. One that was
 * never confirmed is called off, so that it cannot be charged later; one that waits for the buyer's bank has its hour.
 */
export const follow = async (means: Means, organization_id: string, id: string): Promise<void> => {
  const payment = await readPayment(means.db, organization_id, id)
  if (!payment || payment.status === 'succeeded') return
  const processor = await processorFor(means, payment)
  if (payment.status === 'failed') return watchOver(means, processor, payment)
  const age = ageOf(id, means.platform.clock.wall())
  let intent: Intent
  try {
    intent = await close(processor, await processor.readIntent(await ensureIntent(means, processor, payment)))
  } catch (error) {
    if (!(error instanceof ProcessorRefusal) || payment.intent_id !== null) throw error
    intent = refused(payment, error)
  }
  // Nobody else can go on with what is charged while nobody is there: it is confirmed as it was meant to be. What was called
  // off says no longer why; asked under its own key once more, the processor tells again how it was declined.
  const unexplained = intent.status === 'canceled' && intent.decline === null
  if ((intent.status === 'requires_confirmation' || unexplained) && payment.payment_method_id !== null) intent = await goOn(means, processor, payment, intent)
  // What nobody has to be there for is never given up: it is asked again.
  const abandoned =
    (payment.payment_method_id === null && intent.status === 'requires_confirmation') || (intent.status === 'requires_action' && age > actionTime)
  if (abandoned && age >= firstLook) intent = await callOff(processor, intent)
  await means.transact((tx) => settle(tx, payment, intent))
}

const goOn = async (means: Means, processor: Processor, payment: PaymentRow, intent: Intent): Promise<Intent> => {
  if (!(await isCalledFor(means.db, payment))) return callOff(processor, intent)
  const method = await chargedWith(means.db, payment)
  if (method === undefined) return callOff(processor, intent)
  const said = await close(processor, await confirm(processor, intent.id, payment, { kind: 'method', id: method }, true))
  // Under its key an old answer comes again: why it was declined is in there, but not how it stands now.
  return intent.status === 'canceled' ? { ...intent, decline: said.decline } : said
}

/** What failed was called off, so this cannot be; if it ever is, somebody must know that we hold money for nothing. */
const watchOver = async ({ platform }: Means, processor: Processor, { organization_id, id, intent_id }: PaymentRow): Promise<void> => {
  if (intent_id !== null && (await processor.readIntent(intent_id)).status === 'succeeded')
    platform.log.error('payment_after_all', { organization_id, payment_id: id })
}

/** The sweep over attempts that nobody has settled: asks, and comes back later while there is nothing to know. */
export const followDue = async (means: Means, lease: Lease): Promise<void> => {
  const { organization_id, id } = lease
  try {
    await follow(means, organization_id, id)
  } catch (error) {
    if (!(error instanceof ProcessorSilent)) throw error
  }
  await underLease(means.transact, lease, async (tx) => {
    const payment = await lockPayment(tx, organization_id, id)
    return payment?.status === 'pending' ? nextLook(id, tx.clock.wall()) : null
  })
}

/** Ever less often: after as long again as it has been waiting, from a quarter of a minute to half an hour. */
export const nextLook = (id: string, now: Date): Date => later(now, Math.min(Math.max(ageOf(id, now), 15 * seconds), 30 * minutes))

/** How long ago a row was made, by the clock on the wall: its id tells. */
export const ageOf = (id: string, now: Date): number => now.getTime() - timeOf(id).getTime()
