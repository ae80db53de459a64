import type { CustomerCancellationReason, CustomFieldData, Metadata, Meter, PageRequest, RecurringInterval, SubscriptionStatus } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, referred, sidesOf, type Key, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, json, metadataHas, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadDiscounts, loadMeters, loadPrices, loadProducts, type DiscountTable, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { loadUpdates, type UpdateRow } from './updates.sql.ts'
import { findCustomerIds, loadCustomers, type CustomerRow } from '../../customers/index.ts'

export interface SubscriptionRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  status: SubscriptionStatus
  customer_id: string
  product_id: string
  discount_id: string | null
  checkout_id: string | null
  payment_method_id: string | null
  amount: number
  currency: string
  tax_behavior: 'inclusive' | 'exclusive' | null
  recurring_interval: RecurringInterval
  recurring_interval_count: number
  anchor_day: number
  current_period_start: Date
  current_period_end: Date
  current_meter_period_start: Date | null
  current_meter_period_end: Date | null
  trial_start: Date | null
  trial_end: Date | null
  started_at: Date | null
  cancel_at_period_end: boolean
  canceled_at: Date | null
  ends_at: Date | null
  ended_at: Date | null
  past_due_at: Date | null
  pause_at_period_end: boolean
  paused_at: Date | null
  resumes_at: Date | null
  seats: number | null
  discount_applied_at: Date | null
  customer_cancellation_reason: CustomerCancellationReason | null
  customer_cancellation_comment: string | null
  metadata: Metadata
  custom_field_data: CustomFieldData
  /** The discount that the period under way was billed with. */
  period_discount_id: string | null
  /** Since when its periods follow each other by the calendar it has now. */
  calendar_from: Date
  /** The end of the period that a reminder was sent for. */
  reminded_for: Date | null
  /** It would have been billed too often: nothing happens to it before somebody has looked. */
  parked_at: Date | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    subscriptions: SubscriptionRow
    subscription_prices: { organization_id: string; subscription_id: string; price_id: string; position: number }
  }
}

/** A subscription, with all that is shown of it. */
export interface LoadedSubscription {
  readonly subscription: SubscriptionRow
  readonly customer: CustomerRow
  readonly product: LoadedProduct
  readonly discount: DiscountTable | null
  readonly prices: readonly PriceRow[]
  readonly meters: readonly Meter[]
  /** The change that waits for the next period. */
  readonly pending: UpdateRow | null
  /** The change that waits for its order to be paid. */
  readonly paying: UpdateRow | null
}

const nameOf = (table: string, column: string, by: string) =>
  `coalesce((select o.${column} from ${table} o where o.organization_id = subscriptions.organization_id and o.id = subscriptions.${by}), '')`

/** One that has not started stands where it was made. */
const started = 'coalesce(started_at, created_at)'

const list = {
  table: 'subscriptions',
  tenant: 'organization_id',
  id: 'id',
  counted: 'subscriptions',
  sortable: {
    customer: { expression: nameOf('customers', 'email', 'customer_id'), type: 'text' },
    status: { expression: 'status', type: 'text' },
    started_at: { expression: started, type: 'timestamptz' },
    current_period_end: { expression: 'current_period_end', type: 'timestamptz' },
    ended_at: { expression: `coalesce(ended_at, '9999-12-31Z'::timestamptz)`, type: 'timestamptz' },
    ends_at: { expression: `coalesce(ends_at, '9999-12-31Z'::timestamptz)`, type: 'timestamptz' },
    amount: { expression: 'amount', type: 'bigint' },
    product: { expression: nameOf('products', 'name', 'product_id'), type: 'text' },
    discount: { expression: nameOf('discounts', 'name', 'discount_id'), type: 'text' },
    organization: { expression: 'organization_id::text', type: 'text' },
  },
} as const satisfies ListSpec<string>

export interface SubscriptionFilters {
  readonly organization_id: readonly string[]
  readonly product_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
  readonly discount_id: readonly string[]
  readonly active?: boolean | undefined
  readonly status: readonly SubscriptionStatus[]
  readonly cancel_at_period_end?: boolean | undefined
  readonly customer_cancellation_reason: readonly CustomerCancellationReason[]
  readonly canceled_at_after?: Date | undefined
  readonly canceled_at_before?: Date | undefined
  readonly started_after?: Date | undefined
  readonly started_before?: Date | undefined
  readonly metadata?: Record<string, string[]> | undefined
}

const selected = (db: Db, reach: Reach) => db.q.selectFrom('subscriptions').selectAll().where('organization_id', '=', withinReach(reach))

