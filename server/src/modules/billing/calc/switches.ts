import { QuantityBeyondTiers, tierAmount, type SeatTiers } from './prices.ts'

/** The fields of a subscription that decide to which products it can switch. */
export interface SwitchFrom {
  readonly currency: string
  readonly seats: number | null
  readonly prices: readonly { readonly amount_type: string }[]
}

/** The fields of a product that decide whether a subscription can switch to it. */
export interface SwitchTo {
  readonly is_archived: boolean
  readonly recurring_interval: string | null
  readonly prices: readonly { readonly price_currency: string; readonly amount_type: string; readonly seat_tiers?: SeatTiers | null }[]
}

export interface SwitchProblem {
  /** The field of the request that must change. */
  readonly field: 'product_id' | 'proration_behavior'
  readonly message: string
  /** Only if another number of seats would solve the problem: the numbers that the product allows. */
  readonly bounds?: { readonly minimum: number; readonly maximum: number | null }
}

const seated = (prices: SwitchFrom['prices']) => prices.some(({ amount_type }) => amount_type === 'seat_based')

/**
 * Returns the reason why a subscription cannot switch to a product, or undefined if it can. The API and the portal's
 * list of plans use this one rule, so the portal offers no plan that the API refuses.
 */
export const findSwitchProblem = (from: SwitchFrom, to: SwitchTo, behavior: string): SwitchProblem | undefined => {
  const refused = (message: string): SwitchProblem => ({ field: 'product_id', message })
  if (to.is_archived) return refused('This product is archived.')
  if (to.recurring_interval === null) return refused('This is a one-time product. A subscription needs a recurring product.')
  const prices = to.prices.filter(({ price_currency }) => price_currency === from.currency)
  if (prices.length === 0) return refused(`This product has no price in ${from.currency}, the currency of the subscription.`)
  if (prices.some(({ amount_type }) => amount_type === 'custom')) return refused('The buyer chooses the price of this product, so it needs a checkout.')
  if (seated(from.prices) && !seated(prices)) return refused('This subscription has seats, but the product is not priced per seat.')
  if (!seated(from.prices) && seated(prices) && behavior === 'next_period')
    return { field: 'proration_behavior', message: 'A switch to a product with seats must take effect at once.' }
  const { seats } = from
  if (seats === null) return undefined
  try {
    for (const { seat_tiers: tiers } of prices) if (tiers) tierAmount(tiers, seats)
    return undefined
  } catch (error) {
    if (!(error instanceof QuantityBeyondTiers)) throw error
    const { message, minimum, maximum } = error
    return { ...refused(`${message} Change the number of seats first.`), bounds: { minimum, maximum } }
  }
}
