/**
 * The speed of this machine compared with a quiet reference machine. 1 is equal; with 0.25 everything takes four times as
 * long. `.ci/run` measures the pace and sets `BURSAR_TEST_PACE`. The pace scales the counts of tests, never expectations.
 */
const pace = Number(process.env.BURSAR_TEST_PACE ?? 1)

/** Scales the daily count of a test by a pace. Returns a multiple of `step` that is at least `least`. */
export const scaled = (by: number, daily: number, least: number, step = 1): number => Math.max(least, Math.round((daily * by) / step) * step)

/** Scales the daily count of a test by the pace of this machine. */
export const paced = (daily: number, least: number, step = 1): number => scaled(pace, daily, least, step)

/** Reads the count of a test: `BURSAR_TEST_<name>` if it is set, else the daily count at this machine's pace. */
export const counted = (name: string, daily: number, least: number, step = 1): number => Number(process.env[`BURSAR_TEST_${name}`] ?? paced(daily, least, step))

/**
 * Timeout for an event that must happen. It is long, because a passing test never waits until it ends. Runs of mutants
 * shorten the timeout, because the bug often prevents the event.
 */
export const longestWait = Number(process.env.BURSAR_TEST_WAIT_MS ?? 180_000)
