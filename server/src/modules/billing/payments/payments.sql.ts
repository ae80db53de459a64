import type { PageRequest, PaymentStatus, PaymentTrigger } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, isOneOf, inScope } from '../../../platform/postgres/parts.sql.ts'
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
  /** `payment` charges an amount. `setup` only saves a payment method for later charges. */
  kind: 'payment' | 'setup'
  status: PaymentStatus
  amount: number
  currency: string
  trigger: PaymentTrigger
  /** True if the payment method is saved for later charges. */
  reusable: boolean
  /** True if the saved method becomes the customer's default. */
  sets_default: boolean
  /** The processor's id of a dispute that arrived before the order existed. */
  early_dispute: string | null
  /** The saved method of an off-session charge. */
  payment_method_id: string | null
  /** The processor's id of the intent, and its status there. */
  intent_id: string | null
  intent_status: string | null
  method: string | null
  method_metadata: { brand: string; last4: string } | null
  processor_method: KeptMethod | null
  decline_reason: string | null
  decline_message: string | null
  /** True if the processor says that the charge must not be retried. */
  decline_final: boolean
  settled_at: Date | null
  /** Time at which the result of this payment was applied to its order. */
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
  /** The encrypted API key of the account; null for the built-in test processor. */
  key_sealed: string | null
  key_hint: string | null
  webhook_hint: string | null
  publishable_key: string | null
  /** The processor's id of the account. */
  processor_account_id: string | null
  is_default: boolean
  /** Time up to which all events of the processor have been read; null for the built-in test processor. */
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

/** The payment method that the API shows until the buyer has chosen one. */
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

export const listPayments = async (db: Db, scope: TenantScope, query: PaymentFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [
    ...(['checkout_id', 'order_id', 'customer_id'] as const).flatMap((column) => anyOf(column, query[column])),
    ...anyOf('status', query.status, 'text'),
    ...anyOf(sql.raw(method), query.method, 'text'),
  ]
  if (query.customer_email.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, scope, { email: query.customer_email })))
  const ids = organizationIds(scope, query.organization_id)
  return listRows(db, list, ids, query, filters, (found) =>
    money(db)
      .where('organization_id', '=', inScope(scope))
      .where('id', '=', sql<string>`any(${found}::uuid[])`)
      .execute(),
  )
}

export const findPayment = (db: Db, scope: TenantScope, id: string): Promise<PaymentRow | undefined> =>
  money(db).where('organization_id', '=', inScope(scope)).where('id', '=', id).executeTakeFirst()

/** Returns the latest attempt to pay an order. */
export const findLatestPayment = (db: Db, order: { organization_id: string; id: string }): Promise<PaymentRow | undefined> =>
  money(db)
    .where('organization_id', '=', order.organization_id)
    .where('order_id', '=', order.id)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
