import {
  InvalidRequest,
  ManualRetryLimitExceeded,
  OrderNotEligibleForRetry,
  orderPaid,
  orderUpdated,
  PaymentAlreadyInProgress,
  ResourceNotFound,
  type CustomerOrderConfirmPayment,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import type { Instrument, Payments } from '../../../gateways/payments/payments.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { holdStanding } from '../../customers/index.ts'
import { capabilities, findLivingOrganization } from '../../organizations/index.ts'
import { charge, openAttempt, settle } from '../payments/attempts.ts'
import { defaultAccount, lockPayment, methodOf, paymentsOfOrder, readPayment } from '../payments/attempts.sql.ts'
import { changeOrder, loadOrders, lockOrder } from './orders.sql.ts'
import { presentOrder, subjectOf } from './orders.ts'

/** How often a customer may try by hand. */
const tries = 5

export interface Intended extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly payment_id: string
  /** The processor's name of a kept method; null: the token of the request. */
  readonly method: string | null
}

type Wish = z.output<typeof CustomerOrderConfirmPayment>

/** An order that waits for money is tried once more, by one at a time: the order is held, and an attempt under way refuses another. */
export const begin = async (
  tx: Tx,
  reach: Reach,
  platform: Platform,
  processor: Payments['preferred'],
  actor: PortalActor,
  id: string,
  body: Wish,
): Promise<Intended> => {
  if (Boolean(body.confirmation_token_id) === Boolean(body.payment_method_id))
    throw new InvalidRequest({
      loc: ['body', 'confirmation_token_id'],
      msg: 'Give the token of a new payment method, or the id of a saved one.',
      type: 'missing',
    })
  // A role that was taken away meanwhile pays nothing any more. The customer first, then its order, as everywhere.
  await holdStanding(tx, reach, actor, 'billing:manage')
  const order = await lockOrder(tx, reach, id)
  if (!order || order.customer_id !== actor.customer_id) throw new ResourceNotFound()
  if (order.status !== 'pending' || order.due_amount === 0) throw new OrderNotEligibleForRetry()
  const attempts = await paymentsOfOrder(tx, order.organization_id, id)
  if (attempts.some(({ status }) => status === 'pending')) throw new PaymentAlreadyInProgress()
  if (attempts.filter(({ trigger }) => trigger === 'retry_customer').length >= tries) throw new ManualRetryLimitExceeded()
  const method = body.payment_method_id ? await methodOf(tx, order.organization_id, order.customer_id, body.payment_method_id) : null
  if (method === undefined)
    throw new InvalidRequest({
      loc: ['body', 'payment_method_id'],
      msg: 'There is no payment method with this id.',
      type: 'value_error',
      input: body.payment_method_id,
    })
  const seller = (await findLivingOrganization(tx, { id: order.organization_id }))!
  if (processor === null || !capabilities[seller.status].checkout_payments) throw new OrderNotEligibleForRetry('The seller cannot take payments now.')
  const account = await defaultAccount(tx, platform.sealer, order.organization_id, processor)
  const payment = await openAttempt(tx, account, {
    organization_id: order.organization_id,
    customer_id: order.customer_id,
    order_id: id,
    kind: 'payment',
    amount: order.due_amount - order.carried_amount,
    currency: order.currency,
    trigger: 'retry_customer',
    reusable: order.subscription_id !== null,
  })
  return { organization_id: order.organization_id, payment_id: payment.id, method }
}

export const proceed = async (means: Means, token: string | null, { organization_id, payment_id, method }: Intended) => {
  const payment = (await readPayment(means.db, organization_id, payment_id))!
  const instrument: Instrument = method === null ? { kind: 'token', token: token! } : { kind: 'method', id: method }
  const intent = payment.status === 'pending' ? await charge(means, payment, instrument) : undefined
  const settled = intent ? await means.transact((tx) => settle(tx, payment, intent)) : payment
  if (settled.status === 'succeeded') await orderPaymentSettled(means, { organization_id, payment_id })
  return {
    status: settled.status === 'pending' ? (intent?.status ?? 'processing') : settled.status,
    client_secret: intent?.status === 'requires_action' ? intent.client_secret : null,
    error: settled.decline_message,
  }
}

/** An order whose money came is paid, once, whoever hears of it. */
export const orderPaymentSettled = ({ transact }: Means, { organization_id, payment_id }: { organization_id: string; payment_id: string }): Promise<void> =>
  transact(async (tx) => {
    const payment = await lockPayment(tx, organization_id, payment_id)
    if (payment?.status !== 'succeeded' || payment.order_id === null) return
    const seller = (await findLivingOrganization(tx, { id: organization_id }))!
    const reach = within(organization_id, 'machine', seller.member_phase)
    const order = await lockOrder(tx, reach, payment.order_id)
    if (order?.status !== 'pending') return
    const paid = await changeOrder(tx, order, { status: 'paid', next_payment_attempt_at: null })
    const [loaded] = await loadOrders(tx, reach, [paid])
    const about = subjectOf(paid)
    await emit(tx, orderUpdated, about, presentOrder(loaded!))
    await emit(tx, orderPaid, about, presentOrder(loaded!))
  })
