import { scaleIn, split, sum } from '../../../kernel/money.ts'

/** What a discount takes off. */
export type Reduction =
  | { readonly type: 'percentage'; readonly basis_points: number }
  | { readonly type: 'fixed'; readonly amounts: Readonly<Record<string, number>> }

/** A discount, as far as it says where it counts. */
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
  /** Every price of the product is free, so that there is nothing to take off, now or later. */
  readonly is_free_product_price: boolean
}

export interface DiscountableLine {
  readonly amount: number
  /** Its discount is already in it: it was counted from discounted prices. */
  readonly proration: boolean
}

/**
 * Whether the discount counts here and now: from its start until just before its end, for its products, in a currency it
 * names. How often it was redeemed is not asked: only the row, held, can tell that.
 */
export const applicable = (offer: Offer, { now, product_id, currency, is_free_product_price }: Occasion): boolean => {
  if (is_free_product_price) return false
  if (offer.starts_at !== null && now < offer.starts_at) return false
  if (offer.ends_at !== null && now >= offer.ends_at) return false
  if (offer.product_ids.length > 0 && !offer.product_ids.includes(product_id)) return false
  return offer.type === 'percentage' || Object.hasOwn(offer.amounts, currency)
}

/**
 * What is taken off each line, aligned with them: rounded once for all, shared by largest remainder, never more than a
 * line costs and nothing from a proration or a credit.
 */
export const discountOf = (lines: readonly DiscountableLine[], reduction: Reduction | null, currency: string): number[] => {
  const price = sum(lines.map(({ amount, proration }) => (proration ? 0 : amount)))
  // A discount makes a price smaller; what is owed to the customer stays as it is.
  if (reduction === null || price <= 0) return lines.map(() => 0)
  return split(
    Math.min(reductionOf(reduction, price, currency), price),
    lines.map(({ amount, proration }) => (proration ? 0 : Math.max(0, amount))),
  )
}

const reductionOf = (reduction: Reduction, price: number, currency: string): number => {
  // All of it is all of it, also where a unit is less than anybody can pay.
  if (reduction.type === 'percentage') return reduction.basis_points >= 10_000 ? price : scaleIn(currency, price, reduction.basis_points, 10_000)
  return Object.hasOwn(reduction.amounts, currency) ? reduction.amounts[currency]! : 0
}
