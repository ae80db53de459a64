import { z } from 'zod'
import { LedgerEntry, LedgerFactKind } from '../billing/ledger.ts'
import { PaymentStatus, PaymentTrigger } from '../billing/payments.ts'
import { DisputeStatus, RefundReason, RefundStatus } from '../billing/refunds.ts'
import { merchant, named, operation, pageSize, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'
import { AuditActor } from '../organizations/audit-log.ts'
import { WebhookEventType } from '../webhooks/webhooks.ts'

const common = {
  id: uuid(),
  at: timestamp().describe('When it occurred for the customer. With a test clock, this differs from `recorded_at`.'),
  recorded_at: timestamp().describe('When it was recorded. The timeline is sorted by this time.'),
}
const minor = () => z.int().describe('Minor units.')

export const TimelinePaymentAttempt = resource('TimelinePaymentAttempt', {
  ...common,
  kind: z.literal('payment_attempt'),
  payment_id: uuid(),
  status: PaymentStatus,
  amount: minor(),
  currency: z.string(),
  method: z.string(),
  trigger: PaymentTrigger.nullable(),
  decline_reason: z.string().nullable(),
})

export const TimelinePosting = resource('TimelinePosting', {
  ...common,
  kind: z.literal('posting'),
  fact: LedgerFactKind,
  reference_id: uuid().describe('The order, payment, refund or dispute that was posted.'),
  currency: z.string(),
  entries: z.array(LedgerEntry).describe('They sum to zero.'),
})

export const TimelineRefund = resource('TimelineRefund', {
  ...common,
  kind: z.literal('refund'),
  refund_id: uuid(),
  status: RefundStatus,
  reason: RefundReason,
  amount: z.int().describe('Without tax, in minor units.'),
  tax_amount: minor(),
  currency: z.string(),
})

export const TimelineDispute = resource('TimelineDispute', {
  ...common,
  kind: z.literal('dispute'),
  dispute_id: uuid(),
  status: DisputeStatus,
  amount: z.int().describe('Without tax, in minor units.'),
  tax_amount: minor(),
  currency: z.string(),
})

export const TimelineEvent = resource('TimelineEvent', {
  ...common,
  kind: z.literal('event'),
  event_id: uuid(),
  sequence: z.int().nullable().describe('Null until the event has its number.'),
  type: WebhookEventType,
  resource_id: uuid(),
  customer_id: uuid().nullable(),
})

export const TimelineDelivery = resource('TimelineDelivery', {
  ...common,
  kind: z.literal('delivery'),
  delivery_id: uuid().describe('The id of the attempt.'),
  event_id: uuid(),
  endpoint_id: uuid(),
  type: WebhookEventType,
  succeeded: z.boolean(),
  http_code: z.int().nullable(),
  duration_ms: z.int(),
})

export const TimelineMail = resource('TimelineMail', {
  ...common,
  kind: z.literal('mail'),
  mail: z.string().describe('The kind of the mail, such as `receipt`.'),
  address: z.string(),
  report: z.enum(['permanent', 'transient', 'complaint']).nullable().describe('What the mail server of the recipient reported; null if nothing.'),
})

export const TimelineGrant = resource('TimelineGrant', {
  ...common,
  kind: z.literal('grant'),
  grant_id: uuid(),
  benefit_id: uuid(),
  benefit_type: z.string(),
  benefit_description: z.string(),
  customer_id: uuid().describe('The customer who pays.'),
  member_id: uuid().nullable(),
  seat_id: uuid().nullable(),
  state: z.enum(['pending', 'granted', 'failed', 'revoked']).describe('The state now.'),
  revoked_at: timestamp().nullable(),
})

export const TimelineAudit = resource('TimelineAudit', {
  ...common,
  kind: z.literal('audit'),
  sequence: z.int().nullable().describe('The number in the audit log. Null until the entry has its number.'),
  operation: z.string(),
  request_id: uuid(),
  actor: AuditActor,
  changed: z.array(z.string()).describe('The changed fields of the order.'),
})

export const OrderTimelineEntry = named(
  'OrderTimelineEntry',
  z.discriminatedUnion('kind', [
    TimelinePaymentAttempt,
    TimelinePosting,
    TimelineRefund,
    TimelineDispute,
    TimelineEvent,
    TimelineDelivery,
    TimelineMail,
    TimelineGrant,
    TimelineAudit,
  ]),
)
export type OrderTimelineEntry = z.output<typeof OrderTimelineEntry>

export const OrderTimeline = resource('OrderTimeline', {
  items: z.array(OrderTimelineEntry),
  left_out: z
    .array(z.enum(['payment_attempt', 'posting', 'refund', 'dispute', 'event', 'delivery', 'mail', 'grant', 'audit']))
    .describe('The kinds of entries that the role or the token of the caller may not read. They are not in `items`.'),
  next_cursor: z.string().nullable().describe('Send it as `cursor` for the next page; null at the end.'),
})
export type OrderTimeline = z.output<typeof OrderTimeline>

export const getOrderTimeline = operation({
  id: 'orders:timeline',
  method: 'GET',
  path: '/v1/orders/{id}/timeline',
  summary: 'Get the timeline of an order',
  description:
    'Payment attempts, ledger postings, refunds, disputes, events, deliveries, mails, grants and changes of an order in one list, oldest first. Mails are listed for 30 days. Of an order with more than 200 grants, the first 200 are listed.',
  access: merchant('orders:read'),
  costs: 'none',
  params: z.object({ id: uuid() }),
  query: z.object({ cursor: z.string().max(200).optional().describe('Continues after an earlier answer.'), limit: pageSize(50) }),
  returns: OrderTimeline,
  fails: [ResourceNotFound],
})
