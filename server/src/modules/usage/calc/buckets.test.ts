import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bucketStarts } from './buckets.ts'
import { day, hour, localTime, momentOf } from './zones.ts'

const starts = (start: string, end: string, interval: 'hour' | 'day' | 'week' | 'month' | 'year', zone: string) =>
  bucketStarts({ start: new Date(start), end: new Date(end) }, interval, zone).map((at) => at.toISOString().replace(':00.000Z', 'Z'))

test('intervals begin by the local clock, also on days with 23 or 25 hours', () => {
  expect(starts('2026-03-28T12:00Z', '2026-03-30T12:00Z', 'day', 'Europe/Berlin')).toEqual(['2026-03-27T23:00Z', '2026-03-28T23:00Z', '2026-03-29T22:00Z'])
  expect(starts('2026-10-25T00:30Z', '2026-10-25T02:30Z', 'hour', 'Europe/Berlin')).toEqual(['2026-10-25T00:00Z', '2026-10-25T01:00Z', '2026-10-25T02:00Z'])
  expect(starts('2026-01-01T00:00Z', '2026-01-02T00:00Z', 'day', 'Asia/Kathmandu')).toEqual(['2025-12-31T18:15Z', '2026-01-01T18:15Z'])
  expect(starts('2026-01-01T00:00Z', '2026-01-01T02:00Z', 'hour', 'Asia/Calcutta')).toEqual(['2025-12-31T23:30Z', '2026-01-01T00:30Z', '2026-01-01T01:30Z'])
  expect(starts('2026-04-01T00:00Z', '2026-04-20T00:00Z', 'week', 'UTC')).toEqual(['2026-03-30T00:00Z', '2026-04-06T00:00Z', '2026-04-13T00:00Z'])
  expect(starts('2026-01-31T23:30Z', '2026-03-01T00:00Z', 'month', 'Europe/Berlin')).toEqual(['2026-01-31T23:00Z', '2026-02-28T23:00Z'])
  expect(starts('2025-06-01T00:00Z', '2026-06-01T00:00Z', 'year', 'America/New_York')).toEqual(['2025-01-01T05:00Z', '2026-01-01T05:00Z'])
})

test('the end of the range begins no interval, and a range without length has one', () => {
  expect(starts('2026-01-01T00:00Z', '2026-01-03T00:00Z', 'day', 'UTC')).toEqual(['2026-01-01T00:00Z', '2026-01-02T00:00Z'])
  expect(starts('2026-01-01T10:00Z', '2026-01-01T10:00Z', 'day', 'UTC')).toEqual(['2026-01-01T00:00Z'])
})

test('a day begins when the clock skips midnight, a skipped day has no interval, and half hours are part of an hour', () => {
  // Santiago sets the clock from 24:00 to 01:00.
  expect(starts('2024-09-07T12:00Z', '2024-09-08T12:00Z', 'day', 'America/Santiago')).toEqual(['2024-09-07T04:00Z', '2024-09-08T04:00Z'])
  // Samoa had no 30 December 2011.
  expect(starts('2011-12-29T12:00Z', '2011-12-31T12:00Z', 'day', 'Pacific/Apia')).toEqual(['2011-12-29T10:00Z', '2011-12-30T10:00Z', '2011-12-31T10:00Z'])
  // Lord Howe Island sets the clock back by half an hour, from 02:00 to 01:30.
  expect(starts('2026-04-04T14:30Z', '2026-04-04T17:00Z', 'hour', 'Australia/Lord_Howe')).toEqual([
    '2026-04-04T14:00Z',
    '2026-04-04T15:30Z',
    '2026-04-04T16:30Z',
  ])
})

test('1,000 random ranges in random zones are divided without gaps, and each moment has the date of its interval', () => {
  const zones = Intl.supportedValuesOf('timeZone')
  const range = fc.record({
    zone: fc.constantFrom(...zones),
    start: fc.integer({ min: Date.UTC(2010, 0, 1), max: Date.UTC(2035, 0, 1) }),
    length: fc.integer({ min: 1, max: 40 * day }),
    share: fc.double({ min: 0, max: 0.999, noNaN: true }),
  })
  fc.assert(
    fc.property(range, ({ zone, start, length, share }) => {
      const end = start + length
      const found = bucketStarts({ start: new Date(start), end: new Date(end) }, 'day', zone).map((at) => at.getTime())
      expect(found[0]).toBeLessThanOrEqual(start)
      expect(found[1] ?? end).toBeGreaterThan(start)
      expect(found.at(-1)!).toBeLessThan(end)
      expect(found).toEqual(found.toSorted((a, b) => a - b))
      const moment = Math.floor(start + length * share)
      const begin = found.findLast((at) => at <= moment)!
      expect(Math.floor(localTime(moment, zone) / day)).toBe(Math.floor(localTime(begin, zone) / day))
      expect(momentOf(localTime(begin, zone), zone)).toBe(begin)
      for (const [at, next] of found.slice(1).entries()) expect(next - found[at]!).toBeGreaterThan(20 * hour)
    }),
    { numRuns: 1000 },
  )
})
