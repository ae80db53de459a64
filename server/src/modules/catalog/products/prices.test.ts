import { currencies, type ProductPriceCreate } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { chargeable } from '../../../kernel/money.ts'
import { priceProblems, type Setting } from './prices.ts'
import { divides } from './products.ts'

const setting: Setting = {
  organization: { default_presentment_currency: 'usd', feature_settings: { seat_based_pricing_enabled: true } },
  recurring: true,
  meters: new Set(['known']),
}
const problems = (prices: ProductPriceCreate[], given: Setting = setting) =>
  priceProblems(
    prices.map((price, at) => ({ price, at })),
    given,
  ).map(({ loc }) => loc.slice(2).join('.'))
const fixed = (price_amount: number, price_currency = 'usd') => ({ amount_type: 'fixed', price_amount, price_currency }) as ProductPriceCreate
const custom = (minimum_amount: number, maximum_amount: number | null = null, preset_amount: number | null = null) =>
  ({ amount_type: 'custom', price_currency: 'usd', minimum_amount, maximum_amount, preset_amount }) as ProductPriceCreate
const seats = (...bounds: [number, number | null][]) =>
  ({
    amount_type: 'seat_based',
    price_currency: 'usd',
    seat_tiers: { seat_tier_type: 'volume', tiers: bounds.map(([min_seats, max_seats]) => ({ min_seats, max_seats, price_per_seat: 100 })) },
  }) as ProductPriceCreate

describe('prices', () => {
  test.each<[string, ProductPriceCreate[], string[]]>([
    ['one fixed price', [fixed(1000)], []],
    ['a fixed price of zero', [fixed(0)], []],
    ['a fixed price below the minimum charge', [fixed(49)], ['0.price_amount']],
    ['a fixed price above the maximum charge', [fixed(100_000_000)], ['0.price_amount']],
    ['two fixed prices in one currency', [fixed(1000), fixed(2000)], ['1']],
    ['prices of one type in two currencies', [fixed(1000), fixed(900, 'eur')], []],
    ['prices of different types in two currencies', [fixed(1000), { ...custom(500), price_currency: 'eur' }], ['1']],
    ['no price in the default currency of the organization', [fixed(900, 'eur')], ['']],
    ['a custom price and a fixed price in one currency', [fixed(1000), custom(500)], ['1']],
    ['a fixed price and a seat price', [fixed(1000), seats([1, null])], []],
    ['a custom price with a maximum below the minimum', [custom(1000, 500)], ['0.maximum_amount']],
    ['a custom price with a preset outside the bounds', [custom(1000, 2000, 3000)], ['0.preset_amount']],
    ['a custom price with a preset of zero', [custom(1000, 2000, 0)], []],
    ['seat tiers without gaps', [seats([1, 5], [6, 10], [11, null])], []],
    ['seat tiers that start above one seat', [seats([3, 5], [6, null])], []],
    ['a gap between seat tiers', [seats([1, 5], [7, null])], ['0.seat_tiers.tiers.1.min_seats']],
    ['overlapping seat tiers', [seats([1, 5], [5, null])], ['0.seat_tiers.tiers.1.min_seats']],
    ['a seat tier without a maximum before the last tier', [seats([1, null], [6, null])], ['0.seat_tiers.tiers.0.max_seats']],
    ['a seat tier with a maximum below its minimum', [seats([5, 1])], ['0.seat_tiers.tiers.0.max_seats']],
    [
      'prices with different tax behaviors',
      [
        { ...fixed(1000), tax_behavior: 'inclusive' },
        { ...seats([1, null]), tax_behavior: 'exclusive' },
      ],
      ['1.tax_behavior'],
    ],
    ['several mistakes at once', [fixed(1), fixed(2), custom(1)], ['0.price_amount', '1.price_amount', '2.minimum_amount', '1', '2']],
  ])('reports the locations of all problems in prices with: %s', (_, prices, expected) => expect(problems(prices)).toEqual(expected))

  test('seat-based prices need the organization’s feature setting, and metered prices need a recurring product and a known meter', () => {
    expect(problems([seats([1, null])], { ...setting, organization: { ...setting.organization, feature_settings: null } })).toEqual(['0'])
    const metered = { amount_type: 'metered_unit', price_currency: 'usd', meter_id: 'x', unit_amount: '1' } as ProductPriceCreate
    expect(problems([metered], { ...setting, recurring: false })).toEqual(['0'])
    expect(problems([metered])).toEqual(['0.meter_id'])
    expect(problems([{ ...metered, meter_id: 'known' } as ProductPriceCreate])).toEqual([])
  })

  test('contiguous seat tiers are always accepted, and tiers with a shifted bound are always rejected', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 2, maxLength: 8 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 5 }),
        (lengths, at, shift) => {
          let next = 1
          const bounds = lengths.map((length): [number, number | null] => {
            const tier: [number, number | null] = [next, next + length - 1]
            next += length
            return tier
          })
          expect(problems([seats(...bounds)])).toEqual([])
          const index = 1 + ((at - 1) % (bounds.length - 1))
          const broken = bounds.map(([from, to], position): [number, number | null] =>
            position === index ? [from + shift, to === null ? null : to + shift] : [from, to],
          )
          expect(problems([seats(...broken)]).length).toBeGreaterThan(0)
        },
      ),
    )
  })

  test('every currency has a maximum charge far above its minimum', () => {
    for (const currency of currencies) {
      const { minimum, maximum } = chargeable(currency)
      expect(minimum).toBeGreaterThan(0)
      expect(maximum).toBeGreaterThan(minimum * 100)
    }
    expect(chargeable('jpy')).toEqual({ minimum: 80, maximum: 99_999_999 })
    expect(chargeable('lak')).toEqual({ minimum: 2_000_000, maximum: 2_100_000_000 })
  })
})

test.each<[string, number, string, number, boolean]>([
  ['day', 1, 'month', 1, true],
  ['day', 2, 'month', 1, false],
  ['day', 7, 'week', 1, true],
  ['day', 5, 'week', 1, false],
  ['month', 3, 'year', 1, true],
  ['month', 5, 'year', 1, false],
  ['month', 2, 'month', 4, true],
  ['month', 3, 'month', 4, false],
  ['year', 1, 'month', 12, false],
  ['week', 1, 'month', 1, false],
])('the meter interval %s × %i divides the billing interval %s × %i: %s', (meter, m, billing, n, fits) => expect(divides(meter, m, billing, n)).toBe(fits))
