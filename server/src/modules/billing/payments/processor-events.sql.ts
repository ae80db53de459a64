import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { PaymentAccountRow } from './payments.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    processor_events: { organization_id: string; account_id: string; event_id: string; kind: string; object_id: string; received_at: Date }
  }
}

/** Records a processor event. Returns false if the event of this account was recorded before. */
export const takeEvent = async (
  tx: Tx,
  event: { organization_id: string; account_id: string; event_id: string; kind: string; object_id: string },
): Promise<boolean> => {
  const done = await tx.q
    .insertInto('processor_events')
    .values({ ...event, received_at: tx.clock.wall() })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return (done.numInsertedOrUpdatedRows ?? 0n) > 0n
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
