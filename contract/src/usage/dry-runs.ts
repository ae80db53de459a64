import { z } from 'zod'
import { aggregationInput, filterInput } from '../catalog/meters.ts'
import { unitAmountInput } from '../catalog/products.ts'
import { merchant, NotPermitted, operation, requestLimits, resource, timestamp, uuid } from '../kit/index.ts'
import { timeZoneInText } from './quantities.ts'

/** The days of a dry run. The last one is today. */
export const dryRunDays = 30
const mostEvents = requestLimits.events_per_dry_run

export const MeterDryRunCreate = resource('MeterDryRunCreate', {
  organization_id: uuid().nullish().describe('Required, unless the credential is an organization token.'),
  filter: filterInput(),
  aggregation: aggregationInput(),
  unit_amount: unitAmountInput().nullish().describe('A price of one unit in minor units. Above zero, with at most 5 digits before the point and 12 after.'),
  timezone: timeZoneInText().describe('The time zone in which days begin.'),
})
export type MeterDryRunCreate = z.output<typeof MeterDryRunCreate>

const decimal = () => z.string().describe('Exact decimal text.')

export const MeterDryRun = resource('MeterDryRun', {
  start: timestamp().describe(`The start of the first day, ${dryRunDays - 1} days before today.`),
  end: timestamp().describe('The time of the request. Later events are not counted.'),
  timezone: z.string().describe('The time zone in which days begin.'),
  events_read: z.int().describe('Events of the organization that were read, whether the meter counts them or not.'),
  is_complete: z
    .boolean()
    .describe(`False if the organization has more than ${mostEvents} events in these days. Then only the newest ${mostEvents} were read.`),
  read_since: timestamp().describe('Events from this time on were read. Equal to `start` if the answer is complete.'),
  total: decimal().describe('The quantity over all customers, as exact decimal text.'),
  customers: z.int().describe('Customers that the meter would have counted. An external id without a customer is one.'),
  amount: z
    .string()
    .nullable()
    .describe('What `unit_amount` would have billed, in minor units: the amount of each customer, rounded, and added up. Null without `unit_amount`.'),
  days: z
    .array(resource('MeterDryRunDay', { timestamp: timestamp().describe('The start of the day.'), quantity: decimal() }))
    .describe('One entry for each day, oldest first.'),
  top_customers: z
    .array(
      resource('MeterDryRunCustomer', {
        customer_id: uuid().nullable().describe('Null if no customer has the external id yet.'),
        external_customer_id: z.string().nullable(),
        quantity: decimal(),
        amount: z.string().nullable().describe('What `unit_amount` would have billed this customer, in minor units.'),
      }),
    )
    .describe('The 10 customers with the highest quantities, highest first.'),
})
export type MeterDryRun = z.output<typeof MeterDryRun>

export const dryRunMeter = operation({
  id: 'meters:dry_run',
  method: 'POST',
  path: '/v1/meters/dry-run',
  summary: 'Try a meter',
  description: `Counts the events of the last ${dryRunDays} days as a meter with this filter and aggregation would have, and stores nothing. Reads at most the newest ${mostEvents} events.`,
  access: merchant(['meters:read', 'meters:write']),
  costs: 'none',
  body: MeterDryRunCreate,
  returns: MeterDryRun,
  fails: [NotPermitted],
})
