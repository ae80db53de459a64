import type { Metadata } from '@bursar/contract'
import { sidesOf, type Key } from '../../../platform/postgres/lists.sql.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** A subscription that is held, as far as it is needed here. */
type Held = Locked<{ organization_id: string; id: string }>

/** What else is different with a change that waits for its money: nobody makes another change meanwhile. */
export interface Besides {
  readonly metadata?: Metadata
  readonly discount_id?: string | null
  readonly discount_applied_at?: string | null
  readonly period_discount_id?: string | null
  /** A use of a discount that is taken with it. */
  readonly redeemed?: string
}

export interface UpdateRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  subscription_id: string
  /** It waits for the next period, or for its order to be paid. */
  kind: 'pending' | 'paying'
  product_id: string | null
  seats: number | null
  /** A new period begins with it. */
  restarts: boolean
  /** What is being paid for; null for what waits. */
  price_ids: string[] | null
  besides: Besides
  order_id: string | null
}

/** What a change cost or gave back, and no order has said yet. Discounts are already in it. */
export interface EntryRow {
  organization_id: string
  id: string
  created_at: Date
  subscription_id: string
  product_price_id: string
  position: number
  label: string
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

export const loadUpdates = async (db: Db, keys: readonly Key[]): Promise<UpdateRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return db.q.selectFrom('subscription_updates').selectAll().where('organization_id', 'in', tenants).where('subscription_id', 'in', ids).execute()
}

/** The change of this kind that a subscription waits for. Who asks holds the subscription. */
export const findUpdate = async (tx: Tx, { organization_id, id }: Held, kind: UpdateRow['kind']): Promise<UpdateRow | undefined> =>
  (await loadUpdates(tx, [{ tenant: organization_id, id }])).find((one) => one.kind === kind)

/** Puts a change in the place of the one of its kind that waited before. */
export const putUpdate = async (tx: Tx, row: UpdateRow): Promise<UpdateRow> =>
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

export const findPaying = (db: Db, organization_id: string, order_id: string): Promise<UpdateRow | undefined> =>
  db.q.selectFrom('subscription_updates').selectAll().where('organization_id', '=', organization_id).where('order_id', '=', order_id).executeTakeFirst()

export const insertEntries = async (tx: Tx, rows: readonly EntryRow[]): Promise<void> => {
  if (rows.length > 0) await tx.q.insertInto('billing_entries').values(rows).execute()
}

/** What waits for the next order, oldest first. Who asks holds the subscription. */
export const openEntries = (tx: Tx, { organization_id, id }: Held): Promise<EntryRow[]> =>
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
    .where(
      'id',
      'in',
      entries.map(({ id }) => id),
    )
    .execute()
}

/** What an order that was called off had said waits again. */
export const releaseEntries = async (tx: Tx, organization_id: string, order_id: string): Promise<void> => {
  await tx.q.updateTable('billing_entries').set({ order_id: null }).where('organization_id', '=', organization_id).where('order_id', '=', order_id).execute()
}
