import {
  CustomerNotReady,
  PaymentMethodInUseByActiveSubscription,
  PaymentMethodSetupFailed,
  ResourceNotFound,
  ServiceUnavailable,
  TooManyRequests,
  type CustomerPaymentMethodConfirm,
  type CustomerPaymentMethodCreate,
  type CustomerPaymentMethodCreateResponse,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { firstIdAt } from '../../../kernel/ids.ts'
import { ProcessorRefusal, type Intent, type Payments } from '../../../gateways/payments/payments.ts'
import { hours, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Means, type Platform, type Refusal } from '../../handlers.ts'
import { changeCustomer, holdStanding, lockCustomers, lookAfterDeleted, type CustomerRow } from '../../customers/index.ts'
import { capabilities, findLivingOrganization } from '../../organizations/index.ts'
import { changePayment, defaultAccount, findAccount, lockPayment, readPayment, recordMethod } from '../payments/attempts.sql.ts'
import { charge, look, openAttempt, processorOf, settle } from '../payments/attempts.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import {
  changeMethod,
  countVain,
  deleteAll,
  findForgettable,
  findKept,
  findNamed,
  followDefault,
  hasFollower,
  lockMethod,
  lockPaidWith,
  lockSetup,
  markDeleted,
  markForgotten,
  newestBesides,
  readMethod,
} from './methods.sql.ts'

/** Whoever tries out stolen cards finds no oracle here: so many may fail in an hour. */
const vainPerHour = 10

export interface Intended extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly payment_id: string
}

/** Writes down that a method is to be kept, before the processor hears of it: an attempt like any other, over nothing. */
export const begin = async (
  tx: Tx,
  reach: Reach,
  platform: Platform,
  processor: Payments['preferred'],
  actor: PortalActor,
  body: z.output<typeof CustomerPaymentMethodCreate>,
): Promise<Intended> => {
  const customer = await holdStanding(tx, reach, actor, 'billing:manage')
  const { organization_id } = customer
  const seller = (await findLivingOrganization(tx, { id: organization_id }))!
  if (!capabilities[seller.status].checkout_payments) throw new PaymentMethodSetupFailed('The seller cannot take payments now.')
  if ((await countVain(tx, customer, firstIdAt(later(tx.clock.wall(), -1 * hours)))) >= vainPerHour)
    throw new TooManyRequests(`At most ${vainPerHour} payment methods may fail in an hour. Try again later.`, { 'retry-after': '3600' })
  const account = await defaultAccount(tx, platform.sealer, organization_id, processor)
  if (!account) throw new PaymentMethodSetupFailed('The seller cannot take payments now.')
  const payment = await openAttempt(await inTimeOf(tx, customer), account, {
    organization_id,
    customer_id: customer.id,
    kind: 'setup',
    amount: 0,
    currency: seller.default_presentment_currency,
    trigger: 'purchase',
    reusable: true,
    sets_default: body.set_default,
  })
  return { organization_id, payment_id: payment.id }
}

type Answered = CustomerPaymentMethodCreateResponse | Refusal

/** Asks the processor to keep it, and keeps what it has kept. */
export const proceed = async (means: Means, token: string, { organization_id, payment_id }: Intended): Promise<Answered> => {
  const payment = (await readPayment(means.db, organization_id, payment_id))!
  return conclude(means, payment, payment.status === 'pending' ? await charge(means, payment, { kind: 'token', token }) : undefined)
}

/** Finds what the customer has begun, by its processor's name for it; how it stands is asked afterwards. */
export const beginConfirming = async (tx: Tx, reach: Reach, actor: PortalActor, body: z.output<typeof CustomerPaymentMethodConfirm>): Promise<Intended> => {
  const customer = await holdStanding(tx, reach, actor, 'billing:manage')
  const payment = await lockSetup(tx, customer, body.setup_intent_id)
  if (!payment) throw new CustomerNotReady()
  // What was said last counts, also for whoever finds it done before us.
  if (payment.sets_default !== body.set_default) await changePayment(tx, payment, { sets_default: body.set_default })
  return { organization_id: customer.organization_id, payment_id: payment.id }
}

export const proceedConfirming = async (means: Means, { organization_id, payment_id }: Intended): Promise<Answered> => {
  const payment = (await readPayment(means.db, organization_id, payment_id))!
  return conclude(means, payment, payment.status === 'pending' ? await look(means, payment) : undefined)
}

