import { z } from 'zod'
import { PaymentProcessor } from '../customers/customers.ts'
import { filter, merchant, named, operation, page, pageQuery, resource, ResourceNotFound, sorting, stamps, uuid } from '../kit/index.ts'

export const PaymentStatus = named('PaymentStatus', z.enum(['pending', 'succeeded', 'failed']))
export type PaymentStatus = z.output<typeof PaymentStatus>

/** The reason for a payment attempt. */
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
  decline_reason: z.string().nullable().describe('The decline code of the processor or the bank.'),
  decline_message: z.string().nullable().describe('The decline reason as readable text.'),
  organization_id: uuid(),
  checkout_id: uuid().nullable(),
  order_id: uuid().nullable(),
  processor_metadata: z.record(z.string(), z.unknown()),
}

/** One payment attempt, successful or not. */
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
  description: 'Every payment attempt, including failed ones.',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    checkout_id: filter(uuid()),
    order_id: filter(uuid()),
    customer_id: filter(uuid()),
    status: filter(PaymentStatus),
    method: filter(z.string().max(100)).describe('For example `card`.'),
    customer_email: filter(z.string().max(320)).describe('The exact address, case-insensitive.'),
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
  costs: 'none',
  params: z.object({ id: uuid() }),
  returns: Payment,
  fails: [ResourceNotFound],
})
