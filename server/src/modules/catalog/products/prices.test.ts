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
    ['nothing to pay', [fixed(0)], []],
    ['below what can be charged', [fixed(49)], ['0.price_amount']],
    ['above what can be charged', [fixed(100_000_000)], ['0.price_amount']],
    ['two fixed prices in one currency', [fixed(1000), fixed(2000)], ['1']],
    ['two currencies of one kind', [fixed(1000), fixed(900, 'eur')], []],
    ['currencies of different kinds', [fixed(1000), { ...custom(500), price_currency: 'eur' }], ['1']],
    ['no price in the home currency', [fixed(900, 'eur')], ['']],
    ['a chosen price beside a fixed one', [fixed(1000), custom(500)], ['1']],
    ['a fixed price beside seats', [fixed(1000), seats([1, null])], []],
    ['a maximum below the minimum', [custom(1000, 500)], ['0.maximum_amount']],
    ['a preset outside the bounds', [custom(1000, 2000, 3000)], ['0.preset_amount']],
    ['a preset of nothing', [custom(1000, 2000, 0)], []],
    ['tiers that follow each other', [seats([1, 5], [6, 10], [11, null])], []],
    ['tiers that begin later', [seats([3, 5], [6, null])], []],
    ['a gap between tiers', [seats([1, 5], [7, null])], ['0.seat_tiers.tiers.1.min_seats']],
    ['tiers that overlap', [seats([1, 5], [5, null])], ['0.seat_tiers.tiers.1.min_seats']],
    ['an open tier in the middle', [seats([1, null], [6, null])], ['0.seat_tiers.tiers.0.max_seats']],
    ['a tier that ends before it begins', [seats([5, 1])], ['0.seat_tiers.tiers.0.max_seats']],
    [
      'tax treated in two ways',
      [
        { ...fixed(1000), tax_behavior: 'inclusive' },
        { ...seats([1, null]), tax_behavior: 'exclusive' },
      ],
      ['1.tax_behavior'],
    ],
    ['several mistakes at once', [fixed(1), fixed(2), custom(1)], ['0.price_amount', '1.price_amount', '2.minimum_amount', '1', '2']],
  ])('%s', (_, prices, expected) => expect(problems(prices)).toEqual(expected))

  test('seats need the switch, metered prices a rhythm', () => {
    expect(problems([seats([1, null])], { ...setting, organization: { ...setting.organization, feature_settings: null } })).toEqual(['0'])
    const metered = { amount_type: 'metered_unit', price_currency: 'usd', meter_id: 'x', unit_amount: '1' } as ProductPriceCreate
    expect(problems([metered], { ...setting, recurring: false })).toEqual(['0'])
    expect(problems([metered])).toEqual(['0.meter_id'])
    expect(problems([{ ...metered, meter_id: 'known' } as ProductPriceCreate])).toEqual([])
  })

  test('contiguous tiers are always accepted, and any shift of one bound never is', () => {
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

  test('every currency has room between its smallest and its largest charge', () => {
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
])('%s × %i fits into %s × %i: %s', (meter, m, billing, n, fits) => expect(divides(meter, m, billing, n)).toBe(fits))
