import { orderCreated, orderPaid, orderUpdated } from '@bursar/contract'
import type { TaxQuote } from '../../../gateways/tax/tax.ts'
import { newId } from '../../../kernel/ids.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit, emitAll } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { givesBenefits, type DiscountTable } from '../../catalog/index.ts'
import type { Reduction } from '../engine/discounts.ts'
import { postOrder } from '../ledger/ledger.ts'
import { promiseMail } from '../mails/promises.sql.ts'
import type { Totals } from '../engine/totals.ts'
import { changeOrder, insertOrder, type LoadedOrder, type OrderItemRow, type OrderRow } from './orders.sql.ts'
import { nextInvoiceNumber, presentOrder, receiptNumberOf, subjectOf } from './orders.ts'

/** What a discount takes off, as the engine wants to know it. */
export const reductionOf = (discount: Pick<DiscountTable, 'type' | 'basis_points' | 'amounts'>): Reduction =>
  discount.type === 'percentage' ? { type: 'percentage', basis_points: discount.basis_points! } : { type: 'fixed', amounts: discount.amounts! }

type Line = Pick<OrderItemRow, 'label' | 'amount' | 'discount_amount' | 'net_amount' | 'tax_amount' | 'proration' | 'product_price_id'>

export interface Bill {
  readonly seller: { id: string; slug: string }
  readonly parties: Pick<LoadedOrder, 'customer' | 'product' | 'discount' | 'subscription'>
  /** Paid where nothing is left to charge, or everything was charged already. A draft owes nothing yet. */
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
  /** Who is to collect it, and when. */
  readonly due?: (Pick<OrderRow, 'due_at'> & Partial<Pick<OrderRow, 'lease_until' | 'lease_token' | 'lease_holder'>>) | undefined
}

export type Issued = LoadedOrder & { readonly order: Locked<OrderRow> }

/** Writes an order with its lines, its taxes and, unless it is a draft, its place in the ledger, and says so. The only place where one comes into being. */
export const issue = async (tx: Tx, bill: Bill): Promise<Issued> => {
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
  // A number is drawn for what is paid: what may yet be called off leaves no gap.
  const numbers = bill.status === 'paid' ? await numbersOf(tx, seller, customer, stored) : { invoice_number: null, receipt_number: null }
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
  await emit(tx, orderCreated, subjectOf(order), presentOrder(issued))
  if (order.status === 'paid') await tellPaid(tx, issued)
  return issued
}

/** The numbers of what is paid: of its invoice, and of its receipt where anything was charged. */
const numbersOf = async (
  tx: Tx,
  seller: Bill['seller'],
  customer: { id: string },
  { due_amount, carried_amount }: Pick<OrderRow, 'due_amount' | 'carried_amount'>,
): Promise<Pick<OrderRow, 'invoice_number' | 'receipt_number'>> => {
  const invoice_number = await nextInvoiceNumber(tx, seller, customer)
  return { invoice_number, receipt_number: due_amount > carried_amount ? receiptNumberOf(invoice_number) : null }
}

/** An order that is paid has its number from here on. */
export const markPaid = async (tx: Tx, seller: Bill['seller'], loaded: Issued): Promise<Issued> => {
  const order = await changeOrder(tx, loaded.order, {
    status: 'paid',
    ...(await numbersOf(tx, seller, loaded.customer, loaded.order)),
    next_payment_attempt_at: null,
    due_at: null,
  })
  const paid = { ...loaded, order }
  await tellPaid(tx, paid)
  return paid
}

const tellPaid = async (tx: Tx, loaded: Issued): Promise<void> => {
  const order = presentOrder(loaded)
  await emitAll(tx, [orderUpdated, orderPaid], subjectOf(loaded.order), order)
  const { organization_id, id: order_id, subscription_id, product_id, billing_reason, period_start } = loaded.order
  if (subscription_id === null) await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id: null })
  else if (billing_reason === 'subscription_cycle' && period_start) await cycled(tx, { organization_id, id: subscription_id, product_id }, period_start)
  if (loaded.order.total_amount !== 0) await promiseMail(tx, 'mail.order_receipt', loaded.order, loaded.order.created_at)
}

/** A new period counts from now on: whatever its product gives goes on. Where it gives nothing, nobody is asked. */
export const cycled = async (
  tx: Tx,
  { organization_id, id: subscription_id, product_id }: { organization_id: string; id: string; product_id: string | null },
  period_start: Date,
): Promise<void> => {
  if (product_id !== null && (await givesBenefits(tx, organization_id, product_id)))
    await enqueue(tx, 'entitlements.cycled', { organization_id, subscription_id, period_start: period_start.toISOString() })
}
