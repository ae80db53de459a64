import { exponentsOf } from '@bursar/contract'
import { readDecimal, writeDecimal } from './decimals.ts'

/** The minimum and maximum amounts that can be charged, in wire units. Most currencies share the defaults. */
const minima: Record<number, string> = {
  40: 'gbp',
  50: 'usd eur chf',
  70: 'aud cad sgd',
  80: 'jpy',
  90: 'nzd',
  100: 'awg azn bam bmd bnd bsd djf fkp gip kyd pab shp vuv xcg xpf',
  150: 'ils',
  200: 'aed bbd bzd fjd gel myr pen pln qar sar top wst xcd',
  250: 'brl ron',
  300: 'pgk',
  320: 'dkk',
  400: 'hkd sbd ttd',
  500: 'bob clp cny gtq kmf mad mop nok sek tjs xaf xof',
  800: 'krw mvr scr',
  900: 'mxn zar',
  1_000: 'bwp lsl mdl nad rwf szl zmw',
  1_500: 'czk',
  2_000: 'bif hnl nio srd thb twd uyu',
  3_000: 'egp mga try uah',
  3_500: 'php',
  4_000: 'dop gmd pyg',
  5_000: 'all cve gnf kgs mkd mur mzn',
  6_000: 'inr rsd',
  7_000: 'bdt dzd htg isk kes',
  8_000: 'etb jmd npr',
  10_000: 'lrd',
  17_500: 'huf',
  20_000: 'amd gyd lkr pkr vnd yer',
  30_000: 'crc kzt',
  50_000: 'aoa sos',
  70_000: 'ngn',
  75_000: 'ars',
  100_000: 'mwk',
  200_000: 'cdf cop mnt tzs ugx',
  300_000: 'khr',
  700_000: 'uzs',
  900_000: 'idr',
  2_000_000: 'lak',
}

const maxima: Record<number, string> = {
  140_000_000: 'ars',
  155_000_000: 'ngn',
  175_000_000: 'mwk',
  250_000_000: 'tzs',
  280_000_000: 'cdf',
  350_000_000: 'mnt',
  370_000_000: 'ugx',
  400_000_000: 'cop khr',
  1_250_000_000: 'uzs',
  1_600_000_000: 'idr',
  2_100_000_000: 'lak',
}

const byCurrency = (table: Record<number, string>) =>
  new Map(Object.entries(table).flatMap(([amount, currencies]) => currencies.split(' ').map((currency) => [currency, Number(amount)] as const)))
const smallest = byCurrency(minima)
const largest = byCurrency(maxima)

/** Returns the minimum and maximum charge in a currency. An amount of zero is allowed too, because it is not charged. */
export const chargeable = (currency: string): { minimum: number; maximum: number } => ({
  minimum: smallest.get(currency) ?? 50,
  maximum: largest.get(currency) ?? 99_999_999,
})

/** Returns the smallest payable amount in wire units. The amount is more than one if the currency's subunits are not in use. */
export const stepOf = (currency: string): number => {
  const { wire, display } = exponentsOf(currency)
  return 10 ** Math.max(0, wire - display)
}

/** Converts a wire amount to the processor's units, exactly. Throws a RangeError if the amount is not payable in the currency. */
export const toProcessor = (amount: number, currency: string): number => {
  const { wire, processor } = exponentsOf(currency)
  const step = stepOf(currency)
  if (amount % step !== 0) throw new RangeError(`In ${currency} an amount must be a multiple of ${step}, not ${amount}.`)
  return rebase(amount, wire, processor)
}

/** Converts a processor amount to wire units, exactly. Accepts subunits that are no longer in use. */
export const fromProcessor = (amount: number, currency: string): number => {
  const { wire, processor } = exponentsOf(currency)
  return rebase(amount, processor, wire)
}

const rebase = (amount: number, from: number, to: number): number => {
  const factor = 10n ** BigInt(Math.abs(to - from))
  const units = BigInt(amount)
  if (to >= from) return safe(units * factor)
  if (units % factor !== 0n) throw new RangeError(`${amount} has more digits than can be stored.`)
  return safe(units / factor)
}

