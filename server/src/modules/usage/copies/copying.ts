import { newId } from '../../../kernel/ids.ts'
import { EventStoreTableMissing, EventStoreUnavailable, type EventStore } from '../../../gateways/event-store/event-store.ts'
import { seconds, stopwatch } from '../../../platform/clock.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import {
  beginChunk,
  claimCopy,
  clearListed,
  deleteCopy,
  endChunk,
  findCopy,
  hasSettled,
  holdCopy,
  insertCopy,
  listNext,
  loadCorrections,
  loadEvents,
  markListing,
  openChunk,
  releaseCopy,
  type Chunk,
  type Copy,
} from './copies.sql.ts'
import { monthOf, propertiesOf } from '../calc/copied-rows.ts'
import { countChunk, createTables, deleteChunk, dropTables, lastChunk, tablesOf } from './store.sql.ts'

/** Most events and batches of one chunk. The last batch may exceed the number of events. */
const chunkSize = { events: 10_000, rows: 2000 } as const
/** Time after which the task ends. The next run continues. */
const timeSlice = 10 * seconds
const questionTimeout = 20 * seconds

class CopyLost extends Error {}

/** The copy under the lease of this run. */
interface Run {
  readonly deps: Deps
  readonly store: EventStore
  readonly hold: <T>(work: (tx: Tx, copy: Copy) => Promise<T>) => Promise<T>
}

/**
 * Copies new usage events to the event store, in chunks. A chunk is noted before it is inserted. After a crash, the store is asked whether it
 * has the chunk: all of it, nothing, or a part, which is deleted first. So each event is in the copy once.
 */
export const copyUsage = async (deps: Deps): Promise<void> => {
  const store = deps.gateways.eventStore
  if (!store) return
  if (!(await findCopy(deps.db))) {
    while (await deps.transact((tx) => clearListed(tx, 10_000)));
    await deps.transact((tx) => insertCopy(tx, newId(tx.clock.wall()), store.address))
  }
  const token = newId(deps.platform.clock.wall())
  const copy = await deps.transact((tx) => claimCopy(tx, token))
  if (!copy) return
  const hold: Run['hold'] = (work) =>
    deps.transact(async (tx) => {
      const held = await holdCopy(tx, token)
      if (!held) throw new CopyLost()
      return work(tx, held)
    })
  try {
    await advance({ deps, store, hold }, copy)
    await deps.transact((tx) => releaseCopy(tx, token))
  } catch (error) {
    if (error instanceof CopyLost) return
    if (!(error instanceof EventStoreUnavailable)) throw error
    deps.platform.log.warn('event_store_unavailable', { error })
  }
}

const advance = async (run: Run, copy: Copy): Promise<void> => {
  const { deps, store, hold } = run
  if (copy.store !== store.address) return restart(run, copy)
  if (copy.listing_after === null) {
    for (const statement of createTables(copy.id)) await store.run(statement)
    await hold((tx) => markListing(tx, copy.id))
    return
  }
  if (copy.listed !== 'everything') {
    if (!(await hasSettled(deps.db, copy.listing_after))) return
    const elapsed = stopwatch()
    while (elapsed() < timeSlice) if (!(await hold((tx, held) => listNext(tx, held, 10_000)))) return
    return
  }
  // A database that was restored from a backup is behind its copy, or the store has lost the copy. Both need a new copy.
  const last = await store.ask(lastChunk(copy.id), questionTimeout).catch((error: unknown) => {
    if (error instanceof EventStoreTableMissing) return undefined
    throw error
  })
  if (!last || Number(last.rows[0]![0]) > Number(copy.chunk)) return restart(run, copy)
  const elapsed = stopwatch()
  while (elapsed() < timeSlice) {
    const open = await openChunk(deps.db)
    if (open) {
      if (!(await settle(run, copy, open))) return
      continue
    }
    const begun = await hold((tx, held) => beginChunk(tx, held, chunkSize))
    if (!begun) return
    await insertEvents(run, copy, begun)
    await finish(run, copy, begun.chunk, begun.events)
  }
}

/** Ends the copy. The next run begins another one. */
const restart = async ({ deps, store, hold }: Run, copy: Copy): Promise<void> => {
  deps.platform.log.warn('usage_copy_restarted', { address: copy.store })
  await hold((tx) => deleteCopy(tx, copy.id))
  if (copy.store === store.address) for (const statement of dropTables(copy.id)) await store.run(statement)
}

/** Completes a chunk whose insert may have failed. Returns false if the store needs time first. */
const settle = async (run: Run, copy: Copy, { chunk, events }: Chunk): Promise<boolean> => {
  const found = Number((await run.store.ask(countChunk(copy.id, chunk), questionTimeout)).rows[0]![0])
  if (found !== 0 && found !== events) {
    await run.store.run(deleteChunk(copy.id, chunk))
    return false
  }
  if (found === 0) await insertEvents(run, copy, { chunk, events })
  await finish(run, copy, chunk, events)
  return true
}

const insertEvents = async (run: Run, copy: Copy, chunk: Chunk): Promise<void> => {
  const rows = (await loadEvents(run.deps.db, chunk)).map(({ organization_id, batch_id, subject_id, at, ...event }) => ({
    ...event,
    organization: organization_id,
    month: monthOf(event.id),
    chunk: Number(chunk.chunk),
    batch: batch_id,
    subject: subject_id,
    at: Number(at),
    ...propertiesOf(event.metadata),
  }))
  const { events } = tablesOf(copy.id)
  // The store refuses a second insert of the same name while the first is running.
  if (rows.length > 0) await run.store.insert(events, rows, `${events}-${chunk.chunk}`)
}

/** Copies the corrections of a chunk, and notes the chunk as copied: in the store first. */
const finish = async (run: Run, copy: Copy, chunk: string, events: number): Promise<void> => {
  const tables = tablesOf(copy.id)
  const corrected = (await loadCorrections(run.deps.db, chunk)).map(({ organization_id, id }) => ({ organization: organization_id, id }))
  // A correction that is in the store twice excludes its event like one that is there once.
  if (corrected.length > 0) await run.store.insert(tables.corrected, corrected, `${tables.corrected}-${chunk}`)
  await run.store.insert(tables.chunks, [{ number: Number(chunk), events }], `${tables.chunks}-${chunk}`)
  await run.hold((tx) => endChunk(tx, chunk))
}
