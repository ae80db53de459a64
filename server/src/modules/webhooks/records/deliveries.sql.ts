import type { WebhookFormat } from '@bursar/contract'
import { sql, type Generated, type RawBuilder } from 'kysely'
import { later } from '../../../platform/clock.ts'
import type { Transact, Tx } from '../../../platform/postgres/postgres.ts'
import { dropEnded, dropUnneeded } from './sealed.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    webhook_deliveries: DeliveryTable
    webhook_attempts: AttemptTable
  }
}

export type DeliveryStatus = 'waiting' | 'delivered' | 'parked' | 'skipped'

interface DeliveryTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  endpoint_id: string
  event_id: string
  event_at: Date
  sequence: number
  kind: string
  lane: string
  status: DeliveryStatus
  attempts: number
  last_http_code: number | null
  /** True if the delivery sends the secrets of its event. Set to false when the delivery ends, so that a replay contains no secrets. */
  carries_secrets: Generated<boolean>
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

interface AttemptTable {
  organization_id: string
  id: string
  created_at: Date
  endpoint_id: string
  event_id: string
  event_at: Date
  kind: string
  succeeded: boolean
  http_code: number | null
  response: string | null
  duration_ms: number
}

/** Number of failed attempts after which a delivery no longer blocks its lane, unless the endpoint is strict. */
const maxBlockingAttempts = 5

interface Lane {
  readonly organization_id: string
  readonly endpoint_id: string
  readonly lane: string
}

/** Number of advisory lock keys that the lanes of an endpoint share. It bounds the number of locks, independent of the number of customers. */
const bunches = 256
/** Maximum number of deliveries created in one transaction, to bound the number of lane locks. */
const madeAtOnce = 500

/** Locks the lanes in a fixed order. Call this before locking any delivery of the lanes. One transaction at a time decides which delivery of a lane is next. */
const lockLanes = async (tx: Tx, lanes: RawBuilder<unknown>): Promise<void> => {
  await sql`select pg_advisory_xact_lock(key) from (
    select distinct hashtextextended(endpoint_id::text || (hashtextextended(lane::text, 0) & ${bunches - 1}), 0) as key from (${lanes}) l order by key offset 0) k`.execute(
    tx.q,
  )
}

/** Locks all lanes of an endpoint, including empty ones. */
const lockEveryLane = async (tx: Tx, { id }: Endpoint): Promise<void> => {
  await sql`select pg_advisory_xact_lock(key) from (
    select hashtextextended(${id}::text || bunch, 0) as key from generate_series(0, ${bunches - 1}) bunch order by key offset 0) k`.execute(tx.q)
}

const given = (lanes: readonly Lane[]) =>
  sql`select * from unnest(${lanes.map((one) => one.organization_id)}::uuid[], ${lanes.map((one) => one.endpoint_id)}::uuid[], ${lanes.map((one) => one.lane)}::uuid[]) as l (organization_id, endpoint_id, lane)`

/** Returns the maximum number of events of an organization to number and fan out in one transaction. More endpoints allow fewer events. */
export const roomForEvents = async (tx: Tx, organization_id: string): Promise<number> => {
  const { rows } = await sql<{
    count: number
  }>`select count(*) as count from webhook_endpoints where organization_id = ${organization_id} and deleted_at is null`.execute(tx.q)
  return Math.max(10, Math.floor(madeAtOnce / Math.max(1, rows[0]!.count)))
}

/**
 * Creates one delivery of each numbered event for each endpoint that subscribes to its kind. A delivery is due at once
 * unless an earlier delivery of the same lane blocks it. Deliveries to a disabled endpoint are parked. Locks the
 * endpoints in share mode, so that none is enabled or disabled during the transaction.
 */
