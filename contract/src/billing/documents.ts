import { z } from 'zod'
import { failure, merchant, NotPermitted, operation, portal, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

const link = { url: z.string().describe('Where the PDF can be fetched, for five minutes.') }
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
  tax_amount: z.int().describe('The tax that went back with it.'),
  currency: z.string(),
  credit_note_number: z
    .string()
    .nullable()
    .describe('Null until its credit note was first asked for, where the order had no invoice number when it was refunded.'),
})

export const MissingInvoiceBillingDetails = failure(
  'MissingInvoiceBillingDetails',
  422,
  'An invoice says who is billed: give the order a billing name and a billing address first.',
)
export const OrderNotEligibleForInvoice = failure('OrderNotEligibleForInvoice', 409, 'There is an invoice once the order is paid: this one is not.')

const byId = z.object({ id: uuid() })
const read = merchant('orders:read')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const generated = resource('InvoiceGeneration', {})
const asked = 'The PDF is made in the background; `order.updated` tells when it is there. Asked for again after the billing details changed, it is made anew.'
const fetched = 'Absent until it was asked for and made.'
const received = 'For orders that were paid with a payment. Answers 202 while it is made, and again after a refund: ask once more.'

export const generateInvoice = operation({
  id: 'orders:generate_invoice',
  method: 'POST',
  path: '/v1/orders/{id}/invoice',
  summary: 'Ask for the invoice of an order',
  description: asked,
  access: read,
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
  description: 'For refunds that succeeded. Answers 202 while it is made: ask once more.',
  access: merchant(['refunds:read', 'refunds:write']),
  params: byId,
  returns: RefundCreditNote,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})

export const generatePortalInvoice = operation({
  id: 'customer_portal:orders:generate_invoice',
  method: 'POST',
  path: '/v1/customer-portal/orders/{id}/invoice',
  summary: 'Ask for the invoice of an order',
  description: asked,
  access: enter,
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
  params: byId,
  returns: CustomerOrderReceipt,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})

export const listPortalRefunds = operation({
  id: 'customer_portal:orders:refunds',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/refunds',
  summary: 'List what was given back of an order',
  description: 'Refunds that succeeded, all of them, the oldest first. Each has a credit note.',
  access: enter,
  params: byId,
  returns: resource('CustomerOrderRefunds', { items: z.array(CustomerOrderRefund) }),
  fails: [NotPermitted, ResourceNotFound],
})

export const getPortalCreditNote = operation({
  id: 'customer_portal:orders:credit_note',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/refunds/{refund_id}/credit-note',
  summary: 'Get the credit note of a refund',
  description: 'Answers 202 while it is made: ask once more.',
  access: enter,
  params: byId.extend({ refund_id: uuid() }),
  returns: CustomerOrderCreditNote,
  pending: 202,
  fails: [NotPermitted, ResourceNotFound],
})
