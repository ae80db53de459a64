import { useSyncExternalStore } from 'react'

/** A value that components follow. */
export const store = <T>(initial: T) => {
  let value = initial
  const listeners = new Set<() => void>()
  const subscribe = (listener: () => void) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  return {
    get: () => value,
    set: (next: T) => {
      value = next
      for (const listener of listeners) listener()
    },
    use: (): T => useSyncExternalStore(subscribe, () => value),
  }
}

/** The reason why requests get no answer: no network, an ended session, a sign-in that is too old, or the rate limit until a time. */
export type Obstacle = { readonly kind: 'offline' | 'lapsed' | 'stale' } | { readonly kind: 'limited'; readonly until: number }
export const obstacle = store<Obstacle | null>(null)
