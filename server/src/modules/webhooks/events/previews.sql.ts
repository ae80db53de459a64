import type { WebhookEventType } from '@bursar/contract'
import { sql } from 'kysely'
import type { Reach } from '../../../kernel/actors.ts'
import { withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

export interface WholeEvent {
  readonly organization_id: string
  readonly id: string
  readonly kind: WebhookEventType
  readonly resource_id: string
  readonly customer_id: string | null
  /** Said because of the migration itself. */
  readonly is_migration: boolean
  /** Null once it has been archived. */
  readonly payload: { readonly type: string; readonly timestamp: string; readonly data: Readonly<Record<string, unknown>> } | null
}

export const findWhole = async (db: Db, reach: Reach, id: string): Promise<WholeEvent | undefined> => {
  const { rows } = await sql<WholeEvent>`
    select organization_id, id, kind, resource_id, customer_id, is_migration, payload from events where organization_id = ${withinReach(reach)} and id = ${id}`.execute(
    db.q,
  )
  return rows[0]
}

/** Who pays for a seat, or for what was given: what its event will say of it after the switch, whatever it has said. */
export const findBuyer = async (db: Db, organization_id: string, table: 'seats' | 'benefit_grants', id: string): Promise<string | undefined> => {
  const { rows } = await sql<{ buyer_customer_id: string }>`
    select buyer_customer_id from ${sql.table(table)} where organization_id = ${organization_id} and id = ${id}`.execute(db.q)
  return rows[0]?.buyer_customer_id
}

/** Whether somebody is a customer for holding seats alone: the mark itself, which the lens reads. */
export const onlyHolds = async (db: Db, organization_id: string, customer_id: string): Promise<boolean> => {
  const { rows } = await sql`select from customers where organization_id = ${organization_id} and id = ${customer_id} and pure_holder`.execute(db.q)
  return rows.length > 0
}
