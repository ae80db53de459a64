import type {
  CustomerCancellationReason,
  CustomFieldData,
  Metadata,
  Meter,
  RecurringInterval,
  SubscriptionProrationBehavior,
  SubscriptionStatus,
} from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { lockRow, writeRow } from '../../../platform/postgres/locks.ts'
import { json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { DiscountTable, LoadedProduct, PriceRow, JsonProduct } from '../../catalog/index.ts'
import type { CustomerRow } from '../../customers/index.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import { fromJson, type JsonRow, type Timestamps } from '../../../platform/postgres/json-rows.ts'
import { customerOf, discountOf, productOf, readCustomer, readDiscount, readPrice, readProducts, readSellers, sellerOf, type JsonPrice } from './related.sql.ts'
import { creditedOn, usagePeriodsOf, type UsageSpan } from './subscription-usage.sql.ts'
import type { UpdateRow } from './subscription-updates.sql.ts'
import type { OpenPeriod } from './usage-periods.sql.ts'

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
  /** The discount with which the current period was billed. */
  period_discount_id: string | null
  /** The moment from which the current billing calendar counts its periods. */
  calendar_from: Date
  /** The end of the period for which a reminder was sent. */
  reminded_for: Date | null
  /**
   * Time at which the stop-loss check parked the subscription, because it was billed too often. Nothing is billed until
   * a person has checked it.
   */
  parked_at: Date | null
  /** How the last change of product or seats was billed. System events name it. */
  proration_behavior: z.output<typeof SubscriptionProrationBehavior> | null
  due_at: Date | null
  clock_id: string | null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}

export const subscriptionTimestamps: Timestamps<SubscriptionRow> = {
  created_at: true,
  modified_at: true,
  current_period_start: true,
  current_period_end: true,
  current_meter_period_start: true,
  current_meter_period_end: true,
  trial_start: true,
  trial_end: true,
  started_at: true,
  canceled_at: true,
  ends_at: true,
  ended_at: true,
  past_due_at: true,
  paused_at: true,
  resumes_at: true,
  discount_applied_at: true,
  calendar_from: true,
  reminded_for: true,
  parked_at: true,
  due_at: true,
  lease_until: true,
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    subscriptions: SubscriptionRow
    subscription_prices: { organization_id: string; subscription_id: string; price_id: string; position: number }
  }
}

/**
 * A subscription with the related rows that a response shows, without its usage. Usage is computed only to present the
 * subscription, because it can take seconds, and a renewal does not need it.
 */
export interface LoadedSubscription {
  readonly subscription: SubscriptionRow
  readonly customer: CustomerRow
  readonly product: LoadedProduct
  readonly discount: DiscountTable | null
  readonly prices: readonly PriceRow[]
  readonly meters: readonly Meter[]
  /** The units that benefits have credited to each metered price, and its usage periods in the current billing period. */
  readonly credits: readonly { readonly price_id: string; readonly credited_units: number; readonly periods: readonly UsageSpan[] }[]
  /** The usage periods that have not ended. */
  readonly periods: readonly OpenPeriod[]
  /** True if the subscription has or had usage periods. */
  readonly has_usage: boolean
  /** The change that applies with the next period. */
  readonly pending: UpdateRow | null
  /** The change that applies when its order is paid. */
  readonly paying: UpdateRow | null
}

const selected = (db: Db, scope: TenantScope) => db.q.selectFrom('subscriptions').selectAll().where('organization_id', '=', inScope(scope))

/** A loaded subscription with its seller, whom the portal shows and whose settings limit the changes. */
export interface SoldSubscription extends LoadedSubscription {
  readonly seller: OrganizationRow
}

interface JsonParts {
  readonly customer: JsonRow<CustomerRow>
  readonly product: JsonProduct | null
  readonly discount: JsonRow<DiscountTable> | null
  readonly updates: readonly JsonRow<UpdateRow>[]
  readonly bought: readonly (JsonPrice & {
    readonly meter: JsonRow<Meter> | null
    readonly credited_units: number
    readonly spans: readonly JsonRow<UsageSpan>[]
  })[]
  readonly periods: readonly JsonRow<OpenPeriod>[]
  readonly has_usage: boolean
  readonly seller: JsonRow<OrganizationRow> | null
}

/** Selects subscriptions with their related rows, in one statement. Includes deleted customers and archived products, because a subscription outlives them. */
const selectRows = async (db: Db, scope: TenantScope, ids: readonly string[], seller: RawBuilder<unknown>): Promise<(SubscriptionRow & JsonParts)[]> => {
  if (ids.length === 0) return []
  const { rows } = await sql<SubscriptionRow & JsonParts>`
    select s.*, ${customerOf(scope, 's')} as customer, ${productOf('s')} as product, ${discountOf('s')} as discount,
      (select coalesce(json_agg(u), '[]') from subscription_updates u where u.organization_id = s.organization_id and u.subscription_id = s.id) as updates,
      (select coalesce(json_agg(json_build_object('price', r, 'meter', m, 'credited_units', ${creditedOn('s', 'r.meter_id')}, 'spans', ${usagePeriodsOf('s', 'r')}) order by b.position), '[]') from subscription_prices b
        join product_prices r on r.organization_id = b.organization_id and r.id = b.price_id
        left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
        where b.organization_id = s.organization_id and b.subscription_id = s.id) as bought,
      (select coalesce(json_agg(json_build_object('id', p.id, 'price_id', p.price_id, 'meter_id', p.meter_id, 'starts_at', p.starts_at)), '[]')
        from usage_periods p where p.organization_id = s.organization_id and p.subscription_id = s.id and p.ends_at is null) as periods,
      exists (select from usage_periods p where p.organization_id = s.organization_id and p.subscription_id = s.id) as has_usage,
      ${seller} as seller
    from subscriptions s where s.organization_id = ${inScope(scope)} and s.id = any(${ids}::uuid[])`.execute(db.q)
  return rows
}

