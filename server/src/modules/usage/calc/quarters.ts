import type { Aggregation, Filter } from '@bursar/contract'

/** Length of the time in which usage is added up. All offsets of all time zones are multiples of it. */
export const quarter = 900_000

export const quarterOf = (at: Date): number => Math.floor(at.getTime() / quarter) * quarter

/** The parts of a meter that counting needs. A new version begins when the filter or the aggregation changes. */
export interface CountingMeter {
  readonly id: string
  readonly version: number
  readonly filter: Filter
  readonly aggregation: Aggregation
}

/** The usage of a subject on a meter in a quarter hour, by the time of the events. Numbers are decimal text. */
export interface QuarterTally {
  readonly meter_id: string
  readonly version: number
  readonly subject_id: string
  readonly starts_at: Date
  readonly count: number
  readonly total: string
  readonly low: string | null
  readonly high: string | null
}

/**
 * Divides a time range into the whole quarter hours `from` … `to`, whose totals are stored, and the parts before and after
 * them, whose events must be read. Null means without bound. If the range has no whole quarter hour, `from` and `to` are
 * its end, so that the part before is the whole range.
 */
export const wholeQuarters = ({ since, until }: { readonly since: Date | null; readonly until: Date | null }): { from: Date | null; to: Date | null } => {
  const from = since && new Date(Math.ceil(since.getTime() / quarter) * quarter)
  const to = until && new Date(quarterOf(until))
  return from && to && from >= to ? { from: until, to: until } : { from, to }
}
