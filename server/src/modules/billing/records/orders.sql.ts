import type { LineLabel } from '@bursar/views'
import type { Address, CustomFieldData, Metadata, OrderBillingReason, OrderStatus, TaxIDFormat } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { LineQuote } from '../../../gateways/tax/tax.ts'
import type { TaxBehavior, TaxReason } from '../../../kernel/taxes.ts'
import { lockRow, lockRows, writeRow } from '../../../platform/postgres/locks.ts'
import { json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { DiscountTable, LoadedProduct, ProductRow, JsonProduct } from '../../catalog/index.ts'
import type { CustomerRow } from '../../customers/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import type { Records } from '../../../platform/postgres/lists.sql.ts'
import {
  customerOf,
  discountOf,
  productOf,
  productRowOf,
  readCustomer,
  readDiscount,
  readProductRow,
  readProducts,
  readSellers,
  sellerOf,
} from './related.sql.ts'
import { subscriptionTimestamps, type SubscriptionRow } from './subscriptions.sql.ts'

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
  /** Whether an invoice file exists that matches the current data of the order. */
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
  /** The period of the subscription that the order bills. */
  period_start: Date | null
  period_end: Date | null
  /** The time of the first failed payment of the order. */
  first_failed_at: Date | null
  /** The time when the benefits of the order were revoked, by a refund or a lost dispute. */
  benefits_revoked_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
  /** The quote of the tax service that the order used. Null for other taxes. */
  tax_quote_id: string | null
}

export interface OrderItemRow {
  organization_id: string
  id: string
  created_at: Date
  order_id: string
  position: number
  label: LineLabel
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
  behavior: TaxBehavior
  basis_amount: number
  tax_amount: number
  reason: TaxReason
}

/** A quote of the tax service, stored with the order that used it. */
export interface TaxQuoteRow {
  organization_id: string
  id: string
  created_at: Date
  customer_id: string
  service_quote_id: string
  fingerprint: string
  expires_at: Date
  behavior: TaxBehavior
  address: Address | null
  tax_id: string | null
  tax_id_format: TaxIDFormat | null
  lines: LineQuote['lines']
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    tax_quotes: TaxQuoteRow
    orders: OrderRow
    order_items: OrderItemRow
    order_taxes: OrderTaxRow
    invoice_counters: { organization_id: string; customer_id: string; last_number: number }
  }
}

/** An order with the related rows that a response shows. */
export interface LoadedOrder {
  readonly order: OrderRow
  readonly items: readonly OrderItemRow[]
  readonly customer: CustomerRow
  readonly product: ProductRow | null
  readonly discount: DiscountTable | null
  readonly subscription: SubscriptionRow | null
}

const selected = (db: Db, scope: TenantScope) => db.q.selectFrom('orders').selectAll().where('organization_id', '=', inScope(scope))

/** An order as the portal shows it to the buyer: with the whole product and the seller. */
export interface BoughtOrder extends LoadedOrder {
  readonly bought: LoadedProduct | null
  readonly seller: OrganizationRow
}

interface JsonParts<Product> {
  readonly items: readonly JsonRow<OrderItemRow>[]
  readonly customer: JsonRow<CustomerRow>
  readonly discount: JsonRow<DiscountTable> | null
  readonly subscription: JsonRow<SubscriptionRow> | null
  readonly product: Product | null
  readonly seller: JsonRow<OrganizationRow> | null
}

/** The columns of an order `o` with its related rows. Includes deleted customers and archived products, because an order outlives them. */
const orderColumns = (scope: TenantScope, { product, seller }: Record<'product' | 'seller', RawBuilder<unknown>>): RawBuilder<unknown> => sql`
  o.*,
  (select coalesce(json_agg(i order by i.position), '[]') from order_items i where i.organization_id = o.organization_id and i.order_id = o.id) as items,
  ${customerOf(scope, 'o')} as customer, ${discountOf('o')} as discount,
  (select to_json(s) from subscriptions s where s.organization_id = o.organization_id and s.id = o.subscription_id) as subscription,
  ${product} as product, ${seller} as seller`

/** Selects orders with their related rows, in one statement. */
const selectRows = async <Product>(
  db: Db,
  scope: TenantScope,
  ids: readonly string[],
  related: Record<'product' | 'seller', RawBuilder<unknown>>,
): Promise<(OrderRow & JsonParts<Product>)[]> => {
  if (ids.length === 0) return []
  const { rows } = await sql<OrderRow & JsonParts<Product>>`
    select ${orderColumns(scope, related)} from orders o where o.organization_id = ${inScope(scope)} and o.id = any(${ids}::uuid[])`.execute(db.q)
  return rows
}

