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

/** A subscription as the portal shows it to its payer and to its users. */
export const CustomerSubscription = resource('CustomerSubscription', {
  ...subscriptionShape,
  product: CustomerSubscriptionProduct,
  prices: Subscription.shape.prices,
  meters: z.array(CustomerSubscriptionMeter),
  pending_update: Subscription.shape.pending_update,
})
export type CustomerSubscription = z.output<typeof CustomerSubscription>
export const CustomerSubscriptionPage = page('CustomerSubscriptionPage', CustomerSubscription)

/** A change of a subscription by its customer. Each request makes one kind of change. */
export const CustomerSubscriptionUpdate = named(
  'CustomerSubscriptionUpdate',
  oneOf(
    strictResource('CustomerSubscriptionCancel', {
      cancel_at_period_end: z.boolean().nullish().describe('False withdraws a cancellation. A paused subscription has no period and ends at once.'),
      cancellation_reason: CustomerCancellationReason.nullish(),
      cancellation_comment: cancellationComment(),
    }),
    {
      product_id: strictResource('CustomerSubscriptionUpdateProduct', {
        product_id: uuid().describe('The settings of the seller decide when the change takes effect and is charged.'),
      }),
      seats: strictResource('CustomerSubscriptionUpdateSeats', { seats: seatsInput() }),
      pause_at_period_end: strictResource('CustomerSubscriptionPause', pausing),
      resume: strictResource('CustomerSubscriptionResume', resuming),
      pending_update: strictResource('CustomerSubscriptionUpdateClear', clearing),
    },
  ),
)
export type CustomerSubscriptionUpdate = z.output<typeof CustomerSubscriptionUpdate>

export const UpdateSubscriptionPlanNotAllowed = failure('UpdateSubscriptionPlanNotAllowed', 403, 'The seller does not allow customers to change the product.')
export const UpdateSubscriptionSeatsNotAllowed = failure(
  'UpdateSubscriptionSeatsNotAllowed',
  403,
  'The seller does not allow customers to change the number of seats.',
)
export const PauseResumeNotAllowed = failure('PauseResumeNotAllowed', 403, 'The seller does not allow customers to pause or resume.')
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
  costs: 'none',
  query: z.object({
    product_id: filter(uuid()),
    active: flagInText().optional().describe('True: active or trialing. False: any other status.'),
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
  costs: 'none',
  params: byId,
  returns: CustomerSubscription,
  fails: [NotPermitted, ResourceNotFound],
})

export const updatePortalSubscription = operation({
  id: 'customer_portal:subscriptions:update',
  method: 'PATCH',
  path: '/v1/customer-portal/subscriptions/{id}',
  summary: 'Change a subscription',
  description:
    'Makes one kind of change per request, within the limits that the seller set. A change that is charged at once takes effect when it is paid, or not at all. A change to a higher price needs a payment method. It is charged at once, unless it waits for the next period.',
  access: change,
  costs: ['mail', 'money', 'jobs'],
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
  description: 'The subscription runs until the end of the paid period. A paused subscription has no period and ends at once.',
  access: change,
  costs: ['mail', 'jobs'],
  params: byId,
  returns: CustomerSubscription,
  fails: [NotPermitted, ResourceNotFound, AlreadyCanceledSubscription],
})