/**
 * Formats an amount as a decimal number with the usual decimal places of the currency. Uses all decimal places of the
 * wire format if rounding would change the amount.
 */
export const formatAmount = (amount: number, currency: string): string => {
  const { wire, display } = exponentsOf(currency)
  const digits = amount % stepOf(currency) === 0 ? display : wire
  const scaled = digits >= wire ? BigInt(amount) * 10n ** BigInt(digits - wire) : BigInt(amount) / 10n ** BigInt(wire - digits)
  const text = String(scaled < 0n ? -scaled : scaled).padStart(digits + 1, '0')
  const point = text.length - digits
  return (scaled < 0n ? '-' : '') + (digits === 0 ? text : `${text.slice(0, point)}.${text.slice(point)}`)
}

/** Formats a price for one unit, which may be a fraction of a wire unit, as a decimal number in the major unit. Nothing is rounded. */
export const formatRate = (unit_amount: string, currency: string): string => {
  const { units, scale: places } = readDecimal(unit_amount)
  return writeDecimal({ units, scale: places + exponentsOf(currency).wire })
}

/** Computes amount · numerator / denominator exactly and rounds once, half away from zero. Throws a RangeError beyond safe integers. */
export const scale = (amount: number, numerator: number | bigint, denominator: number | bigint): number => safe(round(amount, numerator, denominator))

/**
 * Computes amount · numerator / denominator exactly, and rounds once to an amount that is payable in the currency.
 * Whole krónur therefore stay whole.
 */
export const scaleIn = (currency: string, amount: number, numerator: number | bigint, denominator: number | bigint): number => {
  const step = BigInt(stepOf(currency))
  return safe(round(amount, numerator, BigInt(denominator) * step) * step)
}

const round = (amount: number, numerator: number | bigint, denominator: number | bigint): bigint => {
  const above = BigInt(amount) * BigInt(numerator)
  const below = BigInt(denominator)
  const rounded = (2n * absolute(above) + absolute(below)) / (2n * absolute(below))
  return above < 0n === below < 0n ? rounded : -rounded
}

/**
 * Splits a total in proportion to the weights. Each share differs from its exact value by less than one unit, and the
 * shares add up to the total. Shares with the largest remainders are rounded up, earlier shares first. Negative weights
 * count only if none is positive. Without any weight the first share gets everything.
 */
export const split = (total: number, weights: readonly number[]): number[] => {
  if (weights.length === 0 && total !== 0) throw new RangeError(`There are no shares to split ${total} over.`)
  const amount = BigInt(total)
  const signed = weights.map((weight) => BigInt(weight))
  const some = signed.some((weight) => weight > 0n)
  const shares = signed.map((weight) => (some ? (weight > 0n ? weight : 0n) : -weight))
  const whole = shares.reduce((all, weight) => all + weight, 0n)
  if (whole === 0n) return weights.map((_, at) => (at === 0 ? total : 0))
  const size = absolute(amount)
  const exact = shares.map((weight, at) => ({ at, share: (size * weight) / whole, rest: (size * weight) % whole }))
  let left = exact.reduce((rest, { share }) => rest - share, size)
  for (const one of exact.toSorted((a, b) => (a.rest === b.rest ? a.at - b.at : a.rest > b.rest ? -1 : 1))) {
    if (left === 0n) break
    one.share += 1n
    left -= 1n
  }
  return exact.map(({ share }) => safe(amount < 0n ? -share : share))
}

/** Adds up amounts. Throws a RangeError if the sum would lose precision. */
export const sum = (amounts: readonly number[]): number => safe(amounts.reduce((all, amount) => all + BigInt(amount), 0n))

const absolute = (value: bigint): bigint => (value < 0n ? -value : value)

const safe = (value: bigint): number => {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new RangeError(`${value} is too large to be exact.`)
  return number
}
