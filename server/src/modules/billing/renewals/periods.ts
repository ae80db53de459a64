import type { LineLabel } from '@bursar/views'
import type { DiscountTable } from '../../catalog/index.ts'
import { isDiscountOver } from '../calc/discounts-over-time.ts'
import { nextPeriod } from '../calc/periods.ts'
import { labelOf, staticLines } from '../invoicing/applying.ts'
import type { LoadedSubscription, SubscriptionRow } from '../records/subscriptions.sql.ts'

/** The next period of a subscription, and the columns that it changes. */
interface NextPeriod {
  readonly period: { readonly start: Date; readonly end: Date }
  /** The discount of the period. Null if there is none, or if it has expired. */
  readonly discount: DiscountTable | null
  readonly changes: Partial<SubscriptionRow>
}

/**
 * Computes the period that begins at `start`. `shaped` is the subscription with all changes that begin with the period.
 * The end of the period follows the anchor day, even if the last period ended earlier in a short month.
 */
export const periodFrom = (start: Date, shaped: SubscriptionRow, loaded: LoadedSubscription): NextPeriod => {
  const period = nextPeriod(start, shaped.recurring_interval, shaped.recurring_interval_count, shaped.anchor_day)
  const discount = loaded.discount && !isOver(loaded, start) ? loaded.discount : null
  return {
    period,
    discount,
    changes: {
      status: shaped.status === 'past_due' ? 'past_due' : 'active',
      current_period_start: period.start,
      current_period_end: period.end,
      discount_id: discount?.id ?? null,
      period_discount_id: discount?.id ?? null,
      discount_applied_at: discount === null ? null : (shaped.discount_applied_at ?? start),
    },
  }
}

const isOver = ({ discount, subscription }: LoadedSubscription, period_start: Date): boolean =>
  isDiscountOver({ ...discount!, applied_at: subscription.discount_applied_at, period_start })

/** An order line for a new period. */
export interface PeriodLine {
  readonly product_price_id: string
  readonly label: LineLabel
  readonly amount: number
  readonly proration: false
}

/** Returns the order lines of the current period, one for each price that is paid in advance. */
export const periodLines = ({ subscription, prices, product }: LoadedSubscription): PeriodLine[] =>
  staticLines(prices, subscription).map(({ product_price_id, amount, seats }) => ({
    product_price_id,
    amount,
    label: labelOf(product.product.name, seats),
    proration: false,
  }))
