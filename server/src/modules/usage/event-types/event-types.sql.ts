import { systemEventLabels, type EventType, type EventTypeWithStats, type PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { inOrder, listKeys, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, inScope, isOneOf, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { eventRows } from '../events/system-events.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    event_types: EventType
  }
}

export interface TypeFilters {
  readonly organization_id: readonly string[]
  /** One list of subjects for each filter of customers. */
  readonly subjects: readonly (readonly string[])[]
  readonly source: readonly string[]
  readonly query?: string | undefined
  /** True if the query is searched in the label too. */
  readonly labels: boolean
  readonly root_events?: boolean | undefined
  readonly parent_id?: string | undefined
}

/** A type with its statistics. The key is its id. A system event has no type, so its key comes from its name. */
type CountedType = EventTypeWithStats & { readonly key: string }

/** Returns the conditions that limit which events count. Without any, the stored counts apply. */
const eventConditions = ({ subjects, root_events, parent_id }: TypeFilters): RawBuilder<unknown>[] => [
  ...subjects.map((some) => isOneOf('subject_id', some)),
  ...(root_events ? [sql`parent_id is null`] : []),
  ...(parent_id === undefined ? [] : [sql`parent_id = ${parent_id}`]),
]

/**
 * Subquery for the occurrences of each name. Reads the stored counts, unless only some of the events count. `among` limits
 * the rows to organizations, or to the name of a type in the outer query.
 */
const occurrences = (among: RawBuilder<unknown>, filters: TypeFilters): RawBuilder<unknown> => {
  const conditions = eventConditions(filters)
  if (conditions.length === 0)
    return sql`
      select organization_id, name, source, sum(occurrences)::bigint as occurrences, min(first_seen) as first_seen, max(last_seen) as last_seen
      from usage_name_counts where ${among} group by 1, 2, 3 having sum(occurrences) > 0`
  return sql`
    select organization_id, name, source, count(*) as occurrences, min(timestamp) as first_seen, max(timestamp) as last_seen
    from ${filters.parent_id === undefined ? eventRows('both') : sql`usage_events`} where ${among} and corrected_at is null and ${sql.join(conditions, sql` and `)} group by 1, 2, 3`
}

const labels = sql`json_each_text(${JSON.stringify(Object.fromEntries(systemEventLabels))}::json) as l (name, label)`

const columns = sql`
  c.organization_id, y.id, y.created_at, y.modified_at, c.name, coalesce(l.label, y.label) as label, y.label_property_selector,
  c.source, c.occurrences, c.first_seen, c.last_seen, coalesce(y.id, md5(c.organization_id || ' ' || c.name)::uuid) as key`

/** Joins the types of sellers, and the labels of system events. */
const described = sql`
  left join event_types y on c.source = 'user' and y.organization_id = c.organization_id and y.name = c.name
  left join ${labels} on c.source = 'system' and l.name = c.name`

/** Subquery for all types of the organizations with their statistics. */
const counted = (ids: readonly string[], filters: TypeFilters): RawBuilder<unknown> => sql`(
  select ${columns} from (${occurrences(isOneOf('organization_id', ids), filters)}) c ${described} where coalesce(y.label, l.label) is not null) types`

/** Counts the matching events of all types once, because a customer may have a million events. */
const countTypes = async (db: Db, ids: readonly string[], filters: TypeFilters): Promise<CountedType[]> =>
  (await sql<CountedType>`select * from ${counted(ids, filters)}`.execute(db.q)).rows

/** Subquery for types whose events were counted before. It has the columns by which they are filtered and sorted. */
const knownTypes = (types: readonly CountedType[]): RawBuilder<unknown> => sql`(
  select * from json_to_recordset(${JSON.stringify(types)}::json) as known (
    organization_id uuid, key uuid, name text, label text, source text, occurrences bigint, first_seen timestamptz, last_seen timestamptz)) types`