export const fanOut = async (tx: Tx, organization_id: string, { after, upto }: { after: number; upto: number }, now: Date): Promise<void> => {
  const held = await sql`select id from webhook_endpoints where organization_id = ${organization_id} and deleted_at is null order by id for share`.execute(tx.q)
  if (held.rows.length === 0) return dropUnneeded(tx, organization_id, { after, upto })
  const wanted = sql`
    select w.id as endpoint_id, w.enabled, w.strict, coalesce(e.customer_id, e.resource_id) as lane, e.organization_id, e.id as event_id, e.wall_at as event_at, e.sequence, e.kind, e.secrets_sealed is not null as carries_secrets
    from events e join webhook_endpoints w on w.organization_id = e.organization_id and w.deleted_at is null and e.kind = any(w.events) and (not e.is_migration or w.migration_events)
    where e.organization_id = ${organization_id} and e.sequence > ${after} and e.sequence <= ${upto}`
  await lockLanes(tx, wanted)
  await sql`
    insert into webhook_deliveries (organization_id, id, created_at, endpoint_id, event_id, event_at, sequence, kind, lane, carries_secrets, status, due_at)
    select organization_id, gen_random_uuid(), ${now}::timestamptz, endpoint_id, event_id, event_at, sequence, kind, lane, carries_secrets,
      case when enabled then 'waiting' else 'parked' end,
      case when enabled and row_number() over (partition by endpoint_id, lane order by sequence) = 1 and not exists (
        select from webhook_deliveries b where b.organization_id = n.organization_id and b.endpoint_id = n.endpoint_id and b.lane = n.lane and b.status = 'waiting' and (b.attempts < ${maxBlockingAttempts} or n.strict)
      ) then ${now}::timestamptz end
    from (${wanted}) n
    on conflict (organization_id, endpoint_id, event_id) do nothing`.execute(tx.q)
  await dropUnneeded(tx, organization_id, { after, upto })
}

/**
 * Commits without waiting for the disk. A crash of the database may lose the last leases and results. The affected
 * deliveries are then sent again under the same id, which at-least-once delivery allows.
 */
const commitSoon = async (tx: Tx): Promise<void> => {
  await sql`set local synchronous_commit to off`.execute(tx.q)
}

/** Makes the first waiting delivery of each lane due, unless an earlier delivery still blocks the lane. Returns the number of due deliveries. */
const release = async (tx: Tx, lanes: RawBuilder<unknown>, now: Date): Promise<number> => {
  const { numAffectedRows } = await sql`
    update webhook_deliveries d set due_at = ${now}
    from (select distinct organization_id, endpoint_id, lane from (${lanes}) given) l
    cross join lateral (
      select x.organization_id, x.id, x.sequence from webhook_deliveries x
      where x.organization_id = l.organization_id and x.endpoint_id = l.endpoint_id and x.lane = l.lane and x.status = 'waiting' and x.due_at is null order by x.sequence limit 1
    ) x
    join webhook_endpoints w on w.organization_id = x.organization_id and w.id = l.endpoint_id and w.enabled and w.deleted_at is null
    where d.organization_id = x.organization_id and d.id = x.id and not exists (
      select from webhook_deliveries b
      where b.organization_id = l.organization_id and b.endpoint_id = l.endpoint_id and b.lane = l.lane and b.status = 'waiting' and b.sequence < x.sequence and (b.attempts < ${maxBlockingAttempts} or w.strict))`.execute(
    tx.q,
  )
  return Number(numAffectedRows ?? 0n)
}

export interface Claimed {
  organization_id: string
  id: string
  endpoint_id: string
  event_id: string
  event_at: Date
  sequence: number
  kind: string
  lane: string
  attempts: number
  lease_token: string
  lease_until: Date
  /** Maximum number of deliveries of the endpoint that the claim could take. */
  room: number
  url: string
  format: WebhookFormat
  /** True if the endpoint exists, is enabled and still subscribes to this kind. */
  wanted: boolean
  enabled: boolean
  failing_since: Date | null
  secret_sealed: string
  previous_sealed: string | null
  previous_secret_until: Date | null
  payload: string | null
  /** The sealed secrets of the payload. Null if this delivery sends no secrets. */
  secrets_sealed: string | null
}

