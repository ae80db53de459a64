import { statesOfZipCode, type CheckoutBillingAddressFields } from '@bursar/contract'
import { mainReason } from '../../../kernel/taxes.ts'
import { applicable, discountLines, isLineQuote, isQuotedFor, reductionOf, totalsOf, trialEnd, upfrontLines, type TaxQuote } from '../../billing/index.ts'
import type { DiscountRow, LoadedProduct, PriceRow } from '../../catalog/index.ts'
import { presentPrice } from '../../catalog/index.ts'
import type { CheckoutRow } from './checkouts.sql.ts'

/** Input from which the amounts of a checkout are computed. */
export interface Basis {
  readonly checkout: Pick<
    CheckoutRow,
    | 'currency'
    | 'chosen_amount'
    | 'seats'
    | 'allow_trial'
    | 'trial_interval'
    | 'trial_interval_count'
    | 'tax'
    | 'require_billing_address'
    | 'is_business_customer'
    | 'figures'
  >
  readonly product: LoadedProduct['product']
  /** The prices of the product in this checkout, in every currency. */
  readonly prices: readonly PriceRow[]
  /** A discount for which `countingDiscount` has decided that it applies. */
  readonly discount: DiscountRow | null
  readonly now: Date
}

/** Returns the prices in the given currency. */
export const pricesIn = (prices: readonly PriceRow[], currency: string): PriceRow[] => prices.filter(({ price_currency }) => price_currency === currency)

const isFree = (price: PriceRow): boolean => {
  switch (price.amount_type) {
    case 'fixed':
      return price.price_amount === 0
    case 'custom':
      return price.minimum_amount === 0 && (price.preset_amount ?? 0) === 0 && price.maximum_amount === 0
    case 'seat_based':
      return price.seat_tiers!.tiers.every(({ price_per_seat }) => price_per_seat === 0)
    case 'metered_unit':
      return false
  }
}

export const isFreeProduct = (prices: readonly PriceRow[]): boolean => prices.every(isFree)

/** Returns the discount if it applies to this product in this currency at the time `now`. Otherwise returns null. */
export const countingDiscount = ({ checkout, product, prices, discount, now }: Basis): DiscountRow | null => {
  if (discount === null) return null
  const terms = { starts_at: discount.starts_at, ends_at: discount.ends_at, product_ids: discount.products.map(({ id }) => id), ...reductionOf(discount) }
  const occasion = { now, product_id: product.id, currency: checkout.currency, is_free_product_price: isFreeProduct(pricesIn(prices, checkout.currency)) }
  return applicable(terms, occasion) ? discount : null
}

/** Returns the trial of the checkout, or else of the product. One-time purchases and checkouts with `allow_trial: false` have none. */
export const trialOf = ({ checkout, product }: Pick<Basis, 'checkout' | 'product'>) => {
  if (product.recurring_interval === null || checkout.allow_trial === false) return { active_trial_interval: null, active_trial_interval_count: null }
  const own = checkout.trial_interval !== null && checkout.trial_interval_count !== null
  return {
    active_trial_interval: own ? checkout.trial_interval : product.trial_interval,
    active_trial_interval_count: own ? checkout.trial_interval_count : product.trial_interval_count,
  }
}

/** Returns the lines of a checkout. A number of seats outside the tiers is priced as the nearest allowed number, but cannot be confirmed. */
const linesOf = (prices: readonly PriceRow[], checkout: Basis['checkout']) => {
  const tiers = prices.find(({ amount_type }) => amount_type === 'seat_based')?.seat_tiers?.tiers
  const seats =
    checkout.seats === null || !tiers ? checkout.seats : Math.min(Math.max(checkout.seats, tiers[0]!.min_seats), tiers.at(-1)!.max_seats ?? Infinity)
  return upfrontLines(prices.map(presentPrice), { amount: checkout.chosen_amount, seats }).map((line) => ({ ...line, proration: false }))
}

/** Returns the lines of a checkout with their discounts. The tax is quoted for them. */
export const discountedLines = ({ checkout, prices, discount }: Basis) =>
  discountLines(linesOf(pricesIn(prices, checkout.currency), checkout), discount && reductionOf(discount), checkout.currency)

/**
 * Computes the amounts of a checkout: lines, discount and tax, each rounded once. Also returns the amount to charge now,
 * and whether a payment form is needed, now or for later charges.
 * After the confirmation, the stored totals are returned unchanged. These totals are shown to the buyer, charged, and
 * written into the order.
 */
