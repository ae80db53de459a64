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
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { refuse, type Deps, type Refusal } from '../../handlers.ts'
import { lockCustomers } from '../../customers/index.ts'
import { capabilities, findLivingOrganization, permit } from '../../organizations/index.ts'
import { markPaid, numbersOf } from '../invoicing/issuing.ts'
import { changeOrder, findOrder, lockOrder, type LoadedOrder } from '../records/orders.sql.ts'
import { presentOrder } from '../records/orders.ts'
import { charge, openAttempt } from '../payments/attempts.ts'
import { findAccount, holdDefault, holdMethod, readPayment, type HeldMethod } from '../payments/attempts.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import { settleOrder } from '../invoicing/collecting.ts'
import { billDraftOrder, tellChanged } from '../invoicing/drafts.ts'

export interface Intended extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly order_id: string
  /** Null if there was nothing to charge. */
  readonly payment_id: string | null
  /** The processor's id of the payment method. */
  readonly method: string | null
}

/**
 * Marks a draft as pending and opens its payment attempt, before anything is charged. The lock and the new status
 * prevent a second finalization. An order without a charge is marked as paid at once.
 */
export const begin = async (wall: Tx, scope: TenantScope, id: string, { payment_method_id }: OrderFinalize): Promise<Intended> => {
  const found = await findOrder(wall, scope, id)
  if (!found) throw new ResourceNotFound()
  const { organization_id, customer_id } = found.order
  permit(scope, organization_id, 'sales:manage')
  // Lock the customer before the order.
  const [customer] = await lockCustomers(wall, scope, { id: customer_id })
  const draft = (await lockOrder(wall, scope, id))!
  if (draft.status !== 'draft') throw new OrderNotDraft()
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  if (!seller.feature_settings.off_session_charges_enabled) throw new OffSessionChargesNotEnabled()
  if (!capabilities[seller.status].checkout_payments) throw new OrganizationNotReadyForPayments()
  if (!customer) throw new PaymentFailed('The customer was deleted and cannot be charged.')
  const tx = await inTimeOf(wall, draft)
  const amount = draft.due_amount - draft.carried_amount
  const method = amount === 0 ? undefined : await methodFor(tx, customer, payment_method_id ?? null)
  const { invoice_number } = await numbersOf(tx, seller, { ...draft, status: 'pending' })
  const order = await changeOrder(tx, draft, { status: 'pending', invoice_number })
  const pending = await tellChanged(tx, scope, order)
  if (method === undefined) {
    await billDraftOrder(tx, order)
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

/** Charges the attempt and returns the order. A retried request continues the same attempt under the same idempotency keys. */
export const proceed = async (deps: Deps, { organization_id, order_id, payment_id, method }: Intended): Promise<Order | Refusal> => {
  const settled = payment_id === null ? undefined : await attempt(deps, organization_id, payment_id, method!)
  if (settled?.status === 'failed') {
    const told = `${settled.decline_message ?? 'The payment failed.'} The order stays a draft.`
    return refuse(settled.decline_reason === 'authentication_required' ? new PaymentActionRequired(told) : new PaymentFailed(told))
  }
  return presentOrder(await readBack(deps, organization_id, order_id))
}

const attempt = async (deps: Deps, organization_id: string, payment_id: string, method: string): Promise<PaymentRow> => {
  const payment = (await readPayment(deps.db, organization_id, payment_id))!
  const intent = payment.status === 'pending' ? await charge(deps, payment, { kind: 'method', id: method }, { off_session: true }) : undefined
  // Calls `settleOrder` even if another worker has already settled the payment, so that the response shows the updated order.
  return (await deps.transact((tx) => settleOrder(tx, organization_id, payment_id, intent))) ?? payment
}

const readBack = async ({ db }: Deps, organization_id: string, order_id: string): Promise<LoadedOrder> => {
  const seller = (await findLivingOrganization(db, { id: organization_id }))!
  return (await findOrder(db, within(organization_id, 'machine', seller.member_phase), order_id))!
}

/**
 * Locks the requested payment method, or the customer's default. The lock prevents the deletion of the method before
 * the attempt is stored.
 */
const methodFor = async (tx: Tx, customer: { organization_id: string; id: string }, wanted: string | null): Promise<HeldMethod> => {
  const method = wanted === null ? await holdDefault(tx, customer) : await holdMethod(tx, customer, wanted)
  if (method) return method
  if (wanted === null) throw new PaymentFailed('The customer has no saved payment method to charge. The order stays a draft.')
  throw new InvalidRequest(invalidAt(['body', 'payment_method_id'], 'There is no payment method with this id.', wanted))
}
