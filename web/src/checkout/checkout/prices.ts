import { exponentsOf } from '@bursar/contract'
import type { CheckoutView, Frame, Offer } from '@bursar/views'
import { speak, textsIn } from '../../kit/index.ts'
import { texts } from './texts.ts'

/** The props of each part of the checkout page. */
export interface Part {
  readonly view: Extract<CheckoutView, { kind: 'checkout' }>
  readonly frame: Frame
}

type Product = NonNullable<Offer['product']>
type Price = Product['prices'][number]

/** The id of the button that recalculates the price. Every change that affects the price presses it. */
export const update = 'update'

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

/** Describes the price of a product in a few words: the amount, and its unit. */
export const priceWords = (frame: Frame, offer: Offer, product: Product): [string, string] => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const parts = pricesOf(offer, product.id).map((price): [string, string] => {
    switch (price.amount_type) {
      case 'fixed':
        return [price.price_amount === 0 ? words.free : money(price.price_amount, price.price_currency), '']
      case 'custom':
        return [words.yourPrice, '']
      case 'seat_based':
        return [money(price.seat_tiers.tiers[0]?.price_per_seat ?? 0, price.price_currency), words.perSeat]
      case 'metered_unit':
        return [smallMoney(frame, price.unit_amount, price.price_currency), words.perUnit(price.meter.custom_label ?? price.meter.name)]
    }
  })
  const [[amount, what] = ['', ''], ...others] = parts
  const more = others.map((one) => `+ ${one.join(' ')}`)
  return [amount, [what, intervalOf(frame, product), ...more].filter(Boolean).join(' ')]
}

/** Formats the price of a unit, which may be less than the smallest coin. */
const smallMoney = ({ locale }: Frame, minor: string, currency: string): string =>
  new Intl.NumberFormat(locale, { style: 'currency', currency, maximumFractionDigits: 12 }).format(Number(minor) / 10 ** exponentsOf(currency).wire)
