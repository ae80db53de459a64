import { orderCreated, orderPaid, orderUpdated } from '@bursar/contract'
import type { TaxQuote } from '../../../gateways/tax/tax.ts'
import { newId } from '../../../kernel/ids.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit, emitAll } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { givesBenefits, type DiscountTable } from '../../catalog/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import type { Reduction } from '../calc/discounts.ts'
import { postOrder } from '../ledger/ledger.ts'
import { promiseMail } from './promises.sql.ts'
import type { Totals } from '../calc/totals.ts'
import { changeOrder, insertOrder, type LoadedOrder, type OrderItemRow, type OrderRow } from '../records/orders.sql.ts'
import { nextInvoiceNumber, presentOrder, receiptNumberOf, subjectOf } from '../records/orders.ts'

/** Converts a discount to the form that the calculation functions use. */
export const reductionOf = (discount: Pick<DiscountTable, 'type' | 'basis_points' | 'amounts'>): Reduction =>
  discount.type === 'percentage' ? { type: 'percentage', basis_points: discount.basis_points! } : { type: 'fixed', amounts: discount.amounts! }

type Line = Pick<OrderItemRow, 'label' | 'amount' | 'discount_amount' | 'net_amount' | 'tax_amount' | 'proration' | 'product_price_id'>

/** The fields of a seller that determine invoice numbers. */
export interface Numbering extends Pick<OrganizationRow, 'id' | 'slug' | 'order_settings'> {}

export interface Bill {
  readonly seller: Numbering
  readonly parties: Pick<LoadedOrder, 'customer' | 'product' | 'discount' | 'subscription'>
  /** `paid` if nothing is left to charge, or if the whole amount was charged already. A `draft` owes nothing yet. */
  readonly status: 'draft' | 'pending' | 'paid'
  readonly billing_reason: OrderRow['billing_reason']
  readonly currency: string
  readonly figures: Omit<Totals<never>, 'lines' | 'charge_amount'>
  readonly lines: readonly Line[]
  readonly quote: TaxQuote | null
  readonly billed_to: Pick<OrderRow, 'billing_name' | 'billing_address' | 'tax_id' | 'tax_id_format'>
  readonly seats: number | null
  readonly checkout_id: string | null
  readonly description: string
  readonly metadata: OrderRow['metadata']
  readonly custom_field_data: OrderRow['custom_field_data']
  readonly period?: { readonly start: Date; readonly end: Date } | undefined
  /** When the order is due for collection, and the lease of the worker that collects it. */
  readonly due?: (Pick<OrderRow, 'due_at'> & Partial<Pick<OrderRow, 'lease_until' | 'lease_token' | 'lease_holder'>>) | undefined
}

export type Issued = LoadedOrder & { readonly order: Locked<OrderRow> }

/**
 * Creates an order with its lines and taxes and emits its events. Posts it to the ledger unless it is a draft. All
 * orders are created by this function.
 */
