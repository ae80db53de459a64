import { z } from 'zod'
import {
  emptyIsAbsent,
  filter,
  integerInText,
  merchant,
  NotPermitted,
  operation,
  pageSize,
  Pagination,
  resource,
  sorting,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { timeZoneInText } from '../usage/quantities.ts'
import { day, freshness } from './metrics.ts'

const money = {
  revenue: z.int().describe('Paid orders less refunds and lost disputes: after discounts, without tax, in minor units.'),
  cost: z.string().describe('The costs in the metadata of usage events, in minor units, as exact decimal text.'),
  margin: z.string().describe('Revenue less cost, in minor units, as exact decimal text. Negative if the customer costs more than it pays.'),
}

export const CustomerMargin = resource('CustomerMargin', {
  organization_id: uuid(),
  customer_id: uuid().nullable().describe('Null for costs of an external id that no customer has yet.'),
  external_customer_id: z.string().nullable(),
  ...money,
  margin_percentage: z.number().nullable().describe('The margin as a share of the revenue: 0.25 is a quarter. Null without revenue.'),
})
export type CustomerMargin = z.output<typeof CustomerMargin>

export const CustomerMargins = resource('CustomerMargins', {
  items: z.array(CustomerMargin),
  pagination: Pagination,
  start: timestamp().describe('The start of the first day.'),
  end: timestamp().describe('The end of the last day.'),
  timezone: z.string().describe('The time zone in which the days begin.'),
  totals: resource('CustomerMarginTotals', money).describe('The sums over all pages.'),
  ...freshness,
})
export type CustomerMargins = z.output<typeof CustomerMargins>

/** An amount of minor units in a query string. Parsed to decimal text. */
const amountInText = () => emptyIsAbsent(z.string().regex(/^-?\d{1,15}(\.\d{1,12})?$/, 'Expected an amount of minor units, such as `0` or `-12.5`.'))

export const listCustomerMargins = operation({
  id: 'metrics:margins',
  method: 'GET',
  path: '/v1/metrics/margins',
  summary: 'List the margins of customers',
  description:
    'Revenue, cost and margin of each customer with revenue or costs in the asked days. By default the customer with the lowest margin comes first. A refund counts at its own time, and usage at the time of its events.',
  access: merchant('metrics:read'),
  costs: 'none',
  query: z.object({
    start_date: day().describe('The first day, by the clock of the time zone.'),
    end_date: day().describe('The last day. A range has at most 366 days.'),
    timezone: timeZoneInText().describe('The time zone in which days begin. Every name of the IANA database is accepted.'),
    organization_id: filter(uuid()),
    customer_id: filter(uuid()).describe('Only these customers.'),
    margin_below: amountInText().describe(
      'Only customers with a margin below this amount of minor units. `0` lists the customers that cost more than they pay.',
    ),
    page: integerInText(z.int().min(1)).default(1).describe('One-based page number.'),
    limit: pageSize(10),
    sorting: sorting('CustomerMarginSortProperty', ['margin', 'revenue', 'cost'], ['margin']),
  }),
  returns: CustomerMargins,
  fails: [NotPermitted],
})
