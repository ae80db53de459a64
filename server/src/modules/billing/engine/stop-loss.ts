import type { Interval } from './periods.ts'

const day = 86_400_000

export interface Billing {
  readonly recurring_interval: Interval
  readonly recurring_interval_count: number
  /** The start of the period about to be billed. */
  readonly period_start: Date
  /** The starts of the last periods that were billed by the present calendar, in any order. */
  readonly earlier: readonly Date[]
}

/**
 * Whether this period comes sooner than any calendar of such periods allows, after one of the earlier ones and as many
 * as came since, or not after all of them. No true calendar is ever stopped, whatever its anchor.
 */
export const billedTooOften = ({ recurring_interval, recurring_interval_count, period_start, earlier }: Billing): boolean =>
  earlier
    .toSorted((a, b) => b.getTime() - a.getTime())
    .some((start, since) => {
      const passed = period_start.getTime() - start.getTime()
      // So put that a date which is none is stopped too.
      return !(passed > 0 && passed >= shortest(recurring_interval, recurring_interval_count * (since + 1)) * day)
    })

/**
 * The fewest days that so many intervals can last. It does not ask `nextPeriod`, whose mistakes it is to catch. From one
 * anchor day to that of the next month there are at least as many days as the shorter of both months has, hence 28, and
 * to that of the next year at least 365: short months need no allowance.
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
