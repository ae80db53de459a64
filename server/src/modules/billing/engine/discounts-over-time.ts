import { anchorOf, nextPeriod } from './periods.ts'

export interface Run {
  readonly duration: 'once' | 'repeating' | 'forever'
  readonly duration_in_months: number | null
  /** The start of the first period that was billed with the discount; null: none was. */
  readonly applied_at: Date | null
  /** The start of the period to be billed. */
  readonly period_start: Date
}

/**
 * Whether the discount has had its time before this period: once is one period, repeating is every period that begins in
 * its months, counted from the first, and forever is forever. Its time does not run before it was first billed.
 */
export const isDiscountOver = ({ duration, duration_in_months, applied_at, period_start }: Run): boolean => {
  if (applied_at === null || duration === 'forever') return false
  if (duration === 'once') return period_start > applied_at
  if (duration_in_months === null) throw new RangeError('A discount that repeats does so for some months.')
  return period_start > later(applied_at, duration_in_months - 1)
}

/** From a month's last day to a month's last day: the anchor may be later than a short month can show, and comes back. */
const later = (from: Date, months: number): Date => {
  if (months === 0) return from
  const tomorrow = nextPeriod(from, 'day', 1, 1).end
  return nextPeriod(from, 'month', months, anchorOf(tomorrow) === 1 ? 31 : anchorOf(from)).end
}
