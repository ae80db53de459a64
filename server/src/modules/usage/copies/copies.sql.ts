import { sql, type RawBuilder } from 'kysely'
import { later, seconds } from '../../../platform/clock.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

/** Time for one step of the copy. After a failed insert, the lease is kept, so that an insert which is still on its way has arrived before the next try. */
export const leaseTime = 60 * seconds

/** The copy of the usage events. */
export interface Copy {
  readonly id: string
  readonly store: string
  readonly listing_after: string | null
  readonly listed: 'nothing' | 'batches' | 'everything'
  readonly chunk: string
  /** The servers of the store that may miss chunks which have ended. */
  readonly behind: readonly string[]
}

const columns = sql`id, store, listing_after::text as listing_after, listed, chunk::text as chunk, behind`

/** Takes the lease of the copy. Returns undefined if another worker has it, or if there is no copy. */
export const claimCopy = async (tx: Tx, token: string): Promise<Copy | undefined> => {
  const now = tx.clock.wall()
  const { rows } = await sql<Copy>`
    update usage_copies set lease_token = ${token}, lease_until = ${later(now, leaseTime)}
    where lease_until is null or lease_until <= ${now} returning ${columns}`.execute(tx.q)
  return rows[0]
}

export const findCopy = async (db: Db): Promise<Copy | undefined> => (await sql<Copy>`select ${columns} from usage_copies`.execute(db.q)).rows[0]

/** Extends the lease and locks the copy. Returns undefined if the lease was lost. */
export const holdCopy = async (tx: Tx, token: string): Promise<Copy | undefined> => {
  const now = tx.clock.wall()
  const { rows } = await sql<Copy>`
    update usage_copies set lease_until = ${later(now, leaseTime)} where lease_token = ${token} and lease_until > ${now} returning ${columns}`.execute(tx.q)
  return rows[0]
}

export const releaseCopy = async (tx: Tx, token: string): Promise<void> => {
  await sql`update usage_copies set lease_token = null, lease_until = null where lease_token = ${token}`.execute(tx.q)
}

/** Begins a copy. Does nothing if there is one. */
export const insertCopy = async (tx: Tx, id: string, store: string): Promise<void> => {
  await sql`insert into usage_copies (id, created_at, store) values (${id}, ${tx.clock.wall()}, ${store}) on conflict do nothing`.execute(tx.q)
}

/** Ends the copy. Nothing is listed for it any more. */
export const deleteCopy = async (tx: Tx, id: string): Promise<void> => {
  await sql`delete from usage_copies where id = ${id}`.execute(tx.q)
}

/** Removes the batches and corrections that were listed for an earlier copy. Returns true if some may be left. */
export const clearListed = async (tx: Tx, limit: number): Promise<boolean> => {
  const { numAffectedRows } = await sql`
    delete from usage_uncopied where ctid = any(array(select ctid from usage_uncopied where not exists (select from usage_copies) limit ${limit}))`.execute(
    tx.q,
  )
  return numAffectedRows === BigInt(limit)
}

/** Notes this transaction. Every transaction that begins to write after it has seen the copy, and lists its own batches. */
export const markListing = async (tx: Tx, id: string): Promise<void> => {
  await sql`update usage_copies set listing_after = pg_current_xact_id() where id = ${id}`.execute(tx.q)
}

/** True if every transaction that may have missed the copy has ended. */
export const hasSettled = async (db: Db, listing_after: string): Promise<boolean> =>
  (await sql<{ settled: boolean }>`select pg_snapshot_xmin(pg_current_snapshot()) > ${listing_after}::xid8 as settled`.execute(db.q)).rows[0]!.settled

/** Lists the next batches or corrections from before the copy. Returns true if more may follow. */
export const listNext = async (tx: Tx, { id, listed }: Copy, limit: number): Promise<boolean> => {
  const isBatches = listed === 'nothing'
  const [table, kind, named, events] = isBatches
    ? [sql`usage_batches`, 'batch', sql`id`, sql`events`]
    : [sql`usage_corrections`, 'correction', sql`event_id`, sql`1`]
  const { rows } = await sql<{ found: number }>`
    with place as (
      select coalesce(listed_organization_id, '00000000-0000-0000-0000-000000000000') as organization_id, coalesce(listed_id, '00000000-0000-0000-0000-000000000000') as id
      from usage_copies where id = ${id}
    ), found as materialized (
      select organization_id, id, ${named} as named, ${events} as events from ${table}
      where (organization_id, id) > ((select organization_id from place), (select id from place)) order by organization_id, id limit ${limit}
    ), added as (
      insert into usage_uncopied (organization_id, kind, id, events) select organization_id, ${kind}, named, events from found on conflict do nothing
    ), moved as (
      update usage_copies set listed_organization_id = f.organization_id, listed_id = f.id
      from (select organization_id, id from found order by organization_id desc, id desc limit 1) f where usage_copies.id = ${id}
    )
    select count(*)::int as found from found`.execute(tx.q)
  const hasMore = rows[0]!.found === limit
  if (!hasMore)
    await sql`update usage_copies set listed = ${isBatches ? 'batches' : 'everything'}, listed_organization_id = null, listed_id = null where id = ${id}`.execute(
      tx.q,
    )
  return hasMore
}