export const issue = async (tx: BusinessTx, bill: Bill): Promise<Issued> => {
  const { parties, quote, seller } = bill
  const { customer, product, discount, subscription } = parties
  const now = tx.clock.business()
  const id = newId(tx.clock.wall())
  const items = bill.lines.map(({ label, amount, discount_amount, net_amount, tax_amount, proration, product_price_id }) => ({
    id: newId(tx.clock.wall()),
    label,
    amount,
    discount_amount,
    net_amount,
    tax_amount,
    proration,
    product_price_id,
  }))
  const taxes = quote
    ? items.map((line) => ({
        id: newId(tx.clock.wall()),
        order_item_id: line.id,
        jurisdiction: quote.jurisdiction,
        rate: quote.rate,
        behavior: quote.behavior,
        basis_amount: line.amount - line.discount_amount,
        tax_amount: line.tax_amount,
        reason: quote.reason,
      }))
    : []
  const { balance_movement_amount, ...stored } = bill.figures
  const numbers = await numbersOf(tx, seller, { ...stored, status: bill.status, customer_id: customer.id, invoice_number: null })
  const { organization_id, id: customer_id } = customer
  const order = await insertOrder(
    tx,
    {
      organization_id,
      id,
      created_at: now,
      modified_at: null,
      status: bill.status,
      billing_reason: bill.billing_reason,
      currency: bill.currency,
      ...stored,
      refunded_amount: 0,
      refunded_tax_amount: 0,
      tax_behavior: quote?.behavior ?? null,
      ...bill.billed_to,
      ...numbers,
      is_invoice_generated: false,
      seats: bill.seats,
      customer_id,
      product_id: product?.id ?? null,
      discount_id: discount?.id ?? null,
      subscription_id: subscription?.id ?? null,
      checkout_id: bill.checkout_id,
      next_payment_attempt_at: null,
      description: bill.description,
      metadata: bill.metadata,
      custom_field_data: bill.custom_field_data,
      period_start: bill.period?.start ?? null,
      period_end: bill.period?.end ?? null,
      first_failed_at: null,
      benefits_revoked_at: null,
      ...unleased,
      ...bill.due,
      clock_id: customer.clock_id,
    },
    items,
    taxes,
  )
  if (order.status !== 'draft') await postOrder(tx, { ...bill.figures, organization_id, id, customer_id, currency: bill.currency, balance_movement_amount })
  const issued = {
    order,
    items: items.map((item, position) => ({ ...item, organization_id, order_id: id, created_at: now, position })),
    ...parties,
  }
  if (order.status === 'paid') await tellPaid(tx, issued, [orderCreated])
  else await emit(tx, orderCreated, subjectOf(order), presentOrder(issued))
  return issued
}

type Numbered = Pick<OrderRow, 'status' | 'customer_id' | 'invoice_number' | 'due_amount' | 'carried_amount'>

/**
 * Returns the invoice and receipt number of an order with this status. The seller's setting decides whether the invoice
 * number is assigned at creation or at payment. A draft has no invoice number until it is finalized. The receipt number
 * is derived from the invoice number of a paid order, if something was charged.
 */
export const numbersOf = async (tx: Tx, seller: Numbering, order: Numbered): Promise<Pick<OrderRow, 'invoice_number' | 'receipt_number'>> => {
  const paid = order.status === 'paid'
  const isDue = paid || (order.status === 'pending' && seller.order_settings.invoice_number_at === 'creation')
  const invoice_number = order.invoice_number ?? (isDue ? await nextInvoiceNumber(tx, seller, { id: order.customer_id }) : null)
  return { invoice_number, receipt_number: paid && order.due_amount > order.carried_amount ? receiptNumberOf(invoice_number!) : null }
}

/** Marks the order as paid, assigns its missing numbers and emits its events. */
export const markPaid = async (tx: BusinessTx, seller: Numbering, loaded: Issued): Promise<Issued> => {
  const order = await changeOrder(tx, loaded.order, {
    status: 'paid',
    ...(await numbersOf(tx, seller, { ...loaded.order, status: 'paid' })),
    next_payment_attempt_at: null,
    due_at: null,
  })
  const paid = { ...loaded, order }
  await tellPaid(tx, paid, [])
  return paid
}

/** Emits the events of a paid order after the given ones, and starts what follows its payment: benefits and the receipt mail. */
const tellPaid = async (tx: BusinessTx, loaded: Issued, before: readonly (typeof orderCreated)[]): Promise<void> => {
  await emitAll(tx, [...before, orderUpdated, orderPaid], subjectOf(loaded.order), presentOrder(loaded))
  const { organization_id, id: order_id, subscription_id, product_id, billing_reason, period_start } = loaded.order
  if (subscription_id === null) await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id: null })
  else if (billing_reason === 'subscription_cycle' && period_start) await cycled(tx, { organization_id, id: subscription_id, product_id }, period_start)
  if (loaded.order.total_amount !== 0) await promiseMail(tx, 'mail.order_receipt', loaded.order, loaded.order.created_at)
}

/** Enqueues the job that renews the product's benefits for a new period. Does nothing for a product without benefits. */
export const cycled = async (
  tx: Tx,
  { organization_id, id: subscription_id, product_id }: { organization_id: string; id: string; product_id: string | null },
  period_start: Date,
): Promise<void> => {
  if (product_id !== null && (await givesBenefits(tx, organization_id, product_id)))
    await enqueue(tx, 'entitlements.cycled', { organization_id, subscription_id, period_start: period_start.toISOString() })
}