const conclude = async (means: Means, payment: PaymentRow, intent: Intent | undefined): Promise<Answered> => {
  const unanswered = new ServiceUnavailable('The processor has not answered yet. Ask again in a moment: nothing is kept twice.')
  // Nobody knows yet. The attempt is followed up, and what it keeps appears by itself.
  if (payment.status === 'pending' && !intent) throw unanswered
  const { settled, method_id } = await means.transact((tx) => keep(tx, payment, intent))
  if (settled.status === 'failed') return refuse(new PaymentMethodSetupFailed(settled.decline_message ?? undefined))
  if (settled.status === 'succeeded') {
    if (method_id === null) return refuse(new PaymentMethodSetupFailed('This payment method was deleted since.'))
    return { status: 'succeeded', payment_method: (await readMethod(means.db, payment.organization_id, method_id)) as never }
  }
  if (intent?.status === 'requires_action') return { status: 'requires_action', client_secret: intent.client_secret }
  throw unanswered
}

/**
 * Writes down what became of an attempt to keep a method, and keeps it, once, whoever hears of it first: the customer is
 * held, so that it has one default.
 */
export const keep = async (
  wall: Tx,
  { organization_id, id, customer_id }: Pick<PaymentRow, 'organization_id' | 'id' | 'customer_id'>,
  intent?: Intent,
): Promise<{ settled: Locked<PaymentRow>; method_id: string | null }> => {
  const seller = await findLivingOrganization(wall, { id: organization_id })
  const reach = within(organization_id, 'machine', seller?.member_phase ?? 'phase2')
  const [customer] = await lockCustomers(wall, reach, { id: customer_id })
  const attempt = { organization_id, id }
  const settled = intent ? await settle(wall, attempt, intent, { concludes: true }) : (await lockPayment(wall, organization_id, id))!
  if (settled.status !== 'succeeded' || settled.processor_method === null) return { settled, method_id: null }
  if (!customer) {
    if (settled.concluded_at === null) {
      await changePayment(wall, settled, { concluded_at: wall.clock.business() })
      await keepNothing(wall, settled)
      await lookAfterDeleted(wall, { organization_id, id: customer_id })
    }
    return { settled, method_id: null }
  }
  const tx = await inTimeOf(wall, customer)
  const isNew = settled.concluded_at === null
  if (isNew) await changePayment(tx, settled, { concluded_at: tx.clock.business() })
  const method_id = isNew ? await recordMethod(tx, customer, settled.account_id, settled.processor_method) : await findKept(tx, settled)
  if (method_id !== null && (settled.sets_default || customer.default_payment_method_id === null)) await makeDefault(tx, reach, customer, method_id)
  return { settled, method_id }
}

/** A customer that is gone keeps nothing of what they paid with at last, and neither does their processor: its name is noted for whoever looks after the deleted, until that has forgotten it. */
export const keepNothing = async (tx: Tx, { organization_id, id }: Pick<PaymentRow, 'organization_id' | 'id'>): Promise<void> => {
  const payment = (await lockPayment(tx, organization_id, id))!
  if (payment.processor_method === null) return
  const { id: name, type } = payment.processor_method
  const { account_id, customer_id } = payment
  await changePayment(tx, payment, { processor_method: null })
  const bare = { id: name, type, brand: null, last4: null, exp_month: null, exp_year: null, wallet: null, fingerprint: null }
  await recordMethod(tx, { organization_id, id: customer_id }, account_id, bare)
}

/** What is owed is tried at once with what they pay with from now on. */
const makeDefault = async (tx: Tx, reach: Reach, customer: Locked<CustomerRow>, id: string | null): Promise<void> => {
  if (customer.default_payment_method_id === id) return
  await changeCustomer(tx, reach, customer, { default_payment_method_id: id })
  if (id !== null) await enqueue(tx, 'billing.method_changed', { organization_id: customer.organization_id, customer_id: customer.id })
}

/** The attempt was settled by somebody who only asked: what it was for happens now, once. */
export const methodAdded = async (means: Means, { organization_id, payment_id }: Intended): Promise<void> => {
  const payment = await readPayment(means.db, organization_id, payment_id)
  if (payment) await means.transact((tx) => keep(tx, payment))
}

