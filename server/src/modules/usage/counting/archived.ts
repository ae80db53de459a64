import type { Deps } from '../../handlers.ts'
import { findStoppable, stopArchivedMeter } from './archived.sql.ts'

/** Number of meters that one run stops. The next run stops the rest. */
const atOnce = 1000

/**
 * Periodic task: stops archived meters whose last subscription has ended and whose late usage is billed. Each meter has a transaction of
 * its own, because ingest of the organization waits for it.
 */
export const stopArchivedMeters = async ({ db, transact, platform }: Deps): Promise<void> => {
  for (const meter of await findStoppable(db, platform.clock.wall(), atOnce)) await transact((tx) => stopArchivedMeter(tx, meter))
}
