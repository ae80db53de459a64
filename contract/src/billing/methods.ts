import { z } from 'zod'
import { CustomerPaymentMethod } from '../customers/customers.ts'
import { failure, landing, named, NotPermitted, operation, portal, resource, ResourceNotFound, uuid } from '../kit/index.ts'

export const CustomerPaymentMethodCreateResponse = named(
  'CustomerPaymentMethodCreateResponse',
  z.discriminatedUnion('status', [
    resource('CustomerPaymentMethodCreateSucceededResponse', { status: z.literal('succeeded'), payment_method: CustomerPaymentMethod }),
    resource('CustomerPaymentMethodCreateRequiresActionResponse', {
      status: z.literal('requires_action'),
      client_secret: z.string().describe("For the payer's own page, on which their bank asks them to confirm."),
    }),
  ]),
)
export type CustomerPaymentMethodCreateResponse = z.output<typeof CustomerPaymentMethodCreateResponse>

export const CustomerPaymentMethodCreate = resource('CustomerPaymentMethodCreate', {
  confirmation_token_id: z.string().min(1).max(255).describe("The processor's token for what was entered on the page."),
  set_default: z.boolean().describe('Pay with it from now on. What is owed is tried with it at once.'),
  return_url: landing().describe('The page on which the payer goes on after their bank has asked them.'),
})

export const CustomerPaymentMethodConfirm = resource('CustomerPaymentMethodConfirm', {
  setup_intent_id: z.string().min(1).max(255).describe('What the processor calls it: the part of the client secret before `_secret_`.'),
  set_default: z.boolean(),
})

export const PaymentMethodSetupFailed = failure('PaymentMethodSetupFailed', 400, 'This payment method could not be kept. Try another one.')
export const CustomerNotReady = failure('CustomerNotReady', 403, 'This customer has begun nothing that could be confirmed: add the payment method first.')
export const PaymentMethodInUseByActiveSubscription = failure(
  'PaymentMethodInUseByActiveSubscription',
  400,
  'A subscription is paid with this, and there is nothing else to pay it with. Add another payment method first.',
)

export const PaymentForm = resource('PaymentForm', {
  publishable_key: z
    .string()
    .nullable()
    .describe("Opens the processor's own form; no secret. Null where there is none: the sandbox takes the tokens of its test cards."),
  currency: z.string().describe('The one that the seller prefers.'),
})

const write = portal('customer_portal:write')

export const getPortalPaymentForm = operation({
  id: 'customer_portal:customers:get_payment_form',
  method: 'GET',
  path: '/v1/customer-portal/customers/me/payment-methods/form',
  summary: 'Get what a payment method is entered with',
  description: "What a page needs to show the processor's own form, which makes the token that adding a payment method asks for.",
  access: portal(['customer_portal:read', 'customer_portal:write']),
  returns: PaymentForm,
  fails: [NotPermitted],
})

export const addPortalPaymentMethod = operation({
  id: 'customer_portal:customers:add_payment_method',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/payment-methods',
  summary: 'Add a payment method',
  description:
    'Where the bank wants to see the payer, the answer is `requires_action`: finish it with the client secret, then confirm. The first one is the default.',
  access: write,
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
  description: 'After the bank has asked the payer. It can be asked again at any time, and answers how it stands.',
  access: write,
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
  description: 'What was paid with it is paid with the default from now on, or with another one where this was the default.',
  access: write,
  params: z.object({ id: uuid() }),
  fails: [NotPermitted, ResourceNotFound, PaymentMethodInUseByActiveSubscription],
})
