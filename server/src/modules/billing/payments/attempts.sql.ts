import { sql } from 'kysely'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, type Sealer, type Secret } from '../../../kernel/secrets.ts'
import type { PaymentAccount } from '../../../gateways/payments/payments.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { touchState } from '../../customers/index.ts'
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
    values (${organization_id}, ${id}, ${tx.clock.wall()}, ${processor}, ${sealer.seal(secret, `payment account ${id}`)}, true)
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

export const findByIntent = (db: Db, organization_id: string, account_id: string, intent_id: string): Promise<Pick<PaymentRow, 'id' | 'status'> | undefined> =>
  db.q
    .selectFrom('payments')
    .select(['id', 'status'])
    .where('organization_id', '=', organization_id)
    .where('account_id', '=', account_id)
    .where('intent_id', '=', intent_id)
    .executeTakeFirst()

/** Notes what the processor calls an attempt: the first name stays. */
export const nameIntent = async (tx: Tx, organization_id: string, id: string, intent: { id: string; status: PaymentRow['intent_status'] }): Promise<void> => {
  await tx.q
    .updateTable('payments')
    .set({ intent_id: intent.id, intent_status: intent.status })
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .where('intent_id', 'is', null)
    .execute()
}

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
  if (customer.default_payment_method_id === null) {
    await sql`update customers set default_payment_method_id = ${id} where organization_id = ${organization_id} and id = ${customer.id}`.execute(tx.q)
    // What they owe, and had nothing to pay with, is tried at once.
    await enqueue(tx, 'billing.method_changed', { organization_id, customer_id: customer.id })
    await touchState(tx, { organization_id, customer_id: customer.id })
  }
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

/**
 * Whether an attempt may still change its order: it is under way, or was settled by somebody who only asked, and its order
 * has not heard of that. While there is one, nobody asks for the same money again, and nothing is called off.
 */
export const isOpen = ({ status, concluded_at }: Pick<PaymentRow, 'status' | 'concluded_at'>): boolean => status === 'pending' || concluded_at === null

/** What the processor calls a customer's kept method; undefined where there is none of this id. */
export const methodOf = async (db: Db, organization_id: string, customer_id: string, id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ processor_method_id: string }>`
    select processor_method_id from payment_methods
    where organization_id = ${organization_id} and customer_id = ${customer_id} and id = ${id} and deleted_at is null and processor_method_id is not null`.execute(
    db.q,
  )
  return rows[0]?.processor_method_id
}

/** Whether an order is still to be paid: not once its subscription has ended, unless it is the last one, which is made then. */
export const isCalledFor = async (db: Db, { organization_id, order_id }: PaymentRow): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from orders o join subscriptions s on s.organization_id = o.organization_id and s.id = o.subscription_id
    where o.organization_id = ${organization_id} and o.id = ${order_id} and s.ended_at > o.created_at`.execute(db.q)
  return rows.length === 0
}

/** Whether money is being asked for at this moment from anybody who lives by a clock, or has come and its order does not know yet. */
export const hasPending = async (db: Db, clock: { organization_id: string; id: string }): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from customers c join payments p on p.organization_id = c.organization_id and p.customer_id = c.id
    where c.organization_id = ${clock.organization_id} and c.clock_id = ${clock.id}
      and (p.status = 'pending' or (p.concluded_at is null and p.checkout_id is null and p.order_id is not null)) limit 1`.execute(db.q)
  return rows.length > 0
}

/** A payment of a checkout is that of the order it became. */
export const assignPayment = async (tx: Tx, { organization_id, id }: PaymentRow, order_id: string): Promise<void> => {
  await tx.q.updateTable('payments').set({ order_id }).where('organization_id', '=', organization_id).where('id', '=', id).execute()
}
