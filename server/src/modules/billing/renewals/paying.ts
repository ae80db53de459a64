import {
  InvalidRequest,
  ManualRetryLimitExceeded,
  OrderNotEligibleForRetry,
  PaymentAlreadyInProgress,
  ResourceNotFound,
  type CustomerOrderConfirmPayment,
} from '@bursar/contract'
import type { z } from 'zod'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import type { Instrument, Payments } from '../../../gateways/payments/payments.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { holdStanding } from '../../customers/index.ts'
import { capabilities, findLivingOrganization } from '../../organizations/index.ts'
import { lockOrder } from '../records/orders.sql.ts'
import { formOf } from '../payments/accounts.sql.ts'
import { charge, openAttempt } from '../payments/attempts.ts'
import { defaultAccount, findAccount, isOpen, holdMethod, paymentsOfOrder, readPayment } from '../payments/attempts.sql.ts'
import { settleOrder, tries } from '../invoicing/collecting.ts'

export interface Intended extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly payment_id: string
  /** The processor's id of a saved method. Null if the token of the request is used. */
  readonly method: string | null
}

type PaymentConfirmation = z.output<typeof CustomerOrderConfirmPayment>

/**
 * Opens a payment attempt by the customer for a pending order. Locks the order. Throws if another attempt is in
 * progress.
 */
export const begin = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  processor: Payments['preferred'],
  actor: PortalActor,
  id: string,
  body: PaymentConfirmation,
): Promise<Intended> => {
  if (Boolean(body.confirmation_token_id) === Boolean(body.payment_method_id))
    throw new InvalidRequest({
      loc: ['body', 'confirmation_token_id'],
      msg: 'Give the token of a new payment method, or the id of a saved one.',
      type: 'missing',
    })
  // Lock the customer before the order. The role is checked again under the lock, because it may have been revoked
  // meanwhile.
  await holdStanding(tx, scope, actor, 'billing:manage')
  const order = await lockOrder(tx, scope, id)
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
  if (!capabilities[seller.status].checkout_payments) throw new OrderNotEligibleForRetry('The seller cannot take payments at the moment.')
  const account = method
    ? await findAccount(tx, order.organization_id, method.account_id)
    : await defaultAccount(tx, platform.sealer, order.organization_id, processor)
  if (!account) throw new OrderNotEligibleForRetry('The seller cannot take payments at the moment.')
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

export const proceed = async (deps: Deps, token: string | null, { organization_id, payment_id, method }: Intended) => {
  const payment = (await readPayment(deps.db, organization_id, payment_id))!
  const instrument: Instrument = method === null ? { kind: 'token', token: token! } : { kind: 'method', id: method }
  const intent = payment.status === 'pending' ? await charge(deps, payment, instrument) : undefined
  const settled = intent ? ((await deps.transact((tx) => settleOrder(tx, organization_id, payment_id, intent))) ?? payment) : payment
  return {
    status: settled.status === 'pending' ? (intent?.status ?? 'processing') : settled.status,
    client_secret: intent?.status === 'requires_action' ? intent.client_secret : null,
    publishable_key: (await formOf(deps.db, payment)).publishable_key ?? null,
    error: settled.decline_message,
  }
}
