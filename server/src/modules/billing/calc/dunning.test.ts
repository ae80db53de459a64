import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { deadlineOf, nextAttempt } from './dunning.ts'

const minute = 60_000
const day = 86_400_000
const start = new Date('2026-03-01T10:00:00Z').getTime()
const on = (days: number, milliseconds = 0) => new Date(start + days * day + milliseconds)

/** Returns the times of all attempts of an order, if each attempt fails `delay` milliseconds after it was due. */
const attempts = (first_failed_at: Date, past_due_at: Date, final: boolean, delay = 0) => {
  const made: Date[] = []
  for (let now = first_failed_at; ; now = new Date(made.at(-1)!.getTime() + delay)) {
    const next = nextAttempt({ first_failed_at, past_due_at, final, now })
    if (next === null) return made
    made.push(next)
    if (made.length > 9) throw new Error('There is no end of it.')
  }
}

describe('nextAttempt', () => {
  test.each<[string, Parameters<typeof nextAttempt>[0], Date | null]>([
    ['two days after the first failure', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(0) }, on(2)],
    ['at the time of an attempt, returns the one after it', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(2) }, on(7)],
    ['one week after the first failure', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(2, 1) }, on(7)],
    ['two weeks after the first failure', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(13) }, on(14)],
    ['three weeks after the first failure', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(14) }, on(21)],
    ['none after three weeks', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(21) }, null],
    ['skips attempts that were missed during downtime', { first_failed_at: on(0), past_due_at: on(0), final: false, now: on(9) }, on(14)],
    ['only the last attempt, after a final decline', { first_failed_at: on(0), past_due_at: on(0), final: true, now: on(0) }, on(21)],
    ['only the last attempt, after a final decline in a retry', { first_failed_at: on(0), past_due_at: on(0), final: true, now: on(7) }, on(21)],
    ['none after a final decline in the last attempt', { first_failed_at: on(0), past_due_at: on(0), final: true, now: on(21) }, null],
    ['for an order that fails later, counted from its own failure', { first_failed_at: on(7), past_due_at: on(0), final: false, now: on(7) }, on(9)],
    [
      'for an order that fails later, at most three weeks after the subscription became past due',
      { first_failed_at: on(10), past_due_at: on(0), final: false, now: on(17) },
      on(21),
    ],
    ['for an order that fails one day before the end', { first_failed_at: on(20), past_due_at: on(0), final: false, now: on(20) }, on(21)],
    ['none for an order that fails at the end', { first_failed_at: on(21), past_due_at: on(0), final: false, now: on(21) }, null],
    ['none for an order that fails after the deadline', { first_failed_at: on(30), past_due_at: on(0), final: false, now: on(30) }, null],
    [
      'its own last attempt, if that is within one minute after the end',
      { first_failed_at: on(0, minute), past_due_at: on(0), final: false, now: on(14, minute) },
      on(21, minute),
    ],
    [
      'at the end, if its own last attempt is more than one minute later',
      { first_failed_at: on(0, minute + 1), past_due_at: on(0), final: false, now: on(15) },
      on(21),
    ],
  ])('returns the next attempt: %s', (_, failure, expected) => expect(nextAttempt(failure)).toEqual(expected))

  test('sets the deadline to three weeks and a minute after the subscription became past due', () => expect(deadlineOf(on(0))).toEqual(on(21, minute)))

  test.each<[string, Date, boolean, Date[]]>([
    ['an order', on(0), false, [on(2), on(7), on(14), on(21)]],
    ['an order with a final decline', on(0), true, [on(21)]],
    ['an order that fails a week later', on(7), false, [on(9), on(14), on(21)]],
    [
      'an order that fails a week and half a minute later, not twice within a minute',
      on(7, minute / 2),
      false,
      [on(9, minute / 2), on(14, minute / 2), on(21)],
    ],
    ['an order that failed before the subscription was past due', on(-3), false, [on(-1), on(4), on(11), on(18)]],
  ])('schedules all attempts of %s', (_, first, final, expected) => expect(attempts(first, on(0), final)).toEqual(expected))

  const moment = (from: number, to: number) => fc.integer({ min: from * day, max: to * day }).map((after) => new Date(start + after))

  test('returns only attempts after now and not after the deadline, and eventually none', () => {
    fc.assert(
      fc.property(moment(0, 25), fc.boolean(), fc.integer({ min: 0, max: 3 * day }), (first, final, delay) => {
        const made = attempts(first, on(0), final, delay)
        expect(made.length).toBeLessThanOrEqual(final ? 1 : 4)
        for (const [index, at] of made.entries()) {
          expect(at > (made[index - 1] ?? first)).toBe(true)
          expect(at <= deadlineOf(on(0))).toBe(true)
        }
        // An order that fails before the end of the dunning period gets a last attempt at its end.
        if (first < on(21) && delay < 1) expect(made.at(-1)!.getTime()).toBeGreaterThanOrEqual(on(21).getTime())
      }),
    )
  })

  test('retries a hard decline only at the end of the dunning period, whenever the order failed', () => {
    fc.assert(
      fc.property(moment(0, 25), moment(0, 25), (first_failed_at, now) => {
        expect(nextAttempt({ first_failed_at, past_due_at: on(0), final: true, now })).toEqual(now < on(21) ? on(21) : null)
      }),
    )
  })
})
