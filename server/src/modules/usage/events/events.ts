import { InvalidRequest, systemEventLabels, type EventPage, type SystemEvent, type UsageEvent } from '@bursar/contract'
import { paginate, type PageRequest } from '@bursar/contract'
import type { z } from 'zod'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { findMeter } from '../../catalog/index.ts'
import { presentCustomer } from '../../customers/index.ts'
import { labelOf, presentMetadata } from '../calc/metadata.ts'
import type { CopyReader } from '../copies/asking.ts'
import { findSubjects } from '../records/subjects.sql.ts'
import { listFromCopy } from './copied.ts'
import { listEvents, loadInOrder, type EventKind, type LoadedEvent } from './events.sql.ts'
import { eventConditions, nameConditions, type EventFilters } from './filters.sql.ts'

/** Presents an event in the API's format. Without `showsCustomers`, leaves out the data of its customer. */
export const presentEvent = (row: LoadedEvent, showsCustomers: boolean): UsageEvent => {
  const fields = commonOf(row, showsCustomers)
  if (row.source === 'system')
    // The name determines the form of the metadata, which the triggers write. TypeScript cannot see this.
    return {
      ...fields,
      label: systemEventLabels.get(row.name) ?? row.name,
      source: 'system',
      name: row.name,
      metadata: systemMetadata(row, showsCustomers),
    } as SystemEvent
  const metadata = presentMetadata(row.metadata, row)
  return {
    ...fields,
    label: labelOf(row.label, row.label_property_selector, metadata),
    name: row.name,
    source: 'user',
    metadata,
    correction: row.correction && { ...row.correction, created_at: new Date(row.correction.created_at), event_id: row.id },
  }
}

/** The metadata about a person after an erasure. */
const erased: Readonly<Record<string, object>> = {
  'customer.created': { customer_email: null, customer_name: null, customer_external_id: null },
  'customer.updated': { customer_email: null, customer_name: null, customer_external_id: null, updated_fields: {} },
  'customer.deleted': { customer_email: null, customer_name: null, customer_external_id: null },
}

const systemMetadata = ({ name, metadata }: LoadedEvent, showsCustomers: boolean): object => {
  const stored = { ...erased[name], ...(JSON.parse(metadata) as object) }
  if (showsCustomers) return stored
  const { customer_cancellation_comment: _, ...others } = stored as Record<string, unknown>
  return { ...others, ...erased[name] }
}

const commonOf = (row: LoadedEvent, showsCustomers: boolean) => {
  return {
    id: row.id,
    timestamp: row.timestamp,
    organization_id: row.organization_id,
    customer_id: row.customer?.id ?? null,
    customer: showsCustomers && row.customer ? presentCustomer(row.customer) : null,
    external_customer_id: row.customer?.external_id ?? row.external_customer_id,
    member_id: row.member_id,
    external_member_id: row.external_member_id,
    child_count: row.child_count,
    parent_id: row.parent_id,
  }
}

export interface CustomerFilters {
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
}

/** Looks up the subjects of the customers that a list is filtered by, one list for each filter. */
export const subjectFilters = async (db: Db, scope: TenantScope, { customer_id, external_customer_id }: CustomerFilters): Promise<string[][]> => {
  const found: string[][] = []
  if (customer_id.length > 0) found.push(await findSubjects(db, scope, { id: customer_id }))
  if (external_customer_id.length > 0) found.push(await findSubjects(db, scope, { external_id: external_customer_id }))
  return found
}

type EventQuery = EventFilters &
  CustomerFilters &
  PageRequest & {
    readonly meter_id?: string | undefined
    readonly sorting: readonly string[]
    readonly cursor_pagination?: boolean | undefined
    readonly corrected?: boolean | undefined
  }

/**
 * True if the copy can answer. It does not know the parents of events, the names of customers, and the events that were corrected. PostgreSQL has
 * indexes for the others, and stored counts.
 */
const isForCopy = (query: EventQuery): boolean =>
  query.corrected !== true &&
  query.query === undefined &&
  query.parent_id === undefined &&
  query.depth === undefined &&
  (query.filter !== undefined ||
    query.meter_id !== undefined ||
    query.customer_id.length > 0 ||
    query.external_customer_id.length > 0 ||
    Object.keys(query.metadata ?? {}).length > 0 ||
    query.start_timestamp !== undefined ||
    query.end_timestamp !== undefined)

/**
 * Returns the sources of events that a list contains. Filters by meter, metadata, parent and correction select events of sellers,
 * so the list then reads no system events. Returns undefined if no event can match.
 */
const kindOf = (query: EventQuery): EventKind | undefined => {
  const isOfSellers =
    query.filter !== undefined ||
    query.meter_id !== undefined ||
    query.parent_id !== undefined ||
    query.corrected === true ||
    Object.keys(query.metadata ?? {}).length > 0
  const wanted = (source: string) => query.source.length === 0 || query.source.includes(source)
  if (isOfSellers || !wanted('system')) return wanted('user') ? 'user' : undefined
  return wanted('user') ? 'both' : 'system'
}

/** True if a list may read all events of its organizations, because no index answers one of its filters. */
export const isScan = ({ query, filter, meter_id, metadata }: EventQuery): boolean =>
  query !== undefined || filter !== undefined || meter_id !== undefined || Object.keys(metadata ?? {}).length > 0

/** Lists events. Without `showsCustomers`, neither shows nor searches the data of customers. With `cursor_pagination`, the matching events are not counted. The reader asks the copy of the events, if there is one. */
export const listUsageEvents = async (
  db: Db,
  scope: TenantScope,
  query: EventQuery,
  showsCustomers: boolean,
  reader?: CopyReader,
): Promise<z.output<typeof EventPage>> => {
  if (query.query !== undefined && organizationIds(scope, query.organization_id).length > 1)
    throw new InvalidRequest({
      loc: ['query', 'organization_id'],
      msg: 'A search reads the events of one organization. Send its id as organization_id.',
      type: 'missing',
    })
  const meter = query.meter_id === undefined ? undefined : await findMeter(db, scope, query.meter_id)
  if (query.meter_id !== undefined && !meter)
    throw new InvalidRequest({
      loc: ['query', 'meter_id'],
      msg: 'There is no meter with this id. Send the id of one of your meters.',
      type: 'value_error',
      input: query.meter_id,
    })
  const kind = kindOf(query)
  if (kind === undefined) return query.cursor_pagination ? { items: [], pagination: { has_next_page: false, next_cursor: null } } : paginate(query, [], 0, null)
  const subjects = await subjectFilters(db, scope, query)
  const conditions = eventConditions(scope, query, { subjects, meter, searchesCustomers: showsCustomers })
  const byName = conditions.length > 0 && conditions.length === nameConditions(query).length
  const counted = !query.cursor_pagination
  const copied =
    reader && kind !== 'system' && isForCopy(query) && !byName
      ? await listFromCopy(db, reader, scope, query, { subjects, ...(meter && { meter }) }, conditions, { kind, counted })
      : undefined
  const { items, total, next_cursor } = copied
    ? { ...copied, items: await loadInOrder(db, scope, copied.ids) }
    : await listEvents(db, scope, query, conditions, { kind, counted, corrected: query.corrected ?? false, byName })
  const shown = items.map((row) => presentEvent(row, showsCustomers))
  return query.cursor_pagination
    ? { items: shown, pagination: { has_next_page: next_cursor !== null, next_cursor } }
    : paginate(query, shown, total, next_cursor)
}
