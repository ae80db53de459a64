import { setImmediate } from 'node:timers/promises'
import { accountLimits, InvalidRequest, requestLimits, type EventCreate, type Invalid } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { later, minutes } from '../../../platform/clock.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { countQuarters, countUniques } from '../counting/counting.ts'
import { metersToCount } from '../counting/counting.sql.ts'
import { storeMetadata, type ExactNumbers } from '../calc/metadata.ts'
import { deepest, depthsOf, type Parent } from '../calc/parents.ts'
import { inParts, perStatement } from '../calc/parts.ts'
import { duringStatement } from './during-statement.ts'
import {
  countTypes,
  countWaiting,
  findParents,
  holdParents,
  insertBatch,
  insertEvents,
  insertTexts,
  markFirstEvents,
  takeKeys,
  writeColumns,
  type NameCount,
  type NewEvent,
  type StoredParent,
} from './ingest.sql.ts'
import { reservationKey, settleReservations, type Settling } from '../records/reservations.sql.ts'
import { countChildren, linkChildren } from './parents.sql.ts'
import { compareTexts, placeOf, resolvePeople, type Person, type Sent } from './people.ts'

/** Clocks of clients may be ahead by this time. */
const clockSkew = 1 * minutes
/** Events that are prepared before other requests get a turn. */
const perTurn = 1000

export const throwAll = (problems: readonly Invalid[]): void => {
  const most = requestLimits.reported_problems
  if (problems.length > 0) throw new InvalidRequest(problems.slice(0, most), Math.max(0, problems.length - most))
}

type Chosen = { readonly organization_id: string } | { readonly problem: Invalid }
const choose = (scope: TenantScope, given: string | undefined): Chosen => {
  try {
    return { organization_id: chooseOrganization(scope, given) }
  } catch (error) {
    if (!(error instanceof InvalidRequest)) throw error
    return { problem: error.problems[0]! }
  }
}

/** Counts the events of each organization. Rejects events of organizations outside the scope, and callers who may not send events. */
export const countByOrganization = (scope: TenantScope, events: readonly EventCreate[]): Map<string, number> => {
  const problems: Invalid[] = []
  const counts = new Map<string, number>()
  // Most events name the same organization, so each organization is checked once.
  const chosen = new Map<string | undefined, Chosen>()
  for (const [at, event] of events.entries()) {
    const given = event.organization_id ?? undefined
    let choice = chosen.get(given)
    if (!choice) chosen.set(given, (choice = choose(scope, given)))
    if ('problem' in choice) problems.push({ ...choice.problem, loc: placeOf(['events', at], 'organization_id') })
    else counts.set(choice.organization_id, (counts.get(choice.organization_id) ?? 0) + 1)
  }
  throwAll(problems)
  for (const organization_id of counts.keys()) permit(scope, organization_id, 'events:ingest')
  return counts
}

/** Groups the events by organization. The caller has checked the organizations with `countByOrganization`. */
const groupByOrganization = (scope: TenantScope, events: readonly EventCreate[], organization_ids: readonly string[]): Map<string, Sent[]> => {
  const groups = new Map(organization_ids.map((organization_id): [string, Sent[]] => [organization_id, []]))
  const [only] = groups.values()
  for (const [at, event] of events.entries())
    (groups.size === 1 ? only! : groups.get(chooseOrganization(scope, event.organization_id ?? undefined))!).push({ path: ['events', at], event })
  return groups
}

/** Stores all events of a request, or none. Events whose external id is known are duplicates and change nothing. */
export const ingestEvents = async (
  tx: Tx,
  scope: TenantScope,
  events: readonly EventCreate[],
  numbers: ExactNumbers,
  isGone?: () => boolean,
): Promise<{ inserted: number; duplicates: number }> => {
  let inserted = 0
  // The order prevents deadlocks between requests for the same organizations.
  const organization_ids = [...countByOrganization(scope, events).keys()].toSorted()
  for (const [organization_id, sent] of groupByOrganization(scope, events, organization_ids))
    inserted += (await ingestInto(tx, scope, organization_id, sent, numbers, isGone)).length
  return { inserted, duplicates: events.length - inserted }
}