const parse = (rows: readonly (SubscriptionRow & JsonParts)[]): LoadedSubscription[] => {
  const products = readProducts(rows)
  return rows.map(({ customer, product: _product, discount, updates, bought, periods, has_usage, seller: _seller, ...subscription }) => {
    const changes = updates.map((update) => fromJson<UpdateRow>(update, { created_at: true, modified_at: true }))
    return {
      subscription,
      customer: readCustomer(customer),
      // A foreign key guarantees that the product exists.
      product: products.get(subscription.product_id)!,
      discount: readDiscount(discount),
      prices: bought.map(readPrice),
      meters: bought.flatMap(({ meter }) => (meter ? [fromJson<Meter>(meter, { created_at: true, modified_at: true, archived_at: true })] : [])),
      credits: bought.flatMap(({ price, meter, credited_units, spans }) =>
        meter ? [{ price_id: price.id, credited_units, periods: spans.map((span) => fromJson<UsageSpan>(span, { since: true, until: true })) }] : [],
      ),
      periods: periods.map((period) => fromJson<OpenPeriod>(period, { starts_at: true })),
      has_usage,
      // An ended subscription has no pending change.
      pending: (subscription.ended_at === null && changes.find(({ kind }) => kind === 'pending')) || null,
      paying: changes.find(({ kind }) => kind === 'paying') ?? null,
    }
  })
}

export const selectSubscriptions = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<LoadedSubscription[]> =>
  parse(await selectRows(db, scope, ids, sql`null`))

export const selectSold = async (db: Db, scope: TenantScope, ids: readonly string[]): Promise<SoldSubscription[]> => {
  const rows = await selectRows(db, scope, ids, sellerOf('s'))
  const sellers = readSellers(rows)
  return parse(rows).map((loaded) => ({ ...loaded, seller: sellers.get(loaded.subscription.organization_id)! }))
}

/** Loads the related rows of subscriptions that the caller holds, in the given sequence. */
export const loadSubscriptions = async (db: Db, scope: TenantScope, rows: readonly SubscriptionRow[]): Promise<LoadedSubscription[]> => {
  const ids = rows.map(({ id }) => id)
  const loaded = new Map((await selectSubscriptions(db, scope, ids)).map((one) => [one.subscription.id, one]))
  return rows.map((subscription) => ({ ...loaded.get(subscription.id)!, subscription }))
}

export const findSubscription = async (db: Db, scope: TenantScope, id: string): Promise<LoadedSubscription | undefined> =>
  (await selectSubscriptions(db, scope, [id]))[0]

/**
 * Locks the subscription, so that its period, status and seats change in one transaction at a time. The same lock puts
 * the events of the subscription in sequence.
 */
export const lockSubscription = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<SubscriptionRow> | undefined> =>
  await lockRow(selected(tx, scope).where('id', '=', id))

const stored = <T extends Partial<SubscriptionRow>>(changes: T) => ({
  ...changes,
  ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }),
  ...(changes.custom_field_data === undefined ? {} : { custom_field_data: json(changes.custom_field_data) }),
})

/** Inserts a subscription and its prices in the given order. The row counts as locked, because no other transaction can see it yet. */
export const insertSubscription = async (tx: Tx, row: SubscriptionRow, price_ids: readonly string[]): Promise<Locked<SubscriptionRow>> => {
  if (price_ids.length === 0) return await writeRow(tx.q.insertInto('subscriptions').values(stored(row)).returningAll())
  return await writeRow(
    tx.q
      .with('bought', (q) => q.insertInto('subscription_prices').values(priceRows(row, price_ids)))
      .insertInto('subscriptions')
      .values(stored(row))
      .returningAll(),
  )
}

/** Replaces the prices of a subscription, in the given order. */
export const replacePrices = async (tx: Tx, subscription: Locked<SubscriptionRow>, price_ids: readonly string[]): Promise<void> => {
  const { organization_id, id } = subscription
  await tx.q.deleteFrom('subscription_prices').where('organization_id', '=', organization_id).where('subscription_id', '=', id).execute()
  if (price_ids.length > 0) await tx.q.insertInto('subscription_prices').values(priceRows(subscription, price_ids)).execute()
}

const priceRows = ({ organization_id, id: subscription_id }: SubscriptionRow, price_ids: readonly string[]) =>
  price_ids.map((price_id, position) => ({ organization_id, subscription_id, price_id, position }))

export const changeSubscription = async (tx: Tx, subscription: Locked<SubscriptionRow>, changes: Partial<SubscriptionRow>): Promise<Locked<SubscriptionRow>> =>
  await writeRow(
    tx.q
      .updateTable('subscriptions')
      .set(stored(changes))
      .where('organization_id', '=', subscription.organization_id)
      .where('id', '=', subscription.id)
      .returningAll(),
  )

/** Returns the ids of the customer's subscriptions that have not ended. */
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

/** Whether the buyer has a billable subscription: by customer id, or by e-mail address if there is no id. */
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
 * Schedules the check whether a past-due subscription keeps its benefits or its grace period is over. `due_at` is in
 * the time of the customer's clock. A test clock that is advanced stops at `due_at`.
 */
export const watchGrace = async (tx: Tx, { organization_id, id, clock_id }: SubscriptionRow, due_at: Date): Promise<void> => {
  await sql`
    insert into benefit_graces (organization_id, id, due_at, clock_id) values (${organization_id}, ${id}, ${due_at}, ${clock_id})
    on conflict (organization_id, id) do update set due_at = excluded.due_at, clock_id = excluded.clock_id`.execute(tx.q)
}
