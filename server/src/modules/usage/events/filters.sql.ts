import type { Aggregation, Filter } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { anyOf, containing, isOneOf, metadataHas } from '../../../platform/postgres/parts.sql.ts'
import { countedSql, filterSql } from '../../catalog/index.ts'

export interface EventFilters {
  readonly organization_id: readonly string[]
  readonly filter?: Filter | undefined
  readonly start_timestamp?: Date | undefined
  readonly end_timestamp?: Date | undefined
  readonly name: readonly string[]
  readonly source: readonly string[]
  readonly query?: string | undefined
  readonly parent_id?: string | undefined
  readonly depth?: number | undefined
  readonly metadata?: Readonly<Record<string, readonly string[]>> | undefined
}

/** Values of filters that are looked up before: the subjects of the named customers, and the named meter. */
export interface FoundFilters {
  /** One list for each filter of customers. An event must have a subject of each. */
  readonly subjects: readonly (readonly string[])[]
  /** True if a search also finds events by the name, address or external id of their customer. */
  readonly searchesCustomers?: boolean
  readonly meter?: { readonly organization_id: string; readonly filter: Filter; readonly aggregation: Aggregation } | undefined
}

/** Returns the conditions for the name and the source. They apply to events, and to the stored counts of names. */
export const nameConditions = ({ name, source }: Pick<EventFilters, 'name' | 'source'>): RawBuilder<unknown>[] => [
  ...anyOf('name', name, 'text'),
  ...anyOf('source', source, 'text'),
]

/** Returns the conditions of a list of events. Both bounds of time are exclusive. */
export const eventConditions = (
  scope: TenantScope,
  query: EventFilters,
  { subjects, meter, searchesCustomers = false }: FoundFilters,
): RawBuilder<unknown>[] => [
  ...(query.start_timestamp ? [sql`timestamp > ${query.start_timestamp}`] : []),
  ...(query.end_timestamp ? [sql`timestamp < ${query.end_timestamp}`] : []),
  ...nameConditions(query),
  ...subjects.map((ids) => isOneOf('subject_id', ids)),
  ...(query.filter ? [filterSql(query.filter)] : []),
  ...(meter ? [sql`organization_id = ${meter.organization_id}`, filterSql(meter.filter), countedSql(meter.aggregation)] : []),
  ...(query.query === undefined ? [] : [matching(scope, query, searchesCustomers)]),
  ...treeConditions(scope, query),
  ...metadataHas(query.metadata),
]

/** Conditions for the position in the tree of parents. A depth below a parent counts from that parent, otherwise from the root. */
const treeConditions = (scope: TenantScope, { parent_id, depth, organization_id }: EventFilters): RawBuilder<unknown>[] => {
  if (parent_id === undefined) return depth === undefined ? [] : [sql`depth <= ${depth}`]
  if (depth === 0) return [sql`false`]
  if (depth === undefined || depth === 1) return [sql`parent_id = ${parent_id}`]
  return [
    sql`id in (
      with recursive below as (
        select c.organization_id, c.id, 1 as level from usage_events c
        where c.organization_id = any(${organizationIds(scope, organization_id)}::uuid[]) and c.parent_id = ${parent_id}
        union all
        select c.organization_id, c.id, below.level + 1 from below
        join usage_events c on c.organization_id = below.organization_id and c.parent_id = below.id where below.level < ${depth}
      )
      select id from below)`,
  ]
}

/** Condition for events with a text in their name, source or metadata, in the external id they were sent with, or in the data of their customer. */
const matching = (scope: TenantScope, { query, organization_id }: EventFilters, searchesCustomers: boolean): RawBuilder<unknown> => {
  const pattern = containing(query!)
  const ids = organizationIds(scope, organization_id)
  // The metadata of system events contains the data of customers.
  if (!searchesCustomers)
    return sql`
      source <> 'system' and (name ilike ${pattern} or source ilike ${pattern} or metadata::text ilike ${pattern} or subject_id in (
        select id from usage_subjects where organization_id = any(${ids}::uuid[]) and external_id ilike ${pattern}))`
  return sql`
    name ilike ${pattern} or source ilike ${pattern} or metadata::text ilike ${pattern} or subject_id in (
      select s.id from usage_subjects s left join customers c on c.organization_id = s.organization_id and c.id = s.customer_id
      where s.organization_id = any(${ids}::uuid[])
        and (s.external_id ilike ${pattern} or c.name ilike ${pattern} or c.email ilike ${pattern} or c.external_id ilike ${pattern})
      union all
      select c.id from customers c where c.organization_id = any(${ids}::uuid[])
        and (c.name ilike ${pattern} or c.email ilike ${pattern} or c.external_id ilike ${pattern}))`
}
