import type { Measure, FigureName, Span, Term } from './figures.ts'
import { figures } from './figures.ts'
import type { Bucket } from './buckets.ts'

/** Amounts are computed in 10^-12 minor units, the smallest cost of a usage event. So all sums are exact. */
const places = 12
const one = 10n ** BigInt(places)

export interface Sum {
  readonly count: bigint
  /** In 10^-12 minor units. */
  readonly amount: bigint
}
export const nothing: Sum = { count: 0n, amount: 0n }

/** Reads an exact decimal from the text of PostgreSQL. */
export const exactly = (text: string): bigint => {
  const [, sign = '', whole = '0', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  return BigInt(`${sign}${whole}${fraction.slice(0, places).padEnd(places, '0')}`)
}

const inMinorUnits = (amount: bigint): number => {
  const digits = String(amount < 0n ? -amount : amount).padStart(places + 1, '0')
  return Number(`${amount < 0n ? '-' : ''}${digits.slice(0, -places)}.${digits.slice(-places)}`)
}

/** The answers to all questions about one interval. `whole` is the range of all intervals, taken as one. */
export interface Reading {
  readonly sum: (measure: Measure, span: Span) => Sum
  readonly trailing: (measure: Measure, at: 'start' | 'during') => Sum
  readonly distinct: (of: Extract<(typeof figures)[FigureName], { kind: 'distinct' }>['of']) => number
}

/** Adds up the terms of a figure. */
export const addUp = (terms: readonly Term[], sumOf: (measure: Measure) => Sum): number => {
  let total = 0n
  for (const { measure, part, factor } of terms) {
    const sum = sumOf(measure)
    total += BigInt(factor) * (part === 'amount' ? sum.amount : sum.count * one)
  }
  return inMinorUnits(total)
}

/** Computes a figure of one interval. Figures that are computed from others read those of the same interval. */
export const evaluate = (name: FigureName, reading: Reading): number => {
  const figure = figures[name]
  if (figure.kind === 'sum') return addUp(figure.terms, (measure) => reading.sum(measure, figure.span))
  if (figure.kind === 'trailing') return addUp(figure.terms, (measure) => reading.trailing(measure, figure.at))
  if (figure.kind === 'distinct') return reading.distinct(figure.of)
  return figure.compute(...figure.from.map((source) => evaluate(source, reading)))
}

/** The range of all intervals, as one interval. */
export const wholeOf = (buckets: readonly Bucket[]): Bucket => {
  const [first, last] = [buckets[0]!, buckets.at(-1)!]
  return { starts_at: first.starts_at, since: first.since, ends_at: last.ends_at, until: last.until, trailing: last.trailing }
}
