import type { TenantScope } from '../../../kernel/actors.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { hours, later, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { checkHeld, releaseLease, underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { loadProducts } from '../../catalog/index.ts'
import { capabilities, findLivingOrganization, type OrganizationRow } from '../../organizations/index.ts'
import { anchorOf } from '../calc/periods.ts'
import { reminderOf } from '../calc/reminders.ts'
import { billedTooOften } from '../calc/stop-loss.ts'
import { promiseMail } from '../invoicing/promises.sql.ts'
import { cycled, type Bill, type Issued } from '../invoicing/issuing.ts'
import { periodsBilled } from '../records/orders.sql.ts'
import { changesInterval, changesOf, discountWith, shapeOf, stillPossible, type Shape } from '../invoicing/applying.ts'
import {
  findLiveSubscriptions,
  loadSubscriptions,
  lockSubscription,
  replacePrices,
  type LoadedSubscription,
  type SubscriptionRow,
} from '../records/subscriptions.sql.ts'
import { subscriptionDue, updateSubscription, emitSubscriptionEvents } from '../records/subscription-events.ts'
import { assignEntries, deleteUpdate, openEntries, type EntryRow } from '../records/subscription-updates.sql.ts'
import { TaxUnknown } from '../taxes/taxes.ts'
import { billLines, lineOf, type RenewalContext } from '../invoicing/billing.ts'
import { failed, pay, prepare, type Charge } from '../invoicing/collecting.ts'
import { callOffOpen, ended } from '../invoicing/ending.ts'
import { keepUsage, usageLines, type UsageLines } from '../invoicing/metering.ts'
import { periodFrom, periodLines, type PeriodLine } from './periods.ts'

/**
 * Sweep task for subscriptions. Advances a due subscription by one step, in one transaction under the lease. If several
 * periods are overdue, the subscription is due again immediately. The same worker charges the new order after the
 * commit.
 */
export const renew = async (deps: Deps, lease: Lease): Promise<void> => {
  try {
    await take(deps, lease)
  } catch (error) {
    if (!(error instanceof TaxUnknown)) throw error
    // Nothing is billed without tax. The renewal is retried every hour until the customer's address is complete.
    deps.platform.log.error('tax_unknown', { organization_id: lease.organization_id, subscription_id: lease.id })
    await underLease(deps.transact, lease, async (tx) => later(await dueMoment(tx, lease), 1 * hours))
  }
}

/** Returns the current time of the customer's clock, which may be a test clock. */
const dueMoment = async (wall: Tx, { organization_id, id }: Lease): Promise<Date> => {
  const subscription = await lockSubscription(wall, within(organization_id, 'machine', 'phase2'), id)
  return (await inTimeOf(wall, subscription!)).clock.business()
}

const take = async (deps: Deps, lease: Lease): Promise<void> => {
  let charge: Charge | undefined
  await deps.transact(async (tx) => {
    charge = undefined
    const seller = await findLivingOrganization(tx, { id: lease.organization_id })
    const scope = within(lease.organization_id, 'machine', seller?.member_phase ?? 'phase2')
    const subscription = await lockSubscription(tx, scope, lease.id)
    if (!subscription) return
    checkHeld(subscription, lease, tx.clock.wall())
    const step: Step = seller ? await advance(deps, await inTimeOf(tx, subscription), scope, seller, subscription, lease.holder) : { next: null }
    charge = step.charge
    await releaseLease(tx, lease, step.next)
  })
  if (charge) await pay(deps, charge)
}

interface Step {
  readonly next: Date | null
  readonly charge?: Charge | undefined
}

const advance = async (
  deps: Deps,
  tx: BusinessTx,
  scope: TenantScope,
  seller: OrganizationRow,
  subscription: Locked<SubscriptionRow>,
  holder: string,
): Promise<Step> => {
  const now = tx.clock.business()
  const due = subscriptionDue(subscription)
  if (due === null || due > now) return { next: due }
  if (!capabilities[seller.status].subscription_renewals) return { next: later(now, 1 * hours) }
  const loaded = (await loadSubscriptions(tx, scope, [subscription]))[0]!
  const turn: RenewalContext = { tx, scope, seller, subscription, loaded }
  if (loaded.customer.deleted_at !== null) return { next: subscriptionDue(await end(turn, now)) }
  if (subscription.status === 'paused') return bill(deps, turn, holder, await resumed(turn, due))
  if (now < subscription.current_period_end) return { next: subscriptionDue(await remind(turn)) }
  // The payment for a subscription change is in progress. The change must be applied before the next period begins, or
  // be dropped.
  if (loaded.paying) return { next: later(now, 15 * seconds) }
  if (subscription.cancel_at_period_end) return finish(deps, turn, holder)
  if (subscription.pause_at_period_end) return pause(deps, turn, holder)
  return bill(deps, turn, holder, await cycle(turn, subscription.current_period_end))
}