const parse = (
  { items, customer, discount, subscription, product: _product, seller: _seller, ...order }: OrderRow & JsonParts<unknown>,
  product: ProductRow | null,
): LoadedOrder => ({
  order,
  items: items.map((item) => fromJson<OrderItemRow>(item, { created_at: true })),
  customer: readCustomer(customer),
  product,
  discount: readDiscount(discount),
  subscription: subscription && fromJson<SubscriptionRow>(subscription, subscriptionTimestamps),
})

const withProductRow = { product: productRowOf('o'), seller: sql`null` }

type OrderRecord = OrderRow & JsonParts<JsonRow<ProductRow>>
const parseOrder = (row: OrderRecord): LoadedOrder => parse(row, readProductRow(row.product))

/** The columns of an order for a list, and the function that parses them. */
export const orderRecords = (scope: TenantScope): Records<OrderRecord, LoadedOrder> => ({
  alias: 'o',
  columns: orderColumns(scope, withProductRow),
  parse: parseOrder,
})

export const selectOrders = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedOrder[]> =>
  (await selectRows<JsonRow<ProductRow>>(db, scope, ids, withProductRow)).map(parseOrder)

export const selectBought = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<BoughtOrder[]> => {
  const rows = await selectRows<JsonProduct>(db, scope, ids, { product: productOf('o'), seller: sellerOf('o') })
  const products = readProducts(rows)
  const sellers = readSellers(rows)
  return rows.map((row) => {
    const bought = row.product_id === null ? null : products.get(row.product_id)!
    return { ...parse(row, bought?.product ?? null), bought, seller: sellers.get(row.organization_id)! }
  })
}

/** Loads the related rows of orders that the caller holds, in the given sequence. */
export const loadOrders = async (db: Db, scope: TenantScope, rows: readonly OrderRow[]): Promise<LoadedOrder[]> => {
  const ids = rows.map(({ id }) => id)
  const loaded = new Map((await selectOrders(db, scope, ids)).map((one) => [one.order.id, one]))
  return rows.map((order) => ({ ...loaded.get(order.id)!, order }))
}

export const findOrder = async (db: Db, scope: TenantScope, id: string): Promise<LoadedOrder | undefined> => (await selectOrders(db, scope, [id]))[0]

/**
 * Locks the order, so that its due, paid and refunded amounts change in one transaction at a time. The same lock puts
 * the events of the order in sequence.
 */
export const lockOrder = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<OrderRow> | undefined> =>
  await lockRow(selected(tx, scope).where('id', '=', id))

/** Finds the row of an order without its related records. */
export const findOrderRow = (db: Db, scope: TenantScope, id: string): Promise<OrderRow | undefined> =>
  selected(db, scope).where('id', '=', id).executeTakeFirst()

/** Reads the order without a lock. */
export const readOrder = (db: Db, organization_id: string, id: string): Promise<OrderRow | undefined> =>
  db.q.selectFrom('orders').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/**
 * Reads the seller of an order and the keys of the rows to lock before the order, without a lock. Returns undefined if
 * there is no such order, or if the seller is deleted.
 */
export const findOrderKeys = async (
  db: Db,
  organization_id: string,
  id: string,
): Promise<(Pick<OrderRow, 'customer_id' | 'subscription_id'> & { readonly seller: OrganizationRow }) | undefined> => {
  const { rows } = await sql<Pick<OrderRow, 'customer_id' | 'subscription_id'> & { seller: JsonRow<OrganizationRow> | null }>`
    select o.customer_id, o.subscription_id, ${sellerOf('o')} as seller from orders o where o.organization_id = ${organization_id} and o.id = ${id}`.execute(
    db.q,
  )
  const seller = readSellers(rows).get(organization_id)
  return seller && { ...rows[0]!, seller }
}

/** Whether the locked subscription has an open order with a failed payment. */
export const findOpenFailures = async (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>): Promise<boolean> =>
  (await tx.q
    .selectFrom('orders')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('status', '=', 'pending')
    .where('first_failed_at', 'is not', null)
    .executeTakeFirst()) !== undefined

/** Returns the ids of the customer's open orders with a failed payment, oldest first. */
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

/**
 * Locks the open orders of a locked subscription. `charging` is true if a payment attempt is in progress, or if its
 * result was not applied yet.
 */
