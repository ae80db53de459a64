import { z } from 'zod'
import { PaymentProcessor } from '../customers/customers.ts'
import { filter, merchant, named, operation, page, pageQuery, resource, ResourceNotFound, sorting, stamps, uuid } from '../kit/index.ts'

export const PaymentStatus = named('PaymentStatus', z.enum(['pending', 'succeeded', 'failed']))
export type PaymentStatus = z.output<typeof PaymentStatus>

/** Why a payment was tried. */
export const PaymentTrigger = named(
  'PaymentTrigger',
  z.enum(['purchase', 'subscription_cycle', 'retry_dunning', 'retry_customer', 'retry_payment_method_update', 'retry_admin']),
)
export type PaymentTrigger = z.output<typeof PaymentTrigger>

const common = {
  ...stamps,
  id: uuid(),
  processor: PaymentProcessor,
  status: PaymentStatus,
  amount: z.int().describe('Minor units.'),
  currency: z.string(),
  trigger: PaymentTrigger.nullable(),
  decline_reason: z.string().nullable().describe('The code that the processor or the bank gave.'),
  decline_message: z.string().nullable().describe('The same for people to read.'),
  organization_id: uuid(),
  checkout_id: uuid().nullable(),
  order_id: uuid().nullable(),
  processor_metadata: z.record(z.string(), z.unknown()),
}

/** One attempt to take money, whatever came of it. */
export const Payment = named(
  'Payment',
  z.union([
    resource('CardPayment', {
      ...common,
      method: z.literal('card'),
      method_metadata: resource('CardPaymentMetadata', { brand: z.string(), last4: z.string() }),
    }),
    resource('GenericPayment', { ...common, method: z.string() }),
  ]),
)
export type Payment = z.output<typeof Payment>

const read = merchant('payments:read')

export const listPayments = operation({
  id: 'payments:list',
  method: 'GET',
  path: '/v1/payments/',
  summary: 'List payments',
  description: 'Every attempt, also those that failed.',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    checkout_id: filter(uuid()),
    order_id: filter(uuid()),
    customer_id: filter(uuid()),
    status: filter(PaymentStatus),
    method: filter(z.string().max(100)).describe('Such as `card`.'),
    customer_email: filter(z.string().max(320)).describe('Exactly this address, in any case.'),
    ...pageQuery,
    sorting: sorting('PaymentSortProperty', ['created_at', 'status', 'amount', 'method'], ['-created_at']),
  }),
  returns: page('PaymentPage', Payment),
  fails: [],
})

export const getPayment = operation({
  id: 'payments:get',
  method: 'GET',
  path: '/v1/payments/{id}',
  summary: 'Get a payment',
  access: read,
  params: z.object({ id: uuid() }),
  returns: Payment,
  fails: [ResourceNotFound],
})
