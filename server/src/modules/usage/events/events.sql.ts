import type { PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { inOrder, listKeys, type Filter, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { customerFromJson, customerJson, enabled, movedFrom, type CustomerRow } from '../../customers/index.ts'
import { childCount } from './parents.sql.ts'
import { countOfSystemEvents, eventRows } from './system-events.sql.ts'

/** An event with everything that its answer shows. */
export interface LoadedEvent {
  readonly organization_id: string
  readonly id: string
  readonly timestamp: Date
  readonly name: string
  readonly source: 'user' | 'system'
  /** JSON text, because a parsed number may lose digits. */
  readonly metadata: string
  readonly parent_id: string | null
  readonly child_count: number
  readonly prompt: string | null
  readonly response: string | null
  readonly label: string
  readonly label_property_selector: string | null
  readonly member_id: string | null
  readonly external_member_id: string | null
  /** The external customer id of the subject. */
  readonly external_customer_id: string | null
  readonly customer: CustomerRow | null
  readonly correction: CorrectionRow | null
}

/** The correction of an event. */
interface CorrectionRow {
  readonly id: string
  readonly created_at: string
  readonly replacement_id: string | null
  readonly reason: string | null
}

const list = {
  table: 'usage_events',
  tenant: 'organization_id',
  id: 'id',
  counted: 'usage_events',
  sortable: { timestamp: { expression: '"timestamp"', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

/** The sources of events that a list reads. */
export type EventKind = 'user' | 'system' | 'both'

const lists: Record<EventKind, ListSpec<string>> = {
  user: list,
  system: { ...list, rows: eventRows('system') },
  both: { ...list, rows: eventRows('both'), besides: countOfSystemEvents },
}

/**
 * Subquery for the customer and the member that an event is shown with. In phase 2, the events of a seat holder are shown
 * with the buyer of the seat, and name the member.
 */
const shownWith = (scope: TenantScope): RawBuilder<unknown> => {
  const phase2 = enabled(scope)
  const moved =
    phase2.length === 0
      ? sql`(select null::uuid as customer_id, null::uuid as member_id)`
      : sql`(
        select moved.customer_id, moved.member_id from (select 1) one left join (
          select held.customer_id, held.member_id from customers holder cross join lateral (${movedFrom('holder')}) held
          where holder.organization_id = s.organization_id and holder.id = s.customer_id and holder.pure_holder and holder.organization_id = any(${phase2}::uuid[])
        ) moved on true)`
  return sql`
    select e.organization_id, coalesce(moved.customer_id, s.customer_id) as customer_id, coalesce(moved.member_id, u.member_id) as member_id from ${moved} moved`
}

/** Loads events by their ids, with their customers, members, texts, labels and numbers of children in one statement. */
const loadEvents = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedEvent[]> => {
  const customer = customerJson(scope, { organization_id: 'shown.organization_id', id: 'shown.customer_id' })
  const { rows } = await sql<LoadedEvent & { customer: Parameters<typeof customerFromJson>[0] | null }>`
    select e.organization_id, e.id, e.timestamp, e.name, e.source, e.metadata::text as metadata, e.parent_id,
      ${childCount} as child_count,
      t.prompt, t.response, coalesce(y.label, e.name) as label, y.label_property_selector,
      shown.member_id, coalesce(m.external_id, u.external_id) as external_member_id, s.external_id as external_customer_id,
      ${customer} as customer,
      case when r.id is not null then json_build_object('id', r.id, 'created_at', r.created_at, 'replacement_id', r.replacement_id, 'reason', r.reason) end as correction
    from usage_events e
    join usage_subjects s on s.organization_id = e.organization_id and s.id = e.subject_id
    left join usage_members u on u.organization_id = e.organization_id and u.id = e.member_ref
    left join usage_texts t on t.organization_id = e.organization_id and t.id = e.id
    left join usage_corrections r on r.organization_id = e.organization_id and r.event_id = e.id
    left join event_types y on y.organization_id = e.organization_id and y.name = e.name
    cross join lateral (${shownWith(scope)}) shown
    left join members m on m.organization_id = shown.organization_id and m.id = shown.member_id
    where e.organization_id = ${inScope(scope)} and e.id = ${oneOf(ids)}
    union all
    select e.organization_id, e.id, e.timestamp, e.name, 'system', (e.metadata || coalesce(e.personal, '{}'))::text, null, 0,
      null, null, e.name, null, shown.member_id, m.external_id, null, ${customer}, null
    from system_events e
    cross join lateral (select e.organization_id, e.customer_id) s
    cross join lateral (select e.member_id) u
    cross join lateral (${shownWith(scope)}) shown
    left join members m on m.organization_id = shown.organization_id and m.id = shown.member_id
    where e.organization_id = ${inScope(scope)} and e.id = ${oneOf(ids)}`.execute(db.q)
  return rows.map((row) => ({ ...row, customer: row.customer === null ? null : customerFromJson(row.customer) }))
}

export const findUsageEvent = async (db: Db, scope: TenantScope, id: string): Promise<LoadedEvent | undefined> => (await loadEvents(db, scope, [id]))[0]

/** Loads events in the order of their ids in `ids`. */
export const loadInOrder = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedEvent[]> => {
  if (ids.length === 0) return []
  const found = new Map((await loadEvents(db, scope, ids)).map((event) => [event.id, event]))
  return ids.flatMap((id) => found.get(id) ?? [])
}

export interface EventList {
  readonly items: LoadedEvent[]
  readonly total: number
  readonly next_cursor: string | null
}

/** The number of events of an organization that count and match conditions for their name and source, from the counts of names. */
const storedCount =
  (conditions: readonly RawBuilder<unknown>[]) =>
  (organization_id: string): RawBuilder<unknown> =>
    sql`
    select coalesce(sum(occurrences), 0)::bigint from usage_name_counts
    where organization_id = ${organization_id} and ${sql.join(conditions, sql` and `)}`

/**
 * Loads one page of events. Without `counted`, the matching events are not counted, and the total has no meaning. With `byName`, all
 * filters are conditions for name and source, so their stored counts give the total. The events are those that count, or with
 * `corrected` the others.
 */
export const listEvents = async (
  db: Db,
  scope: TenantScope,
  query: PageRequest & { readonly organization_id: readonly string[]; readonly sorting: readonly string[] },
  filters: readonly RawBuilder<unknown>[],
  { kind, counted, corrected, byName }: { readonly kind: EventKind; readonly counted: boolean; readonly corrected: boolean; readonly byName: boolean },
): Promise<EventList> => {
  const list = lists[kind]
  // The stored counter is the number of events that count.
  const always = corrected ? [] : [sql`corrected_at is null`]
  const conditions = corrected ? [sql`corrected_at is not null`, ...filters] : filters
  const all = counted ? always : [...always, ...conditions]
  const spec: ListSpec<string> =
    all.length === 0
      ? list
      : {
          ...list,
          ...(byName && !corrected ? { matching: storedCount(filters) } : {}),
          always: sql.join(
            all.map((one) => sql`(${one})`),
            sql` and `,
          ),
        }
  const applied: readonly Filter[] = counted ? conditions : []
  const { keys, total, next_cursor } = await listKeys(db, spec, organizationIds(scope, query.organization_id), query, applied)
  const rows =
    keys.length === 0
      ? []
      : await loadEvents(
          db,
          scope,
          keys.map(({ id }) => id),
        )
  return { items: inOrder(keys, rows, ({ id }) => id), total, next_cursor }
}
