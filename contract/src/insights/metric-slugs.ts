/** The unit of a metric: a number, minor units of a currency, fractions of minor units, or a share of 1. */
export type MetricUnit = 'scalar' | 'currency' | 'currency_sub_cent' | 'percentage'

const money = { type: 'currency' } as const
const count = { type: 'scalar' } as const
const share = { type: 'percentage' } as const
const fine = { type: 'currency_sub_cent' } as const

const canceled = (reason: string, words: string) =>
  ({
    ...count,
    display_name: `Canceled Subscriptions - ${reason}`,
    is: `Cancellations for the reason "${words}", less those that were taken back.`,
  }) as const

/** Every metric, declared once: its name for people, its unit, and what it is. `docs/guides/metrics.md` is generated from it. */
export const metricSlugs = {
  active_subscriptions: { ...count, display_name: 'Active Subscriptions', is: 'Subscriptions that have started and not ended, at the end of the interval.' },
  committed_subscriptions: { ...count, display_name: 'Committed Subscriptions', is: 'Active subscriptions without a scheduled end.' },
  monthly_recurring_revenue: {
    ...money,
    display_name: 'Monthly Recurring Revenue',
    is: 'The price of active subscriptions for a month, after discounts and without tax. Subscriptions in a trial are left out.',
  },
  trial_monthly_recurring_revenue: { ...money, display_name: 'Trial Monthly Recurring Revenue', is: 'The price for a month of the subscriptions in a trial.' },
  committed_monthly_recurring_revenue: {
    ...money,
    display_name: 'Committed Monthly Recurring Revenue',
    is: 'Monthly recurring revenue of subscriptions without a scheduled end.',
  },
  trial_committed_monthly_recurring_revenue: {
    ...money,
    display_name: 'Trial Committed Monthly Recurring Revenue',
    is: 'The price for a month of subscriptions in a trial without a scheduled end.',
  },
  average_revenue_per_user: {
    ...money,
    display_name: 'Average Revenue Per User',
    is: 'Monthly recurring revenue for each customer with an active subscription. Customers in a trial count.',
  },
  checkouts: { ...count, display_name: 'Checkouts', is: 'Checkouts that were created.' },
  succeeded_checkouts: { ...count, display_name: 'Succeeded Checkouts', is: 'Checkouts that succeeded, at the time of their success.' },
  churned_subscriptions: { ...count, display_name: 'Churned Subscriptions', is: 'Subscriptions that ended.' },
  churn_rate: {
    ...share,
    display_name: 'Churn Rate',
    is: 'Cancellations of the 30 days before the end of the interval, for each subscription that was active at the start of these days. For years: of the year.',
  },
  seats_total: { ...count, display_name: 'Total Seats', is: 'Seats that active subscriptions and paid orders include.' },
  seats_claimed: { ...count, display_name: 'Claimed Seats', is: 'Seats that a holder has accepted.' },
  seats_pending: { ...count, display_name: 'Pending Seats', is: 'Seats whose invitation is not accepted yet.' },
  seat_customers: { ...count, display_name: 'Seat Customers', is: 'Customers that pay for seats, each counted once.' },
  new_seat_customers: { ...count, display_name: 'New Seat Customers', is: 'Customers that began to pay for seats.' },
  churned_seat_customers: { ...count, display_name: 'Churned Seat Customers', is: 'Customers that stopped to pay for seats.' },
  orders: { ...count, display_name: 'Orders', is: 'Orders that were paid, at the time of their payment. Free orders are paid at once.' },
  revenue: { ...money, display_name: 'Revenue', is: 'The net amounts of paid orders: after discounts, without tax, before refunds.' },
  net_revenue: {
    ...money,
    display_name: 'Net Revenue',
    is: 'Revenue less refunds and lost disputes. A refund counts at its own time, not at that of its order.',
  },
  cumulative_revenue: { ...money, display_name: 'Cumulative Revenue', is: 'All revenue up to the end of the interval.' },
  net_cumulative_revenue: { ...money, display_name: 'Net Cumulative Revenue', is: 'All net revenue up to the end of the interval.' },
  costs: { ...fine, display_name: 'Costs', is: 'The costs in the metadata of your usage events.' },
  cumulative_costs: { ...fine, display_name: 'Cumulative Costs', is: 'All costs up to the end of the interval.' },
  average_order_value: { ...money, display_name: 'Average Order Value', is: 'Revenue for each order, rounded up.' },
  net_average_order_value: { ...money, display_name: 'Net Average Order Value', is: 'Net revenue for each order, rounded up.' },
  cost_per_user: { ...fine, display_name: 'Cost Per User', is: 'Costs for each customer with usage events in the interval.' },
  active_user_by_event: { ...count, display_name: 'Active Users By Event', is: 'Customers with usage events in the interval, each counted once.' },
  one_time_products: { ...count, display_name: 'One-Time Purchases', is: 'Paid orders that belong to no subscription.' },
  one_time_products_revenue: { ...money, display_name: 'One-Time Revenue', is: 'Revenue of orders that belong to no subscription.' },
  one_time_products_net_revenue: { ...money, display_name: 'One-Time Net Revenue', is: 'Net revenue of orders that belong to no subscription.' },
  new_subscriptions: { ...count, display_name: 'New Subscriptions', is: 'Subscriptions that started.' },
  new_subscriptions_revenue: { ...money, display_name: 'New Subscription Revenue', is: 'Revenue of the first orders of subscriptions.' },
  new_subscriptions_net_revenue: { ...money, display_name: 'New Subscription Net Revenue', is: 'Net revenue of the first orders of subscriptions.' },
  renewed_subscriptions: { ...count, display_name: 'Renewed Subscriptions', is: 'Renewals that were paid.' },
  renewed_subscriptions_revenue: {
    ...money,
    display_name: 'Renewed Subscription Revenue',
    is: 'Revenue of all orders of subscriptions after their first: renewals, changes and usage.',
  },
  renewed_subscriptions_net_revenue: {
    ...money,
    display_name: 'Renewed Subscription Net Revenue',
    is: 'Net revenue of all orders of subscriptions after their first.',
  },
  canceled_subscriptions: { ...count, display_name: 'Canceled Subscriptions', is: 'Cancellations that were requested, less those that were taken back.' },
  canceled_subscriptions_customer_service: canceled('Customer Service', 'customer service'),
  canceled_subscriptions_low_quality: canceled('Low Quality', 'low quality'),
  canceled_subscriptions_missing_features: canceled('Missing Features', 'missing features'),
  canceled_subscriptions_switched_service: canceled('Switched Service', 'switched service'),
  canceled_subscriptions_too_complex: canceled('Too Complex', 'too complex'),
  canceled_subscriptions_too_expensive: canceled('Too Expensive', 'too expensive'),
  canceled_subscriptions_unused: canceled('Unused', 'unused'),
  canceled_subscriptions_other: {
    ...count,
    display_name: 'Canceled Subscriptions - Other',
    is: 'Cancellations for another reason or without a reason, less those that were taken back.',
  },
  annual_recurring_revenue: { ...money, display_name: 'Annual Recurring Revenue', is: 'Twelve times the monthly recurring revenue.' },
  committed_annual_recurring_revenue: {
    ...money,
    display_name: 'Committed Annual Recurring Revenue',
    is: 'Twelve times the committed monthly recurring revenue.',
  },
  checkouts_conversion: { ...share, display_name: 'Checkout Conversion', is: 'Succeeded checkouts for each created checkout.' },
  ltv: {
    ...money,
    display_name: 'Lifetime Value',
    is: 'The average revenue per user less the cost per user, divided by the churn rate. It is 0 without churn, and never negative.',
  },
  gross_margin: { ...money, display_name: 'Gross Margin', is: 'Cumulative revenue less cumulative costs.' },
  gross_margin_percentage: { ...share, display_name: 'Gross Margin Percentage', is: 'The gross margin for each unit of cumulative revenue.' },
  cashflow: { ...money, display_name: 'Cashflow', is: 'Revenue less costs.' },
  average_seats_per_customer: { ...count, display_name: 'Average Seats Per Customer', is: 'Total seats for each customer that pays for seats.' },
  seat_utilization_rate: { ...share, display_name: 'Seat Utilization Rate', is: 'Claimed seats for each included seat.' },
} as const satisfies Record<string, { readonly type: MetricUnit; readonly display_name: string; readonly is: string }>

export type MetricSlug = keyof typeof metricSlugs
export const everyMetric = Object.keys(metricSlugs) as [MetricSlug, ...MetricSlug[]]

/** The metrics whose facts explain a metric that is computed from others. All other metrics have facts of their own. */
export const metricSources = {
  average_revenue_per_user: ['monthly_recurring_revenue', 'active_subscriptions'],
  churn_rate: ['canceled_subscriptions', 'active_subscriptions'],
  average_order_value: ['revenue', 'orders'],
  net_average_order_value: ['net_revenue', 'orders'],
  cost_per_user: ['costs', 'active_user_by_event'],
  checkouts_conversion: ['succeeded_checkouts', 'checkouts'],
  ltv: ['monthly_recurring_revenue', 'active_subscriptions', 'costs', 'active_user_by_event', 'canceled_subscriptions'],
  gross_margin_percentage: ['gross_margin', 'cumulative_revenue'],
  average_seats_per_customer: ['seats_total', 'seat_customers'],
  seat_utilization_rate: ['seats_claimed', 'seats_total'],
} as const satisfies Partial<Record<MetricSlug, readonly MetricSlug[]>>
