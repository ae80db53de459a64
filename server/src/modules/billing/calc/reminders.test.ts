import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Interval } from './periods.ts'
import { reminderOf, type Cycle } from './reminders.ts'

const day = 86_400_000
const at = (text: string) => new Date(`2026-${text}Z`)

const yearly: Cycle = {
  status: 'active',
  recurring_interval: 'year',
  recurring_interval_count: 1,
  trial_start: null,
  current_period_start: new Date('2025-06-30T10:00:00Z'),
  current_period_end: at('06-30T10:00:00'),
  cancel_at_period_end: false,
  pause_at_period_end: false,
}
const trial = (start: string, end: string): Cycle => ({
  ...yearly,
  status: 'trialing',
  recurring_interval: 'month',
  trial_start: at(start),
  current_period_start: at(start),
  current_period_end: at(end),
})

describe('reminder for the end of a trial', () => {
  test.each<[string, Cycle, Date | null]>([
    ['of two weeks', trial('06-01T10:00:00', '06-15T10:00:00'), at('06-12T10:00:00')],
    ['of three days, at once', trial('06-01T10:00:00', '06-04T10:00:00'), at('06-01T10:00:00')],
    ['of a millisecond less than three days', trial('06-01T10:00:00', '06-04T09:59:59.999'), at('06-03T09:59:59.999')],
    ['of a day, at once', trial('06-01T10:00:00', '06-02T10:00:00'), at('06-01T10:00:00')],
    ['of a millisecond less than a day', trial('06-01T10:00:00', '06-02T09:59:59.999'), null],
    ['before a yearly period', { ...trial('06-01T10:00:00', '07-01T10:00:00'), recurring_interval: 'year' }, at('06-28T10:00:00')],
    [
      'that was extended, counted from the start of the trial',
      { ...trial('06-01T10:00:00', '06-22T10:00:00'), current_period_start: at('06-20T10:00:00') },
      at('06-19T10:00:00'),
    ],
    ['without trial_start', { ...trial('06-01T10:00:00', '06-15T10:00:00'), trial_start: null }, at('06-12T10:00:00')],
    ['of a subscription that is canceled at its end', { ...trial('06-01T10:00:00', '06-15T10:00:00'), cancel_at_period_end: true }, null],
    ['of a subscription that pauses at its end', { ...trial('06-01T10:00:00', '06-15T10:00:00'), pause_at_period_end: true }, null],
  ])('calculates when to remind of the end of a trial %s', (_, cycle, expected) =>
    expect(reminderOf(cycle)).toEqual(expected && { kind: 'trial_ending', at: expected }),
  )
})

describe('reminder for a renewal', () => {
  const told = { kind: 'renewal', at: at('06-23T10:00:00') }
  test.each<[Interval, number, boolean]>([
    ['year', 1, true],
    ['year', 3, true],
    ['month', 6, true],
    ['month', 5, false],
    ['month', 1, false],
    ['week', 25, true],
    ['week', 24, false],
    ['day', 180, true],
    ['day', 179, false],
  ])('decides whether a renewal reminder is sent for a billing interval of %s × %i: %s', (recurring_interval, recurring_interval_count, long) =>
    expect(reminderOf({ ...yearly, recurring_interval, recurring_interval_count })).toEqual(long ? told : null),
  )

  test.each<[string, Partial<Cycle>]>([
    ['of a subscription that is canceled at the period end', { cancel_at_period_end: true }],
    ['of a subscription that pauses at the period end', { pause_at_period_end: true }],
    ['of a past-due subscription', { status: 'past_due' }],
    ['of a paused subscription', { status: 'paused' }],
    ['of an ended subscription', { status: 'canceled' }],
    ['of a period that was shortened to less than a week', { current_period_start: at('06-24T10:00:00') }],
  ])('sends no reminder for a renewal %s', (_, change) => expect(reminderOf({ ...yearly, ...change })).toBeNull())
})

test('schedules a reminder within the period or trial, at least a day before its end', () => {
  const cycle = fc
    .record({
      status: fc.constantFrom('trialing', 'active'),
      recurring_interval: fc.constantFrom<Interval>('day', 'week', 'month', 'year'),
      recurring_interval_count: fc.integer({ min: 1, max: 999 }),
      start: fc.date({ min: at('01-01T00:00:00'), max: at('12-31T00:00:00'), noInvalidDate: true }),
      length: fc.integer({ min: 0, max: 400 * day }),
    })
    .map(({ start, length, ...rest }) => ({
      ...yearly,
      ...rest,
      trial_start: rest.status === 'trialing' ? start : null,
      current_period_start: start,
      current_period_end: new Date(start.getTime() + length),
    }))
  fc.assert(
    fc.property(cycle, (cycle) => {
      const reminder = reminderOf(cycle)
      const length = cycle.current_period_end.getTime() - cycle.current_period_start.getTime()
      if (cycle.status === 'trialing') expect(reminder === null).toBe(length < day)
      if (reminder === null) return
      expect(reminder.at >= cycle.current_period_start).toBe(true)
      expect(reminder.at.getTime()).toBeLessThanOrEqual(cycle.current_period_end.getTime() - day)
      expect(reminderOf({ ...cycle, cancel_at_period_end: true })).toBeNull()
      expect(reminderOf({ ...cycle, pause_at_period_end: true })).toBeNull()
    }),
    { numRuns: 1_000 },
  )
})
