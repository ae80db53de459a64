const minute = 60_000
const day = 86_400_000

/** How long a subscription may stay past due. */
const patience = 21 * day
/** When a charge that failed is tried again, counted from its first failure. */
const retries = [2, 7, 14, 21].map((days) => days * day)
/** The last try begins when the patience ends, and is given time to be carried out. */
const slack = minute

export interface Failure {
  /** When this order's charge failed for the first time. */
  readonly first_failed_at: Date
  /** Since when the subscription is past due: the first of its open orders began it. */
  readonly past_due_at: Date
  /** The last decline was final: the same card will not do, so it is tried but once more. */
  readonly final: boolean
  readonly now: Date
}

/** The last moment at which an order of this subscription may be tried. */
export const deadlineOf = (past_due_at: Date): Date => new Date(past_due_at.getTime() + patience + slack)

/**
 * When the charge is tried again: always later than now, never after the deadline, at most four times; null: no more. An
 * order that failed later than the first one has less time, and gets its last try when the patience ends.
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
