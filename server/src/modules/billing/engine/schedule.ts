import { isDiscountOver } from './discounts-over-time.ts'
import { anchorOf, nextPeriod, type Interval } from './periods.ts'

/** A purchase as a buyer is shown it before they pay. */
export interface Purchase {
  /** Before discount and tax, and after both. */
  readonly amount: number
  readonly discount_amount: number
  readonly net_amount: number
  /** Null: not known yet. */
  readonly tax_amount: number | null
  readonly tax_behavior: 'inclusive' | 'exclusive' | null
  readonly total_amount: number
  readonly is_payment_required: boolean
  /** Null: bought once. */
  readonly interval: Interval | null
  readonly interval_count: number
  readonly discount: { readonly duration: 'once' | 'repeating' | 'forever'; readonly duration_in_months: number | null } | null
  readonly trial_end: Date | null
}

/** What is asked for again and again from a day on, until the next entry; `plus_tax` where the tax cannot be told today. */
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
 * What is paid today, and what is paid from when on: by the same calendar and the same end of discounts that renewals go
 * by. Nothing is said that is not certain: a tax on a price that was not taxed yet is added in words, not guessed.
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

/** A price that holds its tax is the same with a discount or without; one to which nothing was added gets nothing added. */
const isTaxCertain = ({ tax_amount, tax_behavior, net_amount }: Purchase): boolean =>
  tax_amount !== null && (tax_behavior === 'inclusive' || (tax_amount === 0 && net_amount > 0))
