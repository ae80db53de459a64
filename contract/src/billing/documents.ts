import { z } from 'zod'
import { failure, merchant, NotPermitted, operation, portal, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

const link = { url: z.string().describe('The address of the PDF, valid for five minutes.') }
export const OrderInvoice = resource('OrderInvoice', link)
export const OrderReceipt = resource('OrderReceipt', link)
export const CustomerOrderInvoice = resource('CustomerOrderInvoice', link)
export const CustomerOrderReceipt = resource('CustomerOrderReceipt', link)
const numbered = { number: z.string(), ...link }
export const RefundCreditNote = resource('RefundCreditNote', numbered)
export const CustomerOrderCreditNote = resource('CustomerOrderCreditNote', numbered)
export const CustomerOrderRefund = resource('CustomerOrderRefund', {
  id: uuid(),
  created_at: timestamp(),
  amount: z.int().describe('Without tax, in minor units.'),
  tax_amount: z.int().describe('The tax that was refunded.'),
  currency: z.string(),
  credit_note_number: z.string().nullable().describe('Null until the credit note is first requested, if the order had no invoice number when it was refunded.'),
})

export const MissingInvoiceBillingDetails = failure(
  'MissingInvoiceBillingDetails',
  422,
  'An invoice needs a billing name and a billing address. Add both to the order first.',
)
export const OrderNotEligibleForInvoice = failure('OrderNotEligibleForInvoice', 409, 'This order is not paid. Invoices exist for paid orders only.')

const byId = z.object({ id: uuid() })
const read = merchant('orders:read')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const generated = resource('InvoiceGeneration', {})
const asked =
  'The PDF is generated in the background; `order.updated` is sent when it is ready. A request after a change of the billing details generates it again.'
const fetched = 'Answers 404 until the invoice was requested and generated.'
const received = 'For orders that were paid with a payment. Answers 202 while the PDF is generated, also after a refund: send the request again later.'

export const generateInvoice = operation({
  id: 'orders:generate_invoice',
  method: 'POST',
  path: '/v1/orders/{id}/invoice',
  summary: 'Request the invoice of an order',
  description: asked,
  access: read,
  costs: ['jobs', 'storage'],
  params: byId,
  returns: generated,
  status: 202,
  fails: [NotPermitted, ResourceNotFound, OrderNotEligibleForInvoice, MissingInvoiceBillingDetails],
})

export const getInvoice = operation({
  id: 'orders:invoice',
  method: 'GET',
  path: '/v1/orders/{id}/invoice',
  summary: 'Get the invoice of an order',
  description: fetched,
  access: read,
  costs: ['jobs', 'storage'],
  params: byId,
  returns: OrderInvoice,
  fails: [NotPermitted, ResourceNotFound],
})

export const getReceipt = operation({
  id: 'orders:receipt',
  method: 'GET',
  path: '/v1/orders/{id}/receipt',
  summary: 'Get the receipt of an order',
  description: received,
  access: read,
  costs: ['jobs', 'storage'],
  params: byId,
  returns: OrderReceipt,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})

export const getCreditNote = operation({
  id: 'refunds:credit_note',
  method: 'GET',
  path: '/v1/refunds/{id}/credit-note',
  summary: 'Get the credit note of a refund',
  description: 'For refunds that succeeded. Answers 202 while the PDF is generated: send the request again later.',
  access: merchant(['refunds:read', 'refunds:write']),
  costs: ['jobs', 'storage'],
  params: byId,
  returns: RefundCreditNote,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})

export const generatePortalInvoice = operation({
  id: 'customer_portal:orders:generate_invoice',
  method: 'POST',
  path: '/v1/customer-portal/orders/{id}/invoice',
  summary: 'Request the invoice of an order',
  description: asked,
  access: enter,
  costs: ['jobs', 'storage'],
  params: byId,
  returns: generated,
  status: 202,
  fails: [NotPermitted, ResourceNotFound, OrderNotEligibleForInvoice, MissingInvoiceBillingDetails],
})

export const getPortalInvoice = operation({
  id: 'customer_portal:orders:invoice',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/invoice',
  summary: 'Get the invoice of an order',
  description: fetched,
  access: enter,
  costs: ['jobs', 'storage'],
  params: byId,
  returns: CustomerOrderInvoice,
  fails: [NotPermitted, ResourceNotFound],
})

export const getPortalReceipt = operation({
  id: 'customer_portal:orders:receipt',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/receipt',
  summary: 'Get the receipt of an order',
  description: received,
  access: enter,
  costs: ['jobs', 'storage'],
  params: byId,
  returns: CustomerOrderReceipt,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})

export const listPortalRefunds = operation({
  id: 'customer_portal:orders:refunds',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/refunds',
  summary: 'List the refunds of an order',
  description: 'All refunds that succeeded, oldest first. Each has a credit note.',
  access: enter,
  costs: 'none',
  params: byId,
  returns: resource('CustomerOrderRefunds', { items: z.array(CustomerOrderRefund) }),
  fails: [NotPermitted, ResourceNotFound],
})

export const getPortalCreditNote = operation({
  id: 'customer_portal:orders:credit_note',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/refunds/{refund_id}/credit-note',
  summary: 'Get the credit note of a refund',
  description: 'Answers 202 while the PDF is generated: send the request again later.',
  access: enter,
  costs: ['jobs', 'storage'],
  params: byId.extend({ refund_id: uuid() }),
  returns: CustomerOrderCreditNote,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})
