import { sql } from 'kysely'
import { newId } from '../../kernel/ids.ts'
import { later } from '../clock.ts'
import type { Db, Transact, Tx } from '../postgres/postgres.ts'
import { engines, sweeps, type DueTable } from './catalogue.ts'

/** The right to work on one due row until a moment; the token tells this right from every other one, past or future. */
export interface Lease {
  readonly table: DueTable
  readonly organization_id: string
  readonly id: string
  readonly token: string
}

/** The lease ran out or was taken over: whoever holds it now does the work, and this attempt must change nothing. */
export class LeaseLost extends Error {}

/** Takes up to `limit` due rows for `holder`, longest due first, passing over rows that others work on. Rows on a sandbox clock are left alone. */
export const claim = async (transact: Transact, table: DueTable, options: { holder: string; limit: number; lease_ms: number }): Promise<Lease[]> =>
  transact(async (tx) => {
    const now = tx.clock.wall()
    const token = newId(now)
    const name = sql.table(table)
    const { rows } = await sql<{ organization_id: string; id: string; due_at: Date }>`
      update ${name} set lease_until = ${later(now, options.lease_ms)}, lease_token = ${token}, lease_holder = ${options.holder}
      where (organization_id, id) in (
        select organization_id, id from ${name}
        where due_at <= ${now} and clock_id is null and (lease_until is null or lease_until <= ${now})
        order by due_at limit ${options.limit} for update skip locked
      )
      returning organization_id, id, due_at`.execute(tx.q)
    return rows.toSorted((a, b) => a.due_at.getTime() - b.due_at.getTime()).map(({ organization_id, id }) => ({ table, organization_id, id, token }))
  })

/**
 * Runs an effect that only the holder of the lease may have: the row is locked and the token checked first, and the
 * row's next due moment (null: nothing left to do) is written in the same transaction.
 */
export const underLease = (transact: Transact, lease: Lease, effect: (tx: Tx) => Promise<Date | null>): Promise<void> =>
  transact(async (tx) => {
    const name = sql.table(lease.table)
    const held = await sql`
      select 1 from ${name}
      where organization_id = ${lease.organization_id} and id = ${lease.id} and lease_token = ${lease.token} and lease_until > ${tx.clock.wall()}
      for update`.execute(tx.q)
    if (held.rows.length === 0) throw new LeaseLost(`the lease on a row of ${lease.table} is no longer ours`)
    const next = await effect(tx)
    await sql`
      update ${name} set due_at = ${next}, lease_until = null, lease_token = null, lease_holder = null
      where organization_id = ${lease.organization_id} and id = ${lease.id}`.execute(tx.q)
  })

const dueTables: DueTable[] = [...new Set([...Object.values(sweeps), ...Object.values(engines)].map(({ table }) => table))]

/** Gives back every lease of workers that are gone, so that their rows are due again at once, and strikes them off the list. */
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

/** Enters a worker into the list of those who may hold leases. */
export const enterLife = async (tx: Tx, holder: string): Promise<void> => {
  await tx.q.insertInto('worker_lives').values({ holder, born_at: tx.clock.wall() }).execute()
}

/** Everyone who may hold a lease now. */
export const leaseHolders = async (db: Db): Promise<string[]> => (await db.q.selectFrom('worker_lives').select('holder').execute()).map(({ holder }) => holder)

/** Seconds that the oldest due row of each table has waited. */
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
