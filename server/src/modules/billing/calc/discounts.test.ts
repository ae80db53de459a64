import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sum } from '../../../kernel/money.ts'
import { applicable, discountOf, type Offer, type Reduction } from './discounts.ts'

const line = (amount: number, proration = false) => ({ amount, proration })
const percentage = (basis_points: number): Reduction => ({ type: 'percentage', basis_points })
const fixed = (amounts: Record<string, number>): Reduction => ({ type: 'fixed', amounts })

describe('discountOf', () => {
  test.each<[string, string, number[], Reduction, number[]]>([
    ['10 percent', 'usd', [1000], percentage(1000), [100]],
    ['rounds half a cent away from zero', 'usd', [1], percentage(5000), [1]],
    ['rounds less than half a cent down', 'usd', [49], percentage(100), [0]],
    ['100 percent', 'usd', [333, 667], percentage(10_000), [333, 667]],
    ['a third, rounded once over all lines', 'usd', [10, 10, 10], percentage(3333), [4, 3, 3]],
    ['in yen, rounded to whole yen', 'jpy', [999], percentage(1500), [150]],
    ['in ariary, rounded to whole ariary', 'mga', [3001], percentage(5000), [1501]],
    ['in krónur, rounded to whole krónur', 'isk', [699_000], percentage(1550), [108_300]],
    ['in shillings, rounded to whole shillings', 'ugx', [250_000], percentage(3333), [83_300]],
    ['100 percent of a price with a fraction of a króna', 'isk', [7050], percentage(10_000), [7050]],
    ['splits a fixed amount over the lines by largest remainder', 'usd', [1000, 500], fixed({ usd: 100 }), [67, 33]],
    ['at most the price', 'usd', [300, 200], fixed({ usd: 900 }), [300, 200]],
    ['zero in a currency for which the discount has no amount', 'eur', [1000], fixed({ usd: 100 }), [0]],
    ['zero for a credit line', 'usd', [1000, -200], percentage(5000), [400, 0]],
    ['zero if the price is zero', 'usd', [-1000], percentage(5000), [0]],
  ])('calculates the discount of each line: %s', (_, currency, amounts, reduction, expected) =>
    expect(
      discountOf(
        amounts.map((amount) => line(amount)),
        reduction,
        currency,
      ),
    ).toEqual(expected),
  )

  test('does not discount prorations again', () => {
    expect(discountOf([line(1000), line(400, true), line(-300, true)], percentage(2000), 'usd')).toEqual([200, 0, 0])
    expect(discountOf([line(400, true)], fixed({ usd: 100 }), 'usd')).toEqual([0])
  })

  test('discounts the whole price at 100 %, even units that are too small to be paid', () =>
    expect(discountOf([line(2_374_901)], percentage(10_000), 'isk')).toEqual([2_374_901]))

  test('returns zero for every line if there is no discount', () => expect(discountOf([line(1000), line(1)], null, 'usd')).toEqual([0, 0]))

  test('returns line discounts that are never negative, never exceed their line, and add up to the whole discount', () => {
    const lines = fc.array(fc.record({ amount: fc.integer({ min: -1_000_000, max: 10_000_000 }), proration: fc.boolean() }), { maxLength: 8 })
    const reduction = fc.oneof(
      fc.integer({ min: 1, max: 10_000 }).map(percentage),
      fc.integer({ min: 0, max: 5_000_000 }).map((amount) => fixed(Object.fromEntries(currencies.map((one) => [one, amount])))),
    )
    fc.assert(
      fc.property(lines, reduction, fc.constantFrom(...currencies), (lines, reduction, currency) => {
        const taken = discountOf(lines, reduction, currency)
        for (const [at, { amount, proration }] of lines.entries()) {
          expect(taken[at]).toBeGreaterThanOrEqual(0)
          expect(taken[at]).toBeLessThanOrEqual(proration ? 0 : Math.max(0, amount))
        }
        const price = Math.max(0, sum(lines.filter(({ proration }) => !proration).map(({ amount }) => amount)))
        if (reduction.type === 'fixed') expect(sum(taken)).toBe(Math.min(price, reduction.amounts[currency]!))
        else if (reduction.basis_points === 10_000) expect(sum(taken)).toBe(price)
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('applicable', () => {
  const at = (text: string) => new Date(`2026-03-${text}Z`)
  const offer: Offer = { type: 'fixed', amounts: { usd: 100, jpy: 0 }, starts_at: at('10T00:00:00'), ends_at: at('20T00:00:00'), product_ids: ['p', 'q'] }
  const occasion = { now: at('15T12:00:00'), product_id: 'p', currency: 'usd', is_free_product_price: false }

  test.each<[string, Partial<Offer>, Partial<typeof occasion>, boolean]>([
    ['applies between starts_at and ends_at', {}, {}, true],
    ['applies at starts_at', {}, { now: at('10T00:00:00') }, true],
    ['does not apply before starts_at', {}, { now: at('09T23:59:59.999') }, false],
    ['applies just before ends_at', {}, { now: at('19T23:59:59.999') }, true],
    ['does not apply at ends_at', {}, { now: at('20T00:00:00') }, false],
    ['applies at any time without starts_at and ends_at', { starts_at: null, ends_at: null }, { now: new Date(0) }, true],
    ['does not apply to a product that it does not list', {}, { product_id: 'r' }, false],
    ['applies to every product if it lists none', { product_ids: [] }, { product_id: 'r' }, true],
    ['does not apply in a currency for which it has no amount', {}, { currency: 'eur' }, false],
    ['applies in a currency for which its amount is zero', {}, { currency: 'jpy' }, true],
    ['applies in every currency if it is a percentage', { type: 'percentage', basis_points: 100 }, { currency: 'eur' }, true],
    ['does not apply to a free price', {}, { is_free_product_price: true }, false],
  ])('decides whether a discount applies: %s', (_, terms, circumstances, expected) =>
    expect(applicable({ ...offer, ...terms } as Offer, { ...occasion, ...circumstances })).toBe(expected),
  )
})
