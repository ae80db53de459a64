import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { PaymentAccountRow, PaymentRow } from './payments.sql.ts'

/** Returns the organization's default payment account. New payments go to this account. */
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

/**
 * Locks the organization row. Every transaction that connects a payment account takes this lock, so that there is only
 * one default account.
 */
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

/**
 * Clears the default flag of the current default account. The row stays, because payments of this account are refunded
 * through it.
 */
const stepBack = async (tx: Tx, organization_id: string): Promise<void> => {
  await tx.q.updateTable('payment_accounts').set({ is_default: false }).where('organization_id', '=', organization_id).where('is_default', '=', true).execute()
}

/** Publishable key that opens the processor's payment form; null if the processor needs none. */
export const publishableKeyOf = async (db: Db, organization_id: string): Promise<string | null> =>
  (await findDefault(db, organization_id))?.publishable_key ?? null

/**
 * Data that the checkout page needs to continue a payment attempt: the processor's customer id and the publishable key.
 * The key is that of the account with which the attempt was made.
 */
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

/** Returns the owners of an organization whose user accounts are not deleted. */
export const findOwners = (db: Db, organization_id: string): Promise<{ user_id: string }[]> =>
  db.q
    .selectFrom('organization_members as m')
    .innerJoin('users as u', (on) => on.onRef('u.id', '=', 'm.user_id').on('u.deleted_at', 'is', null))
    .select('m.user_id')
    .where('m.organization_id', '=', organization_id)
    .where('m.role', '=', 'owner')
    .orderBy('m.user_id')
    .execute()

/** Returns the data for the email that notifies an owner of a changed payment account. */
export const findChange = (db: Db, organization_id: string, account_id: string, user_id: string) =>
  db.q
    .selectFrom('payment_accounts as a')
    .innerJoin('organizations as o', 'o.id', 'a.organization_id')
    .innerJoin('users as u', (on) => on.on('u.id', '=', user_id).on('u.deleted_at', 'is', null))
    .select(['u.email', 'o.name as organization_name', 'o.country', 'a.processor_account_id', 'a.key_hint'])
    .where('a.organization_id', '=', organization_id)
    .where('a.id', '=', account_id)
    .executeTakeFirst()
