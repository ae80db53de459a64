import type { MetricSlug } from '@bursar/contract'

/** The stored measures. A fact adds a count and an amount to one measure, at one moment. */
export const measures = [
  'subscriptions.paid.open',
  'subscriptions.paid.ending',
  'subscriptions.trial.open',
  'subscriptions.trial.ending',
  'subscriptions.started',
  'subscriptions.ended',
  'subscriptions.canceled.customer_service',
  'subscriptions.canceled.low_quality',
  'subscriptions.canceled.missing_features',
  'subscriptions.canceled.switched_service',
  'subscriptions.canceled.too_complex',
  'subscriptions.canceled.too_expensive',
  'subscriptions.canceled.unused',
  'subscriptions.canceled.other',
  'orders.one_time',
  'orders.new',
  'orders.renewed',
  'orders.changed',
  'refunds.one_time',
  'refunds.new',
  'refunds.renewed',
  'refunds.changed',
  'checkouts.created',
  'checkouts.succeeded',
  'seats.total',
  'seats.claimed',
  'seats.pending',
  'usage',
] as const
export type Measure = (typeof measures)[number]

export interface Term {
  readonly measure: Measure
  readonly part: 'count' | 'amount'
  readonly factor: number
}

/**
 * How the facts of an interval are chosen. `flow`: those in the asked part of the interval. `past`: all before its end.
 * `state`: all before the end of the whole interval. The sum of the changes of a state is the state.
 */
export type Span = 'flow' | 'past' | 'state'

/** A sum of facts. */
interface Additive {
  readonly kind: 'sum'
  readonly span: Span
  readonly terms: readonly Term[]
}

/** A number of different customers. Such numbers cannot be added. */
interface Distinct {
  readonly kind: 'distinct'
  readonly of: 'subscribers' | 'seat_customers' | 'new_seat_customers' | 'churned_seat_customers' | 'users'
}

/** A sum over the days before the end of the interval, or the state at the start of these days. */
interface Trailing {
  readonly kind: 'trailing'
  readonly at: 'start' | 'during'
  readonly terms: readonly Term[]
}

/** A number that is computed from others of the same interval. */
interface Derived {
  readonly kind: 'derived'
  readonly from: readonly FigureName[]
  readonly compute: (...values: number[]) => number
}

export type Figure = (Additive | Distinct | Trailing | Derived) & {
  /** How the total of a range is computed: from the whole range as if it were one interval, or as the value of the last interval. */
  readonly total: 'range' | 'last'
}

const term = (part: Term['part'], chosen: readonly Measure[], factor = 1): Term[] => chosen.map((measure) => ({ measure, part, factor }))
const counts = (...chosen: Measure[]) => term('count', chosen)
const amounts = (...chosen: Measure[]) => term('amount', chosen)
const less = (...chosen: Measure[]) => term('amount', chosen, -1)

const flow = (...terms: readonly Term[]) => ({ kind: 'sum', span: 'flow', terms, total: 'range' }) as const
const past = (...terms: readonly Term[]) => ({ kind: 'sum', span: 'past', terms, total: 'last' }) as const
const state = (...terms: readonly Term[]) => ({ kind: 'sum', span: 'state', terms, total: 'last' }) as const
const distinct = (of: Distinct['of'], total: Figure['total']) => ({ kind: 'distinct', of, total }) as const
const derived = (total: Figure['total'], from: readonly FigureName[], compute: Derived['compute']) => ({ kind: 'derived', from, compute, total }) as const

const yearly = (terms: readonly Term[]) => terms.map((one) => ({ ...one, factor: 12 * one.factor }))

const active: Measure[] = ['subscriptions.paid.open', 'subscriptions.paid.ending', 'subscriptions.trial.open', 'subscriptions.trial.ending']
const paying = amounts('subscriptions.paid.open', 'subscriptions.paid.ending')
const committed = amounts('subscriptions.paid.open')
export const sold: Measure[] = ['orders.one_time', 'orders.new', 'orders.renewed', 'orders.changed']
export const returned: Measure[] = ['refunds.one_time', 'refunds.new', 'refunds.renewed', 'refunds.changed']
const canceled = measures.filter((measure) => measure.startsWith('subscriptions.canceled.'))
const costs = amounts('usage')

const quotient = (one: number, other: number) => (other === 0 ? 0 : one / other)
const roundedUp = (one: number, other: number) => (other === 0 ? 0 : Math.ceil(one / other))

type Hidden = 'subscribers' | 'canceled_recently' | 'active_before'
export type FigureName = MetricSlug | Hidden

