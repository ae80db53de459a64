import type { DisputeStatus, PageRequest, RefundDispute } from '@bursar/contract'
import { sql } from 'kysely'
import type { z } from 'zod'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'

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
  /** The seller gave it up. */
  accepted_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    disputes: DisputeRow
  }
}

/** Nothing changes about it any more. */
export const isClosed = (status: DisputeStatus): boolean => status === 'won' || status === 'lost' || status === 'prevented'

/** The dispute by itself, without whose it is. */
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

const selected = (db: Db, reach: Reach) => db.q.selectFrom('disputes').selectAll().where('organization_id', '=', withinReach(reach))

export const listDisputes = (db: Db, reach: Reach, query: DisputeFilters & PageRequest & { sorting: readonly string[] }) =>
  listRows(
    db,
    list,
    organizationIds(reach, query.organization_id),
    query,
    [...anyOf('order_id', query.order_id), ...anyOf('status', query.status, 'text')],
    (found) => loadDisputes(db, reach, found),
  )

export const loadDisputes = async (db: Db, reach: Reach, ids: readonly string[]): Promise<DisputeRow[]> =>
  ids.length === 0 ? [] : selected(db, reach).where('id', 'in', ids).execute()

export const findDispute = (db: Db, reach: Reach, id: string): Promise<DisputeRow | undefined> => selected(db, reach).where('id', '=', id).executeTakeFirst()

/** Holds the dispute: how it stands changes by one caller at a time. Whoever also holds its order took that first. */
export const lockDispute = async (tx: Tx, reach: Reach, id: string): Promise<Locked<DisputeRow> | undefined> =>
  (await selected(tx, reach).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<DisputeRow> | undefined

/** The same by what its processor calls it. */
export const lockNamed = async (tx: Tx, { organization_id, account_id }: PaymentRow, name: string): Promise<Locked<DisputeRow> | undefined> =>
  (await tx.q
    .selectFrom('disputes')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('account_id', '=', account_id)
    .where('processor_dispute_id', '=', name)
    .forNoKeyUpdate()
    .executeTakeFirst()) as Locked<DisputeRow> | undefined

export const readDispute = (db: Db, organization_id: string, id: string): Promise<DisputeRow | undefined> =>
  db.q.selectFrom('disputes').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Nobody else can see it yet, which is as good as holding it. */
export const insertDispute = async (tx: Tx, row: DisputeRow): Promise<Locked<DisputeRow>> =>
  (await tx.q.insertInto('disputes').values(row).returningAll().executeTakeFirstOrThrow()) as Locked<DisputeRow>

export const changeDispute = async (tx: Tx, dispute: Locked<DisputeRow>, changes: Partial<DisputeRow>): Promise<Locked<DisputeRow>> =>
  (await tx.q
    .updateTable('disputes')
    .set({ modified_at: tx.clock.business(), ...changes })
    .where('organization_id', '=', dispute.organization_id)
    .where('id', '=', dispute.id)
    .returningAll()
    .executeTakeFirstOrThrow()) as Locked<DisputeRow>

/** The payment that a processor's intent was made for. */
export const paymentBehind = (db: Db, organization_id: string, account_id: string, intent_id: string): Promise<PaymentRow | undefined> =>
  db.q
    .selectFrom('payments')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('account_id', '=', account_id)
    .where('intent_id', '=', intent_id)
    .where('kind', '=', 'payment')
    .executeTakeFirst()

/** Whether a bank has the money of a payment, for now or for good. A warning is none yet: giving the money back is an answer to it. */
export const isDisputed = async (db: Db, organization_id: string, payment_id: string): Promise<boolean> => {
  const { rows } = await sql`
    select from disputes where organization_id = ${organization_id} and payment_id = ${payment_id} and status in ('needs_response', 'under_review', 'lost')
    limit 1`.execute(db.q)
  return rows.length > 0
}
