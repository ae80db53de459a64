import { sql } from 'kysely'
import type { Tx } from '../../../platform/postgres/postgres.ts'

/** Creates the partitions of events for the next months. Moves events of a missing month out of the default partition. */
export const ensureUsageParts = async (tx: Tx, today: Date): Promise<void> => {
  await sql`select ensure_usage_parts(${today}::date)`.execute(tx.q)
}