const remind = async ({ tx, subscription }: RenewalContext): Promise<SubscriptionRow> => {
  const reminder = reminderOf(subscription)!
  await promiseMail(tx, reminder.kind === 'renewal' ? 'mail.renewal_reminder' : 'mail.trial_ending', subscription, subscription.current_period_end)
  // Keeps `modified_at`, because a reminder changes nothing that the API shows.
  return updateSubscription(tx, subscription, { reminded_for: subscription.current_period_end, modified_at: subscription.modified_at })
}

/** Begins a pause. Bills the open prorations first, because the pause may never end. */
const pause = async (deps: Deps, turn: RenewalContext, holder: string): Promise<Step> => {
  const { tx, scope, subscription, loaded } = turn
  const after = await updateSubscription(tx, subscription, { status: 'paused', paused_at: subscription.current_period_end, pause_at_period_end: false })
  const paused = { ...loaded, subscription: after }
  await emitSubscriptionEvents(tx, scope, subscription, paused)
  return bill(deps, turn, holder, { turn: { ...turn, subscription: after, loaded: paused }, lines: [], period: undefined })
}

/** Ends the subscription at once and voids its open orders. */
export const end = async ({ tx, scope, subscription, loaded }: RenewalContext, at: Date, { told = false } = {}): Promise<Locked<SubscriptionRow>> => {
  const after = await updateSubscription(tx, subscription, ended(subscription, at))
  await emitSubscriptionEvents(tx, scope, subscription, { ...loaded, subscription: after, pending: null }, { told })
  await callOffOpen(tx, scope, after)
  return after
}

/** Ends a canceled subscription and bills its open prorations. */
const finish = async (deps: Deps, turn: RenewalContext, holder: string): Promise<Step> => {
  const { tx, scope, subscription, loaded } = turn
  const at = subscription.current_period_end
  const after = await updateSubscription(tx, subscription, ended(subscription, at))
  await emitSubscriptionEvents(tx, scope, subscription, { ...loaded, subscription: after, pending: null })
  // Read the open entries before the open orders are voided. Voiding an order reopens its entries, and these must not
  // be billed again.
  const entries = await openEntries(tx, after)
  await callOffOpen(tx, scope, after)
  return bill(deps, turn, holder, {
    turn: { ...turn, subscription: after, loaded: { ...loaded, subscription: after, pending: null } },
    lines: [],
    entries,
    period: { start: at, end: at },
  })
}

/** A new period and its order lines. */
export interface Cycled {
  readonly turn: RenewalContext
  readonly lines: readonly PeriodLine[]
  readonly period: { readonly start: Date; readonly end: Date } | undefined
  /** The billing entries to put on this order. If absent, all open entries. */
  readonly entries?: readonly EntryRow[]
  /** The lines of usage. If absent, those of all periods that wait for a settlement. */
  readonly usage?: UsageLines
}

/**
 * Begins the next period at `start`. Applies the pending change and removes an expired discount. The end of the period
 * follows the anchor day, even if the last period ended earlier in a short month. If the subscription would be billed
 * too often, parks it and returns undefined.
 */
export const cycle = async (turn: RenewalContext, start: Date, restarted: Partial<SubscriptionRow> = {}): Promise<Cycled | undefined> => {
  const { tx, scope, subscription } = turn
  const pending = await pendingShape(turn)
  const changed = pending ? { ...changesOf(pending, changesInterval(subscription, pending) ? start : null), proration_behavior: 'next_period' as const } : {}
  const shaped = { ...subscription, ...changed, ...restarted }
  // This check precedes all writes, so that a parked subscription keeps its pending change.
  if (billedTooOften({ ...shaped, period_start: start, earlier: await periodsBilled(tx, subscription, shaped.calendar_from) })) {
    await updateSubscription(tx, subscription, { parked_at: tx.clock.business() })
    return undefined
  }
  const loaded = await takePending(turn, pending)
  const { period, discount, changes } = periodFrom(start, shaped, loaded)
  const after = await updateSubscription(tx, subscription, { ...changed, ...restarted, ...changes })
  const next = { ...loaded, subscription: after, discount, pending: null }
  await emitSubscriptionEvents(tx, scope, subscription, next, { cycled: true })
  return { turn: { ...turn, subscription: after, loaded: next }, period, lines: periodLines(next) }
}

/**
 * Returns the shape of the subscription after its pending change. Undefined if there is none, or if the product or
 * number of seats is no longer sold.
 */
const pendingShape = async ({ tx, subscription, loaded }: RenewalContext): Promise<Shape | undefined> => {
  const { pending } = loaded
  if (!pending) return undefined
  const product = pending.product_id === null ? null : ((await loadProducts(tx, [{ tenant: subscription.organization_id, id: pending.product_id }]))[0] ?? null)
  return stillPossible(() => shapeOf(loaded, product, pending.seats))
}