/** A chunk of the copy, and the number of its events. */
export interface Chunk {
  readonly chunk: string
  readonly events: number
}

/** Assigns the oldest batches and corrections to the next chunk. Returns undefined if nothing is to be copied. */
export const beginChunk = async (tx: Tx, { id }: Copy, most: { readonly events: number; readonly rows: number }): Promise<Chunk | undefined> => {
  const { rows } = await sql<Chunk>`
    with waiting as (
      select organization_id, kind, id, events from usage_uncopied where chunk is null order by id limit ${most.rows} for update
    ), summed as (
      select *, sum(events) over (order by id, kind, organization_id) - events as before from waiting
    ), picked as (
      select * from summed where before < ${most.events}
    ), next as (
      update usage_copies set chunk = chunk + 1 where id = ${id} and exists (select from picked) returning chunk
    ), assigned as (
      update usage_uncopied u set chunk = (select chunk from next) from picked p
      where u.organization_id = p.organization_id and u.kind = p.kind and u.id = p.id
    )
    select next.chunk::text as chunk, (select coalesce(sum(events) filter (where kind = 'batch'), 0)::int from picked) as events from next`.execute(tx.q)
  return rows[0]
}

/** Removes the batches and corrections of a copied chunk from the list. */
export const endChunk = async (tx: Tx, chunk: string): Promise<void> => {
  await sql`delete from usage_uncopied where chunk = ${chunk}::bigint`.execute(tx.q)
}

/** Notes the servers that may miss chunks which have ended. Requests do not ask them. */
export const noteBehind = async (tx: Tx, id: string, behind: readonly string[]): Promise<void> => {
  await sql`update usage_copies set behind = ${behind} where id = ${id}`.execute(tx.q)
}

/** The chunk that was begun and has not ended. Undefined if there is none. */
export const openChunk = async (db: Db): Promise<Chunk | undefined> => {
  const { rows } = await sql<Chunk>`
    select chunk::text as chunk, coalesce(sum(events) filter (where kind = 'batch'), 0)::int as events from usage_uncopied where chunk is not null group by chunk`.execute(
    db.q,
  )
  return rows[0]
}

/** An event as it is copied. Prompts and responses are not copied. */
export interface CopiedEvent {
  readonly organization_id: string
  readonly id: string
  readonly batch_id: string
  readonly subject_id: string
  readonly at: string
  readonly name: string
  readonly source: string
  readonly metadata: string
}

/**
 * Subquery for the events of some batches, given by a row source `b` with their organization and id. The ids of the events of a batch begin with
 * the millisecond of its own id, so the primary key finds them. Before version 0.2, they began up to a minute earlier. `early` finds those too.
 */
const eventsOf = (batches: RawBuilder<unknown>, early = false): RawBuilder<unknown> => {
  const first = early
    ? sql`lpad(to_hex(('x' || left(replace(b.id::text, '-', ''), 12))::bit(48)::bigint - 60000), 12, '0')`
    : sql`left(replace(b.id::text, '-', ''), 12)`
  return sql`(
    select e.* from ${batches} cross join lateral (
      select * from usage_events e where e.organization_id = b.organization_id and e.batch_id = b.id
        and e.id >= (${first} || repeat('0', 20))::uuid and e.id <= (left(replace(b.id::text, '-', ''), 12) || repeat('f', 20))::uuid
      offset 0
    ) e)`
}

export const loadEvents = async (db: Db, { chunk, events }: Chunk): Promise<CopiedEvent[]> => {
  const find = async (early: boolean) => {
    const { rows } = await sql<CopiedEvent>`
      select organization_id, id, batch_id, subject_id, (extract(epoch from timestamp) * 1000)::bigint::text as at, name, source, metadata::text as metadata
      from ${eventsOf(sql`(select * from usage_uncopied where chunk = ${chunk}::bigint and kind = 'batch') b`, early)} copied`.execute(db.q)
    return rows
  }
  let rows = await find(false)
  if (rows.length !== events) rows = await find(true)
  if (rows.length !== events) throw new Error(`A chunk of the copy has ${events} events, but ${rows.length} were found.`)
  return rows
}

export const loadCorrections = async (db: Db, chunk: string): Promise<{ organization_id: string; id: string }[]> => {
  const { rows } = await sql<{ organization_id: string; id: string }>`
    select organization_id, id from usage_uncopied where chunk = ${chunk}::bigint and kind = 'correction'`.execute(db.q)
  return rows
}

