import { scale, scaleIn } from '../../../kernel/money.ts'

/** Parts per million: the finest rates in use, such as 8.875 %, are whole numbers of them. */
const whole = 1_000_000

export interface Tax {
  /** Parts per million: 20 % is 200,000. */
  readonly rate: number
  /** Whether the price already holds the tax, or the tax comes on top. */
  readonly behavior: 'inclusive' | 'exclusive'
}

export interface TaxableLine {
  readonly amount: number
  readonly discount_amount: number
}

export interface RefundShare {
  readonly currency: string
  /** What is given back, without tax. */
  readonly amount: number
  readonly net_amount: number
  readonly tax_amount: number
  readonly refundable_amount: number
  readonly refundable_tax_amount: number
}

/**
 * The tax on each line, aligned with them, on what remains after the discount, rounded once per line. A credit gives back
 * to the unit what the same charge would have cost.
 */
export const taxOf = (lines: readonly TaxableLine[], tax: Tax | null, currency: string): number[] => {
  if (tax === null) return lines.map(() => 0)
  if (!Number.isSafeInteger(tax.rate) || tax.rate < 0) throw new RangeError(`A tax rate is a whole number of parts per million, not ${tax.rate}.`)
  return lines.map(({ amount, discount_amount }) => {
    const taxable = amount - discount_amount
    // On top of a price the tax is paid, and must be payable; within a price it is only told.
    return tax.behavior === 'exclusive' ? scaleIn(currency, taxable, tax.rate, whole) : scale(taxable, tax.rate, whole + tax.rate)
  })
}

/**
 * How much of a sum that a bank takes back of an order is tax: all that is left of it with all that is left of the order,
 * else the share that the order has of it, never more than is left.
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

/** The same as price and tax, as far as anything is left of either: what no longer fits into one of them was the other. */
export const divideWithin = (gross: number, order: Parameters<typeof taxWithin>[1]): { amount: number; tax_amount: number } => {
  const sum = Math.min(gross, order.refundable_amount + order.refundable_tax_amount)
  const tax_amount = Math.max(taxWithin(sum, order), sum - order.refundable_amount)
  return { amount: sum - tax_amount, tax_amount }
}

/**
 * The tax that goes back with a part of an order: all that is left with the last part, before that the share of the part,
 * never more than is left. Amount and tax together can be paid out in the currency, so it is their sum that is rounded.
 */
export const refundTax = ({ currency, amount, net_amount, tax_amount, refundable_amount, refundable_tax_amount }: RefundShare): number => {
  if (amount <= 0 || amount > refundable_amount) throw new RangeError(`Between 1 and ${refundable_amount} can be refunded, not ${amount}.`)
  if (amount === refundable_amount) return refundable_tax_amount
  // An order that only paid a debt has no net amount, and no tax to share.
  if (net_amount <= 0) return 0
  const share = scaleIn(currency, amount, BigInt(net_amount) + BigInt(tax_amount), net_amount) - amount
  return Math.max(0, Math.min(share, refundable_tax_amount))
}
