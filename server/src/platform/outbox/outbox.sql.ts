import { defaultVersion, type Webhook } from '@bursar/contract'
import { sql, type Generated } from 'kysely'
import type { z } from 'zod'
import { newId } from '../../kernel/ids.ts'
import { encode } from '../encode.ts'
import { enqueue } from '../jobs/enqueue.sql.ts'
import type { Db, Tx } from '../postgres/postgres.ts'

declare module '../postgres/postgres.ts' {
  interface Tables {
    events: {
      organization_id: string
      id: string
      position: Generated<number>
      sequence: number | null
      kind: string
      resource_id: string
      customer_id: string | null
      api_version: string
      payload: unknown
      business_at: Date
      wall_at: Date
    }
    event_heads: { organization_id: string; last_sequence: number }
  }
}

export interface Subject {
  readonly organization_id: string
  readonly resource_id: string
  readonly customer_id?: string
}

/**
 * Writes an event that becomes real when, and only when, this transaction commits. The caller holds the lock on the
 * resource's row, so that events of one resource are drawn in the order in which its changes commit.
 */
export const emit = async <Data extends z.ZodType>(tx: Tx, webhook: Webhook<Data>, subject: Subject, data: z.output<Data>): Promise<void> => {
  const business_at = tx.clock.business()
  const wall_at = tx.clock.wall()
  await tx.q
    .insertInto('events')
    .values({
      id: newId(wall_at),
      organization_id: subject.organization_id,
      resource_id: subject.resource_id,
      customer_id: subject.customer_id ?? null,
      kind: webhook.kind,
      api_version: defaultVersion,
      payload: sql`${`{"type":${JSON.stringify(webhook.kind)},"timestamp":${JSON.stringify(business_at)},"data":${encode(webhook.data, data)}}`}::jsonb`,
      business_at,
      wall_at,
      sequence: null,
    })
    .execute()
  if (tx.sequenced.has(subject.organization_id)) return
  tx.sequenced.add(subject.organization_id)
  await enqueue(tx, 'outbox.sequence', { organization_id: subject.organization_id })
}

/**
 * Numbers the committed events of an organization, without gaps, in the order they were drawn. Writers never wait for
 * this; only one sequencer works on an organization at a time, which is what the lock protects.
 */
export const sequence = async (tx: Tx, organization_id: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`bursar.sequence.${organization_id}`}, 0))`.execute(tx.q)
  await sql`
    with head as (
      insert into event_heads (organization_id, last_sequence) values (${organization_id}, 0)
      on conflict (organization_id) do update set last_sequence = event_heads.last_sequence
      returning last_sequence
    ), numbered as (
      select id, (select last_sequence from head) + row_number() over (order by position) as sequence
      from events where organization_id = ${organization_id} and sequence is null
    )
    update events set sequence = numbered.sequence from numbered
    where events.organization_id = ${organization_id} and events.id = numbered.id`.execute(tx.q)
  await sql`
    update event_heads set last_sequence = greatest(last_sequence, coalesce((select max(sequence) from events where organization_id = ${organization_id}), 0))
    where organization_id = ${organization_id}`.execute(tx.q)
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
