import { orderCreated, orderPaid, orderUpdated } from '@bursar/contract'
import { isLineQuote, type TaxQuote } from '../../../gateways/tax/tax.ts'
import { newId } from '../../../kernel/ids.ts'
import type { TaxShare } from '../../../kernel/taxes.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit, emitAll } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { givesBenefits, productsWithBenefits, type DiscountTable } from '../../catalog/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import type { Reduction } from '../calc/discounts.ts'
import { postOrder, type OrderFigures } from '../ledger/ledger.ts'
import { promiseMail, promiseMails } from './promises.sql.ts'
import type { Totals } from '../calc/totals.ts'
import {
  changeOrder,
  insertOrder,
  type LoadedOrder,
  type NewOrderItem,
  type NewOrderTax,
  type NewTaxQuote,
  type OrderItemRow,
  type OrderRow,
} from '../records/orders.sql.ts'
import { reportPaid } from '../taxes/reporting.ts'
import { nextInvoiceNumber, nextInvoiceNumbers, presentOrder, receiptNumberOf, subjectOf } from '../records/orders.ts'

/** Converts a discount to the form that the calculation functions use. */
export const reductionOf = (discount: Pick<DiscountTable, 'type' | 'basis_points' | 'amounts'>): Reduction =>
  discount.type === 'percentage' ? { type: 'percentage', basis_points: discount.basis_points! } : { type: 'fixed', amounts: discount.amounts! }

type Line = Pick<OrderItemRow, 'label' | 'amount' | 'discount_amount' | 'net_amount' | 'tax_amount' | 'proration' | 'product_price_id'> & {
  /** The tax per jurisdiction, if it was quoted for this line. Otherwise the rate of the quote applies. */
  readonly taxes?: readonly TaxShare[]
}

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

/** The rows of a new order, before they are written. */
export interface ComposedOrder {
  readonly order: OrderRow
  readonly items: readonly NewOrderItem[]
  readonly taxes: readonly NewOrderTax[]
  /** The quote of the tax service. Null for other taxes. */
  readonly quote: NewTaxQuote | null
  /** The amounts that are posted to the ledger. */
  readonly figures: OrderFigures
}

/** Composes the rows of a new order with the given numbers. Writes nothing. */
export const composeOrder = (tx: BusinessTx, bill: Bill, numbers: Numbers): ComposedOrder => {
  const { parties, quote } = bill
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
  const taxes = items.flatMap((line, at) =>
    sharesOf(quote, bill.lines[at]!).map((share) => ({
      id: newId(tx.clock.wall()),
      order_item_id: line.id,
      jurisdiction: share.jurisdiction,
      rate: share.rate,
      behavior: quote!.behavior,
      basis_amount: line.amount - line.discount_amount,
      tax_amount: share.tax_amount,
      reason: share.reason,
    })),
  )
  const { balance_movement_amount, ...stored } = bill.figures
  const { organization_id, id: customer_id } = customer
  return {
    order: {
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
      tax_quote_id: isLineQuote(quote) ? newId(tx.clock.wall()) : null,
    },
    items,
    taxes,
    quote: storedQuote(bill),
    figures: { ...bill.figures, organization_id, id, customer_id, currency: bill.currency, balance_movement_amount },
  }
}

/** Returns a stored order with its lines and the rows that it refers to. */
export const issuedOf = (order: Locked<OrderRow>, { items }: ComposedOrder, parties: Bill['parties']): Issued => {
  const { organization_id, id: order_id, created_at } = order
  return { order, items: items.map((item, position) => ({ ...item, organization_id, order_id, created_at, position })), ...parties }
}

/**
 * Creates an order with its lines and taxes and emits its events. Posts it to the ledger unless it is a draft. All
 * orders are created by this function, except those of renewals in groups.
 */
