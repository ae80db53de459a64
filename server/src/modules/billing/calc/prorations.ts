import { scaleIn, sum } from '../../../kernel/money.ts'
import { discountOf, type Reduction } from './discounts.ts'
import type { Period } from './periods.ts'

/** A fraction between 0 and 1. */
export interface Fraction {
  readonly numerator: number
  readonly denominator: number
}

/** A price for a whole period that does not depend on usage, before any discount. */
export interface StaticLine {
  readonly product_price_id: string
  readonly amount: number
  readonly seats: number | null
}

/** The prices of a subscription for a whole period, before or after a change. */
export interface Plan {
  readonly lines: readonly StaticLine[]
  readonly discount: Reduction | null
}

/**
 * Effect of a subscription change on the billing period. `kept`: the period continues, and both plans are prorated for
 * its rest. `restarted`: a new period starts now and is charged in full, and the rest of the old period is credited.
 * `reset`: like `restarted`, but without the credit.
 */
export type CalendarChange = 'kept' | 'restarted' | 'reset'

export interface Change {
  readonly currency: string
  readonly period: Period
  readonly now: Date
  readonly before: Plan
  readonly after: Plan
  readonly calendar: CalendarChange
}

export interface Proration {
  readonly product_price_id: string
  readonly kind: 'credit' | 'debit'
  /** Number of seats of the plan that is charged or credited. */
  readonly seats: number | null
  /** Negative for a credit, positive for a debit. The discount is included. */
  readonly amount: number
}

/**
 * Returns the remaining fraction of a period, to the millisecond. The fraction is 1 before the start. It is 0 from the
 * end on, and for an empty period.
 */
export const remaining = ({ start, end }: Period, now: Date): Fraction => {
  const denominator = end.getTime() - start.getTime()
  if (denominator <= 0) return { numerator: 0, denominator: 1 }
  return { numerator: Math.min(Math.max(end.getTime() - now.getTime(), 0), denominator), denominator }
}

/**
 * Calculates the charges and credits of a subscription change within a period. Returns one line per price, rounded
 * once, without zero lines. If the period is kept, a price that is in both plans gives one line for the difference. A
 * change that is reversed at the same moment nets to zero.
 */
export const prorate = ({ currency, period, now, before, after, calendar }: Change): Proration[] => {
  const rest = remaining(period, now)
  const old = calendar === 'reset' ? [] : netsOf(before, currency)
  const fresh = netsOf(after, currency)
  const kept = (line: StaticLine, others: readonly StaticLine[]) =>
    calendar === 'kept' ? others.find(({ product_price_id }) => product_price_id === line.product_price_id) : undefined
  return [
    ...old.filter((line) => !kept(line, fresh)).map((line) => ({ ...line, amount: part(currency, 0 - line.amount, rest) })),
    ...fresh.map((line) => {
      const amount = sum([line.amount, 0 - (kept(line, old)?.amount ?? 0)])
      return { ...line, amount: calendar === 'kept' ? part(currency, amount, rest) : amount }
    }),
  ]
    .filter(({ amount }) => amount !== 0)
    .map((line) => ({ ...line, kind: line.amount < 0 ? 'credit' : 'debit' }))
}

/** Returns the lines after their shares of the discount. */
const netsOf = ({ lines, discount }: Plan, currency: string): StaticLine[] => {
  const discounts = discountOf(
    lines.map(({ amount }) => ({ amount, proration: false })),
    discount,
    currency,
  )
  const nets = lines.map(({ product_price_id, seats, amount }, at) => ({ product_price_id, seats, amount: amount - discounts[at]! }))
  if (new Set(nets.map(({ product_price_id }) => product_price_id)).size < nets.length) throw new RangeError('The list contains a price twice.')
  return nets
}

/**
 * Rounds an amount to payable units only if it is prorated. A whole discounted price may contain units below the
 * smallest payable one. Such units are resolved when all lines of the order are summed up.
 */
const part = (currency: string, amount: number, { numerator, denominator }: Fraction): number =>
  numerator === denominator ? amount : scaleIn(currency, amount, numerator, denominator)
