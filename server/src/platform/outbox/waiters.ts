import { accountLimits } from '@bursar/contract'
import type { Numbered } from './numbered.ts'

/** Maximum number of requests of one process that wait for events of one organization. */
export const waitersPerOrganization = accountLimits.waiting_event_requests_per_organization

/** A request that waits for events of one organization. It holds no database connection. */
export interface Waiter {
  /**
   * Resolves when events were numbered since the last call, or after `most` milliseconds. A notification may be missed
   * while the listener is disconnected. So it also resolves when the listener is connected again. Returns false if
   * waiting makes no sense any more, because the client has disconnected or the process closes.
   */
  readonly wait: (most: number) => Promise<boolean>
  readonly leave: () => void
}

export interface Waiters {
  /** Adds a waiter. Returns undefined if the organization has the maximum number of waiters. `onGone` reports that the client has disconnected. */
  readonly join: (organization_id: string, onGone: (leave: () => void) => void) => Waiter | undefined
  /** Number of requests that wait now. */
  readonly count: () => number
  /** Ends the waiting of all requests. */
  readonly close: () => void
}

/** Opens the waiters of this process. */
export const openWaiters = (numbered: Pick<Numbered, 'subscribe'>): Waiters => {
  const waiting = new Map<string, Set<() => void>>()
  const closing = new AbortController()

  return {
    join: (organization_id, onGone) => {
      const rings = waiting.get(organization_id) ?? new Set()
      if (rings.size >= waitersPerOrganization) return undefined
      let rung = false
      let left = false
      let wake = () => {}
      const ring = () => {
        rung = true
        wake()
      }
      waiting.set(organization_id, rings.add(ring))
      const unsubscribe = numbered.subscribe(organization_id, ring)
      const leave = () => {
        left = true
        unsubscribe()
        rings.delete(ring)
        if (rings.size === 0 && waiting.get(organization_id) === rings) waiting.delete(organization_id)
        wake()
      }
      onGone(leave)
      return {
        wait: async (most) => {
          if (!rung && !left && !closing.signal.aborted)
            await new Promise<void>((resolve) => {
              const timer = setTimeout(resolve, most)
              wake = () => {
                clearTimeout(timer)
                resolve()
              }
            })
          rung = false
          return !left && !closing.signal.aborted
        },
        leave,
      }
    },
    count: () => [...waiting.values()].reduce((sum, rings) => sum + rings.size, 0),
    close: () => {
      closing.abort()
      waiting.forEach((rings) => rings.forEach((ring) => ring()))
    },
  }
}
