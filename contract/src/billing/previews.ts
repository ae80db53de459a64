import { z } from 'zod'
import { merchant, named, NotPermitted, oneOf, operation, portal, resource, ResourceNotFound, strictResource, timestamp, uuid } from '../kit/index.ts'
import { RecurringInterval } from '../catalog/products.ts'
import { SubscriptionProrationBehavior } from '../organizations/organizations.ts'
import { UpdateSubscriptionPlanNotAllowed, UpdateSubscriptionSeatsNotAllowed } from './portal-subscriptions.ts'
import { changeRefusals, seatsInput } from './subscriptions.ts'

const minor = (what: string) => z.int().describe(what)

export const PreviewedLine = resource('SubscriptionPreviewLine', {
  label: z.string(),
  amount: minor('Before discount and tax, in minor units; negative for a credit.'),
  discount_amount: minor('What is taken off this line.'),
  tax_amount: minor('The share of this line in the tax.'),
  proration: z.boolean().describe('For a part of a period, because something changes in its midst.'),
})

/** One order that would come of a change, as far as it says something about money. */
export const PreviewedCharge = resource('SubscriptionPreviewCharge', {
  at: timestamp().describe('When it is billed.'),
  lines: z.array(PreviewedLine),
  subtotal_amount: minor('The lines together, in minor units, as all amounts here.'),
  discount_amount: minor('What is taken off.'),
  net_amount: minor('After discount, without tax.'),
  tax_amount: minor('Sales tax or VAT.'),
  total_amount: minor('After discount, with tax. Below zero, it becomes credit.'),
  applied_balance_amount: minor("What the customer's balance adds or takes: negative where credit pays, positive where debt is collected."),
  charge_amount: minor('What is charged: the rest, or nothing where it is too little to be charged and waits.'),
})
export type PreviewedCharge = z.output<typeof PreviewedCharge>

/** What a change of a subscription would cost, and when. */
export const SubscriptionPreview = resource('SubscriptionPreview', {
  currency: z.string(),
  product_id: uuid().describe('The product after the change.'),
  seats: z.int().nullable().describe('The seats after the change.'),
  amount: minor('What a period costs after the change, before discount and tax.'),
  recurring_interval: RecurringInterval,
  recurring_interval_count: z.int(),
  applies_at: timestamp().describe('When the change counts: now, or with the next period.'),
  now: PreviewedCharge.nullable().describe('What is billed at once; null where nothing is.'),
  next: PreviewedCharge.nullable().describe('What the next period costs, with everything that waits for it and without usage; null where there is none.'),
})
export type SubscriptionPreview = z.output<typeof SubscriptionPreview>

const prorated = { proration_behavior: SubscriptionProrationBehavior.nullish().describe("The organization's own, unless said otherwise.") }
const product = { product_id: uuid().nullish().describe('With neither product nor seats: what comes next as things are.') }
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
const description = 'Changes nothing. What cannot be changed is refused here for the same reason.'

export const previewSubscription = operation({
  id: 'subscriptions:preview',
  method: 'POST',
  path: '/v1/subscriptions/{id}/preview',
  summary: 'See what a change of a subscription would cost',
  description,
  access: merchant('subscriptions:write'),
  params: byId,
  body: SubscriptionPreviewRequest,
  returns: SubscriptionPreview,
  fails: [NotPermitted, ResourceNotFound, ...changeRefusals],
})

export const previewPortalSubscription = operation({
  id: 'customer_portal:subscriptions:preview',
  method: 'POST',
  path: '/v1/customer-portal/subscriptions/{id}/preview',
  summary: 'See what a change of a subscription would cost',
  description,
  access: portal('customer_portal:write'),
  params: byId,
  body: CustomerSubscriptionPreviewRequest,
  returns: SubscriptionPreview,
  fails: [NotPermitted, ResourceNotFound, ...changeRefusals, UpdateSubscriptionPlanNotAllowed, UpdateSubscriptionSeatsNotAllowed],
})
