import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    customer_email_changes: EmailChange
  }
}

export interface EmailChange {
  organization_id: string
  id: string
  customer_id: string
  member_id: string | null
  email: string
  previous_email: string | null
  created_at: Date
  expires_at: Date
  closed_at: Date | null
}

/** Closes the customer's open request to change the email address, if any. A customer has at most one open request. */
export const withdrawOpen = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }, now: Date): Promise<string[]> => {
  const gone = await tx.q
    .updateTable('customer_email_changes')
    .set({ closed_at: now })
    .where('organization_id', '=', organization_id)
    .where('customer_id', '=', id)
    .where('closed_at', 'is', null)
    .returning('id')
    .execute()
  return gone.map((wish) => wish.id)
}

/** Counts a customer's requests to change the email address since a point in time. */
export const countWishes = async (db: Db, { organization_id, id }: { organization_id: string; id: string }, since: Date): Promise<number> => {
  const { count } = await db.q
    .selectFrom('customer_email_changes')
    .select((row) => row.fn.countAll<number>().as('count'))
    .where('organization_id', '=', organization_id)
    .where('customer_id', '=', id)
    .where('created_at', '>', since)
    .executeTakeFirstOrThrow()
  return count
}

export const insertChange = async (tx: Tx, change: EmailChange): Promise<void> => {
  await tx.q.insertInto('customer_email_changes').values(change).execute()
}

export const findChange = (db: Db, organization_id: string, id: string): Promise<EmailChange | undefined> =>
  db.q.selectFrom('customer_email_changes').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

export const markDone = async (tx: Tx, change: EmailChange, previous_email: string | null, now: Date): Promise<void> => {
  await tx.q
    .updateTable('customer_email_changes')
    .set({ closed_at: now, previous_email })
    .where('organization_id', '=', change.organization_id)
    .where('id', '=', change.id)
    .execute()
}
