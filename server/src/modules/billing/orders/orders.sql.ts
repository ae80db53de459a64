import type { Address, CustomFieldData, Metadata, OrderBillingReason, OrderStatus, PageRequest, ProductBillingType, TaxIDFormat } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, referred, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, json, metadataHas, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadDiscounts, loadProductRows, type DiscountTable, type ProductRow } from '../../catalog/index.ts'
import { findCustomerIds, loadCustomers, type CustomerRow } from '../../customers/index.ts'
import { loadSubscriptionRows, type SubscriptionRow } from '../subscriptions/subscriptions.sql.ts'

export interface OrderRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  status: OrderStatus
  billing_reason: OrderBillingReason
  currency: string
  subtotal_amount: number
  discount_amount: number
  net_amount: number
  tax_amount: number
  total_amount: number
  applied_balance_amount: number
  due_amount: number
  carried_amount: number
  refunded_amount: number
  refunded_tax_amount: number
  tax_behavior: 'inclusive' | 'exclusive' | null
  billing_name: string | null
  billing_address: Address | null
  tax_id: string | null
  tax_id_format: TaxIDFormat | null
  invoice_number: string | null
  receipt_number: string | null
  /** There is an invoice to fetch, of what the order says now. */
  is_invoice_generated: boolean
  seats: number | null
  customer_id: string
  product_id: string | null
  discount_id: string | null
  subscription_id: string | null
  checkout_id: string | null
  next_payment_attempt_at: Date | null
  description: string
  metadata: Metadata
  custom_field_data: CustomFieldData
  /** Which period of a subscription it is for. */
  period_start: Date | null
  period_end: Date | null
  /** When its payment first failed. */
  first_failed_at: Date | null
  /** What it gave was taken back with a refund. */
  benefits_revoked_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

export interface OrderItemRow {
  organization_id: string
  id: string
  created_at: Date
  order_id: string
  position: number
  label: string
  amount: number
  discount_amount: number
  net_amount: number
  tax_amount: number
  proration: boolean
  product_price_id: string | null
}

export interface OrderTaxRow {
  organization_id: string
  id: string
  created_at: Date
  order_item_id: string
  jurisdiction: string
  rate: number
  behavior: 'inclusive' | 'exclusive'
  basis_amount: number
  tax_amount: number
  reason: 'standard_rated' | 'not_collecting' | 'product_exempt' | 'reverse_charge' | 'not_subject_to_tax' | 'not_supported' | 'customer_exempt'
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    orders: OrderRow
    order_items: OrderItemRow
    order_taxes: OrderTaxRow
    invoice_counters: { organization_id: string; customer_id: string; last_number: number }
  }
}

/** An order, with all that is shown of it. */
export interface LoadedOrder {
  readonly order: OrderRow
  readonly items: readonly OrderItemRow[]
  readonly customer: CustomerRow
  readonly product: ProductRow | null
  readonly discount: DiscountTable | null
  readonly subscription: SubscriptionRow | null
}

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

const selected = (db: Db, reach: Reach) => db.q.selectFrom('orders').selectAll().where('organization_id', '=', withinReach(reach))

const listed = async (db: Db, reach: Reach, organizations: readonly string[], query: Listing, filters: readonly RawBuilder<unknown>[]) => {
  const { items, total, next_cursor } = await listRows(db, list, organizations, query, filters, (found) =>
    selected(db, reach).where('id', 'in', found).execute(),
  )
  return { items: await loadOrders(db, reach, items), total, next_cursor }
}

export const listOrders = async (db: Db, reach: Reach, query: OrderFilters & Listing) => {
  const filters = [
    ...common(query),
    ...anyOf('discount_id', query.discount_id),
    ...anyOf('customer_id', query.customer_id),
    ...anyOf('checkout_id', query.checkout_id),
    ...anyOf('status', query.status, 'text'),
  ]
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, reach, { external_id: query.external_customer_id })))
  if (query.created_after) filters.push(sql`created_at >= ${query.created_after}`)
  if (query.created_before) filters.push(sql`created_at <= ${query.created_before}`)
  filters.push(...metadataHas(query.metadata))
  return listed(db, reach, organizationIds(reach, query.organization_id), query, filters)
}

