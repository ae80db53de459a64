import { sql } from 'kysely'
import { newId, timeOf } from '../../kernel/ids.ts'
import { hours, later } from '../clock.ts'
import type { Db, Transact, Tx } from '../postgres/postgres.ts'
import { daemons, sweeps, type DueTable } from './catalogue.ts'

/** The exclusive right to process one due row until a point in time. The token distinguishes it from all other leases. */
export interface Lease {
  readonly table: DueTable
  readonly organization_id: string
  readonly id: string
  readonly token: string
  /** The worker that holds the lease. */
  readonly holder: string
  /** The length of the pause of the row before this lease, in milliseconds. Undefined unless its work failed the time before. */
  readonly paused_ms?: number
}

/** The columns of a row without due work: not due, on the system clock, without a lease. */
export const unleased = { due_at: null, clock_id: null, lease_until: null, lease_token: null, lease_holder: null }

/** The lease expired or was taken over. Another worker may process the row, so this worker must not change anything for it. */
export class LeaseLost extends Error {}

/** A test clock and its current time. */
export interface ClockTime {
  readonly organization_id: string
  readonly id: string
  readonly now_at: Date
}

/**
 * Leases up to `limit` due rows for `holder`, longest due first, and skips rows that are locked or leased. Without
 * `clock`, takes rows that are due by the system clock. With `clock`, takes the rows that are due by that test clock.
 */
export const claim = async (
  transact: Transact,
  table: DueTable,
  options: { holder: string; limit: number; lease_ms: number; clock?: ClockTime },
): Promise<Lease[]> =>
  transact(async (tx) => {
    const now = tx.clock.wall()
    const { clock, holder } = options
    const due = clock
      ? sql`organization_id = ${clock.organization_id} and clock_id = ${clock.id} and due_at <= ${clock.now_at}`
      : sql`due_at <= ${now} and clock_id is null`
    const token = newId(now)
    const name = sql.table(table)
    const { rows } = await sql<{ organization_id: string; id: string; due_at: Date; pause_token: string | null; pause_until: Date | null }>`
      with due as materialized (
        select organization_id, id, due_at, case when lease_holder is null then lease_token end as pause_token, lease_until as pause_until from ${name}
        where ${due} and (lease_until is null or lease_until <= ${now})
        order by due_at limit ${options.limit} for update skip locked
      )
      update ${name} t set lease_until = ${later(now, options.lease_ms)}, lease_token = ${token}, lease_holder = ${holder}
      from due where t.organization_id = due.organization_id and t.id = due.id
      returning due.*`.execute(tx.q)
    return rows
      .toSorted((a, b) => a.due_at.getTime() - b.due_at.getTime())
      .map(({ organization_id, id, pause_token, pause_until }) => {
        const lease = { table, organization_id, id, token, holder }
        return pause_token && pause_until ? { ...lease, paused_ms: pause_until.getTime() - timeOf(pause_token).getTime() } : lease
      })
  })

const longestPause = 1 * hours

/**
 * Ends a lease whose work failed. The row cannot be claimed during a pause, so that rows that always fail do not keep the workers from the
 * others. The first pause is as long as a lease, and each further one twice as long as the one before, up to an hour. A
 * lease without a holder is a pause: the time in its token is the beginning. The due time stays, because it may be business time. Any release of
 * the lease also ends the pause.
 */
export const pauseRow = (transact: Transact, lease: Lease, lease_ms: number): Promise<void> =>
  transact(async (tx) => {
    const now = tx.clock.wall()
    const pause = lease.paused_ms === undefined ? lease_ms : Math.min(2 * lease.paused_ms, longestPause)
    await sql`
      update ${sql.table(lease.table)} set lease_until = ${later(now, pause)}, lease_token = ${newId(now)}, lease_holder = null
      where organization_id = ${lease.organization_id} and id = ${lease.id} and lease_token = ${lease.token}`.execute(tx.q)
  })

/** Divides leases into groups of one organization with at most `size` rows. Rows that are due longest come first. */
export const groupLeases = (leases: readonly Lease[], size: number): Lease[][] =>
  [...Map.groupBy(leases, ({ organization_id }) => organization_id).values()].flatMap((own) =>
    Array.from({ length: Math.ceil(own.length / size) }, (_, at) => own.slice(at * size, (at + 1) * size)),
  )

const sweptTables: DueTable[] = [...new Set(Object.values(sweeps).map(({ table }) => table))]

/** Returns the tables that have rows to claim by the system clock. One statement looks at the tables of all sweeps. */
export const findDueTables = async (db: Db, now: Date): Promise<Set<DueTable>> => {
  const each = sweptTables.map(
    (table) => sql`select ${sql.lit(table)} as name where exists (
      select from ${sql.table(table)} where due_at <= ${now} and clock_id is null and (lease_until is null or lease_until <= ${now}))`,
  )
  const { rows } = await sql<{ name: DueTable }>`${sql.join(each, sql` union all `)}`.execute(db.q)
  return new Set(rows.map(({ name }) => name))
}

/**
 * Runs an effect as the holder of a lease. Locks the row and checks the token first. Stores the next due time in the
 * same transaction; null means that nothing is left to do.
 */
export const underLease = (transact: Transact, lease: Lease, effect: (tx: Tx) => Promise<Date | null>): Promise<void> =>
  transact(async (tx) => {
    await checkLease(tx, lease)
    await releaseLease(tx, lease, await effect(tx))
  })