/** Minimum number of deliveries that one claim takes of an endpoint, so that a claim needs few endpoints. */
const smallestShare = 4

/**
 * Leases due deliveries, with all data needed to send them. The limits per endpoint and per organization prevent that
 * one long queue, or many queues of one organization, block the others. `taken` counts deliveries in hand by endpoint
 * and by organization. The room of an organization is divided among its endpoints with due deliveries. If it is too
 * small for all of them, each claim selects other endpoints. The search continues after the endpoint that was served
 * last. Its cost depends on the number of endpoints with due deliveries and on `limit`, not on the length of the queues.
 */
export const claimDue = (
  transact: Transact,
  options: {
    holder: string
    token: string
    taken: ReadonlyMap<string, number>
    per_endpoint: number
    per_organization: number
    from: string
    limit: number
    lease_ms: number
  },
): Promise<Claimed[]> =>
  transact(async (tx) => {
    await commitSoon(tx)
    const now = tx.clock.wall()
    const taken = sql`unnest(${[...options.taken.keys()]}::uuid[], ${[...options.taken.values()]}::int[])`
    const { rows } = await sql<Claimed>`
      with recursive pending as (
        (select endpoint_id, organization_id from webhook_deliveries where due_at is not null order by endpoint_id limit 1)
        union all
        select n.endpoint_id, n.organization_id from pending p cross join lateral (
          select d.endpoint_id, d.organization_id from webhook_deliveries d where d.due_at is not null and d.endpoint_id > p.endpoint_id order by d.endpoint_id limit 1
        ) n
      ), roomy as (
        select p.endpoint_id, ${options.per_endpoint}::int - coalesce(e.count, 0) as room, ${options.per_organization}::int - coalesce(o.count, 0) as shared,
          greatest(${smallestShare}::int, (${options.per_organization}::int - coalesce(o.count, 0)) / count(*) over (partition by p.organization_id)) as share,
          row_number() over (partition by p.organization_id order by hashtextextended(p.endpoint_id::text, hashtext(${options.token}::text))) as place
        from pending p
        left join ${taken} as e (id, count) on e.id = p.endpoint_id
        left join ${taken} as o (id, count) on o.id = p.organization_id
        where coalesce(e.count, 0) < ${options.per_endpoint} and coalesce(o.count, 0) < ${options.per_organization}
      ), picked as (
        select d.organization_id, d.id, p.room from (
          select endpoint_id, least(room, share, shared - share * (place - 1)) as room from roomy
          where share * (place - 1) < shared
          order by endpoint_id <= ${options.from}::uuid, endpoint_id
        ) p cross join lateral (
          select organization_id, id from webhook_deliveries
          where endpoint_id = p.endpoint_id and due_at <= ${now} and clock_id is null and (lease_until is null or lease_until <= ${now})
          order by due_at limit p.room for update skip locked
        ) d limit ${options.limit}
      ), taken as (
        update webhook_deliveries d set lease_until = ${later(now, options.lease_ms)}, lease_token = ${options.token}, lease_holder = ${options.holder}
        from picked p where d.organization_id = p.organization_id and d.id = p.id
        returning d.organization_id, d.id, d.endpoint_id, d.event_id, d.event_at, d.sequence, d.kind, d.lane, d.attempts, d.carries_secrets, d.lease_token, d.lease_until, p.room
      )
      select t.*, w.url, w.format, w.enabled, w.failing_since, w.secret_sealed, w.previous_sealed, w.previous_secret_until,
        (w.enabled and w.deleted_at is null and t.kind = any(w.events)) as wanted, e.payload::text as payload,
        case when t.carries_secrets then e.secrets_sealed end as secrets_sealed
      from taken t
      join webhook_endpoints w on w.organization_id = t.organization_id and w.id = t.endpoint_id
      left join events e on e.organization_id = t.organization_id and e.id = t.event_id and e.wall_at = t.event_at
      order by t.sequence`.execute(tx.q)
    return rows
  })