/** An event that is ready to be inserted. Its row has no parent yet. */
interface Prepared {
  readonly path: Sent['path']
  readonly row: NewEvent
  readonly person: Person
  readonly parent: string | null
  readonly texts: { readonly prompt: string | null; readonly response: string | null }
}

/** Stores events of one organization. Returns the path and the id of each event that is no duplicate. `isGone` is true if the client has left. */
export const ingestInto = async (
  tx: Tx,
  scope: TenantScope,
  organization_id: string,
  sent: readonly Sent[],
  numbers: ExactNumbers,
  isGone?: () => boolean,
): Promise<{ readonly path: Sent['path']; readonly id: string }[]> => {
  const problems: Invalid[] = []
  const people = await resolvePeople(tx, scope, organization_id, sent, problems)
  throwAll(problems)
  // The ids of the batch and of its events begin with this millisecond, so that the events of a batch are found by their key.
  const wall = tx.clock.wall()
  const prepared = await prepare(wall, sent, people, numbers, problems)
  throwAll(problems)

  const hasKeys = prepared.some(({ row }) => row.external_id !== null)
  const hasParents = prepared.some(({ parent }) => parent !== null)
  // The lock is taken late, because other requests of the organization may wait for it. Everything about parents is read after it.
  if (hasParents || hasKeys) await holdParents(tx, organization_id, hasParents ? 'exclusive' : 'shared')
  // Most requests have no duplicates, so the process writes all events while the database looks for duplicates.
  const ahead = hasParents || prepared.length > perStatement ? [] : prepared.map(({ row }) => row)
  const [{ taken, awaits }, written] = await duringStatement(takeAllKeys(tx, organization_id, prepared), () =>
    ahead.length > 0 ? writeColumns(ahead) : undefined,
  )
  const fresh = taken === 'all' ? prepared : prepared.filter(({ row }) => row.external_id === null || taken.has(row.id))
  if (fresh.length === 0) return []

  const rows = ahead.length === fresh.length ? ahead : await withParents(tx, organization_id, fresh)
  // No meter may be made between this statement and the commit: its backfill would miss the events of this batch.
  const meters = await metersToCount(tx, organization_id)
  const batch_id = newId(wall)
  const insertAll = async () => {
    if (rows === ahead && written) return insertEvents(tx, organization_id, batch_id, written)
    for (const part of inParts(rows)) await insertEvents(tx, organization_id, batch_id, writeColumns(part))
  }
  await duringStatement(insertAll(), () => countQuarters(tx, organization_id, meters, rows, customersOf(fresh), { isGone }))
  await countUniques(tx, organization_id, meters, rows)
  for (const part of inParts(rows.flatMap(({ parent_id }) => parent_id ?? []))) await countChildren(tx, organization_id, part)
  const newNames = await insertBatch(tx, organization_id, batch_id, rows.length, countNames(tx, rows))
  if (newNames.length > 0) await refuseManyNames(tx, organization_id, fresh, newNames)
  const texts = fresh.flatMap(({ row, texts: { prompt, response } }) =>
    prompt === null && response === null ? [] : [{ id: row.id, subject_id: row.subject_id, prompt, response }],
  )
  for (const part of inParts(texts)) await insertTexts(tx, organization_id, part)
  await markFirst(tx, organization_id, fresh)
  if (awaits) await adoptChildren(tx, organization_id, fresh)
  await settleReservations(tx, organization_id, fresh.flatMap(settlingOf))
  return fresh.map(({ path, row: { id } }) => ({ path, id }))
}

