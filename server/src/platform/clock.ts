/**
 * The only source of time. Wall time dates secrets, sessions, limits, attempts, leases and ids; business time dates
 * periods, dues, orders and entitlements. Outside the sandbox the two are the same.
 */
export interface Clock {
  wall(): Date
  business(): Date
}

const now = () => new Date()

export const systemClock: Clock = { wall: now, business: now }

/** Milliseconds since some fixed moment, for measuring how long things take. */
export const stopwatch = (): (() => number) => {
  const start = performance.now()
  return () => performance.now() - start
}

export const later = (from: Date, milliseconds: number): Date => new Date(from.getTime() + milliseconds)

export const seconds = 1000
export const minutes = 60 * seconds
export const hours = 60 * minutes
export const days = 24 * hours
