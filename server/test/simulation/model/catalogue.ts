/** Products of every shop in the model, with their prices. The checker calculates with this table, not with the server's prices. */

export interface Product {
  readonly interval: 'month' | 'year'
  /** Price of a period in cents, without the seats. */
  readonly flat: number
  /** Graduated seat tiers: the last seat of the tier, and the price of each seat in it. Null for a product without seats. */
  readonly tiers: readonly (readonly [upTo: number | null, each: number])[] | null
}

const flat = (interval: Product['interval'], price: number): Product => ({ interval, flat: price, tiers: null })

export const products = {
  Free: flat('month', 0),
  Basic: flat('month', 999),
  Pro: flat('month', 2900),
  Max: flat('month', 9950),
  'Basic yearly': flat('year', 9900),
  'Pro yearly': flat('year', 29_000),
  Team: { interval: 'month', flat: 0, tiers: [[null, 500]] },
  'Team plus': { interval: 'month', flat: 1900, tiers: [[5, 1250], [null, 990]] }, // oxfmt-ignore
} as const satisfies Record<string, Product>
export type ProductName = keyof typeof products

export const productNames = Object.keys(products) as ProductName[]
export const hasSeats = (name: ProductName): boolean => products[name].tiers !== null

/** The list price of one period, before discount and tax. */
export const priceOf = (name: ProductName, seats: number | null): number => {
  const { flat: base, tiers }: Product = products[name]
  if (tiers === null) return base
  let price = base
  let priced = 0
  for (const [upTo, each] of tiers) {
    const last = Math.min(seats ?? 1, upTo ?? Infinity)
    price += Math.max(0, last - priced) * each
    priced = Math.max(priced, last)
  }
  return price
}

/** The list price of a month. Distinguishes an upgrade from a downgrade across intervals. */
export const monthlyPriceOf = (name: ProductName, seats: number | null): number => priceOf(name, seats) / (products[name].interval === 'year' ? 12 : 1)

export const discounts = {
  fifth: { basis_points: 2000, duration: 'forever' },
  'half once': { basis_points: 5000, duration: 'once' },
} as const
export type DiscountName = keyof typeof discounts

/** Places where customers live. Prices include tax in Germany, exclude it in New York, and are untaxed in Britain. */
export const places = {
  DE: { address: { country: 'DE' }, rate: 0.19, inclusive: true },
  'US-NY': { address: { country: 'US', state: 'US-NY', city: 'Buffalo', postal_code: '14201', line1: '1 Main Street' }, rate: 0.08875, inclusive: false },
  GB: { address: { country: 'GB' }, rate: 0, inclusive: true },
} as const
export type PlaceName = keyof typeof places
