import { scale, scaleIn } from '../../../kernel/money.ts'

/** Tax rates are stored in parts per million. The finest rates in use, such as 8.875 %, are then whole numbers. */
const whole = 1_000_000

export interface Tax {
  /** Parts per million: 20 % is 200,000. */
  readonly rate: number
  /** Whether the price includes the tax or the tax is added to it. */
  readonly behavior: 'inclusive' | 'exclusive'
}

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
 * negative tax of a charge of the same amount.
 */
export const taxOf = (lines: readonly TaxableLine[], tax: Tax | null, currency: string): number[] => {
  if (tax === null) return lines.map(() => 0)
  if (!Number.isSafeInteger(tax.rate) || tax.rate < 0) throw new RangeError(`A tax rate is a whole number of parts per million, not ${tax.rate}.`)
  return lines.map(({ amount, discount_amount }) => {
    const taxable = amount - discount_amount
    // Added tax is part of the payment, so it is rounded to payable units. Included tax is only shown, so it is not.
    return tax.behavior === 'exclusive' ? scaleIn(currency, taxable, tax.rate, whole) : scale(taxable, tax.rate, whole + tax.rate)
  })
}

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
  const sum = Math.min(gross, order.refundable_amount + order.refundable_tax_amount)
  const tax_amount = Math.max(taxWithin(sum, order), sum - order.refundable_amount)
  return { amount: sum - tax_amount, tax_amount }
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
