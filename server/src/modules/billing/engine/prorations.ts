import { scaleIn, sum } from '../../../kernel/money.ts'
import { discountOf, type Reduction } from './discounts.ts'
import type { Period } from './periods.ts'

/** What is left of a whole: nothing, all, or something between. */
export interface Fraction {
  readonly numerator: number
  readonly denominator: number
}

/** A price for a whole period that does not depend on use, before any discount. */
export interface StaticLine {
  readonly product_price_id: string
  readonly amount: number
  readonly seats: number | null
}

/** What a subscription costs for a whole period, on one side of a change. */
export interface Plan {
  readonly lines: readonly StaticLine[]
  readonly discount: Reduction | null
}

/**
 * What a change does to the calendar. Kept: both sides count for the rest of the period. Restarted: a new period begins
 * now, is paid in full, and the rest of the old one is given back. Reset: the same, and nothing is given back.
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
  /** Of the side that is charged, or given back. */
  readonly seats: number | null
  /** A credit is below nothing, a debit above. Its discount is already in it. */
  readonly amount: number
}

/** How much of a period is left, to the millisecond: all of it before it begins, nothing from its end on, nothing of an empty one. */
export const remaining = ({ start, end }: Period, now: Date): Fraction => {
  const denominator = end.getTime() - start.getTime()
  if (denominator <= 0) return { numerator: 0, denominator: 1 }
  return { numerator: Math.min(Math.max(end.getTime() - now.getTime(), 0), denominator), denominator }
}

/**
 * What a change in the middle of a period costs, and gives back: a line for each price, rounded once, none for nothing.
 * While the calendar is kept, a price on both sides (another number of seats) is one line for the difference, and a change
 * there and back at one instant comes to nothing.
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

/** The lines after their shares of the discount. */
const netsOf = ({ lines, discount }: Plan, currency: string): StaticLine[] => {
  const discounts = discountOf(
    lines.map(({ amount }) => ({ amount, proration: false })),
    discount,
    currency,
  )
  const nets = lines.map(({ product_price_id, seats, amount }, at) => ({ product_price_id, seats, amount: amount - discounts[at]! }))
  if (new Set(nets.map(({ product_price_id }) => product_price_id)).size < nets.length) throw new RangeError('A price is named twice.')
  return nets
}

/**
 * What is not divided is not rounded: the whole of a discounted price may hold small coins that nobody takes, which the
 * lines of an order make up for together. A part of it holds none.
 */
const part = (currency: string, amount: number, { numerator, denominator }: Fraction): number =>
  numerator === denominator ? amount : scaleIn(currency, amount, numerator, denominator)
