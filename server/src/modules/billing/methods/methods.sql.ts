import type { PaymentMethod } from '@bursar/contract'
import { sql } from 'kysely'
import { lockRow } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { KeptMethod } from '../../../gateways/payments/payments.ts'
import { metadataOf } from '../payments/attempts.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'

interface Owner {
  readonly organization_id: string
  readonly id: string
}

/** Counts the customer's setups of a payment method that have not succeeded, from the id `since` on. */
export const countVain = async (db: Db, { organization_id, id }: Owner, since: string): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from payments
    where organization_id = ${organization_id} and customer_id = ${id} and kind = 'setup' and checkout_id is null and status <> 'succeeded' and id >= ${since}`.execute(
    db.q,
  )
  return rows[0]!.count
}

/** Locks the customer's own setup of a payment method, found by the processor's intent id. */
export const lockSetup = async (tx: Tx, { organization_id, id }: Owner, intent_id: string): Promise<Locked<PaymentRow> | undefined> =>
  await lockRow(
    tx.q
      .selectFrom('payments')
      .selectAll()
      .where('organization_id', '=', organization_id)
      .where('customer_id', '=', id)
      .where('kind', '=', 'setup')
      .where('checkout_id', 'is', null)
      .where('intent_id', '=', intent_id),
    'update',
  )

/** Returns the id of the payment method that a setup saved, or null if the customer has deleted the method. */
export const findKept = async (db: Db, { organization_id, customer_id, account_id, processor_method }: PaymentRow): Promise<string | null> => {
  if (processor_method === null) return null
  const { rows } = await sql<{ id: string }>`
    select id from payment_methods where organization_id = ${organization_id} and account_id = ${account_id} and customer_id = ${customer_id}
      and processor_method_id = ${processor_method.id} and deleted_at is null`.execute(db.q)
  return rows[0]?.id ?? null
}

/** Finds a saved method and its customer by the processor's id of the method. */
export const findNamed = async (
  db: Db,
  organization_id: string,
  account_id: string,
  name: string,
): Promise<{ id: string; customer_id: string } | undefined> => {
  const { rows } = await sql<{ id: string; customer_id: string }>`
    select id, customer_id from payment_methods
    where organization_id = ${organization_id} and account_id = ${account_id} and processor_method_id = ${name} and deleted_at is null`.execute(db.q)
  return rows[0]
}

/** Updates the display data of a method with the processor's current data. */
export const changeMethod = async (tx: BusinessTx, organization_id: string, id: string, method: KeptMethod): Promise<void> => {
  await sql`
    update payment_methods set method_metadata = ${metadataOf(method)}, fingerprint = ${method.fingerprint}, modified_at = ${tx.clock.business()}
    where organization_id = ${organization_id} and id = ${id} and deleted_at is null`.execute(tx.q)
}

/** Returns a payment method as the API shows it to its customer. */
export const readMethod = async (db: Db, organization_id: string, id: string): Promise<Omit<PaymentMethod, 'is_default'>> => {
  const { rows } = await sql<Omit<PaymentMethod, 'is_default'>>`
    select id, created_at, modified_at, processor, customer_id, type, method_metadata from payment_methods
    where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]!
}

/**
 * Locks the subscriptions that use this payment method and have not ended. The caller is about to give them another
 * method. Locks the rows in id order, to avoid deadlocks.
 */