export const issue = async (tx: BusinessTx, bill: Bill): Promise<Issued> => {
  const composed = composeOrder(tx, bill, await numbersOf(tx, bill.seller, numberedOf(bill)))
  const order = await insertOrder(tx, composed.order, composed.items, composed.taxes, composed.quote)
  if (order.status !== 'draft') await postOrder(tx, composed.figures)
  const issued = issuedOf(order, composed, bill.parties)
  if (order.status === 'paid') await tellPaid(tx, issued, [orderCreated])
  else await tellCreated(tx, issued)
  return issued
}

/** Emits the event of a new order that is not paid yet. */
export const tellCreated = (tx: BusinessTx, issued: Issued): Promise<void> => emit(tx, orderCreated, subjectOf(issued.order), presentOrder(issued))

/** Returns the tax of a line per jurisdiction. Empty if the tax is unknown. */
const sharesOf = (quote: TaxQuote | null, { tax_amount, taxes }: Line): readonly TaxShare[] => {
  if (quote === null) return []
  return isLineQuote(quote) ? taxes! : [{ jurisdiction: quote.jurisdiction, rate: quote.rate, tax_amount, reason: quote.reason }]
}

/** Returns the quote of the tax service in the form in which it is stored with the order. Null for other taxes. */
const storedQuote = ({ quote, billed_to: { billing_address: address, tax_id, tax_id_format } }: Bill): NewTaxQuote | null => {
  if (!isLineQuote(quote)) return null
  const { id: service_quote_id, fingerprint, expires_at, behavior, lines } = quote
  return { service_quote_id, fingerprint, expires_at: new Date(expires_at), behavior, address, tax_id, tax_id_format, lines }
}

type Numbered = Pick<OrderRow, 'status' | 'customer_id' | 'invoice_number' | 'due_amount' | 'carried_amount'>
type Numbers = Pick<OrderRow, 'invoice_number' | 'receipt_number'>

/** Returns the fields of a new order that determine its numbers. */
export const numberedOf = ({ figures, status, parties }: Bill): Numbered => ({ ...figures, status, customer_id: parties.customer.id, invoice_number: null })

/**
 * Returns the invoice and receipt number of an order with this status. The seller's setting decides whether the invoice
 * number is assigned at creation or at payment. A draft has no invoice number until it is finalized. The receipt number
 * is derived from the invoice number of a paid order, if something was charged.
 */
export const numbersOf = async (tx: Tx, seller: Numbering, order: Numbered): Promise<Numbers> => {
  const number = needsInvoiceNumber(seller, order) ? await nextInvoiceNumber(tx, seller, { id: order.customer_id }) : null
  return numbersWith(order, number)
}

/** Returns the numbers of several orders, in their sequence. Like `numbersOf`, with a constant number of statements. */
export const numbersOfAll = async (tx: Tx, seller: Numbering, orders: readonly Numbered[]): Promise<Numbers[]> => {
  const wanting = orders.filter((order) => needsInvoiceNumber(seller, order))
  const numbers = wanting.length === 0 ? [] : await nextInvoiceNumbers(tx, seller, wanting)
  return orders.map((order) => numbersWith(order, numbers[wanting.indexOf(order)] ?? null))
}

const needsInvoiceNumber = (seller: Numbering, { status, invoice_number }: Numbered): boolean =>
  invoice_number === null && (status === 'paid' || (status === 'pending' && seller.order_settings.invoice_number_at === 'creation'))

const numbersWith = (order: Numbered, number: string | null): Numbers => {
  const invoice_number = order.invoice_number ?? number
  return { invoice_number, receipt_number: order.status === 'paid' && order.due_amount > order.carried_amount ? receiptNumberOf(invoice_number!) : null }
}

/** Returns the columns of a paid order that its payment changes. */
export const paidWith = (numbers: Numbers) => ({ status: 'paid' as const, ...numbers, next_payment_attempt_at: null, due_at: null })

