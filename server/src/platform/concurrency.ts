import { TooManyRequests } from '@bursar/contract'
import { seconds } from './clock.ts'

/** Limits the concurrent work of each key in this process. */
export interface ConcurrencyLimit {
  /**
   * Runs the work when each of its keys has a free place. Waits in sequence for a place, and throws `TooManyRequests` if it waits too
   * long, or if too many callers wait already. The waiting caller holds no database connection.
   */
  readonly run: <T>(keys: readonly string[], work: () => Promise<T>) => Promise<T>
}

interface Place {
  taken: number
  readonly waiting: Set<() => void>
}

/** Opens a limit. At most `at_once` callers of a key work, and at most `waiting` wait. `what` names the work in errors. */
export const openConcurrencyLimit = (options: {
  readonly what: string
  readonly at_once: number
  readonly waiting: number
  readonly timeout_ms?: number
}): ConcurrencyLimit => {
  const { what, at_once, waiting: mostWaiting, timeout_ms = 5 * seconds } = options
  const places = new Map<string, Place>()

  const refusal = () =>
    new TooManyRequests(`At most ${at_once} ${what} run at the same time, and too many others wait. Send fewer at once, and try again.`, { 'retry-after': '1' })

  const take = async (key: string): Promise<void> => {
    const place = places.get(key) ?? { taken: 0, waiting: new Set() }
    places.set(key, place)
    if (place.taken < at_once) {
      place.taken++
      return
    }
    if (place.waiting.size >= mostWaiting) throw refusal()
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        place.waiting.delete(next)
        reject(refusal())
      }, timeout_ms)
      place.waiting.add(next)
    })
  }

  const free = (key: string): void => {
    const place = places.get(key)!
    const [next] = place.waiting
    if (next) {
      // The place goes to the next caller, so the number of taken places stays.
      place.waiting.delete(next)
      next()
    } else if (--place.taken === 0) places.delete(key)
  }

  return {
    run: async (keys, work) => {
      const taken: string[] = []
      try {
        // All callers take their places in the same sequence, so two callers cannot wait for each other.
        for (const key of [...new Set(keys)].toSorted()) {
          await take(key)
          taken.push(key)
        }
        return await work()
      } finally {
        taken.forEach(free)
      }
    },
  }
}
