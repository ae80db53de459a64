import { exponentsOf } from '@bursar/contract'
import type { PortalProduct } from '@bursar/views'
import { speak, type Spoken } from './speak.ts'

type Interval = 'day' | 'week' | 'month' | 'year'

/** The unit that a meter counts. */
export interface CountedUnit {
  readonly unit: 'scalar' | 'token' | 'custom'
  readonly custom_label: string | null
  readonly custom_multiplier: number | null
}

export interface MeteredPrice {
  /** The price of one unit in minor units, as decimal text. It may be less than the smallest coin. */
  readonly unit_amount: string
  readonly cap_amount: number | null
  readonly currency: string
}

/** The number of units that a price is shown for. A price of a single token would have too many zeros to read. */
const unitsShown = ({ unit, custom_multiplier }: CountedUnit): number => (unit === 'token' ? 1_000_000 : unit === 'custom' ? (custom_multiplier ?? 1) : 1)

/** Formats the price of units, with as many digits as it needs: `$0.02 per request`, `$3.00 per 1,000,000 tokens`. */
export const unitPrice = (frame: Spoken, { unit_amount, currency }: Omit<MeteredPrice, 'cap_amount'>, counted: CountedUnit): string => {
  const { t, number } = speak(frame)
  const count = unitsShown(counted)
  // Rounding to 12 digits removes the error of the binary product. Prices have at most 12 digits after the point.
  const amount = Number(((Number(unit_amount) * count) / 10 ** exponentsOf(currency).wire).toPrecision(12))
  const price = new Intl.NumberFormat(frame.locale, { style: 'currency', currency, maximumFractionDigits: 14 }).format(amount)
  const name = counted.unit === 'custom' && counted.custom_label !== null ? counted.custom_label : counted.unit === 'token' ? t.usage.tokens : t.usage.unit
  return t.usage.per(price, count === 1 ? name : `${number(count)} ${name}`)
}

/** Says what usage costs, with its limit: `$0.02 per request, at most $50.00 a month`. */
export const usagePrice = (frame: Spoken, price: MeteredPrice, counted: CountedUnit, every: { interval: Interval; interval_count: number }): string => {
  const { t, money } = speak(frame)
  const cost = unitPrice(frame, price, counted)
  return price.cap_amount === null ? cost : t.usage.atMost(cost, money(price.cap_amount, price.currency), t.per[every.interval](every.interval_count))
}

/** The interval in which a product and its usage are billed. `meter_interval` is not applied yet. */
type Billed = Pick<PortalProduct, 'recurring_interval' | 'recurring_interval_count'>

/** Says what usage costs at each metered price of a product in a currency, with the name of its meter. */
export const usagePrices = (
  frame: Spoken,
  { recurring_interval, recurring_interval_count }: Billed,
  prices: PortalProduct['prices'],
  currency: string,
): { readonly id: string; readonly meter: string; readonly price: string }[] =>
  prices.flatMap((one) => {
    if (one.amount_type !== 'metered_unit' || one.price_currency !== currency) return []
    const { id, unit_amount, cap_amount, meter } = one
    const every = { interval: recurring_interval ?? 'month', interval_count: recurring_interval_count ?? 1 }
    return [{ id, meter: meter.name, price: usagePrice(frame, { unit_amount, cap_amount, currency }, meter, every) }]
  })
