import { setTimeout } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { newId } from '../../../kernel/ids.ts'
import { EventStoreTableMissing, EventStoreUnavailable, type EventServer, type EventStore } from '../../../gateways/event-store/event-store.ts'
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
  noteBehind,
  openChunk,
  releaseCopy,
  type Chunk,
  type Copy,
} from './copies.sql.ts'
import { monthOf, propertiesOf } from '../calc/copied-rows.ts'
import { awaitReplication, countChunk, countRows, createTables, deleteChunk, dropTables, lastChunk, tablesOf } from './store.sql.ts'

/** Most events and batches of one chunk. The last batch may exceed the number of events. */
const chunkSize = { events: 10_000, rows: 2000 } as const
/** Time after which the task ends. The next run continues. */
const timeSlice = 10 * seconds
const questionTimeout = 20 * seconds
/** Longest time in which a server must receive what the others have. */
const replicationTimeout = 5 * seconds
const pollTime = 20

class CopyLost extends Error {}

/** The copy under the lease of this run. */
interface Run {
  readonly deps: Deps
  readonly store: EventStore
  readonly hold: <T>(work: (tx: Tx, copy: Copy) => Promise<T>) => Promise<T>
}

/** A run that copies chunks. */
interface Copying extends Run {
  readonly copy: Copy
  /** The server that takes the chunks. The others receive them from it. */
  readonly writer: EventServer
  /** The servers that may miss chunks which have ended. */
  readonly behind: Set<string>
}

/**
 * Copies new usage events to the event store, in chunks. A chunk is noted before it is inserted. After a crash, the store is asked whether it
 * has the chunk: all of it, nothing, or a part, which is deleted first. So each event is in the copy once. If the store has several servers,
 * a chunk ends when each of them has it, or is noted as behind.
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
    for (const server of store.servers)
      for (const statement of createTables(copy.id, store.servers.length > 1 ? new URL(server.address).host : undefined)) await server.run(statement)
    await hold((tx) => markListing(tx, copy.id))
    return
  }
  if (copy.listed !== 'everything') {
    if (!(await hasSettled(deps.db, copy.listing_after))) return
    const elapsed = stopwatch()
    while (elapsed() < timeSlice) if (!(await hold((tx, held) => listNext(tx, held, 10_000)))) return
    return
  }
  const behind = new Set(copy.behind)
  try {
    const { writer, last } = await findWriter(run, copy, behind)
    // A database that was restored from a backup is behind its copy.
    if (last > Number(copy.chunk)) return await restart(run, copy)
    const copying = { ...run, copy, writer, behind }
    if (await copyChunks(copying)) await readmit(copying)
  } catch (error) {
    if (!(error instanceof EventStoreTableMissing)) throw error
    // A server has lost the copy.
    await restart(run, copy)
  }
}

/** Copies chunks for a time. Returns false if the store needs time first, or if the copy has ended. */
const copyChunks = async (run: Copying): Promise<boolean> => {
  const { deps, hold } = run
  const elapsed = stopwatch()
  while (elapsed() < timeSlice) {
    const open = await openChunk(deps.db)
    if (open) {
      if (!(await settle(run, open))) return false
      continue
    }
    const begun = await hold((tx, held) => beginChunk(tx, held, chunkSize))
    if (!begun) return true
    await insertEvents(run, begun)
    await finish(run, begun.chunk, begun.events)
  }
  return true
}

/**
 * Finds the server that takes the next chunks, and the number of its last chunk. The server has every chunk that has ended. If a chunk is open,
 * another server may have accepted it, so this one must have received everything. Otherwise the chunk would be inserted twice.
 */
const findWriter = async ({ deps, store }: Run, copy: Copy, behind: ReadonlySet<string>): Promise<{ writer: EventServer; last: number }> => {
  const isOpen = store.servers.length > 1 && (await openChunk(deps.db)) !== undefined
  let failure: unknown = new EventStoreUnavailable('No server has the whole copy.')
  for (const writer of store.servers) {
    if (behind.has(writer.address)) continue
    try {
      if (isOpen) for (const table of Object.values(tablesOf(copy.id))) await writer.wait(awaitReplication(table), `${table}-replication`, replicationTimeout)
      const { rows } = await writer.ask(lastChunk(copy.id), questionTimeout)
      return { writer, last: Number(rows[0]![0]) }
    } catch (error) {
      if (error instanceof EventStoreTableMissing || !(error instanceof EventStoreUnavailable)) throw error
      failure = error
    }
  }
  throw failure
}

