import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isDiscountOver } from './discounts-over-time.ts'
import { nextPeriod, type Interval } from './periods.ts'

const at = (text: string) => new Date(`${text}Z`)

describe('isDiscountOver', () => {
  const first = at('2026-01-31T10:00:00')
  test.each<[string, 'once' | 'repeating' | 'forever', number | null, Date | null, Date, boolean]>([
    ['no: a discount for one period that was never billed', 'once', null, null, first, false],
    ['no: in the only period of a discount for one period', 'once', null, first, first, false],
    ['yes: after the only period of a discount for one period', 'once', null, first, at('2026-01-31T10:00:00.001'), true],
    ['no: a discount without an end never ends', 'forever', null, first, at('2126-01-01T00:00:00'), false],
    ['no: a discount for three months that was never billed', 'repeating', 3, null, at('2126-01-01T00:00:00'), false],
    ['no: in the first of three months', 'repeating', 3, first, first, false],
    ['no: in a shorter second month of three', 'repeating', 3, first, at('2026-02-28T10:00:00'), false],
    ['no: in the third of three months', 'repeating', 3, first, at('2026-03-31T10:00:00'), false],
    ['yes: in the fourth month', 'repeating', 3, first, at('2026-04-30T10:00:00'), true],
    ['yes: after one month of one', 'repeating', 1, first, at('2026-02-28T10:00:00'), true],
    ['yes: after one year of twelve months', 'repeating', 12, first, at('2027-01-31T10:00:00'), true],
    ['no: after one year of thirteen months', 'repeating', 13, first, at('2027-01-31T10:00:00'), false],
    ['no: in a second month whose start moves back to the anchor day', 'repeating', 2, at('2026-02-28T10:00:00'), at('2026-03-31T10:00:00'), false],
    ['yes: one millisecond after the start of its last month', 'repeating', 2, at('2026-01-15T10:00:00'), at('2026-02-15T10:00:00.001'), true],
  ])('decides whether the discount is over: %s', (_, duration, duration_in_months, applied_at, period_start, expected) =>
    expect(isDiscountOver({ duration, duration_in_months, applied_at, period_start })).toBe(expected),
  )

  test('rejects a repeating discount without a positive number of months', () => {
    for (const duration_in_months of [null, 0, -1, 1.5])
      expect(() => isDiscountOver({ duration: 'repeating', duration_in_months, applied_at: first, period_start: first })).toThrow(RangeError)
  })

  /** Returns the number of consecutive periods with the discount, from the first one on. */
  const billed = (start: Date, interval: Interval, count: number, anchor: number, duration: 'once' | 'repeating', duration_in_months: number | null) => {
    let invoices = 0
    for (let period_start = start; invoices < 1_000; period_start = nextPeriod(period_start, interval, count, anchor).end) {
      if (isDiscountOver({ duration, duration_in_months, applied_at: start, period_start })) break
      invoices++
    }
    return invoices
  }
  /** Any start of a period with this anchor: the anchor day, or the last day of a shorter month. */
  const grid = fc
    .record({ anchor: fc.integer({ min: 1, max: 31 }), months: fc.integer({ min: 1, max: 600 }), time: fc.integer({ min: 0, max: 86_399_999 }) })
    .map(({ anchor, months, time }) => ({ anchor, start: nextPeriod(new Date(Date.UTC(2000, 0, 1) + time), 'month', months, anchor).end }))

  test('ends a discount of 3 months after three monthly periods, and of 12 months after one yearly period, for every anchor day', () => {
    fc.assert(
      fc.property(grid, ({ anchor, start }) => {
        expect(billed(start, 'month', 1, anchor, 'repeating', 3)).toBe(3)
        expect(billed(start, 'year', 1, anchor, 'repeating', 12)).toBe(1)
      }),
      { numRuns: 1_000 },
    )
  })

  test('ends a repeating discount after the periods that start within its months, for every anchor day', () => {
    const years = fc.boolean()
    fc.assert(
      fc.property(grid, years, fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 60 }), ({ anchor, start }, years, count, months) => {
        expect(billed(start, years ? 'year' : 'month', count, anchor, 'repeating', months)).toBe(Math.ceil(months / (years ? 12 * count : count)))
      }),
      { numRuns: 1_000 },
    )
  })

  test('ends a discount that applies once after one period, for every interval', () => {
    const interval = fc.constantFrom<Interval>('day', 'week', 'month', 'year')
    fc.assert(
      fc.property(grid, interval, fc.integer({ min: 1, max: 12 }), ({ anchor, start }, interval, count) => {
        expect(billed(start, interval, count, anchor, 'once', null)).toBe(1)
      }),
    )
  })
})