export const figure = (basis: Basis) => {
  const { checkout, product, discount, now } = basis
  const prices = pricesIn(basis.prices, checkout.currency)
  const quote = checkout.figures ? checkout.tax : quoteFor(checkout.tax, basis)
  const totals =
    checkout.figures ??
    totalsOf({
      currency: checkout.currency,
      lines: linesOf(prices, checkout),
      discount: discount && reductionOf(discount),
      tax: quote,
      credit: 0,
      debt: 0,
    })
  const { active_trial_interval, active_trial_interval_count } = trialOf(basis)
  const trial_end = active_trial_interval && active_trial_interval_count ? trialEnd(now, active_trial_interval, active_trial_interval_count) : null
  const is_free_product_price = isFreeProduct(prices)
  const metered = prices.some(({ amount_type }) => amount_type === 'metered_unit')
  const recurring = product.recurring_interval !== null
  const freeForEver = discount?.type === 'percentage' && discount.basis_points === 10_000 && discount.duration === 'forever'
  const is_payment_required = totals.charge_amount > 0 && trial_end === null
  const is_payment_setup_required = recurring && !is_free_product_price && !(totals.subtotal_amount === 0 && !metered) && !(freeForEver && !metered)
  const is_payment_form_required = is_payment_required || is_payment_setup_required
  const tax_amount = is_payment_form_required ? (quote === null ? null : totals.tax_amount) : 0
  return {
    totals,
    charge_amount: is_payment_required ? totals.charge_amount : 0,
    is_free_product_price,
    is_payment_required,
    is_payment_setup_required,
    is_payment_form_required,
    tax_reason: reasonOf(quote),
    stored: {
      price_ids: prices.map(({ id }) => id),
      amount: totals.subtotal_amount,
      discount_amount: totals.discount_amount,
      net_amount: totals.net_amount,
      tax_amount,
      tax_behavior: quote?.behavior ?? null,
      total_amount: totals.total_amount,
      trial_end,
    },
  }
}

/**
 * Returns the quote if it is valid for the current lines. The prices or the discount may have changed since the tax was
 * quoted. A quoted tax of other amounts is unknown until the checkout is updated or confirmed.
 */
const quoteFor = (quote: TaxQuote | null, basis: Basis): TaxQuote | null => (isLineQuote(quote) && !isQuotedFor(quote, discountedLines(basis)) ? null : quote)

/** Returns why the quoted tax applies, or why none does. */
const reasonOf = (quote: TaxQuote | null) => {
  if (quote === null) return null
  return isLineQuote(quote) ? mainReason(quote.lines.flatMap(({ taxes }) => taxes.map(({ reason }) => reason))) : quote.reason
}

type Placed = Pick<CheckoutRow, 'require_billing_address' | 'is_business_customer' | 'customer_billing_address' | 'tax'>

/**
 * Returns which parts of the address the buyer must fill in. Without a reason for more, that is the country, and in the US
 * and Canada the parts that determine the state. In the US that is the ZIP code, and the state only where the prefix of
 * the code crosses a state line. A business gives the full address, because its invoice must contain it. The full address
 * is also required if the tax is still unknown, because a tax service may need more.
 */
export const addressFields = ({
  require_billing_address,
  is_business_customer,
  customer_billing_address: address,
  tax,
}: Placed): CheckoutBillingAddressFields => {
  const country = address?.country
  const isZipRequired = country === 'US'
  const isStateRequired = country === 'CA' || (country === 'US' && isPresent(address?.postal_code) && statesOfZipCode(address!.postal_code!).length !== 1)
  const isEnough = (!isZipRequired || isPresent(address?.postal_code)) && (!isStateRequired || isPresent(address?.state))
  const whole = require_billing_address || is_business_customer || (country !== undefined && isEnough && tax === null)
  const part = whole ? 'required' : 'disabled'
  return {
    country: 'required',
    state: isStateRequired || (whole && country === 'US') ? 'required' : whole ? 'optional' : 'disabled',
    city: part,
    postal_code: isZipRequired ? 'required' : part,
    line1: part,
    line2: whole ? 'optional' : 'disabled',
  }
}

const isPresent = (text: string | null | undefined): boolean => text !== null && text !== undefined && text !== ''