export interface Outcome {
  readonly claimed: Claimed
  readonly status: DeliveryStatus
  /** Time of the next attempt, if the delivery is waiting. */
  readonly due_at: Date | null
  /** Result of the attempt. Null if no request was sent. */
  readonly attempt: {
    readonly id: string
    readonly at: Date
    readonly http_code: number | null
    readonly response: string
    readonly duration_ms: number
  } | null
}

/**
 * Records the results of many deliveries. A result is ignored if the worker has lost the lease of the delivery. A
 * delivery that was skipped or parked during the attempt keeps that status, unless the attempt succeeded. Finally makes
 * the next deliveries of the lanes due.
 */
export const record = (transact: Transact, outcomes: readonly Outcome[]): Promise<{ released: number; accepted: ReadonlySet<string> }> =>
  transact(async (tx) => {
    await commitSoon(tx)
    const now = tx.clock.wall()
    await lockLanes(tx, given(outcomes.map(({ claimed }) => claimed)))
    // Passes the results as one JSON text. Encoding arrays element by element in the driver would take most of the time.
    const results = outcomes.map(({ claimed, status, due_at, attempt }) => ({
      organization_id: claimed.organization_id,
      id: claimed.id,
      token: claimed.lease_token,
      status,
      ended: hasEnded(status, attempt !== null),
      due_at,
      attempt_id: attempt?.id,
      attempt_at: attempt?.at,
      http_code: attempt?.http_code,
      response: attempt?.response,
      duration_ms: attempt?.duration_ms,
    }))
    const { rows } = await sql<Lane & { id: string; over: boolean }>`
      with r as (
        select * from json_to_recordset(${JSON.stringify(results)}::json) as r (organization_id uuid, id uuid, token uuid, status text, ended boolean, due_at timestamptz,
          attempt_id uuid, attempt_at timestamptz, http_code smallint, response text, duration_ms integer)
      ), done as (
        update webhook_deliveries d set
          status = case when d.status = 'waiting' or r.status = 'delivered' then r.status else d.status end,
          due_at = case when d.status = 'waiting' and r.status = 'waiting' then r.due_at end,
          attempts = d.attempts + (r.attempt_id is not null)::int,
          last_http_code = case when r.attempt_id is null then d.last_http_code else r.http_code end,
          carries_secrets = d.carries_secrets and not r.ended,
          modified_at = ${now}, lease_until = null, lease_token = null, lease_holder = null
        from r where d.organization_id = r.organization_id and d.id = r.id and d.lease_token = r.token
        returning d.organization_id, d.id, d.endpoint_id, d.event_id, d.event_at, d.kind, d.lane, d.status, d.attempts
      ), tried as (
        insert into webhook_attempts (organization_id, id, created_at, endpoint_id, event_id, event_at, kind, succeeded, http_code, response, duration_ms)
        select d.organization_id, r.attempt_id, r.attempt_at, d.endpoint_id, d.event_id, d.event_at, d.kind, r.status = 'delivered', r.http_code, r.response, r.duration_ms
        from done d join r on r.organization_id = d.organization_id and r.id = d.id where r.attempt_id is not null
      )
      select organization_id, id, endpoint_id, lane, (status <> 'waiting' or attempts >= ${maxBlockingAttempts}) as over from done`.execute(tx.q)
    const ended = outcomes.filter(({ claimed, status, attempt }) => claimed.secrets_sealed !== null && hasEnded(status, attempt !== null))
    if (ended.length > 0)
      await dropEnded(
        tx,
        ended.map(({ claimed }) => claimed),
      )
    const over = rows.filter((row) => row.over)
    return { released: over.length === 0 ? 0 : await release(tx, given(over), now), accepted: new Set(rows.map(({ id }) => id)) }
  })

/**
 * Returns true if the delivery was delivered, skipped, or parked after its last retry. A delivery that is parked
 * because its endpoint is disabled has not ended.
 */
