import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stepOf } from '../../../kernel/money.ts'
import { divideWithin, refundTax, taxOf, type Tax, taxWithin } from './taxes.ts'
import { refundable } from './totals.ts'

const inclusive = (rate: number): Tax => ({ rate, behavior: 'inclusive' })
const exclusive = (rate: number): Tax => ({ rate, behavior: 'exclusive' })

describe('taxOf', () => {
  test.each<[string, string, [number, number][], Tax | null, number[]]>([
    ['exclusive tax', 'usd', [[1000, 0]], exclusive(88_750), [89]],
    ['inclusive tax', 'eur', [[1000, 0]], inclusive(190_000), [160]],
    ['rounds half a cent away from zero', 'usd', [[5, 0]], exclusive(100_000), [1]],
    ['rounds half a cent of a credit away from zero', 'usd', [[-5, 0]], exclusive(100_000), [-1]],
    ['on the amount after the discount', 'usd', [[1000, 500]], exclusive(200_000), [100]],
    [
      'rounds each line separately',
      'usd',
      [
        [4, 0],
        [4, 0],
        [-4, 0],
      ],
      exclusive(200_000),
      [1, 1, -1],
    ],
    ['a rate with five decimals', 'usd', [[100_000, 0]], exclusive(99_750), [9975]],
    ['inclusive tax in yen', 'jpy', [[1980, 0]], inclusive(100_000), [180]],
    ['exclusive tax in ariary, rounded to whole ariary', 'mga', [[3007, 0]], exclusive(200_000), [601]],
    ['exclusive tax in krónur, rounded to whole krónur', 'isk', [[7000, 0]], exclusive(240_000), [1700]],
    ['inclusive tax in krónur, rounded to the minor unit', 'isk', [[7000, 0]], inclusive(240_000), [1355]],
    ['exclusive tax in shillings, rounded to whole shillings', 'ugx', [[201_500, 0]], exclusive(180_000), [36_300]],
    ['no tax', 'usd', [[1000, 0]], null, [0]],
    ['a rate of zero', 'usd', [[1000, 0]], exclusive(0), [0]],
  ])('calculates the tax of each line: %s', (_, currency, lines, tax, expected) =>
    expect(
      taxOf(
        lines.map(([amount, discount_amount]) => ({ amount, discount_amount })),
        tax,
        currency,
      ),
    ).toEqual(expected),
  )

  test.each([-1, 0.5, NaN])('rejects a rate of %d', (rate) => expect(() => taxOf([], exclusive(rate), 'usd')).toThrow(RangeError))

  test('calculates for a credit exactly the negative tax of a charge of the same amount', () => {
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

describe('refundTax', () => {
  const order = { currency: 'usd', net_amount: 1000, tax_amount: 89, refundable_amount: 1000, refundable_tax_amount: 89 }

  test.each([
    ['all of the order', order, 1000, 89],
    ['half of the order, rounded away from zero', order, 500, 45],
    ['an amount whose tax rounds to zero', order, 5, 0],
    ['the remaining amount, after a refund of half', { ...order, refundable_amount: 500, refundable_tax_amount: 44 }, 500, 44],
    ['at most the remaining refundable tax', { ...order, refundable_amount: 900, refundable_tax_amount: 3 }, 500, 3],
    ['more than the net amount, of an order that also paid a debt', { ...order, refundable_amount: 1500 }, 1400, 89],
    ['of an order that only paid a debt', { ...order, net_amount: 0, tax_amount: 0, refundable_tax_amount: 0 }, 10, 0],
    [
      'in krónur: amount and tax are whole krónur together',
      { currency: 'isk', net_amount: 5645, tax_amount: 1355, refundable_amount: 5645, refundable_tax_amount: 1355 },
      3000,
      700,
    ],
    ['in yen', { currency: 'jpy', net_amount: 1800, tax_amount: 180, refundable_amount: 1800, refundable_tax_amount: 180 }, 905, 91],
  ])('calculates the tax of a refund: %s', (_, order, amount, expected) => expect(refundTax({ ...order, amount })).toBe(expected))

  test.each([0, -1, 1001])('rejects a refund of %i', (amount) => expect(() => refundTax({ ...order, amount })).toThrow(RangeError))

  test('never refunds more tax than was paid over any partial refunds, and all of it with the last refund', () => {
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

  test('splits a chargeback in proportion to the order, and takes all remaining tax if it covers the whole rest', () => {
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

  test('rounds the refunded tax so that amount and tax together are payable, if enough tax remains', () => {
    for (let amount = 1000; amount < 5000; amount++) {
      const tax = refundTax({ currency: 'isk', amount, net_amount: 5645, tax_amount: 1355, refundable_amount: 5645, refundable_tax_amount: 1355 })
      expect((amount + tax) % stepOf('isk')).toBe(0)
    }
  })
})

test('splits a chargeback of an order paid with credit into the remaining price and tax, without loss', () => {
  const order = (credit: number) => ({ net_amount: 1000, tax_amount: 190, refundable_amount: Math.max(0, 1000 - credit), refundable_tax_amount: 190 })
  const table = [
    [1190, 0, 1000, 190],
    [595, 0, 500, 95],
    [500, 600, 400, 100],
    [90, 1100, 0, 90],
    // A chargeback above the remaining amounts takes exactly these amounts.
    [2000, 600, 400, 190],
  ] as const
  for (const [gross, credit, amount, tax_amount] of table) expect(divideWithin(gross, order(credit))).toEqual({ amount, tax_amount })
})
