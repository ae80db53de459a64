import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { PaymentAccountRow, PaymentRow } from './payments.sql.ts'

/** The account that an organization's money goes to from now on. */
export const findDefault = (db: Db, organization_id: string): Promise<PaymentAccountRow | undefined> =>
  db.q.selectFrom('payment_accounts').selectAll().where('organization_id', '=', organization_id).where('is_default', '=', true).executeTakeFirst()

export const findConnected = (db: Db, organization_id: string, processor_account_id: string): Promise<PaymentAccountRow | undefined> =>
  db.q
    .selectFrom('payment_accounts')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('processor', '=', 'stripe')
    .where('processor_account_id', '=', processor_account_id)
    .executeTakeFirst()

/** Held by whoever connects an account, so that there is one default at a time. */
export const holdAccounts = async (tx: Tx, organization_id: string): Promise<void> => {
  await sql`select from organizations where id = ${organization_id} for no key update`.execute(tx.q)
}

export const insertAccount = async (tx: Tx, row: PaymentAccountRow): Promise<void> => {
  await stepBack(tx, row.organization_id)
  await tx.q.insertInto('payment_accounts').values(row).execute()
}

export const changeAccount = async (tx: Tx, { organization_id, id }: PaymentAccountRow, changes: Partial<PaymentAccountRow>): Promise<void> => {
  await stepBack(tx, organization_id)
  await tx.q
    .updateTable('payment_accounts')
    .set({ ...changes, is_default: true })
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .execute()
}

/** Whichever was the default is one of several now: what it took, it gives back. */
const stepBack = async (tx: Tx, organization_id: string): Promise<void> => {
  await tx.q.updateTable('payment_accounts').set({ is_default: false }).where('organization_id', '=', organization_id).where('is_default', '=', true).execute()
}

/** What the form of the processor is opened with, where it needs something. */
export const publishableKeyOf = async (db: Db, organization_id: string): Promise<string | null> =>
  (await findDefault(db, organization_id))?.publishable_key ?? null

/** What the payer's page needs to go on with an attempt: who they are to its processor, and what opens the form of the very account that was asked. */
export const formOf = async (
  db: Db,
  { organization_id, account_id, customer_id }: Pick<PaymentRow, 'organization_id' | 'account_id' | 'customer_id'>,
): Promise<Record<string, string>> => {
  const { rows } = await sql<{ publishable_key: string | null; customer_id: string }>`
    select a.publishable_key, coalesce(c.processor_customer_id, ${customer_id}) as customer_id
    from payment_accounts a left join processor_customers c on c.organization_id = a.organization_id and c.account_id = a.id and c.customer_id = ${customer_id}
    where a.organization_id = ${organization_id} and a.id = ${account_id}`.execute(db.q)
  const { publishable_key = null, customer_id: name = customer_id } = rows[0] ?? {}
  return { customer_id: name, ...(publishable_key === null ? {} : { publishable_key }) }
}