const hasEnded = (status: DeliveryStatus, tried: boolean): boolean => status === 'delivered' || status === 'skipped' || (status === 'parked' && tried)

interface Endpoint {
  readonly organization_id: string
  readonly id: string
}

const lanesOf = ({ organization_id, id }: Endpoint) =>
  sql`select distinct organization_id, endpoint_id, lane from webhook_deliveries where organization_id = ${organization_id} and endpoint_id = ${id} and status = 'waiting'`

/** Changes the status of an endpoint's deliveries. Handles one source status per statement, so that each statement can use an index. */
const move = async (
  tx: Tx,
  endpoint: Endpoint,
  from: 'waiting' | 'parked',
  to: DeliveryStatus,
  now: Date,
  condition: RawBuilder<unknown> = sql`true`,
): Promise<void> => {
  await sql`
    update webhook_deliveries set status = ${to}, due_at = null, modified_at = ${now}, carries_secrets = carries_secrets and ${to !== 'skipped'}
    where organization_id = ${endpoint.organization_id} and endpoint_id = ${endpoint.id} and status = ${sql.lit(from)} and ${condition}`.execute(tx.q)
}

/** Parks all waiting deliveries of the endpoint. They can be resumed later. */
export const parkAll = async (tx: Tx, endpoint: Endpoint, now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  await move(tx, endpoint, 'waiting', 'parked', now)
}

/** Skips all waiting and parked deliveries of the endpoint. They are never sent. */
export const skipAll = async (tx: Tx, endpoint: Endpoint, now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  for (const from of ['waiting', 'parked'] as const) await move(tx, endpoint, from, 'skipped', now)
}

/** Skips deliveries of kinds that the endpoint no longer subscribes to, and makes the next deliveries of the lanes due. */
export const skipKinds = async (tx: Tx, endpoint: Endpoint, wanted: readonly string[], now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  for (const from of ['waiting', 'parked'] as const) await move(tx, endpoint, from, 'skipped', now, sql`kind <> all(${wanted})`)
  await release(tx, lanesOf(endpoint), now)
}

/** Restarts parked deliveries in order, and resets their number of attempts. Revokes leases of earlier attempts, so that their results are ignored. */
export const resumeAll = async (tx: Tx, endpoint: Endpoint, now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  await sql`
    update webhook_deliveries set status = 'waiting', attempts = 0, due_at = null, modified_at = ${now}, lease_until = null, lease_token = null, lease_holder = null
    where organization_id = ${endpoint.organization_id} and endpoint_id = ${endpoint.id} and status = 'parked'`.execute(tx.q)
  await release(tx, lanesOf(endpoint), now)
}

/** Locks the lanes of an endpoint while `work` adds deliveries. Then makes the first delivery of each idle lane due. */
export const fillLanes = async <T>(tx: Tx, endpoint: Endpoint, now: Date, work: () => Promise<T>): Promise<T> => {
  await lockEveryLane(tx, endpoint)
  const done = await work()
  await release(tx, lanesOf(endpoint), now)
  return done
}

/**
 * Sends an event again to every enabled endpoint that has a delivery of it, regardless of the earlier result. The
 * delivery is due at once and blocks no lane. A delivery that waits in its lane or is being sent stays unchanged.
 */
export const redeliver = async (tx: Tx, organization_id: string, event_id: string, now: Date): Promise<number> => {
  const { rows } = await sql<{ again: boolean }>`
    update webhook_deliveries d set
      status = 'waiting', modified_at = ${now},
      attempts = case when d.status = 'waiting' then d.attempts else ${maxBlockingAttempts} end,
      due_at = case when d.status = 'waiting' and (d.due_at is null or d.lease_until is not null) then d.due_at else ${now} end
    from webhook_endpoints w
    where d.organization_id = ${organization_id} and d.event_id = ${event_id} and w.organization_id = d.organization_id and w.id = d.endpoint_id
      and w.enabled and w.deleted_at is null and d.kind = any(w.events)
    returning true as again`.execute(tx.q)
  return rows.length
}
