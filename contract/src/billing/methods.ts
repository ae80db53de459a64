import { z } from 'zod'
import { CustomerPaymentMethod } from '../customers/customers.ts'
import { failure, landing, named, NotPermitted, operation, portal, resource, ResourceNotFound, uuid } from '../kit/index.ts'

export const CustomerPaymentMethodCreateResponse = named(
  'CustomerPaymentMethodCreateResponse',
  z.discriminatedUnion('status', [
    resource('CustomerPaymentMethodCreateSucceededResponse', { status: z.literal('succeeded'), payment_method: CustomerPaymentMethod }),
    resource('CustomerPaymentMethodCreateRequiresActionResponse', {
      status: z.literal('requires_action'),
      client_secret: z.string().describe('For the page on which the payer confirms with their bank.'),
    }),
  ]),
)
export type CustomerPaymentMethodCreateResponse = z.output<typeof CustomerPaymentMethodCreateResponse>

export const CustomerPaymentMethodCreate = resource('CustomerPaymentMethodCreate', {
  confirmation_token_id: z.string().min(1).max(255).describe("The token that the processor's form created."),
  set_default: z.boolean().describe('Makes this the default payment method. Overdue orders are charged to it at once.'),
  return_url: landing().describe('The page to which the payer returns after confirming with their bank.'),
})

export const CustomerPaymentMethodConfirm = resource('CustomerPaymentMethodConfirm', {
  setup_intent_id: z.string().min(1).max(255).describe("The processor's id of the setup: the part of the client secret before `_secret_`."),
  set_default: z.boolean(),
})

export const PaymentMethodSetupFailed = failure('PaymentMethodSetupFailed', 400, 'This payment method could not be saved. Try another one.')
export const CustomerNotReady = failure('CustomerNotReady', 403, 'There is no payment method to confirm for this customer. Add the payment method first.')
export const PaymentMethodInUseByActiveSubscription = failure(
  'PaymentMethodInUseByActiveSubscription',
  400,
  'A subscription uses this payment method, and the customer has no other one. Add another payment method first.',
)

export const PaymentForm = resource('PaymentForm', {
  publishable_key: z
    .string()
    .nullable()
    .describe("Loads the processor's payment form; not a secret. Null in the sandbox, which accepts the tokens of its test cards."),
  currency: z.string().describe('The default currency of the seller.'),
})

const write = portal('customer_portal:write')

export const getPortalPaymentForm = operation({
  id: 'customer_portal:customers:get_payment_form',
  method: 'GET',
  path: '/v1/customer-portal/customers/me/payment-methods/form',
  summary: 'Get the payment form settings',
  description: "The data that a page needs to show the processor's payment form. The form creates the token for adding a payment method.",
  access: portal(['customer_portal:read', 'customer_portal:write']),
  costs: 'none',
  returns: PaymentForm,
  fails: [NotPermitted],
})

export const addPortalPaymentMethod = operation({
  id: 'customer_portal:customers:add_payment_method',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/payment-methods',
  summary: 'Add a payment method',
  description:
    'If the bank wants the payer to confirm, the answer is `requires_action`: confirm with the client secret on your page, then call the confirm operation. The first payment method becomes the default.',
  access: write,
  costs: ['money', 'jobs'],
  body: CustomerPaymentMethodCreate,
  returns: CustomerPaymentMethodCreateResponse,
  status: 201,
  fails: [NotPermitted, PaymentMethodSetupFailed],
})

export const confirmPortalPaymentMethod = operation({
  id: 'customer_portal:customers:confirm_payment_method',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/payment-methods/confirm',
  summary: 'Confirm a payment method',
  description: 'Call this after the payer has confirmed with their bank. Idempotent: later calls return the current status.',
  access: write,
  costs: ['money', 'jobs'],
  body: CustomerPaymentMethodConfirm,
  returns: CustomerPaymentMethodCreateResponse,
  status: 201,
  fails: [NotPermitted, CustomerNotReady, PaymentMethodSetupFailed],
})

export const deletePortalPaymentMethod = operation({
  id: 'customer_portal:customers:delete_payment_method',
  method: 'DELETE',
  path: '/v1/customer-portal/customers/me/payment-methods/{id}',
  summary: 'Delete a payment method',
  description: 'Subscriptions that used it switch to the default payment method, or to another one if this was the default.',
  access: write,
  costs: 'jobs',
  params: z.object({ id: uuid() }),
  fails: [NotPermitted, ResourceNotFound, PaymentMethodInUseByActiveSubscription],
})
