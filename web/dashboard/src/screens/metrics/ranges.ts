import type { TimeInterval } from '@bursar/contract'
import metricsLimits from 'contract-data:metricsLimits'
import { one, type Search } from '../../app/search.ts'

/** The days that a screen asks for, by the clock of a time zone. */
export interface Range {
  readonly start_date: string
  readonly end_date: string
  readonly interval: TimeInterval
  readonly timezone: string
}

const dayLength = 86_400_000
const timeOf = (date: string): number => Date.parse(`${date}T00:00:00Z`)
const dateOf = (time: number): string => new Date(time).toISOString().slice(0, 10)
const addDays = (date: string, days: number): string => dateOf(timeOf(date) + days * dayLength)
const partsOf = (date: string): [year: number, month: number, day: number] => {
  const at = new Date(timeOf(date))
  return [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()]
}
const lastDayOf = (year: number, month: number): number => new Date(Date.UTC(year, month + 1, 0)).getUTCDate()

/** Adds months. The last day of a month stays the last day. */
const addMonths = (date: string, months: number): string => {
  const [year, month, day] = partsOf(date)
  const last = lastDayOf(year, month + months)
  return dateOf(Date.UTC(year, month + months, day === lastDayOf(year, month) ? last : Math.min(day, last)))
}
const mondayOf = (date: string): string => addDays(date, -((new Date(timeOf(date)).getUTCDay() + 6) % 7))

/** Returns the day that a moment has by the clock of a zone. */
const dayIn = (zone: string, at: Date): string =>
  new Intl.DateTimeFormat('en-CA', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(at)

/** True if the browser knows the zone. Names such as `Asia/Calcutta` are known too. */
export const isZone = (name: string): boolean => {
  try {
    return /^[A-Za-z]/.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}

const firstOfMonth = (date: string): string => `${date.slice(0, 7)}-01`

/** Ranges that end today, or with the last month. A month or a year begins on its first day, so that its intervals are whole. */
const presets: Readonly<
  Record<string, { readonly from: (today: string) => string; readonly to?: (today: string) => string; readonly interval: TimeInterval }>
> = {
  month: { from: firstOfMonth, interval: 'day' },
  'last-month': { from: (today) => addMonths(firstOfMonth(today), -1), to: (today) => addDays(firstOfMonth(today), -1), interval: 'day' },
  '7d': { from: (today) => addDays(today, -6), interval: 'day' },
  '30d': { from: (today) => addDays(today, -29), interval: 'day' },
  '12w': { from: (today) => addDays(mondayOf(today), -77), interval: 'week' },
  '12m': { from: (today) => addMonths(firstOfMonth(today), -11), interval: 'month' },
  all: { from: () => metricsLimits.min_date, interval: 'year' },
}
export const presetNames = ['7d', '30d', 'month', 'last-month', '12w', '12m', 'all'] as const
export type Preset = (typeof presetNames)[number]
const usual: Preset = '30d'

export const intervals = ['hour', 'day', 'week', 'month', 'year'] as const satisfies readonly TimeInterval[]

const lengthOf = ({ start_date, end_date }: Pick<Range, 'start_date' | 'end_date'>): number => (timeOf(end_date) - timeOf(start_date)) / dayLength

/** Lists the intervals that a range is short enough for. */
export const intervalsOf = (range: Pick<Range, 'start_date' | 'end_date'>): TimeInterval[] =>
  intervals.filter((interval) => lengthOf(range) <= metricsLimits.intervals[interval].max_days)

/** Returns an interval that gives a chart of at most some sixty points. */
const intervalFor = (days: number): TimeInterval => (days < 2 ? 'hour' : days <= 62 ? 'day' : days <= 371 ? 'week' : days <= 1460 ? 'month' : 'year')

const isDay = (text: string | undefined): text is string =>
  text !== undefined && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(timeOf(text)) && dateOf(timeOf(text)) === text

/** Reads the range from the address. Parts that are missing or impossible have their usual values. */
export const rangeOf = (search: Search, usualZone: string, now: Date): Range & { readonly preset: Preset | null } => {
  const named = one(search.zone)
  const timezone = named !== undefined && isZone(named) ? named : usualZone
  const [from, to, wanted] = [one(search.from), one(search.to), one(search.interval)]
  const longest = metricsLimits.intervals.year.max_days
  const isCustom = isDay(from) && isDay(to) && from <= to && from >= metricsLimits.min_date && lengthOf({ start_date: from, end_date: to }) <= longest
  const preset = isCustom ? null : (presetNames.find((name) => name === one(search.range)) ?? usual)
  const today = dayIn(timezone, now)
  const days =
    preset === null ? { start_date: from!, end_date: to! } : { start_date: presets[preset]!.from(today), end_date: presets[preset]!.to?.(today) ?? today }
  const interval = intervalsOf(days).find((interval) => interval === wanted) ?? (preset === null ? intervalFor(lengthOf(days)) : presets[preset]!.interval)
  return { ...days, interval, timezone, preset }
}

/**
 * Returns the range before a range: as many intervals earlier, and ending at the same place of its last interval. So a
 * month that has just begun is compared with the same days of an earlier month. The days of a whole month are compared with
 * the whole month before. Undefined if it begins before all data.
 */
export const previousOf = ({ start_date, end_date, interval, timezone }: Range): Range | undefined => {
  const [first, last] = [partsOf(start_date), partsOf(end_date)]
  const isWholeMonth = start_date === firstOfMonth(end_date) && last[2] === lastDayOf(last[0], last[1])
  const shift = (date: string): string => {
    if (interval === 'day' && isWholeMonth) return addMonths(date, -1)
    if (interval === 'hour' || interval === 'day') return addDays(date, -lengthOf({ start_date, end_date }) - 1)
    if (interval === 'week') return addDays(date, -lengthOf({ start_date: mondayOf(start_date), end_date: mondayOf(end_date) }) - 7)
    const years = last[0] - first[0]
    return addMonths(date, interval === 'year' ? -12 * (years + 1) : -(12 * years + last[1] - first[1] + 1))
  }
  const before = { start_date: shift(start_date), end_date: shift(end_date), interval, timezone }
  return before.start_date >= metricsLimits.min_date && intervalsOf(before).includes(interval) ? before : undefined
}
