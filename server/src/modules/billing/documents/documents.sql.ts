import { sql } from 'kysely'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { OrderRow, OrderTaxRow } from '../records/orders.sql.ts'
import type { RefundRow } from '../records/refunds.sql.ts'
import type { Facts } from './calc/facts.ts'

export interface DocumentRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  kind: Facts['kind']
  order_id: string
  refund_id: string | null
  facts: Facts
  checksum: string | null
  object_key: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    documents: DocumentRow
  }
}

export interface Wanted {
  readonly kind: Facts['kind']
  readonly refund_id: string | null
}

type Order = Pick<OrderRow, 'organization_id' | 'id'>

export const findDocument = (db: Db, { organization_id, id }: Order, { kind, refund_id }: Wanted): Promise<DocumentRow | undefined> =>
  db.q
    .selectFrom('documents')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('order_id', '=', id)
    .where('kind', '=', kind)
    .where((is) => (refund_id === null ? is('refund_id', 'is', null) : is('refund_id', '=', refund_id)))
    .executeTakeFirst()

export const readDocument = (db: Db, organization_id: string, id: string): Promise<DocumentRow | undefined> =>
  db.q.selectFrom('documents').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Inserts a document. The caller must have locked the order, so that each document is inserted once. */
export const insertDocument = (tx: Tx, _order: Locked<OrderRow>, row: DocumentRow): Promise<DocumentRow> =>
  tx.q
    .insertInto('documents')
    .values({ ...row, facts: json(row.facts) })
    .returningAll()
    .executeTakeFirstOrThrow()

/** Updates the content, checksum and file of a document together. The caller must have locked the order. */
export const changeDocument = (
  tx: BusinessTx,
  _order: Locked<OrderRow>,
  { organization_id, id }: DocumentRow,
  made: { facts: Facts; checksum: string; object_key: string },
): Promise<DocumentRow> =>
  tx.q
    .updateTable('documents')
    .set({ ...made, facts: json(made.facts), modified_at: tx.clock.business() })
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()

/** Counts the credit notes of a locked order. The next credit note gets this number plus one. */
export const countCreditNotes = async (tx: Tx, { organization_id, id }: Locked<OrderRow>): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from documents where organization_id = ${organization_id} and order_id = ${id} and kind = 'credit_note'`.execute(tx.q)
  return rows[0]!.count
}

/** Returns the credit note number of each refund that has one. */
export const creditNoteNumbers = async (db: Db, { organization_id, id }: Order): Promise<Map<string, string>> => {
  const { rows } = await sql<{ refund_id: string; number: string }>`
    select refund_id, facts->'refunds'->0->>'number' as number from documents
    where organization_id = ${organization_id} and order_id = ${id} and kind = 'credit_note'`.execute(db.q)
  return new Map(rows.map(({ refund_id, number }) => [refund_id, number]))
}

/** Returns the taxes of each line of an order. */
export const taxesOf = (db: Db, organization_id: string, items: readonly string[]): Promise<OrderTaxRow[]> =>
  items.length === 0
    ? Promise.resolve([])
    : db.q
        .selectFrom('order_taxes')
        .selectAll()
        .where('organization_id', '=', organization_id)
        .where('order_item_id', '=', sql<string>`any(${items}::uuid[])`)
        .orderBy('jurisdiction')
        .orderBy('id')
        .execute()

/** Returns the succeeded refunds of an order, oldest first. */
export const refundsOf = (db: Db, { organization_id, id }: Order): Promise<RefundRow[]> =>
  db.q
    .selectFrom('refunds')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('order_id', '=', id)
    .where('status', '=', 'succeeded')
    .orderBy('created_at')
    .orderBy('id')
    .execute()
