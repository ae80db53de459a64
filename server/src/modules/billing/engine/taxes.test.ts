import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stepOf } from '../../../kernel/money.ts'
import { divideWithin, refundTax, taxOf, type Tax, taxWithin } from './taxes.ts'
import { refundable } from './totals.ts'

const inclusive = (rate: number): Tax => ({ rate, behavior: 'inclusive' })
const exclusive = (rate: number): Tax => ({ rate, behavior: 'exclusive' })

describe('tax', () => {
  test.each<[string, string, [number, number][], Tax | null, number[]]>([
    ['on top', 'usd', [[1000, 0]], exclusive(88_750), [89]],
    ['within', 'eur', [[1000, 0]], inclusive(190_000), [160]],
    ['half a cent, away from zero', 'usd', [[5, 0]], exclusive(100_000), [1]],
    ['half a cent of a credit, away from zero', 'usd', [[-5, 0]], exclusive(100_000), [-1]],
    ['after the discount', 'usd', [[1000, 500]], exclusive(200_000), [100]],
    [
      'each line for itself',
      'usd',
      [
        [4, 0],
        [4, 0],
        [-4, 0],
      ],
      exclusive(200_000),
      [1, 1, -1],
    ],
    ['a rate of five decimals', 'usd', [[100_000, 0]], exclusive(99_750), [9975]],
    ['yen', 'jpy', [[1980, 0]], inclusive(100_000), [180]],
    ['ariary', 'mga', [[3007, 0]], exclusive(200_000), [601]],
    ['krónur, on top: whole', 'isk', [[7000, 0]], exclusive(240_000), [1700]],
    ['krónur, within: to the unit', 'isk', [[7000, 0]], inclusive(240_000), [1355]],
    ['shillings, on top: whole', 'ugx', [[201_500, 0]], exclusive(180_000), [36_300]],
    ['none', 'usd', [[1000, 0]], null, [0]],
    ['nothing', 'usd', [[1000, 0]], exclusive(0), [0]],
  ])('%s', (_, currency, lines, tax, expected) =>
    expect(
      taxOf(
        lines.map(([amount, discount_amount]) => ({ amount, discount_amount })),
        tax,
        currency,
      ),
    ).toEqual(expected),
  )

  test.each([-1, 0.5, NaN])('a rate of %d is none', (rate) => expect(() => taxOf([], exclusive(rate), 'usd')).toThrow(RangeError))

  test('a credit gives back what the same charge cost', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...currencies),
        fc.integer({ min: 0, max: 100_000_000 }),
        fc.integer({ min: 0, max: 500_000 }),
        fc.constantFrom('inclusive' as const, 'exclusive' as const),
        (currency, amount, rate, behavior) => {
          const [charge, credit] = taxOf(
            [
              { amount, discount_amount: 0 },
              { amount: 0 - amount, discount_amount: 0 },
            ],
            { rate, behavior },
            currency,
          )
          expect(charge! + credit!).toBe(0)
          expect(charge).toBeGreaterThanOrEqual(0)
          if (behavior === 'inclusive') expect(charge).toBeLessThanOrEqual(amount)
        },
      ),
    )
  })
})

