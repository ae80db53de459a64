import type { DisputeStatus, PageRequest, RefundDispute } from '@bursar/contract'
import { sql } from 'kysely'
import type { z } from 'zod'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow, writeRow } from '../../../platform/postgres/locks.ts'
import { inOrder, listKeys, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { CustomerRow } from '../../customers/index.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'
import type { JsonRow, Timestamps } from '../../../platform/postgres/json-rows.ts'
import { customerOf, readCustomer } from './related.sql.ts'

export interface DisputeRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  account_id: string
  processor_dispute_id: string
  order_id: string
  payment_id: string
  customer_id: string
  status: DisputeStatus
  amount: number
  tax_amount: number
  currency: string
  reason: string | null
  evidence_due_by: Date | null
  past_due: boolean
  /** The time when the seller accepted the dispute, that is, stopped contesting it. */
  accepted_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

export const disputeTimestamps: Timestamps<DisputeRow> = {
  created_at: true,
  modified_at: true,
  evidence_due_by: true,
  accepted_at: true,
  due_at: true,
  lease_until: true,
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    disputes: DisputeRow
  }
}

/** Whether the status is final. */
export const isClosed = (status: DisputeStatus): boolean => status === 'won' || status === 'lost' || status === 'prevented'

/** Converts a dispute to its API representation without the customer. */
export const presentBare = (row: DisputeRow): z.output<typeof RefundDispute> => ({
  ...row,
  resolved: row.status === 'won' || row.status === 'lost',
  closed: isClosed(row.status),
})

const list = {
  table: 'disputes',
  tenant: 'organization_id',
  id: 'id',
  counted: 'disputes',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, amount: { expression: 'amount', type: 'bigint' } },
} as const satisfies ListSpec<string>

export interface DisputeFilters {
  readonly organization_id: readonly string[]
  readonly order_id: readonly string[]
  readonly status: readonly DisputeStatus[]
}

const selected = (db: Db, scope: TenantScope) => db.q.selectFrom('disputes').selectAll().where('organization_id', '=', inScope(scope))

/** A dispute with the customer that a response shows. */
export interface LoadedDispute {
  readonly dispute: DisputeRow
  readonly customer: CustomerRow
}

export const selectDisputes = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedDispute[]> => {
  if (ids.length === 0) return []
  const { rows } = await sql<DisputeRow & { customer: JsonRow<CustomerRow> }>`
    select d.*, ${customerOf(scope, 'd')} as customer from disputes d
    where d.organization_id = ${inScope(scope)} and d.id = any(${ids}::uuid[])`.execute(db.q)
  return rows.map(({ customer, ...dispute }) => ({ dispute, customer: readCustomer(customer) }))
}

export const listDisputes = async (db: Db, scope: TenantScope, query: DisputeFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [...anyOf('order_id', query.order_id), ...anyOf('status', query.status, 'text')]
  const { keys, total, next_cursor } = await listKeys(db, list, organizationIds(scope, query.organization_id), query, filters)
  const ids = keys.map(({ id }) => id)
  return { items: inOrder(keys, await selectDisputes(db, scope, ids), ({ dispute }) => dispute.id), total, next_cursor }
}

/** Locks the dispute, so that its status changes in one transaction at a time. Lock the order before the dispute. */
export const lockDispute = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<DisputeRow> | undefined> =>
  await lockRow(selected(tx, scope).where('id', '=', id))

/** Locks a dispute by its processor id. */
export const lockNamed = async (tx: Tx, { organization_id, account_id }: PaymentRow, name: string): Promise<Locked<DisputeRow> | undefined> =>
  await lockRow(
    tx.q
      .selectFrom('disputes')
      .selectAll()
      .where('organization_id', '=', organization_id)
      .where('account_id', '=', account_id)
      .where('processor_dispute_id', '=', name),
  )

export const readDispute = (db: Db, organization_id: string, id: string): Promise<DisputeRow | undefined> =>
  db.q.selectFrom('disputes').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Inserts a dispute. The row counts as locked, because no other transaction can see it yet. */
export const insertDispute = async (tx: Tx, row: DisputeRow): Promise<Locked<DisputeRow>> =>
  await writeRow(tx.q.insertInto('disputes').values(row).returningAll())

export const changeDispute = async (tx: BusinessTx, dispute: Locked<DisputeRow>, changes: Partial<DisputeRow>): Promise<Locked<DisputeRow>> =>
  await writeRow(
    tx.q
      .updateTable('disputes')
      .set({ modified_at: tx.clock.business(), ...changes })
      .where('organization_id', '=', dispute.organization_id)
      .where('id', '=', dispute.id)
      .returningAll(),
  )

/** Finds the payment of a processor's payment intent. */
export const paymentBehind = (db: Db, organization_id: string, account_id: string, intent_id: string): Promise<PaymentRow | undefined> =>
  db.q
    .selectFrom('payments')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('account_id', '=', account_id)
    .where('intent_id', '=', intent_id)
    .where('kind', '=', 'payment')
    .executeTakeFirst()

/**
 * Whether a payment has an open or lost dispute. An early warning does not count, because a refund is a valid answer to
 * it.
 */
export const isDisputed = async (db: Db, organization_id: string, payment_id: string): Promise<boolean> => {
  const { rows } = await sql`
    select from disputes where organization_id = ${organization_id} and payment_id = ${payment_id} and status in ('needs_response', 'under_review', 'lost')
    limit 1`.execute(db.q)
  return rows.length > 0
}
