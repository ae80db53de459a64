import { sql, type RawBuilder } from 'kysely'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, type Sealer, type Secret } from '../../../kernel/secrets.ts'
import type { KeptMethod, PaymentAccount } from '../../../gateways/payments/payments.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { touchState } from '../../customers/index.ts'
import { findDefault } from './accounts.sql.ts'
import type { PaymentAccountRow, PaymentRow } from './payments.sql.ts'

/** Columns needed to call the processor of an account. */
export type AccountRow = Pick<PaymentAccountRow, 'organization_id' | 'id' | 'processor' | 'secret_sealed' | 'key_sealed'>

export const openAccount = (sealer: Sealer, row: AccountRow): PaymentAccount => ({
  id: row.id,
  processor: row.processor,
  secret: sealer.open(row.secret_sealed, `payment account ${row.id}`),
  key: row.key_sealed === null ? null : sealer.open(row.key_sealed, `payment account key ${row.id}`),
})

const account = sql.raw('organization_id, id, processor, secret_sealed, key_sealed')

/**
 * Returns the organization's default payment account, or undefined if none is connected. The test processor's account
 * is created on first use. Concurrent calls create only one account.
 */
export const defaultAccount = async (
  tx: Tx,
  sealer: Sealer,
  organization_id: string,
  processor: PaymentAccount['processor'],
): Promise<AccountRow | undefined> => {
  const found = await findDefault(tx, organization_id)
  if (found || processor !== 'test') return found
  const id = newId(tx.clock.wall())
  const secret: Secret = newWebhookSecret()
  await sql`
    insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default)
    values (${organization_id}, ${id}, ${tx.clock.wall()}, ${processor}, ${sealer.seal(secret, `payment account ${id}`)}, true)
    on conflict do nothing`.execute(tx.q)
  return findDefault(tx, organization_id)
}

