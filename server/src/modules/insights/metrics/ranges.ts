import { firstMetricDay, InvalidRequest, mostDays, type TimeInterval } from '@bursar/contract'
import type { Bucket } from '../calc/buckets.ts'
import { bucketStarts, momentOf } from '../../usage/index.ts'
import { days, later } from '../../../platform/clock.ts'

export interface AskedRange {
  readonly start_date: string
  readonly end_date: string
  readonly interval: TimeInterval
  readonly timezone: string
}

/** Returns the moment at which a day begins by the clock of a zone. */
const midnight = (date: string, zone: string): Date => new Date(momentOf(Date.parse(`${date}T00:00:00Z`), zone))
const dayAfter = (date: string): string =>
  later(new Date(`${date}T00:00:00Z`), 1 * days)
    .toISOString()
    .slice(0, 10)

/** The longest interval, with the changes of the clock. */
const longest = 367 * days
const churnDays = 30 * days

const earlier = (one: Date, other: Date) => (one < other ? one : other)
const laterOf = (one: Date, other: Date) => (one > other ? one : other)

const refuseRange = ({ start_date, end_date, interval }: AskedRange): void => {
  const problem = (field: 'start_date' | 'end_date', input: string, msg: string) =>
    new InvalidRequest({ loc: ['query', field], msg, type: 'value_error', input })
  if (start_date < firstMetricDay) throw problem('start_date', start_date, `Received ${start_date}. The first day is ${firstMetricDay}.`)
  if (end_date < start_date) throw problem('end_date', end_date, `The end ${end_date} is before the start ${start_date}. Send an end at or after the start.`)
  const length = (Date.parse(`${end_date}T00:00:00Z`) - Date.parse(`${start_date}T00:00:00Z`)) / days
  if (length > mostDays[interval])
    throw problem(
      'end_date',
      end_date,
      `With the interval ${interval}, a range has at most ${mostDays[interval]} days. Send an earlier end, or a longer interval.`,
    )
}

const bucketAt = (starts_at: Date, next: Date | undefined, interval: TimeInterval, timezone: string): Pick<Bucket, 'starts_at' | 'ends_at' | 'trailing'> => {
  const ends_at = next ?? bucketStarts({ start: starts_at, end: later(starts_at, longest) }, interval, timezone)[1]!
  return { starts_at, ends_at, trailing: interval === 'year' ? starts_at : later(ends_at, -churnDays) }
}

/** Returns the intervals of a range of days, oldest first. Throws if the range is not valid. */
export const bucketsOf = (range: AskedRange): Bucket[] => {
  refuseRange(range)
  const { interval, timezone } = range
  const start = midnight(range.start_date, timezone)
  const end = midnight(dayAfter(range.end_date), timezone)
  const starts = bucketStarts({ start, end }, interval, timezone)
  return starts.map((starts_at, at) => {
    const bucket = bucketAt(starts_at, starts[at + 1], interval, timezone)
    return { ...bucket, since: laterOf(bucket.starts_at, start), until: earlier(bucket.ends_at, end) }
  })
}

/** Returns the interval that contains a moment, cut to the asked days if they are given. */
export const bucketAround = (
  moment: Date,
  { interval, timezone, start_date, end_date }: Pick<AskedRange, 'interval' | 'timezone'> & { start_date?: string | undefined; end_date?: string | undefined },
): Bucket => {
  const [starts_at] = bucketStarts({ start: moment, end: moment }, interval, timezone)
  const bucket = bucketAt(starts_at!, undefined, interval, timezone)
  const since = start_date === undefined ? bucket.starts_at : laterOf(bucket.starts_at, midnight(start_date, timezone))
  const until = end_date === undefined ? bucket.ends_at : earlier(bucket.ends_at, midnight(dayAfter(end_date), timezone))
  return { ...bucket, since, until: laterOf(since, until) }
}
