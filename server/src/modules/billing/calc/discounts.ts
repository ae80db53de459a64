import { scaleIn, split, sum } from '../../../kernel/money.ts'

/** The reduction of a discount: a percentage or fixed amounts per currency. */
export type Reduction =
  | { readonly type: 'percentage'; readonly basis_points: number }
  | { readonly type: 'fixed'; readonly amounts: Readonly<Record<string, number>> }

/** A discount with the conditions under which it applies. */
export type Offer = Reduction & {
  readonly starts_at: Date | null
  readonly ends_at: Date | null
  /** Empty: every product. */
  readonly product_ids: readonly string[]
}

export interface Occasion {
  readonly now: Date
  readonly product_id: string
  readonly currency: string
  /** True if every price of the product is free, so that there is never anything to discount. */
  readonly is_free_product_price: boolean
}

export interface DiscountableLine {
  readonly amount: number
  /**
   * True for a proration line. Its amount was calculated from discounted prices, so it must not be discounted again.
   */
  readonly proration: boolean
}

/**
 * True if the discount applies: within its start (inclusive) and end (exclusive), for its products, in one of its
 * currencies. Does not check the number of redemptions, because that requires a lock on the row.
 */
export const applicable = (offer: Offer, { now, product_id, currency, is_free_product_price }: Occasion): boolean => {
  if (is_free_product_price) return false
  if (offer.starts_at !== null && now < offer.starts_at) return false
  if (offer.ends_at !== null && now >= offer.ends_at) return false
  if (offer.product_ids.length > 0 && !offer.product_ids.includes(product_id)) return false
  return offer.type === 'percentage' || Object.hasOwn(offer.amounts, currency)
}

/**
 * Returns the discount of each line. The discount is rounded once for all lines and split by the largest remainder
 * method. A line never gets a discount above its amount. Prorations and credits get none.
 */
export const discountOf = (lines: readonly DiscountableLine[], reduction: Reduction | null, currency: string): number[] => {
  const price = sum(lines.map(({ amount, proration }) => (proration ? 0 : amount)))
  // A discount reduces only prices. If the prices sum to zero or to a credit, there is nothing to discount.
  if (reduction === null || price <= 0) return lines.map(() => 0)
  return split(
    Math.min(reductionOf(reduction, price, currency), price),
    lines.map(({ amount, proration }) => (proration ? 0 : Math.max(0, amount))),
  )
}

const reductionOf = (reduction: Reduction, price: number, currency: string): number => {
  // 100 % takes off everything, even units smaller than a payable amount.
  if (reduction.type === 'percentage') return reduction.basis_points >= 10_000 ? price : scaleIn(currency, price, reduction.basis_points, 10_000)
  return Object.hasOwn(reduction.amounts, currency) ? reduction.amounts[currency]! : 0
}