export const findAccount = async (db: Db, organization_id: string, id: string): Promise<AccountRow | undefined> => {
  const { rows } = await sql<AccountRow>`
    select ${account} from payment_accounts where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]
}

/** Finds an account by its id alone, across tenants. Only for events of the test processor in this deployment. */
export const findAccountAnywhere = async (db: Db, id: string): Promise<AccountRow | undefined> => {
  const { rows } = await sql<AccountRow>`select ${account} from payment_accounts where id = ${id}`.execute(db.q)
  return rows[0]
}

type PaymentOwner = Pick<PaymentRow, 'organization_id' | 'account_id' | 'customer_id'>

/** Returns the processor's id of a customer, or undefined if the processor does not know the customer. */
export const findProcessorCustomer = async (db: Db, { organization_id, account_id, customer_id }: PaymentOwner): Promise<string | undefined> => {
  const { rows } = await sql<{ processor_customer_id: string }>`
    select processor_customer_id from processor_customers
    where organization_id = ${organization_id} and account_id = ${account_id} and customer_id = ${customer_id}`.execute(db.q)
  return rows[0]?.processor_customer_id
}

/**
 * Stores the processor's id of a customer and returns the stored id. If a concurrent call stored another id first, that
 * id is kept.
 */
export const nameProcessorCustomer = async (tx: Tx, held: PaymentOwner, processor_customer_id: string): Promise<string> => {
  await sql`
    insert into processor_customers (organization_id, account_id, customer_id, created_at, processor_customer_id)
    values (${held.organization_id}, ${held.account_id}, ${held.customer_id}, ${tx.clock.wall()}, ${processor_customer_id})
    on conflict do nothing`.execute(tx.q)
  return (await findProcessorCustomer(tx, held))!
}

export const insertPayment = async (tx: Tx, row: PaymentRow): Promise<void> => {
  await tx.q
    .insertInto('payments')
    .values({ ...row, method_metadata: row.method_metadata === null ? null : json(row.method_metadata), processor_method: null })
    .execute()
}

/** Locks the payment attempt, so that only one transaction writes its result. */
export const lockPayment = async (tx: Tx, organization_id: string, id: string): Promise<Locked<PaymentRow> | undefined> =>
  (await tx.q.selectFrom('payments').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).forUpdate().executeTakeFirst()) as
    | Locked<PaymentRow>
    | undefined

export const readPayment = (db: Db, organization_id: string, id: string): Promise<PaymentRow | undefined> =>
  db.q.selectFrom('payments').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Returns the attempts with these intents of an account, by intent id. */
export const findByIntents = async (
  db: Db,
  { organization_id, id: account_id }: Pick<AccountRow, 'organization_id' | 'id'>,
  intent_ids: readonly string[],
): Promise<Map<string, Pick<PaymentRow, 'id' | 'status'>>> => {
  const { rows } = await sql<Pick<PaymentRow, 'id' | 'status'> & { intent_id: string }>`
    select id, status, intent_id from payments
    where organization_id = ${organization_id} and account_id = ${account_id} and intent_id = any(${intent_ids}::text[])`.execute(db.q)
  return new Map(rows.map((row) => [row.intent_id, row]))
}

/** The processor's intent of an attempt. */
export interface IntentName {
  /** The id of the attempt. */
  readonly id: string
  readonly intent_id: string
  readonly intent_status: string
}

/** The stored intent id of an attempt; null if the attempt was settled without an intent. */
export interface StoredIntent {
  readonly intent_id: string | null
  /** True if the order of the attempt must still be paid. See `isCalledFor`. */
  readonly wanted: boolean
}

/** The condition that the order `order_id` must not be paid any more, because its subscription has ended since. */
const isOver = (organization_id: string, order_id: RawBuilder<unknown>) => sql`
  exists (select from orders o join subscriptions s on s.organization_id = o.organization_id and s.id = o.subscription_id
    where o.organization_id = ${organization_id} and o.id = ${order_id} and s.ended_at > o.created_at)`

/**
 * Stores the processor's intent ids of attempts and returns the stored ids, in the given sequence. An id that was stored
 * earlier is kept. Locks the attempts in the order of their ids.
 */
export const nameIntents = async (tx: Tx, organization_id: string, names: readonly IntentName[]): Promise<StoredIntent[]> => {
  const { rows } = await sql<StoredIntent & { id: string }>`
    with held as (
      select p.id, p.order_id, p.intent_id, p.status, n.intent_id as new_id, n.intent_status
      from unnest(${names.map(({ id }) => id)}::uuid[], ${names.map(({ intent_id }) => intent_id)}::text[],
        ${names.map(({ intent_status }) => intent_status)}::text[]) as n (id, intent_id, intent_status)
      join payments p on p.organization_id = ${organization_id} and p.id = n.id
      order by p.id for update of p
    ), named as (
      update payments p set intent_id = h.new_id, intent_status = h.intent_status from held h
      where p.organization_id = ${organization_id} and p.id = h.id and h.intent_id is null and h.status = 'pending'
      returning p.id
    )
    select h.id, case when n.id is null then h.intent_id else h.new_id end as intent_id, not ${isOver(organization_id, sql`h.order_id`)} as wanted
    from held h left join named n on n.id = h.id`.execute(tx.q)
  const stored = new Map(rows.map((row) => [row.id, row]))
  return names.map(({ id }) => stored.get(id)!)
}

export const changePayment = async (tx: BusinessTx, payment: Locked<PaymentRow>, changes: Partial<PaymentRow>): Promise<void> => {
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

/**
 * Saves the payment method of a payment for later charges. Idempotent. The customer's first method becomes the default,
 * even if several methods are saved concurrently. Returns the method id that a subscription should store. For the
 * default method this is null, so that the subscription uses later defaults too. For a deleted method it is null as
 * well.
 */
export const keepMethod = async (
  tx: BusinessTx,
  customer: { organization_id: string; id: string },
  account_id: string,
  method: KeptMethod,
): Promise<string | null> => {
  const { organization_id, id: customer_id } = customer
  const id = await recordMethod(tx, customer, account_id, method)
  if (id === null) return null
  const { rows: made } = await sql`
    update customers set default_payment_method_id = ${id}
    where organization_id = ${organization_id} and id = ${customer_id} and default_payment_method_id is null returning id`.execute(tx.q)
  if (made.length > 0) {
    // The customer had no payment method before, so unpaid orders are retried now.
    await enqueue(tx, 'billing.method_changed', { organization_id, customer_id })
    await touchState(tx, { organization_id, customer_id })
    return null
  }
  const { rows } = await sql<{ standard: string | null }>`
    select default_payment_method_id as standard from customers where organization_id = ${organization_id} and id = ${customer_id}`.execute(tx.q)
  return rows[0]?.standard === id ? null : id
}

/** Returns the display data of a payment method. Only cards have display data. */
export const metadataOf = (method: Omit<KeptMethod, 'fingerprint'>) =>
  method.type === 'card'
    ? json({
        brand: method.brand ?? 'unknown',
        last4: method.last4 ?? '0000',
        exp_month: method.exp_month ?? 1,
        exp_year: method.exp_year ?? 2000,
        wallet: method.wallet,
      })
    : null

/**
 * Returns the id of a saved payment method and inserts the method if it is missing. Returns null if the customer has
 * deleted the method.
 */
export const recordMethod = async (
  tx: BusinessTx,
  customer: { organization_id: string; id: string },
  account_id: string,
  method: Omit<KeptMethod, 'fingerprint'> & { readonly fingerprint: string | null },
): Promise<string | null> => {
  const { organization_id } = customer
  const known = await sql<{ id: string; gone: boolean }>`
    select id, deleted_at is not null as gone from payment_methods
    where organization_id = ${organization_id} and account_id = ${account_id} and processor_method_id = ${method.id} and customer_id = ${customer.id}
    order by gone limit 1`.execute(tx.q)
  if (known.rows[0]) return known.rows[0].gone ? null : known.rows[0].id
  const id = newId(tx.clock.wall())
  await sql`
    insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata, account_id, processor_method_id, fingerprint)
    values (${organization_id}, ${id}, ${tx.clock.business()}, ${customer.id}, 'stripe', ${method.type}, ${metadataOf(method)}, ${account_id}, ${method.id}, ${method.fingerprint})`.execute(
    tx.q,
  )
  return id
}

/** Returns the attempts to pay an order, newest first. */
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
 * True if an attempt may still change its order. The attempt is pending, or its result was not applied to the order
 * yet. While an attempt is open, its order is neither charged again nor voided.
 */
export const isOpen = ({ status, concluded_at }: Pick<PaymentRow, 'status' | 'concluded_at'>): boolean => status === 'pending' || concluded_at === null

/**
 * Returns the processor's id of a saved payment method and the account it was saved with. Returns undefined if the
 * customer has no such method.
 */
export const methodOf = async (
  db: Db,
  organization_id: string,
  customer_id: string,
  id: string,
): Promise<{ name: string; account_id: string; type: string; fingerprint: string | null } | undefined> => {
  const { rows } = await sql<{ name: string; account_id: string; type: string; fingerprint: string | null }>`
    select processor_method_id as name, account_id, type, fingerprint from payment_methods
    where organization_id = ${organization_id} and customer_id = ${customer_id} and id = ${id} and deleted_at is null and processor_method_id is not null`.execute(
    db.q,
  )
  return rows[0]
}

export interface HeldMethod {
  readonly id: string
  /** The processor's id of the method. */
  readonly name: string
  /** The account that the method was saved with. */
  readonly account_id: string
}

/**
 * Like `methodOf`, but locks the method. The method cannot be deleted before this transaction has stored the attempt.
 */
export const holdMethod = async (tx: Tx, customer: { organization_id: string; id: string }, id: string): Promise<HeldMethod | undefined> => {
  const { rows } = await sql<HeldMethod>`
    select id, processor_method_id as name, account_id from payment_methods
    where organization_id = ${customer.organization_id} and customer_id = ${customer.id} and id = ${id} and deleted_at is null and processor_method_id is not null
    for key share`.execute(tx.q)
  return rows[0]
}

/** Locks and returns the customer's current default method, like `holdMethod`. */
export const holdDefault = async (tx: Tx, customer: { organization_id: string; id: string }): Promise<HeldMethod | undefined> => {
  const { rows } = await sql<HeldMethod>`
    select m.id, m.processor_method_id as name, m.account_id from customers c
    join payment_methods m on m.organization_id = c.organization_id and m.id = c.default_payment_method_id and m.customer_id = c.id
    where c.organization_id = ${customer.organization_id} and c.id = ${customer.id} and m.deleted_at is null and m.processor_method_id is not null
    for key share of m`.execute(tx.q)
  return rows[0]
}

/**
 * Returns the processor's id of the method that an attempt was started with, even if the method was deleted since. A
 * deleted method is deleted at the processor only after the attempt has ended.
 */
export const chargedWith = async (db: Db, { organization_id, payment_method_id }: PaymentRow): Promise<string | undefined> => {
  if (payment_method_id === null) return undefined
  const { rows } = await sql<{ name: string }>`
    select processor_method_id as name from payment_methods
    where organization_id = ${organization_id} and id = ${payment_method_id} and forgotten_at is null and processor_method_id is not null`.execute(db.q)
  return rows[0]?.name
}

/** True if a method was deleted here, but not yet at its processor. */
export const isDeleted = async (db: Db, organization_id: string, id: string): Promise<boolean> => {
  const { rows } = await sql`
    select from payment_methods where organization_id = ${organization_id} and id = ${id} and deleted_at is not null and forgotten_at is null`.execute(db.q)
  return rows.length > 0
}

/**
 * True if the order of an attempt must still be paid. False if its subscription has ended. The final order, created at
 * that end, must still be paid.
 */
export const isCalledFor = async (db: Db, { organization_id, order_id }: PaymentRow): Promise<boolean> => {
  const { rows } = await sql<{ over: boolean }>`select ${isOver(organization_id, sql`${order_id}`)} as over`.execute(db.q)
  return !rows[0]!.over
}

/**
 * True if a customer of the test clock has a pending payment. A settled payment counts as pending until its result was
 * applied to the order.
 */
export const hasPending = async (db: Db, clock: { organization_id: string; id: string }): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from customers c join payments p on p.organization_id = c.organization_id and p.customer_id = c.id
    where c.organization_id = ${clock.organization_id} and c.clock_id = ${clock.id}
      and (p.status = 'pending' or (p.concluded_at is null and p.checkout_id is null and p.order_id is not null)) limit 1`.execute(db.q)
  return rows.length > 0
}

/**
 * Assigns the payment of a checkout to the order that the checkout created. If a dispute arrived before the order
 * existed, enqueues the job that applies it.
 */
export const assignPayment = async (tx: Tx, { organization_id, id, account_id }: PaymentRow, order_id: string): Promise<void> => {
  const { early_dispute } = await tx.q
    .updateTable('payments')
    .set({ order_id })
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .returning('early_dispute')
    .executeTakeFirstOrThrow()
  if (early_dispute !== null) await enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: early_dispute })
}
