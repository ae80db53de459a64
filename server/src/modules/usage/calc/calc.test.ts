import { isEventCost, plainDecimal } from '@bursar/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { labelOf } from './metadata.ts'
import { deepest, depthsOf, type Parent } from './parents.ts'

test('writes decimal numbers without exponent and superfluous zeros', () => {
  for (const [given, plain] of [
    ['0', '0'],
    ['+07.50', '7.5'],
    ['.5', '0.5'],
    ['5.', '5'],
    ['-0.10', '-0.1'],
    ['1e-7', '0.0000001'],
    ['1.5E3', '1500'],
    ['12.345e1', '123.45'],
    ['12345e-2', '123.45'],
    ['99999.999999999999', '99999.999999999999'],
  ])
    expect([given, plainDecimal(given!)]).toEqual([given, plain])
  for (const given of ['', '.', '-', 'e5', '1e', '1e1000', 'NaN', '1,5', '0x1', '1'.repeat(200)])
    expect([given, plainDecimal(given)]).toEqual([given, undefined])
})

test('writes every double as a decimal that is equal to it', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e20, max: 1e20 }), (value) => {
      const plain = plainDecimal(String(value))
      // A double closer to zero than 1e-100 is refused.
      if (plain === undefined) expect(Math.abs(value)).toBeLessThan(1e-99)
      else expect(Number(plain)).toBe(value === 0 ? Number(plain) : value)
    }),
    { numRuns: 2000 },
  )
})

test('allows costs of five digits before the decimal point and twelve after it', () => {
  for (const amount of ['0', '99999.999999999999', '-1.5', '0.0000000000010000', '1e-12', '1e4']) expect([amount, isEventCost(amount)]).toEqual([amount, true])
  for (const amount of ['100000', '0.0000000000001', '1e5', 'x', '', '1e-13']) expect([amount, isEventCost(amount)]).toEqual([amount, false])
})

test('counts ancestors in any order, and finds cycles and deep trees', () => {
  expect(depthsOf([])).toEqual([])
  expect(depthsOf([null, 0, 1, { depth: 4 }, 3])).toEqual([0, 1, 2, 5, 6])
  expect(depthsOf([2, null, 1])).toEqual([2, 0, 1])
  expect(depthsOf([0])).toEqual({ at: 0, why: 'cycle' })
  expect(depthsOf([null, 2, 3, 1])).toEqual({ at: 1, why: 'cycle' })
  expect(depthsOf([null, { depth: deepest }])).toEqual({ at: 1, why: 'depth' })
  const chain = (length: number): Parent[] => Array.from({ length }, (_, at) => (at === length - 1 ? null : at + 1))
  expect((depthsOf(chain(deepest + 1)) as number[])[0]).toBe(deepest)
  expect(depthsOf(chain(deepest + 2))).toEqual({ at: 0, why: 'depth' })
})

test('takes the label from the metadata if the selector finds a value', () => {
  const metadata = {
    plan: 'pro',
    n: 3,
    yes: true,
    empty: '',
    'a.b': 'dotted',
    _llm: { vendor: 'v', model: 'm', input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  }
  for (const [selector, label] of [
    [null, 'Label'],
    ['plan', 'pro'],
    ['metadata.plan', 'pro'],
    ['n', '3'],
    ['yes', 'true'],
    ['empty', 'Label'],
    ['a.b', 'dotted'],
    ['_llm.model', 'm'],
    ['_llm', 'Label'],
    ['absent', 'Label'],
    ['__proto__', 'Label'],
    ['constructor.name', 'Label'],
  ] as const)
    expect([selector, labelOf('Label', selector, metadata)]).toEqual([selector, label])
})
