import type { LineLabel } from '@bursar/views'
import type { Metadata, SubscriptionProrationBehavior } from '@bursar/contract'
import { sql } from 'kysely'
import type { z } from 'zod'
import { sidesOf, type Key } from '../../../platform/postgres/lists.sql.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** The key of a locked subscription. */
type LockedKey = Locked<{ organization_id: string; id: string }>

/**
 * Other values that are applied together with a change once its payment succeeds. No other change is possible
 * meanwhile.
 */
export interface Besides {
  readonly metadata?: Metadata
  readonly discount_id?: string | null
  readonly discount_applied_at?: string | null
  readonly period_discount_id?: string | null
  readonly proration_behavior?: z.output<typeof SubscriptionProrationBehavior> | null
  /** Id of the discount for which the change has reserved one use. */
  readonly redeemed?: string
}

export interface UpdateRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  subscription_id: string
  /** `pending` is applied when the next period begins. `paying` is applied when the payment of its order succeeds. */
  kind: 'pending' | 'paying'
  product_id: string | null
  seats: number | null
  /** Whether a new period begins with the change. */
  restarts: boolean
  /** The prices of a `paying` change at the time of the request. Null for a `pending` change. */
  price_ids: string[] | null
  besides: Besides
  order_id: string | null
}

/**
 * A proration charge or credit of a subscription change. The next order of the subscription bills it. Discounts are
 * already applied.
 */
export interface EntryRow {
  organization_id: string
  id: string
  created_at: Date
  subscription_id: string
  product_price_id: string
  position: number
  label: LineLabel
  amount: number
  currency: string
  order_id: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    subscription_updates: UpdateRow
    billing_entries: EntryRow
  }
}

const loadUpdates = async (db: Db, keys: readonly Key[]): Promise<UpdateRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  const { rows } = await sql<UpdateRow>`
    select * from subscription_updates where organization_id = any(${tenants}::uuid[]) and subscription_id = any(${ids}::uuid[])`.execute(db.q)
  return rows
}

/** Finds the change of the given kind. The caller must have locked the subscription. */
export const findUpdate = async (tx: Tx, { organization_id, id }: LockedKey, kind: UpdateRow['kind']): Promise<UpdateRow | undefined> =>
  (await loadUpdates(tx, [{ tenant: organization_id, id }])).find((one) => one.kind === kind)

/** Stores a change and replaces an earlier one of the same kind. */
export const putUpdate = async (tx: BusinessTx, row: UpdateRow): Promise<UpdateRow> =>
  tx.q
    .insertInto('subscription_updates')
    .values({ ...row, besides: json(row.besides) })
    .onConflict((conflict) =>
      conflict.columns(['organization_id', 'subscription_id', 'kind']).doUpdateSet({
        product_id: row.product_id,
        seats: row.seats,
        restarts: row.restarts,
        price_ids: row.price_ids,
        besides: json(row.besides),
        order_id: row.order_id,
        modified_at: tx.clock.business(),
      }),
    )
    .returningAll()
    .executeTakeFirstOrThrow()

export const deleteUpdate = async (tx: Tx, { organization_id, id }: Pick<UpdateRow, 'organization_id' | 'id'>): Promise<void> => {
  await tx.q.deleteFrom('subscription_updates').where('organization_id', '=', organization_id).where('id', '=', id).execute()
}

/** Deletes a scheduled change that is not wanted any more. A trigger notes this as a system event, with the business time that the statement sets. */
export const clearUpdate = async (tx: BusinessTx, { organization_id, id }: Pick<UpdateRow, 'organization_id' | 'id'>): Promise<void> => {
  await sql`
    delete from subscription_updates where organization_id = ${organization_id} and id = ${id}
      and set_config('bursar.cleared', ${tx.clock.business().toISOString()}, true) is not null`.execute(tx.q)
}

export const findPaying = (db: Db, organization_id: string, order_id: string): Promise<UpdateRow | undefined> =>
  db.q.selectFrom('subscription_updates').selectAll().where('organization_id', '=', organization_id).where('order_id', '=', order_id).executeTakeFirst()

export const insertEntries = async (tx: Tx, rows: readonly EntryRow[]): Promise<void> => {
  if (rows.length > 0) await tx.q.insertInto('billing_entries').values(rows).execute()
}

/**
 * Returns the billing entries that no order contains yet, oldest first. The caller must have locked the subscription.
 */
export const openEntries = (tx: Tx, { organization_id, id }: LockedKey): Promise<EntryRow[]> =>
  tx.q
    .selectFrom('billing_entries')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('order_id', 'is', null)
    .orderBy('created_at')
    .orderBy('position')
    .orderBy('id')
    .execute()

export const assignEntries = async (tx: Tx, entries: readonly EntryRow[], order_id: string): Promise<void> => {
  const [first] = entries
  if (!first) return
  await tx.q
    .updateTable('billing_entries')
    .set({ order_id })
    .where('organization_id', '=', first.organization_id)
    .where('id', '=', sql<string>`any(${entries.map(({ id }) => id)}::uuid[])`)
    .execute()
}

/** Detaches the billing entries from a voided order, so that the next order bills them. Returns their ids. */
export const releaseEntries = async (tx: Tx, organization_id: string, order_id: string): Promise<string[]> =>
  (
    await tx.q
      .updateTable('billing_entries')
      .set({ order_id: null })
      .where('organization_id', '=', organization_id)
      .where('order_id', '=', order_id)
      .returning('id')
      .execute()
  ).map(({ id }) => id)
