import type { getProduct } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { t } from '../../app/texts.ts'
import { money } from '../../kit/format.ts'

export type ProductData = Received<typeof getProduct>
type Price = ProductData['prices'][number]

/** A price in words, without its rhythm. */
export const priceText = (price: Price): string => {
  const p = t.products
  switch (price.amount_type) {
    case 'fixed':
      return price.price_amount === 0 ? p.free : money(price.price_amount, price.price_currency)
    case 'custom':
      return p.custom(money(price.minimum_amount, price.price_currency))
    case 'seat_based': {
      const [first, ...others] = price.seat_tiers.tiers
      const amount = money(Math.min(first!.price_per_seat, ...others.map(({ price_per_seat }) => price_per_seat)), price.price_currency)
      return others.length === 0 ? p.perSeat(amount) : p.fromSeat(amount)
    }
    case 'metered_unit':
      return p.metered(`${price.unit_amount} ${price.price_currency.toUpperCase()}/100`, price.meter.custom_label ?? p.unit)
  }
}

/** The prices of a product in one sentence, for example "$9.00 per seat a month". */
export const priceSentence = ({ prices, recurring_interval, recurring_interval_count }: ProductData): string => {
  const current = prices.filter(({ is_archived }) => !is_archived)
  if (current.length === 0) return t.products.noPrice
  const rhythm = recurring_interval === null ? '' : ` ${t.products.intervals[recurring_interval](recurring_interval_count ?? 1)}`
  return `${[...new Set(current.map(priceText))].join(' + ')}${rhythm}`
}