/** The batches and corrections of some organizations that are not copied yet. */
export interface Uncopied {
  readonly copy: string
  /** The servers that may miss more than these batches and corrections. */
  readonly behind: readonly string[]
  readonly batches: readonly { readonly organization_id: string; readonly id: string }[]
  /** The events whose correction is not copied. */
  readonly corrections: readonly string[]
}

/** Most batches and events that may be missing in the copy. If more are missing, PostgreSQL answers the question alone. */
const mostMissing = { rows: 500, events: 10_000 } as const

/** Finds the copy in this store with the batches and corrections that it misses. Undefined if it is not complete, or misses too many. */
export const findUncopied = async (db: Db, store: string, organization_ids: readonly string[]): Promise<Uncopied | undefined> => {
  const { rows } = await sql<
    { copy: string; behind: string[]; is_early: boolean } & (
      | { kind: 'batch' | 'correction'; organization_id: string; id: string; events: number }
      | { kind: null }
    )
  >`
    select c.id as copy, c.behind, coalesce(u.kind = 'batch' and u.id < c.id, false) as is_early, u.* from usage_copies c left join lateral (
      select kind, organization_id, id, events from usage_uncopied where organization_id = any(${organization_ids}::uuid[]) limit ${mostMissing.rows + 1}
    ) u on true where c.store = ${store} and c.listed = 'everything'`.execute(db.q)
  const missing = rows.flatMap((row) => (row.kind === null ? [] : [row]))
  // Batches from before the copy may have earlier events.
  if (rows.some(({ is_early }) => is_early)) return undefined
  if (rows.length === 0 || missing.length > mostMissing.rows || missing.reduce((sum, { events }) => sum + events, 0) > mostMissing.events) return undefined
  return {
    copy: rows[0]!.copy,
    behind: rows[0]!.behind,
    batches: missing.filter(({ kind }) => kind === 'batch'),
    corrections: missing.filter(({ kind }) => kind === 'correction').map(({ id }) => id),
  }
}

/** An event that is not in the copy. */
export interface MissingEvent {
  readonly id: string
  readonly timestamp: Date
  readonly name: string
  readonly source: string
  readonly metadata: string
}

/** Loads the events of batches that are not in the copy, if they match the conditions and are not corrected. */
export const loadMissing = async (db: Db, { batches }: Uncopied, conditions: readonly RawBuilder<unknown>[]): Promise<MissingEvent[]> => {
  if (batches.length === 0) return []
  const named = sql`unnest(${batches.map(({ organization_id }) => organization_id)}::uuid[], ${batches.map(({ id }) => id)}::uuid[]) b (organization_id, id)`
  const all = [sql`corrected_at is null`, ...conditions].map((one) => sql`(${one})`)
  const { rows } = await sql<MissingEvent>`
    select id, timestamp, name, source, metadata::text as metadata from ${eventsOf(named)} usage_events where ${sql.join(all, sql` and `)}`.execute(db.q)
  return rows
}

/** The organizations with events, or one of them. */
export const copiedOrganizations = async (db: Db, slug: string | undefined): Promise<{ id: string; organization: string }[]> => {
  const { rows } = await sql<{ id: string; organization: string }>`
    select o.id, o.slug as organization from organizations o
    where exists (select from usage_batches b where b.organization_id = o.id) and ${slug === undefined ? sql`true` : sql`o.slug = ${slug}`} order by o.slug`.execute(
    db.q,
  )
  return rows
}

/**
 * The number of events of an organization and the sum of their hashes, by month of ingest, without the batches that are not copied. A hash is the
 * first four bytes of an MD5, with the lowest byte first.
 */
export const sumStored = async (db: Db, organization_id: string): Promise<{ sums: { month: number; count: number; sum: string }[]; batches: string[] }> => {
  const { rows: waiting } = await sql<{ id: string }>`select id from usage_uncopied where organization_id = ${organization_id} and kind = 'batch'`.execute(db.q)
  const batches = waiting.map(({ id }) => id)
  const { rows } = await sql<{ month: number; count: number; sum: string }>`
    select month, count(*) as count, sum(('x' || substr(hash, 7, 2) || substr(hash, 5, 2) || substr(hash, 3, 2) || substr(hash, 1, 2))::bit(32)::bigint)::text as sum
    from (
      select to_char(to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) at time zone 'UTC', 'YYYYMM')::int as month,
        md5(id::text || batch_id::text || subject_id::text || (extract(epoch from timestamp) * 1000)::bigint::text || name || source || metadata::text) as hash
      from usage_events where organization_id = ${organization_id} and batch_id <> all(${batches}::uuid[])
    ) hashed group by month`.execute(db.q)
  return { sums: rows, batches }
}

/** The number of batches and corrections that wait for the copy. */
export const countUncopied = async (db: Db): Promise<number> =>
  (await sql<{ rows: number }>`select count(*)::int as rows from usage_uncopied`.execute(db.q)).rows[0]!.rows
