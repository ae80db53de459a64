import type { LoggedEvent, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { inOrder, listKeys, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { recordedBetween } from '../../../platform/postgres/logs.sql.ts'
import { anyOf, containing, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    webhook_replays: ReplayTable
  }
}

interface ReplayTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  endpoint_id: string
  next_sequence: number
  last_sequence: number
  since: Date | null
  include_delivered: boolean
  total: number
  queued: number
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

export interface EventQuery {
  readonly after: number
  readonly limit: number
  readonly type: readonly string[]
  readonly resource_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly start_timestamp?: Date | undefined
  readonly end_timestamp?: Date | undefined
}

/** Lists numbered events of one organization, ordered by number. */
export const listEvents = async (db: Db, organization_id: string, query: EventQuery): Promise<LoggedEvent[]> => {
  const conditions: RawBuilder<unknown>[] = [sql`organization_id = ${organization_id}`, sql`sequence > ${query.after}`]
  conditions.push(...anyOf('kind', query.type, 'text'), ...anyOf('resource_id', query.resource_id), ...anyOf('customer_id', query.customer_id))
  conditions.push(...recordedBetween('events', organization_id, { start: query.start_timestamp, end: query.end_timestamp }))
  const { rows } = await sql<LoggedEvent>`
    select id, sequence, kind as type, organization_id, resource_id, customer_id, api_version, business_at as occurred_at, wall_at as recorded_at, payload::text as payload
    from events where ${sql.join(conditions, sql` and `)} order by sequence limit ${Math.min(query.limit, 100)}`.execute(db.q)
  return rows
}

export const findEvent = async (
  db: Db,
  scope: TenantScope,
  id: string,
): Promise<{ organization_id: string; sequence: number | null; archived: boolean } | undefined> => {
  const { rows } = await sql<{ organization_id: string; sequence: number | null; archived: boolean }>`
    select organization_id, sequence, payload is null as archived from events where organization_id = ${inScope(scope)} and id = ${id}`.execute(db.q)
  return rows[0]
}

const attempts = {
  table: 'webhook_attempts',
  counted: 'webhook_attempts',
  tenant: 'organization_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} as const satisfies ListSpec<string>

export interface AttemptQuery extends PageRequest {
  readonly endpoint_id: readonly string[]
  readonly event_id: readonly string[]
  readonly start_timestamp?: Date | undefined
  readonly end_timestamp?: Date | undefined
  readonly succeeded?: boolean | undefined
  readonly query?: string | undefined
  readonly http_code_class?: string | undefined
  readonly event_type: readonly string[]
}

export interface AttemptRow {
  id: string
  created_at: Date
  succeeded: boolean
  http_code: number | null
  response: string | null
  duration_ms: number
  endpoint_id: string
  event_id: string
  event_at: Date
  kind: string
  status: string
  last_http_code: number | null
  event_modified_at: Date | null
  customer_id: string | null
  payload: string | null
}

export const listAttempts = async (db: Db, scope: TenantScope, query: AttemptQuery) => {
  const filters = [...anyOf('endpoint_id', query.endpoint_id), ...anyOf('event_id', query.event_id), ...anyOf('kind', query.event_type, 'text')]
  if (query.start_timestamp) filters.push(sql`created_at > ${query.start_timestamp}`)
  if (query.end_timestamp) filters.push(sql`created_at < ${query.end_timestamp}`)
  if (query.succeeded !== undefined) filters.push(sql`succeeded = ${query.succeeded}`)
  if (query.http_code_class) filters.push(sql`http_code / 100 = ${Number(query.http_code_class[0])}`)
  if (query.query) filters.push(mentions(query.query))
  const { keys, total, next_cursor } = await listKeys(db, attempts, organizationIds(scope), { ...query, sorting: ['-created_at'] }, filters)
  if (keys.length === 0) return { items: [], total, next_cursor }
  const { rows } = await sql<AttemptRow>`
    select a.id, a.created_at, a.succeeded, a.http_code, a.response, a.duration_ms, a.endpoint_id, a.event_id, a.event_at, a.kind,
      d.status, d.last_http_code, d.modified_at as event_modified_at, e.customer_id, e.payload::text as payload
    from webhook_attempts a
    join webhook_deliveries d on d.organization_id = a.organization_id and d.endpoint_id = a.endpoint_id and d.event_id = a.event_id
    left join events e on e.organization_id = a.organization_id and e.id = a.event_id and e.wall_at = a.event_at
    where a.organization_id = ${inScope(scope)} and a.id = any(${keys.map(({ id }) => id)}::uuid[])`.execute(db.q)
  return { items: inOrder(keys, rows, ({ id }) => id), total, next_cursor }
}

/** Matches part of the id of an attempt or its event, or of the HTTP status. A complete id uses the index. A part of an id requires a scan of all attempts. */
const mentions = (text: string): RawBuilder<unknown> => {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return sql`(id = ${text}::uuid or event_id = ${text}::uuid)`
  if (!/^[0-9a-f-]+$/i.test(text)) return sql`false`
  const pattern = containing(text)
  return sql`(id::text ilike ${pattern} or event_id::text ilike ${pattern} or http_code::text like ${pattern})`
}

export interface ReplayRange {
  readonly organization_id: string
  readonly endpoint_id: string
  readonly from: number
  readonly to: number
  readonly since: Date | null
  readonly include_delivered: boolean
}

/** Selects the events of a replay: those that the endpoint subscribes to and whose payload is still stored. Delivered events are included only on request. */
const replayable = (range: ReplayRange) => sql`
  from events e
  join webhook_endpoints w on w.organization_id = e.organization_id and w.id = ${range.endpoint_id} and w.deleted_at is null and e.kind = any(w.events) and (not e.is_migration or w.migration_events)
  left join webhook_deliveries d on d.organization_id = e.organization_id and d.endpoint_id = w.id and d.event_id = e.id
  where e.organization_id = ${range.organization_id} and e.sequence between ${range.from} and ${range.to} and e.payload is not null
    and (${range.since}::timestamptz is null or e.wall_at >= ${range.since}::timestamptz)
    and (d.id is null or d.status in ('parked', 'skipped') or (d.status = 'delivered' and ${range.include_delivered}))`

export const countReplayable = async (db: Db, range: ReplayRange): Promise<number> => {
  const { rows } = await sql<{ count: number }>`select count(*) as count ${replayable(range)}`.execute(db.q)
  return rows[0]!.count
}

export const insertReplay = async (tx: Tx, replay: Omit<ReplayTable, 'lease_until' | 'lease_token' | 'lease_holder' | 'clock_id'>): Promise<void> => {
  await tx.q
    .insertInto('webhook_replays')
    .values({ ...replay, clock_id: null, lease_until: null, lease_token: null, lease_holder: null })
    .execute()
}

export const findReplay = (db: Db, organization_id: string, id: string) =>
  db.q.selectFrom('webhook_replays').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Queues the next events of a replay for delivery, oldest first. Returns the number of queued events and the number of the last event. */
export const queueReplay = async (tx: Tx, range: ReplayRange, most: number, now: Date): Promise<{ queued: number; last: number | null }> => {
  const { rows } = await sql<{ sequence: number }>`
    with chosen as (
      select e.organization_id, e.id as event_id, e.wall_at, e.sequence, e.kind, coalesce(e.customer_id, e.resource_id) as lane ${replayable(range)}
      order by e.sequence limit ${most}
    )
    insert into webhook_deliveries (organization_id, id, created_at, endpoint_id, event_id, event_at, sequence, kind, lane, status)
    select organization_id, gen_random_uuid(), ${now}::timestamptz, ${range.endpoint_id}, event_id, wall_at, sequence, kind, lane, 'waiting' from chosen
    on conflict (organization_id, endpoint_id, event_id) do update set status = 'waiting', attempts = 0, due_at = null, modified_at = ${now}
    returning sequence`.execute(tx.q)
  return { queued: rows.length, last: rows.reduce<number | null>((most, row) => Math.max(most ?? 0, row.sequence), null) }
}

export const advanceReplay = async (tx: Tx, organization_id: string, id: string, next_sequence: number, queued: number, now: Date): Promise<void> => {
  await sql`
    update webhook_replays set next_sequence = ${next_sequence}, queued = queued + ${queued}, modified_at = ${now}
    where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
}

/** Creates the table partitions of the next months. */
export const ensureParts = async (tx: Tx, today: Date): Promise<void> => {
  await sql`select ensure_parts(${today}::date)`.execute(tx.q)
}

/** Drops the payloads of old events that no delivery waits for, and keeps the rows. Returns the number of changed events. */
export const archivePayloads = async (tx: Tx, before: Date, most: number): Promise<number> => {
  const { numAffectedRows } = await sql`
    update events set payload = null, secrets_sealed = null where (organization_id, id, wall_at) in (
      select e.organization_id, e.id, e.wall_at from events e
      where e.wall_at < ${before} and e.payload is not null
        and not exists (select from webhook_deliveries d where d.organization_id = e.organization_id and d.event_id = e.id and d.status in ('waiting', 'parked'))
      limit ${most})`.execute(tx.q)
  return Number(numAffectedRows ?? 0n)
}
