import type { ProductPrice } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { QuantityBeyondTiers, tierAmount, upfrontLines, type SeatTiers, type UpfrontPrice } from './prices.ts'

const tiers = (seat_tier_type: SeatTiers['seat_tier_type'], ...list: [number, number | null, number][]): SeatTiers => ({
  seat_tier_type,
  tiers: list.map(([min_seats, max_seats, price_per_seat]) => ({ min_seats, max_seats, price_per_seat })),
})
const steps: [number, number | null, number][] = [
  [1, 5, 1000],
  [6, 10, 800],
  [11, 20, 500],
]

describe('tierAmount', () => {
  test.each([
    [1, 1000, 1000],
    [5, 5000, 5000],
    [6, 4800, 5800],
    [10, 8000, 9000],
    [11, 5500, 9500],
    [20, 10_000, 14_000],
  ])('charges %i seats with %i by volume tiers and with %i by graduated tiers', (quantity, volume, graduated) => {
    expect(tierAmount(tiers('volume', ...steps), quantity)).toBe(volume)
    expect(tierAmount(tiers('graduated', ...steps), quantity)).toBe(graduated)
  })

  test('accepts any number of seats if the last tier has no maximum', () => {
    expect(tierAmount(tiers('volume', [1, 9, 200], [10, null, 100]), 1_000_000)).toBe(100_000_000)
    expect(tierAmount(tiers('graduated', [1, 9, 200], [10, null, 100]), 1_000_000)).toBe(1800 + 99_999_100)
  })

  test('charges all seats from the first one on, even if the first tier has a minimum above one', () => {
    expect(tierAmount(tiers('volume', [3, 5, 100], [6, null, 50]), 3)).toBe(300)
    expect(tierAmount(tiers('graduated', [3, 5, 100], [6, null, 50]), 3)).toBe(300)
    expect(tierAmount(tiers('graduated', [3, 5, 100], [6, null, 50]), 7)).toBe(600)
  })

  test.each([21, 0, -1, 1.5, NaN])('rejects %d seats for both tier types', (quantity) => {
    expect(() => tierAmount(tiers('volume', ...steps), quantity)).toThrow(QuantityBeyondTiers)
    expect(() => tierAmount(tiers('graduated', ...steps), quantity)).toThrow(QuantityBeyondTiers)
  })

  test('rejects a quantity below the first minimum and names the allowed range', () => {
    expect(() => tierAmount(tiers('graduated', [3, null, 100]), 2)).toThrow('2 seats have no price: choose at least 3.')
    expect(() => tierAmount(tiers('volume', ...steps), 21)).toThrow('21 seats have no price: choose between 1 and 20.')
  })

  test('rejects an amount above the largest safe integer', () => {
    expect(() => tierAmount(tiers('volume', [1, null, 2_100_000_000]), 2_147_483_647)).toThrow(RangeError)
  })

  test('charges each further graduated seat at the rate of its tier', () => {
    const widths = fc.array(fc.record({ width: fc.integer({ min: 1, max: 30 }), rate: fc.integer({ min: 0, max: 1_000_000 }) }), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(widths, fc.integer({ min: 1, max: 200 }), (list, quantity) => {
        let from = 1
        const rates: number[] = []
        const built = list.map(({ width, rate }, at): [number, number | null, number] => {
          const start = from
          from += width
          const last = at === list.length - 1
          for (let seat = start; seat < (last ? 201 : from); seat++) rates[seat] = rate
          return [start, last ? null : from - 1, rate]
        })
        const more = tierAmount(tiers('graduated', ...built), quantity)
        const fewer = quantity === 1 ? 0 : tierAmount(tiers('graduated', ...built), quantity - 1)
        expect(more - fewer).toBe(rates[quantity])
        expect(tierAmount(tiers('volume', ...built), quantity)).toBe(rates[quantity]! * quantity)
      }),
    )
  })
})

describe('upfrontLines', () => {
  const fixed: UpfrontPrice = { id: 'a', amount_type: 'fixed', price_amount: 1500 }
  const seats: UpfrontPrice = { id: 'b', amount_type: 'seat_based', seat_tiers: tiers('volume', [2, null, 300]) }
  const metered: UpfrontPrice = { id: 'c', amount_type: 'metered_unit' }
  const custom = (preset_amount: number | null): UpfrontPrice => ({ id: 'd', amount_type: 'custom', minimum_amount: 500, preset_amount })

  test('returns one line per price, in order', () => {
    expect(upfrontLines([fixed, seats, metered], { seats: 4 })).toEqual([
      { product_price_id: 'a', amount_type: 'fixed', seats: null, amount: 1500 },
      { product_price_id: 'b', amount_type: 'seat_based', seats: 4, amount: 1200 },
      { product_price_id: 'c', amount_type: 'metered_unit', seats: null, amount: 0 },
    ])
  })

  test('uses the minimum number of seats by default', () => expect(upfrontLines([seats], {})[0]).toMatchObject({ seats: 2, amount: 600 }))

  test.each([
    ['the amount that the buyer chooses', 2000, 900, 2000],
    ['zero, if the buyer chooses zero', 0, 900, 0],
    ['the preset amount, without a choice', null, 900, 900],
    ['a preset of zero', undefined, 0, 0],
    ['the minimum amount, without a choice and a preset', null, null, 500],
  ])('charges for a custom price: %s', (_, amount, preset, expected) => expect(upfrontLines([custom(preset)], { amount })[0]!.amount).toBe(expected))

  test('accepts prices of the type `ProductPrice` of the API contract', () => {
    const accepted: (prices: readonly ProductPrice[]) => unknown = (prices) => upfrontLines(prices, {})
    expect(accepted([])).toEqual([])
  })
})
