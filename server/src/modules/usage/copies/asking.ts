import { EventStoreSilent, EventStoreUnavailable, type EventServer, type EventStore, type EventStoreAnswer } from '../../../gateways/event-store/event-store.ts'
import { seconds, stopwatch } from '../../../platform/clock.ts'
import type { Log } from '../../../platform/log.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { findUncopied, type Uncopied } from './copies.sql.ts'
import { countInexact, NotAskable, type Selection } from './questions.sql.ts'

/** The copy of the events, and where its failures are logged. */
export interface CopyReader {
  readonly store: EventStore
  readonly log: Log
}

/** Returns the reader of a request. Undefined if the deployment has no copy. */
export const readerOf = ({
  eventStore,
  platform,
}: {
  readonly eventStore: EventStore | undefined
  readonly platform: { readonly log: Log }
}): CopyReader | undefined => eventStore && { store: eventStore, log: platform.log }

/** If the store does not answer all questions of a request in this time, PostgreSQL answers. */
const answerTime = 5 * seconds
/** Time for which a silent store is not asked. It is longer than `answerTime`, so that one request at a time waits for the store. */
const pauseTime = 10 * seconds

/** The servers of the store that were silent, with the time since then. */
const silent = new WeakMap<EventServer, () => number>()

/** True if the server was silent a short time ago. After the pause, only the first request asks it. The others continue without the server. */
const isPaused = (server: EventServer): boolean => {
  const since = silent.get(server)
  if (since === undefined) return false
  if (since() < pauseTime) return true
  silent.set(server, stopwatch())
  return false
}

/**
 * Asks the copy, and adds the events that it misses. Returns undefined if PostgreSQL must answer: the copy misses too much, a number has too many
 * digits, or the store fails. The list of uncopied batches is read first, and the question excludes these batches. So no event is counted twice.
 * A server that may miss other batches is not asked.
 */
export const fromCopy = async <T>(
  db: Db,
  { store, log }: CopyReader,
  selection: Selection,
  work: (uncopied: Uncopied, ask: (question: string) => Promise<EventStoreAnswer>) => Promise<T>,
): Promise<T | undefined> => {
  const uncopied = await findUncopied(db, store.address, selection.organization_ids)
  if (!uncopied) return undefined
  const elapsed = stopwatch()
  for (const server of store.servers) {
    if (uncopied.behind.includes(server.address) || isPaused(server)) continue
    let answered = false
    const ask = async (question: string) => {
      const left = Math.ceil(answerTime - elapsed())
      if (left <= 0) throw new EventStoreUnavailable('The questions of this request took too long.')
      const answer = await server.ask(question, left)
      answered = true
      silent.delete(server)
      return answer
    }
    try {
      if (Number((await ask(countInexact(uncopied, selection))).rows[0]![0]) > 0) return undefined
      return await work(uncopied, ask)
    } catch (error) {
      if (error instanceof NotAskable) return undefined
      if (!(error instanceof EventStoreUnavailable)) throw error
      // Later questions have less time. Their failure does not show that the server is silent.
      if (error instanceof EventStoreSilent && !answered) silent.set(server, stopwatch())
      log.warn('event_store_unavailable', { error })
      // The next server gets at least half of the time. Otherwise it would seem to be silent too.
      if (!(error instanceof EventStoreSilent) || elapsed() > answerTime / 2) return undefined
    }
  }
  return undefined
}
