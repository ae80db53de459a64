import { isDiscountOver } from './discounts-over-time.ts'
import { anchorOf, nextPeriod, type Interval } from './periods.ts'

/** A purchase as the buyer sees it before paying. */
export interface Purchase {
  /** Amounts before discount and tax, and after both. */
  readonly amount: number
  readonly discount_amount: number
  readonly net_amount: number
  /** Null if the tax is not known yet. */
  readonly tax_amount: number | null
  readonly tax_behavior: 'inclusive' | 'exclusive' | null
  readonly total_amount: number
  readonly is_payment_required: boolean
  /** Null for a one-time purchase. */
  readonly interval: Interval | null
  readonly interval_count: number
  readonly discount: { readonly duration: 'once' | 'repeating' | 'forever'; readonly duration_in_months: number | null } | null
  readonly trial_end: Date | null
}

/** The recurring amount from a day on, until the next entry. `plus_tax` is true if the tax is not known today. */
export interface LaterAmount {
  readonly from: Date
  readonly amount: number
  readonly plus_tax: boolean
}

export interface Schedule {
  readonly today: number
  readonly later: readonly LaterAmount[]
}

/**
 * Returns the amounts due today and later. Uses the same periods and discount ends as renewals. Includes only certain
 * amounts: an unknown tax is flagged, not estimated.
 */
export const scheduleOf = (purchase: Purchase, now: Date): Schedule => {
  const { amount, total_amount, tax_amount, trial_end, interval } = purchase
  const today = purchase.is_payment_required && trial_end === null ? total_amount : 0
  if (interval === null) return { today, later: [] }
  const first = trial_end ?? now
  const after = (start: Date) => nextPeriod(start, interval, purchase.interval_count, anchorOf(first)).end
  const discount = purchase.discount_amount > 0 ? purchase.discount : null
  const isOver = (period_start: Date) => discount !== null && isDiscountOver({ ...discount, applied_at: first, period_start })
  const likeToday = (from: Date): LaterAmount => ({ from, amount: total_amount, plus_tax: tax_amount === null })
  const coming: LaterAmount[] = []
  if (trial_end !== null) coming.push(likeToday(trial_end))
  let start = after(first)
  if (trial_end === null && !isOver(start)) coming.push(likeToday(start))
  if (discount !== null && discount.duration !== 'forever') {
    while (!isOver(start)) start = after(start)
    coming.push({ from: start, amount, plus_tax: !isTaxCertain(purchase) })
  }
  return { today, later: coming.filter((one) => one.amount > 0) }
}

/**
 * True if the tax of later charges is known today. With inclusive prices, the tax does not change the amount to pay. If
 * no tax was added to a positive price today, none is added later.
 */
const isTaxCertain = ({ tax_amount, tax_behavior, net_amount }: Purchase): boolean =>
  tax_amount !== null && (tax_behavior === 'inclusive' || (tax_amount === 0 && net_amount > 0))
