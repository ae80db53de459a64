import { trimEndOf } from './texts.ts'

declare global {
  // TypeScript does not declare these functions of ES2026 yet.
  interface JSON {
    rawJSON(text: string): { readonly rawJSON: string }
    isRawJSON(value: unknown): value is { readonly rawJSON: string }
  }
}

/** An exact decimal number: `units` divided by ten to the power of `scale`. */
export interface Decimal {
  readonly units: bigint
  readonly scale: number
}

/** Reads a decimal from text as JSON or PostgreSQL writes it. Text with an exponent is accepted. */
export const readDecimal = (text: string): Decimal => {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  if (whole === '') throw new RangeError(`${text} is not a decimal number.`)
  const scale = fraction.length - Number(exponent)
  const units = BigInt(sign + whole + fraction)
  return scale < 0 ? { units: units * 10n ** BigInt(-scale), scale: 0 } : { units, scale }
}

/** Returns the nearest number for JSON. A decimal beyond the range of doubles becomes the largest double, because JSON has no infinity. */
export const numberOf = (text: string): number => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, Number(text)))

/** Writes a decimal without an exponent and without trailing zeros, like `trim_scale` in PostgreSQL. */
export const writeDecimal = ({ units, scale }: Decimal): string => {
  const { sign, whole, fraction } = digitsOf({ units, scale })
  const kept = trimEndOf(fraction, '0')
  return sign + whole + (kept === '' ? '' : `.${kept}`)
}

/** Writes a decimal without an exponent, with the decimal places that it was read with. PostgreSQL writes `numeric` in this way. */
export const spellDecimal = (decimal: Decimal): string => {
  const { sign, whole, fraction } = digitsOf(decimal)
  return sign + whole + (fraction === '' ? '' : `.${fraction}`)
}

const digitsOf = ({ units, scale }: Decimal) => {
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, '0')
  const point = digits.length - scale
  return { sign: units < 0n ? '-' : '', whole: digits.slice(0, point), fraction: digits.slice(point) }
}

/** Returns the units of two decimals at their larger scale. */
const aligned = (a: Decimal, b: Decimal): { a: bigint; b: bigint; scale: number } => {
  if (a.scale === b.scale) return { a: a.units, b: b.units, scale: a.scale }
  const scale = Math.max(a.scale, b.scale)
  return { a: a.units * 10n ** BigInt(scale - a.scale), b: b.units * 10n ** BigInt(scale - b.scale), scale }
}

export const addDecimals = (one: Decimal, other: Decimal): Decimal => {
  const { a, b, scale } = aligned(one, other)
  return { units: a + b, scale }
}

export const negateDecimal = ({ units, scale }: Decimal): Decimal => ({ units: -units, scale })

export const multiplyDecimals = (one: Decimal, other: Decimal): Decimal => ({ units: one.units * other.units, scale: one.scale + other.scale })

/** Returns a negative number, zero or a positive number, like the function that `sort` takes. */
export const compareDecimals = (one: Decimal, other: Decimal): number => {
  const { a, b } = aligned(one, other)
  return a < b ? -1 : a > b ? 1 : 0
}

/** Divides a decimal by a positive whole number. Rounds half away from zero to the given number of decimal places. */
export const divideDecimal = ({ units, scale }: Decimal, by: bigint, places: number): Decimal => {
  const divisor = by * 10n ** BigInt(scale)
  const twice = 2n * units * 10n ** BigInt(places)
  return { units: (twice + (units < 0n ? -divisor : divisor)) / (2n * divisor), scale: places }
}
