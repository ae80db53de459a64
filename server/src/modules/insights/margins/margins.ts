import { paginate, window, type CustomerMargins, type listCustomerMargins, type Parsed } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { WallClock } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { questionOf } from '../metrics/metrics.ts'
import { bucketsOf } from '../metrics/ranges.ts'
import { listMargins, type MarginRow } from './margins.sql.ts'

const amountsOf = ({ revenue, cost, margin }: Pick<MarginRow, 'revenue' | 'cost' | 'margin'>) => ({ revenue: Number(revenue), cost, margin })

/** Lists revenue, cost and margin of customers, from the same facts as the metrics. */
export const marginsOf = async (db: Db, clock: WallClock, scope: TenantScope, query: Parsed<typeof listCustomerMargins, 'query'>): Promise<CustomerMargins> => {
  const { start_date, end_date, timezone, organization_id, customer_id, margin_below, sorting } = query
  const buckets = bucketsOf({ start_date, end_date, timezone, interval: 'day' })
  const [since, until] = [buckets[0]!.since, buckets.at(-1)!.until]
  const { question, data_through } = await questionOf(db, clock, scope, { organization_id, customer_id, product_id: [], billing_type: [] })
  const { rows, totals } = await listMargins(db, scope, { question, since, until, margin_below, sorting, ...window(query) })
  const items = rows.map((row) => ({
    organization_id: row.organization_id,
    customer_id: row.customer_id,
    external_customer_id: row.external_customer_id,
    ...amountsOf(row),
    margin_percentage: Number(row.revenue) === 0 ? null : Number(row.margin) / Number(row.revenue),
  }))
  return {
    ...paginate(query, items, totals.customers),
    start: since,
    end: until,
    timezone,
    totals: amountsOf(totals),
    data_through,
    currency: question.currency,
    amounts_left_out: totals.left_out,
  }
}
