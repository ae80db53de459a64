import type { WebhookDeliveryStatus } from '@bursar/contract'
import { sql } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'

interface Owned {
  readonly organization_id: string
  readonly id: string
}

/** Attempts and deliveries that are read at most, so that the work does not grow with the history of an endpoint. */
const mostRows = 10_000

export interface AttemptFigures {
  /** The day in UTC. Null for all days together. */
  readonly day: string | null
  readonly total: number
  readonly succeeded: number
  readonly p50: number | null
  readonly p95: number | null
}

/** Summarises the latest attempts of an endpoint since a moment: for each day, and for all days together. */
export const summariseAttempts = async (db: Db, { organization_id, id }: Owned, since: Date): Promise<{ figures: AttemptFigures[]; complete: boolean }> => {
  const { rows } = await sql<AttemptFigures>`
    select to_char(day, 'YYYY-MM-DD') as day, count(*) as total, count(*) filter (where succeeded) as succeeded,
      percentile_disc(0.5) within group (order by duration_ms) as p50, percentile_disc(0.95) within group (order by duration_ms) as p95
    from (
      select (created_at at time zone 'UTC')::date as day, succeeded, duration_ms from webhook_attempts
      where organization_id = ${organization_id} and endpoint_id = ${id} and created_at >= ${since} order by created_at desc limit ${mostRows}
    ) a group by grouping sets ((), (day)) order by day nulls first`.execute(db.q)
  return { figures: rows, complete: (rows[0]?.total ?? 0) < mostRows }
}

export interface Backlog {
  readonly undelivered: number
  readonly oldest_undelivered_at: Date | null
  readonly next_attempt_at: Date | null
}

/** Returns what an endpoint has not received yet. Counts up to 10,000 deliveries, and of them returns the oldest. */
export const findBacklog = async (db: Db, { organization_id, id }: Owned): Promise<Backlog> => {
  const undelivered = (status: string) => sql`
    (select event_at from webhook_deliveries where organization_id = ${organization_id} and endpoint_id = ${id} and status = ${sql.lit(status)} limit ${mostRows})`
  const { rows } = await sql<Backlog>`
    select least(count(*), ${mostRows}) as undelivered, min(event_at) as oldest_undelivered_at,
      (select min(due_at) from webhook_deliveries where endpoint_id = ${id} and due_at is not null) as next_attempt_at
    from (${undelivered('waiting')} union all ${undelivered('parked')}) d`.execute(db.q)
  return rows[0]!
}

export interface DeliveryState {
  readonly event_id: string
  readonly sequence: number
  readonly type: string
  readonly resource_id: string | null
  readonly customer_id: string | null
  readonly recorded_at: Date
  readonly status: WebhookDeliveryStatus
  readonly attempts: number
  readonly last_http_code: number | null
  readonly next_attempt_at: Date | null
  readonly modified_at: Date | null
}

/**
 * Lists the latest events of an endpoint with the state of their deliveries, newest first. Looks at the latest 10,000
 * events before `before`, also if none of them has the status. Returns the number before which the next page begins.
 */
export const listStates = async (
  db: Db,
  { organization_id, id }: Owned,
  { status, before, limit }: { status?: WebhookDeliveryStatus | undefined; before?: number | undefined; limit: number },
): Promise<{ items: DeliveryState[]; next_before: number | null }> => {
  const { rows } = await sql<DeliveryState & { last_seen: number; seen: number }>`
    with seen as (
      select *, case when status = 'waiting' and attempts > 0 then 'retrying' else status end as state from webhook_deliveries
      where organization_id = ${organization_id} and endpoint_id = ${id} and sequence < ${before ?? Number.MAX_SAFE_INTEGER} order by sequence desc limit ${mostRows}
    ), page as (
      select * from seen where ${status ?? null}::text is null or state = ${status ?? null}::text order by sequence desc limit ${limit + 1}
    ), bounds as (select min(sequence) as last_seen, count(*) as seen from seen)
    select p.event_id, p.sequence, p.kind as type, e.resource_id, e.customer_id, p.event_at as recorded_at, p.state as status, p.attempts, p.last_http_code,
      p.due_at as next_attempt_at, p.modified_at, b.last_seen, b.seen
    from bounds b left join page p on true
    left join events e on e.organization_id = ${organization_id} and e.id = p.event_id and e.wall_at = p.event_at
    order by p.sequence desc nulls last`.execute(db.q)
  const found = rows.filter((row) => row.event_id !== null)
  const items = found.slice(0, limit).map(({ last_seen: _, seen: __, ...state }) => state)
  const rest = rows[0] !== undefined && rows[0].seen === mostRows ? rows[0].last_seen : null
  return { items, next_before: found.length > limit ? items.at(-1)!.sequence : rest }
}
