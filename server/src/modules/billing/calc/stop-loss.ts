import type { Interval } from './periods.ts'

const day = 86_400_000

export interface Billing {
  readonly recurring_interval: Interval
  readonly recurring_interval_count: number
  /** Start of the period about to be billed. */
  readonly period_start: Date
  /** Starts of the last periods that were billed since the current calendar began (`calendar_from`), in any order. */
  readonly earlier: readonly Date[]
}

/**
 * True if this period starts sooner than any valid calendar allows. Compares its start with each earlier start and the
 * number of periods between them. Also true if the period does not start after every earlier one. Never true for a
 * valid calendar, with any anchor day.
 */
export const billedTooOften = ({ recurring_interval, recurring_interval_count, period_start, earlier }: Billing): boolean =>
  earlier
    .toSorted((a, b) => b.getTime() - a.getTime())
    .some((start, since) => {
      const passed = period_start.getTime() - start.getTime()
      // The condition is negated, so that an invalid date (NaN) also returns true.
      return !(passed > 0 && passed >= shortest(recurring_interval, recurring_interval_count * (since + 1)) * day)
    })

/**
 * Returns the minimum number of days that `count` intervals can last. Does not use `nextPeriod`, because the stop-loss
 * check must detect errors of that function. A month lasts at least 28 days, and twelve months at least 365.
 */
const shortest = (interval: Interval, count: number): number => {
  switch (interval) {
    case 'day':
      return count
    case 'week':
      return 7 * count
    case 'month':
      return 365 * Math.floor(count / 12) + 28 * (count % 12)
    case 'year':
      return 365 * count
  }
}
