import { sql } from 'kysely'
import type { Clock } from './clock.ts'
import type { BusinessTx, Db, Tx } from './postgres/postgres.ts'

export interface TestClockRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  name: string | null
  now_at: Date
  /** The time to which the clock is advancing. Null while the clock is not advancing. */
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

/** A row whose dates follow a clock: the test clock `clock_id`, or the system clock if `clock_id` is null. */
export interface Clocked {
  readonly organization_id: string
  readonly clock_id: string | null
}

/**
 * Returns the same transaction, with business time from the row's test clock or else from the system clock. The test
 * clock is locked until the transaction ends, so that it cannot advance meanwhile.
 */
export const inTimeOf = async (tx: Tx, { organization_id, clock_id }: Clocked): Promise<BusinessTx> => {
  if (clock_id === null) return inWallTime(tx)
  const { rows } = await sql<{ now_at: Date }>`
    select now_at from test_clocks where organization_id = ${organization_id} and id = ${clock_id} for share`.execute(tx.q)
  const { now_at } = rows[0]!
  return { ...tx, clock: { wall: () => tx.clock.wall(), business: () => now_at } }
}

/** Returns the transaction with wall time as business time, for records that belong to no test clock. */
export const inWallTime = (tx: Tx): BusinessTx => ({
  ...tx,
  clock: { wall: () => tx.clock.wall(), business: () => tx.answers?.asked_at ?? tx.clock.wall() },
})

/** Returns the current business time of a row, without locking its test clock. */
export const timeOf = async (db: Db, clock: Clock, { organization_id, clock_id }: Clocked): Promise<Date> => {
  if (clock_id === null) return clock.business()
  const { rows } = await sql<{ now_at: Date }>`select now_at from test_clocks where organization_id = ${organization_id} and id = ${clock_id}`.execute(db.q)
  return rows[0]!.now_at
}
