import { invalidAt, InvalidRequest, subscriptionActive, subscriptionCreated, subscriptionUpdated, type SubscriptionCreate } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { emitAll } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Tx } from '../../../platform/postgres/postgres.ts'
import { loadProducts } from '../../catalog/index.ts'
import { becomeBuyer, lockCustomers, touchState } from '../../customers/index.ts'
import { findLivingOrganization, permit } from '../../organizations/index.ts'
import { anchorOf, nextPeriod } from '../calc/periods.ts'
import { countTaken } from '../seats/seats.sql.ts'
import { staticLines } from '../invoicing/applying.ts'
import {
  insertSubscription,
  loadSubscriptions,
  lockSubscription,
  replacePrices,
  type LoadedSubscription,
  type SubscriptionRow,
} from '../records/subscriptions.sql.ts'
import { presentSubscription } from '../records/subscriptions.ts'
import { subscriptionDue, entitle, updateSubscription, subjectOf, emitSubscriptionEvents } from '../records/subscription-events.ts'
import { deleteUpdate, openEntries } from '../records/subscription-updates.sql.ts'
import { followUsage } from '../records/usage-periods.ts'

/** Initial values of a new subscription. */
export const untouched = {
  modified_at: null,
  discount_id: null,
  discount_applied_at: null,
  period_discount_id: null,
  checkout_id: null,
  payment_method_id: null,
  tax_behavior: null,
  current_meter_period_start: null,
  current_meter_period_end: null,
  trial_start: null,
  trial_end: null,
  cancel_at_period_end: false,
  canceled_at: null,
  ends_at: null,
  ended_at: null,
  past_due_at: null,
  pause_at_period_end: false,
  paused_at: null,
  resumes_at: null,
  customer_cancellation_reason: null,
  customer_cancellation_comment: null,
  reminded_for: null,
  parked_at: null,
  proration_behavior: null,
  ...unleased,
} as const satisfies Partial<SubscriptionRow>

/** Creates a free subscription without a checkout. The customer must exist. The product must be free in the seller's default currency. */
export const createSubscription = async (wall: Tx, scope: TenantScope, body: SubscriptionCreate): Promise<LoadedSubscription> => {
  const by = 'customer_id' in body ? { id: body.customer_id } : { external_id: body.external_customer_id }
  const [customer, another] = await lockCustomers(wall, scope, by)
  if (!customer || another) {
    const [field, input] = 'customer_id' in body ? ['customer_id', body.customer_id] : ['external_customer_id', body.external_customer_id]
    throw new InvalidRequest(
      invalidAt(['body', field], another ? 'Several organizations have a customer with this id. Use customer_id.' : 'There is no such customer.', input),
    )
  }
  const { organization_id } = customer
  permit(scope, organization_id, 'sales:manage')
  const tx = await inTimeOf(wall, customer)
  const seller = (await findLivingOrganization(tx, { id: organization_id }))!
  const wrong = (problem: string) => new InvalidRequest(invalidAt(['body', 'product_id'], problem, body.product_id))
  const product = (await loadProducts(tx, [{ tenant: organization_id, id: body.product_id }]))[0]
  if (!product) throw wrong('There is no product with this id.')
  const { is_archived, recurring_interval, recurring_interval_count } = product.product
  if (is_archived) throw wrong('This product is archived.')
  if (recurring_interval === null || recurring_interval_count === null) throw wrong('This is a one-time product. A subscription needs a recurring product.')
  const currency = seller.default_presentment_currency
  const prices = product.prices.filter(({ price_currency }) => price_currency === currency)
  const seated = prices.find(({ amount_type }) => amount_type === 'seat_based')
  const seats = seated ? seated.seat_tiers!.tiers[0]!.min_seats : null
  const costs = staticLines(
    prices.filter(({ amount_type }) => amount_type !== 'custom'),
    { amount: 0, seats },
  ).some(({ amount }) => amount > 0)
  if (prices.length === 0 || costs || prices.some(({ amount_type, minimum_amount }) => amount_type === 'custom' && minimum_amount !== 0))
    throw wrong('This product is not free. Sell it through a checkout.')
  await becomeBuyer(tx, scope, customer, { seats: seats !== null })
  const now = tx.clock.business()
  const anchor_day = anchorOf(now)
  const period = nextPeriod(now, recurring_interval, recurring_interval_count, anchor_day)
  const row: SubscriptionRow = {
    ...untouched,
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: now,
    status: 'active',
    customer_id: customer.id,
    product_id: body.product_id,
    amount: 0,
    currency,
    recurring_interval,
    recurring_interval_count,
    anchor_day,
    current_period_start: period.start,
    current_period_end: period.end,
    started_at: now,
    seats,
    metadata: body.metadata ?? {},
    custom_field_data: {},
    calendar_from: now,
    clock_id: customer.clock_id,
  }
  return startSubscription(
    tx,
    scope,
    row,
    prices.map(({ id }) => id),
  )
}

/**
 * Upgrades a free subscription in place to the purchased plan. Returns undefined if the subscription can no longer be
 * upgraded. The caller then creates a new subscription.
 */
export const upgradeSubscription = async (
  tx: BusinessTx,
  scope: TenantScope,
  id: string,
  bought: SubscriptionRow,
  price_ids: readonly string[],
): Promise<SubscriptionRow | undefined> => {
  const before = await lockSubscription(tx, scope, id)
  if (!before || !isUpgradable(before) || before.customer_id !== bought.customer_id) return undefined
  const { pending, paying } = (await loadSubscriptions(tx, scope, [before]))[0]!
  if (paying) return undefined
  // Open prorations are in the currency of the old plan and cannot be billed in another currency.
  if (before.currency !== bought.currency && (await openEntries(tx, before)).length > 0) return undefined
  // Refuses an upgrade with fewer seats than are assigned, so that no member loses a seat.
  const pool = { organization_id: before.organization_id, subscription_id: id, order_id: null }
  if ((await countTaken(tx, pool, tx.clock.business())) > (bought.seats ?? 0)) return undefined
  if (pending) await deleteUpdate(tx, pending)
  await replacePrices(tx, before, price_ids)
  const { id: _id, created_at: _created, started_at: _started, metadata: _metadata, custom_field_data: _data, modified_at: _modified, ...changes } = bought
  const after = await updateSubscription(tx, before, changes)
  await emitSubscriptionEvents(tx, scope, before, (await loadSubscriptions(tx, scope, [after]))[0]!, { told: true })
  return after
}

/** Whether the subscription is active, free and not canceled. */
export const isUpgradable = ({ status, amount, cancel_at_period_end }: SubscriptionRow): boolean => status === 'active' && amount === 0 && !cancel_at_period_end

/** Inserts a new subscription and emits `subscription.created`, `subscription.active` and `subscription.updated`. */
export const startSubscription = async (
  tx: BusinessTx,
  scope: TenantScope,
  row: SubscriptionRow,
  price_ids: readonly string[],
): Promise<LoadedSubscription> => {
  const made = await insertSubscription(tx, { ...row, due_at: subscriptionDue(row) }, price_ids)
  const loaded = (await loadSubscriptions(tx, scope, [made]))[0]!
  await followUsage(tx, null, loaded)
  // The first period has just begun, so it has no usage.
  const data = presentSubscription(loaded, [])
  await emitAll(tx, [subscriptionCreated, subscriptionActive, subscriptionUpdated], subjectOf(made), data)
  if (made.status === 'trialing') await enqueue(tx, 'mail.trial_started', { organization_id: made.organization_id, subscription_id: made.id })
  await entitle(tx, made)
  await touchState(tx, made)
  return loaded
}
