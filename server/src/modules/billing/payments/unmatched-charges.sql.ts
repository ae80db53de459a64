import { sql } from 'kysely'
import type { Intent } from '../../../gateways/payments/payments.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { AccountRow } from './attempts.sql.ts'
import type { PaymentRow } from './payments.sql.ts'

export interface UnmatchedChargeRow {
  readonly organization_id: string
  readonly account_id: string
  readonly intent_id: string
  readonly customer_id: string
  readonly amount: number
  readonly currency: string
  readonly trigger: string | null
  readonly charged_at: Date | null
}

interface Chargeable extends AccountRow {
  readonly customer_id: string
  readonly account_id: string
  /** The processor's id of the customer; null if the processor has no customers of its own. */
  readonly processor_customer_id: string | null
}

/** Returns a page of customers who can be charged off-session, each with its payment account, ordered by key. */
export const listChargeable = async (
  db: Db,
  after: { organization_id: string; customer_id: string; account_id: string } | undefined,
  limit: number,
): Promise<Chargeable[]> => {
  const { rows } = await sql<Chargeable>`
    select a.organization_id, a.id, a.id as account_id, a.processor, a.secret_sealed, a.key_sealed, m.customer_id, c.processor_customer_id
    from (
      select distinct organization_id, customer_id, account_id from payment_methods
      where deleted_at is null and account_id is not null
        and ${after ? sql`(organization_id, customer_id, account_id) > (${after.organization_id}::uuid, ${after.customer_id}::uuid, ${after.account_id}::uuid)` : sql`true`}
      order by 1, 2, 3 limit ${limit}
    ) m join payment_accounts a on a.organization_id = m.organization_id and a.id = m.account_id
    left join processor_customers c on c.organization_id = m.organization_id and c.account_id = m.account_id and c.customer_id = m.customer_id
    order by m.organization_id, m.customer_id, m.account_id`.execute(db.q)
  return rows
}

export const countChargeable = async (db: Db): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(distinct (organization_id, customer_id, account_id)) as count from payment_methods where deleted_at is null and account_id is not null`.execute(
    db.q,
  )
  return rows[0]!.count
}

/**
 * Records a charge of the processor that matches no payment in this database. Does nothing if its intent id, or the
 * payment id in its metadata, is known.
 */
export const insertUnmatchedCharge = async (tx: Tx, { organization_id, id: account_id }: AccountRow, customer_id: string, intent: Intent): Promise<void> => {
  await sql`
    insert into stray_charges (organization_id, account_id, intent_id, found_at, customer_id, amount, currency, trigger, charged_at)
    select ${organization_id}, ${account_id}, ${intent.id}, ${tx.clock.wall()}, ${customer_id}, ${intent.amount}, ${intent.currency}, ${intent.metadata.trigger ?? null}, ${intent.charged_at}
    where not exists (
      select from payments where organization_id = ${organization_id} and customer_id = ${customer_id}
        and ((account_id = ${account_id} and intent_id = ${intent.id}) or id::text = ${intent.metadata.payment_id ?? ''})
    ) on conflict do nothing`.execute(tx.q)
}

export const listUnmatchedCharges = async (db: Db): Promise<UnmatchedChargeRow[]> => {
  const { rows } = await sql<UnmatchedChargeRow>`
    select organization_id, account_id, intent_id, customer_id, amount, currency, trigger, charged_at from stray_charges
    where settled_at is null order by charged_at, intent_id`.execute(db.q)
  return rows
}

/** Returns those of the customers that have unmatched charges. */
export const findUnmatchedCustomers = async (db: Db, organization_id: string, customer_ids: readonly string[]): Promise<Set<string>> => {
  const { rows } = await sql<{ customer_id: string }>`
    select customer_id from stray_charges where organization_id = ${organization_id} and customer_id = ${oneOf(customer_ids)} and settled_at is null`.execute(
    db.q,
  )
  return new Set(rows.map(({ customer_id }) => customer_id))
}

/**
 * Locks and returns the unmatched charges of an attempt's customer. The lock prevents that two attempts adopt the same
 * charge.
 */
export const lockUnmatchedCharges = async (tx: Tx, { organization_id, customer_id, account_id, trigger }: PaymentRow): Promise<UnmatchedChargeRow[]> => {
  const { rows } = await sql<UnmatchedChargeRow>`
    select * from stray_charges
    where organization_id = ${organization_id} and customer_id = ${customer_id} and account_id = ${account_id} and settled_at is null
      -- The charge of an on-session purchase settles only an attempt of a purchase.
      and (trigger is distinct from 'purchase' or ${trigger} = 'purchase')
    order by charged_at, intent_id for update`.execute(tx.q)
  return rows
}

/**
 * Settles an unmatched charge. `payment_id` is the attempt that adopts the charge, or null if an operator has handled
 * it. Returns false if there is no such open charge.
 */
export const settleUnmatchedCharge = async (
  tx: Tx,
  unmatched: Pick<UnmatchedChargeRow, 'intent_id'> & Partial<UnmatchedChargeRow>,
  payment_id: string | null,
): Promise<boolean> => {
  const done = await sql`
    update stray_charges set settled_at = ${tx.clock.wall()}, payment_id = ${payment_id}
    where intent_id = ${unmatched.intent_id} and settled_at is null
      and ${unmatched.organization_id ? sql`organization_id = ${unmatched.organization_id} and account_id = ${unmatched.account_id!}` : sql`true`}`.execute(
    tx.q,
  )
  return (done.numAffectedRows ?? 0n) > 0n
}
