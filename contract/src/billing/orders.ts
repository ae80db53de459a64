import { z } from 'zod'
import { CustomFieldData, customFieldDataInput } from '../catalog/custom-fields.ts'
import { DiscountBase, DiscountProduct } from '../catalog/discounts.ts'
import { Metadata, metadataFilter, metadataInput } from '../catalog/metadata.ts'
import { CustomerOrganization, CustomerProduct } from '../catalog/storefront.ts'
import { Address, AddressInput } from '../customers/addresses.ts'
import { CustomerTeam, CustomerType, maybe, PaymentProcessor, personName } from '../customers/customers.ts'
import {
  csv,
  failure,
  filter,
  merchant,
  momentInText,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  portal,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  timestamp,
  timezone,
  uuid,
  webhook,
} from '../kit/index.ts'
import { PresentmentCurrency } from '../world.ts'
import { PaymentFailed, subscriptionShape } from './subscriptions.ts'

export const OrderStatus = named('OrderStatus', z.enum(['draft', 'pending', 'paid', 'refunded', 'partially_refunded', 'void']))
export type OrderStatus = z.output<typeof OrderStatus>

export const OrderBillingReason = named(
  'OrderBillingReason',
  z.enum(['purchase', 'subscription_create', 'subscription_cycle', 'subscription_update', 'subscription_meter_cycle']),
)
export type OrderBillingReason = z.output<typeof OrderBillingReason>
export const ProductBillingType = named('ProductBillingType', z.enum(['one_time', 'recurring']))
export type ProductBillingType = z.output<typeof ProductBillingType>

const minor = (what: string) => z.int().describe(what)

export const OrderItem = resource('OrderItemSchema', {
  ...stamps,
  id: uuid(),
  label: z.string(),
  amount: minor('Before discount and tax, in minor units; negative for a credit.'),
  tax_amount: minor('The share of this line in the tax.'),
  proration: z.boolean().describe('For a part of a period, because something changed in its midst.'),
  product_price_id: uuid().nullable(),
})
export type OrderItem = z.output<typeof OrderItem>

const common = {
  ...stamps,
  id: uuid(),
  status: OrderStatus,
  paid: z.boolean().describe('It was paid; true also after a refund.'),
  subtotal_amount: minor('The lines together, in minor units, as all amounts here.'),
  discount_amount: minor('What is taken off.'),
  net_amount: minor('After discount, without tax.'),
  tax_amount: minor('Sales tax or VAT.'),
  total_amount: minor('After discount, with tax.'),
  applied_balance_amount: minor("What the customer's balance adds or takes: negative where credit pays, positive where debt is collected."),
  due_amount: minor('What is left to pay.'),
  refunded_amount: minor('Paid back so far, without tax.'),
  refunded_tax_amount: minor('Tax paid back so far.'),
  currency: z.string(),
  billing_reason: OrderBillingReason,
  billing_name: z.string().nullable(),
  billing_address: Address.nullable(),
  invoice_number: z.string().nullable().describe('Null while it is a draft.'),
  is_invoice_generated: z.boolean(),
  receipt_number: z.string().nullable(),
  seats: z.int().nullable().describe('Seats bought; null where the price is not by seat.'),
  customer_id: uuid(),
  product_id: uuid().nullable(),
  discount_id: uuid().nullable(),
  subscription_id: uuid().nullable(),
  checkout_id: uuid().nullable(),
  next_payment_attempt_at: timestamp().nullable().describe('When an unpaid order is tried again.'),
  items: z.array(OrderItem),
  description: z.string(),
  refundable_amount: minor('What can still be paid back, without tax.'),
  refundable_tax_amount: minor('The tax that can still be paid back.'),
}

export const OrderCustomer = resource('OrderCustomer', { ...CustomerTeam.shape, type: CustomerType })
export const OrderProduct = resource('OrderProduct', DiscountProduct.shape)
export const OrderSubscription = resource('OrderSubscription', { ...subscriptionShape, metadata: Metadata })

/** What a customer owes or has paid: a purchase, or one period of a subscription. */
export const Order = resource('Order', {
  ...common,
  metadata: Metadata,
  custom_field_data: CustomFieldData,
  platform_fee_amount: minor('What the platform keeps.'),
  platform_fee_currency: z.string().nullable(),
  customer: OrderCustomer,
  product: OrderProduct.nullable(),
  discount: DiscountBase.nullable(),
  subscription: OrderSubscription.nullable(),
})
export type Order = z.output<typeof Order>

const billing = { billing_name: personName(), billing_address: AddressInput.nullish() }
export const OrderUpdate = resource('OrderUpdate', billing)

export const OrderCreate = resource('OrderCreate', {
  customer_id: uuid(),
  product_id: uuid().describe('A product that is sold once, at a fixed price.'),
  currency: PresentmentCurrency.nullish().describe("The organization's own, unless said otherwise. The product must have a price in it."),
  amount: z.int().min(0).max(2_100_000_000).nullish().describe('Instead of the price, in minor units: nothing, or what the processor takes.'),
  description: maybe(500).describe('The name of the product, unless said otherwise.'),
  organization_id: uuid().nullish(),
  metadata: metadataInput().optional(),
  custom_field_data: customFieldDataInput().optional(),
})
export type OrderCreate = z.output<typeof OrderCreate>

