import { z } from 'zod'
import { MeterUnit } from '../catalog/meters.ts'
import { RecurringInterval } from '../catalog/products.ts'
import { filter, integerInText, NotPermitted, operation, portal, resource, timestamp, uuid } from '../kit/index.ts'
import { AggregationFunction, MeterQuantity, timeZoneInText } from './quantities.ts'

/** The largest number of days that the usage of a customer is shown for. */
export const mostUsageDays = 90

/** The usage of a customer at a metered price of one of its subscriptions. Amounts are before discounts and taxes. */
export const CustomerUsageCharge = resource('CustomerUsageCharge', {
  price_id: uuid(),
  subscription_id: uuid(),
  product_name: z.string(),
  currency: z.string(),
  unit_amount: z.string().describe('The price of a unit beyond the credited ones: a decimal number of minor units.'),
  cap_amount: z.int().nullable().describe('The most that usage costs in a period, in minor units. Null without a limit.'),
  interval: RecurringInterval.describe('How often usage is billed.'),
  interval_count: z.int(),
  period_start: timestamp(),
  period_end: timestamp(),
  is_trial: z.boolean().describe('True during a trial. Its usage is free, so both amounts are 0.'),
  consumed_units: z.number().describe('Units used in the current period.'),
  credited_units: z.int().describe('Units that benefits of the subscription include in the current period.'),
  amount: z.int().describe('What the usage of the period costs now, in minor units.'),
  projected_units: z
    .number()
    .nullable()
    .describe(
      'Units at the end of the period if usage goes on as in this period so far. For `count` and `sum` this is the usage divided by the time that has passed. Other aggregations do not grow with time, so it is the usage. Null in the first day, or in the first half of a shorter period.',
    ),
  projected_amount: z.int().nullable().describe('What the projected units cost, in minor units.'),
})
export type CustomerUsageCharge = z.output<typeof CustomerUsageCharge>

export const CustomerUsageMeter = resource('CustomerUsageMeter', {
  id: uuid().describe('The id of the meter.'),
  name: z.string(),
  unit: MeterUnit,
  custom_label: z.string().nullable(),
  custom_multiplier: z.int().nullable(),
  aggregation: AggregationFunction.describe('How the meter turns events into units.'),
  since: timestamp().nullable().describe('Usage from this time on counts for the balance. Null: all usage counts.'),
  consumed_units: z.number(),
  credited_units: z.int(),
  balance: z.number().describe('The remaining credits; negative if more was used.'),
  charges: z.array(CustomerUsageCharge).describe('The metered prices of live subscriptions on this meter.'),
  days: z.array(MeterQuantity).describe('The quantity of each day, oldest first. The last day is today.'),
})
export type CustomerUsageMeter = z.output<typeof CustomerUsageMeter>

export const CustomerUsage = resource('CustomerUsage', {
  at: timestamp().describe('The time of the answer, by the clock of the customer. It contains all usage that was ingested before.'),
  timezone: z.string().describe('The time zone in which days begin.'),
  meters: z.array(CustomerUsageMeter),
})
export type CustomerUsage = z.output<typeof CustomerUsage>

export const getPortalUsage = operation({
  id: 'customer_portal:usage:get',
  method: 'GET',
  path: '/v1/customer-portal/usage',
  summary: 'Get my usage',
  description:
    'The usage of the customer on the meters of its active subscriptions and benefits: balance, cost and projected cost, and the quantity of each of the last days. Plain members see none: usage is part of billing.',
  access: portal(['customer_portal:read', 'customer_portal:write']),
  costs: 'none',
  query: z.object({
    meter_id: filter(uuid()),
    days: integerInText(z.int().min(0).max(mostUsageDays)).default(30).describe('The number of days, with today. 0 returns no days.'),
    timezone: timeZoneInText().describe('The time zone in which days begin.'),
  }),
  returns: CustomerUsage,
  fails: [NotPermitted],
})