/** Applies the pending change. Drops it if its product or number of seats is no longer sold. */
const takePending = async ({ tx, subscription, loaded }: RenewalContext, shape: Shape | undefined): Promise<LoadedSubscription> => {
  if (loaded.pending) await deleteUpdate(tx, loaded.pending)
  if (!shape) return loaded
  await replacePrices(
    tx,
    subscription,
    shape.prices.map(({ id }) => id),
  )
  const { organization_id, discount_id, product_id } = subscription
  const target = shape.product.product.id
  const discount = target === product_id ? loaded.discount : await discountWith(tx, organization_id, discount_id, target)
  return { ...loaded, discount, product: shape.product, prices: shape.prices }
}

/** Ends a pause with a new period that begins at the given moment. */
export const resumed = (turn: RenewalContext, at: Date): Promise<Cycled | undefined> =>
  cycle(turn, at, { anchor_day: anchorOf(at), calendar_from: at, resumes_at: null, paused_at: null })

/** The error message for a caller that requests a period that was already billed. */
export const billedAlready = 'A period with this start was already billed.'

/**
 * Bills a new period and opens the attempt to charge it. The new order is leased to this worker, so that no other
 * worker collects it.
 */
const bill = async (deps: Deps, turn: RenewalContext, holder: string, cycled: Cycled | undefined): Promise<Step> => {
  if (!cycled) {
    deps.platform.log.error('subscription_parked', { organization_id: turn.subscription.organization_id, subscription_id: turn.subscription.id })
    return { next: null }
  }
  const { tx, scope, seller, subscription } = cycled.turn
  const wall = tx.clock.wall()
  const token = newId(wall)
  const issued = await billPeriod(cycled, {
    due_at: tx.clock.business(),
    lease_until: later(wall, sweeps['billing.collect'].lease_ms),
    lease_token: token,
    lease_holder: holder,
  })
  if (issued?.order.status !== 'pending') return { next: subscriptionDue(subscription) }
  const lease: Lease = { table: 'orders', organization_id: subscription.organization_id, id: issued.order.id, token, holder }
  const begun = await prepare(tx, issued, subscription, 'subscription_cycle')
  if (begun) return { next: subscriptionDue(subscription), charge: { ...begun, lease } }
  await releaseLease(tx, lease, await failed({ tx, scope, seller, subscription, order: issued.order }, { final: false }))
  const after = await lockSubscription(tx, scope, subscription.id)
  return { next: after ? subscriptionDue(after) : null }
}

/**
 * Creates the order for a new period, its open entries and ended periods of usage. Returns undefined if there is nothing to bill. A
 * discount is given for periods. So an order that begins no period bills usage without the discount.
 */
export const billPeriod = async ({ turn, lines, period, entries: given, usage: found }: Cycled, due: Bill['due']): Promise<Issued | undefined> => {
  const entries = given ?? (await openEntries(turn.tx, turn.subscription))
  const usage = found ?? (await usageLines(turn))
  const billedLines = [...lines, ...usage.lines, ...entries.map(lineOf)]
  const begins = period !== undefined && period.end > period.start
  if (billedLines.every(({ amount }) => amount === 0)) {
    // A free period needs no payment, so the benefits of the new period are renewed now.
    if (begins) await cycled(turn.tx, turn.subscription, period.start)
    await keepUsage(turn, usage, null)
    return undefined
  }
  const billed = begins || usage.lines.length === 0 ? turn : { ...turn, loaded: { ...turn.loaded, discount: null } }
  const issued = await billLines(billed, billedLines, { billing_reason: 'subscription_cycle', period, due })
  await assignEntries(turn.tx, entries, issued.order.id)
  await keepUsage(turn, usage, issued, lines.length)
  return issued
}

/** Job that ends all subscriptions of a deleted customer, because the customer cannot be charged any more. */
export const customerDeleted = async (
  { db, transact }: Deps,
  { organization_id, customer_id }: { organization_id: string; customer_id: string },
): Promise<void> => {
  for (const id of await findLiveSubscriptions(db, organization_id, customer_id))
    await transact(async (tx) => {
      const seller = await findLivingOrganization(tx, { id: organization_id })
      const scope = within(organization_id, 'machine', seller?.member_phase ?? 'phase2')
      const subscription = await lockSubscription(tx, scope, id)
      if (!seller || !subscription || subscription.ended_at !== null) return
      const timed = await inTimeOf(tx, subscription)
      await end({ tx: timed, scope, seller, subscription, loaded: (await loadSubscriptions(timed, scope, [subscription]))[0]! }, timed.clock.business())
    })
}
