import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stepOf, sum } from '../../../kernel/money.ts'
import { discountOf, type Reduction } from './discounts.ts'
import { prorate, remaining, type CalendarChange, type Change, type Plan, type StaticLine } from './prorations.ts'

const at = (text: string) => new Date(`2026-${text}Z`)
const period = { start: at('04-01T00:00:00'), end: at('05-01T00:00:00') }
const half = at('04-16T00:00:00')
const line = (product_price_id: string, amount: number, seats: number | null = null): StaticLine => ({ product_price_id, amount, seats })
const percentage = (basis_points: number): Reduction => ({ type: 'percentage', basis_points })
const fixed = (amount: number, currency = 'usd'): Reduction => ({ type: 'fixed', amounts: { [currency]: amount } })
const plan = (discount: Reduction | null, ...lines: StaticLine[]): Plan => ({ lines, discount })

describe('what is left of a period', () => {
  const whole = 30 * 86_400_000
  test.each<[string, Date, number]>([
    ['all before it begins', at('03-01T00:00:00'), whole],
    ['all as it begins', period.start, whole],
    ['all but a millisecond', at('04-01T00:00:00.001'), whole - 1],
    ['half', half, whole / 2],
    ['a millisecond', at('04-30T23:59:59.999'), 1],
    ['nothing as it ends', period.end, 0],
    ['nothing afterwards', at('06-01T00:00:00'), 0],
  ])('%s', (_, now, numerator) => expect(remaining(period, now)).toEqual({ numerator, denominator: whole }))

  test('nothing of one that is empty, or ends before it begins', () => {
    expect(remaining({ start: half, end: half }, half)).toEqual({ numerator: 0, denominator: 1 })
    expect(remaining({ start: period.end, end: period.start }, half)).toEqual({ numerator: 0, denominator: 1 })
  })
})