export const OrderFinalize = resource('OrderFinalize', {
  payment_method_id: uuid().nullish().describe("One that the customer has left with you; the customer's default, unless said otherwise."),
})
export type OrderFinalize = z.output<typeof OrderFinalize>

export const PaymentActionRequired = failure(
  'PaymentActionRequired',
  402,
  'The bank wants the customer to confirm this payment, and the customer is not here. The order is a draft as before.',
)
export const OffSessionChargesNotEnabled = failure(
  'OffSessionChargesNotEnabled',
  403,
  'Whoever runs this deployment has not allowed this organization to charge customers who are not there.',
)
export const OrganizationNotReadyForPayments = failure('OrganizationNotReadyForPayments', 403, 'This organization cannot take payments now.')
export const OrderNotDraft = failure('OrderNotDraft', 412, 'Only a draft can be made final, and this order is none any more.')

const read = merchant('orders:read')
const write = merchant('orders:write')
const byId = z.object({ id: uuid() })
const changing = 'What is absent stays as it is. Country and state decided about the tax: they cannot change.'

export const listOrders = operation({
  id: 'orders:list',
  method: 'GET',
  path: '/v1/orders/',
  summary: 'List orders',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    product_billing_type: filter(ProductBillingType).describe('`recurring` for orders of subscriptions, `one_time` for the others.'),
    discount_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    checkout_id: filter(uuid()),
    subscription_id: filter(uuid()),
    status: filter(OrderStatus),
    created_after: momentInText().describe('Created at or after this moment.'),
    created_before: momentInText().describe('Created at or before this moment.'),
    metadata: metadataFilter(),
    ...pageQuery,
    sorting: sorting(
      'OrderSortProperty',
      ['created_at', 'status', 'invoice_number', 'amount', 'net_amount', 'customer', 'product', 'discount', 'subscription'],
      ['-created_at'],
    ),
  }),
  returns: page('OrderPage', Order),
  fails: [],
})

export const OrderExportColumn = named(
  'OrderExportColumn',
  z.enum([
    'email',
    'created_at',
    'product',
    'net_amount',
    'currency',
    'status',
    'invoice_number',
    'customer_name',
    'billing_name',
    'billing_country',
    'subtotal_amount',
    'discount_amount',
    'tax_amount',
    'total_amount',
    'refunded_amount',
    'billing_reason',
  ]),
)
export type OrderExportColumn = z.output<typeof OrderExportColumn>

export const exportOrders = operation({
  id: 'orders:export',
  method: 'GET',
  path: '/v1/orders/export',
  summary: 'Export orders',
  description:
    'All orders that match, newest first, as they are at one moment. Amounts are decimal numbers in their currency. A cell that a spreadsheet could take for a formula begins with an apostrophe. `x-total-count` says how many lines follow the header; an answer that ends early breaks the connection.',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    status: filter(OrderStatus),
    created_after: momentInText().describe('Created after this moment.'),
    created_before: momentInText().describe('Created before this moment.'),
    timezone: timezone(),
    columns: filter(OrderExportColumn).describe('Which columns, in which order; the first seven where none is named.'),
  }),
  returns: csv,
  media: 'text/csv',
  fails: [],
})

export const getOrder = operation({
  id: 'orders:get',
  method: 'GET',
  path: '/v1/orders/{id}',
  summary: 'Get an order',
  access: read,
  params: byId,
  returns: Order,
  fails: [ResourceNotFound],
})

export const createOrder = operation({
  id: 'orders:create',
  method: 'POST',
  path: '/v1/orders/',
  summary: 'Draft an order',
  description: 'For a customer who is not there. Nothing is charged, and the customer sees nothing of it, until it is made final.',
  access: write,
  body: OrderCreate,
  returns: Order,
  status: 201,
  keptDays: 30,
  fails: [NotPermitted],
})

export const finalizeOrder = operation({
  id: 'orders:finalize',
  method: 'POST',
  path: '/v1/orders/{id}/finalize',
  summary: 'Make a draft final, and charge it',
  description:
    'Charges what the draft says to a payment method that the customer has left. A declined payment leaves the draft; `pending` in the answer means that the processor takes its time, and `order.paid` or `order.updated` will tell.',
  access: write,
  params: byId,
  body: OrderFinalize.default({}),
  returns: Order,
  keptDays: 30,
  fails: [NotPermitted, PaymentFailed, PaymentActionRequired, OffSessionChargesNotEnabled, OrganizationNotReadyForPayments, ResourceNotFound, OrderNotDraft],
})

export const updateOrder = operation({
  id: 'orders:update',
  method: 'PATCH',
  path: '/v1/orders/{id}',
  summary: 'Correct the billing details of an order',
  description: changing,
  access: write,
  params: byId,
  body: OrderUpdate,
  returns: Order,
  fails: [NotPermitted, ResourceNotFound],
})

