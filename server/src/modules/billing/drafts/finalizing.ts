import {
  invalidAt,
  InvalidRequest,
  OffSessionChargesNotEnabled,
  OrderNotDraft,
  OrganizationNotReadyForPayments,
  PaymentActionRequired,
  PaymentFailed,
  ResourceNotFound,
  type Order,
  type OrderFinalize,
} from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Means, type Refusal } from '../../handlers.ts'
import { lockCustomers } from '../../customers/index.ts'
import { capabilities, findLivingOrganization, permit } from '../../organizations/index.ts'
import { markPaid } from '../orders/issuing.ts'
import { changeOrder, findOrder, lockOrder, type LoadedOrder } from '../orders/orders.sql.ts'
import { presentOrder } from '../orders/orders.ts'
import { charge, openAttempt } from '../payments/attempts.ts'
import { findAccount, holdDefault, holdMethod, readPayment, type HeldMethod } from '../payments/attempts.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { settleOrder } from '../renewals/collecting.ts'
import { bill, tellChanged } from './drafts.ts'

export interface Intended extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly order_id: string
  /** Null where nothing was to charge. */
  readonly payment_id: string | null
  /** What the processor calls what is charged. */
  readonly method: string | null
}

/**
 * Writes down that a draft is to be charged, before anybody is: by one at a time, for the order is held and is no draft from
 * then on. What costs nothing is paid at once.
 */
export const begin = async (wall: Tx, reach: Reach, id: string, { payment_method_id }: OrderFinalize): Promise<Intended> => {
  const found = await findOrder(wall, reach, id)
  if (!found) throw new ResourceNotFound()
  const { organization_id, customer_id } = found.order
  permit(reach, organization_id, 'sales:manage')
  // The customer first, then its order, as everywhere.
  const [customer] = await lockCustomers(wall, reach, { id: customer_id })
  const draft = (await lockOrder(wall, reach, id))!
  if (draft.status !== 'draft') throw new OrderNotDraft()
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  if (!seller.feature_settings.off_session_charges_enabled) throw new OffSessionChargesNotEnabled()
  if (!capabilities[seller.status].checkout_payments) throw new OrganizationNotReadyForPayments()
  if (!customer) throw new PaymentFailed('The customer was deleted, and pays nothing any more.')
  const tx = await inTimeOf(wall, draft)
  const amount = draft.due_amount - draft.carried_amount
  const method = amount === 0 ? undefined : await methodFor(tx, customer, payment_method_id ?? null)
  const order = await changeOrder(tx, draft, { status: 'pending' })
  const pending = await tellChanged(tx, reach, order)
  if (method === undefined) {
    await bill(tx, order)
    await markPaid(tx, seller, pending)
    return { organization_id, order_id: id, payment_id: null, method: null }
  }
  const account = (await findAccount(tx, organization_id, method.account_id))!
  const payment = await openAttempt(tx, account, {
    organization_id,
    customer_id,
    order_id: id,
    kind: 'payment',
    amount,
    currency: order.currency,
    trigger: 'purchase',
    reusable: true,
    payment_method_id: method.id,
  })
  return { organization_id, order_id: id, payment_id: payment.id, method: method.name }
}

/** Charges, and answers with what has become of the order. Whoever asks again goes on with the same attempt, under its own keys. */
export const proceed = async (means: Means, { organization_id, order_id, payment_id, method }: Intended): Promise<Order | Refusal> => {
  const settled = payment_id === null ? undefined : await attempt(means, organization_id, payment_id, method!)
  if (settled?.status === 'failed') {
    const told = `${settled.decline_message ?? 'The payment failed.'} The order is a draft as before.`
    return refuse(settled.decline_reason === 'authentication_required' ? new PaymentActionRequired(told) : new PaymentFailed(told))
  }
  return presentOrder(await readBack(means, organization_id, order_id))
}

const attempt = async (means: Means, organization_id: string, payment_id: string, method: string): Promise<PaymentRow> => {
  const payment = (await readPayment(means.db, organization_id, payment_id))!
  const intent = payment.status === 'pending' ? await charge(means, payment, { kind: 'method', id: method }, { off_session: true }) : undefined
  // Also where somebody else has heard first: the order is to know of it before its seller is answered.
  return (await means.transact((tx) => settleOrder(tx, organization_id, payment_id, intent))) ?? payment
}

const readBack = async ({ db }: Means, organization_id: string, order_id: string): Promise<LoadedOrder> => {
  const seller = (await findLivingOrganization(db, { id: organization_id }))!
  return (await findOrder(db, within(organization_id, 'machine', seller.member_phase), order_id))!
}

/** What the seller names, or whatever the customer pays with; nobody deletes it before there is an attempt with it. */
const methodFor = async (tx: Tx, customer: { organization_id: string; id: string }, wanted: string | null): Promise<HeldMethod> => {
  const method = wanted === null ? await holdDefault(tx, customer) : await holdMethod(tx, customer, wanted)
  if (method) return method
  if (wanted === null) throw new PaymentFailed('The customer has left no payment method to charge. The order is a draft as before.')
  throw new InvalidRequest(invalidAt(['body', 'payment_method_id'], 'There is no payment method with this id.', wanted))
}
