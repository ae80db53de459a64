import { defaultVersion, type Webhook } from '@bursar/contract'
import { sql, type Generated } from 'kysely'
import type { z } from 'zod'
import { newId } from '../../kernel/ids.ts'
import { encode } from '../encode.ts'
import type { Db, Tx } from '../postgres/postgres.ts'

declare module '../postgres/postgres.ts' {
  interface Tables {
    events: EventTable
    event_heads: { organization_id: string; last_sequence: number }
  }
}

interface EventTable {
  organization_id: string
  id: string
  position: Generated<number>
  sequence: number | null
  kind: string
  resource_id: string
  customer_id: string | null
  api_version: string
  /** The exact text that is delivered. */
  payload: unknown
  business_at: Date
  wall_at: Date
  is_migration: Generated<boolean>
}

export interface Subject {
  readonly organization_id: string
  readonly resource_id: string
  readonly customer_id?: string
  /** Said only because of the member migration: for endpoints that want to hear of that. */
  readonly is_migration?: boolean
}

/** Told when a transaction that has emitted commits: whoever numbers events need not be asked. */
export const eventsChannel = 'bursar_events'

/**
 * Writes an event that becomes real when, and only when, this transaction commits. The caller holds the lock on the
 * resource's row, so that events of one resource are drawn in the order in which its changes commit.
 */
export const emit = <Data extends z.ZodType>(tx: Tx, webhook: Webhook<Data>, subject: Subject, data: z.output<Data>): Promise<void> =>
  emitAll(tx, [webhook], subject, data)

/** Several events that tell the same of one change, drawn in this order. */
export const emitAll = <Data extends z.ZodType>(tx: Tx, webhooks: readonly Webhook<Data>[], subject: Subject, data: z.output<Data>): Promise<void> => {
  const encoded = encode(webhooks[0]!.data, data)
  return draw(
    tx,
    webhooks.map(({ kind }) => ({ kind, subject, encoded })),
  )
}

/** The same kind of event about many, drawn in their order. */
export const emitEach = async <Data extends z.ZodType>(
  tx: Tx,
  webhook: Webhook<Data>,
  many: readonly (readonly [subject: Subject, data: z.output<Data>])[],
): Promise<void> => {
  const events = many.map(([subject, data]) => ({ kind: webhook.kind, subject, encoded: encode(webhook.data, data) }))
  for (let from = 0; from < events.length; from += atOnce) await draw(tx, events.slice(from, from + atOnce))
}

/** So many events are written by one statement. */
const atOnce = 200

const draw = async (tx: Tx, events: readonly { readonly kind: string; readonly subject: Subject; readonly encoded: string }[]): Promise<void> => {
  const business_at = tx.clock.business()
  const wall_at = tx.clock.wall()
  const rows = events.map(({ kind, subject, encoded }) => {
    const payload = `{"type":${JSON.stringify(kind)},"timestamp":${JSON.stringify(business_at)},"data":${encoded}}`
    return sql`(${subject.organization_id}::uuid, ${newId(wall_at)}::uuid, ${kind}, ${subject.resource_id}::uuid, ${subject.customer_id ?? null}::uuid, ${defaultVersion}, ${payload}::json, ${business_at}::timestamptz, ${wall_at}::timestamptz, ${subject.is_migration ?? false})`
  })
  await sql`
    insert into events (organization_id, id, kind, resource_id, customer_id, api_version, payload, business_at, wall_at, is_migration)
    values ${sql.join(rows)}
    returning pg_notify(${eventsChannel}, organization_id::text)`.execute(tx.q)
}

/** Wakes whoever delivers: something of this organization is due without an event. */
export const wake = async (tx: Tx, organization_id: string): Promise<void> => {
  await sql`select pg_notify(${eventsChannel}, ${organization_id})`.execute(tx.q)
}

/**
 * Numbers at most so many committed events of an organization, without gaps, in the order they were drawn, and hands back the numbers
 * before and after, and whether there may be more. Writers never wait for this; only one sequencer works on an organization at a time, which is what
 * the lock protects, and it holds until the caller's transaction ends: whoever
 * finds it taken comes back.
 */
export const sequence = async (tx: Tx, organization_id: string, most = 500): Promise<{ after: number; upto: number; full: boolean } | 'taken'> => {
  const lock = await sql<{ taken: boolean }>`select pg_try_advisory_xact_lock(hashtextextended(${`bursar.sequence.${organization_id}`}, 0)) as taken`.execute(
    tx.q,
  )
  if (!lock.rows[0]!.taken) return 'taken'
  const head = await sql<{ last_sequence: number }>`
    insert into event_heads (organization_id, last_sequence) values (${organization_id}, 0)
    on conflict (organization_id) do update set last_sequence = event_heads.last_sequence
    returning last_sequence`.execute(tx.q)
  const after = head.rows[0]!.last_sequence
  const { rows } = await sql<{ sequence: number }>`
    with numbered as (
      select id, wall_at, ${after}::bigint + row_number() over (order by position) as sequence
      from (select id, wall_at, position from events where organization_id = ${organization_id} and sequence is null order by position limit ${most}) e
    )
    update events set sequence = numbered.sequence from numbered
    where events.organization_id = ${organization_id} and events.id = numbered.id and events.wall_at = numbered.wall_at
    returning events.sequence`.execute(tx.q)
  if (rows.length > 0) await sql`update event_heads set last_sequence = ${after + rows.length} where organization_id = ${organization_id}`.execute(tx.q)
  return { after, upto: after + rows.length, full: rows.length === most }
}

/** Organizations that have events without a number: for whoever missed the notice. */
export const findUnnumbered = async (db: Db): Promise<string[]> => {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from (select organization_id from events where sequence is null limit 10000) e`.execute(db.q)
  return rows.map(({ organization_id }) => organization_id)
}

/** Seconds that the oldest event has waited for its number. */
export const outboxAge = async (db: Db, now: Date): Promise<number> => {
  const oldest = await db.q
    .selectFrom('events')
    .select(sql<Date | null>`min(wall_at)`.as('wall_at'))
    .where('sequence', 'is', null)
    .executeTakeFirst()
  return oldest?.wall_at ? Math.max(0, (now.getTime() - oldest.wall_at.getTime()) / 1000) : 0
}
