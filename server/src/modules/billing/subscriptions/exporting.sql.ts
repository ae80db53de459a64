import type { exportSubscriptions, Parsed, SubscriptionExportColumn } from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { among, amount, between, exportOf, moment, plain, step, text, type Column, type Export } from '../../../platform/postgres/exports.sql.ts'

/**
 * SQL for the discount of the current period. Matches the calculation in `calc/discounts.ts`: rounded half away from
 * zero to the smallest payable unit, at most the amount.
 */
const reduction = `least(s.amount, coalesce(case when d.type = 'percentage' and d.basis_points >= 10000 then s.amount when d.type = 'percentage'
    then round(s.amount::numeric * d.basis_points / (10000 * ${step('s.currency')})) * ${step('s.currency')}
    else (d.amounts ->> s.currency)::bigint end, 0))::bigint`

const columns: Record<SubscriptionExportColumn, Column> = {
  email: { header: 'Email', cell: text('c.email') },
  started_at: { header: 'Started At', cell: moment('s.started_at') },
  product: { header: 'Product', cell: text('p.name') },
  amount: { header: 'Amount', cell: amount('s.amount', 's.currency') },
  currency: { header: 'Currency', cell: plain('s.currency') },
  status: { header: 'Status', cell: plain('s.status') },
  recurring_interval: {
    header: 'Recurring Interval',
    cell: plain(`case when s.recurring_interval_count = 1 then s.recurring_interval else s.recurring_interval_count || ' ' || s.recurring_interval || 's' end`),
  },
  customer_name: { header: 'Customer Name', cell: text('c.name') },
  billing_name: { header: 'Billing Name', cell: text('c.billing_name') },
  billing_country: { header: 'Billing Country', cell: text(`(c.billing_address ->> 'country')`) },
  net_amount: { header: 'Net Amount', cell: amount(`(s.amount - ${reduction})`, 's.currency') },
  discount: { header: 'Discount', cell: text('d.name') },
  seats: { header: 'Seats', cell: plain('s.seats') },
  current_period_start: { header: 'Current Period Start', cell: moment('s.current_period_start') },
  current_period_end: { header: 'Current Period End', cell: moment('s.current_period_end') },
  cancel_at_period_end: { header: 'Cancel At Period End', cell: plain('s.cancel_at_period_end::text') },
  canceled_at: { header: 'Canceled At', cell: moment('s.canceled_at') },
  ends_at: { header: 'Ends At', cell: moment('s.ends_at') },
  ended_at: { header: 'Ended At', cell: moment('s.ended_at') },
  cancellation_reason: { header: 'Cancellation Reason', cell: text('s.customer_cancellation_reason') },
  trial_start: { header: 'Trial Start', cell: moment('s.trial_start') },
  trial_end: { header: 'Trial End', cell: moment('s.trial_end') },
}
const usual = Object.keys(columns).slice(0, 7) as SubscriptionExportColumn[]

/** Builds the export of the subscriptions in scope. */
export const subscriptionsExport = (scope: TenantScope, query: Parsed<typeof exportSubscriptions, 'query'>): Export =>
  exportOf(
    {
      table: 'subscriptions',
      alias: 's',
      joined: `left join customers c on c.organization_id = s.organization_id and c.id = s.customer_id
        left join products p on p.organization_id = s.organization_id and p.id = s.product_id
        left join discounts d on d.organization_id = s.organization_id and d.id = s.period_discount_id`,
      newest: 'coalesce(s.started_at, s.created_at)',
      counted: ['subscriptions'],
    },
    (query.columns.length === 0 ? usual : query.columns).map((name) => columns[name]),
    {
      organizations: organizationIds(scope, query.organization_id),
      timezone: query.timezone,
      filters: [
        among('s.product_id', 'uuid[]', 'product_id', query.product_id),
        among('s.status', 'text[]', 'status', query.status),
        { name: 'cancel_at_period_end', type: 'boolean', value: query.cancel_at_period_end, holds: (asked) => `s.cancel_at_period_end = ${asked}` },
        ...between('s.started_at', ['started_after', 'started_before'], query.started_after, query.started_before),
      ],
    },
  )
