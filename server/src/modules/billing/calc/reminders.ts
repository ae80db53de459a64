import type { Interval } from './periods.ts'

const day = 86_400_000

/**
 * Minimum length of a billing cycle, per interval, from which a renewal reminder is sent. Customers may forget such
 * long cycles.
 */
const long: Record<Interval, number> = { day: 180, week: 25, month: 6, year: 1 }

export interface Cycle {
  readonly status: string
  readonly recurring_interval: Interval
  readonly recurring_interval_count: number
  readonly trial_start: Date | null
  readonly current_period_start: Date
  readonly current_period_end: Date
  readonly cancel_at_period_end: boolean
  readonly pause_at_period_end: boolean
}

export interface Reminder {
  readonly kind: 'trial_ending' | 'renewal'
  readonly at: Date
}

/**
 * Returns when to remind the customer of the next charge, or null if no reminder is due. Trials of three days or more:
 * three days before the end. Shorter trials of at least one day: one day before the end. Long billing cycles: a week
 * before the renewal. The reminder is never before the start of the period or trial.
 */
export const reminderOf = (cycle: Cycle): Reminder | null => {
  if (cycle.cancel_at_period_end || cycle.pause_at_period_end) return null
  const { status, current_period_start, current_period_end } = cycle
  if (status === 'trialing') {
    const start = cycle.trial_start ?? current_period_start
    return ahead('trial_ending', 3, start, current_period_end) ?? ahead('trial_ending', 1, start, current_period_end)
  }
  if (status !== 'active' || cycle.recurring_interval_count < long[cycle.recurring_interval]) return null
  return ahead('renewal', 7, current_period_start, current_period_end)
}

const ahead = (kind: Reminder['kind'], days: number, start: Date, end: Date): Reminder | null => {
  const at = new Date(end.getTime() - days * day)
  return at < start ? null : { kind, at }
}