/** Records the external ids of a request. Returns the ids of the events whose external id is new, or `all` if each is new. */
const takeAllKeys = async (tx: Tx, organization_id: string, prepared: readonly Prepared[]): Promise<{ taken: 'all' | Set<string>; awaits: boolean }> => {
  const ids = new Map<string, string>()
  for (const { row } of prepared) if (row.external_id !== null) ids.set(row.external_id, row.id)
  // Sorted by their code units, as by `compareTexts`. A function that compares would take several times longer for a long list.
  const external_ids = [...ids.keys()].toSorted()
  let awaits = false
  let isAll = true
  const taken = new Set<string>()
  for (const part of inParts(external_ids)) {
    const keys = part.map((external_id) => ({ external_id, id: ids.get(external_id)! }))
    const found = await takeKeys(tx, organization_id, keys)
    awaits ||= found.awaits
    isAll &&= found.taken === 'all'
    for (const id of found.taken === 'all' ? keys.map((key) => key.id) : found.taken) taken.add(id)
  }
  return { taken: isAll ? 'all' : taken, awaits }
}

/** Turns the events into rows. Drops events that repeat an external id of this request. */
const prepare = async (wall: Date, sent: readonly Sent[], people: readonly Person[], numbers: ExactNumbers, problems: Invalid[]): Promise<Prepared[]> => {
  const seen = new Set<string>()
  const prepared: Prepared[] = []
  for (const [index, { path, event }] of sent.entries()) {
    if (index % perTurn === perTurn - 1) await setImmediate()
    const person = people[index]!
    const now = person.now_at ?? wall
    if (event.timestamp !== undefined && event.timestamp > later(now, clockSkew))
      problems.push({
        loc: placeOf(path, 'timestamp'),
        msg: `Expected a time that is not in the future. The time of the customer is ${now.toISOString()}.`,
        type: 'value_error',
        input: event.timestamp.toISOString(),
      })
    const { metadata, ...texts } = storeMetadata(event.metadata ?? {}, path, numbers, problems)
    const external_id = event.external_id ?? null
    if (external_id !== null && seen.has(external_id)) continue
    if (external_id !== null) seen.add(external_id)
    prepared.push({
      path,
      row: {
        id: newId(wall),
        subject_id: person.subject_id,
        member_ref: person.member_ref,
        timestamp: event.timestamp ?? now,
        name: event.name,
        source: 'user',
        external_id,
        metadata,
        parent_id: null,
        awaited_parent: null,
        depth: 0,
      },
      person,
      parent: event.parent_id ?? null,
      texts,
    })
  }
  return prepared
}

const misplaced = (path: Sent['path'], why: 'cycle' | 'depth', input: string | null): InvalidRequest =>
  new InvalidRequest({
    loc: placeOf(path, 'parent_id'),
    msg: why === 'cycle' ? 'An event cannot be its own ancestor.' : `An event and its descendants have at most ${deepest} ancestors.`,
    type: 'value_error',
    input,
  })

/** Finds the parents of new events: in the request, in the database, or not yet. Rejects cycles and trees that are too deep. */
const withParents = async (tx: Tx, organization_id: string, fresh: readonly Prepared[]): Promise<NewEvent[]> => {
  const refs = new Set(fresh.flatMap(({ parent }) => parent ?? []))
  if (refs.size === 0) return fresh.map(({ row }) => row)
  const own = new Map(fresh.flatMap(({ row }, index) => (row.external_id === null ? [] : [[row.external_id, index] as const])))
  const stored = new Map<string, StoredParent>()
  for (const part of inParts([...refs].filter((ref) => !own.has(ref))))
    for (const [ref, parent] of await findParents(tx, organization_id, part)) stored.set(ref, parent)
  const parents = fresh.map(({ parent }): Parent => (parent === null ? null : (own.get(parent) ?? stored.get(parent) ?? null)))
  const depths = depthsOf(parents)
  if (!Array.isArray(depths)) throw misplaced(fresh[depths.at]!.path, depths.why, fresh[depths.at]!.parent)
  const rows = fresh.map(({ row, parent }, index): NewEvent => {
    const known = parents[index]!
    const parent_id = known === null ? null : typeof known === 'number' ? fresh[known]!.row.id : stored.get(parent!)!.id
    return { ...row, parent_id, awaited_parent: parent_id === null ? parent : null, depth: depths[index]! }
  })
  await refuseManyChildren(tx, organization_id, fresh, rows)
  return rows
}

