import { z } from 'zod'
import { CustomerOrganization, CustomerProduct } from '../catalog/storefront.ts'
import {
  failure,
  filter,
  flagInText,
  named,
  NotPermitted,
  oneOf,
  operation,
  page,
  pageQuery,
  portal,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  strictResource,
  uuid,
} from '../kit/index.ts'
import {
  AlreadyCanceledSubscription,
  cancellationComment,
  changeRefusals,
  clearing,
  CustomerCancellationReason,
  pausing,
  resuming,
  seatsInput,
  Subscription,
  SubscriptionMeter,
  subscriptionShape,
} from './subscriptions.ts'

export const CustomerSubscriptionProduct = resource('CustomerSubscriptionProduct', { ...CustomerProduct.shape, organization: CustomerOrganization })
export const CustomerSubscriptionMeterMeter = resource('CustomerSubscriptionMeterMeter', { ...stamps, id: uuid(), name: z.string() })
export const CustomerSubscriptionMeter = resource('CustomerSubscriptionMeter', { ...SubscriptionMeter.shape, meter: CustomerSubscriptionMeterMeter })

/** A subscription as whoever pays for it, or uses it, sees it. */
export const CustomerSubscription = resource('CustomerSubscription', {
  ...subscriptionShape,
  product: CustomerSubscriptionProduct,
  prices: Subscription.shape.prices,
  meters: z.array(CustomerSubscriptionMeter),
  pending_update: Subscription.shape.pending_update,
})
export type CustomerSubscription = z.output<typeof CustomerSubscription>
export const CustomerSubscriptionPage = page('CustomerSubscriptionPage', CustomerSubscription)

/** One kind of change at a time. */
export const CustomerSubscriptionUpdate = named(
  'CustomerSubscriptionUpdate',
  oneOf(
    strictResource('CustomerSubscriptionCancel', {
      cancel_at_period_end: z.boolean().nullish().describe('False takes back a cancellation. One that is paused has no period, and ends at once.'),
      cancellation_reason: CustomerCancellationReason.nullish(),
      cancellation_comment: cancellationComment(),
    }),
    {
      product_id: strictResource('CustomerSubscriptionUpdateProduct', { product_id: uuid().describe('The seller decides when it counts and is charged.') }),
      seats: strictResource('CustomerSubscriptionUpdateSeats', { seats: seatsInput() }),
      pause_at_period_end: strictResource('CustomerSubscriptionPause', pausing),
      resume: strictResource('CustomerSubscriptionResume', resuming),
      pending_update: strictResource('CustomerSubscriptionUpdateClear', clearing),
    },
  ),
)
export type CustomerSubscriptionUpdate = z.output<typeof CustomerSubscriptionUpdate>

export const UpdateSubscriptionPlanNotAllowed = failure('UpdateSubscriptionPlanNotAllowed', 403, 'The seller does not let customers change the product.')
export const UpdateSubscriptionSeatsNotAllowed = failure('UpdateSubscriptionSeatsNotAllowed', 403, 'The seller does not let customers change the seats.')
export const PauseResumeNotAllowed = failure('PauseResumeNotAllowed', 403, 'The seller does not let customers pause or resume.')
export const PaymentMethodRequired = failure('PaymentMethodRequired', 409, 'There is no payment method to charge. Add one first.')

const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const byId = z.object({ id: uuid() })

export const listPortalSubscriptions = operation({
  id: 'customer_portal:subscriptions:list',
  method: 'GET',
  path: '/v1/customer-portal/subscriptions/',
  summary: 'List the subscriptions',
  access: enter,
  query: z.object({
    product_id: filter(uuid()),
    active: flagInText().optional().describe('Active or trialing, or neither.'),
    query: z.string().max(256).optional().describe('Part of the name of the product.'),
    ...pageQuery,
    sorting: sorting('CustomerSubscriptionSortProperty', ['started_at', 'amount', 'status', 'organization', 'product'], ['-started_at']),
  }),
  returns: CustomerSubscriptionPage,
  fails: [NotPermitted],
})

export const getPortalSubscription = operation({
  id: 'customer_portal:subscriptions:get',
  method: 'GET',
  path: '/v1/customer-portal/subscriptions/{id}',
  summary: 'Get a subscription',
  access: enter,
  params: byId,
  returns: CustomerSubscription,
  fails: [NotPermitted, ResourceNotFound],
})

export const updatePortalSubscription = operation({
  id: 'customer_portal:subscriptions:update',
  method: 'PATCH',
  path: '/v1/customer-portal/subscriptions/{id}',
  summary: 'Change a subscription',
  description: 'One kind of change at a time, as far as the seller allows. A change that is charged at once is made when it is paid, or not at all.',
  access: change,
  params: byId,
  body: CustomerSubscriptionUpdate,
  returns: CustomerSubscription,
  keptDays: 30,
  fails: [
    NotPermitted,
    ResourceNotFound,
    ...changeRefusals,
    UpdateSubscriptionPlanNotAllowed,
    UpdateSubscriptionSeatsNotAllowed,
    PauseResumeNotAllowed,
    PaymentMethodRequired,
  ],
})

export const cancelPortalSubscription = operation({
  id: 'customer_portal:subscriptions:cancel',
  method: 'DELETE',
  path: '/v1/customer-portal/subscriptions/{id}',
  summary: 'Cancel a subscription',
  description: 'It runs until the end of the period that is paid. One that is paused has none, and ends at once.',
  access: change,
  params: byId,
  returns: CustomerSubscription,
  fails: [NotPermitted, ResourceNotFound, AlreadyCanceledSubscription],
})
