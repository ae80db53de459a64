import { defaultVersion, type Webhook } from '@bursar/contract'
import { sql, type Generated } from 'kysely'
import type { z } from 'zod'
import { newId } from '../../kernel/ids.ts'
import { Secret, type Sealer } from '../../kernel/secrets.ts'
import { encodeRedacted, restore, type Cut } from '../encode.ts'
import { addEvent, eventsChannel } from '../postgres/ending.sql.ts'
import type { BusinessTx, Db, Tx } from '../postgres/postgres.ts'

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
  /** The exact text that webhook deliveries send, with placeholders for secrets. */
  payload: unknown
  /**
   * The secrets of the payload, sealed and bound to the event's id. Null if the payload has no secrets, and after all
   * deliveries of the event have ended.
   */
  secrets_sealed: string | null
  business_at: Date
  wall_at: Date
  is_migration: Generated<boolean>
}

export interface Subject {
  readonly organization_id: string
  readonly resource_id: string
  readonly customer_id?: string
  /** True if the member migration caused the event. It is delivered only to endpoints that opted in. */
  readonly is_migration?: boolean
}

export { eventsChannel }

/** The PostgreSQL notification channel for events that have got their numbers, so that readers of the event log need not poll. */
export const numberedChannel = 'bursar_numbered'

/**
 * Emits an event if and only if this transaction commits. The event is inserted at the end of the transaction. Lock the resource's row before this call, so that its events
 * have the order in which its changes commit. Fields that the contract marks as secret are sealed, so an event with
 * such fields needs the sealer.
 */
export const emit = <Data extends z.ZodType>(tx: BusinessTx, webhook: Webhook<Data>, subject: Subject, data: z.output<Data>, sealer?: Sealer): Promise<void> =>
  draw(tx, [{ kind: webhook.kind, subject, ...encodeRedacted(webhook.data, data) }], sealer)

/** Emits several event types with the same data about one change, in the given order. */
export const emitAll = <Data extends z.ZodType>(tx: BusinessTx, webhooks: readonly Webhook<Data>[], subject: Subject, data: z.output<Data>): Promise<void> => {
  const encoded = encodeRedacted(webhooks[0]!.data, data)
  return draw(
    tx,
    webhooks.map(({ kind }) => ({ kind, subject, ...encoded })),
  )
}

/** Emits one event of the same type for each of many subjects, in the given order. */
export const emitEach = async <Data extends z.ZodType>(
  tx: BusinessTx,
  webhook: Webhook<Data>,
  many: readonly (readonly [subject: Subject, data: z.output<Data>])[],
): Promise<void> => {
  for (const [subject, data] of many) await draw(tx, [{ kind: webhook.kind, subject, ...encodeRedacted(webhook.data, data) }])
}

interface Encoded {
  readonly kind: string
  readonly subject: Subject
  readonly text: string
  readonly cuts: readonly Cut[]
}

const draw = async (tx: BusinessTx, events: readonly Encoded[], sealer?: Sealer): Promise<void> => {
  const business_at = tx.clock.business()
  const wall_at = tx.clock.wall()
  for (const { kind, subject, text, cuts } of events) {
    const head = `{"type":${JSON.stringify(kind)},"timestamp":${JSON.stringify(business_at)},"data":`
    const id = newId(wall_at)
    await addEvent(tx, {
      organization_id: subject.organization_id,
      id,
      kind,
      resource_id: subject.resource_id,
      customer_id: subject.customer_id ?? null,
      api_version: defaultVersion,
      payload: `${head}${text}}`,
      secrets_sealed: sealCuts(sealer, kind, id, head.length, cuts),
      business_at,
      wall_at,
      is_migration: subject.is_migration ?? false,
    })
  }
}

const sealCuts = (sealer: Sealer | undefined, kind: string, id: string, shift: number, cuts: readonly Cut[]): string | null => {
  if (cuts.length === 0) return null
  if (!sealer) throw new Error(`${kind} contains a secret, but was emitted without a sealer`)
  return sealer.seal(new Secret(JSON.stringify(cuts.map(([at, length, json]) => [at + shift, length, json]))), id)
}

/** Returns the payload of an event with its secrets, for a delivery. */
export const openPayload = (sealer: Sealer, event: { readonly event_id: string; readonly payload: string; readonly secrets_sealed: string | null }): string =>
  event.secrets_sealed === null
    ? event.payload
    : restore(event.payload, JSON.parse(sealer.open(event.secrets_sealed, event.event_id).reveal()) as readonly Cut[])

/** Notifies the delivery daemon that a delivery of this organization is due although no event was emitted. */
export const wake = async (tx: Tx, organization_id: string): Promise<void> => {
  await sql`select pg_notify(${eventsChannel}, ${organization_id})`.execute(tx.q)
}

/**
 * Assigns sequence numbers without gaps to up to `most` committed events of an organization, in the order of their
 * positions. Returns the highest number before and after, and whether more events may be waiting. An advisory lock
 * allows one sequencer per organization until the transaction ends. Transactions that emit events do not wait for this
 * lock. Returns `taken` if another transaction holds it; the caller then retries later.
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
  if (rows.length > 0)
    await sql`
      update event_heads set last_sequence = ${after + rows.length} where organization_id = ${organization_id}
      returning pg_notify(${numberedChannel}, organization_id::text)`.execute(tx.q)
  return { after, upto: after + rows.length, full: rows.length === most }
}

/** A numbered event without its content. */
export interface EventHint {
  readonly sequence: number
  readonly kind: string
  readonly resource_id: string
  readonly customer_id: string | null
}

/** Returns the hints of up to `most` events after a number, in the order of their numbers. */
export const hintsAfter = async (db: Db, organization_id: string, after: number, most: number): Promise<EventHint[]> => {
  const { rows } = await sql<EventHint>`
    select sequence, kind, resource_id, customer_id from events
    where organization_id = ${organization_id} and sequence > ${after} order by sequence limit ${most}`.execute(db.q)
  return rows
}

/** Returns the last assigned event number of an organization, or 0. */
export const lastSequence = async (db: Db, organization_id: string): Promise<number> =>
  (await db.q.selectFrom('event_heads').select('last_sequence').where('organization_id', '=', organization_id).executeTakeFirst())?.last_sequence ?? 0

/** Lists organizations that have events without a sequence number. Finds events whose notification was missed. */
export const findUnnumbered = async (db: Db): Promise<string[]> => {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from (select organization_id from events where sequence is null limit 10000) e`.execute(db.q)
  return rows.map(({ organization_id }) => organization_id)
}

/** Returns the seconds that the oldest event without a sequence number has waited for one. */
export const outboxAge = async (db: Db, now: Date): Promise<number> => {
  const oldest = await db.q
    .selectFrom('events')
    .select(sql<Date | null>`min(wall_at)`.as('wall_at'))
    .where('sequence', 'is', null)
    .executeTakeFirst()
  return oldest?.wall_at ? Math.max(0, (now.getTime() - oldest.wall_at.getTime()) / 1000) : 0
}
