import type { Aggregation } from '@bursar/contract'
import { addDecimals, compareDecimals, divideDecimal, writeDecimal, type Decimal } from '../../../kernel/decimals.ts'
import { decimalOf, isNumber, textOf, valueAt, type Counted } from './filters.ts'

/** Maximum number of decimal places of an average. Averages are rounded half away from zero. */
export const averageDigits = 12

/**
 * The sums of many events, from which every quantity except `unique` follows. Tallies of different events can be merged.
 * Averages cannot be merged, so a tally keeps the total and the count instead.
 */
export interface Tally {
  /** The number of counted events: all for `count`, those with a value for `unique`, those with a number for the others. */
  readonly count: number
  readonly total: Decimal
  readonly low: Decimal | null
  readonly high: Decimal | null
}

const zero: Decimal = { units: 0n, scale: 0 }
export const emptyTally: Tally = { count: 0, total: zero, low: null, high: null }

const one: Tally = { ...emptyTally, count: 1 }

/** Returns what one event adds to a meter with this aggregation. Null if the event has no value that the aggregation counts. `valueOf` reads a property. */
export const contributionOf = (aggregation: Aggregation, event: Counted, valueOf = valueAt): Tally | null => {
  if (aggregation.func === 'count') return one
  const value = valueOf(aggregation.property, event)
  if (value === undefined) return null
  if (aggregation.func === 'unique') return one
  if (!isNumber(value)) return null
  const number = decimalOf(value)
  return { count: 1, total: number, low: number, high: number }
}

const least = (a: Decimal | null, b: Decimal | null) => (a && b ? (compareDecimals(a, b) <= 0 ? a : b) : (a ?? b))
const most = (a: Decimal | null, b: Decimal | null) => (a && b ? (compareDecimals(a, b) >= 0 ? a : b) : (a ?? b))

export const mergeTallies = (a: Tally, b: Tally): Tally => ({
  count: a.count + b.count,
  total: addDecimals(a.total, b.total),
  low: least(a.low, b.low),
  high: most(a.high, b.high),
})

/** Returns the quantity of a tally as decimal text. A tally without events has the quantity 0. */
export const quantityOf = (func: Exclude<Aggregation['func'], 'unique'>, { count, total, low, high }: Tally): string => {
  if (count === 0) return '0'
  switch (func) {
    case 'count':
      return String(count)
    case 'sum':
      return writeDecimal(total)
    case 'max':
      return writeDecimal(high ?? zero)
    case 'min':
      return writeDecimal(low ?? zero)
    case 'avg':
      return writeDecimal(divideDecimal(total, BigInt(count), averageDigits))
  }
}

/**
 * Returns the text that identifies the value which `unique` counts. Text, numbers and booleans are different values.
 * Numbers of equal value are the same, with any number of decimal places.
 */
export const uniqueValueOf = (property: string, event: Counted): string | undefined => {
  const value = valueAt(property, event)
  if (value === undefined) return undefined
  return isNumber(value) ? `number ${writeDecimal(decimalOf(value))}` : `${typeof value} ${textOf(value)}`
}

/**
 * Aggregates the events of a meter into an exact decimal, without floating-point errors. `aggregations.sql.ts` implements
 * the same rules. Numeric functions ignore values that are not numbers. Without events, the result is 0.
 */
export const aggregate = (aggregation: Aggregation, events: readonly Counted[]): string => {
  if (aggregation.func === 'unique') return String(new Set(events.flatMap((event) => uniqueValueOf(aggregation.property, event) ?? [])).size)
  return quantityOf(aggregation.func, events.flatMap((event) => contributionOf(aggregation, event) ?? []).reduce(mergeTallies, emptyTally))
}
