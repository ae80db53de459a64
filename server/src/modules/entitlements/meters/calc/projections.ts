import type { Aggregation } from '@bursar/contract'
import { divideDecimal, multiplyDecimals, readDecimal, writeDecimal } from '../../../../kernel/decimals.ts'

const day = 86_400_000

/** A period with the time that has passed of it. */
interface Passed {
  readonly period_start: Date
  readonly period_end: Date
  readonly at: Date
}

/**
 * Returns the units at the end of a period if usage goes on as it did so far, as decimal text. Only numbers and sums grow
 * with time. A maximum, a minimum, an average or a number of unique values is returned unchanged. Returns null while too
 * little time has passed: in the first day, or in the first half of a period that is shorter than two days.
 */
export const projectUnits = (func: Aggregation['func'], consumed: string, { period_start, period_end, at }: Passed): string | null => {
  const length = period_end.getTime() - period_start.getTime()
  const passed = Math.min(at.getTime() - period_start.getTime(), length)
  if (passed <= 0 || passed < Math.min(day, length / 2)) return null
  if (func !== 'count' && func !== 'sum') return consumed
  const used = readDecimal(consumed)
  if (passed === length || used.units <= 0n) return consumed
  return writeDecimal(divideDecimal(multiplyDecimals(used, readDecimal(String(length))), BigInt(passed), used.scale === 0 ? 0 : 2))
}
