const minute = 60_000
const day = 86_400_000

/** Maximum time that a subscription may stay past due. */
const dunningPeriod = 21 * day
/** Delays of the retries, counted from the first failure of the charge. */
const retries = [2, 7, 14, 21].map((days) => days * day)
/** Tolerance after the end of the dunning period, so that an attempt that is due at that end can still be made. */
const slack = minute

export interface Failure {
  /** Time of the first failed charge of this order. */
  readonly first_failed_at: Date
  /** Time at which the subscription became past due: the first failed payment of any of its open orders. */
  readonly past_due_at: Date
  /**
   * True if the last decline was a hard decline. Retrying the same card would fail, so only one more attempt follows,
   * at the end of the dunning period.
   */
  readonly final: boolean
  readonly now: Date
}

/** Returns the latest time at which an order of this subscription may be charged. */
export const deadlineOf = (past_due_at: Date): Date => new Date(past_due_at.getTime() + dunningPeriod + slack)

/**
 * Returns the time of the next attempt, or null if no attempt is left. The time is after `now` and not after the
 * deadline. There are at most four retries per order. The deadline counts from the first failed order of the
 * subscription. An order that fails later therefore has less time, and its last attempt is at the end of the dunning
 * period.
 */
export const nextAttempt = ({ first_failed_at, past_due_at, final, now }: Failure): Date | null => {
  const deadline = deadlineOf(past_due_at).getTime()
  const last = deadline - slack
  const days = retries.map((after) => first_failed_at.getTime() + after)
  const cut = final || days.some((at) => at > deadline)
  const attempts = cut ? [...days.filter((at) => !final && at < last), last] : days
  const next = attempts.find((at) => at > now.getTime())
  return next === undefined ? null : new Date(next)
}
