import type { Metadata, PageRequest, Refund, RefundReason, RefundStatus } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, isOneOf, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findCustomerIds } from '../../customers/index.ts'
import { presentBare, type DisputeRow } from '../disputes/disputes.sql.ts'

export interface RefundRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  order_id: string
  payment_id: string
  customer_id: string
  subscription_id: string | null
  status: RefundStatus
  reason: RefundReason
  amount: number
  tax_amount: number
  currency: string
  comment: string | null
  revoke_benefits: boolean
  metadata: Metadata
  /** The dispute that it prevented. */
  dispute_id: string | null
  /** What the processor calls it. */
  processor_refund_id: string | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    refunds: RefundRow
  }
}

/** The refund as the wire shows it: its comment, which is for the seller's own people, is not declared there and does not leave. */
export const presentRefund = (row: RefundRow, dispute: DisputeRow | null = null): Refund => ({ ...row, dispute: dispute && presentBare(dispute) })

const list = {
  table: 'refunds',
  tenant: 'organization_id',
  id: 'id',
  counted: 'refunds',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, amount: { expression: 'amount', type: 'bigint' } },
} as const satisfies ListSpec<string>

export interface RefundFilters {
  readonly id: readonly string[]
  readonly organization_id: readonly string[]
  readonly order_id: readonly string[]
  readonly subscription_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
  readonly succeeded?: boolean | undefined
}

const selected = (db: Db, reach: Reach) => db.q.selectFrom('refunds').selectAll().where('organization_id', '=', withinReach(reach))

export const listRefunds = async (db: Db, reach: Reach, query: RefundFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = (['id', 'order_id', 'subscription_id', 'customer_id'] as const).flatMap((column) => anyOf(column, query[column]))
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, reach, { external_id: query.external_customer_id })))
  if (query.succeeded !== undefined) filters.push(sql`(status = 'succeeded') = ${query.succeeded}`)
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => selected(db, reach).where('id', 'in', found).execute())
}

/** Holds the refund: how it stands changes by one caller at a time. Whoever also holds its order took that first. */
export const lockRefund = async (tx: Tx, reach: Reach, id: string): Promise<Locked<RefundRow> | undefined> =>
  (await selected(tx, reach).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<RefundRow> | undefined

const stored = <T extends Partial<RefundRow>>(changes: T) => ({
  ...changes,
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
})

/** Nobody else can see it yet, which is as good as holding it. */
export const insertRefund = async (tx: Tx, row: RefundRow): Promise<Locked<RefundRow>> =>
  (await tx.q.insertInto('refunds').values(stored(row)).returningAll().executeTakeFirstOrThrow()) as Locked<RefundRow>

export const changeRefund = async (tx: Tx, refund: Locked<RefundRow>, changes: Partial<RefundRow>): Promise<Locked<RefundRow>> =>
  (await tx.q
    .updateTable('refunds')
    .set({ modified_at: tx.clock.business(), ...stored(changes) })
    .where('organization_id', '=', refund.organization_id)
    .where('id', '=', refund.id)
    .returningAll()
    .executeTakeFirstOrThrow()) as Locked<RefundRow>

export const findRefund = (db: Db, reach: Reach, id: string): Promise<RefundRow | undefined> => selected(db, reach).where('id', '=', id).executeTakeFirst()

export const readRefund = (db: Db, organization_id: string, id: string): Promise<RefundRow | undefined> =>
  db.q.selectFrom('refunds').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

export const findByProcessorId = async (db: Db, organization_id: string, account_id: string, processor_refund_id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select r.id from refunds r join payments p on p.organization_id = r.organization_id and p.id = r.payment_id
    where r.organization_id = ${organization_id} and p.account_id = ${account_id} and r.processor_refund_id = ${processor_refund_id}`.execute(db.q)
  return rows[0]?.id
}

/** What is on its way back already, of an order that is held. */
export const pendingOf = async (tx: Tx, order: { organization_id: string; id: string }): Promise<{ amount: number; tax_amount: number }> => {
  const { rows } = await sql<{ amount: number; tax_amount: number }>`
    select coalesce(sum(amount), 0)::bigint as amount, coalesce(sum(tax_amount), 0)::bigint as tax_amount from refunds
    where organization_id = ${order.organization_id} and order_id = ${order.id} and status = 'pending'`.execute(tx.q)
  return rows[0]!
}

/** Whether another refund of the order, or a dispute that was lost, has taken back what it gave. */
export const isRevokedBesides = async (tx: Tx, { organization_id, order_id, id }: Pick<RefundRow, 'organization_id' | 'order_id' | 'id'>): Promise<boolean> => {
  const { rows } = await sql`
    select from refunds where organization_id = ${organization_id} and order_id = ${order_id} and id <> ${id} and revoke_benefits and status = 'succeeded'
    union all
    select from disputes where organization_id = ${organization_id} and order_id = ${order_id} and status = 'lost' limit 1`.execute(tx.q)
  return rows.length > 0
}

/** The payment that settled an order: its own, or that of the checkout it came from. */
export const paidBy = async (db: Db, order: { organization_id: string; id: string; checkout_id: string | null }): Promise<{ id: string } | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select id from payments where organization_id = ${order.organization_id} and kind = 'payment' and status = 'succeeded'
      and (order_id = ${order.id} or (order_id is null and checkout_id = ${order.checkout_id})) order by created_at desc limit 1`.execute(db.q)
  return rows[0]
}
