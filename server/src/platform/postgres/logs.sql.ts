import { sql, type RawBuilder } from 'kysely'
import { firstIdAt, timeOf } from '../../kernel/ids.ts'
import { hours, later } from '../clock.ts'

/**
 * The maximum time by which the order of sequence numbers may differ from the order of timestamps. An entry gets its
 * number after its transaction has committed. The two orders therefore differ by the duration of a transaction and by
 * clock differences. Both are far shorter than one hour.
 */
const apart = 1 * hours

const logs = { events: 'wall_at', audit_log: 'at' } as const

/**
 * Selects the entries of a log within a period. Looks up the range of their sequence numbers first, so that a scan by
 * number skips earlier and later entries. The lookup uses the primary key, because ids begin with their creation time.
 */
export const recordedBetween = (
  log: keyof typeof logs,
  organization_id: string,
  { start, end }: { start?: Date | undefined; end?: Date | undefined },
): RawBuilder<unknown>[] => {
  const [table, moment] = [sql.table(log), sql.ref(logs[log])]
  const nearest = (side: RawBuilder<unknown>) => sql`(select sequence from ${table} where organization_id = ${organization_id} and ${side} limit 1)`
  return [
    // If the nearest entry has no sequence number yet, the range has no bound on that side.
    ...(start ? [sql`${moment} >= ${start} and sequence > coalesce(${nearest(sql`id < ${firstIdAt(later(start, -apart))} order by id desc`)}, 0)`] : []),
    ...(end ? [sql`${moment} < ${end} and sequence < coalesce(${nearest(sql`id >= ${firstIdAt(later(end, apart))} order by id`)}, 9223372036854775807)`] : []),
  ]
}

/** Selects the log entries of the given requests. The start time in a request's id limits the range of entry ids to scan. */
export const recordedBy = (requests: readonly string[]): RawBuilder<unknown>[] => {
  const one = (id: string) => sql`(request_id = ${id} and id >= ${firstIdAt(timeOf(id))} and id < ${firstIdAt(later(timeOf(id), apart))})`
  return requests.length === 0 ? [] : [sql`(${sql.join(requests.map(one), sql` or `)})`]
}