/** Rejects events if too many would wait for the same parent. The request with the parent must be able to link all of them. */
const refuseManyChildren = async (tx: Tx, organization_id: string, fresh: readonly Prepared[], rows: readonly NewEvent[]): Promise<void> => {
  const most = accountLimits.waiting_children_per_parent_event
  const waiting = new Map<string, number>()
  for (const part of inParts([...new Set(rows.flatMap(({ awaited_parent }) => awaited_parent ?? []))]))
    for (const [parent, count] of await countWaiting(tx, organization_id, part, most)) waiting.set(parent, count)
  for (const [index, { awaited_parent }] of rows.entries()) {
    if (awaited_parent === null) continue
    const count = (waiting.get(awaited_parent) ?? 0) + 1
    waiting.set(awaited_parent, count)
    if (count > most)
      throw new InvalidRequest({
        loc: placeOf(fresh[index]!.path, 'parent_id'),
        msg: `${most} events wait for this parent already, and no more may wait. Send the parent first.`,
        type: 'value_error',
        input: awaited_parent,
      })
  }
}

/** Rejects new names if the organization has too many. Requests at the same time may exceed the number by their own names. */
const refuseManyNames = async (tx: Tx, organization_id: string, fresh: readonly Prepared[], newNames: readonly string[]): Promise<void> => {
  const most = accountLimits.event_names_per_organization
  const names = await countTypes(tx, organization_id)
  if (names <= most) return
  const added = new Set(newNames)
  const { path, row } = fresh.find(({ row: { name } }) => added.has(name))!
  throw new InvalidRequest({
    loc: placeOf(path, 'name'),
    msg: `An organization has at most ${most} names of events. With this request it would have ${names}. Use a known name, and put details into the metadata.`,
    type: 'value_error',
    input: row.name,
  })
}

/** Gives new events to the stored events that waited for them as parents. */
const adoptChildren = async (tx: Tx, organization_id: string, fresh: readonly Prepared[]): Promise<void> => {
  const parents = fresh.flatMap(({ row }) => (row.external_id === null ? [] : [{ external_id: row.external_id, id: row.id }]))
  for (const part of inParts(parents)) {
    const wrong = await linkChildren(tx, organization_id, part)
    if (!wrong) continue
    const parent = fresh.find(({ row }) => row.id === wrong.parent_id)!
    throw misplaced(parent.path, wrong.why, parent.parent)
  }
}

const settlingOf = ({ row: { id, metadata } }: Prepared): Settling[] => {
  const reservation_id = metadata[reservationKey]
  return typeof reservation_id === 'string' ? [{ reservation_id, event_id: id }] : []
}

/** Returns the customers of subjects. */
const customersOf = (fresh: readonly Prepared[]): Map<string, string> =>
  new Map(fresh.flatMap(({ person: { subject_id, customer_id } }) => (customer_id === null ? [] : [[subject_id, customer_id] as const])))

const countNames = (tx: Tx, rows: readonly NewEvent[]): NameCount[] => {
  const counts = new Map<string, { name: string; occurrences: number; first_seen: Date; last_seen: Date }>()
  for (const { name, timestamp } of rows) {
    const count = counts.get(name)
    if (!count) counts.set(name, { name, occurrences: 1, first_seen: timestamp, last_seen: timestamp })
    else {
      count.occurrences++
      if (timestamp < count.first_seen) count.first_seen = timestamp
      if (timestamp > count.last_seen) count.last_seen = timestamp
    }
  }
  return [...counts.values()].map((count) => ({ ...count, type_id: newId(tx.clock.wall()) }))
}

const markFirst = async (tx: Tx, organization_id: string, fresh: readonly Prepared[]): Promise<void> => {
  const firsts = new Map<string, Date>()
  for (const { row, person } of fresh)
    if (person.is_first && person.customer_id !== null && row.timestamp < (firsts.get(person.customer_id) ?? later(row.timestamp, 1)))
      firsts.set(person.customer_id, row.timestamp)
  // Customers are locked in the sequence of their ids, also over several statements.
  for (const part of inParts([...firsts].toSorted(([a], [b]) => compareTexts(a, b))))
    await markFirstEvents(
      tx,
      organization_id,
      part.map(([id, at]) => ({ id, at })),
    )
}
