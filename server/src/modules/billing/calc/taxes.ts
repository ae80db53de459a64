import { scale, scaleIn, sum } from '../../../kernel/money.ts'
import type { TaxBehavior, TaxShare } from '../../../kernel/taxes.ts'

/** Tax rates are stored in parts per million. The finest rates in use, such as 8.875 %, are then whole numbers. */
const whole = 1_000_000

/** One rate for all lines. */
export interface RateTax {
  /** Parts per million: 20 % is 200,000. */
  readonly rate: number
  readonly behavior: TaxBehavior
}

/** Taxes that were quoted for exact lines. */
export interface QuotedTax {
  readonly behavior: TaxBehavior
  /** The discounted amount and the taxes of each line, in the order of the lines. */
  readonly lines: readonly { readonly amount: number; readonly taxes: readonly TaxShare[] }[]
}

export type Tax = RateTax | QuotedTax

export interface TaxableLine {
  readonly amount: number
  readonly discount_amount: number
}

export interface RefundShare {
  readonly currency: string
  /** Amount to refund, without tax. */
  readonly amount: number
  readonly net_amount: number
  readonly tax_amount: number
  readonly refundable_amount: number
  readonly refundable_tax_amount: number
}

/**
 * Returns the tax of each line on its discounted amount, rounded once per line. The tax of a credit line is exactly the
 * negative tax of a charge of the same amount. If the tax was quoted for exact lines, returns the quoted tax.
 */
export const taxOf = (lines: readonly TaxableLine[], tax: Tax | null, currency: string): number[] => {
  if (tax === null) return lines.map(() => 0)
  if ('lines' in tax) {
    if (!isQuotedFor(tax, lines)) throw new RangeError('The tax was quoted for other lines.')
    return tax.lines.map(({ taxes }) => sum(taxes.map(({ tax_amount }) => tax_amount)))
  }
  if (!Number.isSafeInteger(tax.rate) || tax.rate < 0) throw new RangeError(`A tax rate is a whole number of parts per million, not ${tax.rate}.`)
  return lines.map(({ amount, discount_amount }) => {
    const taxable = amount - discount_amount
    // Added tax is part of the payment, so it is rounded to payable units. Included tax is only shown, so it is not.
    return tax.behavior === 'exclusive' ? scaleIn(currency, taxable, tax.rate, whole) : scale(taxable, tax.rate, whole + tax.rate)
  })
}

/** True if the taxes were quoted for exactly these lines. */
export const isQuotedFor = (tax: QuotedTax, lines: readonly TaxableLine[]): boolean =>
  tax.lines.length === lines.length && lines.every(({ amount, discount_amount }, at) => tax.lines[at]!.amount === amount - discount_amount)

/**
 * Returns the tax part of a disputed gross amount. If the dispute takes the whole rest of the order, this is all
 * remaining tax. Otherwise it is proportional to the tax of the order, and never more than the remaining tax.
 */
export const taxWithin = (
  gross: number,
  order: { net_amount: number; tax_amount: number; refundable_amount: number; refundable_tax_amount: number },
): number => {
  const { net_amount, tax_amount, refundable_amount, refundable_tax_amount } = order
  if (gross >= refundable_amount + refundable_tax_amount) return Math.min(gross, refundable_tax_amount)
  const total = net_amount + tax_amount
  if (total <= 0 || tax_amount <= 0) return 0
  return Math.min(scale(gross, tax_amount, total), refundable_tax_amount)
}

/**
 * Splits a gross amount, such as a chargeback, into price and tax. Neither part exceeds the amount that is still refundable. An
 * excess of one part goes to the other part.
 */
export const divideWithin = (gross: number, order: Parameters<typeof taxWithin>[1]): { amount: number; tax_amount: number } => {
  const whole = Math.min(gross, order.refundable_amount + order.refundable_tax_amount)
  const tax_amount = Math.max(taxWithin(whole, order), whole - order.refundable_amount)
  return { amount: whole - tax_amount, tax_amount }
}

/**
 * Returns the tax to refund with a part of an order. The last refund gets all remaining tax. Earlier refunds get their
 * proportion, never more than the remaining tax. The sum of amount and tax is rounded to a payable amount.
 */
export const refundTax = ({ currency, amount, net_amount, tax_amount, refundable_amount, refundable_tax_amount }: RefundShare): number => {
  if (amount <= 0 || amount > refundable_amount) throw new RangeError(`Between 1 and ${refundable_amount} can be refunded, not ${amount}.`)
  if (amount === refundable_amount) return refundable_tax_amount
  // An order that only paid a debt has no net amount and no tax.
  if (net_amount <= 0) return 0
  const share = scaleIn(currency, amount, BigInt(net_amount) + BigInt(tax_amount), net_amount) - amount
  return Math.max(0, Math.min(share, refundable_tax_amount))
}
