import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nextPeriod, type Interval } from './periods.ts'
import { billedTooOften } from './stop-loss.ts'

const day = 86_400_000
const at = (text: string) => new Date(`${text}T10:00:00Z`)

describe('billedTooOften', () => {
  test.each<[string, Interval, number, string, string[], boolean]>([
    ['no, without an earlier period', 'month', 1, '2026-03-31', [], false],
    ['no, one short month after the earlier period', 'month', 1, '2026-02-28', ['2026-01-31'], false],
    ['yes, one day before the short month has passed', 'month', 1, '2026-02-27', ['2026-01-31'], true],
    ['yes, twice for the same period', 'month', 1, '2026-01-31', ['2026-01-31'], true],
    ['yes, for a period before a billed period', 'month', 1, '2026-01-31', ['2026-02-28'], true],
    ['yes, for a period between two billed periods of normal length', 'month', 1, '2026-02-28', ['2026-01-31', '2026-03-31'], true],
    ['no, if periods were skipped', 'month', 1, '2026-12-31', ['2026-01-31'], false],
    ['yes, one day before twelve months have passed', 'month', 12, '2027-01-14', ['2026-01-15'], true],
    [
      'yes, thirteen times in a year, though each single period is long enough',
      'month',
      1,
      '2026-12-31',
      Array.from({ length: 12 }, (_, n) => new Date(at('2026-01-01').getTime() + 29 * n * day).toISOString().slice(0, 10)),
      true,
    ],
    ['yes, if one of the earlier periods was billed too often', 'week', 1, '2026-01-15', ['2026-01-08', '2026-01-07', '2026-01-01'], true],
    ['no, for weekly periods in any order', 'week', 1, '2026-01-22', ['2026-01-08', '2026-01-15', '2026-01-01'], false],
    ['yes, one day before a year has passed', 'year', 1, '2026-12-31', ['2026-01-01'], true],
    ['no, from 29 February to 28 February of the next year', 'year', 1, '2029-02-28', ['2028-02-29'], false],
    ['yes, after one day with an interval of two days', 'day', 2, '2026-01-02', ['2026-01-01'], true],
  ])('decides whether a subscription is billed too often: %s', (_, recurring_interval, recurring_interval_count, start, earlier, expected) =>
    expect(billedTooOften({ recurring_interval, recurring_interval_count, period_start: at(start), earlier: earlier.map(at) })).toBe(expected),
  )

  test('reports an invalid date as billed too often', () =>
    expect(billedTooOften({ recurring_interval: 'day', recurring_interval_count: 1, period_start: new Date(NaN), earlier: [at('2026-01-01')] })).toBe(true))

  /** Thirteen period starts of a valid calendar: on the anchor day, or on the last day of a shorter month. */
  const starts = (from: Date, interval: Interval, count: number, anchor: number) => {
    const all = [nextPeriod(from, 'month', 1, anchor).end]
    while (all.length < 13) all.push(nextPeriod(all.at(-1)!, interval, count, anchor).end)
    return all
  }
  const intervals = ['day', 'week', 'month', 'year'] as const

  test('does not report a valid calendar with any anchor day, start month and interval count', () => {
    let tight = Infinity
    for (const interval of ['month', 'year'] as const)
      for (let anchor = 1; anchor <= 31; anchor++)
        for (let count = 1; count <= 12; count++)
          // Four years contain one leap year.
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

  test('does not report a valid calendar with any number of earlier periods, in any order', () => {
    fc.assert(
      fc.property(calendar, fc.integer({ min: 0, max: 12 }), fc.boolean(), ({ from, interval, count, anchor }, length, backwards) => {
        const all = starts(from, interval, count, anchor).slice(12 - length)
        const earlier = backwards ? all.slice(0, -1).toReversed() : all.slice(0, -1)
        expect(billedTooOften({ recurring_interval: interval, recurring_interval_count: count, period_start: all.at(-1)!, earlier })).toBe(false)
      }),
      { numRuns: 1_000 },
    )
  })

  test('reports periods that are too short, start at the same time, or go back in time', () => {
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
