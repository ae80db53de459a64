import { sql } from 'kysely'
import type { Clock } from './clock.ts'
import type { Db, Tx } from './postgres/postgres.ts'

export interface TestClockRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  name: string | null
  now_at: Date
  /** Where it travels to; null while it stands still. */
  target_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

declare module './postgres/postgres.ts' {
  interface Tables {
    test_clocks: TestClockRow
  }
}

/** Whose time something is in: that of a sandbox clock, or null for the one on the wall. */
export interface Clocked {
  readonly organization_id: string
  readonly clock_id: string | null
}

/**
 * The same transaction in the time of whoever the row belongs to: what it dates is dated by their clock, where they have
 * one. The clock is held where it stands until the transaction ends, so that nothing is dated by a time that has passed.
 */
export const inTimeOf = async (tx: Tx, { organization_id, clock_id }: Clocked): Promise<Tx> => {
  if (clock_id === null) return tx
  const { rows } = await sql<{ now_at: Date }>`
    select now_at from test_clocks where organization_id = ${organization_id} and id = ${clock_id} for share`.execute(tx.q)
  const { now_at } = rows[0]!
  return { ...tx, clock: { wall: () => tx.clock.wall(), business: () => now_at } }
}

/** What time it is for whoever the row belongs to, for those who only look. */
export const timeOf = async (db: Db, clock: Clock, { organization_id, clock_id }: Clocked): Promise<Date> => {
  if (clock_id === null) return clock.business()
  const { rows } = await sql<{ now_at: Date }>`select now_at from test_clocks where organization_id = ${organization_id} and id = ${clock_id}`.execute(db.q)
  return rows[0]!.now_at
}