/**
 * Waits until a server has as many rows as the writer. Returns false if it does not have them in time. Nothing is inserted meanwhile, and no
 * server has rows that the writer misses. So servers with as many rows have the same rows.
 */
const hasAll = async ({ copy, writer }: Copying, server: EventServer): Promise<boolean> => {
  const counts = async (one: EventServer) => (await one.ask(countRows(copy.id), replicationTimeout)).rows
  const wanted = await counts(writer)
  const elapsed = stopwatch()
  try {
    while (!isDeepStrictEqual(await counts(server), wanted)) {
      if (elapsed() > replicationTimeout) return false
      await setTimeout(pollTime)
    }
    return true
  } catch (error) {
    if (error instanceof EventStoreTableMissing || !(error instanceof EventStoreUnavailable)) throw error
    return false
  }
}

/** Notes the servers that do not have everything. Returns false if the list has not changed. */
const findBehind = async (run: Copying): Promise<boolean> => {
  const { store, writer, behind } = run
  const before = behind.size
  for (const server of store.servers) if (server !== writer && !behind.has(server.address) && !(await hasAll(run, server))) behind.add(server.address)
  return behind.size > before
}

/** Notes which servers are no longer behind. Requests ask them again. */
const readmit = async (run: Copying): Promise<void> => {
  const { store, copy, behind, hold } = run
  for (const server of store.servers)
    if (behind.has(server.address) && (await hasAll(run, server))) {
      behind.delete(server.address)
      await hold((tx) => noteBehind(tx, copy.id, [...behind]))
    }
}

/** Ends the copy. The next run begins another one. */
const restart = async ({ deps, store, hold }: Run, copy: Copy): Promise<void> => {
  deps.platform.log.warn('usage_copy_restarted', { address: copy.store })
  await hold((tx) => deleteCopy(tx, copy.id))
  if (copy.store !== store.address) return
  for (const server of store.servers) for (const statement of dropTables(copy.id)) await server.run(statement)
}

/** Completes a chunk whose insert may have failed. Returns false if the store needs time first, or if the copy has ended. */
const settle = async (run: Copying, { chunk, events }: Chunk): Promise<boolean> => {
  const { store, copy, writer } = run
  const found = Number((await writer.ask(countChunk(copy.id, chunk), questionTimeout)).rows[0]![0])
  if (found !== 0 && found !== events) {
    // Servers delete at different times, so the number of their rows would not show which rows they have.
    if (store.servers.length > 1) await restart(run, copy)
    else await writer.run(deleteChunk(copy.id, chunk))
    return false
  }
  if (found === 0) await insertEvents(run, { chunk, events })
  await finish(run, chunk, events)
  return true
}

const insertEvents = async (run: Copying, chunk: Chunk): Promise<void> => {
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
  const { events } = tablesOf(run.copy.id)
  // The store refuses a second insert of the same name while the first is running.
  if (rows.length > 0) await run.writer.insert(events, rows, `${events}-${chunk.chunk}`)
}

/** Copies the corrections of a chunk, and notes the chunk as copied: in the store first. */
const finish = async (run: Copying, chunk: string, events: number): Promise<void> => {
  const { copy, writer, behind } = run
  const tables = tablesOf(copy.id)
  const corrected = (await loadCorrections(run.deps.db, chunk)).map(({ organization_id, id }) => ({ organization: organization_id, id }))
  // A correction that is in the store twice excludes its event like one that is there once.
  if (corrected.length > 0) await writer.insert(tables.corrected, corrected, `${tables.corrected}-${chunk}`)
  await writer.insert(tables.chunks, [{ number: Number(chunk), events }], `${tables.chunks}-${chunk}`)
  const hasChanged = await findBehind(run)
  await run.hold(async (tx) => {
    await endChunk(tx, chunk)
    if (hasChanged) await noteBehind(tx, copy.id, [...behind])
  })
}
