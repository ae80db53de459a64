import type { Frame, Offer, View } from '@bursar/views'
import fc from 'fast-check'
import { scheduleOf } from '../../src/modules/billing/calc/schedule.ts'
import { totalsOf } from '../../src/modules/billing/calc/totals.ts'
import type { Reduction } from '../../src/modules/billing/calc/discounts.ts'

type CheckoutShown = Extract<View, { kind: 'checkout' }>

/** The parts of an offer from which its amounts follow. */
export interface Terms {
  readonly currency: 'usd' | 'eur' | 'jpy' | 'huf'
  readonly price: number
  readonly seats: number | null
  readonly discount: (Reduction & { readonly duration: 'once' | 'repeating' | 'forever'; readonly months: number }) | null
  /** Parts per million. Null if the tax is not known yet. */
  readonly rate: number | null
  readonly behavior: 'inclusive' | 'exclusive'
  readonly interval: 'day' | 'week' | 'month' | 'year' | null
  readonly interval_count: number
  readonly trial_days: number
  readonly usage: boolean
}

export const now = new Date('2026-11-19T12:00:00Z')
const id = '00000000-0000-4000-8000-000000000001'

/** Random terms: prices, seats, discounts, taxes, trials and intervals, in currencies with and without decimals. */
export const anyTerms: fc.Arbitrary<Terms> = fc.record({
  currency: fc.constantFrom('usd', 'eur', 'jpy', 'huf'),
  // Forints are charged in whole units.
  price: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 20_000 })).map((price) => price * 100),
  seats: fc.option(fc.integer({ min: 1, max: 60 })),
  discount: fc.option(
    fc
      .tuple(
        fc.oneof(
          fc.integer({ min: 1, max: 10_000 }).map((basis_points) => ({ type: 'percentage' as const, basis_points })),
          fc
            .integer({ min: 1, max: 1_000 })
            .map((amount) => ({ type: 'fixed' as const, amounts: { usd: amount * 100, eur: amount * 100, jpy: amount, huf: amount * 10_000 } })),
        ),
        fc.record({ duration: fc.constantFrom('once' as const, 'repeating' as const, 'forever' as const), months: fc.integer({ min: 1, max: 24 }) }),
      )
      .map(([reduction, lasting]) => ({ ...reduction, ...lasting })),
  ),
  rate: fc.constantFrom(null, 0, 190_000, 88_750, 270_000),
  behavior: fc.constantFrom('inclusive', 'exclusive'),
  interval: fc.constantFrom(null, 'day', 'week', 'month', 'year'),
  interval_count: fc.integer({ min: 1, max: 6 }),
  trial_days: fc.constantFrom(0, 0, 14),
  usage: fc.constantFrom(false, false, true),
})

const priceOf = ({ currency, price, seats }: Terms) => ({
  id,
  price_currency: currency,
  is_archived: false,
  tax_behavior: null,
  ...(seats === null
    ? { amount_type: 'fixed', price_amount: price }
    : { amount_type: 'seat_based', seat_tiers: { seat_tier_type: 'graduated', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: price }] } }),
})

const usagePrice = ({ currency }: Terms) => ({
  id: '00000000-0000-4000-8000-000000000002',
  price_currency: currency,
  amount_type: 'metered_unit',
  unit_amount: '2',
  cap_amount: null,
  meter: { id, name: 'Requests', unit: 'scalar', custom_label: null, custom_multiplier: null },
})

/** Builds the checkout page for these terms. The amounts are computed by the calculators that the API uses. */
export const checkoutOf = (terms: Terms): CheckoutShown => {
  const { currency, discount, behavior } = terms
  const usage = terms.usage && terms.interval !== null
  const totals = totalsOf({
    currency,
    lines: [{ amount: terms.price * (terms.seats ?? 1), proration: false }],
    discount,
    tax: terms.rate === null ? null : { rate: terms.rate, behavior },
    credit: 0,
    debt: 0,
  })
  const trial_end = terms.interval !== null && terms.trial_days > 0 ? new Date(now.getTime() + terms.trial_days * 86_400_000) : null
  const is_payment_required = totals.charge_amount > 0 && trial_end === null
  const is_payment_setup_required = terms.interval !== null && (totals.subtotal_amount > 0 || usage)
  const prices = [priceOf(terms), ...(usage ? [usagePrice(terms)] : [])]
  const product = {
    id,
    name: 'Team plan',
    description: null,
    recurring_interval: terms.interval,
    recurring_interval_count: terms.interval === null ? null : terms.interval_count,
    is_archived: false,
    prices,
    benefits: [],
    medias: [],
  }
  const offer = {
    id,
    created_at: now.toISOString(),
    status: 'open',
    currency,
    product_id: id,
    product,
    products: [product],
    prices: { [id]: prices },
    seats: terms.seats,
    min_seats: null,
    max_seats: null,
    amount: totals.subtotal_amount,
    discount_amount: totals.discount_amount,
    net_amount: totals.net_amount,
    tax_amount: terms.rate === null ? null : totals.tax_amount,
    tax_behavior: terms.rate === null ? null : behavior,
    total_amount: totals.total_amount,
    saved_payment_methods: [],
    tax_reason: terms.rate === null ? null : 'standard_rated',
    is_payment_required,
    is_payment_setup_required,
    is_payment_form_required: is_payment_required || is_payment_setup_required,
    is_discount_applicable: true,
    allow_discount_codes: true,
    trial_end: trial_end?.toISOString() ?? null,
    active_trial_interval: trial_end && 'day',
    active_trial_interval_count: trial_end && terms.trial_days,
    discount: discount && {
      id,
      name: 'Launch',
      code: 'LAUNCH',
      ...discount,
      ...(discount.duration === 'repeating' ? { duration_in_months: discount.months } : {}),
    },
    customer_id: null,
    customer_email: null,
    customer_name: null,
    customer_billing_name: null,
    customer_billing_address: terms.rate === null ? null : { country: 'DE' },
    customer_tax_id: null,
    is_business_customer: false,
    billing_address_fields: { country: 'required', state: 'disabled', city: 'disabled', postal_code: 'disabled', line1: 'disabled', line2: 'disabled' },
    custom_field_data: {},
    attached_custom_fields: [],
    organization: { name: 'Northwind Trails', slug: 'northwind' },
    organization_id: id,
    return_url: null,
    locale: null,
    payment_processor_metadata: {},
  } as unknown as Offer
  const schedule = scheduleOf(
    {
      ...offer,
      interval: terms.interval,
      interval_count: terms.interval_count,
      discount: discount && { duration: discount.duration, duration_in_months: discount.duration === 'repeating' ? discount.months : null },
      trial_end,
    },
    now,
  )
  return {
    kind: 'checkout',
    offer,
    draft: {},
    schedule,
    cards: [{ token: 'tok_visa', type: 'card', brand: 'visa', last4: '4242', says: 'pays' }],
    publishable_key: null,
    methods: '',
    shown: '',
    complaints: [],
    declined: null,
    notice: null,
    applied: false,
    guessed: false,
    wait_seconds: null,
  }
}

/** The context of a page for one reader. */
export const frameIn = (locale: Frame['locale']): Frame => ({
  locale,
  theme: 'system',
  sandbox: true,
  csrf: 'csrf',
  person: null,
  path: '/',
  development: false,
  brand: null,
  origin: 'http://localhost',
  now,
})
