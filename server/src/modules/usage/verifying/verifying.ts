import type { Db } from '../../../platform/postgres/postgres.ts'
import { countDifferences, countedMeters } from './verifying.sql.ts'

/** Compares the stored totals of every meter with its events. `told` is called after each meter. */
export const verifyUsage = async (
  db: Db,
  slug: string | undefined,
  told: (done: number, of: number) => void,
): Promise<{ organization: string; meter: string; differences: number }[]> => {
  const meters = await countedMeters(db, slug)
  const verified = []
  for (const meter of meters) {
    verified.push({ organization: meter.organization, meter: meter.name, differences: await countDifferences(db, meter) })
    told(verified.length, meters.length)
  }
  return verified
}
