import { anchorOf, nextPeriod } from './periods.ts'

export interface Run {
  readonly duration: 'once' | 'repeating' | 'forever'
  readonly duration_in_months: number | null
  /** Start of the first period that was billed with the discount; null if none was. */
  readonly applied_at: Date | null
  /** Start of the period to be billed. */
  readonly period_start: Date
}

/**
 * True if the discount no longer applies to this period. `once` covers one period. `repeating` covers every period that
 * starts within its number of months. `forever` never ends. The months count from the first period that was billed with
 * the discount.
 */
export const isDiscountOver = ({ duration, duration_in_months, applied_at, period_start }: Run): boolean => {
  if (applied_at === null || duration === 'forever') return false
  if (duration === 'once') return period_start > applied_at
  if (duration_in_months === null) throw new RangeError('A repeating discount needs a number of months.')
  return period_start > later(applied_at, duration_in_months - 1)
}

/**
 * Adds months. Treats a date on the last day of its month as anchor day 31. The real anchor day may be later than that
 * short month allows.
 */
const later = (from: Date, months: number): Date => {
  if (months === 0) return from
  const tomorrow = nextPeriod(from, 'day', 1, 1).end
  return nextPeriod(from, 'month', months, anchorOf(tomorrow) === 1 ? 31 : anchorOf(from)).end
}
