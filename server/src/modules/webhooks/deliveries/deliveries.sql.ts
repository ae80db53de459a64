import type { WebhookFormat } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { later } from '../../../platform/clock.ts'
import type { Transact, Tx } from '../../../platform/postgres/postgres.ts'

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

/** After so many attempts an event no longer holds up those behind it, unless its endpoint is strict. */
const patience = 5

interface Lane {
  readonly organization_id: string
  readonly endpoint_id: string
  readonly lane: string
}

/** Lanes of an endpoint are held in so many bunches: however many customers there are, the locks that the database must remember are few. */
const bunches = 256
/** How many deliveries are made at a time, for the same reason. */
const madeAtOnce = 500

/** Holds the lanes, in one order for all, before any of their rows: whether it is an event's turn is decided by one transaction at a time. */
const lockLanes = async (tx: Tx, lanes: RawBuilder<unknown>): Promise<void> => {
  await sql`select pg_advisory_xact_lock(key) from (
    select distinct hashtextextended(endpoint_id::text || (hashtextextended(lane::text, 0) & ${bunches - 1}), 0) as key from (${lanes}) l order by key offset 0) k`.execute(
    tx.q,
  )
}

/** All of them, whatever waits there. */
const lockEveryLane = async (tx: Tx, { id }: Endpoint): Promise<void> => {
  await sql`select pg_advisory_xact_lock(key) from (
    select hashtextextended(${id}::text || bunch, 0) as key from generate_series(0, ${bunches - 1}) bunch order by key offset 0) k`.execute(tx.q)
}

const given = (lanes: readonly Lane[]) =>
  sql`select * from unnest(${lanes.map((one) => one.organization_id)}::uuid[], ${lanes.map((one) => one.endpoint_id)}::uuid[], ${lanes.map((one) => one.lane)}::uuid[]) as l (organization_id, endpoint_id, lane)`

/** How many events of an organization may be numbered and fanned out together. */
export const roomForEvents = async (tx: Tx, organization_id: string): Promise<number> => {
  const { rows } = await sql<{
    count: number
  }>`select count(*) as count from webhook_endpoints where organization_id = ${organization_id} and deleted_at is null`.execute(tx.q)
  return Math.max(10, Math.floor(madeAtOnce / Math.max(1, rows[0]!.count)))
}

/**
 * Makes one delivery of each numbered event for each endpoint that wants its kind. An event is due at once unless
 * another of its lane is before it; an endpoint that is off keeps its events parked. Endpoints are held, so that none is
 * switched on or off meanwhile.
 */
export const fanOut = async (tx: Tx, organization_id: string, { after, upto }: { after: number; upto: number }, now: Date): Promise<void> => {
  const held = await sql`select id from webhook_endpoints where organization_id = ${organization_id} and deleted_at is null order by id for share`.execute(tx.q)
  if (held.rows.length === 0) return
  const wanted = sql`
    select w.id as endpoint_id, w.enabled, w.strict, coalesce(e.customer_id, e.resource_id) as lane, e.organization_id, e.id as event_id, e.wall_at as event_at, e.sequence, e.kind
    from events e join webhook_endpoints w on w.organization_id = e.organization_id and w.deleted_at is null and e.kind = any(w.events) and (not e.is_migration or w.migration_events)
    where e.organization_id = ${organization_id} and e.sequence > ${after} and e.sequence <= ${upto}`
  await lockLanes(tx, wanted)
  await sql`
    insert into webhook_deliveries (organization_id, id, created_at, endpoint_id, event_id, event_at, sequence, kind, lane, status, due_at)
    select organization_id, gen_random_uuid(), ${now}::timestamptz, endpoint_id, event_id, event_at, sequence, kind, lane,
      case when enabled then 'waiting' else 'parked' end,
      case when enabled and row_number() over (partition by endpoint_id, lane order by sequence) = 1 and not exists (
        select from webhook_deliveries b where b.organization_id = n.organization_id and b.endpoint_id = n.endpoint_id and b.lane = n.lane and b.status = 'waiting' and (b.attempts < ${patience} or n.strict)
      ) then ${now}::timestamptz end
    from (${wanted}) n
    on conflict (organization_id, endpoint_id, event_id) do nothing`.execute(tx.q)
}

/**
 * Does not wait for the disk: a database that falls over forgets who was sending what, and which of it had arrived, of
 * the last moments. It is then sent again, under the same id, which is what receivers are promised anyway.
 */
const commitSoon = async (tx: Tx): Promise<void> => {
  await sql`set local synchronous_commit to off`.execute(tx.q)
}