/** Locks the leased row and checks that the lease is still valid. If a caller must lock another row first, it does so before this call. */
export const checkLease = async (tx: Tx, lease: Lease): Promise<void> => {
  const held = await sql`
    select 1 from ${sql.table(lease.table)}
    where organization_id = ${lease.organization_id} and id = ${lease.id} and lease_token = ${lease.token} and lease_until > ${tx.clock.wall()}
    for no key update`.execute(tx.q)
  if (held.rows.length === 0) throw lostLease(lease)
}

/** Checks the lease of a row that the caller has already locked. The row lock prevents other workers from taking over the lease. */
export const checkHeld = (row: LeasedRow, lease: Lease, wall: Date): void => {
  if (!isHeld(row, lease, wall)) throw lostLease(lease)
}

/**
 * Locks leased rows of one organization in the order of their ids. Returns those whose lease is still valid. If a caller
 * must lock other rows first, it does so before this call.
 */
export const lockHeld = async (tx: Tx, leases: readonly Lease[]): Promise<Lease[]> => {
  const { table, organization_id } = leases[0]!
  const { rows } = await sql<{ id: string }>`
    select r.id from ${sql.table(table)} r
    join unnest(${leases.map(({ id }) => id)}::uuid[], ${leases.map(({ token }) => token)}::uuid[]) as l (id, token) on l.id = r.id and l.token = r.lease_token
    where r.organization_id = ${organization_id} and r.lease_until > ${tx.clock.wall()}
    order by r.id for no key update of r`.execute(tx.q)
  const held = new Set(rows.map(({ id }) => id))
  return leases.filter(({ id }) => held.has(id))
}

interface LeasedRow {
  readonly lease_token: string | null
  readonly lease_until: Date | null
}

/** True if the row is still leased to the holder of this lease. */
export const isHeld = ({ lease_token, lease_until }: LeasedRow, { token }: Lease, wall: Date): boolean =>
  lease_token === token && lease_until !== null && lease_until > wall

export const lostLease = ({ table }: Lease): LeaseLost => new LeaseLost(`the lease on a row of ${table} was lost`)

/** Extends the lease. Used by long work that makes progress. */
export const extendLease = async (tx: Tx, lease: Lease, lease_ms: number): Promise<void> => {
  await checkLease(tx, lease)
  await sql`
    update ${sql.table(lease.table)} set lease_until = ${later(tx.clock.wall(), lease_ms)}
    where organization_id = ${lease.organization_id} and id = ${lease.id}`.execute(tx.q)
}

/** Releases the lease in the transaction that checked it, and sets the next due time. Null means that nothing is left to do. */
export const releaseLease = async (tx: Tx, lease: Lease, next: Date | null): Promise<void> => {
  await sql`
    update ${sql.table(lease.table)} set due_at = ${next}, lease_until = null, lease_token = null, lease_holder = null
    where organization_id = ${lease.organization_id} and id = ${lease.id}`.execute(tx.q)
}

/**
 * Releases leases of one organization at the end of the transaction that checked them. Nothing is left to do for their
 * rows.
 */
export const releaseAtEnd = (tx: Tx, leases: readonly Lease[]): void => {
  const { table, organization_id } = leases[0]!
  tx.ending.updates.push(sql`
    update ${sql.table(table)} set due_at = null, lease_until = null, lease_token = null, lease_holder = null
    where organization_id = ${organization_id} and id = any(${leases.map(({ id }) => id)}::uuid[])`)
}

const dueTables: DueTable[] = [...new Set([...Object.values(sweeps), ...Object.values(daemons)].map(({ table }) => table))]

/** Releases all leases of dead workers, so that their rows are due again at once, and deletes the workers' entries. */
export const releaseLeases = async (tx: Tx, holders: readonly string[]): Promise<void> => {
  for (const table of dueTables)
    await sql`update ${sql.table(table)} set lease_until = null, lease_token = null, lease_holder = null where due_at is not null and lease_holder = any(${holders})`.execute(
      tx.q,
    )
  await tx.q
    .deleteFrom('worker_lives')
    .where('holder', 'in', [...holders])
    .execute()
}

declare module '../postgres/postgres.ts' {
  interface Tables {
    worker_lives: { holder: string; born_at: Date }
  }
}

/** Registers a worker, so that other workers can release its leases if it dies. */
export const enterLife = async (tx: Tx, holder: string): Promise<void> => {
  await tx.q.insertInto('worker_lives').values({ holder, born_at: tx.clock.wall() }).execute()
}

/** Lists all registered workers. Each of them may hold leases. */
export const leaseHolders = async (db: Db): Promise<string[]> => (await db.q.selectFrom('worker_lives').select('holder').execute()).map(({ holder }) => holder)

/** Returns the seconds that the oldest due row of each table has waited. */
export const dueAge = async (db: Db, now: Date): Promise<Record<string, number>> =>
  Object.fromEntries(
    await Promise.all(
      dueTables.map(async (table) => {
        const { rows } = await sql<{
          due_at: Date | null
        }>`select min(due_at) as due_at from ${sql.table(table)} where due_at is not null and clock_id is null`.execute(db.q)
        const oldest = rows[0]?.due_at
        return [table, oldest ? Math.max(0, (now.getTime() - oldest.getTime()) / 1000) : 0] as const
      }),
    ),
  )