/** What one customer bought. A draft is its seller's until it is made final. */
export const listOrdersOf = (db: Db, reach: Reach, customer_id: string, query: CommonFilters & Listing & { query?: string | undefined }) => {
  const filters = [sql`customer_id = ${customer_id}`, sql`status <> 'draft'`, ...common(query)]
  if (query.query) filters.push(sql`description ilike ${containing(query.query)}`)
  return listed(db, reach, organizationIds(reach), query, filters)
}

/** Rows with all that is shown of them, in their order. A deleted customer and an archived product are shown as well: an order outlives them. */
export const loadOrders = async (db: Db, reach: Reach, rows: readonly OrderRow[]): Promise<LoadedOrder[]> => {
  if (rows.length === 0) return []
  const [items, customers, products, discounts, subscriptions] = await Promise.all([
    itemsOf(db, rows),
    loadCustomers(
      db,
      reach,
      rows.map(({ customer_id }) => customer_id),
    ),
    loadProductRows(
      db,
      referred(rows, ({ product_id }) => product_id),
    ),
    loadDiscounts(
      db,
      referred(rows, ({ discount_id }) => discount_id),
    ),
    loadSubscriptionRows(
      db,
      referred(rows, ({ subscription_id }) => subscription_id),
    ),
  ])
  return rows.map((order) => ({
    order,
    items: items.filter(({ order_id }) => order_id === order.id),
    // The database's own keys hold it: it is there.
    customer: customers.find(({ id }) => id === order.customer_id)!,
    product: products.find(({ id }) => id === order.product_id) ?? null,
    discount: discounts.find(({ id }) => id === order.discount_id) ?? null,
    subscription: subscriptions.find(({ id }) => id === order.subscription_id) ?? null,
  }))
}

const itemsOf = (db: Db, orders: readonly OrderRow[]): Promise<OrderItemRow[]> =>
  db.q
    .selectFrom('order_items')
    .selectAll()
    .where('organization_id', 'in', [...new Set(orders.map(({ organization_id }) => organization_id))])
    .where(
      'order_id',
      'in',
      orders.map(({ id }) => id),
    )
    .orderBy('position')
    .execute()

export const findOrder = async (db: Db, reach: Reach, id: string): Promise<LoadedOrder | undefined> =>
  (await loadOrders(db, reach, await selected(db, reach).where('id', '=', id).execute()))[0]