/** Gives the turn to the first of each lane that waits without one, unless somebody before it still holds it up. */
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
      where b.organization_id = l.organization_id and b.endpoint_id = l.endpoint_id and b.lane = l.lane and b.status = 'waiting' and b.sequence < x.sequence and (b.attempts < ${patience} or w.strict))`.execute(
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
  url: string
  format: WebhookFormat
  /** On, there, and still wants this kind. */
  wanted: boolean
  enabled: boolean
  failing_since: Date | null
  secret_sealed: string
  previous_sealed: string | null
  previous_secret_until: Date | null
  payload: string | null
}

/**
 * Takes due deliveries, of each endpoint no more than it has room for, so that one with a long queue leaves room for the
 * others; and beginning behind the endpoint that was served last. What is needed to send them comes along.
 */
export const claimDue = (
  transact: Transact,
  options: { holder: string; token: string; under: ReadonlyMap<string, number>; from: string; each: number; limit: number; lease_ms: number },
): Promise<Claimed[]> =>
  transact(async (tx) => {
    await commitSoon(tx)
    const now = tx.clock.wall()
    const { rows } = await sql<Claimed>`
      with recursive pending as (
        (select endpoint_id from webhook_deliveries where due_at is not null order by endpoint_id limit 1)
        union all
        select (select d.endpoint_id from webhook_deliveries d where d.due_at is not null and d.endpoint_id > p.endpoint_id order by d.endpoint_id limit 1)
        from pending p where p.endpoint_id is not null
      ), picked as (
        select d.organization_id, d.id from (
          select p.endpoint_id, ${options.each} - coalesce(u.count, 0) as room from pending p
          left join unnest(${[...options.under.keys()]}::uuid[], ${[...options.under.values()]}::int[]) as u (endpoint_id, count) on u.endpoint_id = p.endpoint_id
          where p.endpoint_id is not null and coalesce(u.count, 0) < ${options.each}
          order by p.endpoint_id <= ${options.from}::uuid, p.endpoint_id
        ) p cross join lateral (
          select organization_id, id from webhook_deliveries
          where endpoint_id = p.endpoint_id and due_at <= ${now} and clock_id is null and (lease_until is null or lease_until <= ${now})
          order by due_at limit p.room for update skip locked
        ) d limit ${options.limit}
      ), taken as (
        update webhook_deliveries d set lease_until = ${later(now, options.lease_ms)}, lease_token = ${options.token}, lease_holder = ${options.holder}
        from picked p where d.organization_id = p.organization_id and d.id = p.id
        returning d.organization_id, d.id, d.endpoint_id, d.event_id, d.event_at, d.sequence, d.kind, d.lane, d.attempts, d.lease_token, d.lease_until
      )
      select t.*, w.url, w.format, w.enabled, w.failing_since, w.secret_sealed, w.previous_sealed, w.previous_secret_until,
        (w.enabled and w.deleted_at is null and t.kind = any(w.events)) as wanted, e.payload::text as payload
      from taken t
      join webhook_endpoints w on w.organization_id = t.organization_id and w.id = t.endpoint_id
      left join events e on e.organization_id = t.organization_id and e.id = t.event_id and e.wall_at = t.event_at
      order by t.sequence`.execute(tx.q)
    return rows
  })

export interface Outcome {
  readonly claimed: Claimed
  readonly status: DeliveryStatus
  /** When to try again, where it waits. */
  readonly due_at: Date | null
  /** What came of it; nothing where it was not tried. */
  readonly attempt: {
    readonly id: string
    readonly at: Date
    readonly http_code: number | null
    readonly response: string
    readonly duration_ms: number
  } | null
}

/**
 * Writes down what came of many deliveries at once. Each counts only under the lease it was made under; what was skipped
 * or parked meanwhile stays so, unless it has arrived. Then the lanes move on.
 */
export const record = (transact: Transact, outcomes: readonly Outcome[]): Promise<{ released: number; accepted: ReadonlySet<string> }> =>
  transact(async (tx) => {
    await commitSoon(tx)
    const now = tx.clock.wall()
    await lockLanes(tx, given(outcomes.map(({ claimed }) => claimed)))
    // As one text: the driver writes lists element by element, which takes longer than all the rest.
    const results = outcomes.map(({ claimed, status, due_at, attempt }) => ({
      organization_id: claimed.organization_id,
      id: claimed.id,
      token: claimed.lease_token,
      status,
      due_at,
      attempt_id: attempt?.id,
      attempt_at: attempt?.at,
      http_code: attempt?.http_code,
      response: attempt?.response,
      duration_ms: attempt?.duration_ms,
    }))
    const { rows } = await sql<Lane & { id: string; over: boolean }>`
      with r as (
        select * from json_to_recordset(${JSON.stringify(results)}::json) as r (organization_id uuid, id uuid, token uuid, status text, due_at timestamptz,
          attempt_id uuid, attempt_at timestamptz, http_code smallint, response text, duration_ms integer)
      ), done as (
        update webhook_deliveries d set
          status = case when d.status = 'waiting' or r.status = 'delivered' then r.status else d.status end,
          due_at = case when d.status = 'waiting' and r.status = 'waiting' then r.due_at end,
          attempts = d.attempts + (r.attempt_id is not null)::int,
          last_http_code = case when r.attempt_id is null then d.last_http_code else r.http_code end,
          modified_at = ${now}, lease_until = null, lease_token = null, lease_holder = null
        from r where d.organization_id = r.organization_id and d.id = r.id and d.lease_token = r.token
        returning d.organization_id, d.id, d.endpoint_id, d.event_id, d.event_at, d.kind, d.lane, d.status, d.attempts
      ), tried as (
        insert into webhook_attempts (organization_id, id, created_at, endpoint_id, event_id, event_at, kind, succeeded, http_code, response, duration_ms)
        select d.organization_id, r.attempt_id, r.attempt_at, d.endpoint_id, d.event_id, d.event_at, d.kind, r.status = 'delivered', r.http_code, r.response, r.duration_ms
        from done d join r on r.organization_id = d.organization_id and r.id = d.id where r.attempt_id is not null
      )
      select organization_id, id, endpoint_id, lane, (status <> 'waiting' or attempts >= ${patience}) as over from done`.execute(tx.q)
    const over = rows.filter((row) => row.over)
    return { released: over.length === 0 ? 0 : await release(tx, given(over), now), accepted: new Set(rows.map(({ id }) => id)) }
  })

interface Endpoint {
  readonly organization_id: string
  readonly id: string
}

const lanesOf = ({ organization_id, id }: Endpoint) =>
  sql`select distinct organization_id, endpoint_id, lane from webhook_deliveries where organization_id = ${organization_id} and endpoint_id = ${id} and status = 'waiting'`

/** One status at a time, so that each statement has an index to go by. */
const move = async (
  tx: Tx,
  endpoint: Endpoint,
  from: 'waiting' | 'parked',
  to: DeliveryStatus,
  now: Date,
  condition: RawBuilder<unknown> = sql`true`,
): Promise<void> => {
  await sql`
    update webhook_deliveries set status = ${to}, due_at = null, modified_at = ${now}
    where organization_id = ${endpoint.organization_id} and endpoint_id = ${endpoint.id} and status = ${sql.lit(from)} and ${condition}`.execute(tx.q)
}

/** Nothing is sent any more; everything is kept. */
export const parkAll = async (tx: Tx, endpoint: Endpoint, now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  await move(tx, endpoint, 'waiting', 'parked', now)
}

/** Nothing is sent any more, and nothing will be. */
export const skipAll = async (tx: Tx, endpoint: Endpoint, now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  for (const from of ['waiting', 'parked'] as const) await move(tx, endpoint, from, 'skipped', now)
}

/** What is not wanted any more is passed over, and its lanes move on. */
export const skipKinds = async (tx: Tx, endpoint: Endpoint, wanted: readonly string[], now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  for (const from of ['waiting', 'parked'] as const) await move(tx, endpoint, from, 'skipped', now, sql`kind <> all(${wanted})`)
  await release(tx, lanesOf(endpoint), now)
}

/** What was missed is tried from the start, in order. What is still under way from before counts no more. */
export const resumeAll = async (tx: Tx, endpoint: Endpoint, now: Date): Promise<void> => {
  await lockEveryLane(tx, endpoint)
  await sql`
    update webhook_deliveries set status = 'waiting', attempts = 0, due_at = null, modified_at = ${now}, lease_until = null, lease_token = null, lease_holder = null
    where organization_id = ${endpoint.organization_id} and endpoint_id = ${endpoint.id} and status = 'parked'`.execute(tx.q)
  await release(tx, lanesOf(endpoint), now)
}

/** Holds an endpoint's lanes for work that fills them, and gives those that stand still their turn when it is done. */
export const fillLanes = async <T>(tx: Tx, endpoint: Endpoint, now: Date, work: () => Promise<T>): Promise<T> => {
  await lockEveryLane(tx, endpoint)
  const done = await work()
  await release(tx, lanesOf(endpoint), now)
  return done
}

/**
 * Sends an event once more to every living endpoint that it was meant for, whatever came of it before. It goes out at
 * once and holds up nobody; where it waits for its turn, or is under way, it goes on as it is.
 */
export const redeliver = async (tx: Tx, organization_id: string, event_id: string, now: Date): Promise<number> => {
  const { rows } = await sql<{ again: boolean }>`
    update webhook_deliveries d set
      status = 'waiting', modified_at = ${now},
      attempts = case when d.status = 'waiting' then d.attempts else ${patience} end,
      due_at = case when d.status = 'waiting' and (d.due_at is null or d.lease_until is not null) then d.due_at else ${now} end
    from webhook_endpoints w
    where d.organization_id = ${organization_id} and d.event_id = ${event_id} and w.organization_id = d.organization_id and w.id = d.endpoint_id
      and w.enabled and w.deleted_at is null and d.kind = any(w.events)
    returning true as again`.execute(tx.q)
  return rows.length
}