export const lockPaidWith = async (tx: Tx, { organization_id, id }: Owner, method_id: string): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from subscriptions where organization_id = ${organization_id} and payment_method_id = ${method_id} and customer_id = ${id} and ended_at is null
    order by id for no key update`.execute(tx.q)
  return rows.map((row) => row.id)
}

/**
 * True if a subscription that uses the customer's default method may still be charged. Free subscriptions do not count.
 * Subscriptions that are canceled and owe nothing do not count either.
 */
export const hasFollower = async (db: Db, { organization_id, id }: Owner): Promise<boolean> => {
  const { rows } = await sql`
    select from subscriptions s
    where s.organization_id = ${organization_id} and s.customer_id = ${id} and s.payment_method_id is null and s.ended_at is null and (
      (not s.cancel_at_period_end and s.amount > 0)
      or exists (
        select from subscription_prices sp join product_prices p on p.organization_id = sp.organization_id and p.id = sp.price_id
        where sp.organization_id = s.organization_id and sp.subscription_id = s.id and p.amount_type = 'metered_unit')
      or exists (select from billing_entries e where e.organization_id = s.organization_id and e.subscription_id = s.id and e.order_id is null)
      or exists (select from orders o where o.organization_id = s.organization_id and o.subscription_id = s.id and o.status = 'pending')
    ) limit 1`.execute(db.q)
  return rows.length > 0
}

/**
 * Marks all payment methods of a customer as deleted and returns their ids. The caller must still delete them at the
 * processor.
 */
export const deleteAll = async (tx: BusinessTx, { organization_id, id }: Owner): Promise<string[]> => {
  const now = tx.clock.business()
  const { rows } = await sql<{ id: string }>`
    update payment_methods set deleted_at = ${now}, modified_at = ${now} where organization_id = ${organization_id} and customer_id = ${id} and deleted_at is null
    returning id`.execute(tx.q)
  return rows.map((row) => row.id)
}

/** Makes these subscriptions pay with the customer's default method from now on. */
export const followDefault = async (tx: Tx, { organization_id }: Owner, ids: readonly string[]): Promise<void> => {
  await sql`update subscriptions set payment_method_id = null where organization_id = ${organization_id} and id = any(${ids}::uuid[])`.execute(tx.q)
}

/**
 * Locks a payment method of a customer for its deletion. A concurrent charge waits for this lock and then finds the
 * method deleted. Lock the subscriptions before the method.
 */
export const lockMethod = async (tx: Tx, { organization_id, id }: Owner, method_id: string): Promise<boolean> => {
  const { rows } = await sql`
    select from payment_methods where organization_id = ${organization_id} and customer_id = ${id} and id = ${method_id} and deleted_at is null for update`.execute(
    tx.q,
  )
  return rows.length > 0
}

/** Returns the customer's newest payment method that can be charged, except the given one. */
export const newestBesides = async (db: Db, { organization_id, id }: Owner, method_id: string): Promise<string | null> => {
  const { rows } = await sql<{ id: string }>`
    select id from payment_methods where organization_id = ${organization_id} and customer_id = ${id} and id <> ${method_id}
      and deleted_at is null and processor_method_id is not null order by created_at desc, id desc limit 1`.execute(db.q)
  return rows[0]?.id ?? null
}

export const markDeleted = async (tx: BusinessTx, { organization_id }: Owner, method_id: string): Promise<void> => {
  const now = tx.clock.business()
  await sql`update payment_methods set deleted_at = ${now}, modified_at = ${now} where organization_id = ${organization_id} and id = ${method_id}`.execute(tx.q)
}

/**
 * Returns a payment method that must be deleted at its processor. Such a method is deleted here, not yet at the
 * processor, and has no pending payment.
 */
export const findForgettable = async (db: Db, organization_id: string, id: string): Promise<{ account_id: string; name: string } | undefined> => {
  const { rows } = await sql<{ account_id: string; name: string }>`
    select m.account_id, m.processor_method_id as name from payment_methods m
    where m.organization_id = ${organization_id} and m.id = ${id} and m.deleted_at is not null and m.forgotten_at is null
      and m.account_id is not null and m.processor_method_id is not null
      and not exists (select from payments p where p.organization_id = m.organization_id and p.payment_method_id = m.id and p.status = 'pending')`.execute(db.q)
  return rows[0]
}

export const markForgotten = async (tx: Tx, organization_id: string, id: string): Promise<void> => {
  await sql`update payment_methods set forgotten_at = ${tx.clock.wall()} where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
}
