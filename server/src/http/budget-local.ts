import type { Clock } from '../platform/clock.ts'
import type { SpendMode, Standing, Window } from './budget.sql.ts'

/** Maximum number of windows in memory. The window that was used longest ago is dropped first. */
const mostWindows = 10_000

/**
 * Counts the same windows in the memory of this process, with the results of the script for Redis. The counts are exact
 * for one process, are lost when it ends, and are bounded in size.
 */
export const openLocalWindows = (clock: Clock) => {
  /** The times of the admitted requests of each window, oldest first. */
  const windowsByKey = new Map<string, number[]>()
  /** The open reservations, by entry: the time, and the keys of the windows. */
  const reservations = new Map<number, { readonly at: number; readonly key: string }>()
  let entries = 0

  const unexpired = (key: string, now: number, { seconds }: Window): number[] => {
    const moments = windowsByKey.get(key) ?? []
    const first = moments.findIndex((moment) => now - moment < seconds * 1000)
    moments.splice(0, first === -1 ? moments.length : first)
    return moments
  }
  return {
    spend: (
      keys: readonly string[],
      windows: readonly Window[],
      mode: SpendMode,
      inFlight: { readonly longest_ms: number; readonly wait_ms: number },
    ): Standing => {
      const now = clock.wall().getTime()
      const lists = keys.map((key, at) => unexpired(key, now, windows[at]!))
      const full = lists.flatMap((list, at) => (list.length >= windows[at]!.limit ? [list[0]! + windows[at]!.seconds * 1000 - now] : []))
      if (full.length > 0) {
        const wait_ms = Math.max(...full)
        const isOpen = [...reservations.values()].some(({ at, key }) => key === keys[0] && now - at <= inFlight.longest_ms)
        return { allowed: false, remaining: 0, wait_ms: isOpen ? Math.min(wait_ms, inFlight.wait_ms) : wait_ms }
      }
      const remaining = Math.min(...lists.map((list, at) => windows[at]!.limit - list.length))
      const wait_ms = Math.max(...lists.map((list, at) => (list[0] ?? now) + windows[at]!.seconds * 1000 - now))
      if (mode === 'look') return { allowed: true, remaining, wait_ms }
      keys.forEach((key, at) => {
        windowsByKey.delete(key)
        lists[at]!.push(now)
        windowsByKey.set(key, lists[at]!)
      })
      while (windowsByKey.size > mostWindows) windowsByKey.delete(windowsByKey.keys().next().value!)
      const standing = { allowed: true, remaining: remaining - 1, wait_ms }
      if (mode === 'spend') return standing
      const entry = ++entries
      reservations.set(entry, { at: now, key: keys[0]! })
      for (const [old, { at }] of reservations) if (now - at > inFlight.longest_ms) reservations.delete(old)
      return { ...standing, entry }
    },
    /** Ends one reservation. `return` removes its charge from the windows; `keep` leaves the charge in place. */
    settle: (keys: readonly string[], entry: number, outcome: 'keep' | 'return'): void => {
      const reservation = reservations.get(entry)
      reservations.delete(entry)
      if (!reservation || outcome === 'keep') return
      for (const key of keys) {
        const moments = windowsByKey.get(key) ?? []
        const at = moments.indexOf(reservation.at)
        if (at !== -1) moments.splice(at, 1)
      }
    },
  }
}
