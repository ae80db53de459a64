import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anchorOf, nextPeriod, trialEnd, type Interval } from './periods.ts'

const at = (text: string) => new Date(`${text}Z`)

describe('nextPeriod', () => {
  test.each<[string, Interval, number, number, string]>([
    ['2026-01-31T10:30:00', 'month', 1, 31, '2026-02-28T10:30:00'],
    ['2026-02-28T10:30:00', 'month', 1, 31, '2026-03-31T10:30:00'],
    ['2028-01-31T10:30:00', 'month', 1, 31, '2028-02-29T10:30:00'],
    ['2026-03-31T00:00:00', 'month', 1, 31, '2026-04-30T00:00:00'],
    ['2026-11-30T00:00:00', 'month', 3, 30, '2027-02-28T00:00:00'],
    ['2026-12-15T00:00:00', 'month', 1, 15, '2027-01-15T00:00:00'],
    ['2026-01-15T00:00:00', 'month', 999, 15, '2109-04-15T00:00:00'],
    ['2026-01-31T00:00:00', 'month', 1, 1, '2026-02-01T00:00:00'],
    ['2028-02-29T23:59:59.999', 'year', 1, 29, '2029-02-28T23:59:59.999'],
    ['2031-02-28T23:59:59.999', 'year', 1, 29, '2032-02-29T23:59:59.999'],
    ['2026-06-01T00:00:00', 'year', 2, 1, '2028-06-01T00:00:00'],
    ['2026-02-27T08:00:00', 'day', 3, 27, '2026-03-02T08:00:00'],
    ['2026-03-28T02:30:00', 'week', 2, 1, '2026-04-11T02:30:00'],
  ])('a period from %s with the interval %s × %i and anchor day %i ends at %s', (start, interval, count, anchor, end) =>
    expect(nextPeriod(at(start), interval, count, anchor)).toEqual({ start: at(start), end: at(end) }),
  )

  test.each<[Interval, number, number]>([
    ['month', 0, 1],
    ['month', 1.5, 1],
    ['day', -1, 1],
    ['month', 1, 0],
    ['month', 1, 32],
    ['day', 1, NaN],
    ['year', 1_000_000, 1],
  ])('rejects %s × %d on day %d', (interval, count, anchor) => expect(() => nextPeriod(at('2026-01-01T00:00:00'), interval, count, anchor)).toThrow(RangeError))

  const moment = fc.date({ min: at('1990-01-01T00:00:00'), max: at('2090-12-31T23:59:59'), noInvalidDate: true })
  const interval = fc.constantFrom<Interval>('day', 'week', 'month', 'year')

  test('does not drift: many short periods end at the same time as one long period', () => {
    fc.assert(
      fc.property(moment, interval, fc.integer({ min: 1, max: 40 }), (start, interval, count) => {
        let end = start
        for (let n = 0; n < count; n++) end = nextPeriod(end, interval, 1, anchorOf(start)).end
        expect(end).toEqual(nextPeriod(start, interval, count, anchorOf(start)).end)
      }),
    )
  })

  test('ends every period after its start, at the same time of day, on the anchor day or the last day of a shorter month', () => {
    fc.assert(
      fc.property(moment, interval, fc.integer({ min: 1, max: 999 }), fc.integer({ min: 1, max: 31 }), (start, interval, count, anchor) => {
        const { end } = nextPeriod(start, interval, count, anchor)
        expect(end > start).toBe(true)
        expect(end.toISOString().slice(-14)).toBe(start.toISOString().slice(-14))
        if (interval === 'day' || interval === 'week' || end.getUTCDate() === anchor) return
        expect(end.getUTCDate()).toBeLessThan(anchor)
        expect(new Date(end.getTime() + 86_400_000).getUTCDate()).toBe(1)
      }),
    )
  })
})

describe('trialEnd', () => {
  test.each<[string, Interval, number, string]>([
    ['2026-01-31T10:30:00', 'month', 1, '2026-02-28T10:30:00'],
    ['2026-01-10T10:30:00', 'day', 14, '2026-01-24T10:30:00'],
    ['2026-12-28T10:30:00', 'week', 1, '2027-01-04T10:30:00'],
    ['2028-02-29T10:30:00', 'year', 1, '2029-02-28T10:30:00'],
  ])('a trial from %s with the interval %s × %i ends at %s', (start, interval, count, end) => expect(trialEnd(at(start), interval, count)).toEqual(at(end)))
})
