import { z } from 'zod'
import { CustomerOrganization, CustomerProduct } from '../catalog/storefront.ts'
import { PaymentProcessor } from '../customers/customers.ts'
import { failure, filter, NotPermitted, operation, page, pageQuery, portal, resource, ResourceNotFound, sorting, uuid } from '../kit/index.ts'
import { orderBilling, orderChangeNote, orderShape, ProductBillingType } from './orders.ts'
import { subscriptionShape } from './subscriptions.ts'

export const CustomerOrderProduct = resource('CustomerOrderProduct', { ...CustomerProduct.shape, organization: CustomerOrganization })
export const CustomerOrderSubscription = resource('CustomerOrderSubscription', subscriptionShape)

/** An order as its buyer sees it. */
export const CustomerOrder = resource('CustomerOrder', {
  ...orderShape,
  product: CustomerOrderProduct.nullable(),
  subscription: CustomerOrderSubscription.nullable(),
})
export type CustomerOrder = z.output<typeof CustomerOrder>

export const CustomerOrderUpdate = resource('CustomerOrderUpdate', orderBilling)

export const CustomerOrderPaymentStatus = resource('CustomerOrderPaymentStatus', {
  status: z.string().describe('The status of the latest payment.'),
  error: z.string().nullable().describe('Why the payment failed.'),
})

export const CustomerOrderConfirmPayment = resource('CustomerOrderConfirmPayment', {
  confirmation_token_id: z.string().min(1).max(500).nullish().describe("A new payment method: the token from the processor's form."),
  payment_method_id: uuid().nullish().describe('A saved payment method. Give this or `confirmation_token_id`.'),
  payment_processor: PaymentProcessor.default('stripe'),
})

export const CustomerOrderPaymentConfirmation = resource('CustomerOrderPaymentConfirmation', {
  status: z.string().describe('`succeeded`, or the next step that is required.'),
  client_secret: z.string().nullable().describe("Pass it to the processor's form if the bank wants the payer to confirm."),
  publishable_key: z
    .string()
    .nullable()
    .describe(
      'The publishable key for that form, of the account that charges this order. A newer account can be connected by now. Null with the test processor.',
    ),
  error: z.string().nullable().describe('Why the payment failed.'),
})

export const PaymentAlreadyInProgress = failure(
  'PaymentAlreadyInProgress',
  409,
  'A payment for this order is in progress. Check its status before you try again.',
)
export const OrderNotEligibleForRetry = failure('OrderNotEligibleForRetry', 422, 'This order has no failed payment that can be retried.')
export const ManualRetryLimitExceeded = failure(
  'ManualRetryLimitExceeded',
  429,
  'This order reached the limit of manual payment attempts. Wait for the next automatic attempt, or contact the seller.',
)

const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const byId = z.object({ id: uuid() })

export const listPortalOrders = operation({
  id: 'customer_portal:orders:list',
  method: 'GET',
  path: '/v1/customer-portal/orders/',
  summary: 'List the orders',
  access: enter,
  costs: 'none',
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
  costs: 'none',
  params: byId,
  returns: CustomerOrder,
  fails: [NotPermitted, ResourceNotFound],
})

export const updatePortalOrder = operation({
  id: 'customer_portal:orders:update',
  method: 'PATCH',
  path: '/v1/customer-portal/orders/{id}',
  summary: 'Correct the billing details of an order',
  description: orderChangeNote,
  access: change,
  costs: ['jobs', 'storage'],
  params: byId,
  body: CustomerOrderUpdate,
  returns: CustomerOrder,
  fails: [NotPermitted, ResourceNotFound],
})

export const getPortalPaymentStatus = operation({
  id: 'customer_portal:orders:get_payment_status',
  method: 'GET',
  path: '/v1/customer-portal/orders/{id}/payment-status',
  summary: 'Get the payment status of an order',
  access: enter,
  costs: 'none',
  params: byId,
  returns: CustomerOrderPaymentStatus,
  fails: [NotPermitted, ResourceNotFound],
})

export const confirmPortalPayment = operation({
  id: 'customer_portal:orders:confirm_retry_payment',
  method: 'POST',
  path: '/v1/customer-portal/orders/{id}/confirm-payment',
  summary: 'Pay an order whose payment failed',
  description: 'A declined card is not an error of the request: see `status` and `error` in the answer.',
  access: change,
  costs: ['mail', 'money', 'jobs'],
  params: byId,
  body: CustomerOrderConfirmPayment,
  returns: CustomerOrderPaymentConfirmation,
  keptDays: 30,
  fails: [NotPermitted, ResourceNotFound, PaymentAlreadyInProgress, OrderNotEligibleForRetry, ManualRetryLimitExceeded],
})