export const listSubscriptions = async (db: Db, reach: Reach, query: SubscriptionFilters & PageRequest & { sorting: readonly string[] }) => {
  const filters = [
    ...(['product_id', 'customer_id', 'discount_id'] as const).flatMap((column) => anyOf(column, query[column])),
    ...(['status', 'customer_cancellation_reason'] as const).flatMap((column) => anyOf(column, query[column], 'text')),
  ]
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, reach, { external_id: query.external_customer_id })))
  if (query.active !== undefined) filters.push(sql`(status in ('trialing', 'active')) = ${query.active}`)
  if (query.cancel_at_period_end !== undefined) filters.push(sql`cancel_at_period_end = ${query.cancel_at_period_end}`)
  if (query.canceled_at_after) filters.push(sql`canceled_at >= ${query.canceled_at_after}`)
  if (query.canceled_at_before) filters.push(sql`canceled_at <= ${query.canceled_at_before}`)
  // Of what the list is ordered by the same is true, and that can be looked up.
  if (query.started_after) filters.push(sql`started_at >= ${query.started_after} and ${sql.raw(started)} >= ${query.started_after}`)
  if (query.started_before) filters.push(sql`started_at <= ${query.started_before} and ${sql.raw(started)} <= ${query.started_before}`)
  filters.push(...metadataHas(query.metadata))
  const ids = organizationIds(reach, query.organization_id)
  const { items, total, next_cursor } = await listRows(db, list, ids, query, filters, (found) => selected(db, reach).where('id', 'in', found).execute())
  return { items: await loadSubscriptions(db, reach, items), total, next_cursor }
}

/** The subscriptions of one customer. All are with one seller, so that sorting by it leaves them as they are. */
export const listSubscriptionsOf = async (
  db: Db,
  reach: Reach,
  customer_id: string,
  query: PageRequest & { product_id: readonly string[]; active?: boolean | undefined; query?: string | undefined; sorting: readonly string[] },
) => {
  const filters: RawBuilder<unknown>[] = [sql`customer_id = ${customer_id}`, ...anyOf('product_id', query.product_id)]
  if (query.active !== undefined) filters.push(sql`(status in ('trialing', 'active')) = ${query.active}`)
  // Asked of each that the customer has, and not of all products.
  if (query.query) filters.push(sql`${sql.raw(nameOf('products', 'name', 'product_id'))} ilike ${containing(query.query)}`)
  const { items, total, next_cursor } = await listRows(db, list, organizationIds(reach), query, filters, (found) =>
    selected(db, reach).where('id', 'in', found).execute(),
  )
  return { items: await loadSubscriptions(db, reach, items), total, next_cursor }
}

/** The subscriptions in which somebody has claimed a seat: the member that they are, or the customer. */
export const listSubscriptionsSeating = async (db: Db, reach: Reach, who: { customer_id: string; member_id: string | null }, query: PageRequest) => {
  const theirs = who.member_id === null ? sql`holder_customer_id = ${who.customer_id}` : sql`member_id = ${who.member_id}`
  const tenants = organizationIds(reach)
  const filters = [
    sql`id in (select subscription_id from seats where organization_id = any(${tenants}::uuid[]) and status = 'claimed' and subscription_id is not null and ${theirs})`,
  ]
  const { items, total, next_cursor } = await listRows(db, list, tenants, { ...query, sorting: ['-started_at'] }, filters, (found) =>
    selected(db, reach).where('id', 'in', found).execute(),
  )
  return { items: await loadSubscriptions(db, reach, items), total, next_cursor }
}

/** Rows with all that is shown of them, in their order. A deleted customer and an archived product are shown as well: it outlives them. */
export const loadSubscriptions = async (db: Db, reach: Reach, rows: readonly SubscriptionRow[]): Promise<LoadedSubscription[]> => {
  if (rows.length === 0) return []
  const [updates, bought, customers, products, discounts] = await Promise.all([
    loadUpdates(
      db,
      referred(rows, ({ id }) => id),
    ),
    pricesOf(
      db,
      referred(rows, ({ id }) => id),
    ),
    loadCustomers(
      db,
      reach,
      rows.map(({ customer_id }) => customer_id),
    ),
    loadProducts(
      db,
      referred(rows, ({ product_id }) => product_id),
    ),
    loadDiscounts(
      db,
      referred(rows, ({ discount_id }) => discount_id),
    ),
  ])
  const prices = await loadPrices(
    db,
    referred(bought, ({ price_id }) => price_id),
  )
  const meters = await loadMeters(
    db,
    referred(prices, ({ meter_id }) => meter_id),
  )
  return rows.map((subscription) => ({
    subscription,
    // The keys that refer to them are the database's own: they are there.
    customer: customers.find(({ id }) => id === subscription.customer_id)!,
    product: products.find(({ product }) => product.id === subscription.product_id)!,
    discount: discounts.find(({ id }) => id === subscription.discount_id) ?? null,
    prices: bought.filter(({ subscription_id }) => subscription_id === subscription.id).map(({ price_id }) => prices.find(({ id }) => id === price_id)!),
    meters,
    // What has ended waits for nothing.
    pending: (subscription.ended_at === null && updates.find(({ subscription_id, kind }) => subscription_id === subscription.id && kind === 'pending')) || null,
    paying: updates.find(({ subscription_id, kind }) => subscription_id === subscription.id && kind === 'paying') ?? null,
  }))
}

