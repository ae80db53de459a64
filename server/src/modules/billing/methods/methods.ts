import {
  accountLimits,
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
import { within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { firstIdAt } from '../../../kernel/ids.ts'
import { ProcessorRefusal, type Intent, type Payments } from '../../../gateways/payments/payments.ts'
import { hours, later } from '../../../platform/clock.ts'
import { inWallTime, inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Deps, type Platform, type Refusal } from '../../handlers.ts'
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

/** Limit of failed setups per customer and hour, so that stolen cards cannot be tested here. */
const vainPerHour = accountLimits.failed_payment_methods_per_customer_and_hour

export interface Intended extends Readonly<Record<string, string>> {
  readonly organization_id: string
  readonly payment_id: string
}

/** Inserts a payment attempt with amount zero for the setup of a method, before the processor is called. */
export const begin = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  processor: Payments['preferred'],
  actor: PortalActor,
  body: z.output<typeof CustomerPaymentMethodCreate>,
): Promise<Intended> => {
  const customer = await holdStanding(tx, scope, actor, 'billing:manage')
  const { organization_id } = customer
  const seller = (await findLivingOrganization(tx, { id: organization_id }))!
  if (!capabilities[seller.status].checkout_payments) throw new PaymentMethodSetupFailed('The seller cannot take payments at the moment.')
  if ((await countVain(tx, customer, firstIdAt(later(tx.clock.wall(), -1 * hours)))) >= vainPerHour)
    throw new TooManyRequests(`At most ${vainPerHour} failed payment methods are allowed per hour. Try again later.`, { 'retry-after': '3600' })
  const account = await defaultAccount(tx, platform.sealer, organization_id, processor)
  if (!account) throw new PaymentMethodSetupFailed('The seller cannot take payments at the moment.')
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

/** Sends the setup of the payment method to the processor and saves the result. */
export const proceed = async (deps: Deps, token: string, { organization_id, payment_id }: Intended): Promise<Answered> => {
  const payment = (await readPayment(deps.db, organization_id, payment_id))!
  return conclude(deps, payment, payment.status === 'pending' ? await charge(deps, payment, { kind: 'token', token }) : undefined)
}

/**
 * Finds the customer's own setup by the processor's intent id. The next step reads the status of the setup at the
 * processor.
 */
export const beginConfirming = async (
  tx: BusinessTx,
  scope: TenantScope,
  actor: PortalActor,
  body: z.output<typeof CustomerPaymentMethodConfirm>,
): Promise<Intended> => {
  const customer = await holdStanding(tx, scope, actor, 'billing:manage')
  const payment = await lockSetup(tx, customer, body.setup_intent_id)
  if (!payment) throw new CustomerNotReady()
  // The latest request decides whether the method becomes the default, even if another call settles the setup first.
  if (payment.sets_default !== body.set_default) await changePayment(tx, payment, { sets_default: body.set_default })
  return { organization_id: customer.organization_id, payment_id: payment.id }
}

export const proceedConfirming = async (deps: Deps, { organization_id, payment_id }: Intended): Promise<Answered> => {
  const payment = (await readPayment(deps.db, organization_id, payment_id))!
  return conclude(deps, payment, payment.status === 'pending' ? await look(deps, payment) : undefined)
}

const conclude = async (deps: Deps, payment: PaymentRow, intent: Intent | undefined): Promise<Answered> => {
  const unanswered = new ServiceUnavailable('The processor has not answered yet. Try again in a moment: the payment method is saved only once.')
  // The result of the setup is not known yet. The sweep polls the attempt and saves the method later.
  if (payment.status === 'pending' && !intent) throw unanswered
  const { settled, method_id } = await deps.transact((tx) => recordSetup(inWallTime(tx), payment, intent))
  if (settled.status === 'failed') return refuse(new PaymentMethodSetupFailed(settled.decline_message ?? undefined))
  if (settled.status === 'succeeded') {
    if (method_id === null) return refuse(new PaymentMethodSetupFailed('This payment method was deleted in the meantime.'))
    return { status: 'succeeded', payment_method: (await readMethod(deps.db, payment.organization_id, method_id)) as never }
  }
  if (intent?.status === 'requires_action') return { status: 'requires_action', client_secret: intent.client_secret }
  throw unanswered
}

/**
 * Records the result of a setup and saves its payment method. Idempotent, also under concurrent calls. Locks the
 * customer, so that only one method becomes the default.
 */
export const recordSetup = async (
  wall: BusinessTx,
  { organization_id, id, customer_id }: Pick<PaymentRow, 'organization_id' | 'id' | 'customer_id'>,
  intent?: Intent,
): Promise<{ settled: Locked<PaymentRow>; method_id: string | null }> => {
  const seller = await findLivingOrganization(wall, { id: organization_id })
  const scope = within(organization_id, 'machine', seller?.member_phase ?? 'phase2')
  const [customer] = await lockCustomers(wall, scope, { id: customer_id })
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
  if (method_id !== null && (settled.sets_default || customer.default_payment_method_id === null)) await makeDefault(tx, scope, customer, method_id)
  return { settled, method_id }
}

/**
 * Discards the payment method of a payment whose customer was deleted. A record with only the processor's id remains
 * until the method is deleted at the processor too.
 */
export const keepNothing = async (tx: BusinessTx, { organization_id, id }: Pick<PaymentRow, 'organization_id' | 'id'>): Promise<void> => {
  const payment = (await lockPayment(tx, organization_id, id))!
  if (payment.processor_method === null) return
  const { id: name, type } = payment.processor_method
  const { account_id, customer_id } = payment
  await changePayment(tx, payment, { processor_method: null })
  const bare = { id: name, type, brand: null, last4: null, exp_month: null, exp_year: null, wallet: null, fingerprint: null }
  await recordMethod(tx, { organization_id, id: customer_id }, account_id, bare)
}

/** Sets the customer's default method and enqueues a retry of the failed orders with that method. */
const makeDefault = async (tx: Tx, scope: TenantScope, customer: Locked<CustomerRow>, id: string | null): Promise<void> => {
  if (customer.default_payment_method_id === id) return
  await changeCustomer(tx, scope, customer, { default_payment_method_id: id })
  if (id !== null) await enqueue(tx, 'billing.method_changed', { organization_id: customer.organization_id, customer_id: customer.id })
}

/** Job that saves the payment method of a setup that the sweep or an event has settled. Idempotent. */
export const methodAdded = async (deps: Deps, { organization_id, payment_id }: Intended): Promise<void> => {
  const payment = await readPayment(deps.db, organization_id, payment_id)
  if (payment) await deps.transact((tx) => recordSetup(inWallTime(tx), payment))
}

/**
 * Deletes a payment method of a customer. Subscriptions that used the method use the default from now on. If the method
 * was the default, the newest other method becomes the default. If there is no other method and a subscription still
 * needs one, the deletion is refused. A concurrent charge waits for the lock and then uses the other method. A charge
 * that has already started is completed first. Then the method is deleted at the processor.
 */
export const deletePaymentMethod = async (tx: Tx, scope: TenantScope, actor: PortalActor, id: string): Promise<void> => {
  const customer = await holdStanding(tx, scope, actor, 'billing:manage')
  const gone = await takeAway(tx, scope, customer, id, async ({ paidWith, other }) => {
    const isUsed = paidWith.length > 0 || (customer.default_payment_method_id === id && (await hasFollower(tx, customer)))
    if (isUsed && other === null) throw new PaymentMethodInUseByActiveSubscription()
  })
  if (!gone) throw new ResourceNotFound()
  await enqueue(tx, 'billing.forget_method', { organization_id: customer.organization_id, payment_method_id: id })
}

interface Left {
  /** Subscriptions that use the method as their own. */
  readonly paidWith: readonly string[]
  readonly other: string | null
}

/**
 * Deletes the payment method and assigns the default to the subscriptions that used it. Returns false if the customer
 * has no such method.
 */
const takeAway = async (tx: Tx, scope: TenantScope, customer: Locked<CustomerRow>, id: string, check?: (left: Left) => Promise<void>): Promise<boolean> => {
  const { organization_id, default_payment_method_id: standard } = customer
  const paidWith = await lockPaidWith(tx, customer, id)
  if (!(await lockMethod(tx, customer, id))) return false
  const other = await newestBesides(tx, customer, id)
  await check?.({ paidWith, other })
  await markDeleted(await inTimeOf(tx, customer), customer, id)
  await followDefault(tx, customer, paidWith)
  await makeDefault(tx, scope, customer, standard === id || standard === null ? other : standard)
  // Retries the open orders of the subscriptions that used the deleted method, now with the default.
  if (paidWith.length > 0 && standard !== id && standard !== null) await enqueue(tx, 'billing.method_changed', { organization_id, customer_id: customer.id })
  return true
}

/**
 * Updates a saved payment method after a processor event. If the bank has replaced the card, updates the display data.
 * If the method can no longer be charged, deletes it. If it was the default, the customer's newest other method becomes
 * the default.
 */
export const follow = async (
  deps: Deps,
  { organization_id, account_id, processor_method_id }: { organization_id: string; account_id: string; processor_method_id: string },
): Promise<void> => {
  const method = await findNamed(deps.db, organization_id, account_id, processor_method_id)
  const told = method && (await processorOf(deps, (await findAccount(deps.db, organization_id, account_id))!).readMethod?.(processor_method_id))
  if (!method || told === undefined) return
  await deps.transact(async (tx) => {
    const seller = await findLivingOrganization(tx, { id: organization_id })
    const scope = within(organization_id, 'machine', seller?.member_phase ?? 'phase2')
    const [customer] = await lockCustomers(tx, scope, { id: method.customer_id })
    // The customer was deleted, so there is no saved method to update.
    if (!customer) return
    if (told !== null) return changeMethod(inWallTime(tx), organization_id, method.id, told)
    if (await takeAway(tx, scope, customer, method.id)) await markForgotten(tx, organization_id, method.id)
  })
}

/** Job that deletes all payment methods of a deleted customer, here and at their processors. */
export const customerDeleted = ({ transact }: Deps, { organization_id, customer_id }: { organization_id: string; customer_id: string }): Promise<void> =>
  transact(async (tx) => {
    for (const payment_method_id of await deleteAll(inWallTime(tx), { organization_id, id: customer_id }))
      await enqueue(tx, 'billing.forget_method', { organization_id, payment_method_id })
  })

/**
 * Job that deletes a payment method at its processor after the method was deleted here. Does nothing while a payment
 * with the method is pending. The settlement of that payment enqueues this job again.
 */
export const forget = async (deps: Deps, { organization_id, payment_method_id }: { organization_id: string; payment_method_id: string }): Promise<void> => {
  const method = await findForgettable(deps.db, organization_id, payment_method_id)
  if (!method) return
  const processor = processorOf(deps, (await findAccount(deps.db, organization_id, method.account_id))!)
  await processor.forgetMethod(method.name).catch((error: unknown) => {
    // A refusal means that the processor no longer knows the method.
    if (!(error instanceof ProcessorRefusal)) throw error
  })
  await deps.transact((tx) => markForgotten(tx, organization_id, payment_method_id))
}
