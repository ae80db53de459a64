import { sql } from 'kysely'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, type Sealer, type Secret } from '../../../kernel/secrets.ts'
import type { PaymentAccount } from '../../../gateways/payments/payments.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { PaymentRow } from './payments.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    processor_events: { organization_id: string; account_id: string; event_id: string; kind: string; object_id: string; received_at: Date }
  }
}

export interface AccountRow {
  readonly organization_id: string
  readonly id: string
  readonly processor: PaymentAccount['processor']
  readonly secret_sealed: string
}

export const openAccount = (sealer: Sealer, row: AccountRow): PaymentAccount => ({
  id: row.id,
  processor: row.processor,
  secret: sealer.open(row.secret_sealed, `payment account ${row.id}`),
})

/** The account that an organization's money goes to; the first one is made when it is first needed, once, however many need it. */
export const defaultAccount = async (tx: Tx, sealer: Sealer, organization_id: string, processor: PaymentAccount['processor']): Promise<AccountRow> => {
  const find = async () => {
    const { rows } = await sql<AccountRow>`
      select organization_id, id, processor, secret_sealed from payment_accounts where organization_id = ${organization_id} and is_default`.execute(tx.q)
    return rows[0]
  }
  const found = await find()
  if (found) return found
  const id = newId(tx.clock.wall())
  const secret: Secret = newWebhookSecret()
  await sql`
    insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default)
    values (${organization_id}, ${id}, ${tx.clock.business()}, ${processor}, ${sealer.seal(secret, `payment account ${id}`)}, true)
    on conflict do nothing`.execute(tx.q)
  return (await find())!
}

export const findAccount = async (db: Db, organization_id: string, id: string): Promise<AccountRow | undefined> => {
  const { rows } = await sql<AccountRow>`
    select organization_id, id, processor, secret_sealed from payment_accounts where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]
}

/** By its id alone: only for what a processor on this machine has to say. */
export const findAccountAnywhere = async (db: Db, id: string): Promise<AccountRow | undefined> => {
  const { rows } = await sql<AccountRow>`select organization_id, id, processor, secret_sealed from payment_accounts where id = ${id}`.execute(db.q)
  return rows[0]
}

export const insertPayment = async (tx: Tx, row: PaymentRow): Promise<void> => {
  await tx.q
    .insertInto('payments')
    .values({ ...row, method_metadata: row.method_metadata === null ? null : json(row.method_metadata), processor_method: null })
    .execute()
}

/** Holds the attempt: what came of it is written by one, once. */
export const lockPayment = async (tx: Tx, organization_id: string, id: string): Promise<Locked<PaymentRow> | undefined> =>
  (await tx.q.selectFrom('payments').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).forUpdate().executeTakeFirst()) as
    | Locked<PaymentRow>
    | undefined

export const readPayment = (db: Db, organization_id: string, id: string): Promise<PaymentRow | undefined> =>
  db.q.selectFrom('payments').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

export const findByIntent = async (db: Db, organization_id: string, account_id: string, intent_id: string): Promise<string | undefined> =>
  (
    await db.q
      .selectFrom('payments')
      .select('id')
      .where('organization_id', '=', organization_id)
      .where('account_id', '=', account_id)
      .where('intent_id', '=', intent_id)
      .executeTakeFirst()
  )?.id

export const changePayment = async (tx: Tx, payment: Locked<PaymentRow>, changes: Partial<PaymentRow>): Promise<void> => {
  const { method_metadata, processor_method, ...plain } = changes
  await tx.q
    .updateTable('payments')
    .set({
      ...plain,
      ...(method_metadata === undefined ? {} : { method_metadata: method_metadata === null ? null : json(method_metadata) }),
      ...(processor_method === undefined ? {} : { processor_method: processor_method === null ? null : json(processor_method) }),
      modified_at: tx.clock.business(),
    })
    .where('organization_id', '=', payment.organization_id)
    .where('id', '=', payment.id)
    .execute()
}

/** True the first time an account tells us of an event. */
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

/** Keeps what paid, once, to be charged again; the first one is the customer's default. */
export const keepMethod = async (
  tx: Tx,
  customer: { organization_id: string; id: string; default_payment_method_id: string | null },
  account_id: string,
  method: NonNullable<PaymentRow['processor_method']>,
): Promise<string> => {
  const { organization_id } = customer
  const known = await sql<{ id: string }>`
    select id from payment_methods where organization_id = ${organization_id} and account_id = ${account_id} and processor_method_id = ${method.id} and customer_id = ${customer.id} and deleted_at is null`.execute(
    tx.q,
  )
  if (known.rows[0]) return known.rows[0].id
  const id = newId(tx.clock.wall())
  const card =
    method.type === 'card'
      ? json({
          brand: method.brand ?? 'unknown',
          last4: method.last4 ?? '0000',
          exp_month: method.exp_month ?? 1,
          exp_year: method.exp_year ?? 2000,
          wallet: method.wallet,
        })
      : null
  await sql`
    insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata, account_id, processor_method_id, fingerprint)
    values (${organization_id}, ${id}, ${tx.clock.business()}, ${customer.id}, 'stripe', ${method.type}, ${card}, ${account_id}, ${method.id}, ${method.fingerprint})`.execute(
    tx.q,
  )
  if (customer.default_payment_method_id === null)
    await sql`update customers set default_payment_method_id = ${id} where organization_id = ${organization_id} and id = ${customer.id}`.execute(tx.q)
  return id
}

/** The attempts to pay an order, newest first. */
export const paymentsOfOrder = (db: Db, organization_id: string, order_id: string): Promise<PaymentRow[]> =>
  db.q
    .selectFrom('payments')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('order_id', '=', order_id)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .execute()

/** What the processor calls a customer's kept method; undefined where there is none of this id. */
export const methodOf = async (db: Db, organization_id: string, customer_id: string, id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ processor_method_id: string }>`
    select processor_method_id from payment_methods
    where organization_id = ${organization_id} and customer_id = ${customer_id} and id = ${id} and deleted_at is null and processor_method_id is not null`.execute(
    db.q,
  )
  return rows[0]?.processor_method_id
}

/** A payment of a checkout is that of the order it became. */
export const assignPayment = async (tx: Tx, { organization_id, id }: PaymentRow, order_id: string): Promise<void> => {
  await tx.q.updateTable('payments').set({ order_id }).where('organization_id', '=', organization_id).where('id', '=', id).execute()
}