/** Every metric, with the figures that some are computed from. A figure is computed in one way only, for intervals and totals. */
export const figures: Readonly<Record<FigureName, Figure>> = {
  subscribers: distinct('subscribers', 'last'),
  canceled_recently: { kind: 'trailing', at: 'during', terms: counts(...canceled), total: 'last' },
  active_before: { kind: 'trailing', at: 'start', terms: counts(...active), total: 'last' },

  active_subscriptions: state(...counts(...active)),
  committed_subscriptions: state(...counts('subscriptions.paid.open', 'subscriptions.trial.open')),
  monthly_recurring_revenue: state(...paying),
  trial_monthly_recurring_revenue: state(...amounts('subscriptions.trial.open', 'subscriptions.trial.ending')),
  committed_monthly_recurring_revenue: state(...committed),
  trial_committed_monthly_recurring_revenue: state(...amounts('subscriptions.trial.open')),
  average_revenue_per_user: derived('last', ['monthly_recurring_revenue', 'subscribers'], (revenue, people) => Math.round(quotient(revenue, people))),
  checkouts: flow(...counts('checkouts.created')),
  succeeded_checkouts: flow(...counts('checkouts.succeeded')),
  churned_subscriptions: flow(...counts('subscriptions.ended')),
  churn_rate: derived('last', ['canceled_recently', 'active_before'], (one, other) => quotient(one, other)),
  seats_total: state(...counts('seats.total')),
  seats_claimed: state(...counts('seats.claimed')),
  seats_pending: state(...counts('seats.pending')),
  seat_customers: distinct('seat_customers', 'last'),
  new_seat_customers: distinct('new_seat_customers', 'range'),
  churned_seat_customers: distinct('churned_seat_customers', 'range'),
  orders: flow(...counts(...sold)),
  revenue: flow(...amounts(...sold)),
  net_revenue: flow(...amounts(...sold), ...less(...returned)),
  cumulative_revenue: past(...amounts(...sold)),
  net_cumulative_revenue: past(...amounts(...sold), ...less(...returned)),
  costs: flow(...costs),
  cumulative_costs: past(...costs),
  average_order_value: derived('range', ['revenue', 'orders'], (one, other) => roundedUp(one, other)),
  net_average_order_value: derived('range', ['net_revenue', 'orders'], (one, other) => roundedUp(one, other)),
  cost_per_user: derived('range', ['costs', 'active_user_by_event'], (one, other) => quotient(one, other)),
  active_user_by_event: distinct('users', 'range'),
  one_time_products: flow(...counts('orders.one_time')),
  one_time_products_revenue: flow(...amounts('orders.one_time')),
  one_time_products_net_revenue: flow(...amounts('orders.one_time'), ...less('refunds.one_time')),
  new_subscriptions: flow(...counts('subscriptions.started')),
  new_subscriptions_revenue: flow(...amounts('orders.new')),
  new_subscriptions_net_revenue: flow(...amounts('orders.new'), ...less('refunds.new')),
  renewed_subscriptions: flow(...counts('orders.renewed')),
  renewed_subscriptions_revenue: flow(...amounts('orders.renewed', 'orders.changed')),
  renewed_subscriptions_net_revenue: flow(...amounts('orders.renewed', 'orders.changed'), ...less('refunds.renewed', 'refunds.changed')),
  canceled_subscriptions: flow(...counts(...canceled)),
  canceled_subscriptions_customer_service: flow(...counts('subscriptions.canceled.customer_service')),
  canceled_subscriptions_low_quality: flow(...counts('subscriptions.canceled.low_quality')),
  canceled_subscriptions_missing_features: flow(...counts('subscriptions.canceled.missing_features')),
  canceled_subscriptions_switched_service: flow(...counts('subscriptions.canceled.switched_service')),
  canceled_subscriptions_too_complex: flow(...counts('subscriptions.canceled.too_complex')),
  canceled_subscriptions_too_expensive: flow(...counts('subscriptions.canceled.too_expensive')),
  canceled_subscriptions_unused: flow(...counts('subscriptions.canceled.unused')),
  canceled_subscriptions_other: flow(...counts('subscriptions.canceled.other')),
  annual_recurring_revenue: state(...yearly(paying)),
  committed_annual_recurring_revenue: state(...yearly(committed)),
  checkouts_conversion: derived('range', ['succeeded_checkouts', 'checkouts'], (one, other) => quotient(one, other)),
  ltv: derived('last', ['average_revenue_per_user', 'cost_per_user', 'churn_rate'], (revenue, cost, churn) =>
    churn > 0 ? Math.max(0, Math.trunc((revenue - cost) / churn)) : 0,
  ),
  gross_margin: past(...amounts(...sold), ...term('amount', ['usage'], -1)),
  gross_margin_percentage: derived('last', ['gross_margin', 'cumulative_revenue'], (one, other) => quotient(one, other)),
  cashflow: flow(...amounts(...sold), ...term('amount', ['usage'], -1)),
  average_seats_per_customer: derived('last', ['seats_total', 'seat_customers'], (one, other) => quotient(one, other)),
  seat_utilization_rate: derived('last', ['seats_claimed', 'seats_total'], (one, other) => quotient(one, other)),
}

/** Returns figures with all figures that they are computed from. */
export const withSources = (chosen: readonly FigureName[]): Set<FigureName> => {
  const found = new Set<FigureName>()
  const add = (name: FigureName): void => {
    if (found.has(name)) return
    found.add(name)
    const figure = figures[name]
    if (figure.kind === 'derived') figure.from.forEach(add)
  }
  chosen.forEach(add)
  return found
}

/** The metric that shows the records behind a hidden figure. */
const shownBy: Readonly<Record<Hidden, MetricSlug>> = {
  subscribers: 'active_subscriptions',
  canceled_recently: 'canceled_subscriptions',
  active_before: 'active_subscriptions',
}

/** Returns the metrics that a derived metric is computed from, directly or through others, and that have facts. */
export const metricsBehind = (slug: MetricSlug): MetricSlug[] => [
  ...new Set(
    [...withSources([slug])].flatMap((name) => (name in shownBy ? [shownBy[name as Hidden]] : figures[name].kind === 'derived' ? [] : [name as MetricSlug])),
  ),
]