const pricesOf = async (db: Db, keys: readonly Key[]) => {
  const { tenants, ids } = sidesOf(keys)
  return db.q
    .selectFrom('subscription_prices')
    .selectAll()
    .where('organization_id', 'in', tenants)
    .where('subscription_id', 'in', ids)
    .orderBy('position')
    .execute()
}

/** The rows alone, for what shows a subscription in passing. */
export const loadSubscriptionRows = async (db: Db, keys: readonly Key[]): Promise<SubscriptionRow[]> => {
  if (keys.length === 0) return []
  const { tenants, ids } = sidesOf(keys)
  return db.q.selectFrom('subscriptions').selectAll().where('organization_id', 'in', tenants).where('id', 'in', ids).execute()
}

export const findSubscription = async (db: Db, reach: Reach, id: string): Promise<LoadedSubscription | undefined> =>
  (await loadSubscriptions(db, reach, await selected(db, reach).where('id', '=', id).execute()))[0]

/** Holds the subscription: its period, status and seats change by one caller at a time, and its events are drawn in that order. */
export const lockSubscription = async (tx: Tx, reach: Reach, id: string): Promise<Locked<SubscriptionRow> | undefined> =>
  (await selected(tx, reach).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<SubscriptionRow> | undefined

const stored = <T extends Partial<SubscriptionRow>>(changes: T) => ({
  ...changes,
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
  ...(changes.custom_field_data === undefined ? {} : { custom_field_data: json(changes.custom_field_data) }),
})

/** Writes a subscription and the prices it is bought at, in their order. Nobody else can see it yet, which is as good as holding it. */
export const insertSubscription = async (tx: Tx, row: SubscriptionRow, price_ids: readonly string[]): Promise<Locked<SubscriptionRow>> => {
  const made = await tx.q.insertInto('subscriptions').values(stored(row)).returningAll().executeTakeFirstOrThrow()
  await insertPrices(tx, row.organization_id, row.id, price_ids)
  return made as Locked<SubscriptionRow>
}

/** The prices that it is at from now on, in their order. */
export const replacePrices = async (tx: Tx, { organization_id, id: subscription_id }: Locked<SubscriptionRow>, price_ids: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('subscription_prices').where('organization_id', '=', organization_id).where('subscription_id', '=', subscription_id).execute()
  await insertPrices(tx, organization_id, subscription_id, price_ids)
}

const insertPrices = async (tx: Tx, organization_id: string, subscription_id: string, price_ids: readonly string[]): Promise<void> => {
  if (price_ids.length === 0) return
  await tx.q
    .insertInto('subscription_prices')
    .values(price_ids.map((price_id, position) => ({ organization_id, subscription_id, price_id, position })))
    .execute()
}

export const changeSubscription = async (tx: Tx, subscription: Locked<SubscriptionRow>, changes: Partial<SubscriptionRow>): Promise<Locked<SubscriptionRow>> =>
  (await tx.q
    .updateTable('subscriptions')
    .set(stored(changes))
    .where('organization_id', '=', subscription.organization_id)
    .where('id', '=', subscription.id)
    .returningAll()
    .executeTakeFirstOrThrow()) as Locked<SubscriptionRow>

/** The subscriptions of a customer that have not ended. */
export const findLiveSubscriptions = async (db: Db, organization_id: string, customer_id: string): Promise<string[]> =>
  (
    await db.q
      .selectFrom('subscriptions')
      .select('id')
      .where('organization_id', '=', organization_id)
      .where('customer_id', '=', customer_id)
      .where('ended_at', 'is', null)
      .orderBy('id')
      .execute()
  ).map(({ id }) => id)

/** Whether this buyer, by account or by address, has a subscription that is being paid for. */
export const hasBillableSubscription = async (
  db: Db,
  organization_id: string,
  buyer: { customer_id: string | null; email: string | null },
): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from subscriptions s join customers c on c.organization_id = s.organization_id and c.id = s.customer_id
    where s.organization_id = ${organization_id} and s.status in ('trialing', 'active', 'past_due')
      and (s.customer_id = ${buyer.customer_id} or (${buyer.customer_id}::uuid is null and lower(c.email) = lower(${buyer.email}))) limit 1`.execute(db.q)
  return rows.length > 0
}

/**
 * What a subscription goes on giving although its payment failed is to be looked at from this moment on, in the time of
 * whoever bought it: a clock that travels stands still for it.
 */
export const watchGrace = async (tx: Tx, { organization_id, id, clock_id }: SubscriptionRow, due_at: Date): Promise<void> => {
  await sql`
    insert into benefit_graces (organization_id, id, due_at, clock_id) values (${organization_id}, ${id}, ${due_at}, ${clock_id})
    on conflict (organization_id, id) do update set due_at = excluded.due_at, clock_id = excluded.clock_id`.execute(tx.q)
}
