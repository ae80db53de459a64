import type { Frame, Offer } from '@bursar/views'
import { speak, textsIn, usagePrices } from '../../kit/index.ts'
import { texts } from './texts.ts'

type Product = NonNullable<Offer['product']>
type Price = Product['prices'][number]

/** Returns the prices of a product in the currency of the checkout. */
export const pricesOf = (offer: Offer, product_id: string): Price[] =>
  (offer.prices?.[product_id] ?? []).filter((price) => price.price_currency === offer.currency)

type Seated = Extract<Price, { amount_type: 'seat_based' }>
/** Returns the price per seat of the selected product, if it has one. */
export const seatedIn = (offer: Offer): Seated | undefined =>
  pricesOf(offer, offer.product_id ?? '').find((price): price is Seated => price.amount_type === 'seat_based')

/** Returns the allowed numbers of seats. Undefined if the product has no seats. */
export const seatBounds = (offer: Offer): { least: number; most: number | null } | undefined => {
  const price = seatedIn(offer)
  if (!price) return undefined
  const { tiers } = price.seat_tiers
  const last = tiers.at(-1)?.max_seats ?? null
  const most = offer.max_seats === null ? last : Math.min(last ?? Infinity, offer.max_seats)
  return { least: Math.max(tiers[0]?.min_seats ?? 1, offer.min_seats ?? 1), most }
}

/** Returns the billing interval in words. Empty for a single purchase. */
export const intervalOf = (frame: Frame, product: Product): string => {
  const { t } = speak(frame)
  return product.recurring_interval ? t.per[product.recurring_interval](product.recurring_interval_count ?? 1) : ''
}

/** The price of a product in words. A product with metered prices only has an empty amount. */
interface PriceWords {
  readonly amount: string
  /** The unit and the interval of the amount. */
  readonly what: string
  /** The price of usage on each meter. */
  readonly usage: readonly string[]
}

/** Describes the price of a product in a few words: the amount, its unit, and what usage costs. */
export const priceWords = (frame: Frame, offer: Offer, product: Product): PriceWords => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const parts = pricesOf(offer, product.id).flatMap((price): [string, string][] => {
    switch (price.amount_type) {
      case 'fixed':
        return [[price.price_amount === 0 ? words.free : money(price.price_amount, price.price_currency), '']]
      case 'custom':
        return [[words.yourPrice, '']]
      case 'seat_based':
        return [[money(price.seat_tiers.tiers[0]?.price_per_seat ?? 0, price.price_currency), words.perSeat]]
      case 'metered_unit':
        return []
    }
  })
  const usage = usageOf(frame, offer, product).map(({ meter, price }) => `${meter}: ${price}`)
  const [first, ...others] = parts
  if (!first) return { amount: '', what: '', usage }
  const more = others.map((one) => `+ ${one.join(' ')}`)
  return { amount: first[0], what: [first[1], intervalOf(frame, product), ...more].filter(Boolean).join(' '), usage }
}

/** Describes the price of a product in one line. */
export const priceLine = (frame: Frame, offer: Offer, product: Product): string => {
  const { amount, what, usage } = priceWords(frame, offer, product)
  return [[amount, what].filter(Boolean).join(' '), ...usage].filter(Boolean).join(' + ')
}

/** Says what usage of a product costs, in the currency of the checkout. */
export const usageOf = (frame: Frame, offer: Offer, product: Product) => usagePrices(frame, product, pricesOf(offer, product.id), offer.currency)

/** Says how an amount without known tax relates to the tax. Empty if the price includes it. */
export const taxNote = (frame: Frame, offer: Offer): string => {
  const words = textsIn(frame, texts)
  const behavior = offer.tax_behavior ?? pricesOf(offer, offer.product_id ?? '')[0]?.tax_behavior
  if (behavior === 'inclusive') return ''
  return behavior === 'exclusive' ? words.plusTax : words.taxOpen
}

/** Names the product as it is ordered, with the number of seats. */
export const orderedName = (frame: Frame, offer: Offer, product: Product): string =>
  offer.seats === null ? product.name : textsIn(frame, texts).seatLine(product.name, offer.seats)

/** Says what a discount takes off, and for how long. A one-time purchase has only one payment, so it needs no duration. */
export const discountWords = (frame: Frame, { discount, product, currency }: Offer): string => {
  if (!discount) return ''
  const { money } = speak(frame)
  const percent = new Intl.NumberFormat(frame.locale, { style: 'percent', maximumFractionDigits: 2 })
  const words = textsIn(frame, texts)
  const off = words.off('basis_points' in discount ? percent.format(discount.basis_points / 10_000) : money(discount.amounts[currency] ?? 0, currency))
  if (!product?.recurring_interval) return off
  if (discount.duration === 'once') return words.offOnce(off)
  return 'duration_in_months' in discount ? words.offFor(off, words.span.month(discount.duration_in_months)) : words.offForever(off)
}
