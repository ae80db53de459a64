import { expect, test } from 'vitest'
import { amountOfPeriods, creditOf, meteredAmount, unbackedCredits, usageLabel } from './metered.ts'
import { creditedParts, useCredits, type Range } from './usage-credits.ts'

const whole = { since: null, until: null }
const credit = (period_id: string, credit_id: string, left: string, range: Range = whole) => ({ period_id, credit_id, left, ...range })
const date = (day: number | null) => (day === null ? null : new Date(Date.UTC(2026, 0, day)))
const range = (since: number, until: number | null) => ({ since: date(since)!, until: date(until) })

test('uses credits in their sequence, exactly, and never beyond their units', () => {
  const uses = useCredits([{ id: 'may', quantity: '12.5' }], [credit('may', 'first', '10'), credit('may', 'second', '10')])
  expect(uses.get('may')).toEqual([
    { credit_id: 'first', units: '10' },
    { credit_id: 'second', units: '2.5' },
  ])
})

test('periods that share a credit use it once', () => {
  const shared = [credit('may', 'top-up', '10'), credit('june', 'top-up', '10')]
  const uses = useCredits(
    [
      { id: 'may', quantity: '7' },
      { id: 'june', quantity: '7' },
    ],
    shared,
  )
  expect([uses.get('may'), uses.get('june')]).toEqual([[{ credit_id: 'top-up', units: '7' }], [{ credit_id: 'top-up', units: '3' }]])
})

test('negative usage and credits that are used up change nothing', () => {
  const uses = useCredits(
    [
      { id: 'may', quantity: '-5' },
      { id: 'june', quantity: '5' },
    ],
    [credit('may', 'one', '10'), credit('june', 'two', '0')],
  )
  expect([uses.get('may'), uses.get('june')]).toEqual([[{ credit_id: 'one', units: '0' }], [{ credit_id: 'two', units: '0' }]])
})

test('divides a period at the bounds of its credits, and returns the parts with a credit', () => {
  const parts = (period: { since: Date; until: Date | null }, ...credits: Range[]) => creditedParts(period, credits)
  expect(parts(range(1, 31), whole)).toEqual([])
  expect(parts(range(10, 31), range(5, 15), whole, range(12, 20))).toEqual([range(10, 12), range(12, 15), range(15, 20)])
  expect(parts(range(10, 20), range(1, 12), range(18, null))).toEqual([range(10, 12), range(18, 20)])
  expect(parts(range(10, null), range(12, 14), range(14, null))).toEqual([range(12, 14), range(14, null)])
  expect(parts(range(10, 10), range(1, null))).toEqual([])
})

test('a credit with a range is used for the usage of its range only, and two share this usage', () => {
  const parts = [
    { ...range(1, 10), quantity: '4' },
    { ...range(10, 20), quantity: '8' },
  ]
  const credits = [credit('year', 'first', '10', range(1, 10)), credit('year', 'both', '5', range(1, 20)), credit('year', 'any', '100')]
  expect(useCredits([{ id: 'year', quantity: '15', parts }], credits).get('year')).toEqual([
    { credit_id: 'first', units: '4' },
    { credit_id: 'both', units: '5' },
    { credit_id: 'any', units: '6' },
  ])
  expect(
    useCredits([{ id: 'year', quantity: '3', parts }], credits)
      .get('year')!
      .map(({ units }) => units),
  ).toEqual(['3', '0', '0'])
})

test('rounds an amount once, half away from zero, and applies the cap', () => {
  const price = { unit_amount: '0.5', cap_amount: 4 }
  expect([meteredAmount(price, '3', '0'), meteredAmount(price, '3', '0.1'), meteredAmount(price, '100', '1'), meteredAmount(price, '1', '2')]).toEqual([
    2, 1, 4, 0,
  ])
})

test('an amount never exceeds the largest amount of a line, also with a higher cap', () => {
  const amounts = [null, Number.MAX_SAFE_INTEGER].map((cap_amount) => meteredAmount({ unit_amount: '999999', cap_amount }, '9'.repeat(40), '0'))
  expect(amounts).toEqual([1e12, 1e12])
})

test('the credit of lowered usage is a share of the money that is left, and never more', () => {
  const credits = [1000, 500, 0, -20].map((left) => [creditOf(1000, { billed: 1000, left }), creditOf(333, { billed: 1000, left })])
  expect(credits).toEqual([
    [1000, 333],
    [500, 166],
    [0, 0],
    [0, 0],
  ])
})

test('credits are backed by the charges before them that are left, and not by later ones', () => {
  const line = (charged: number, withheld = 0) => ({ charged, withheld })
  expect(unbackedCredits([line(100), line(-50)])).toBe(0)
  expect(unbackedCredits([line(100, 100), line(-50)])).toBe(50)
  expect(unbackedCredits([line(100, 80), line(-50), line(40)])).toBe(30)
  expect(unbackedCredits([line(100, 80), line(-50), line(40), line(-40)])).toBe(30)
  expect(unbackedCredits([line(100, 80), line(-10), line(-20)])).toBe(10)
})

test('labels name the meter, the units, the exact rate in the major unit, and the period', () => {
  const usage = {
    meter: 'Tokens',
    is_average: false,
    quantity: '1200',
    credited: '0',
    unit_amount: '0.125',
    starts_at: new Date('2026-10-18Z'),
    ends_at: new Date('2026-11-18Z'),
  }
  expect([usageLabel({ ...usage, corrects: null, currency: 'usd' }), usageLabel({ ...usage, corrects: '1100', currency: 'jpy', credited: '50' })]).toEqual([
    'Tokens: 1200 units at 0.00125 USD, 2026-10-18 to 2026-11-18',
    'Tokens: corrected from 1100 to 1200 units (50 credited) at 0.125 JPY, 2026-10-18 to 2026-11-18',
  ])
})

test('labels show at most four decimal places of an average, and all of other quantities', () => {
  const usage = { meter: 'Load', credited: '0', corrects: '0.000049', unit_amount: '1', currency: 'usd', starts_at: new Date(0), ends_at: new Date(0) }
  const labels = [true, false].map((is_average) => usageLabel({ ...usage, is_average, quantity: '2.33333333333' }))
  expect(labels).toEqual([expect.stringContaining('from 0 to 2.3333 units'), expect.stringContaining('from 0.000049 to 2.33333333333 units')])
})

test('periods of one price share the cap and the credited units, and the earlier use them first', () => {
  const amounts = (cap_amount: number | null, quantities: readonly string[], credited: number) =>
    amountOfPeriods({ unit_amount: '10', cap_amount }, quantities, credited)
  expect(amounts(100, ['3', '4'], 5)).toBe(20)
  expect(amounts(100, ['7', '8'], 0)).toBe(100)
  expect(amounts(null, ['7', '8'], 5)).toBe(100)
  expect(amounts(null, ['-3', '4'], 2)).toBe(20)
  expect(amounts(null, [], 2)).toBe(0)
})
