import { z } from 'zod'
import { CustomFieldData } from '../catalog/custom-fields.ts'
import { DiscountBase } from '../catalog/discounts.ts'
import { Metadata, metadataFilter, metadataInput } from '../catalog/metadata.ts'
import { Meter } from '../catalog/meters.ts'
import { Product, RecurringInterval } from '../catalog/products.ts'
import { CustomerTeam, CustomerType } from '../customers/customers.ts'
import {
  csv,
  failure,
  filter,
  flagInText,
  merchant,
  momentInText,
  named,
  NotPermitted,
  oneOf,
  operation,
  page,
  pageQuery,
  prose,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  strictResource,
  timestamp,
  timezone,
  uuid,
  webhook,
} from '../kit/index.ts'
import { SubscriptionProrationBehavior } from '../organizations/organizations.ts'

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

/** The fields of a subscription without related records. Orders and the customer portal show this part. */
export const subscriptionShape = {
  ...stamps,
  id: uuid(),
  amount: z.int().describe('The price of a period before discount and tax, in minor units, without usage.'),
  currency: z.string(),
  recurring_interval: RecurringInterval,
  recurring_interval_count: z.int().describe('The number of intervals in a period.'),
  status: SubscriptionStatus,
  current_period_start: timestamp(),
  current_period_end: timestamp().describe('When the period ends. The next one begins then, unless the subscription was canceled.'),
  current_meter_period_start: timestamp().nullable().describe('Always null: usage is billed with the subscription.'),
  current_meter_period_end: timestamp().nullable(),
  trial_start: timestamp().nullable(),
  trial_end: timestamp().nullable(),
  cancel_at_period_end: z.boolean().describe('True if the subscription ends with the period.'),
  canceled_at: timestamp().nullable().describe('When the cancellation was requested.'),
  started_at: timestamp().nullable(),
  ends_at: timestamp().nullable().describe('When a canceled subscription ends.'),
  ended_at: timestamp().nullable().describe('When the subscription ended.'),
  past_due_at: timestamp().nullable().describe('Since when a payment is overdue.'),
  pause_at_period_end: z.boolean().describe('True if the subscription pauses at the end of the period.'),
  paused_at: timestamp().nullable(),
  resumes_at: timestamp().nullable().describe('When a pause ends automatically.'),
  customer_id: uuid(),
  product_id: uuid(),
  discount_id: uuid().nullable(),
  checkout_id: uuid().nullable(),
  seats: z.int().nullable().describe('Seats bought; null if the price is not per seat.'),
  customer_cancellation_reason: CustomerCancellationReason.nullable(),
  customer_cancellation_comment: z.string().nullable(),
}

export const SubscriptionCustomer = resource('SubscriptionCustomer', { ...CustomerTeam.shape, type: CustomerType })

export const SubscriptionMeter = resource('SubscriptionMeter', {
  ...stamps,
  id: uuid(),
  consumed_units: z.number().describe('Units used in this period, up to the end of the subscription.'),
  credited_units: z.int().describe('Units credited in this period.'),
  amount: z
    .int()
    .describe(
      'The amount that would be charged if the period ended now, in minor units. 0 during a trial, and if another subscription of the customer is billed for the meter.',
    ),
  meter_id: uuid(),
  meter: Meter,
})

export const PendingSubscriptionUpdate = resource('PendingSubscriptionUpdate', {
  ...stamps,
  id: uuid(),
  applies_at: timestamp(),
  product_id: uuid().nullable().describe('The new product; null if it does not change.'),
  seats: z.int().nullable().describe('The new number of seats; null if it does not change.'),
})
export type PendingSubscriptionUpdate = z.output<typeof PendingSubscriptionUpdate>

/** A recurring purchase of a customer. */
export const Subscription = resource('Subscription', {
  ...subscriptionShape,
  metadata: Metadata,
  custom_field_data: CustomFieldData,
  customer: SubscriptionCustomer,
  product: Product,
  discount: DiscountBase.nullable(),
  prices: Product.shape.prices.describe('The prices at the time of purchase, including archived ones.'),
  meters: z.array(SubscriptionMeter),
  pending_update: PendingSubscriptionUpdate.nullable().describe('A change that takes effect with the next period.'),
})
export type Subscription = z.output<typeof Subscription>

const creating = { metadata: metadataInput().optional(), product_id: uuid().describe('A recurring product that is free.') }

export const SubscriptionCreate = oneOf(resource('SubscriptionCreateCustomer', { ...creating, customer_id: uuid() }), {
  external_customer_id: resource('SubscriptionCreateExternalCustomer', {
    ...creating,
    external_customer_id: z.string().min(1).max(256).describe('Your own identifier of the customer.'),
  }),
})
export type SubscriptionCreate = z.output<typeof SubscriptionCreate>

