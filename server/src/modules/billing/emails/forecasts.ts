import type { MailForecast, MailUsage, Purchased } from '@bursar/views'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadProducts } from '../../catalog/index.ts'
import { isDiscountOver } from '../calc/discounts-over-time.ts'
import { totalsOf } from '../calc/totals.ts'
import { discountWith, shapeOf, staticLines, stillPossible } from '../invoicing/applying.ts'
import { reductionOf } from '../invoicing/issuing.ts'
import type { LoadedSubscription } from '../records/subscriptions.sql.ts'
import { waitingAmounts } from './emails.sql.ts'

/** Forecasts the bill of the next period, including a pending change, open prorations and the discount if it still applies. */
export const forecastOf = async (db: Db, loaded: LoadedSubscription): Promise<{ plan: Purchased; forecast: MailForecast }> => {
  const { subscription, pending } = loaded
  const { organization_id, currency } = subscription
  const product = pending?.product_id ? ((await loadProducts(db, [{ tenant: organization_id, id: pending.product_id }]))[0] ?? null) : null
  const shape = pending ? stillPossible(() => shapeOf(loaded, product, pending.seats)) : undefined
  const prices = shape?.prices ?? loaded.prices
  const lines = shape?.lines ?? staticLines(prices, subscription)
  const waiting = (await waitingAmounts(db, subscription)).map((amount) => ({ amount, proration: true }))
  const at = subscription.current_period_end
  const own = shape && product ? await discountWith(db, organization_id, subscription.discount_id, product.product.id) : loaded.discount
  const discount = own && !isDiscountOver({ ...own, applied_at: subscription.discount_applied_at, period_start: at }) ? own : null
  const { total_amount, discount_amount } = totalsOf({
    currency,
    lines: [...lines.map(({ amount }) => ({ amount, proration: false })), ...waiting],
    discount: discount && reductionOf(discount),
    tax: null,
    credit: 0,
    debt: 0,
  })
  return {
    plan: { name: (shape?.product ?? loaded.product).product.name, seats: (shape ?? subscription).seats },
    forecast: {
      at,
      amount: total_amount,
      currency,
      discount: discount && discount_amount > 0 ? discount.name : null,
      tax_included: subscription.tax_behavior === 'inclusive',
      usage: usageRates(prices, product ? product.product : subscription, subscription),
    },
  }
}

/** Returns the metered prices of the next period. Usage is billed, and capped, with the subscription: `meter_interval` is not applied yet. */
const usageRates = (
  prices: LoadedSubscription['prices'],
  { recurring_interval, recurring_interval_count }: Pick<LoadedSubscription['product']['product'], 'recurring_interval' | 'recurring_interval_count'>,
  subscription: LoadedSubscription['subscription'],
): MailUsage[] =>
  prices.flatMap(({ meter, unit_amount, cap_amount, price_currency: currency }) => {
    if (meter === null || unit_amount === null) return []
    const every = {
      interval: recurring_interval ?? subscription.recurring_interval,
      interval_count: recurring_interval_count ?? subscription.recurring_interval_count,
    }
    const { name, unit, custom_label, custom_multiplier } = meter
    return [{ meter: name, unit, custom_label, custom_multiplier, unit_amount, cap_amount, currency, ...every }]
  })
