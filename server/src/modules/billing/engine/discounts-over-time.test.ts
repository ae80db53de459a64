import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isDiscountOver } from './discounts-over-time.ts'
import { nextPeriod, type Interval } from './periods.ts'

const at = (text: string) => new Date(`${text}Z`)

describe('a discount is over', () => {
  const first = at('2026-01-31T10:00:00')
  test.each<[string, 'once' | 'repeating' | 'forever', number | null, Date | null, Date, boolean]>([
    ['not before it was billed', 'once', null, null, first, false],
    ['not in its only period', 'once', null, first, first, false],
    ['after its only period', 'once', null, first, at('2026-01-31T10:00:00.001'), true],
    ['never', 'forever', null, first, at('2126-01-01T00:00:00'), false],
    ['not before it was billed, for months', 'repeating', 3, null, at('2126-01-01T00:00:00'), false],
    ['not in its first month', 'repeating', 3, first, first, false],
    ['not in a shorter second', 'repeating', 3, first, at('2026-02-28T10:00:00'), false],
    ['not in its third', 'repeating', 3, first, at('2026-03-31T10:00:00'), false],
    ['in its fourth', 'repeating', 3, first, at('2026-04-30T10:00:00'), true],
    ['after one month', 'repeating', 1, first, at('2026-02-28T10:00:00'), true],
    ['after one year of years', 'repeating', 12, first, at('2027-01-31T10:00:00'), true],
    ['not after one year, where it has a month more', 'repeating', 13, first, at('2027-01-31T10:00:00'), false],
    ['not when the anchor comes back', 'repeating', 2, at('2026-02-28T10:00:00'), at('2026-03-31T10:00:00'), false],
    ['a millisecond after its last beginning', 'repeating', 2, at('2026-01-15T10:00:00'), at('2026-02-15T10:00:00.001'), true],
  ])('%s', (_, duration, duration_in_months, applied_at, period_start, expected) =>
    expect(isDiscountOver({ duration, duration_in_months, applied_at, period_start })).toBe(expected),
  )

  test('without months there is none that repeats', () => {
    for (const duration_in_months of [null, 0, -1, 1.5])
      expect(() => isDiscountOver({ duration: 'repeating', duration_in_months, applied_at: first, period_start: first })).toThrow(RangeError)
  })

  /** The invoices that show the discount, from the one that first does. */
  const billed = (start: Date, interval: Interval, count: number, anchor: number, duration: 'once' | 'repeating', duration_in_months: number | null) => {
    let invoices = 0
    for (let period_start = start; invoices < 1_000; period_start = nextPeriod(period_start, interval, count, anchor).end) {
      if (isDiscountOver({ duration, duration_in_months, applied_at: start, period_start })) break
      invoices++
    }
    return invoices
  }
  /** Any beginning of a period with this anchor: its day, or the last of a month that is too short. */
  const grid = fc
    .record({ anchor: fc.integer({ min: 1, max: 31 }), months: fc.integer({ min: 1, max: 600 }), time: fc.integer({ min: 0, max: 86_399_999 }) })
    .map(({ anchor, months, time }) => ({ anchor, start: nextPeriod(new Date(Date.UTC(2000, 0, 1) + time), 'month', months, anchor).end }))

  test('after exactly three of months, and one of years, whatever the anchor', () => {
    fc.assert(
      fc.property(grid, ({ anchor, start }) => {
        expect(billed(start, 'month', 1, anchor, 'repeating', 3)).toBe(3)
        expect(billed(start, 'year', 1, anchor, 'repeating', 12)).toBe(1)
      }),
      { numRuns: 1_000 },
    )
  })

  test('after as many periods as begin within its months, whatever the anchor', () => {
    const years = fc.boolean()
    fc.assert(
      fc.property(grid, years, fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 60 }), ({ anchor, start }, years, count, months) => {
        expect(billed(start, years ? 'year' : 'month', count, anchor, 'repeating', months)).toBe(Math.ceil(months / (years ? 12 * count : count)))
      }),
      { numRuns: 1_000 },
    )
  })

  test('after one period, once, whatever the calendar', () => {
    const interval = fc.constantFrom<Interval>('day', 'week', 'month', 'year')
    fc.assert(
      fc.property(grid, interval, fc.integer({ min: 1, max: 12 }), ({ anchor, start }, interval, count) => {
        expect(billed(start, interval, count, anchor, 'once', null)).toBe(1)
      }),
    )
  })
})
