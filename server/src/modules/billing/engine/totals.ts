import { chargeable, stepOf, sum } from '../../../kernel/money.ts'
import { discountOf, type DiscountableLine, type Reduction } from './discounts.ts'
import { taxOf, type Tax } from './taxes.ts'

export interface Bill<Line extends DiscountableLine> {
  readonly currency: string
  readonly lines: readonly Line[]
  readonly discount: Reduction | null
  /** Null: no tax, or none known yet. */
  readonly tax: Tax | null
  /** The customer's balance before this order: we owe them the credit, or they owe us the debt, never both. */
  readonly credit: number
  readonly debt: number
}

export interface LineFigures {
  readonly discount_amount: number
  readonly net_amount: number
  readonly tax_amount: number
  readonly total_amount: number
}

export interface Totals<Line extends DiscountableLine> {
  readonly lines: readonly (Line & LineFigures)[]
  readonly subtotal_amount: number
  readonly discount_amount: number
  readonly net_amount: number
  readonly tax_amount: number
  readonly total_amount: number
  readonly applied_balance_amount: number
  readonly due_amount: number
  /** What is charged now: the due amount without what cannot be charged. Nothing to charge: the order is paid. */
  readonly charge_amount: number
  /** What cannot be charged, and becomes debt besides the movement. */
  readonly carried_amount: number
  /** What this order adds to the customer's balance. */
  readonly balance_movement_amount: number
}

export interface Settled {
  readonly net_amount: number
  readonly tax_amount: number
  readonly applied_balance_amount: number
  readonly carried_amount: number
  readonly refunded_amount: number
  readonly refunded_tax_amount: number
}

/**
 * Everything an order says about money, from its lines and the customer's balance. The figures of the lines add up to
 * those of the order, and no unit is lost: the total is what is charged plus what the balance gives.
 */
export const totalsOf = <Line extends DiscountableLine>({ currency, lines, discount, tax, credit, debt }: Bill<Line>): Totals<Line> => {
  const discounts = discountOf(lines, discount, currency)
  const discounted = lines.map((line, at) => ({ ...line, discount_amount: discounts[at]! }))
  const taxes = taxOf(discounted, tax, currency)
  const figured = discounted.map((line, at) => {
    const tax_amount = taxes[at]!
    const net_amount = line.amount - line.discount_amount - (tax?.behavior === 'inclusive' ? tax_amount : 0)
    return { ...line, net_amount, tax_amount, total_amount: sum([net_amount, tax_amount]) }
  })
  const over = (figure: (line: Line & LineFigures) => number) => sum(figured.map(figure))
  const total_amount = over((line) => line.total_amount)
  return {
    lines: figured,
    subtotal_amount: over((line) => line.amount),
    discount_amount: over((line) => line.discount_amount),
    net_amount: over((line) => line.net_amount),
    tax_amount: over((line) => line.tax_amount),
    total_amount,
    ...settle(currency, total_amount, credit, debt),
  }
}

/**
 * What can still be given back of an order, without tax and as tax: together never more than was charged. What was carried
 * was never paid here; it is paid, and can be given back, with the order that collects the debt.
 */
export const refundable = (order: Settled): { refundable_amount: number; refundable_tax_amount: number } => {
  // Lines of both signs, each rounded for itself, can leave a unit of tax below zero, which was taken off what was paid.
  const paid = sum([order.net_amount, Math.min(0, order.tax_amount), order.applied_balance_amount, 0 - order.carried_amount])
  return {
    refundable_amount: Math.max(0, sum([paid, 0 - order.refunded_amount])),
    refundable_tax_amount: Math.max(0, sum([order.tax_amount, 0 - order.refunded_tax_amount])),
  }
}

const settle = (currency: string, total: number, credit: number, debt: number) => {
  if (credit < 0 || debt < 0 || (credit > 0 && debt > 0)) throw new RangeError(`A balance is a credit or a debt: ${credit} and ${debt} are neither.`)
  const applied_balance_amount = appliedOf(total, credit, debt)
  const due_amount = Math.max(0, sum([total, applied_balance_amount]))
  const charge_amount = chargeOf(currency, due_amount)
  return {
    applied_balance_amount,
    due_amount,
    charge_amount,
    carried_amount: due_amount - charge_amount,
    balance_movement_amount: total >= 0 ? applied_balance_amount : 0 - total,
  }
}

/** A charge uses up credit or collects debt; an order that gives money back pays off debt first. */
const appliedOf = (total: number, credit: number, debt: number): number => {
  if (total < 0) return Math.min(0 - total, debt)
  return debt > 0 ? debt : 0 - Math.min(total, credit)
}

/** Nothing, or an amount the processor takes. There is no upper bound: what is too much must be refused, not forgotten. */
const chargeOf = (currency: string, due: number): number => {
  const payable = due - (due % stepOf(currency))
  return payable < chargeable(currency).minimum ? 0 : payable
}
