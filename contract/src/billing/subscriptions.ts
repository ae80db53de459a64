import { z } from 'zod'
import { CustomFieldData } from '../catalog/custom-fields.ts'
import { DiscountBase } from '../catalog/discounts.ts'
import { Metadata, metadataFilter } from '../catalog/metadata.ts'
import { Meter } from '../catalog/meters.ts'
import { Product, RecurringInterval } from '../catalog/products.ts'
import { CustomerTeam, CustomerType } from '../customers/customers.ts'
import {
  filter,
  flagInText,
  merchant,
  momentInText,
  named,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'

export const SubscriptionStatus = named(
  'SubscriptionStatus',
  z.enum(['incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused']),
)
export type SubscriptionStatus = z.output<typeof SubscriptionStatus>

export const CustomerCancellationReason = named(
  'CustomerCancellationReason',
  z.enum(['customer_service', 'low_quality', 'missing_features', 'switched_service', 'too_complex', 'too_expensive', 'unused', 'other']),
)
export type CustomerCancellationReason = z.output<typeof CustomerCancellationReason>

/** A subscription without what hangs on it: the part that orders, and whoever bought it, see. */
export const subscriptionShape = {
  ...stamps,
  id: uuid(),
  amount: z.int().describe('What a period costs before discount and tax, in minor units; usage is not part of it.'),
  currency: z.string(),
  recurring_interval: RecurringInterval,
  recurring_interval_count: z.int().describe('How many intervals make a period.'),
  status: SubscriptionStatus,
  current_period_start: timestamp(),
  current_period_end: timestamp().describe('When the period ends and, unless it was canceled, the next one begins.'),
  current_meter_period_start: timestamp().nullable().describe('Set where usage is billed in a rhythm of its own.'),
  current_meter_period_end: timestamp().nullable(),
  trial_start: timestamp().nullable(),
  trial_end: timestamp().nullable(),
  cancel_at_period_end: z.boolean().describe('It ends with the period.'),
  canceled_at: timestamp().nullable().describe('When the cancellation was asked for.'),
  started_at: timestamp().nullable(),
  ends_at: timestamp().nullable().describe('When a canceled subscription ends.'),
  ended_at: timestamp().nullable().describe('When it ended.'),
  past_due_at: timestamp().nullable().describe('Since when a payment is owed.'),
  pause_at_period_end: z.boolean().describe('It pauses with the end of the period.'),
  paused_at: timestamp().nullable(),
  resumes_at: timestamp().nullable().describe('When a pause ends by itself.'),
  customer_id: uuid(),
  product_id: uuid(),
  discount_id: uuid().nullable(),
  checkout_id: uuid().nullable(),
  seats: z.int().nullable().describe('Seats bought; null where the price is not by seat.'),
  customer_cancellation_reason: CustomerCancellationReason.nullable(),
  customer_cancellation_comment: z.string().nullable(),
}

export const SubscriptionCustomer = resource('SubscriptionCustomer', { ...CustomerTeam.shape, type: CustomerType })

export const SubscriptionMeter = resource('SubscriptionMeter', {
  ...stamps,
  id: uuid(),
  consumed_units: z.number().describe('Used in this period.'),
  credited_units: z.int().describe('Given in this period.'),
  amount: z.int().describe('What would be charged if the period ended now, in minor units.'),
  meter_id: uuid(),
  meter: Meter,
})

export const PendingSubscriptionUpdate = resource('PendingSubscriptionUpdate', {
  ...stamps,
  id: uuid(),
  applies_at: timestamp(),
  product_id: uuid().nullable().describe('The product to come; null where it stays.'),
  seats: z.int().nullable().describe('The number of seats to come; null where it stays.'),
})
export type PendingSubscriptionUpdate = z.output<typeof PendingSubscriptionUpdate>

/** What a customer pays for again and again. */
export const Subscription = resource('Subscription', {
  ...subscriptionShape,
  metadata: Metadata,
  custom_field_data: CustomFieldData,
  customer: SubscriptionCustomer,
  product: Product,
  discount: DiscountBase.nullable(),
  prices: Product.shape.prices.describe('The prices it was bought at, also where they are archived by now.'),
  meters: z.array(SubscriptionMeter),
  pending_update: PendingSubscriptionUpdate.nullable().describe('A change that waits for the next period.'),
})
export type Subscription = z.output<typeof Subscription>

const read = merchant(['subscriptions:read', 'subscriptions:write'])
const byId = z.object({ id: uuid() })

export const listSubscriptions = operation({
  id: 'subscriptions:list',
  method: 'GET',
  path: '/v1/subscriptions/',
  summary: 'List subscriptions',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    discount_id: filter(uuid()),
    active: flagInText().optional().meta({ deprecated: true, description: 'Active or trialing, or neither. Use `status`.' }),
    status: filter(SubscriptionStatus),
    cancel_at_period_end: flagInText().optional(),
    customer_cancellation_reason: filter(CustomerCancellationReason),
    canceled_at_after: momentInText().describe('Canceled at or after this moment.'),
    canceled_at_before: momentInText().describe('Canceled at or before this moment.'),
    started_after: momentInText().describe('Started at or after this moment.'),
    started_before: momentInText().describe('Started at or before this moment.'),
    metadata: metadataFilter(),
    ...pageQuery,
    sorting: sorting(
      'SubscriptionSortProperty',
      ['customer', 'status', 'started_at', 'current_period_end', 'ended_at', 'ends_at', 'amount', 'product', 'discount'],
      ['-started_at'],
    ),
  }),
  returns: page('SubscriptionPage', Subscription),
  fails: [],
})

export const getSubscription = operation({
  id: 'subscriptions:get',
  method: 'GET',
  path: '/v1/subscriptions/{id}',
  summary: 'Get a subscription',
  access: read,
  params: byId,
  returns: Subscription,
  fails: [ResourceNotFound],
})

export const subscriptionCreated = webhook('subscription.created', Subscription, 'A subscription is created, with or without a trial.')
export const subscriptionActive = webhook('subscription.active', Subscription, 'A subscription starts, or is paid again after it was past due.')