/** A number of seats to buy: at least one, at most what the database column can store. */
export const seatsInput = () => z.int().min(1).max(2_147_483_647)
export const cancellationComment = () => prose(10_000).nullish()
const prorated = { proration_behavior: SubscriptionProrationBehavior.nullish().describe('Defaults to the setting of the organization.') }
const farewell = {
  customer_cancellation_reason: CustomerCancellationReason.nullish(),
  customer_cancellation_comment: cancellationComment(),
}

/** The fields that schedule a pause, for merchants and for the portal. */
export const pausing = {
  pause_at_period_end: z.boolean().describe('False withdraws a pause that has not begun.'),
  resumes_at: timestamp().nullish().describe('When the pause ends automatically. Must be after the end of the period.'),
}
export const resuming = { resume: z.literal(true).describe('Starts and charges a new period now.') }
export const clearing = { pending_update: z.null().describe('Withdraws the change that waits for the next period.') }

/** A change of a subscription by the merchant. Each request makes one kind of change. */
export const SubscriptionUpdate = named(
  'SubscriptionUpdate',
  oneOf(
    strictResource('SubscriptionUpdateBase', {
      product_id: uuid().nullish(),
      ...prorated,
      discount_id: uuid().nullish().describe('Takes effect with the next period. Null removes the discount.'),
      trial_end: z
        .union([timestamp(), z.literal('now')])
        .nullish()
        .describe('A time in the future, or `now` to end the trial.'),
      metadata: metadataInput().optional(),
    }),
    {
      seats: strictResource('SubscriptionUpdateSeats', { seats: seatsInput(), ...prorated }),
      current_billing_period_end: strictResource('SubscriptionUpdateBillingPeriod', {
        current_billing_period_end: timestamp().describe(
          'A time in the future. The current period gets shorter or longer, and later periods start from there.',
        ),
      }),
      cancel_at_period_end: strictResource('SubscriptionCancel', {
        cancel_at_period_end: z.boolean().describe('False withdraws a cancellation.'),
        ...farewell,
      }),
      revoke: strictResource('SubscriptionRevoke', { revoke: z.literal(true).describe('Ends the subscription at once.'), ...farewell }),
      pause_at_period_end: strictResource('SubscriptionPause', pausing),
      resume: strictResource('SubscriptionResume', resuming),
      pending_update: strictResource('SubscriptionUpdateClear', clearing),
    },
  ),
)
export type SubscriptionUpdate = z.output<typeof SubscriptionUpdate>

export const AlreadyCanceledSubscription = failure('AlreadyCanceledSubscription', 403, 'This subscription is already canceled, or already set to end.')
export const InactiveSubscription = failure('InactiveSubscription', 403, 'This subscription is not active.')
export const NotBillableSubscription = failure(
  'NotBillableSubscription',
  403,
  'This subscription is paused or has ended. The change needs a subscription that is being billed.',
)
export const CannotPauseSubscription = failure(
  'CannotPauseSubscription',
  409,
  'This subscription cannot be paused. It must be active, not canceled, and without a scheduled pause.',
)
export const NoScheduledPause = failure('NoScheduledPause', 409, 'No pause is scheduled for this subscription.')
export const NotPausedSubscription = failure('NotPausedSubscription', 409, 'This subscription is not paused.')
export const SubscriptionLocked = failure(
  'SubscriptionLocked',
  409,
  'The payment for another change of this subscription is pending. Until it settles, the subscription can only be canceled.',
)
export const NotASeatBasedSubscription = failure('NotASeatBasedSubscription', 400, 'This subscription is not priced per seat.')
export const BelowMinimumSeats = failure('BelowMinimumSeats', 400, 'This number of seats is below the minimum of the product.')
export const AboveMaximumSeats = failure('AboveMaximumSeats', 400, 'This number of seats is above the maximum of the product.')
export const SeatsAlreadyAssigned = failure('SeatsAlreadyAssigned', 400, 'More seats than that are assigned. Revoke some of them first.')
export const SubscriptionNotScheduledToCancel = failure(
  'SubscriptionNotScheduledToCancel',
  400,
  'This subscription is not canceled, so there is no cancellation to withdraw.',
)
export const SubscriptionEnded = failure('SubscriptionEnded', 410, 'This subscription has ended. Create a new one.')
export const PaymentFailed = failure('PaymentFailed', 402, 'The payment failed, so nothing was changed.')

/** The failures of a subscription change, for merchants and portal users alike. */
export const changeRefusals = [
  AlreadyCanceledSubscription,
  InactiveSubscription,
  NotBillableSubscription,
  CannotPauseSubscription,
  NoScheduledPause,
  NotPausedSubscription,
  SubscriptionLocked,
  NotASeatBasedSubscription,
  BelowMinimumSeats,
  AboveMaximumSeats,
  SeatsAlreadyAssigned,
  SubscriptionNotScheduledToCancel,
  SubscriptionEnded,
  PaymentFailed,
] as const

