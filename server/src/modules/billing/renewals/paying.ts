import {
  InvalidRequest,
  ManualRetryLimitExceeded,
  OrderNotEligibleForRetry,
  PaymentAlreadyInProgress,
  ResourceNotFound,
  type CustomerOrderConfirmPayment,
} from '@bursar/contract'
import type { z } from 'zod'
import type { PortalActor, Reach } from '../../../kernel/actors.ts'
import type { Instrument, Payments } from '../../../gateways/payments/payments.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { holdStanding } from '../../customers/index.ts'
import { capabilities, findLivingOrganization } from '../../organizations/index.ts'
import { lockOrder } from '../orders/orders.sql.ts'
import { formOf } from '../payments/accounts.sql.ts'
import { charge, openAttempt } from '../payments/attempts.ts'
import { defaultAccount, findAccount, isOpen, holdMethod, paymentsOfOrder, readPayment } from '../payments/attempts.sql.ts'
import { settleOrder, tries } from './collecting.ts'

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
  if (attempts.some(isOpen)) throw new PaymentAlreadyInProgress()
  if (attempts.filter(({ trigger }) => trigger === 'retry_customer').length >= tries) throw new ManualRetryLimitExceeded()
  const method = body.payment_method_id ? await holdMethod(tx, { organization_id: order.organization_id, id: order.customer_id }, body.payment_method_id) : null
  if (method === undefined)
    throw new InvalidRequest({
      loc: ['body', 'payment_method_id'],
      msg: 'There is no payment method with this id.',
      type: 'value_error',
      input: body.payment_method_id,
    })
  const seller = (await findLivingOrganization(tx, { id: order.organization_id }))!
  if (!capabilities[seller.status].checkout_payments) throw new OrderNotEligibleForRetry('The seller cannot take payments now.')
  const account = method
    ? await findAccount(tx, order.organization_id, method.account_id)
    : await defaultAccount(tx, platform.sealer, order.organization_id, processor)
  if (!account) throw new OrderNotEligibleForRetry('The seller cannot take payments now.')
  const payment = await openAttempt(await inTimeOf(tx, order), account, {
    organization_id: order.organization_id,
    customer_id: order.customer_id,
    order_id: id,
    kind: 'payment',
    amount: order.due_amount - order.carried_amount,
    currency: order.currency,
    trigger: 'retry_customer',
    reusable: order.subscription_id !== null,
  })
  return { organization_id: order.organization_id, payment_id: payment.id, method: method?.name ?? null }
}

export const proceed = async (means: Means, token: string | null, { organization_id, payment_id, method }: Intended) => {
  const payment = (await readPayment(means.db, organization_id, payment_id))!
  const instrument: Instrument = method === null ? { kind: 'token', token: token! } : { kind: 'method', id: method }
  const intent = payment.status === 'pending' ? await charge(means, payment, instrument) : undefined
  const settled = intent ? ((await means.transact((tx) => settleOrder(tx, organization_id, payment_id, intent))) ?? payment) : payment
  return {
    status: settled.status === 'pending' ? (intent?.status ?? 'processing') : settled.status,
    client_secret: intent?.status === 'requires_action' ? intent.client_secret : null,
    publishable_key: (await formOf(means.db, payment)).publishable_key ?? null,
    error: settled.decline_message,
  }
}
