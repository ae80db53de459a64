import type { TimeInterval } from '@bursar/contract'
import { day, hour, localTime, momentOf } from './zones.ts'

/** Returns the local midnight at which the interval with this local time begins. Weeks begin on Monday. */
const beginOf = (local: number, interval: Exclude<TimeInterval, 'hour'>): Date => {
  const at = new Date(Math.floor(local / day) * day)
  if (interval === 'week') at.setUTCDate(at.getUTCDate() - ((at.getUTCDay() + 6) % 7))
  if (interval === 'month' || interval === 'year') at.setUTCDate(1)
  if (interval === 'year') at.setUTCMonth(0)
  return at
}

const nextOf = (begin: Date, interval: Exclude<TimeInterval, 'hour'>): Date => {
  const next = new Date(begin)
  if (interval === 'day' || interval === 'week') next.setUTCDate(next.getUTCDate() + (interval === 'day' ? 1 : 7))
  else if (interval === 'month') next.setUTCMonth(next.getUTCMonth() + 1)
  else next.setUTCFullYear(next.getUTCFullYear() + 1)
  return next
}

const beyond = (at: number) => ((at % hour) + hour) % hour

/** Yields the moments at which hours of the local clock begin. An hour is longer if the clock is set back by a part of an hour. */
function* hoursOf(start: number, zone: string): Generator<number> {
  let at = start - beyond(localTime(start, zone))
  for (;;) {
    yield at
    at += hour
    const over = beyond(localTime(at, zone))
    if (over > 0) at += hour - over
  }
}

/** Yields the moments at which days, weeks, months or years of the local clock begin. A day that the clock skips has no moment. */
function* datesOf(start: number, interval: Exclude<TimeInterval, 'hour'>, zone: string): Generator<number> {
  let last = Number.NEGATIVE_INFINITY
  for (let begin = beginOf(localTime(start, zone), interval); ; begin = nextOf(begin, interval)) {
    const at = momentOf(begin.getTime(), zone)
    if (at > last) yield at
    last = Math.max(last, at)
  }
}

/**
 * Returns the starts of the intervals that contain a moment of the range, oldest first. The range does not contain its
 * end. A range without length has the interval of its start.
 */
export const bucketStarts = (range: { readonly start: Date; readonly end: Date }, interval: TimeInterval, zone: string): Date[] => {
  const [start, end] = [range.start.getTime(), range.end.getTime()]
  const found: number[] = []
  for (const at of interval === 'hour' ? hoursOf(start, zone) : datesOf(start, interval, zone)) {
    if (at > start && at >= end) break
    // The interval of the start is the last one that begins at or before it.
    if (at <= start) found.length = 0
    found.push(at)
  }
  return found.map((at) => new Date(at))
}