describe('the tax of a refund', () => {
  const order = { currency: 'usd', net_amount: 1000, tax_amount: 89, refundable_amount: 1000, refundable_tax_amount: 89 }

  test.each([
    ['everything', order, 1000, 89],
    ['half, away from zero', order, 500, 45],
    ['a little', order, 5, 0],
    ['the rest', { ...order, refundable_amount: 500, refundable_tax_amount: 44 }, 500, 44],
    ['no more than is left', { ...order, refundable_amount: 900, refundable_tax_amount: 3 }, 500, 3],
    ['more than the net amount, where a debt was paid too', { ...order, refundable_amount: 1500 }, 1400, 89],
    ['of an order that only paid a debt', { ...order, net_amount: 0, tax_amount: 0, refundable_tax_amount: 0 }, 10, 0],
    ['krónur: together whole', { currency: 'isk', net_amount: 5645, tax_amount: 1355, refundable_amount: 5645, refundable_tax_amount: 1355 }, 3000, 700],
    ['yen', { currency: 'jpy', net_amount: 1800, tax_amount: 180, refundable_amount: 1800, refundable_tax_amount: 180 }, 905, 91],
  ])('%s', (_, order, amount, expected) => expect(refundTax({ ...order, amount })).toBe(expected))

  test.each([0, -1, 1001])('there is no refund of %i', (amount) => expect(() => refundTax({ ...order, amount })).toThrow(RangeError))

  test('in any slices never exceeds what was paid, and leaves none in the end', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...currencies),
        fc.integer({ min: 1, max: 100_000_000 }),
        fc.integer({ min: 0, max: 50_000_000 }),
        fc.integer({ min: -50_000_000, max: 50_000_000 }),
        fc.array(fc.integer({ min: 1, max: 1_000_000 }), { maxLength: 12 }),
        (currency, net_amount, tax_amount, applied_balance_amount, slices) => {
          let given = { refunded_amount: 0, refunded_tax_amount: 0 }
          const left = () => refundable({ net_amount, tax_amount, applied_balance_amount, carried_amount: 0, ...given })
          const paid = left()
          const refund = (amount: number) => {
            const tax = refundTax({ currency, amount, net_amount, tax_amount, ...left() })
            expect(tax).toBeGreaterThanOrEqual(0)
            given = { refunded_amount: given.refunded_amount + amount, refunded_tax_amount: given.refunded_tax_amount + tax }
            expect(given.refunded_amount).toBeLessThanOrEqual(paid.refundable_amount)
            expect(given.refunded_tax_amount).toBeLessThanOrEqual(tax_amount)
          }
          for (const part of slices) {
            const amount = Math.ceil((left().refundable_amount * part) / 1_000_000)
            if (amount > 0) refund(amount)
          }
          if (left().refundable_amount > 0) refund(left().refundable_amount)
          if (paid.refundable_amount > 0) {
            expect(left()).toEqual({ refundable_amount: 0, refundable_tax_amount: 0 })
            expect(given).toEqual({ refunded_amount: paid.refundable_amount, refunded_tax_amount: tax_amount })
          }
        },
      ),
      { numRuns: 10_000 },
    )
  })

  test('of what a bank takes is the share of the order, and all that is left with all that is left', () => {
    const order = { net_amount: 2437, tax_amount: 463, refundable_amount: 2437, refundable_tax_amount: 463 }
    const half = { ...order, refundable_amount: 1437, refundable_tax_amount: 273 }
    const table: [gross: number, of: typeof order, tax: number][] = [
      [2900, order, 463],
      [1450, order, 232],
      [1, order, 0],
      [1710, half, 273],
      [2900, half, 273],
      [1000, half, 160],
      [100, { ...order, tax_amount: 0, refundable_tax_amount: 0 }, 0],
      [100, { net_amount: 0, tax_amount: 0, refundable_amount: 500, refundable_tax_amount: 0 }, 0],
    ]
    for (const [gross, of, tax] of table) expect([gross, taxWithin(gross, of)]).toEqual([gross, tax])
  })

  test('with its amount can be paid out, where there is tax enough to round with', () => {
    for (let amount = 1000; amount < 5000; amount++) {
      const tax = refundTax({ currency: 'isk', amount, net_amount: 5645, tax_amount: 1355, refundable_amount: 5645, refundable_tax_amount: 1355 })
      expect((amount + tax) % stepOf('isk')).toBe(0)
    }
  })
})

test('what a bank takes of an order that was paid with credit divides into what is left of price and tax, and nothing of it vanishes', () => {
  const order = (credit: number) => ({ net_amount: 1000, tax_amount: 190, refundable_amount: Math.max(0, 1000 - credit), refundable_tax_amount: 190 })
  const table = [
    [1190, 0, 1000, 190],
    [595, 0, 500, 95],
    [500, 600, 400, 100],
    [90, 1100, 0, 90],
    // More than there is: what is left.
    [2000, 600, 400, 190],
  ] as const
  for (const [gross, credit, amount, tax_amount] of table) expect(divideWithin(gross, order(credit))).toEqual({ amount, tax_amount })
})
