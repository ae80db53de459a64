import type { WebhookEventType } from '@bursar/contract'
import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

export interface WholeEvent {
  readonly organization_id: string
  readonly id: string
  readonly kind: WebhookEventType
  readonly resource_id: string
  readonly customer_id: string | null
  /** True if the event was emitted by the migration itself. */
  readonly is_migration: boolean
  /** Null after the payload was archived. */
  readonly payload: { readonly type: string; readonly timestamp: string; readonly data: Readonly<Record<string, unknown>> } | null
}

export const findWhole = async (db: Db, scope: TenantScope, id: string): Promise<WholeEvent | undefined> => {
  const { rows } = await sql<WholeEvent>`
    select organization_id, id, kind, resource_id, customer_id, is_migration, payload from events where organization_id = ${inScope(scope)} and id = ${id}`.execute(
    db.q,
  )
  return rows[0]
}

/** Returns the id of the customer who pays for a seat or a grant. Events of phase 2 name this customer instead of the holder. */
export const findBuyer = async (db: Db, organization_id: string, table: 'seats' | 'benefit_grants', id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ buyer_customer_id: string }>`
    select buyer_customer_id from ${sql.table(table)} where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]?.buyer_customer_id
}

/** Returns true if the customer exists only as a seat holder. Reads the column that the member phase view is based on. */
export const onlyHolds = async (db: Db, organization_id: string, customer_id: string): Promise<boolean> => {
  const { rows } = await sql`select from customers where organization_id = ${organization_id} and id = ${customer_id} and pure_holder`.execute(db.q)
  return rows.length > 0
}
