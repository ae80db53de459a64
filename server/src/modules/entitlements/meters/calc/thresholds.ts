import { usageThresholds, type UsageThresholdPercent } from '@bursar/contract'
import { compareDecimals, multiplyDecimals, readDecimal } from '../../../../kernel/decimals.ts'

/** How much of a limit is used in a period. Numbers are decimal text. */
export interface UsedLimit {
  /** Null if all usage counts. */
  readonly period_start: Date | null
  readonly consumed: string
  readonly limit: string
}

/** The state of a limit after the last announcement. */
export interface AnnouncedLimit extends Pick<UsedLimit, 'period_start' | 'limit'> {
  /** The highest announced threshold. 0 if none was announced. */
  readonly percent: number
}

/** The new state of a limit. `reached` is the threshold to announce now. `isChanged` is true if the state must be stored. */
export interface ThresholdStep extends AnnouncedLimit {
  readonly reached: UsageThresholdPercent | null
  readonly isChanged: boolean
}

/** Returns the highest threshold that the consumed part of a limit has reached, or 0. */
export const levelOf = (consumed: string, limit: string): UsageThresholdPercent | 0 => {
  const used = multiplyDecimals(readDecimal(consumed), readDecimal('100'))
  const isReached = (percent: number) => compareDecimals(used, multiplyDecimals(readDecimal(limit), readDecimal(String(percent)))) >= 0
  return usageThresholds.findLast(isReached) ?? 0
}

const startsAfter = (one: Date | null, other: Date | null): boolean => (one?.getTime() ?? -Infinity) > (other?.getTime() ?? -Infinity)

/**
 * Returns the next step of a limit. Announces the highest threshold that was reached, once in a period. Usage that falls and rises again
 * announces nothing. A later period begins anew. A higher limit also begins anew: thresholds above the used share can be reached again. If
 * the higher limit is used up too, this is announced.
 */
export const nextThreshold = (before: AnnouncedLimit | undefined, now: UsedLimit): ThresholdStep => {
  const { limit } = now
  const level = levelOf(now.consumed, limit)
  const isNew = !before || startsAfter(now.period_start, before.period_start)
  const announced = isNew ? 0 : announcedBefore(before, limit, level)
  const reached = level > announced ? level || null : null
  const percent = reached ?? announced
  const isChanged = reached !== null || (before !== undefined && (percent !== before.percent || limit !== before.limit))
  // A subscription may end while its credits remain. Usage then counts from an earlier time on. This begins no new period.
  return { period_start: isNew ? now.period_start : before.period_start, limit, percent, reached, isChanged }
}

/** Returns the highest threshold that counts as announced in the same period. A higher limit can be reached again. */
const announcedBefore = (before: AnnouncedLimit, limit: string, level: number): number => {
  const isHigher = compareDecimals(readDecimal(limit), readDecimal(before.limit)) > 0
  return isHigher ? Math.min(before.percent, level === 100 ? 80 : level) : before.percent
}
