import { z } from 'zod'
import { ProductBillingType } from '../billing/orders.ts'
import {
  csv,
  emptyIsAbsent,
  filter,
  merchant,
  named,
  NotPermitted,
  operation,
  Pagination,
  pageSize,
  integerInText,
  resource,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { mostDays, TimeInterval, timeZoneInText } from '../usage/quantities.ts'
import { everyMetric, metricSlugs, type MetricSlug } from './metric-slugs.ts'

/** The first day that can be asked for. */
export const firstMetricDay = '2023-01-01'

/** The fewest days that make a useful chart of each interval. Shorter ranges are answered too. */
const fewestDays: Readonly<Record<TimeInterval, number>> = { hour: 0, day: 0, week: 14, month: 60, year: 366 }

const MetricType = named('MetricType', z.enum(['scalar', 'currency', 'currency_sub_cent', 'percentage']))

export const Metric = resource('Metric', { slug: z.string(), display_name: z.string(), type: MetricType })

const described = (slug: MetricSlug) => metricSlugs[slug].is
const figures = Object.fromEntries(everyMetric.map((slug) => [slug, z.number().nullish().describe(described(slug))])) as Record<
  MetricSlug,
  z.ZodOptional<z.ZodNullable<z.ZodNumber>>
>
const descriptions = Object.fromEntries(
  everyMetric.map((slug) => [slug, Metric.nullish().describe(`The name and unit of this metric. ${described(slug)}`)]),
) as Record<MetricSlug, z.ZodOptional<z.ZodNullable<typeof Metric>>>

export const MetricPeriod = resource('MetricPeriod', { timestamp: timestamp().describe('The start of the interval.'), ...figures })
export type MetricPeriod = z.output<typeof MetricPeriod>

export const MetricsTotals = resource('MetricsTotals', figures)
export type MetricsTotals = z.output<typeof MetricsTotals>

export const freshness = {
  data_through: timestamp().describe(
    'Facts up to this time are complete, except for test clocks. Later facts can be missing, because a change is being written or is due.',
  ),
  currency: z.string().describe('The currency of all amounts: the default currency of the organization.'),
  amounts_left_out: z.int().describe('Amounts in other currencies than the currency of the organization. They are in no sum. Their records are in all counts.'),
}

export const MetricsResponse = resource('MetricsResponse', {
  periods: z.array(MetricPeriod).describe('One entry for each interval, oldest first.'),
  totals: MetricsTotals,
  metrics: resource('Metrics', descriptions).describe('The asked metrics with their names and units.'),
  ...freshness,
})
export type MetricsResponse = z.output<typeof MetricsResponse>

const slug = () => z.enum(everyMetric)
/** Days far from today have no records, and their intervals would have no years of four digits. */
export const day = () => z.iso.date().refine((text) => text >= '1970-01-01' && text <= '9990-12-31', 'Expected a day from 1970-01-01 to 9990-12-31.')
const moment = () =>
  timestamp().refine((at) => at.getTime() >= 0 && at.getTime() < Date.parse('9991-01-01T00:00:00Z'), 'Expected a time from 1970-01-01 to 9990-12-31, in UTC.')

const whose = {
  organization_id: filter(uuid()),
  product_id: filter(uuid()).describe('Only these products. Usage events belong to no product, so costs and active users ignore it.'),
  billing_type: filter(ProductBillingType).describe('Only products of this type. Costs and active users ignore it.'),
  customer_id: filter(uuid()).describe('Only these customers.'),
}

const asked = z.object({
  start_date: day().describe('The first day, by the clock of the time zone.'),
  end_date: day().describe('The last day.'),
  timezone: timeZoneInText().describe('The time zone in which days and intervals begin. Every name of the IANA database is accepted.'),
  interval: TimeInterval.describe(
    `The length of an interval. Weeks begin on Monday. The longest range is ${Object.entries(mostDays)
      .map(([name, most]) => `${most} days with \`${name}\``)
      .join(', ')}.`,
  ),
  ...whose,
  metrics: filter(slug()).describe('The metrics to compute. By default all.'),
})

const rules =
  'Flows, such as revenue, count only the asked days. States, such as active subscriptions, are those at the end of the whole interval. A past state never changes. Amounts are in the default currency of the organization.'

export const getMetrics = operation({
  id: 'metrics:get',
  method: 'GET',
  path: '/v1/metrics/',
  summary: 'Get metrics',
  description: rules,
  access: merchant('metrics:read'),
  costs: 'none',
  query: asked,
  returns: MetricsResponse,
  fails: [NotPermitted],
})

export const exportMetrics = operation({
  id: 'metrics:export',
  method: 'GET',
  path: '/v1/metrics/export',
  summary: 'Export metrics',
  description: `The intervals as a file: one line for each, and one column for each metric. ${rules}`,
  access: merchant('metrics:read'),
  costs: 'none',
  query: asked,
  returns: csv,
  media: 'text/csv',
  fails: [NotPermitted],
})

const IntervalLimit = resource('MetricsIntervalLimit', {
  min_days: z.int().describe('The fewest days that make a useful chart. Shorter ranges are answered too.'),
  max_days: z.int().describe('The most days of one request.'),
})

export const MetricsLimits = resource('MetricsLimits', {
  min_date: day().describe('The first day that can be asked for.'),
  intervals: resource('MetricsIntervalsLimits', {
    hour: IntervalLimit,
    day: IntervalLimit,
    week: IntervalLimit,
    month: IntervalLimit,
    year: IntervalLimit,
  }),
})

const limitOf = (interval: TimeInterval) => ({ min_days: fewestDays[interval], max_days: mostDays[interval] })
export const metricsLimits: z.output<typeof MetricsLimits> = {
  min_date: firstMetricDay,
  intervals: { hour: limitOf('hour'), day: limitOf('day'), week: limitOf('week'), month: limitOf('month'), year: limitOf('year') },
}

export const getMetricsLimits = operation({
  id: 'metrics:limits',
  method: 'GET',
  path: '/v1/metrics/limits',
  summary: 'Get the limits of metrics',
  access: merchant('metrics:read'),
  costs: 'none',
  returns: MetricsLimits,
  fails: [],
})

export const MetricFactResource = named(
  'MetricFactResource',
  z.enum(['order', 'refund', 'dispute', 'checkout', 'subscription', 'seat', 'usage_event', 'customer']),
)
export type MetricFactResource = z.output<typeof MetricFactResource>

/** One record behind a value. */
export const MetricFact = resource('MetricFact', {
  resource: MetricFactResource.describe('The kind of the record.'),
  resource_id: uuid().describe('The id of the record.'),
  timestamp: timestamp().describe('When it happened. For a state: since when it holds.'),
  value: z.number().describe('The part of this record in the value of the interval.'),
  customer_id: uuid().nullable(),
  product_id: uuid().nullable(),
})
export type MetricFact = z.output<typeof MetricFact>

export const MetricFacts = resource('MetricFacts', {
  items: z.array(MetricFact),
  pagination: Pagination,
  value: z.number().describe('The value of the interval: the sum of all facts over all pages.'),
  ...freshness,
})
export type MetricFacts = z.output<typeof MetricFacts>

export const listMetricFacts = operation({
  id: 'metrics:facts',
  method: 'GET',
  path: '/v1/metrics/{slug}/facts',
  summary: 'List the facts behind a metric',
  description:
    'The orders, subscriptions, events or customers behind one interval of a metric, oldest first. Their values sum to the value of the interval. Ratios have no facts of their own: ask for the metrics that they are computed from.',
  access: merchant('metrics:read'),
  costs: 'none',
  params: z.object({ slug: slug() }),
  query: z.object({
    timestamp: moment().describe('A time in the interval, such as its `timestamp` in the answer of `GET /v1/metrics/`.'),
    interval: TimeInterval,
    timezone: timeZoneInText().describe('The time zone in which the interval begins.'),
    start_date: emptyIsAbsent(day()).describe('The first day of the range that the value was asked for. Flows before it are left out.'),
    end_date: emptyIsAbsent(day()).describe('The last day of that range.'),
    ...whose,
    page: integerInText(z.int().min(1)).default(1).describe('One-based page number.'),
    limit: pageSize(10),
  }),
  returns: MetricFacts,
  fails: [NotPermitted],
})
