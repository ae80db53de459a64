import { sql } from 'kysely'
import { lockRows } from '../../../platform/postgres/locks.ts'
import { insertRows, updateRows } from '../../../platform/postgres/many.sql.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { AccountRow, HeldMethod } from './attempts.sql.ts'
import type { PaymentRow } from './payments.sql.ts'

/** A subscription whose payment method is wanted: its own, or else the default of its customer. */
interface Payer {
  readonly id: string
  readonly customer_id: string
  readonly payment_method_id: string | null
}

/**
 * Locks the payment methods of subscriptions, in the order of the methods' ids, with their accounts. Returns them by
 * subscription id. A subscription without a usable method has no entry. The methods cannot be deleted before this
 * transaction has stored the attempts.
 */
export const holdMethods = async (
  tx: Tx,
  organization_id: string,
  payers: readonly Payer[],
): Promise<Map<string, { method: HeldMethod; account: AccountRow }>> => {
  const { rows } = await sql<HeldMethod & Omit<AccountRow, 'id'> & { subscription_id: string }>`
    select p.subscription_id, m.id, m.processor_method_id as name, m.account_id, a.organization_id, a.processor, a.secret_sealed, a.key_sealed
    from unnest(${payers.map(({ id }) => id)}::uuid[], ${payers.map(({ customer_id }) => customer_id)}::uuid[],
      ${payers.map(({ payment_method_id }) => payment_method_id)}::uuid[]) as p (subscription_id, customer_id, payment_method_id)
    join customers c on c.organization_id = ${organization_id} and c.id = p.customer_id
    join payment_methods m on m.organization_id = ${organization_id} and m.customer_id = p.customer_id
      and m.id = coalesce(p.payment_method_id, c.default_payment_method_id)
    join payment_accounts a on a.organization_id = ${organization_id} and a.id = m.account_id
    where m.deleted_at is null and m.processor_method_id is not null
    order by m.id for key share of m`.execute(tx.q)
  return new Map(
    rows.map(({ subscription_id, id, name, account_id, ...account }) => [
      subscription_id,
      { method: { id, name, account_id }, account: { ...account, id: account_id } },
    ]),
  )
}

/** Inserts payment attempts in one statement. */
export const insertPayments = async (tx: Tx, payments: readonly PaymentRow[]): Promise<void> => {
  await insertRows('payments', payments).execute(tx.q)
}

/** Locks payment attempts of one organization in the order of their ids. The caller has locked their orders. */
export const lockPayments = (tx: Tx, organization_id: string, ids: readonly string[]): Promise<Locked<PaymentRow>[]> =>
  lockRows(tx.q.selectFrom('payments').selectAll().where('organization_id', '=', organization_id).where('id', '=', oneOf(ids)).orderBy('id'), 'update')

/** Updates locked attempts of one organization. All of them change the same columns. */
export const updatePayments = async (tx: Tx, organization_id: string, changes: readonly (Partial<PaymentRow> & Pick<PaymentRow, 'id'>)[]): Promise<void> => {
  await updateRows('payments', organization_id, changes).execute(tx.q)
}
