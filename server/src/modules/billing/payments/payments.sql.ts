import type { PageRequest, PaymentStatus, PaymentTrigger } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, isOneOf, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { KeptMethod } from '../../../gateways/payments/payments.ts'
import { findCustomerIds } from '../../customers/index.ts'

export interface PaymentRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  account_id: string
  customer_id: string
  checkout_id: string | null
  order_id: string | null
  /** Money, or only the right to take it later. */
  kind: 'payment' | 'setup'
  status: PaymentStatus
  amount: number
  currency: string
  trigger: PaymentTrigger
  /** What pays is kept, to be charged again. */
  reusable: boolean
  /** What is kept by it becomes the customer's default. */
  sets_default: boolean
  /** What the processor calls a dispute that came before the order. */
  early_dispute: string | null
  /** What is charged while nobody is there. */
  payment_method_id: string | null
  /** What the processor calls it, and where it stands there. */
  intent_id: string | null
  intent_status: string | null
  method: string | null
  method_metadata: { brand: string; last4: string } | null
  processor_method: KeptMethod | null
  decline_reason: string | null
  decline_message: string | null
  /** The processor says that it is not to be tried again. */
  decline_final: boolean
  settled_at: Date | null
  /** What follows for its order has happened. */
  concluded_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

export interface PaymentAccountRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  processor: 'test' | 'stripe'
  secret_sealed: string
  /** What opens the account at its processor, where that is not on this machine. */
  key_sealed: string | null
  key_hint: string | null
  webhook_hint: string | null
  publishable_key: string | null
  /** What the processor calls the account. */
  processor_account_id: string | null
  is_default: boolean
  /** Until when all is known that the processor has told; null where it is on this machine. */
  heard_until: Date | null
  due_at: Date | null
  clock_id: null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    payments: PaymentRow
    payment_accounts: PaymentAccountRow
  }
}

/** The method as the wire names it: which one it will be is not known before the buyer has chosen. */
export const unknownMethod = 'unknown'
const method = `coalesce(method, '${unknownMethod}')`

const list = {
  table: 'payments',
  tenant: 'organization_id',
  id: 'id',
  always: sql`kind = 'payment'`,
  counted: 'payments',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    status: { expression: 'status', type: 'text' },
    amount: { expression: 'amount', type: 'bigint' },
    method: { expression: method, type: 'text' },
  },
} as const satisfies ListSpec<string>

export interface PaymentFilters {
  readonly organization_id: readonly string[]
  readonly checkout_id: readonly string[]
  readonly order_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly status: readonly PaymentStatus[]
  readonly method: readonly string[]
  readonly customer_email: readonly string[]
}

const money = (db: Db) => db.q.selectFrom('payments').selectAll().where('kind', '=', 'payment')

export const listPayments = async (db: Db, reach: Reach, query: PaymentFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [
    ...(['checkout_id', 'order_id', 'customer_id'] as const).flatMap((column) => anyOf(column, query[column])),
    ...anyOf('status', query.status, 'text'),
    ...anyOf(sql.raw(method), query.method, 'text'),
  ]
  if (query.customer_email.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, reach, { email: query.customer_email })))
  const ids = organizationIds(reach, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) => money(db).where('organization_id', '=', withinReach(reach)).where('id', 'in', found).execute())
}

export const findPayment = (db: Db, reach: Reach, id: string): Promise<PaymentRow | undefined> =>
  money(db).where('organization_id', '=', withinReach(reach)).where('id', '=', id).executeTakeFirst()

/** The latest attempt to take the money of an order. */
export const findLatestPayment = (db: Db, order: { organization_id: string; id: string }): Promise<PaymentRow | undefined> =>
  money(db)
    .where('organization_id', '=', order.organization_id)
    .where('order_id', '=', order.id)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
