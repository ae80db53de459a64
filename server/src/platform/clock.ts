/**
 * The only source of time. Wall time is for secrets, sessions, rate limits, attempts, leases and ids. Business time is
 * for periods, due dates, orders and entitlements. Outside the sandbox the two are the same.
 */
export interface Clock extends WallClock {
  business(): Date
}

/** A clock that knows only the real time, not the business time. */
export interface WallClock {
  wall(): Date
}

const now = () => new Date()

export const systemClock: Clock = { wall: now, business: now }

/** Returns the milliseconds of CPU time that this thread has used. Unlike a stopwatch, it stands while other processes have the processor. */
export const cpuTime = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** Returns a function that measures the milliseconds since this call. */
export const stopwatch = (): (() => number) => {
  const start = performance.now()
  return () => performance.now() - start
}

export const later = (from: Date, milliseconds: number): Date => new Date(from.getTime() + milliseconds)

export const seconds = 1000
export const minutes = 60 * seconds
export const hours = 60 * minutes
export const days = 24 * hours