/** Holds the order: what is owed, paid and given back changes by one caller at a time, and its events are drawn in that order. */
export const lockOrder = async (tx: Tx, reach: Reach, id: string): Promise<Locked<OrderRow> | undefined> =>
  (await selected(tx, reach).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<OrderRow> | undefined

/** The order as it is, without holding it. */
export const readOrder = (db: Db, organization_id: string, id: string): Promise<OrderRow | undefined> =>
  db.q.selectFrom('orders').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Whether anything of a held subscription is still owed after it was asked for in vain. */
export const findOpenFailures = async (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>): Promise<boolean> =>
  (await tx.q
    .selectFrom('orders')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('status', '=', 'pending')
    .where('first_failed_at', 'is not', null)
    .executeTakeFirst()) !== undefined

/** Whether what was paid for the period under way has been given back. */
export const isPeriodRefunded = async (tx: Tx, { organization_id, id, current_period_start }: Locked<SubscriptionRow>): Promise<boolean> =>
  (await tx.q
    .selectFrom('orders')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('period_start', '=', current_period_start)
    .where('status', '=', 'refunded')
    .executeTakeFirst()) !== undefined

/** What a customer owes after it was asked for in vain. */
export const findOwed = async (db: Db, organization_id: string, customer_id: string): Promise<string[]> =>
  (
    await db.q
      .selectFrom('orders')
      .select('id')
      .where('organization_id', '=', organization_id)
      .where('customer_id', '=', customer_id)
      .where('status', '=', 'pending')
      .where('first_failed_at', 'is not', null)
      .orderBy('created_at')
      .execute()
  ).map(({ id }) => id)

/** Holds the orders of a held subscription that wait for money, and tells whether an attempt to charge them is under way, or has an outcome that they have not heard of. */
export const lockOpenOrders = async (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>): Promise<{ order: Locked<OrderRow>; charging: boolean }[]> => {
  const orders = (await tx.q
    .selectFrom('orders')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('status', '=', 'pending')
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()) as Locked<OrderRow>[]
  if (orders.length === 0) return []
  const { rows } = await sql<{ order_id: string }>`
    select order_id from payments where organization_id = ${organization_id} and (status = 'pending' or concluded_at is null) and order_id = any(${orders.map((order) => order.id)}::uuid[])`.execute(
    tx.q,
  )
  return orders.map((order) => ({ order, charging: rows.some(({ order_id }) => order_id === order.id) }))
}

/** The orders of a subscription that is held. */
export const ordersOf = (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>): Promise<OrderRow[]> =>
  tx.q.selectFrom('orders').selectAll().where('organization_id', '=', organization_id).where('subscription_id', '=', id).execute()

/** The starts of the last periods that were billed since a moment, for the stop-loss. */
export const periodsBilled = async (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>, since: Date): Promise<Date[]> => {
  const rows = await tx.q
    .selectFrom('orders')
    .select('period_start')
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('billing_reason', '=', 'subscription_cycle')
    .where('period_start', '>=', since)
    .orderBy('period_start', 'desc')
    .limit(12)
    .execute()
  return rows.flatMap(({ period_start }) => (period_start ? [period_start] : []))
}

const stored = <T extends Partial<OrderRow>>(changes: T) => ({
  ...changes,
  ...(changes.billing_address ? { billing_address: json(changes.billing_address) } : {}),
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
  ...(changes.custom_field_data === undefined ? {} : { custom_field_data: json(changes.custom_field_data) }),
})

export type NewOrderItem = Omit<OrderItemRow, 'organization_id' | 'order_id' | 'created_at' | 'position'>
export type NewOrderTax = Omit<OrderTaxRow, 'organization_id' | 'created_at'>

/** Writes an order, its lines in their order, and how the tax of each came about. Nobody else can see it yet, which is as good as holding it. */
export const insertOrder = async (tx: Tx, row: OrderRow, items: readonly NewOrderItem[], taxes: readonly NewOrderTax[]): Promise<Locked<OrderRow>> => {
  const { organization_id, id: order_id, created_at } = row
  const lines = items.map((item, position) => ({ ...item, organization_id, order_id, created_at, position }))
  const levied = taxes.map((tax) => ({ ...tax, organization_id, created_at }))
  if (lines.length === 0) return (await tx.q.insertInto('orders').values(stored(row)).returningAll().executeTakeFirstOrThrow()) as Locked<OrderRow>
  const one = tx.q.with('lines', (q) => q.insertInto('order_items').values(lines))
  const all = levied.length === 0 ? one : one.with('levied', (q) => q.insertInto('order_taxes').values(levied))
  return (await all.insertInto('orders').values(stored(row)).returningAll().executeTakeFirstOrThrow()) as Locked<OrderRow>
}

export const changeOrder = async (tx: Tx, order: Locked<OrderRow>, changes: Partial<OrderRow>): Promise<Locked<OrderRow>> =>
  (await tx.q
    .updateTable('orders')
    .set({ modified_at: tx.clock.business(), ...stored(changes) })
    .where('organization_id', '=', order.organization_id)
    .where('id', '=', order.id)
    .returningAll()
    .executeTakeFirstOrThrow()) as Locked<OrderRow>

/**
 * The next number of a customer. Its counter stays locked until the transaction ends: whoever comes next waits, and
 * counts on from here or, where this is undone, from before.
 */
export const countInvoice = async (tx: Tx, organization_id: string, customer_id: string): Promise<number> => {
  const { rows } = await sql<{ last_number: number }>`
    insert into invoice_counters (organization_id, customer_id, last_number) values (${organization_id}, ${customer_id}, 1)
    on conflict (organization_id, customer_id) do update set last_number = invoice_counters.last_number + 1
    returning last_number`.execute(tx.q)
  return rows[0]!.last_number
}

export const isInvoiceNumberTaken = async (tx: Tx, organization_id: string, invoice_number: string): Promise<boolean> =>
  (await tx.q
    .selectFrom('orders')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('invoice_number', '=', invoice_number)
    .executeTakeFirst()) !== undefined
