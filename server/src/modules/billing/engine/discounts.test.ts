import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sum } from '../../../kernel/money.ts'
import { applicable, discountOf, type Offer, type Reduction } from './discounts.ts'

const line = (amount: number, proration = false) => ({ amount, proration })
const percentage = (basis_points: number): Reduction => ({ type: 'percentage', basis_points })
const fixed = (amounts: Record<string, number>): Reduction => ({ type: 'fixed', amounts })

describe('what is taken off', () => {
  test.each<[string, string, number[], Reduction, number[]]>([
    ['a tenth', 'usd', [1000], percentage(1000), [100]],
    ['half a cent, away from zero', 'usd', [1], percentage(5000), [1]],
    ['less than half a cent', 'usd', [49], percentage(100), [0]],
    ['everything', 'usd', [333, 667], percentage(10_000), [333, 667]],
    ['a third, rounded once for all lines', 'usd', [10, 10, 10], percentage(3333), [4, 3, 3]],
    ['yen', 'jpy', [999], percentage(1500), [150]],
    ['ariary', 'mga', [3001], percentage(5000), [1501]],
    ['krónur, whole', 'isk', [699_000], percentage(1550), [108_300]],
    ['shillings, whole', 'ugx', [250_000], percentage(3333), [83_300]],
    ['all of a price that is not whole', 'isk', [7050], percentage(10_000), [7050]],
    ['a fixed amount, by largest remainder', 'usd', [1000, 500], fixed({ usd: 100 }), [67, 33]],
    ['no more than the price', 'usd', [300, 200], fixed({ usd: 900 }), [300, 200]],
    ['nothing in a currency it does not name', 'eur', [1000], fixed({ usd: 100 }), [0]],
    ['nothing from a credit', 'usd', [1000, -200], percentage(5000), [400, 0]],
    ['nothing where nothing is paid', 'usd', [-1000], percentage(5000), [0]],
  ])('%s', (_, currency, amounts, reduction, expected) =>
    expect(
      discountOf(
        amounts.map((amount) => line(amount)),
        reduction,
        currency,
      ),
    ).toEqual(expected),
  )

  test('prorations keep the discount they were counted with', () => {
    expect(discountOf([line(1000), line(400, true), line(-300, true)], percentage(2000), 'usd')).toEqual([200, 0, 0])
    expect(discountOf([line(400, true)], fixed({ usd: 100 }), 'usd')).toEqual([0])
  })

  test('of everything is everything, to the last unit', () => expect(discountOf([line(2_374_901)], percentage(10_000), 'isk')).toEqual([2_374_901]))

  test('is nothing without a discount', () => expect(discountOf([line(1000), line(1)], null, 'usd')).toEqual([0, 0]))

  test('is never below nothing, never above a line, and together what was promised', () => {
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

describe('a discount counts', () => {
  const at = (text: string) => new Date(`2026-03-${text}Z`)
  const offer: Offer = { type: 'fixed', amounts: { usd: 100, jpy: 0 }, starts_at: at('10T00:00:00'), ends_at: at('20T00:00:00'), product_ids: ['p', 'q'] }
  const occasion = { now: at('15T12:00:00'), product_id: 'p', currency: 'usd', is_free_product_price: false }

  test.each<[string, Partial<Offer>, Partial<typeof occasion>, boolean]>([
    ['within its window', {}, {}, true],
    ['from the first moment', {}, { now: at('10T00:00:00') }, true],
    ['not before it', {}, { now: at('09T23:59:59.999') }, false],
    ['until just before the end', {}, { now: at('19T23:59:59.999') }, true],
    ['not at the end', {}, { now: at('20T00:00:00') }, false],
    ['always, without a window', { starts_at: null, ends_at: null }, { now: new Date(0) }, true],
    ['not for another product', {}, { product_id: 'r' }, false],
    ['for every product, when it names none', { product_ids: [] }, { product_id: 'r' }, true],
    ['not in a currency it does not name', {}, { currency: 'eur' }, false],
    ['in a currency for which it names nothing', {}, { currency: 'jpy' }, true],
    ['in every currency, as a percentage', { type: 'percentage', basis_points: 100 }, { currency: 'eur' }, true],
    ['not where everything is free', {}, { is_free_product_price: true }, false],
  ])('%s', (_, terms, circumstances, expected) => expect(applicable({ ...offer, ...terms } as Offer, { ...occasion, ...circumstances })).toBe(expected))
})
