import { accountLimits } from '@bursar/contract'
import type { Secret } from '../../kernel/secrets.ts'
import type { Log } from '../log.ts'
import { openListener, type Listener } from '../postgres/listening.ts'
import { numberedChannel } from './outbox.sql.ts'

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
  readonly close: () => Promise<void>
}

/** Opens the listener of this process for numbered events. It connects with the first waiter, and serves all of them. */
export const openWaiters = ({ url, timeout_ms, log }: { url: Secret; timeout_ms: number; log: Log }): Waiters => {
  const waiting = new Map<string, Set<() => void>>()
  const closing = new AbortController()
  let listener: Listener | undefined
  const wakeAll = () => waiting.forEach((rings) => rings.forEach((ring) => ring()))

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
      listener ??= openListener({
        url,
        timeout_ms,
        log,
        channel: numberedChannel,
        onNotification: (payload) => waiting.get(payload)?.forEach((wake) => wake()),
        // Events may have been numbered while no connection listened. The waiters look again.
        onConnected: wakeAll,
      })
      const leave = () => {
        left = true
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
    close: async () => {
      closing.abort()
      wakeAll()
      await listener?.close()
    },
  }
}
