import { z } from 'zod'
import { CustomFieldData, customFieldDataInput } from '../catalog/custom-fields.ts'
import { DiscountBase, DiscountProduct } from '../catalog/discounts.ts'
import { Metadata, metadataFilter, metadataInput } from '../catalog/metadata.ts'
import { Address, AddressInput } from '../customers/addresses.ts'
import { CustomerTeam, CustomerType, maybe, personName } from '../customers/customers.ts'
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
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  timestamp,
  timezone,
  uuid,
  webhook,
} from '../kit/index.ts'
import { PresentmentCurrency } from '../currencies.ts'
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
  tax_amount: minor('The tax of this line.'),
  proration: z.boolean().describe('True if the line covers part of a period because of a change within the period.'),
  product_price_id: uuid().nullable(),
})
export type OrderItem = z.output<typeof OrderItem>

/** Fields that the organization's and the customer's view of an order share. */
export const orderShape = {
  ...stamps,
  id: uuid(),
  status: OrderStatus,
  paid: z.boolean().describe('True if the order was paid, also after a refund.'),
  subtotal_amount: minor('The sum of the lines. All amounts are in minor units.'),
  discount_amount: minor('The discount.'),
  net_amount: minor('After discount, without tax.'),
  tax_amount: minor('Sales tax or VAT.'),
  total_amount: minor('After discount, with tax.'),
  applied_balance_amount: minor("The amount of the customer's balance that is applied: negative if credit pays, positive if debt is collected."),
  due_amount: minor('The amount to pay after the applied balance, at least 0. Payment does not change it. Read `status` or `paid` to see whether it was paid.'),
  refunded_amount: minor('Refunded so far, without tax.'),
  refunded_tax_amount: minor('Tax refunded so far.'),
  currency: z.string(),
  billing_reason: OrderBillingReason,
  billing_name: z.string().nullable(),
  billing_address: Address.nullable(),
  invoice_number: z
    .string()
    .nullable()
    .describe('Null until a draft is finalized. If `order_settings.invoice_number_at` of the organization is `payment`: null until the order is paid.'),
  is_invoice_generated: z.boolean(),
  receipt_number: z.string().nullable(),
  seats: z.int().nullable().describe('Seats bought; null if the price is not per seat.'),
  customer_id: uuid(),
  product_id: uuid().nullable(),
  discount_id: uuid().nullable(),
  subscription_id: uuid().nullable(),
  checkout_id: uuid().nullable(),
  next_payment_attempt_at: timestamp().nullable().describe('When the payment of an unpaid order is retried.'),
  items: z.array(OrderItem),
  description: z.string(),
  refundable_amount: minor('The amount that can still be refunded, without tax.'),
  refundable_tax_amount: minor('The tax that can still be refunded.'),
}

export const OrderCustomer = resource('OrderCustomer', { ...CustomerTeam.shape, type: CustomerType })
export const OrderProduct = resource('OrderProduct', DiscountProduct.shape)
export const OrderSubscription = resource('OrderSubscription', { ...subscriptionShape, metadata: Metadata })

/** An amount that a customer owes or has paid: a one-time purchase, or one period of a subscription. */
export const Order = resource('Order', {
  ...orderShape,
  metadata: Metadata,
  custom_field_data: CustomFieldData,
  platform_fee_amount: minor('The fee of the platform.'),
  platform_fee_currency: z.string().nullable(),
  customer: OrderCustomer,
  product: OrderProduct.nullable(),
  discount: DiscountBase.nullable(),
  subscription: OrderSubscription.nullable(),
})
export type Order = z.output<typeof Order>

export const orderBilling = { billing_name: personName(), billing_address: AddressInput.nullish() }
export const OrderUpdate = resource('OrderUpdate', orderBilling)

export const OrderCreate = resource('OrderCreate', {
  customer_id: uuid(),
  product_id: uuid().describe('A one-time product with a fixed price.'),
  currency: PresentmentCurrency.nullish().describe('Defaults to the currency of the organization. The product must have a price in it.'),
  amount: z.int().min(0).max(2_100_000_000).nullish().describe('Replaces the price, in minor units: 0, or an amount within the limits of the processor.'),
  description: maybe(500).describe('Defaults to the name of the product.'),
  organization_id: uuid().nullish(),
  metadata: metadataInput().optional(),
  custom_field_data: customFieldDataInput().optional(),
})
export type OrderCreate = z.output<typeof OrderCreate>

export const OrderFinalize = resource('OrderFinalize', {
  payment_method_id: uuid().nullish().describe("A saved payment method of the customer. Defaults to the customer's default."),
})
export type OrderFinalize = z.output<typeof OrderFinalize>

export const PaymentActionRequired = failure(
  'PaymentActionRequired',
  402,
  'The bank wants the customer to confirm this payment, and the customer is not present. The order stays a draft.',
)
export const OffSessionChargesNotEnabled = failure(
  'OffSessionChargesNotEnabled',
  403,
  'This organization may not charge customers who are not present. The operator of this deployment can allow it.',
)
export const OrganizationNotReadyForPayments = failure('OrganizationNotReadyForPayments', 403, 'This organization cannot take payments at the moment.')
export const OrderNotDraft = failure('OrderNotDraft', 412, 'This order is not a draft. Only a draft can be finalized.')

const read = merchant('orders:read')
const write = merchant('orders:write')
const byId = z.object({ id: uuid() })
export const orderChangeNote = 'Absent fields stay unchanged. Country and state cannot change, because the tax was computed from them.'

export const listOrders = operation({
  id: 'orders:list',
  method: 'GET',
  path: '/v1/orders/',
  summary: 'List orders',
  access: read,
  costs: 'none',
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
    'All orders that match, newest first, from one snapshot. Amounts are decimal numbers in their currency. A cell that a spreadsheet could take for a formula begins with an apostrophe. `x-total-count` is the number of lines after the header; an incomplete export breaks the connection.',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    status: filter(OrderStatus),
    created_after: momentInText().describe('Created after this moment.'),
    created_before: momentInText().describe('Created before this moment.'),
    timezone: timezone(),
    columns: filter(OrderExportColumn).describe('The columns in their order. Defaults to the first seven.'),
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
  costs: 'none',
  params: byId,
  returns: Order,
  fails: [ResourceNotFound],
})

export const createOrder = operation({
  id: 'orders:create',
  method: 'POST',
  path: '/v1/orders/',
  summary: 'Create a draft order',
  description: 'For a customer who is not present. Nothing is charged, and the customer does not see the order, until it is finalized.',
  access: write,
  costs: 'none',
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
  summary: 'Finalize and charge a draft order',
  description:
    'Charges the draft to a saved payment method of the customer. A declined payment leaves the order a draft. If the answer says `pending`, the processor is still working, and `order.paid` or `order.updated` follows.',
  access: write,
  costs: ['mail', 'money', 'jobs'],
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
  description: orderChangeNote,
  access: write,
  costs: ['jobs', 'storage'],
  params: byId,
  body: OrderUpdate,
  returns: Order,
  fails: [NotPermitted, ResourceNotFound],
})

export const orderCreated = webhook('order.created', Order, 'An order is created, paid or unpaid.')
export const orderUpdated = webhook('order.updated', Order, 'The status, the billing details or the invoice of an order changes.')
export const orderPaid = webhook('order.paid', Order, 'An order is paid.')
export const orderRefunded = webhook('order.refunded', Order, 'An order is refunded, in full or in part.')
