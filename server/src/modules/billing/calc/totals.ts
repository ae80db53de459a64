import { chargeable, stepOf, sum } from '../../../kernel/money.ts'
import type { TaxShare } from '../../../kernel/taxes.ts'
import { discountOf, type DiscountableLine, type Reduction } from './discounts.ts'
import { taxOf, type Tax } from './taxes.ts'

export interface Bill<Line extends DiscountableLine> {
  readonly currency: string
  readonly lines: readonly Line[]
  readonly discount: Reduction | null
  /** Null if there is no tax, or if the tax is not known yet. */
  readonly tax: Tax | null
  /** The customer's balance before this order: a credit or a debt, never both. */
  readonly credit: number
  readonly debt: number
  /** If true, nothing is charged, and the due amount becomes a debt of the customer. */
  readonly carried?: boolean
}

export interface LineFigures {
  readonly discount_amount: number
  readonly net_amount: number
  readonly tax_amount: number
  readonly total_amount: number
  /** The tax per jurisdiction. Only present if it was quoted for this line. */
  readonly taxes?: readonly TaxShare[]
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
  /**
   * Amount charged now: the due amount without the part that cannot be charged. If this amount is zero, the order is
   * paid at once.
   */
  readonly charge_amount: number
  /**
   * The part of the due amount that cannot be charged. It becomes a debt of the customer, in addition to
   * `balance_movement_amount`.
   */
  readonly carried_amount: number
  /** Change of the customer's balance by this order. */
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
 * Calculates all amounts of an order from its lines and the customer's balance. The line amounts add up to the amounts
 * of the order. No unit is lost: the total equals the charge plus the change of the balance.
 */
export const totalsOf = <Line extends DiscountableLine>({ currency, lines, discount, tax, credit, debt, carried = false }: Bill<Line>): Totals<Line> => {
  const discounted = discountLines(lines, discount, currency)
  const taxes = taxOf(discounted, tax, currency)
  const figured = discounted.map((line, at) => {
    const tax_amount = taxes[at]!
    const net_amount = line.amount - line.discount_amount - (tax?.behavior === 'inclusive' ? tax_amount : 0)
    const quoted = tax !== null && 'lines' in tax ? { taxes: tax.lines[at]!.taxes } : {}
    return { ...line, net_amount, tax_amount, total_amount: sum([net_amount, tax_amount]), ...quoted }
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
    ...settle(currency, total_amount, credit, debt, carried),
  }
}

/** Returns the lines with the discount of each. The tax is quoted for the discounted amounts. */
export const discountLines = <Line extends DiscountableLine>(
  lines: readonly Line[],
  discount: Reduction | null,
  currency: string,
): (Line & { readonly discount_amount: number })[] => {
  const discounts = discountOf(lines, discount, currency)
  return lines.map((line, at) => ({ ...line, discount_amount: discounts[at]! }))
}

/**
 * Returns the net amount and the tax of an order that can still be refunded. Together they never exceed the charge. A
 * carried amount was not paid with this order. It is refundable with the order that collects the debt.
 */
export const refundable = (order: Settled): { refundable_amount: number; refundable_tax_amount: number } => {
  // If an order has charges and credits, rounding each line can make the total tax minus one unit. That unit reduced the payment.
  const paid = sum([order.net_amount, Math.min(0, order.tax_amount), order.applied_balance_amount, 0 - order.carried_amount])
  return {
    refundable_amount: Math.max(0, sum([paid, 0 - order.refunded_amount])),
    refundable_tax_amount: Math.max(0, sum([order.tax_amount, 0 - order.refunded_tax_amount])),
  }
}

const settle = (currency: string, total: number, credit: number, debt: number, carried: boolean) => {
  if (credit < 0 || debt < 0 || (credit > 0 && debt > 0))
    throw new RangeError(`A balance is either a credit or a debt. Received a credit of ${credit} and a debt of ${debt}.`)
  const applied_balance_amount = appliedOf(total, credit, debt)
  const due_amount = Math.max(0, sum([total, applied_balance_amount]))
  const charge_amount = carried ? 0 : chargeOf(currency, due_amount)
  return {
    applied_balance_amount,
    due_amount,
    charge_amount,
    carried_amount: due_amount - charge_amount,
    balance_movement_amount: total >= 0 ? applied_balance_amount : 0 - total,
  }
}

/**
 * Returns the change of the due amount by the customer's balance. An order with a positive total uses credit or
 * collects debt. An order with a negative total pays off debt first.
 */
const appliedOf = (total: number, credit: number, debt: number): number => {
  if (total < 0) return Math.min(0 - total, debt)
  return debt > 0 ? debt : 0 - Math.min(total, credit)
}

/**
 * Returns the chargeable part of the due amount, or zero if the processor would refuse it as too small. Does not apply
 * an upper limit: a charge that is too large must be rejected, not carried.
 */
const chargeOf = (currency: string, due: number): number => {
  const payable = due - (due % stepOf(currency))
  return payable < chargeable(currency).minimum ? 0 : payable
}
