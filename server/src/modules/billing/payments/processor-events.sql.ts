import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { PaymentAccountRow } from './payments.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    processor_events: { organization_id: string; account_id: string; event_id: string; kind: string; object_id: string; received_at: Date }
  }
}

/** Records processor events of an account. Returns the ids of those that were not recorded before. */
export const takeEvents = async (
  tx: Tx,
  { organization_id, id: account_id }: Key,
  events: readonly { readonly id: string; readonly kind: string; readonly object_id: string }[],
): Promise<Set<string>> => {
  const { rows } = await sql<{ event_id: string }>`
    insert into processor_events (organization_id, account_id, event_id, kind, object_id, received_at)
    select ${organization_id}, ${account_id}, event_id, kind, object_id, ${tx.clock.wall()} from unnest(${events.map(({ id }) => id)}::text[],
      ${events.map(({ kind }) => kind)}::text[], ${events.map(({ object_id }) => object_id)}::text[]) as e (event_id, kind, object_id)
    order by event_id on conflict do nothing returning event_id`.execute(tx.q)
  return new Set(rows.map(({ event_id }) => event_id))
}

export const purgeEvents = async (tx: Tx, before: Date): Promise<void> => {
  await tx.q.deleteFrom('processor_events').where('received_at', '<', before).execute()
}

type Key = Pick<PaymentAccountRow, 'organization_id' | 'id'>

/** Time up to which all events of an account have been read. */
export const heardUntil = async (db: Db, { organization_id, id }: Key): Promise<Date | null> => {
  const { heard_until } = await db.q
    .selectFrom('payment_accounts')
    .select('heard_until')
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return heard_until
}

export const noteHeard = async (tx: Tx, { organization_id, id }: Key, heard_until: Date): Promise<void> => {
  await tx.q.updateTable('payment_accounts').set({ heard_until }).where('organization_id', '=', organization_id).where('id', '=', id).execute()
}
