import { systemEventLabels } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { isOneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Place } from '../copies/questions.sql.ts'

/** The columns of events by which lists are filtered and sorted. System events have no parent, and cannot be corrected. */
const userRows = sql`
  select organization_id, id, timestamp, name, source, subject_id, metadata, corrected_at, parent_id, depth from usage_events`
const systemRows = sql`
  select organization_id, id, timestamp, name, 'system'::text as source, customer_id as subject_id,
    case when personal is null then metadata else metadata || personal end as metadata, null::timestamptz as corrected_at, null::uuid as parent_id, 0::smallint as depth
  from system_events`

/** Subquery for system events, or for the events of sellers and of the system. The planner reads each table by its own index. */
export const eventRows = (kind: 'system' | 'both'): RawBuilder<unknown> =>
  kind === 'system' ? sql`(${systemRows}) usage_events` : sql`(${userRows} union all ${systemRows}) usage_events`

/** Expression for the number of all system events of the tenants, from the stored counts of names. */
export const countOfSystemEvents = (tenants: readonly string[]): RawBuilder<unknown> => sql`(
  select coalesce(sum(occurrences), 0)::bigint from usage_name_counts
  where ${isOneOf('organization_id', tenants)} and name = any(${[...systemEventLabels.keys()]}::text[]) and source = 'system')`

export interface Paging {
  readonly descending: boolean
  /** The last event of the page before. */
  readonly beyond: Place | undefined
  readonly most: number
  readonly counted: boolean
}

/** Returns the first places of system events that match, and their number. Without `counted`, the number is 0. */
export const selectSystemPlaces = async (
  db: Db,
  tenants: readonly string[],
  conditions: readonly RawBuilder<unknown>[],
  { descending, beyond, most, counted }: Paging,
): Promise<{ places: Place[]; total: number }> => {
  const matching = sql.join(
    [isOneOf('organization_id', tenants), ...conditions].map((one) => sql`(${one})`),
    sql` and `,
  )
  const after = beyond ? sql`and (timestamp, id) ${sql.raw(descending ? '<' : '>')} (${new Date(beyond.at)}::timestamptz, ${beyond.id}::uuid)` : sql``
  const direction = sql.raw(descending ? 'desc' : 'asc')
  const { rows } = await sql<{ total: number; id: string | null; timestamp: Date | null }>`
    select totals.total, page.id, page.timestamp
    from (select ${counted ? sql`(select count(*) from ${eventRows('system')} where ${matching})` : sql`0::bigint`} as total) totals
    left join (select id, timestamp from ${eventRows('system')} where ${matching} ${after} order by timestamp ${direction}, id ${direction} limit ${most}) page on true`.execute(
    db.q,
  )
  return { places: rows.flatMap(({ id, timestamp }) => (id === null ? [] : [{ at: timestamp!.getTime(), id }])), total: rows[0]!.total }
}
