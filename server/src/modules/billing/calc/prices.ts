import { scale, sum } from '../../../kernel/money.ts'

/** Price tiers as the catalog stores them: sorted, without gaps or overlaps. Only the last tier may have no maximum. */
export interface SeatTiers {
  readonly seat_tier_type: 'volume' | 'graduated'
  readonly tiers: readonly { readonly min_seats: number; readonly max_seats?: number | null | undefined; readonly price_per_seat: number }[]
}

/** The fields of a price that determine the amount due at purchase. */
export type UpfrontPrice = { readonly id: string } & (
  | { readonly amount_type: 'fixed'; readonly price_amount: number }
  | { readonly amount_type: 'custom'; readonly minimum_amount: number; readonly preset_amount: number | null }
  | { readonly amount_type: 'seat_based'; readonly seat_tiers: SeatTiers }
  | { readonly amount_type: 'metered_unit' }
)

/** The buyer's choices. A field is missing while the buyer has not chosen. */
export interface Choices {
  readonly amount?: number | null | undefined
  readonly seats?: number | null | undefined
}

/** The amount due at purchase for one price, and the data for its label. */
export interface UpfrontLine {
  readonly product_price_id: string
  readonly amount_type: UpfrontPrice['amount_type']
  readonly seats: number | null
  readonly amount: number
}

/** Thrown for a number of seats that lies outside the price tiers. */
export class QuantityBeyondTiers extends Error {
  readonly quantity: number
  readonly minimum: number
  readonly maximum: number | null

  constructor(quantity: number, minimum: number, maximum: number | null) {
    super(`${quantity} seats have no price: choose ${maximum === null ? `at least ${minimum}` : `between ${minimum} and ${maximum}`}.`)
    this.quantity = quantity
    this.minimum = minimum
    this.maximum = maximum
  }
}

/**
 * Returns the price of a number of seats. Volume: all seats cost the rate of the tier that contains the quantity.
 * Graduated: each seat costs the rate of its own tier. The minimum of the first tier is the smallest quantity for sale,
 * not a number of free seats. With graduated tiers, the first tier therefore also prices the seats below its own
 * minimum.
 */
export const tierAmount = (tiers: SeatTiers, quantity: number): number => {
  const { minimum, maximum } = boundsOf(tiers)
  if (!Number.isInteger(quantity) || quantity < minimum || quantity > (maximum ?? Infinity)) throw new QuantityBeyondTiers(quantity, minimum, maximum)
  if (tiers.seat_tier_type === 'volume') {
    const tier = tiers.tiers.find(({ max_seats }) => quantity <= (max_seats ?? Infinity))!
    return scale(tier.price_per_seat, quantity, 1)
  }
  let counted = 0
  return sum(
    tiers.tiers.map(({ max_seats, price_per_seat }) => {
      const reached = Math.min(quantity, max_seats ?? Infinity)
      const here = reached - counted
      counted = reached
      return scale(price_per_seat, here, 1)
    }),
  )
}

/**
 * Returns one line per price, in order, with the amount due at purchase. A custom price uses the chosen amount, else
 * the preset (which may be 0), else the minimum. A seat price uses the minimum number of seats by default. Metered
 * prices cost nothing at purchase.
 */
export const upfrontLines = (prices: readonly UpfrontPrice[], choices: Choices): UpfrontLine[] =>
  prices.map((price) => {
    const line = { product_price_id: price.id, amount_type: price.amount_type, seats: null }
    switch (price.amount_type) {
      case 'fixed':
        return { ...line, amount: price.price_amount }
      case 'custom':
        return { ...line, amount: choices.amount ?? price.preset_amount ?? price.minimum_amount }
      case 'seat_based': {
        const seats = choices.seats ?? boundsOf(price.seat_tiers).minimum
        return { ...line, seats, amount: tierAmount(price.seat_tiers, seats) }
      }
      case 'metered_unit':
        return { ...line, amount: 0 }
    }
  })

const boundsOf = ({ tiers }: SeatTiers): { minimum: number; maximum: number | null } => {
  const first = tiers.at(0)
  if (!first) throw new RangeError('A price per seat needs at least one tier.')
  return { minimum: first.min_seats, maximum: tiers.at(-1)!.max_seats ?? null }
}
