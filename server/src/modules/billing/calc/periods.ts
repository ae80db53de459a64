export type Interval = 'day' | 'week' | 'month' | 'year'

/** A billing period. The start belongs to the period. The end belongs to the next period. */
export interface Period {
  readonly start: Date
  readonly end: Date
}

const day = 86_400_000

/**
 * Returns the period that starts at `start` and ends at the same time of day in UTC. Monthly and yearly periods end on
 * the anchor day, or on the last day of a shorter month. The anchor day itself does not change. Periods anchored to the
 * 31st end on the 31st again in longer months.
 */
export const nextPeriod = (start: Date, interval: Interval, count: number, anchor_day: number): Period => {
  if (!Number.isInteger(anchor_day) || anchor_day < 1 || anchor_day > 31) throw new RangeError(`There is no day ${anchor_day} in a month.`)
  return { start, end: later(start, interval, count, anchor_day) }
}

/**
 * Returns the end of a trial that begins at `start`. A trial counted in months ends on the same day of a later month,
 * or on the last day of a shorter month.
 */
export const trialEnd = (start: Date, interval: Interval, count: number): Date => later(start, interval, count, anchorOf(start))

/** Returns the day of the month on which periods counted from this time start. */
export const anchorOf = (start: Date): number => start.getUTCDate()

const later = (start: Date, interval: Interval, count: number, anchor: number): Date => {
  if (!Number.isInteger(count) || count < 1) throw new RangeError(`A period lasts at least one ${interval}, not ${count}.`)
  const end = new Date(start)
  if (interval === 'day' || interval === 'week') end.setTime(start.getTime() + count * day * (interval === 'week' ? 7 : 1))
  else {
    const month = start.getUTCMonth() + count * (interval === 'year' ? 12 : 1)
    end.setUTCFullYear(start.getUTCFullYear(), month, Math.min(anchor, lastDay(start.getUTCFullYear(), month)))
  }
  if (Number.isNaN(end.getTime())) throw new RangeError(`${count} times a ${interval} exceeds the range of the calendar.`)
  return end
}

/** Returns the last day of a month, as day 0 of the following month. `month` may exceed 11, as `Date` allows. */
const lastDay = (year: number, month: number): number => {
  const end = new Date(0)
  end.setUTCFullYear(year, month + 1, 0)
  return end.getUTCDate()
}
