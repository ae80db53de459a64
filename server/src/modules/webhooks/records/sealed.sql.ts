import { sql } from 'kysely'
import type { Tx } from '../../../platform/postgres/postgres.ts'

interface EventKey {
  readonly organization_id: string
  readonly event_id: string
  readonly event_at: Date
}

/** Condition that is true if any delivery may still send the secrets of event `e`. */
const isCarried = sql`exists (select from webhook_deliveries d where d.organization_id = e.organization_id and d.event_id = e.id and d.carries_secrets)`

/** Drops the sealed secrets of numbered events that no endpoint subscribes to. */
export const dropUnneeded = async (tx: Tx, organization_id: string, { after, upto }: { after: number; upto: number }): Promise<void> => {
  await sql`
    update events e set secrets_sealed = null
    where e.organization_id = ${organization_id} and e.sequence > ${after} and e.sequence <= ${upto} and e.secrets_sealed is not null and not ${isCarried}`.execute(
    tx.q,
  )
}

/**
 * Drops the sealed secrets of events whose last delivery has ended. Locks the events first. If two deliveries end
 * concurrently, the second transaction waits and sees the result of the first.
 */
export const dropEnded = async (tx: Tx, ended: readonly EventKey[]): Promise<void> => {
  const events = sql`(select * from unnest(${ended.map((one) => one.organization_id)}::uuid[], ${ended.map((one) => one.event_id)}::uuid[], ${ended.map((one) => one.event_at)}::timestamptz[]))`
  await sql`select from events e where (e.organization_id, e.id, e.wall_at) in ${events} order by e.organization_id, e.id for update`.execute(tx.q)
  await sql`
    update events e set secrets_sealed = null
    where (e.organization_id, e.id, e.wall_at) in ${events} and e.secrets_sealed is not null and not ${isCarried}`.execute(tx.q)
}

/** Drops sealed secrets that no delivery will send, or that are older than `before`. */
export const dropSealed = async (tx: Tx, before: Date): Promise<void> => {
  await sql`
    update events e set secrets_sealed = null
    where e.sequence is not null and e.secrets_sealed is not null and (e.wall_at < ${before} or not ${isCarried})`.execute(tx.q)
}