export const lockOpenOrders = async (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>): Promise<{ order: Locked<OrderRow>; charging: boolean }[]> => {
  const orders = await lockRows(
    tx.q
      .selectFrom('orders')
      .selectAll()
      .where('organization_id', '=', organization_id)
      .where('subscription_id', '=', id)
      .where('status', '=', 'pending')
      .orderBy('id'),
  )
  if (orders.length === 0) return []
  const { rows } = await sql<{ order_id: string }>`
    select order_id from payments where organization_id = ${organization_id} and (status = 'pending' or concluded_at is null) and order_id = any(${orders.map((order) => order.id)}::uuid[])`.execute(
    tx.q,
  )
  return orders.map((order) => ({ order, charging: rows.some(({ order_id }) => order_id === order.id) }))
}

/** Returns the orders of a locked subscription. */
export const ordersOf = (tx: Tx, { organization_id, id }: Locked<SubscriptionRow>): Promise<OrderRow[]> =>
  tx.q.selectFrom('orders').selectAll().where('organization_id', '=', organization_id).where('subscription_id', '=', id).execute()

/** Returns the starts of the last periods that were billed since a moment, for the stop-loss check. */
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

export type NewTaxQuote = Omit<TaxQuoteRow, 'organization_id' | 'id' | 'created_at' | 'customer_id'>

/** Returns the stored quote of an order. */
export const taxQuoteRow = ({ organization_id, tax_quote_id, created_at, customer_id }: OrderRow, quote: NewTaxQuote): TaxQuoteRow => ({
  ...quote,
  organization_id,
  id: tax_quote_id!,
  created_at,
  customer_id,
})

/** Inserts an order with its lines and the tax of each line. The row counts as locked, because no other transaction can see it yet. */
export const insertOrder = async (
  tx: Tx,
  row: OrderRow,
  items: readonly NewOrderItem[],
  taxes: readonly NewOrderTax[],
  quote: NewTaxQuote | null = null,
): Promise<Locked<OrderRow>> => {
  const { organization_id, id: order_id, created_at } = row
  const lines = items.map((item, position) => ({ ...item, organization_id, order_id, created_at, position }))
  const levied = taxes.map((tax) => ({ ...tax, organization_id, created_at }))
  if (lines.length === 0) return await writeRow(tx.q.insertInto('orders').values(stored(row)).returningAll())
  const one = tx.q.with('lines', (q) => q.insertInto('order_items').values(lines))
  const all = levied.length === 0 ? one : one.with('levied', (q) => q.insertInto('order_taxes').values(levied))
  const quoted = quote && taxQuoteRow(row, quote)
  const whole =
    quoted === null
      ? all
      : all.with('quoted', (q) => q.insertInto('tax_quotes').values({ ...quoted, address: quoted.address && json(quoted.address), lines: json(quoted.lines) }))
  return await writeRow(whole.insertInto('orders').values(stored(row)).returningAll())
}

export const changeOrder = async (tx: BusinessTx, order: Locked<OrderRow>, changes: Partial<OrderRow>): Promise<Locked<OrderRow>> =>
  await writeRow(
    tx.q
      .updateTable('orders')
      .set({ modified_at: tx.clock.business(), ...stored(changes) })
      .where('organization_id', '=', order.organization_id)
      .where('id', '=', order.id)
      .returningAll(),
  )

/**
 * Counts one invoice for each of the given customers, who may occur several times. Returns the last number of each. The
 * counters stay locked until the transaction ends. Concurrent callers wait. After a rollback, the next caller gets the
 * same numbers. The counters are locked in the order of the customers' ids, which prevents deadlocks.
 */
export const countInvoices = async (tx: Tx, organization_id: string, customer_ids: readonly string[]): Promise<Map<string, number>> => {
  const { rows } = await sql<{ customer_id: string; last_number: number }>`
    insert into invoice_counters (organization_id, customer_id, last_number)
    select ${organization_id}, customer_id, count(*) from unnest(${customer_ids}::uuid[]) as c (customer_id) group by customer_id order by customer_id
    on conflict (organization_id, customer_id) do update set last_number = invoice_counters.last_number + excluded.last_number
    returning customer_id, last_number`.execute(tx.q)
  return new Map(rows.map(({ customer_id, last_number }) => [customer_id, last_number]))
}

/** Returns those of the given invoice numbers that an order of the organization has. */
export const takenInvoiceNumbers = async (tx: Tx, organization_id: string, numbers: readonly string[]): Promise<Set<string>> => {
  const { rows } = await sql<{ invoice_number: string }>`
    select invoice_number from orders where organization_id = ${organization_id} and invoice_number = any(${numbers}::text[])`.execute(tx.q)
  return new Set(rows.map(({ invoice_number }) => invoice_number))
}