/** Marks the order as paid, assigns its missing numbers and emits its events. */
export const markPaid = async (tx: BusinessTx, seller: Numbering, loaded: Issued): Promise<Issued> => {
  const order = await changeOrder(tx, loaded.order, paidWith(await numbersOf(tx, seller, { ...loaded.order, status: 'paid' })))
  const paid = { ...loaded, order }
  await tellPaid(tx, paid, [])
  return paid
}

/** Emits the events of a paid order after the given ones, and starts what follows its payment: benefits, the report of its tax and the receipt mail. */
const tellPaid = async (tx: BusinessTx, loaded: Issued, before: readonly (typeof orderCreated)[]): Promise<void> => {
  await emitPaid(tx, loaded, before)
  const { organization_id, id: order_id, subscription_id, product_id } = loaded.order
  const period_start = renewedFrom(loaded.order)
  if (subscription_id === null) await enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id: null })
  else if (period_start) await cycled(tx, { organization_id, id: subscription_id, product_id }, period_start)
  await reportPaid(tx, loaded.order)
  if (needsReceipt(loaded.order)) await promiseMail(tx, 'mail.order_receipt', loaded.order, loaded.order.created_at)
  // A sale at no cost is confirmed once: its order is paid when it is created. A trial has a mail of its own.
  else if (isSale(loaded.order) && loaded.subscription?.status !== 'trialing') await enqueue(tx, 'mail.order_receipt', { organization_id, order_id })
  if (isSale(loaded.order)) await enqueue(tx, 'mail.seller_order', { organization_id, order_id })
}

const emitPaid = (tx: BusinessTx, loaded: Issued, before: readonly (typeof orderCreated)[]): Promise<void> =>
  emitAll(tx, [...before, orderUpdated, orderPaid], subjectOf(loaded.order), presentOrder(loaded))

/** Returns the start of the period that a paid order renews, or null if it renews none. */
const renewedFrom = ({ billing_reason, period_start }: OrderRow): Date | null => (billing_reason === 'subscription_cycle' ? period_start : null)

/** Whether something new was sold. Renewals and changes are not. */
const isSale = ({ billing_reason }: OrderRow): boolean => billing_reason === 'purchase' || billing_reason === 'subscription_create'

const needsReceipt = ({ total_amount }: OrderRow): boolean => total_amount !== 0

/** Does what `markPaid` does after the update, for several orders of subscriptions of one organization. */
export const tellAllPaid = async (tx: BusinessTx, organization_id: string, paid: readonly Issued[]): Promise<void> => {
  const giving = await productsWithBenefits(tx, organization_id, [...new Set(paid.flatMap(({ order }) => order.product_id ?? []))])
  for (const loaded of paid) {
    await emitPaid(tx, loaded, [])
    await reportPaid(tx, loaded.order)
    const { subscription_id, product_id } = loaded.order
    const period_start = renewedFrom(loaded.order)
    if (period_start && product_id !== null && giving.has(product_id)) await enqueueCycled(tx, { organization_id, id: subscription_id! }, period_start)
  }
  await promiseMails(
    tx,
    'mail.order_receipt',
    paid.flatMap(({ order }) => (needsReceipt(order) ? [{ organization_id, id: order.id, moment: order.created_at }] : [])),
  )
}

/** Enqueues the job that renews the product's benefits for a new period. Does nothing for a product without benefits. */
export const cycled = async (
  tx: Tx,
  { organization_id, id: subscription_id, product_id }: { organization_id: string; id: string; product_id: string | null },
  period_start: Date,
): Promise<void> => {
  if (product_id !== null && (await givesBenefits(tx, organization_id, product_id)))
    await enqueueCycled(tx, { organization_id, id: subscription_id }, period_start)
}

const enqueueCycled = (tx: Tx, { organization_id, id: subscription_id }: { organization_id: string; id: string }, period_start: Date): Promise<void> =>
  enqueue(tx, 'entitlements.cycled', { organization_id, subscription_id, period_start: period_start.toISOString() })
