import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nextPeriod, type Interval } from './periods.ts'
import { billedTooOften } from './stop-loss.ts'

const day = 86_400_000
const at = (text: string) => new Date(`${text}T10:00:00Z`)

describe('billed too often', () => {
  test.each<[string, Interval, number, string, string[], boolean]>([
    ['not without anything earlier', 'month', 1, '2026-03-31', [], false],
    ['not a short month later', 'month', 1, '2026-02-28', ['2026-01-31'], false],
    ['a day before that', 'month', 1, '2026-02-27', ['2026-01-31'], true],
    ['twice for one period', 'month', 1, '2026-01-31', ['2026-01-31'], true],
    ['for a period before another', 'month', 1, '2026-01-31', ['2026-02-28'], true],
    ['for a period between others', 'month', 1, '2026-02-28', ['2026-01-31', '2026-03-31'], true],
    ['not where periods were left out', 'month', 1, '2026-12-31', ['2026-01-31'], false],
    ['twelve months that are a day short of a year', 'month', 12, '2027-01-14', ['2026-01-15'], true],
    [
      'thirteen times in a year, though no step is too short',
      'month',
      1,
      '2026-12-31',
      Array.from({ length: 12 }, (_, n) => new Date(at('2026-01-01').getTime() + 29 * n * day).toISOString().slice(0, 10)),
      true,
    ],
    ['when one of the earlier was one too many', 'week', 1, '2026-01-15', ['2026-01-08', '2026-01-07', '2026-01-01'], true],
    ['not weekly, in any order', 'week', 1, '2026-01-22', ['2026-01-08', '2026-01-15', '2026-01-01'], false],
    ['a year that is a day short', 'year', 1, '2026-12-31', ['2026-01-01'], true],
    ['not from the 29th to the 28th', 'year', 1, '2029-02-28', ['2028-02-29'], false],
    ['every second day, a day later', 'day', 2, '2026-01-02', ['2026-01-01'], true],
  ])('%s', (_, recurring_interval, recurring_interval_count, start, earlier, expected) =>
    expect(billedTooOften({ recurring_interval, recurring_interval_count, period_start: at(start), earlier: earlier.map(at) })).toBe(expected),
  )

  test('where a date is none', () =>
    expect(billedTooOften({ recurring_interval: 'day', recurring_interval_count: 1, period_start: new Date(NaN), earlier: [at('2026-01-01')] })).toBe(true))

  /** Thirteen beginnings of a true calendar: on the anchor, or on the last day of a month that is too short. */
  const starts = (from: Date, interval: Interval, count: number, anchor: number) => {
    const all = [nextPeriod(from, 'month', 1, anchor).end]
    while (all.length < 13) all.push(nextPeriod(all.at(-1)!, interval, count, anchor).end)
    return all
  }
  const intervals = ['day', 'week', 'month', 'year'] as const

  test('never by a true calendar, whatever its anchor, month and count', () => {
    let tight = Infinity
    for (const interval of ['month', 'year'] as const)
      for (let anchor = 1; anchor <= 31; anchor++)
        for (let count = 1; count <= 12; count++)
          // Four years hold a leap year and three others.
          for (let month = 0; month < 48; month++) {
            const [last, ...earlier] = starts(new Date(Date.UTC(2026, month, 1)), interval, count, anchor).toReversed()
            const billing = { recurring_interval: interval, recurring_interval_count: count, period_start: last!, earlier }
            if (billedTooOften(billing)) expect.fail(`${interval} × ${count} on day ${anchor} until ${last!.toISOString()}`)
            tight = Math.min(tight, last!.getTime() - earlier[0]!.getTime())
          }
    expect(tight).toBe(28 * day)
  })

  const calendar = fc.record({
    from: fc.date({ min: at('1990-01-01'), max: at('2090-12-31'), noInvalidDate: true }),
    interval: fc.constantFrom<Interval>(...intervals),
    count: fc.integer({ min: 1, max: 12 }),
    anchor: fc.integer({ min: 1, max: 31 }),
  })

  test('not by any part of a true calendar, in any order', () => {
    fc.assert(
      fc.property(calendar, fc.integer({ min: 0, max: 12 }), fc.boolean(), ({ from, interval, count, anchor }, length, backwards) => {
        const all = starts(from, interval, count, anchor).slice(12 - length)
        const earlier = backwards ? all.slice(0, -1).toReversed() : all.slice(0, -1)
        expect(billedTooOften({ recurring_interval: interval, recurring_interval_count: count, period_start: all.at(-1)!, earlier })).toBe(false)
      }),
      { numRuns: 1_000 },
    )
  })

  test('by a calendar of shorter periods, and by one that stands still or goes back', () => {
    fc.assert(
      fc.property(calendar, fc.integer({ min: 0, max: 400 }), ({ from, interval, count, anchor }, back) => {
        const [last, ...earlier] = starts(from, interval, count, anchor).toReversed()
        const billing = { recurring_interval: interval, recurring_interval_count: count * 2, period_start: last!, earlier }
        expect(billedTooOften(billing)).toBe(true)
        const still = { ...billing, recurring_interval_count: count, period_start: new Date(earlier[0]!.getTime() - back * day) }
        expect(billedTooOften(still)).toBe(true)
      }),
    )
  })
})
