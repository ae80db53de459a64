import type { EventStore } from '../../../gateways/event-store/event-store.ts'
import { minutes } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { copiedOrganizations, findCopy, sumStored } from './copies.sql.ts'
import { sumCopied } from './store.sql.ts'

/** A month of an organization whose events differ from their copy. */
export interface CopyDifference {
  readonly organization: string
  /** The address of the server with this copy. */
  readonly server: string
  readonly month: number
  readonly stored: number
  readonly copied: number
}

/**
 * Compares the events with their copy: their number and the sum of their hashes, for each organization and month of ingest. Leaves out
 * batches that are not copied yet, and servers that are behind. Returns undefined if there is no complete copy in this store. `told` is called
 * after each organization.
 */
export const verifyCopy = async (
  db: Db,
  store: EventStore,
  slug: string | undefined,
  told: (done: number, of: number) => void,
): Promise<{ months: number; differences: CopyDifference[]; behind: readonly string[] } | undefined> => {
  const copy = await findCopy(db)
  if (!copy || copy.store !== store.address || copy.listed !== 'everything') return undefined
  const { behind } = copy
  const servers = store.servers.filter(({ address }) => !behind.includes(address))
  const organizations = await copiedOrganizations(db, slug)
  const differences: CopyDifference[] = []
  let months = 0
  for (const [at, { id, organization }] of organizations.entries()) {
    const { sums, batches } = await sumStored(db, id)
    const own = new Map(sums.map((one) => [one.month, one]))
    const seen = new Set(own.keys())
    for (const server of servers) {
      const found = await server.ask(sumCopied(copy.id, id, batches), 10 * minutes)
      const copies = new Map(found.rows.map(([month, count, sum]) => [Number(month), { count: Number(count), sum: String(sum) }]))
      for (const month of copies.keys()) seen.add(month)
      for (const month of new Set([...own.keys(), ...copies.keys()])) {
        const [stored, copied] = [own.get(month), copies.get(month)]
        if (stored?.count !== copied?.count || stored?.sum !== copied?.sum)
          differences.push({ organization, server: server.address, month, stored: stored?.count ?? 0, copied: copied?.count ?? 0 })
      }
    }
    months += seen.size
    told(at + 1, organizations.length)
  }
  return { months, differences, behind }
}