/**
 * Takes a method away from its customer. No subscription that will be charged is left without one: those that had it follow the default from now
 * on, another one takes its place as the default, and where there is no other it stays. Whoever is about to charge it waits
 * and takes the other; what is being charged with it already is seen through, and then its processor forgets it.
 */
export const remove = async (tx: Tx, reach: Reach, actor: PortalActor, id: string): Promise<void> => {
  const customer = await holdStanding(tx, reach, actor, 'billing:manage')
  const gone = await takeAway(tx, reach, customer, id, async ({ paidWith, other }) => {
    const isUsed = paidWith.length > 0 || (customer.default_payment_method_id === id && (await hasFollower(tx, customer)))
    if (isUsed && other === null) throw new PaymentMethodInUseByActiveSubscription()
  })
  if (!gone) throw new ResourceNotFound()
  await enqueue(tx, 'billing.forget_method', { organization_id: customer.organization_id, payment_method_id: id })
}

interface Left {
  /** The subscriptions that have it as their own. */
  readonly paidWith: readonly string[]
  readonly other: string | null
}

/** False where the customer does not have it. */
const takeAway = async (tx: Tx, reach: Reach, customer: Locked<CustomerRow>, id: string, check?: (left: Left) => Promise<void>): Promise<boolean> => {
  const { organization_id, default_payment_method_id: standard } = customer
  const paidWith = await lockPaidWith(tx, customer, id)
  if (!(await lockMethod(tx, customer, id))) return false
  const other = await newestBesides(tx, customer, id)
  await check?.({ paidWith, other })
  await markDeleted(await inTimeOf(tx, customer), customer, id)
  await followDefault(tx, customer, paidWith)
  await makeDefault(tx, reach, customer, standard === id || standard === null ? other : standard)
  // Those that had it may owe something that the default can pay.
  if (paidWith.length > 0 && standard !== id && standard !== null) await enqueue(tx, 'billing.method_changed', { organization_id, customer_id: customer.id })
  return true
}

/**
 * A processor says that something happened to what was kept: a bank has sent a new card, and its date is shown from now on;
 * or it cannot be charged any more, and another one takes its place, if there is one.
 */
export const follow = async (
  means: Means,
  { organization_id, account_id, processor_method_id }: { organization_id: string; account_id: string; processor_method_id: string },
): Promise<void> => {
  const method = await findNamed(means.db, organization_id, account_id, processor_method_id)
  const told = method && (await processorOf(means, (await findAccount(means.db, organization_id, account_id))!).readMethod?.(processor_method_id))
  if (!method || told === undefined) return
  await means.transact(async (tx) => {
    const seller = await findLivingOrganization(tx, { id: organization_id })
    const reach = within(organization_id, 'machine', seller?.member_phase ?? 'phase2')
    const [customer] = await lockCustomers(tx, reach, { id: method.customer_id })
    // Whoever is gone, or forgotten, has no card to be shown.
    if (!customer) return
    if (told !== null) return changeMethod(tx, organization_id, method.id, told)
    if (await takeAway(tx, reach, customer, method.id)) await markForgotten(tx, organization_id, method.id)
  })
}

/** A customer that is deleted has nothing to pay with any more, and no processor keeps it for them. */
export const customerDeleted = ({ transact }: Means, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> =>
  transact(async (tx) => {
    for (const payment_method_id of await deleteAll(tx, { organization_id, id: customer_id }))
      await enqueue(tx, 'billing.forget_method', { organization_id, payment_method_id })
  })

/** Has a processor forget what its owner deleted, as soon as nothing is being charged with it; whoever settles the last attempt calls again. */
export const forget = async (means: Means, { organization_id, payment_method_id }: { organization_id: string; payment_method_id: string }): Promise<void> => {
  const method = await findForgettable(means.db, organization_id, payment_method_id)
  if (!method) return
  const processor = processorOf(means, (await findAccount(means.db, organization_id, method.account_id))!)
  await processor.forgetMethod(method.name).catch((error: unknown) => {
    // It does not know it any more.
    if (!(error instanceof ProcessorRefusal)) throw error
  })
  await means.transact((tx) => markForgotten(tx, organization_id, payment_method_id))
}
