import { trimEndOf } from '../../../kernel/texts.ts'
import type { Aggregation } from '@bursar/contract'
import { textOf, valueAt, type Counted } from './filters.ts'

/** Maximum number of decimal places of an average. Averages are rounded half away from zero. */
export const averageDigits = 12

/**
 * Aggregates the events of a meter into an exact decimal, without floating-point errors. `aggregations.sql.ts` implements
 * the same rules. Numeric functions ignore values that are not numbers. `unique` treats text, numbers and booleans as
 * different values. Without events, the result is 0.
 */
export const aggregate = (aggregation: Aggregation, events: readonly Counted[]): string => {
  if (aggregation.func === 'count') return String(events.length)
  const found = events.flatMap((event) => valueAt(aggregation.property, event) ?? [])
  if (aggregation.func === 'unique') return String(new Set(found.map((value) => `${typeof value} ${textOf(value)}`)).size)
  const numbers = found.filter((value) => typeof value === 'number').map((value) => readDecimal(textOf(value)))
  if (numbers.length === 0) return '0'
  const scale = Math.max(...numbers.map((one) => one.scale))
  const units = numbers.map((one) => one.units * 10n ** BigInt(scale - one.scale))
  const total = units.reduce((sum, one) => sum + one, 0n)
  switch (aggregation.func) {
    case 'sum':
      return writeDecimal(total, scale)
    case 'max':
      return writeDecimal(
        units.reduce((most, one) => (one > most ? one : most)),
        scale,
      )
    case 'min':
      return writeDecimal(
        units.reduce((least, one) => (one < least ? one : least)),
        scale,
      )
    case 'avg': {
      const count = BigInt(units.length) * 10n ** BigInt(scale)
      const twice = 2n * total * 10n ** BigInt(averageDigits)
      return writeDecimal((twice + (total < 0n ? -count : count)) / (2n * count), averageDigits)
    }
  }
}

const readDecimal = (text: string): { units: bigint; scale: number } => {
  const [whole = '', fraction = ''] = text.split('.')
  return { units: BigInt(whole + fraction), scale: fraction.length }
}

const writeDecimal = (units: bigint, scale: number): string => {
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, '0')
  const fraction = trimEndOf(digits.slice(digits.length - scale), '0')
  return `${units < 0n ? '-' : ''}${digits.slice(0, digits.length - scale)}${scale > 0 && fraction !== '' ? `.${fraction}` : ''}`
}