describe('a change', () => {
  type Expected = [string, 'credit' | 'debit', number, (number | null)?][]
  test.each<[string, Partial<Change>, Expected]>([
    [
      'to a dearer plan, halfway',
      {},
      [
        ['a', 'credit', -500],
        ['b', 'debit', 1500],
      ],
    ],
    ['from a free plan', { before: plan(null, line('a', 0)) }, [['b', 'debit', 1500]]],
    ['to a free plan', { after: plan(null, line('b', 0)) }, [['a', 'credit', -500]]],
    ['at the very end', { now: period.end }, []],
    [
      'at the very start',
      { now: period.start },
      [
        ['a', 'credit', -1000],
        ['b', 'debit', 3000],
      ],
    ],
    [
      'half a cent, away from zero on both sides',
      { before: plan(null, line('a', 1001)), after: plan(null, line('b', 3001)) },
      [
        ['a', 'credit', -501],
        ['b', 'debit', 1501],
      ],
    ],
    [
      'with a tenth off both',
      { before: plan(percentage(1000), line('a', 1000)), after: plan(percentage(1000), line('b', 3000)) },
      [
        ['a', 'credit', -450],
        ['b', 'debit', 1350],
      ],
    ],
    [
      'with a fixed discount, shared by the lines',
      { before: plan(fixed(300), line('a', 1000), line('c', 2000)), after: plan(fixed(300), line('b', 3000)) },
      [
        ['a', 'credit', -450],
        ['c', 'credit', -900],
        ['b', 'debit', 1350],
      ],
    ],
    [
      'of the interval',
      { calendar: 'restarted' },
      [
        ['a', 'credit', -500],
        ['b', 'debit', 3000],
      ],
    ],
    ['of the interval, at the very end', { calendar: 'restarted', now: period.end }, [['b', 'debit', 3000]]],
    [
      'of the interval, with discounts',
      { calendar: 'restarted', before: plan(percentage(5000), line('a', 1000)), after: plan(fixed(100), line('b', 3000)) },
      [
        ['a', 'credit', -250],
        ['b', 'debit', 2900],
      ],
    ],
    ['that resets', { calendar: 'reset' }, [['b', 'debit', 3000]]],
    ['that resets, with a discount', { calendar: 'reset', after: plan(percentage(1000), line('b', 3000)) }, [['b', 'debit', 2700]]],
    ['to more seats', { before: plan(null, line('s', 1000, 1)), after: plan(null, line('s', 3000, 3)) }, [['s', 'debit', 1000, 3]]],
    ['to fewer seats', { before: plan(null, line('s', 3000, 3)), after: plan(null, line('s', 1000, 1)) }, [['s', 'credit', -1000, 1]]],
    ['to as many seats', { before: plan(null, line('s', 3000, 3)), after: plan(null, line('s', 3000, 3)) }, []],
    [
      'to more seats, half a cent rounded once for the difference',
      { before: plan(null, line('s', 1001, 1)), after: plan(null, line('s', 2002, 2)) },
      [['s', 'debit', 501, 2]],
    ],
    [
      'to more seats beside a fixed price, with a share of the discount each',
      {
        before: plan(fixed(500), line('f', 1000), line('s', 1000, 1)),
        after: plan(fixed(500), line('f', 1000), line('s', 3000, 3)),
      },
      [
        ['f', 'debit', 63],
        ['s', 'debit', 938, 3],
      ],
    ],
    ['of seats that resets', { calendar: 'reset', before: plan(null, line('s', 1000, 1)), after: plan(null, line('s', 3000, 3)) }, [['s', 'debit', 3000, 3]]],
    [
      'of the interval that keeps a price',
      { calendar: 'restarted', after: plan(null, line('a', 1000)) },
      [
        ['a', 'credit', -500],
        ['a', 'debit', 1000],
      ],
    ],
    [
      'in krónur, whole',
      { currency: 'isk', before: plan(null, line('a', 700_100)), after: plan(null, line('b', 900_300)) },
      [
        ['a', 'credit', -350_100],
        ['b', 'debit', 450_200],
      ],
    ],
    ['in krónur, as it stands where nothing is divided', { currency: 'isk', calendar: 'reset', after: plan(null, line('b', 7050)) }, [['b', 'debit', 7050]]],
    [
      'in yen',
      { currency: 'jpy', before: plan(null, line('a', 999)), after: plan(null, line('b', 2001)) },
      [
        ['a', 'credit', -500],
        ['b', 'debit', 1001],
      ],
    ],
  ])('%s', (_, given, expected) =>
    expect(
      prorate({ currency: 'usd', period, now: half, before: plan(null, line('a', 1000)), after: plan(null, line('b', 3000)), calendar: 'kept', ...given }),
    ).toEqual(expected.map(([product_price_id, kind, amount, seats = null]) => ({ product_price_id, kind, amount, seats }))),
  )

  test('that names a price twice is no change', () => {
    const twice = plan(null, line('a', 1000), line('a', 2000))
    expect(() => prorate({ currency: 'usd', period, now: half, before: twice, after: plan(null), calendar: 'kept' })).toThrow(RangeError)
  })

  const currency = fc.constantFrom(...currencies)
  const reduction = fc.oneof(
    fc.constant(null),
    fc.integer({ min: 1, max: 10_000 }).map(percentage),
    fc.integer({ min: 0, max: 5_000_000 }).map((amount): Reduction => ({ type: 'fixed', amounts: Object.fromEntries(currencies.map((one) => [one, amount])) })),
  )
  const lines = fc.uniqueArray(
    fc.record({
      product_price_id: fc.constantFrom('a', 'b', 'c', 'd'),
      amount: fc.integer({ min: 0, max: 10_000_000 }),
      seats: fc.option(fc.integer({ min: 1, max: 100 })),
    }),
    { selector: ({ product_price_id }) => product_price_id, maxLength: 4 },
  )
  const side = fc.record({ lines, discount: reduction })
  const moment = fc.date({ min: period.start, max: period.end, noInvalidDate: true })
  const calendar = fc.constantFrom<CalendarChange>('kept', 'restarted', 'reset')
  const total = (change: Change) => sum(prorate(change).map(({ amount }) => amount))
  const priceOf = ({ lines, discount }: Plan, currency: string) => {
    const taken = discountOf(
      lines.map(({ amount }) => ({ amount, proration: false })),
      discount,
      currency,
    )
    return sum(lines.map(({ amount }, at) => amount - taken[at]!))
  }

  test('there and back at one instant comes to nothing', () => {
    fc.assert(
      fc.property(currency, moment, side, side, (currency, now, one, other) => {
        const there = total({ currency, period, now, before: one, after: other, calendar: 'kept' })
        expect(sum([there, total({ currency, period, now, before: other, after: one, calendar: 'kept' })])).toBe(0)
      }),
      { numRuns: 1_000 },
    )
  })

  test('at the very start costs the difference of the discounted prices to the unit, and at the very end nothing', () => {
    fc.assert(
      fc.property(currency, side, side, (currency, before, after) => {
        const change = { currency, period, before, after, calendar: 'kept' as const }
        expect(total({ ...change, now: period.start })).toBe(priceOf(after, currency) - priceOf(before, currency))
        expect(prorate({ ...change, now: period.end })).toEqual([])
      }),
      { numRuns: 1_000 },
    )
  })

  test('of the calendar is paid in full, and gives back no more than was paid, to the coin', () => {
    fc.assert(
      fc.property(currency, moment, side, side, (currency, now, before, after) => {
        const change = { currency, period, now, before, after }
        expect(total({ ...change, calendar: 'reset' })).toBe(priceOf(after, currency))
        const restarted = prorate({ ...change, calendar: 'restarted' })
        expect(sum(restarted.filter(({ kind }) => kind === 'debit').map(({ amount }) => amount))).toBe(priceOf(after, currency))
        // To the coin: a line that holds a small coin nobody takes is rounded to a whole one.
        const back = sum(restarted.filter(({ kind }) => kind === 'credit').map(({ amount }) => 0 - amount))
        expect(back).toBeLessThanOrEqual(priceOf(before, currency) + before.lines.length * (stepOf(currency) - 1))
      }),
      { numRuns: 1_000 },
    )
  })

  test('is in whole units, with the sign of its kind, at most half a coin away from the exact part, and can be paid', () => {
    fc.assert(
      fc.property(currency, moment, side, side, calendar, (currency, now, before, after, calendar) => {
        const rest = remaining(period, now)
        for (const { product_price_id, amount, kind } of prorate({ currency, period, now, before, after, calendar })) {
          expect(Number.isSafeInteger(amount)).toBe(true)
          expect(Math.sign(amount)).toBe(kind === 'credit' ? -1 : 1)
          const divided = rest.numerator < rest.denominator && (calendar === 'kept' || (calendar === 'restarted' && kind === 'credit'))
          if (divided) expect(Math.abs(amount) % stepOf(currency)).toBe(0)
          expect([...before.lines, ...after.lines].map((line) => line.product_price_id)).toContain(product_price_id)
        }
        if (calendar !== 'kept') return
        const exact = ((priceOf(after, currency) - priceOf(before, currency)) * rest.numerator) / rest.denominator
        const count = before.lines.length + after.lines.length
        const off = Math.abs(total({ currency, period, now, before, after, calendar }) - exact)
        expect(off).toBeLessThanOrEqual((count * stepOf(currency)) / 2 + 0.001)
      }),
      { numRuns: 1_000 },
    )
  })
})
