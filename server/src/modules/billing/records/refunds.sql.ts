import type { Metadata, PageRequest, Refund, RefundReason, RefundStatus } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow, writeRow } from '../../../platform/postgres/locks.ts'
import { inOrder, listKeys, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, isOneOf, json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { findCustomerIds } from '../../customers/index.ts'
import { disputeTimestamps, presentBare, type DisputeRow } from './disputes.sql.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'

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
  /** The dispute that the refund prevented. */
  dispute_id: string | null
  /** The processor's id of the refund. */
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

/**
 * Converts a refund to its API representation. The seller's comment is internal: it is not part of the response schema
 * and is not sent.
 */
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

const selected = (db: Db, scope: TenantScope) => db.q.selectFrom('refunds').selectAll().where('organization_id', '=', inScope(scope))

export const listRefunds = async (db: Db, scope: TenantScope, query: RefundFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = (['id', 'order_id', 'subscription_id', 'customer_id'] as const).flatMap((column) => anyOf(column, query[column]))
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, scope, { external_id: query.external_customer_id })))
  if (query.succeeded !== undefined) filters.push(sql`(status = 'succeeded') = ${query.succeeded}`)
  const { keys, total, next_cursor } = await listKeys(db, list, organizationIds(scope, query.organization_id), query, filters)
  const ids = keys.map(({ id }) => id)
  return { items: inOrder(keys, await selectRefunds(db, scope, ids), ({ refund }) => refund.id), total, next_cursor }
}

/** A refund with the dispute that it prevented. */
export interface LoadedRefund {
  readonly refund: RefundRow
  readonly dispute: DisputeRow | null
}

const selectRefunds = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedRefund[]> => {
  if (ids.length === 0) return []
  const { rows } = await sql<RefundRow & { dispute: JsonRow<DisputeRow> | null }>`
    select r.*, (select to_json(d) from disputes d where d.organization_id = r.organization_id and d.id = r.dispute_id) as dispute
    from refunds r where r.organization_id = ${inScope(scope)} and r.id = any(${ids}::uuid[])`.execute(db.q)
  return rows.map(({ dispute, ...refund }) => ({ refund, dispute: dispute && fromJson<DisputeRow>(dispute, disputeTimestamps) }))
}

/** Locks the refund, so that its status changes in one transaction at a time. Lock the order before the refund. */
export const lockRefund = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<RefundRow> | undefined> =>
  await lockRow(selected(tx, scope).where('id', '=', id), 'update')

const stored = <T extends Partial<RefundRow>>(changes: T) => ({
  ...changes,
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
})

/** Inserts a refund. The row counts as locked, because no other transaction can see it yet. */
export const insertRefund = async (tx: Tx, row: RefundRow): Promise<Locked<RefundRow>> =>
  await writeRow(tx.q.insertInto('refunds').values(stored(row)).returningAll())

export const changeRefund = async (tx: BusinessTx, refund: Locked<RefundRow>, changes: Partial<RefundRow>): Promise<Locked<RefundRow>> =>
  await writeRow(
    tx.q
      .updateTable('refunds')
      .set({ modified_at: tx.clock.business(), ...stored(changes) })
      .where('organization_id', '=', refund.organization_id)
      .where('id', '=', refund.id)
      .returningAll(),
  )

export const findRefund = (db: Db, scope: TenantScope, id: string): Promise<RefundRow | undefined> =>
  selected(db, scope).where('id', '=', id).executeTakeFirst()

export const readRefund = (db: Db, organization_id: string, id: string): Promise<RefundRow | undefined> =>
  db.q.selectFrom('refunds').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

export const findByProcessorId = async (db: Db, organization_id: string, account_id: string, processor_refund_id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select r.id from refunds r join payments p on p.organization_id = r.organization_id and p.id = r.payment_id
    where r.organization_id = ${organization_id} and p.account_id = ${account_id} and r.processor_refund_id = ${processor_refund_id}`.execute(db.q)
  return rows[0]?.id
}

/** Returns the sums of the pending refunds of a locked order. */
export const pendingOf = async (tx: Tx, order: { organization_id: string; id: string }): Promise<{ amount: number; tax_amount: number }> => {
  const { rows } = await sql<{ amount: number; tax_amount: number }>`
    select coalesce(sum(amount), 0)::bigint as amount, coalesce(sum(tax_amount), 0)::bigint as tax_amount from refunds
    where organization_id = ${order.organization_id} and order_id = ${order.id} and status = 'pending'`.execute(tx.q)
  return rows[0]!
}

/** Whether another successful refund or a lost dispute has revoked the benefits of the order. */
export const isRevokedBesides = async (tx: Tx, { organization_id, order_id, id }: Pick<RefundRow, 'organization_id' | 'order_id' | 'id'>): Promise<boolean> => {
  const { rows } = await sql`
    select from refunds where organization_id = ${organization_id} and order_id = ${order_id} and id <> ${id} and revoke_benefits and status = 'succeeded'
    union all
    select from disputes where organization_id = ${organization_id} and order_id = ${order_id} and status = 'lost' limit 1`.execute(tx.q)
  return rows.length > 0
}

/** Finds the payment that paid an order: a payment of the order itself, or of its checkout. */
export const paidBy = async (db: Db, order: { organization_id: string; id: string; checkout_id: string | null }): Promise<{ id: string } | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select id from payments where organization_id = ${order.organization_id} and kind = 'payment' and status = 'succeeded'
      and (order_id = ${order.id} or (order_id is null and checkout_id = ${order.checkout_id})) order by created_at desc limit 1`.execute(db.q)
  return rows[0]
}
