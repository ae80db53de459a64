import { addDecimals, compareDecimals, negateDecimal, readDecimal, writeDecimal } from '../../../kernel/decimals.ts'

/** A time range. Null means without bound. */
export interface Range {
  readonly since: Date | null
  readonly until: Date | null
}

/**
 * A credit that applies to a period. `left` is decimal text: the units that other periods have not used. The credit applies to usage
 * in its range. If `since` is null, it applies to the whole period.
 */
export interface PeriodCredit extends Range {
  readonly period_id: string
  readonly credit_id: string
  readonly left: string
}

/** A part of a period that credits with a range apply to, and its usage. */
export interface UsedPart extends Part {
  readonly quantity: string
}
interface Part extends Range {
  readonly since: Date
}

/** A period with its usage as decimal text. `parts` are needed if a credit of the period has a range. */
export interface CreditedPeriod {
  readonly id: string
  readonly quantity: string
  readonly parts?: readonly UsedPart[]
}

const endOf = ({ until }: Range): number => until?.getTime() ?? Infinity

/** True if a credit with a range applies to the part. */
const covers = (credit: Range, part: Part): boolean => credit.since !== null && credit.since <= part.since && endOf(credit) >= endOf(part)

/** Divides a period at the bounds of its credits. Returns the parts that credits with a range apply to, in the sequence of time. */
export const creditedParts = (period: Part, credits: readonly Range[]): Part[] => {
  const ranges = credits.filter(({ since }) => since !== null)
  const bounds = [period, ...ranges].flatMap((range) => [range.since!.getTime(), endOf(range)])
  const times = [...new Set(bounds)].filter((time) => time >= period.since.getTime() && time <= endOf(period)).toSorted((a, b) => a - b)
  const parts = times.slice(1).map((end, at) => ({ since: new Date(times[at]!), until: end === Infinity ? null : new Date(end) }))
  return parts.filter((part) => ranges.some((range) => covers(range, part)))
}

export interface CreditUse {
  readonly credit_id: string
  readonly units: string
}

/**
 * Returns the units that each period uses of its credits. Credits are used in the given sequence, and periods take their turn in
 * the sequence of `periods`. A credit is never used beyond its units, nor beyond the usage in its range. Usage below zero uses no credits.
 */
export const useCredits = (periods: readonly CreditedPeriod[], credits: readonly PeriodCredit[]): ReadonlyMap<string, readonly CreditUse[]> => {
  const left = new Map(credits.map((credit) => [credit.credit_id, readDecimal(credit.left)]))
  return new Map(
    periods.map(({ id, quantity, parts = [] }) => {
      const open = new Map<unknown, Decimal>([[id, readDecimal(quantity)], ...parts.map((part) => [part, readDecimal(part.quantity)] as const)])
      const take = (credit_id: string, from: readonly unknown[]): Decimal => {
        const units = [...from.map((one) => open.get(one)!), open.get(id)!, left.get(credit_id)!].reduce(lower)
        if (units.units <= 0n) return zero
        for (const one of new Set([...from, id])) open.set(one, addDecimals(open.get(one)!, negateDecimal(units)))
        left.set(credit_id, addDecimals(left.get(credit_id)!, negateDecimal(units)))
        return units
      }
      const uses = credits
        .filter(({ period_id }) => period_id === id)
        .map((credit) => {
          const { credit_id } = credit
          const taken = credit.since === null ? [take(credit_id, [])] : parts.filter((part) => covers(credit, part)).map((part) => take(credit_id, [part]))
          return { credit_id, units: writeDecimal(taken.reduce(addDecimals, zero)) }
        })
      return [id, uses]
    }),
  )
}

type Decimal = ReturnType<typeof readDecimal>
const zero = readDecimal('0')
const lower = (a: Decimal, b: Decimal): Decimal => (compareDecimals(a, b) < 0 ? a : b)

/** Adds decimal texts. */
export const addUnits = (units: readonly string[]): string => writeDecimal(units.map(readDecimal).reduce(addDecimals, readDecimal('0')))

/** Subtracts a decimal text from another. */
export const subtractUnits = (from: string, units: string): string => writeDecimal(addDecimals(readDecimal(from), negateDecimal(readDecimal(units))))
