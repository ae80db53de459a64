import { seconds, stopwatch } from '../clock.ts'
import type { Transact } from '../postgres/postgres.ts'
import type { JobName, NewPayload, Payload } from './catalogue.ts'
import { enqueueOrReplace } from './enqueue.sql.ts'

/** Maximum milliseconds for which a bulk job starts new batches. It then continues in another job and frees its slot. */
const slice = 1 * seconds

/** Returns a function that is true once the job has used up its slice. */
export const openSlice = (): (() => boolean) => {
  const elapsed = stopwatch()
  return () => elapsed() >= slice
}

type Walking = { [N in JobName]: Payload<N> extends { after: string | null; until: string | null } ? N : never }[JobName]

/**
 * Walks through rows in the order of their ids, one slice per job. `step` processes the next batch after an id, and
 * returns the last id of a full batch, or null at the end of the list. The next job has the key of the container and
 * the position `after`.
 *
 * The container may change during the walk. The change then enqueued a job of its own, which starts at the beginning.
 * The walk replaces that job by one full round: to the end of the list, and from its beginning to `until`. Every row is
 * visited after the change. A container that changes all the time cannot keep the walk at the beginning of its list.
 */
export const walk = async <N extends Walking>(
  transact: Transact,
  name: N,
  payload: Payload<N>,
  step: (after: string | null) => Promise<string | null>,
  isOver: () => boolean = openSlice(),
): Promise<void> => {
  const { until } = payload
  let { after } = payload
  for (;;) {
    const isSecondPart = until !== null && (after === null || after < until)
    const last = await step(after)
    if (last === null && (until === null || isSecondPart)) return
    if (last !== null && isSecondPart && last >= until) return
    after = last
    if (isOver()) break
  }
  const next = (end: string | null) => ({ ...payload, after, until: end }) as unknown as NewPayload<N>
  // A transaction of its own, which holds no other lock while it waits for the row of the job.
  await transact(async (tx) => {
    if (await enqueueOrReplace(tx, name, next(until))) await enqueueOrReplace(tx, name, next(after))
  })
}