export const CustomerOrderProduct = resource('CustomerOrderProduct', { ...CustomerProduct.shape, organization: CustomerOrganization })
export const CustomerOrderSubscription = resource('CustomerOrderSubscription', subscriptionShape)

/** An order as its buyer sees it. */
export const CustomerOrder = resource('CustomerOrder', {
  ...common,
  product: CustomerOrderProduct.nullable(),
  subscription: CustomerOrderSubscription.nullable(),
})
export type CustomerOrder = z.output<typeof CustomerOrder>

export const CustomerOrderUpdate = resource('CustomerOrderUpdate', billing)

export const CustomerOrderPaymentStatus = resource('CustomerOrderPaymentStatus', {
  status: z.string().describe('Where the latest payment stands.'),
  error: z.string().nullable().describe('Why it failed.'),
})

export const CustomerOrderConfirmPayment = resource('CustomerOrderConfirmPayment', {
  confirmation_token_id: z.string().min(1).max(500).nullish().describe("A new payment method, by the token of the processor's form."),
  payment_method_id: uuid().nullish().describe('A saved payment method. Give one of the two.'),
  payment_processor: PaymentProcessor.default('stripe'),
})

export const CustomerOrderPaymentConfirmation = resource('CustomerOrderPaymentConfirmation', {
  status: z.string().describe('`succeeded`, or what has to happen yet.'),
  client_secret: z.string().nullable().describe("Hand it to the processor's form where the bank asks for more."),
  publishable_key: z
    .string()
    .nullable()
    .describe('What opens that form: of the account that charges, which need not be the one of today. Null with the test processor.'),
  error: z.string().nullable().describe('Why it failed.'),
})

export const PaymentAlreadyInProgress = failure(
  'PaymentAlreadyInProgress',
  409,
  'A payment for this order is under way. Ask for its status before you try again.',
)
export const OrderNotEligibleForRetry = failure('OrderNotEligibleForRetry', 422, 'This order does not wait for a payment that could be tried again.')
export const ManualRetryLimitExceeded = failure(
  'ManualRetryLimitExceeded',
  429,
  'This order was tried by hand too often. It is tried again by itself, or the seller can help.',
)

const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')

export const listPortalOrders = operation({
  id: 'customer_portal:orders:list',
  method: 'GET',
  path: '/v1/customer-portal/orders/',
  summary: 'List the orders',
  access: enter,
  query: z.object({
    product_id: filter(uuid()),
    product_billing_type: filter(ProductBillingType).describe('`recurring` for orders of subscriptions, `one_time` for the others.'),
    subscription_id: filter(uuid()),
    query: z.string().max(256).optional().describe('Part of the description.'),
    ...pageQuery,
    sorting: sorting('CustomerOrderSortProperty', ['created_at', 'amount', 'net_amount', 'product', 'subscription'], ['-created_at']),
  }),
  returns: page('CustomerOrderPage', CustomerOrder),
  fails: [NotPermitted],
})

export const getPortalOrder = operation({
  id: 'customer_portal:orders:get',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}',
  summary: 'Get an order',
  access: enter,
  params: byId,
  returns: CustomerOrder,
  fails: [NotPermitted, ResourceNotFound],
})

export const updatePortalOrder = operation({
  id: 'customer_portal:orders:update',
  method: 'PATCH',
  path: '/v1/customer-portal/orders/{id}',
  summary: 'Correct the billing details of an order',
  description: changing,
  access: change,
  params: byId,
  body: CustomerOrderUpdate,
  returns: CustomerOrder,
  fails: [NotPermitted, ResourceNotFound],
})

export const getPortalPaymentStatus = operation({
  id: 'customer_portal:orders:get_payment_status',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/payment-status',
  summary: 'See how the payment of an order stands',
  access: enter,
  params: byId,
  returns: CustomerOrderPaymentStatus,
  fails: [NotPermitted, ResourceNotFound],
})

export const confirmPortalPayment = operation({
  id: 'customer_portal:orders:confirm_retry_payment',
  method: 'POST',
  path: '/v1/customer-portal/orders/{id}/confirm-payment',
  summary: 'Pay an order whose payment failed',
  description: 'A declined card is an answer, not a refusal: `status` and `error` tell.',
  access: change,
  params: byId,
  body: CustomerOrderConfirmPayment,
  returns: CustomerOrderPaymentConfirmation,
  keptDays: 30,
  fails: [NotPermitted, ResourceNotFound, PaymentAlreadyInProgress, OrderNotEligibleForRetry, ManualRetryLimitExceeded],
})

export const orderCreated = webhook('order.created', Order, 'An order is created, paid or not.')
export const orderUpdated = webhook('order.updated', Order, 'An order changes its status, its billing details or its invoice.')
export const orderPaid = webhook('order.paid', Order, 'An order is paid.')
export const orderRefunded = webhook('order.refunded', Order, 'An order is refunded, whole or in part.')
