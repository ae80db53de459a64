import { z } from 'zod'
import { resource, timestamp, uuid, webhook } from '../kit/index.ts'

/** The shares of a limit that are announced, in percent. */
export const usageThresholds = [50, 80, 100] as const
export type UsageThresholdPercent = (typeof usageThresholds)[number]

/** A limit of a customer's usage on a meter, and how much of it is used. */
export const UsageThreshold = resource('UsageThreshold', {
  id: uuid().describe('The id of the limit. All events about the same limit of a customer have it, in every period.'),
  customer_id: uuid(),
  external_customer_id: z.string().nullable(),
  subscription_id: uuid().nullable().describe('The subscription that has a price on the meter or credits it. Null for credits without a subscription.'),
  meter_id: uuid(),
  meter_name: z.string(),
  basis: z.enum(['credits', 'cap']).describe('`credits`: units of credits are used. `cap`: usage costs money, up to the cap of the metered price.'),
  percent: z.int().describe('The highest threshold that was reached: 50, 80 or 100.'),
  consumed: z.number().describe('Used units for `credits`. For `cap`, the amount of the usage in minor units, before discounts and taxes.'),
  limit: z.number().describe('Credited units for `credits`. For `cap`, the cap of the price in minor units.'),
  currency: z.string().nullable().describe('The currency of both amounts. Null for `credits`.'),
  period_start: timestamp().nullable().describe('Usage from this time on counts. Null: all usage counts.'),
  period_end: timestamp().nullable().describe('When the count begins anew. Null for credits that do not end with a period.'),
})
export type UsageThreshold = z.output<typeof UsageThreshold>

export const usageThresholdReached = webhook(
  'usage.threshold_reached',
  UsageThreshold,
  'Usage of a customer reaches 50, 80 or 100 percent of its credits, or of the cap of a metered price. Sent only to endpoints that name this type.',
)
