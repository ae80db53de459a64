import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

/** A meter of an organization. */
export interface MeterKey {
  readonly organization_id: string
  readonly id: string
}

/** Returns archived meters that still count events although nothing needs their usage any more. */
export const findStoppable = async (db: Db, moment: Date, limit: number): Promise<MeterKey[]> =>
  (
    await sql<MeterKey>`
      select m.organization_id, m.id from meters m
      join usage_meters u on u.organization_id = m.organization_id and u.id = m.id and not u.is_stopped
      where m.archived_at is not null and may_stop_counting(m.organization_id, m.id, ${moment}) limit ${limit}`.execute(db.q)
  ).rows

/** Stops the meter, under the locks of a change of the meter. Does nothing if its usage is needed again. */
export const stopArchivedMeter = async (tx: Tx, { organization_id, id }: MeterKey): Promise<void> => {
  await sql`select stop_archived_meter(${organization_id}, ${id}, ${tx.clock.wall()})`.execute(tx.q)
}
