import { currencies, exponentsOf } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { chargeable, formatAmount, fromProcessor, scale, scaleIn, split, stepOf, sum, toProcessor } from './money.ts'

const currency = fc.constantFrom(...currencies)
const amount = fc.integer({ min: -1_000_000_000_000, max: 1_000_000_000_000 })

describe('currency exponents', () => {
  test.each([
    ['usd', 2, 2, 2, 1],
    ['jpy', 0, 0, 0, 1],
    ['krw', 0, 0, 0, 1],
    ['mga', 0, 0, 2, 1],
    ['isk', 2, 2, 0, 100],
    ['ugx', 2, 2, 0, 100],
    ['huf', 2, 2, 2, 1],
  ])('%s has %i decimal places on the wire, %i at the processor and %i for display, and is paid in steps of %i', (currency, wire, processor, display, step) => {
    expect(exponentsOf(currency)).toEqual({ wire, processor, display })
    expect(stepOf(currency)).toBe(step)
  })

  test('uses no decimal places on the wire in fifteen currencies', () => {
    const none = currencies.filter((one) => exponentsOf(one).wire === 0)
    expect(none.join(' ')).toBe('bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf')
  })

  test('makes the minimum charge of every currency a payable amount', () => {
    for (const one of currencies) expect([one, chargeable(one).minimum % stepOf(one)]).toEqual([one, 0])
  })
})

describe('processor amounts', () => {
  test.each([
    ['usd', 1999, 1999],
    ['jpy', 500, 500],
    ['mga', 3000, 3000],
    ['isk', 7000, 7000],
    ['ugx', -200_000, -200_000],
  ])('sends %s %i to the processor as %i', (currency, amount, sent) => expect(toProcessor(amount, currency)).toBe(sent))

  test.each([
    ['isk', 7050],
    ['ugx', 200_001],
    ['isk', -1],
    ['usd', 0.5],
    ['usd', Number.MAX_SAFE_INTEGER + 1],
  ])('%s %d is rejected', (currency, amount) => expect(() => toProcessor(amount, currency)).toThrow(RangeError))

  test('converts processor amounts back without loss', () => {
    fc.assert(
      fc.property(currency, amount, (currency, n) => {
        expect(fromProcessor(toProcessor(n * stepOf(currency), currency), currency)).toBe(n * stepOf(currency))
      }),
    )
    expect(fromProcessor(7050, 'isk')).toBe(7050)
  })
})

describe('amounts as text', () => {
  test.each([
    ['usd', 1999, '19.99'],
    ['usd', -5, '-0.05'],
    ['usd', 0, '0.00'],
    ['jpy', 500, '500'],
    ['isk', 7000, '70'],
    ['isk', 7050, '70.50'],
    ['isk', -1, '-0.01'],
    ['ugx', 200_000, '2000'],
    ['mga', 3000, '3000.00'],
    ['mga', -7, '-7.00'],
  ])('%s %i is %s', (currency, amount, text) => expect(formatAmount(amount, currency)).toBe(text))

  test('formats amounts without losing a unit in any currency', () => {
    fc.assert(
      fc.property(currency, amount, (currency, amount) => {
        const text = formatAmount(amount, currency)
        const [whole = '', fraction = ''] = text.replace('-', '').split('.')
        const { wire } = exponentsOf(currency)
        expect(fraction.slice(wire)).toMatch(/^0*$/)
        expect(Number(whole + fraction.slice(0, wire).padEnd(wire, '0'))).toBe(Math.abs(amount))
        expect(text.startsWith('-')).toBe(amount < 0)
      }),
    )
  })
})

describe('scale', () => {
  test.each([
    [1, 1, 2, 1],
    [-1, 1, 2, -1],
    [1, -1, 2, -1],
    [-1, 1, -2, 1],
    [3, 1, 2, 2],
    [5, 1, 2, 3],
    [1, 1, 3, 0],
    [-1, 1, 3, 0],
    [2, 1, 3, 1],
    [999, 8875, 100_000, 89],
    [9_007_199_254_740_991, 9_007_199_254_740_991, 9_007_199_254_740_991, 9_007_199_254_740_991],
  ])('scales an amount by a fraction: %i · %i / %i is %i', (amount, numerator, denominator, expected) =>
    expect(scale(amount, numerator, denominator)).toBe(expected),
  )

  test('throws if an input or the result is not a safe integer, or the denominator is zero', () => {
    expect(() => scale(9_007_199_254_740_991, 2, 1)).toThrow(RangeError)
    expect(() => scale(1, 1, 0)).toThrow(RangeError)
    expect(() => scale(0.1, 1, 1)).toThrow(RangeError)
    expect(() => sum([9_007_199_254_740_991, 1])).toThrow(RangeError)
    expect(() => scaleIn('isk', 9_007_199_254_740_991, 1, 1)).toThrow(RangeError)
  })

  test('rounds by at most half a unit, and symmetrically around zero', () => {
    fc.assert(
      fc.property(fc.integer({ min: -2_000_000_000, max: 2_000_000_000 }), fc.bigInt(-1_000_000n, 1_000_000n), fc.bigInt(1n, 1_000_000n), (amount, n, d) => {
        const scaled = scale(amount, n, d)
        const error = 2n * (BigInt(scaled) * d - BigInt(amount) * n)
        expect(error <= d && error >= -d).toBe(true)
        expect(0 - scale(0 - amount, n, d)).toBe(scaled)
      }),
    )
  })

  test('rounds to amounts that are payable in the currency', () => {
    expect(scaleIn('isk', 6990, 1500, 10_000)).toBe(1000)
    expect(scaleIn('ugx', 250_000, 1, 1000)).toBe(300)
    expect(scaleIn('usd', 6990, 1500, 10_000)).toBe(1049)
    fc.assert(
      fc.property(currency, amount, fc.integer({ min: 0, max: 10_000 }), (currency, amount, n) => {
        expect(Math.abs(scaleIn(currency, amount, n, 10_000)) % stepOf(currency)).toBe(0)
      }),
    )
  })
})

describe('split', () => {
  test.each<[number, number[], number[]]>([
    [100, [1, 1, 1], [34, 33, 33]],
    [-100, [1, 1, 1], [-34, -33, -33]],
    [10, [1, 2, 3], [2, 3, 5]],
    [5, [0, 0], [5, 0]],
    [5, [0, 7], [0, 5]],
    [100, [-3, 50, 50], [0, 50, 50]],
    [100, [-30, -70], [30, 70]],
    [-100, [-30, -70], [-30, -70]],
    [7, [5, -5], [7, 0]],
    [0, [], []],
  ])('splits %i by the weights %j into %j', (total, weights, expected) => expect(split(total, weights)).toEqual(expected))

  test('splits a total into shares that add up to it, each less than one unit off', () => {
    fc.assert(
      fc.property(amount, fc.array(fc.integer({ min: 0, max: 1_000_000_000 }), { minLength: 1, maxLength: 20 }), (total, weights) => {
        const shares = split(total, weights)
        expect(sum(shares)).toBe(total)
        const all = BigInt(sum(weights))
        if (all === 0n) return
        for (const [at, share] of shares.entries()) {
          const error = BigInt(share) * all - BigInt(total) * BigInt(weights[at]!)
          expect(error < all && error > -all).toBe(true)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  test('splits a total into shares that add up to it for any weights', () => {
    fc.assert(
      fc.property(amount, fc.array(amount, { minLength: 1 }), (total, weights) => {
        expect(sum(split(total, weights))).toBe(total)
      }),
    )
    expect(() => split(1, [])).toThrow(RangeError)
  })
})