/** Loads some types with their statistics. Reads the counts of these names only. */
const loadTypes = async (db: Db, tenants: readonly string[], filters: TypeFilters, keys: readonly string[]): Promise<CountedType[]> => {
  const names = sql`
    select name from event_types where ${isOneOf('organization_id', tenants)} and id = ${oneOf(keys)}
    union select l.name from ${labels}, unnest(${tenants}::uuid[]) o (id) where md5(o.id || ' ' || l.name)::uuid = ${oneOf(keys)}`
  const { rows } = await sql<CountedType>`
    select * from (select ${columns} from (${occurrences(sql`${isOneOf('organization_id', tenants)} and name in (${names})`, filters)}) c ${described}) types
    where key = ${oneOf(keys)}`.execute(db.q)
  return rows
}

/** Lists the types of which at least one event matches. */
export const listTypes = async (db: Db, scope: TenantScope, request: PageRequest & { readonly sorting: readonly string[] }, filters: TypeFilters) => {
  const ids = organizationIds(scope, filters.organization_id)
  const known = eventConditions(filters).length === 0 ? undefined : await countTypes(db, ids, filters)
  const spec: ListSpec<string> = {
    table: 'event_types',
    rows: known ? knownTypes(known) : counted(ids, filters),
    tenant: 'organization_id',
    id: 'key',
    // There are few names, and page and total are then one statement.
    few: true,
    sortable: {
      name: { expression: 'name', type: 'text' },
      label: { expression: 'label', type: 'text' },
      occurrences: { expression: 'occurrences', type: 'bigint' },
      first_seen: { expression: 'first_seen', type: 'timestamptz' },
      last_seen: { expression: 'last_seen', type: 'timestamptz' },
    },
  }
  const conditions = [...anyOf('source', filters.source, 'text')]
  if (filters.query !== undefined) {
    const pattern = containing(filters.query)
    conditions.push(filters.labels ? sql`name ilike ${pattern} or label ilike ${pattern}` : sql`name ilike ${pattern}`)
  }
  const { keys, total, next_cursor } = await listKeys(db, spec, ids, request, conditions)
  const wanted = keys.map(({ id }) => id)
  const rows = known ?? (wanted.length === 0 ? [] : await loadTypes(db, ids, filters, wanted))
  const items = inOrder(keys, rows, ({ key }) => key).map(({ key: _, ...type }): EventTypeWithStats => type)
  return { items, total, next_cursor }
}

/** Locks the type. Serializes its changes. */
export const lockType = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<EventType> | undefined> =>
  await lockRow(tx.q.selectFrom('event_types').selectAll().where('organization_id', '=', inScope(scope)).where('id', '=', id))

export const updateType = (tx: Tx, type: Locked<EventType>, changes: Partial<EventType>): Promise<EventType> =>
  tx.q
    .updateTable('event_types')
    .set(changes)
    .where('organization_id', '=', type.organization_id)
    .where('id', '=', type.id)
    .returningAll()
    .executeTakeFirstOrThrow()

/** True if ingest has appended counts since the last merge. */
export const hasUnfolded = async (db: Db): Promise<boolean> =>
  (await sql<{ found: boolean }>`select exists (select from usage_name_counts where not is_merged) as found`.execute(db.q)).rows[0]!.found

/**
 * Replaces the next rows of names, oldest first, by one merged row for each name. The sum of each name does not change. Only
 * one transaction merges at a time. Returns the number of rows that it merged.
 */
export const foldCounts = async (tx: Tx, most: number): Promise<number> => {
  const { rows: lock } = await sql<{ held: boolean }>`select pg_try_advisory_xact_lock(hashtext('usage name counts')) as held`.execute(tx.q)
  if (!lock[0]?.held) return 0
  const { rows } = await sql<{ picked: number }>`
    with picked as materialized (
      select ctid as place, organization_id, name, source from usage_name_counts where not is_merged order by position limit ${most}
    ), merged as materialized (
      select c.ctid as place from (select distinct organization_id, name, source from picked) p
      join usage_name_counts c on c.organization_id = p.organization_id and c.name = p.name and c.source = p.source and c.is_merged
    ), gone as (
      delete from usage_name_counts where ctid = any(array(select place from picked union all select place from merged))
      returning organization_id, name, source, occurrences, first_seen, last_seen
    ), sums as (
      insert into usage_name_counts (organization_id, name, source, occurrences, first_seen, last_seen, is_merged)
      select organization_id, name, source, sum(occurrences), min(first_seen), max(last_seen), true from gone group by 1, 2, 3
    )
    select count(*)::int as picked from picked`.execute(tx.q)
  return rows[0]!.picked
}
