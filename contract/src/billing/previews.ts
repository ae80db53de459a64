import { z } from 'zod'
import { merchant, named, NotPermitted, oneOf, operation, portal, resource, ResourceNotFound, strictResource, timestamp, uuid } from '../kit/index.ts'
import { RecurringInterval } from '../catalog/products.ts'
import { SubscriptionProrationBehavior } from '../organizations/organizations.ts'
import { PaymentMethodRequired, UpdateSubscriptionPlanNotAllowed, UpdateSubscriptionSeatsNotAllowed } from './portal-subscriptions.ts'
import { changeRefusals, seatsInput } from './subscriptions.ts'

const minor = (what: string) => z.int().describe(what)

export const PreviewedLine = resource('SubscriptionPreviewLine', {
  label: z.string(),
  amount: minor('Before discount and tax, in minor units; negative for a credit.'),
  discount_amount: minor('The discount on this line.'),
  tax_amount: minor('The tax of this line.'),
  proration: z.boolean().describe('True if the line covers part of a period because of the change.'),
})

/** The amounts of one order that a change would create. */
export const PreviewedCharge = resource('SubscriptionPreviewCharge', {
  at: timestamp().describe('When this is billed.'),
  lines: z.array(PreviewedLine),
  subtotal_amount: minor('The sum of the lines. All amounts are in minor units.'),
  discount_amount: minor('The discount.'),
  net_amount: minor('After discount, without tax.'),
  tax_amount: minor('Sales tax or VAT.'),
  total_amount: minor('After discount, with tax. A negative total becomes credit.'),
  applied_balance_amount: minor("The amount of the customer's balance that is applied: negative if credit pays, positive if debt is collected."),
  charge_amount: minor('The amount that is charged. An amount too small to charge is 0 here and carried over.'),
})
export type PreviewedCharge = z.output<typeof PreviewedCharge>

/** The cost of a subscription change, and when it is charged. */
export const SubscriptionPreview = resource('SubscriptionPreview', {
  currency: z.string(),
  product_id: uuid().describe('The product after the change.'),
  seats: z.int().nullable().describe('The seats after the change.'),
  amount: minor('The price of a period after the change, before discount and tax.'),
  recurring_interval: RecurringInterval,
  recurring_interval_count: z.int(),
  applies_at: timestamp().describe('When the change takes effect: now, or with the next period.'),
  now: PreviewedCharge.nullable().describe('The order that is billed at once; null if nothing is.'),
  next: PreviewedCharge.nullable().describe(
    'The cost of the next period with all scheduled changes, and of the usage that is not billed yet; null if there is no next period.',
  ),
})
export type SubscriptionPreview = z.output<typeof SubscriptionPreview>

const prorated = { proration_behavior: SubscriptionProrationBehavior.nullish().describe('Defaults to the setting of the organization.') }
const product = { product_id: uuid().nullish().describe('Without `product_id` and `seats`: previews the next period without a change.') }
const seats = { seats: seatsInput() }

export const SubscriptionPreviewRequest = named(
  'SubscriptionPreviewRequest',
  oneOf(strictResource('SubscriptionPreviewProduct', { ...product, ...prorated }), {
    seats: strictResource('SubscriptionPreviewSeats', { ...seats, ...prorated }),
  }),
)
export type SubscriptionPreviewRequest = z.output<typeof SubscriptionPreviewRequest>

export const CustomerSubscriptionPreviewRequest = named(
  'CustomerSubscriptionPreviewRequest',
  oneOf(strictResource('CustomerSubscriptionPreviewProduct', product), { seats: strictResource('CustomerSubscriptionPreviewSeats', seats) }),
)
export type CustomerSubscriptionPreviewRequest = z.output<typeof CustomerSubscriptionPreviewRequest>

const byId = z.object({ id: uuid() })
const description = 'Changes nothing. Fails with the same errors as the change itself.'

export const previewSubscription = operation({
  id: 'subscriptions:preview',
  method: 'POST',
  path: '/v1/subscriptions/{id}/preview',
  summary: 'Preview the cost of changing a subscription',
  description,
  access: merchant('subscriptions:write'),
  costs: 'none',
  params: byId,
  body: SubscriptionPreviewRequest,
  returns: SubscriptionPreview,
  fails: [NotPermitted, ResourceNotFound, ...changeRefusals],
})

export const previewPortalSubscription = operation({
  id: 'customer_portal:subscriptions:preview',
  method: 'POST',
  path: '/v1/customer-portal/subscriptions/{id}/preview',
  summary: 'Preview the cost of changing a subscription',
  description,
  access: portal('customer_portal:write'),
  costs: 'none',
  params: byId,
  body: CustomerSubscriptionPreviewRequest,
  returns: SubscriptionPreview,
  fails: [NotPermitted, ResourceNotFound, ...changeRefusals, UpdateSubscriptionPlanNotAllowed, UpdateSubscriptionSeatsNotAllowed, PaymentMethodRequired],
})