const read = merchant(['subscriptions:read', 'subscriptions:write'])
const write = merchant('subscriptions:write')
const byId = z.object({ id: uuid() })

export const listSubscriptions = operation({
  id: 'subscriptions:list',
  method: 'GET',
  path: '/v1/subscriptions/',
  summary: 'List subscriptions',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    discount_id: filter(uuid()),
    active: flagInText().optional().meta({ deprecated: true, description: 'True: active or trialing. False: any other status. Prefer `status`.' }),
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

export const SubscriptionExportColumn = named(
  'SubscriptionExportColumn',
  z.enum([
    'email',
    'started_at',
    'product',
    'amount',
    'currency',
    'status',
    'recurring_interval',
    'customer_name',
    'billing_name',
    'billing_country',
    'net_amount',
    'discount',
    'seats',
    'current_period_start',
    'current_period_end',
    'cancel_at_period_end',
    'canceled_at',
    'ends_at',
    'ended_at',
    'cancellation_reason',
    'trial_start',
    'trial_end',
  ]),
)
export type SubscriptionExportColumn = z.output<typeof SubscriptionExportColumn>

export const exportSubscriptions = operation({
  id: 'subscriptions:export',
  method: 'GET',
  path: '/v1/subscriptions/export',
  summary: 'Export subscriptions',
  description: 'All subscriptions that match, latest start first, from one snapshot, in the format of the order export.',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    product_id: filter(uuid()),
    status: filter(SubscriptionStatus),
    cancel_at_period_end: flagInText().optional(),
    started_after: momentInText().describe('Started after this moment.'),
    started_before: momentInText().describe('Started before this moment.'),
    timezone: timezone(),
    columns: filter(SubscriptionExportColumn).describe('The columns in their order. Defaults to the first seven.'),
  }),
  returns: csv,
  media: 'text/csv',
  fails: [],
})

export const getSubscription = operation({
  id: 'subscriptions:get',
  method: 'GET',
  path: '/v1/subscriptions/{id}',
  summary: 'Get a subscription',
  access: read,
  costs: 'none',
  params: byId,
  returns: Subscription,
  fails: [ResourceNotFound],
})

export const createSubscription = operation({
  id: 'subscriptions:create',
  method: 'POST',
  path: '/v1/subscriptions/',
  summary: 'Create a free subscription',
  description: 'For an existing customer and a free product. Paid products are bought through a checkout.',
  access: write,
  costs: 'jobs',
  body: SubscriptionCreate,
  returns: Subscription,
  status: 201,
  fails: [NotPermitted],
})

export const updateSubscription = operation({
  id: 'subscriptions:update',
  method: 'PATCH',
  path: '/v1/subscriptions/{id}',
  summary: 'Change a subscription',
  description:
    'Makes one kind of change per request; absent fields stay unchanged. A change that is charged at once takes effect when it is paid, or not at all.',
  access: write,
  costs: ['mail', 'money', 'jobs'],
  params: byId,
  body: SubscriptionUpdate,
  returns: Subscription,
  keptDays: 30,
  fails: [NotPermitted, ResourceNotFound, ...changeRefusals],
})

export const revokeSubscription = operation({
  id: 'subscriptions:revoke',
  method: 'DELETE',
  path: '/v1/subscriptions/{id}',
  summary: 'End a subscription at once',
  description: 'Its benefits end at once, and its unpaid orders become void. To let the period run out, set `cancel_at_period_end`.',
  access: write,
  costs: ['mail', 'jobs'],
  params: byId,
  returns: Subscription,
  fails: [NotPermitted, ResourceNotFound, AlreadyCanceledSubscription, SubscriptionLocked],
})

export const subscriptionCreated = webhook('subscription.created', Subscription, 'A subscription is created, with or without a trial.')
export const subscriptionActive = webhook('subscription.active', Subscription, 'A subscription starts, or is paid again after it was past due.')
export const subscriptionUpdated = webhook('subscription.updated', Subscription, 'A subscription changes in any way.')
export const subscriptionCanceled = webhook('subscription.canceled', Subscription, 'A subscription is canceled: it ends with the period, or has ended.')
export const subscriptionUncanceled = webhook('subscription.uncanceled', Subscription, 'A cancellation is withdrawn before the end.')
export const subscriptionCycled = webhook('subscription.cycled', Subscription, 'A new period begins.')
export const subscriptionRevoked = webhook('subscription.revoked', Subscription, 'A subscription ends, and its benefits end with it.')
export const subscriptionPastDue = webhook('subscription.past_due', Subscription, 'A payment fails and is retried in the following days.')
export const subscriptionPaused = webhook('subscription.paused', Subscription, 'A pause begins.')
export const subscriptionResumed = webhook('subscription.resumed', Subscription, 'A pause ends, and a new period begins.')
