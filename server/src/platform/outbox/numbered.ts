import type { Secret } from '../../kernel/secrets.ts'
import type { Log } from '../log.ts'
import { openListener, type Listener } from '../postgres/listening.ts'
import { numberedChannel } from './outbox.sql.ts'

/** The notifications about numbered events that this process receives. */
export interface Numbered {
  /**
   * Calls `ring` whenever events of the organization were numbered. Also calls it after the connection was lost and
   * restored, because notifications were missed meanwhile. Returns a function that ends the subscription.
   */
  readonly subscribe: (organization_id: string, ring: () => void) => () => void
  readonly close: () => Promise<void>
}

/** Opens the listener of this process for numbered events. It connects with the first subscriber, and serves all of them. */
export const openNumbered = ({ url, timeout_ms, log }: { url: Secret; timeout_ms: number; log: Log }): Numbered => {
  const subscribers = new Map<string, Set<() => void>>()
  let listener: Listener | undefined
  return {
    subscribe: (organization_id, ring) => {
      const rings = subscribers.get(organization_id) ?? new Set()
      // A function of its own, so that two subscriptions with the same function are independent.
      const own = () => ring()
      subscribers.set(organization_id, rings.add(own))
      listener ??= openListener({
        url,
        timeout_ms,
        log,
        channel: numberedChannel,
        onNotification: (payload) => subscribers.get(payload)?.forEach((wake) => wake()),
        // Events may have been numbered while no connection listened. The subscribers look again.
        onConnected: () => subscribers.forEach((all) => all.forEach((wake) => wake())),
      })
      return () => {
        rings.delete(own)
        if (rings.size === 0 && subscribers.get(organization_id) === rings) subscribers.delete(organization_id)
      }
    },
    close: async () => listener?.close(),
  }
}
