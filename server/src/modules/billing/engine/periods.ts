export type Interval = 'day' | 'week' | 'month' | 'year'

/** Half-open: the end belongs to the next one. */
export interface Period {
  readonly start: Date
  readonly end: Date
}

const day = 86_400_000

/**
 * The period that begins at `start`: it ends later than that, at the same time of day in UTC. Months and years end on the
 * anchor day, or on the last day of a month that is too short; the anchor is not forgotten, so that the 31st comes back.
 */
export const nextPeriod = (start: Date, interval: Interval, count: number, anchor_day: number): Period => {
  if (!Number.isInteger(anchor_day) || anchor_day < 1 || anchor_day > 31) throw new RangeError(`There is no day ${anchor_day} in a month.`)
  return { start, end: later(start, interval, count, anchor_day) }
}

/** The moment a trial that begins at `start` is over: the same day of a later month, or its last. */
export const trialEnd = (start: Date, interval: Interval, count: number): Date => later(start, interval, count, anchorOf(start))

/** The day of the month on which periods counted from this moment begin. */
export const anchorOf = (start: Date): number => start.getUTCDate()

const later = (start: Date, interval: Interval, count: number, anchor: number): Date => {
  if (!Number.isInteger(count) || count < 1) throw new RangeError(`A period lasts at least one ${interval}, not ${count}.`)
  const end = new Date(start)
  if (interval === 'day' || interval === 'week') end.setTime(start.getTime() + count * day * (interval === 'week' ? 7 : 1))
  else {
    const month = start.getUTCMonth() + count * (interval === 'year' ? 12 : 1)
    end.setUTCFullYear(start.getUTCFullYear(), month, Math.min(anchor, lastDay(start.getUTCFullYear(), month)))
  }
  if (Number.isNaN(end.getTime())) throw new RangeError(`${count} times a ${interval} is beyond the calendar.`)
  return end
}

/** Day 0 of the month after. Months may be counted beyond the year's end, as the calendar does. */
const lastDay = (year: number, month: number): number => {
  const end = new Date(0)
  end.setUTCFullYear(year, month + 1, 0)
  return end.getUTCDate()
}
