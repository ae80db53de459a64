import { scale, sum } from '../../../kernel/money.ts'

/** Tiers as the catalog keeps them: in order, without gap or overlap, only the last one open. */
export interface SeatTiers {
  readonly seat_tier_type: 'volume' | 'graduated'
  readonly tiers: readonly { readonly min_seats: number; readonly max_seats?: number | null | undefined; readonly price_per_seat: number }[]
}

/** A price, as far as it says what is paid at once. */
export type UpfrontPrice = { readonly id: string } & (
  | { readonly amount_type: 'fixed'; readonly price_amount: number }
  | { readonly amount_type: 'custom'; readonly minimum_amount: number; readonly preset_amount: number | null }
  | { readonly amount_type: 'seat_based'; readonly seat_tiers: SeatTiers }
  | { readonly amount_type: 'metered_unit' }
)

/** What the buyer decided, or nothing yet. */
export interface Choices {
  readonly amount?: number | null | undefined
  readonly seats?: number | null | undefined
}

/** What one price costs at once, and what its label says besides the product's name. */
export interface UpfrontLine {
  readonly product_price_id: string
  readonly amount_type: UpfrontPrice['amount_type']
  readonly seats: number | null
  readonly amount: number
}

/** A number of seats for which the tiers name no price. */
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
 * Every seat is paid for, or none is sold: volume takes the one tier that holds the quantity, graduated takes each seat
 * at the tier it falls into. The first tier prices the seats below its minimum too, which is the least one may buy and
 * not a number of free seats.
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
 * One line per price, in the order given, with what is due before anything is used: a chosen amount before the preset
 * (nothing is a preset too) before the minimum, the fewest seats where none are chosen, and nothing for what is metered.
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
  if (!first) throw new RangeError('A price by seats needs at least one tier.')
  return { minimum: first.min_seats, maximum: tiers.at(-1)!.max_seats ?? null }
}
