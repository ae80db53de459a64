import {
  everyMetric,
  InvalidRequest,
  metricSlugs,
  type getMetrics,
  type MetricPeriod,
  type MetricSlug,
  type MetricsResponse,
  type MetricsTotals,
  type Parsed,
} from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { later, minutes, type WallClock } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { confine } from '../../organizations/index.ts'
import { evaluate, wholeOf, type Reading, type Sum } from '../calc/evaluating.ts'
import { figures, withSources, type FigureName, type Measure } from '../calc/figures.ts'
import type { Bucket } from '../calc/buckets.ts'
import { bucketsOf } from './ranges.ts'
import { loadHolders, loadUsers } from './people.sql.ts'
import type { Question } from '../calc/question.ts'
import { loadScope } from './scope.sql.ts'
import { loadSums, type Sums } from './sums.sql.ts'

type Query = Parsed<typeof getMetrics, 'query'>

/** A change is committed within this time after its moment of business time, because statements and idle transactions have a timeout. */
const longestChange = 1 * minutes

export interface Scoped {
  readonly question: Question
  readonly data_through: Date
}

/** Returns the organizations and the currency of a request. Amounts in several currencies cannot be added, so they are refused. */
export const questionOf = async (
  db: Db,
  clock: WallClock,
  scope: TenantScope,
  query: Pick<Query, 'organization_id' | 'product_id' | 'billing_type' | 'customer_id'>,
): Promise<Scoped> => {
  const organizations = organizationIds(confine(scope, 'analytics:read'), query.organization_id)
  const now = clock.wall()
  const { currencies, overdue } = await loadScope(db, organizations, now)
  if (currencies.length > 1)
    throw new InvalidRequest({
      loc: ['query', 'organization_id'],
      msg: `The organizations have different currencies: ${currencies.join(', ')}. Send \`organization_id\` with organizations of one currency.`,
      type: 'value_error',
      input: query.organization_id,
    })
  const { product_id, billing_type, customer_id } = query
  const settled = later(now, -longestChange)
  return {
    question: { organizations, currency: currencies[0] ?? 'usd', product_id, billing_type, customer_id },
    data_through: overdue !== null && overdue < settled ? overdue : settled,
  }
}

const figureOf = (name: FigureName) => figures[name]

/** Answers all questions about the given intervals, from the stored sums. The number of statements does not depend on the intervals. */
export const readStored = async (
  db: Db,
  question: Question,
  names: ReadonlySet<FigureName>,
  buckets: readonly Bucket[],
): Promise<{ of: Reading[]; whole: Reading; left_out: number }> => {
  const chosen = [...names].map(figureOf)
  const sinceEver = new Set<Measure>()
  const inRange = new Set<Measure>()
  for (const figure of chosen) {
    if (figure.kind !== 'sum' && figure.kind !== 'trailing') continue
    const isState = figure.kind === 'sum' ? figure.span !== 'flow' : figure.at === 'start'
    for (const { measure } of figure.terms) (isState ? sinceEver : inRange).add(measure)
  }
  const needsTrailing = chosen.some(({ kind }) => kind === 'trailing')
  const whole = wholeOf(buckets)
  const times = new Set(
    buckets.flatMap(({ since, until, ends_at, trailing }) => [since, until, ends_at, ...(needsTrailing ? [trailing] : [])].map((at) => at.getTime())),
  )
  const edges = [...times].toSorted((a, b) => a - b).map((time) => new Date(time))
  const counted = new Set(chosen.flatMap((figure) => (figure.kind === 'distinct' ? [figure.of] : [])))
  const countsSeats = counted.has('seat_customers') || counted.has('new_seat_customers') || counted.has('churned_seat_customers')
  const [sums, subscribers, seated, users] = await Promise.all([
    sinceEver.size + inRange.size > 0
      ? loadSums(db, question, { since_ever: [...sinceEver], in_range: [...inRange].filter((measure) => !sinceEver.has(measure)) }, edges)
      : undefined,
    counted.has('subscribers') ? loadHolders(db, question, 'subscribers', edges) : undefined,
    countsSeats ? loadHolders(db, question, 'seat_customers', edges) : undefined,
    counted.has('users') ? loadUsers(db, question, buckets) : undefined,
  ])
  const between = ({ before }: Sums, measure: Measure, since: Date, until: Date): Sum => {
    const [from, to] = [before(measure, since), before(measure, until)]
    return { count: to.count - from.count, amount: to.amount - from.amount }
  }
  const readingOf = (bucket: Bucket, people: number): Reading => ({
    sum: (measure, span) =>
      span === 'flow' ? between(sums!, measure, bucket.since, bucket.until) : sums!.before(measure, span === 'past' ? bucket.until : bucket.ends_at),
    trailing: (measure, at) => (at === 'start' ? sums!.before(measure, bucket.trailing) : between(sums!, measure, bucket.trailing, bucket.ends_at)),
    distinct: (of) => {
      if (of === 'users') return people
      if (of === 'subscribers') return subscribers!.at(bucket.ends_at)
      if (of === 'seat_customers') return seated!.at(bucket.ends_at)
      const change = of === 'new_seat_customers' ? seated!.began : seated!.ended
      return change(bucket.until) - change(bucket.since)
    },
  })
  return {
    of: buckets.map((bucket, at) => readingOf(bucket, users?.of[at] ?? 0)),
    whole: readingOf(whole, users?.all ?? 0),
    left_out: sums?.left_out ?? 0,
  }
}

type Figures = Partial<Record<MetricSlug, number>>

/** Computes the chosen metrics of all intervals, and their totals, from readings. */
export const computeMetrics = (chosen: readonly MetricSlug[], readings: readonly Reading[], whole: Reading): { periods: Figures[]; totals: Figures } => ({
  periods: readings.map((reading) => Object.fromEntries(chosen.map((slug) => [slug, evaluate(slug, reading)]))),
  totals: Object.fromEntries(chosen.map((slug) => [slug, evaluate(slug, figures[slug].total === 'last' ? readings.at(-1)! : whole)])),
})

/** Answers a request for metrics. */
export const metricsOf = async (db: Db, clock: WallClock, scope: TenantScope, query: Query): Promise<MetricsResponse> => {
  const buckets = bucketsOf(query)
  const chosen = query.metrics.length === 0 ? everyMetric : everyMetric.filter((slug) => query.metrics.includes(slug))
  const { question, data_through } = await questionOf(db, clock, scope, query)
  const { of, whole, left_out } = await readStored(db, question, withSources(chosen), buckets)
  const { periods, totals } = computeMetrics(chosen, of, whole)
  return {
    periods: periods.map((values, at): MetricPeriod => ({ timestamp: buckets[at]!.starts_at, ...values })),
    totals: totals satisfies MetricsTotals,
    metrics: Object.fromEntries(chosen.map((slug) => [slug, { slug, display_name: metricSlugs[slug].display_name, type: metricSlugs[slug].type }])),
    data_through,
    currency: question.currency,
    amounts_left_out: left_out,
  }
}
