import type { OrderStatus, PageRequest, ProductBillingType } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { inOrder, listKeys, listRecords, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, metadataHas } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { findCustomerIds } from '../../customers/index.ts'
import { orderRecords, selectBought } from './orders.sql.ts'

const nameOf = (table: string, column: string, by: string) =>
  `coalesce((select o.${column} from ${table} o where o.organization_id = orders.organization_id and o.id = orders.${by}), '')`

const list = {
  table: 'orders',
  tenant: 'organization_id',
  id: 'id',
  counted: 'orders',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    status: { expression: 'status', type: 'text' },
    invoice_number: { expression: `coalesce(invoice_number, '')`, type: 'text' },
    amount: { expression: 'total_amount', type: 'bigint' },
    net_amount: { expression: 'net_amount', type: 'bigint' },
    customer: { expression: nameOf('customers', 'email', 'customer_id'), type: 'text' },
    product: { expression: nameOf('products', 'name', 'product_id'), type: 'text' },
    discount: { expression: nameOf('discounts', 'name', 'discount_id'), type: 'text' },
    subscription: { expression: `coalesce(subscription_id::text, '')`, type: 'text' },
  },
} as const satisfies ListSpec<string>

interface CommonFilters {
  readonly product_id: readonly string[]
  readonly product_billing_type: readonly ProductBillingType[]
  readonly subscription_id: readonly string[]
}

export interface OrderFilters extends CommonFilters {
  readonly organization_id: readonly string[]
  readonly discount_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
  readonly checkout_id: readonly string[]
  readonly status: readonly OrderStatus[]
  readonly created_after?: Date | undefined
  readonly created_before?: Date | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

type Listing = PageRequest & { sorting: readonly string[] }

const common = ({ product_id, product_billing_type, subscription_id }: CommonFilters): RawBuilder<unknown>[] => {
  const [type, another] = new Set(product_billing_type)
  return [
    ...anyOf('product_id', product_id),
    ...anyOf('subscription_id', subscription_id),
    ...(type === undefined || another !== undefined ? [] : [type === 'recurring' ? sql`subscription_id is not null` : sql`subscription_id is null`]),
  ]
}

export const listOrders = async (db: Db, scope: TenantScope, query: OrderFilters & Listing) => {
  const filters = [
    ...common(query),
    ...anyOf('discount_id', query.discount_id),
    ...anyOf('customer_id', query.customer_id),
    ...anyOf('checkout_id', query.checkout_id),
    ...anyOf('status', query.status, 'text'),
  ]
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, scope, { external_id: query.external_customer_id })))
  if (query.created_after) filters.push(sql`created_at >= ${query.created_after}`)
  if (query.created_before) filters.push(sql`created_at <= ${query.created_before}`)
  filters.push(...metadataHas(query.metadata))
  return listRecords(db, list, organizationIds(scope, query.organization_id), query, filters, orderRecords(scope))
}

/** Lists the orders of one customer. Excludes drafts, which only the seller sees. */
export const listOrdersOf = async (db: Db, scope: TenantScope, customer_id: string, query: CommonFilters & Listing & { query?: string | undefined }) => {
  const filters = [sql`customer_id = ${customer_id}`, sql`status <> 'draft'`, ...common(query)]
  if (query.query) filters.push(sql`description ilike ${containing(query.query)}`)
  const { keys, total, next_cursor } = await listKeys(db, { ...list, few: true }, organizationIds(scope), query, filters)
  const orders = await selectBought(
    db,
    scope,
    keys.map(({ id }) => id),
  )
  return { items: inOrder(keys, orders, ({ order }) => order.id), total, next_cursor }
}
