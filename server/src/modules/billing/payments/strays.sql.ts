import { sql } from 'kysely'
import type { Intent } from '../../../gateways/payments/payments.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { AccountRow } from './attempts.sql.ts'
import type { PaymentRow } from './payments.sql.ts'

export interface StrayRow {
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
  /** What the processor calls them, where it has names of its own. */
  readonly processor_customer_id: string | null
}

/** Whom we can charge while they are away, and with which account: so many, in the order of their keys. */
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

/** Takes down a charge that no attempt of ours is about: neither by the name of it, nor by the key that it was asked with. */
export const noteStray = async (tx: Tx, { organization_id, id: account_id }: AccountRow, customer_id: string, intent: Intent): Promise<void> => {
  await sql`
    insert into stray_charges (organization_id, account_id, intent_id, found_at, customer_id, amount, currency, trigger, charged_at)
    select ${organization_id}, ${account_id}, ${intent.id}, ${tx.clock.wall()}, ${customer_id}, ${intent.amount}, ${intent.currency}, ${intent.metadata.trigger ?? null}, ${intent.charged_at}
    where not exists (
      select from payments where organization_id = ${organization_id} and customer_id = ${customer_id}
        and ((account_id = ${account_id} and intent_id = ${intent.id}) or id::text = ${intent.metadata.payment_id ?? ''})
    ) on conflict do nothing`.execute(tx.q)
}

export const listStrays = async (db: Db): Promise<StrayRow[]> => {
  const { rows } = await sql<StrayRow>`
    select organization_id, account_id, intent_id, customer_id, amount, currency, trigger, charged_at from stray_charges
    where settled_at is null order by charged_at, intent_id`.execute(db.q)
  return rows
}

/** Whether anything is unaccounted for of the one whom an attempt would charge. */
export const hasStrays = async (db: Db, { organization_id, customer_id }: PaymentRow): Promise<boolean> => {
  const { rows } = await sql`
    select from stray_charges where organization_id = ${organization_id} and customer_id = ${customer_id} and settled_at is null limit 1`.execute(db.q)
  return rows.length > 0
}

/** What is unaccounted for of the one whom an attempt would charge. Held, so that no two attempts are settled with the same. */
export const lockStrays = async (tx: Tx, { organization_id, customer_id, account_id, trigger }: PaymentRow): Promise<StrayRow[]> => {
  const { rows } = await sql<StrayRow>`
    select * from stray_charges
    where organization_id = ${organization_id} and customer_id = ${customer_id} and account_id = ${account_id} and settled_at is null
      -- What was bought with its owner there is no other attempt's: only a purchase is settled with a purchase.
      and (trigger is distinct from 'purchase' or ${trigger} = 'purchase')
    order by charged_at, intent_id for update`.execute(tx.q)
  return rows
}

/** Says what a charge was: what this attempt would have charged, or something that a person has seen to. False where there is none to speak of. */
export const settleStray = async (tx: Tx, stray: Pick<StrayRow, 'intent_id'> & Partial<StrayRow>, payment_id: string | null): Promise<boolean> => {
  const done = await sql`
    update stray_charges set settled_at = ${tx.clock.wall()}, payment_id = ${payment_id}
    where intent_id = ${stray.intent_id} and settled_at is null
      and ${stray.organization_id ? sql`organization_id = ${stray.organization_id} and account_id = ${stray.account_id!}` : sql`true`}`.execute(tx.q)
  return (done.numAffectedRows ?? 0n) > 0n
}
