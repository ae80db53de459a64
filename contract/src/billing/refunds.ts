import { z } from 'zod'
import { Metadata, metadataInput } from '../catalog/metadata.ts'
import {
  failure,
  filter,
  flagInText,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  prose,
  resource,
  sorting,
  stamps,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'
import { LedgerPosting } from './ledger.ts'

export const RefundStatus = named('RefundStatus', z.enum(['pending', 'succeeded', 'failed', 'canceled']))
export type RefundStatus = z.output<typeof RefundStatus>

export const RefundReason = named(
  'RefundReason',
  z.enum(['duplicate', 'fraudulent', 'customer_request', 'service_disruption', 'satisfaction_guarantee', 'dispute_prevention', 'other']),
)
export type RefundReason = z.output<typeof RefundReason>

export const DisputeStatus = named('DisputeStatus', z.enum(['prevented', 'early_warning', 'needs_response', 'under_review', 'lost', 'won']))
export type DisputeStatus = z.output<typeof DisputeStatus>

export const RefundDispute = resource('RefundDispute', {
  ...stamps,
  id: uuid(),
  status: DisputeStatus,
  resolved: z.boolean().describe('True if the dispute was won or lost.'),
  closed: z.boolean().describe('True if the dispute was won, lost or prevented.'),
  amount: z.int().describe('The disputed amount without tax, in minor units.'),
  tax_amount: z.int(),
  currency: z.string(),
  reason: z.string().nullable().describe('The reason that the bank gave.'),
  evidence_due_by: timestamp().nullable(),
  past_due: z.boolean().describe('True if the deadline for evidence has passed.'),
  order_id: uuid(),
  payment_id: uuid(),
})

/** A refund: money of a payment that is returned to the customer. */
export const Refund = resource('Refund', {
  ...stamps,
  id: uuid(),
  metadata: Metadata,
  status: RefundStatus,
  reason: RefundReason,
  amount: z.int().describe('Without tax, in minor units.'),
  tax_amount: z.int().describe('The tax that is refunded.'),
  currency: z.string(),
  organization_id: uuid(),
  order_id: uuid(),
  subscription_id: uuid().nullable(),
  customer_id: uuid(),
  revoke_benefits: z.boolean(),
  dispute: RefundDispute.nullable().describe('The dispute that this refund settles.'),
})
export type Refund = z.output<typeof Refund>

export const RefundCreate = resource('RefundCreate', {
  metadata: metadataInput().optional(),
  order_id: uuid(),
  reason: RefundReason.exclude(['dispute_prevention']),
  amount: z
    .int()
    .min(1)
    .max(999_999_999_999)
    .describe('Without tax, in minor units: at most the `refundable_amount` of the order. Its share of the tax is added.'),
  comment: prose(10_000).nullish().describe('An internal note; the customer does not see it.'),
  revoke_benefits: z.boolean().default(false).describe('Also revokes the benefits of the order. Not for subscriptions: cancel the subscription instead.'),
})

export const RefundsBlocked = failure('RefundsBlocked', 403, 'Refunds are blocked for this order or its organization.')
export const RefundedAlready = failure('RefundedAlready', 403, 'This order is already refunded in full.')
export const RefundDisputedPayment = failure('RefundDisputedPayment', 403, 'The payment of this order is disputed. Settle the dispute instead.')
export const RefundUnknownPayment = failure('RefundUnknownPayment', 404, 'This order was settled without a payment, so there is nothing to refund.')
export const RevokeSubscriptionBenefitsProhibited = failure(
  'RevokeSubscriptionBenefitsProhibited',
  400,
  'Benefits of a subscription end with the subscription. Refund without `revoke_benefits`, and cancel the subscription.',
)

export const listRefunds = operation({
  id: 'refunds:list',
  method: 'GET',
  path: '/v1/refunds/',
  summary: 'List refunds',
  access: merchant(['refunds:read', 'refunds:write']),
  costs: 'none',
  query: z.object({
    id: filter(uuid()),
    organization_id: filter(uuid()),
    order_id: filter(uuid()),
    subscription_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    succeeded: flagInText().optional(),
    ...pageQuery,
    sorting: sorting('RefundSortProperty', ['created_at', 'amount'], ['-created_at']),
  }),
  returns: page('RefundPage', Refund),
  fails: [],
})

export const createRefund = operation({
  id: 'refunds:create',
  method: 'POST',
  path: '/v1/refunds/',
  summary: 'Refund an order',
  description: 'In full or in part. If the processor is slow, `status` is pending and `refund.updated` follows.',
  access: merchant('refunds:write'),
  costs: ['money', 'jobs'],
  body: RefundCreate,
  returns: Refund,
  status: 201,
  keptDays: 30,
  fails: [NotPermitted, RevokeSubscriptionBenefitsProhibited, RefundsBlocked, RefundedAlready, RefundDisputedPayment, RefundUnknownPayment],
})

/** The consequences that a refund would have. */
export const RefundPreview = resource('RefundPreview', {
  order_id: uuid(),
  currency: z.string(),
  net_amount: z.int().describe('The refund without tax, in minor units.'),
  tax_amount: z.int().describe('The tax that is refunded.'),
  gross_amount: z.int().describe('What the customer gets back: `net_amount` and `tax_amount`.'),
  order_status: z.enum(['paid', 'partially_refunded', 'refunded']).describe('The status of the order after the refund.'),
  refundable_amount_left: z.int().describe('What can still be refunded afterwards, without tax.'),
  refundable_tax_amount_left: z.int(),
  credit_note: z.boolean().describe('True if a credit note is made for the invoice of the order.'),
  postings: z.array(LedgerPosting).describe('The postings of the refund. The entries of each sum to zero.'),
  events: z.array(z.string()).describe('The events that are sent, in their order.'),
  access_ends: z
    .array(
      resource('RefundEndedAccess', {
        grant_id: uuid(),
        benefit_id: uuid(),
        benefit_description: z.string(),
        customer_id: uuid(),
        member_id: uuid().nullable(),
        seat_id: uuid().nullable(),
      }),
    )
    .describe('The grants that are revoked: at most 100. Empty without `revoke_benefits`.'),
  access_ends_count: z.int().describe('The number of all grants that are revoked.'),
})
export type RefundPreview = z.output<typeof RefundPreview>

export const previewRefund = operation({
  id: 'refunds:preview',
  method: 'POST',
  path: '/v1/refunds/preview',
  summary: 'Preview a refund',
  description: 'Changes nothing, and does not call the payment processor. Fails with the same errors as the refund itself.',
  access: merchant('refunds:write'),
  costs: 'none',
  body: RefundCreate,
  returns: RefundPreview,
  fails: [NotPermitted, RevokeSubscriptionBenefitsProhibited, RefundsBlocked, RefundedAlready, RefundDisputedPayment, RefundUnknownPayment],
})

export const refundCreated = webhook('refund.created', Refund, 'A refund is created, with any status.')
export const refundUpdated = webhook('refund.updated', Refund, 'The status of a refund changes.')
