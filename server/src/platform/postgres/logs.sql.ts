import { sql, type RawBuilder } from 'kysely'
import { firstIdAt, timeOf } from '../../kernel/ids.ts'
import { hours, later } from '../clock.ts'

/**
 * A log is read in the order of its numbers, and an entry is numbered after the transaction that wrote it has ended. So
 * numbers and moments run together, but for as long as a transaction takes and clocks differ: never this long.
 */
const apart = 1 * hours

const logs = { events: 'wall_at', audit_log: 'at' } as const

/**
 * The entries of a log from one moment to another. Between which numbers they must be is looked up first: whoever reads in
 * the order of the numbers begins and ends there, and does not go through all that was before or came after. Ids begin with
 * the moment of their making, so that the key of the table knows their order.
 */
export const recordedBetween = (
  log: keyof typeof logs,
  organization_id: string,
  { start, end }: { start?: Date | undefined; end?: Date | undefined },
): RawBuilder<unknown>[] => {
  const [table, moment] = [sql.table(log), sql.ref(logs[log])]
  const nearest = (side: RawBuilder<unknown>) => sql`(select sequence from ${table} where organization_id = ${organization_id} and ${side} limit 1)`
  return [
    // One that has no number yet bounds nothing.
    ...(start ? [sql`${moment} >= ${start} and sequence > coalesce(${nearest(sql`id < ${firstIdAt(later(start, -apart))} order by id desc`)}, 0)`] : []),
    ...(end ? [sql`${moment} < ${end} and sequence < coalesce(${nearest(sql`id >= ${firstIdAt(later(end, apart))} order by id`)}, 9223372036854775807)`] : []),
  ]
}

/** The entries that were written by any of these requests: what a request does is written while it lasts, and its id says since when that is. */
export const recordedBy = (requests: readonly string[]): RawBuilder<unknown>[] => {
  const one = (id: string) => sql`(request_id = ${id} and id >= ${firstIdAt(timeOf(id))} and id < ${firstIdAt(later(timeOf(id), apart))})`
  return requests.length === 0 ? [] : [sql`(${sql.join(requests.map(one), sql` or `)})`]
}
