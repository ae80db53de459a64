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

describe('remaining', () => {
  const whole = 30 * 86_400_000
  test.each<[string, Date, number]>([
    ['the whole period before its start', at('03-01T00:00:00'), whole],
    ['the whole period at its start', period.start, whole],
    ['the whole period minus one millisecond', at('04-01T00:00:00.001'), whole - 1],
    ['half of the period', half, whole / 2],
    ['one millisecond', at('04-30T23:59:59.999'), 1],
    ['zero at the end of the period', period.end, 0],
    ['zero after the end of the period', at('06-01T00:00:00'), 0],
  ])('returns the remaining fraction of a period: %s', (_, now, numerator) => expect(remaining(period, now)).toEqual({ numerator, denominator: whole }))

  test('returns zero for a period that is empty or ends before its start', () => {
    expect(remaining({ start: half, end: half }, half)).toEqual({ numerator: 0, denominator: 1 })
    expect(remaining({ start: period.end, end: period.start }, half)).toEqual({ numerator: 0, denominator: 1 })
  })
})

describe('prorate', () => {
  type Expected = [string, 'credit' | 'debit', number, (number | null)?][]
  test.each<[string, Partial<Change>, Expected]>([
    [
      'to a more expensive plan, in the middle of the period',
      {},
      [
        ['a', 'credit', -500],
        ['b', 'debit', 1500],
      ],
    ],
    ['from a free plan', { before: plan(null, line('a', 0)) }, [['b', 'debit', 1500]]],
    ['to a free plan', { after: plan(null, line('b', 0)) }, [['a', 'credit', -500]]],
    ['at the end of the period', { now: period.end }, []],
    [
      'at the start of the period',
      { now: period.start },
      [
        ['a', 'credit', -1000],
        ['b', 'debit', 3000],
      ],
    ],
    [
      'that rounds half a cent away from zero, for the credit and for the charge',
      { before: plan(null, line('a', 1001)), after: plan(null, line('b', 3001)) },
      [
        ['a', 'credit', -501],
        ['b', 'debit', 1501],
      ],
    ],
    [
      'with a discount of 10 percent on both plans',
      { before: plan(percentage(1000), line('a', 1000)), after: plan(percentage(1000), line('b', 3000)) },
      [
        ['a', 'credit', -450],
        ['b', 'debit', 1350],
      ],
    ],
    [
      'with a fixed discount that is split over the lines',
      { before: plan(fixed(300), line('a', 1000), line('c', 2000)), after: plan(fixed(300), line('b', 3000)) },
      [
        ['a', 'credit', -450],
        ['c', 'credit', -900],
        ['b', 'debit', 1350],
      ],
    ],
    [
      'of the billing interval',
      { calendar: 'restarted' },
      [
        ['a', 'credit', -500],
        ['b', 'debit', 3000],
      ],
    ],
    ['of the billing interval, at the end of the period', { calendar: 'restarted', now: period.end }, [['b', 'debit', 3000]]],
    [
      'of the billing interval, with discounts',
      { calendar: 'restarted', before: plan(percentage(5000), line('a', 1000)), after: plan(fixed(100), line('b', 3000)) },
      [
        ['a', 'credit', -250],
        ['b', 'debit', 2900],
      ],
    ],
    ['that starts a new period without a credit', { calendar: 'reset' }, [['b', 'debit', 3000]]],
    [
      'that starts a new period without a credit, with a discount',
      { calendar: 'reset', after: plan(percentage(1000), line('b', 3000)) },
      [['b', 'debit', 2700]],
    ],
    ['to more seats', { before: plan(null, line('s', 1000, 1)), after: plan(null, line('s', 3000, 3)) }, [['s', 'debit', 1000, 3]]],
    ['to fewer seats', { before: plan(null, line('s', 3000, 3)), after: plan(null, line('s', 1000, 1)) }, [['s', 'credit', -1000, 1]]],
    ['to the same number of seats', { before: plan(null, line('s', 3000, 3)), after: plan(null, line('s', 3000, 3)) }, []],
    [
      'to more seats, which rounds half a cent once for the difference',
      { before: plan(null, line('s', 1001, 1)), after: plan(null, line('s', 2002, 2)) },
      [['s', 'debit', 501, 2]],
    ],
    [
      'to more seats next to a fixed price, with a discount that is split over both',
      {
        before: plan(fixed(500), line('f', 1000), line('s', 1000, 1)),
        after: plan(fixed(500), line('f', 1000), line('s', 3000, 3)),
      },
      [
        ['f', 'debit', 63],
        ['s', 'debit', 938, 3],
      ],
    ],
    [
      'to more seats that starts a new period without a credit',
      { calendar: 'reset', before: plan(null, line('s', 1000, 1)), after: plan(null, line('s', 3000, 3)) },
      [['s', 'debit', 3000, 3]],
    ],
    [
      'of the billing interval that keeps the price',
      { calendar: 'restarted', after: plan(null, line('a', 1000)) },
      [
        ['a', 'credit', -500],
        ['a', 'debit', 1000],
      ],
    ],
    [
      'in krónur, rounded to whole krónur',
      { currency: 'isk', before: plan(null, line('a', 700_100)), after: plan(null, line('b', 900_300)) },
      [
        ['a', 'credit', -350_100],
        ['b', 'debit', 450_200],
      ],
    ],
    ['in krónur, not rounded if the amount is not divided', { currency: 'isk', calendar: 'reset', after: plan(null, line('b', 7050)) }, [['b', 'debit', 7050]]],
    [
      'in yen',
      { currency: 'jpy', before: plan(null, line('a', 999)), after: plan(null, line('b', 2001)) },
      [
        ['a', 'credit', -500],
        ['b', 'debit', 1001],
      ],
    ],
  ])('a change %s', (_, given, expected) =>
    expect(
      prorate({ currency: 'usd', period, now: half, before: plan(null, line('a', 1000)), after: plan(null, line('b', 3000)), calendar: 'kept', ...given }),
    ).toEqual(expected.map(([product_price_id, kind, amount, seats = null]) => ({ product_price_id, kind, amount, seats }))),
  )

  test('rejects a plan with duplicate price ids', () => {
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

  test('nets to zero if a change is reversed at the same time', () => {
    fc.assert(
      fc.property(currency, moment, side, side, (currency, now, one, other) => {
        const there = total({ currency, period, now, before: one, after: other, calendar: 'kept' })
        expect(sum([there, total({ currency, period, now, before: other, after: one, calendar: 'kept' })])).toBe(0)
      }),
      { numRuns: 1_000 },
    )
  })

  test('charges the difference of the discounted prices at the start of the period, and nothing at its end', () => {
    fc.assert(
      fc.property(currency, side, side, (currency, before, after) => {
        const change = { currency, period, before, after, calendar: 'kept' as const }
        expect(total({ ...change, now: period.start })).toBe(priceOf(after, currency) - priceOf(before, currency))
        expect(prorate({ ...change, now: period.end })).toEqual([])
      }),
      { numRuns: 1_000 },
    )
  })

  test('charges a restarted period in full, and credits no more than was paid, up to rounding', () => {
    fc.assert(
      fc.property(currency, moment, side, side, (currency, now, before, after) => {
        const change = { currency, period, now, before, after }
        expect(total({ ...change, calendar: 'reset' })).toBe(priceOf(after, currency))
        const restarted = prorate({ ...change, calendar: 'restarted' })
        expect(sum(restarted.filter(({ kind }) => kind === 'debit').map(({ amount }) => amount))).toBe(priceOf(after, currency))
        // Rounding to a payable amount can add almost one payable unit to each line.
        const back = sum(restarted.filter(({ kind }) => kind === 'credit').map(({ amount }) => 0 - amount))
        expect(back).toBeLessThanOrEqual(priceOf(before, currency) + before.lines.length * (stepOf(currency) - 1))
      }),
      { numRuns: 1_000 },
    )
  })

  test('returns negative credits and positive debits, and rounds each prorated line to the nearest payable amount', () => {
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
