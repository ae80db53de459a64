import { within, type TenantScope } from '../../../kernel/actors.ts'
import { sum } from '../../../kernel/money.ts'
import { newId } from '../../../kernel/ids.ts'
import { later } from '../../../platform/clock.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { isHeld, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { capabilities, findLivingOrganization, type OrganizationRow } from '../../organizations/index.ts'
import { billedTooOften } from '../calc/stop-loss.ts'
import { billOf, taxQuestionOf } from '../invoicing/billing.ts'
import { attemptFor, type Charge } from '../invoicing/collecting.ts'
import { composeOrder, issuedOf, numberedOf, numbersOfAll, tellCreated, type Bill, type ComposedOrder } from '../invoicing/issuing.ts'
import { lockBalances, postOrders } from '../ledger/ledger.ts'
import type { AccountRow, HeldMethod } from '../payments/attempts.sql.ts'
import { holdMethods, insertPayments } from '../payments/groups.sql.ts'
import { findRenewalFacts, insertOrders, lockSubscriptions, updateSubscriptions, type RenewalFacts } from '../records/groups.sql.ts'
import { billable, emitSubscriptionEvents, subscriptionDue } from '../records/subscription-events.ts'
import { quoteGroup } from '../taxes/taxes.ts'
import { loadSubscriptions, type LoadedSubscription, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import { periodFrom, periodLines } from './periods.ts'

/**
 * The result of a row of a group: the charge of its new order, `lost` if its lease is not held any more, or `alone` if
 * the row must be processed in a transaction of its own.
 */
export type GroupResult = Charge | 'lost' | 'alone'

/**
 * Begins the next periods of due subscriptions of one organization, in one transaction with set-based statements.
 * Creates their orders and payment attempts, and leases the orders to this worker. Writes nothing for rows that lost
 * their lease, and nothing for rows with anything unusual. Returns the results in the sequence of the leases.
 */
export const billGroup = async (tx: Tx, leases: readonly Lease[]): Promise<GroupResult[]> => {
  const { organization_id, holder } = leases[0]!
  const seller = await findLivingOrganization(tx, { id: organization_id })
  if (!seller || !capabilities[seller.status].subscription_renewals) return leases.map(() => 'alone')
  const scope = within(organization_id, 'machine', seller.member_phase)
  const locked = new Map(
    (
      await lockSubscriptions(
        tx,
        organization_id,
        leases.map(({ id }) => id),
      )
    ).map((row) => [row.id, row]),
  )
  const wall = tx.clock.wall()
  const held = leases.flatMap((lease) => {
    const row = locked.get(lease.id)
    return row && isHeld(row, lease, wall) ? [row] : []
  })
  const charges = await billHeld(inWallTime(tx), scope, seller, held, holder)
  const isMine = new Set(held.map(({ id }) => id))
  // A row that does not exist any more has no lease either. Its own transaction finds nothing to do.
  return leases.map(({ id }) => charges.get(id) ?? (isMine.has(id) || !locked.has(id) ? 'alone' : 'lost'))
}

/** A subscription that is renewed in the group, with its next period. */
interface Renewal {
  readonly before: Locked<SubscriptionRow>
  readonly changes: Partial<SubscriptionRow>
  /** The subscription in its new period. */
  readonly next: LoadedSubscription
  readonly period: { readonly start: Date; readonly end: Date }
  readonly lines: ReturnType<typeof periodLines>
}

/** A renewal with its bill, its payment method and the account that charges it. */
interface Billed extends Renewal {
  readonly bill: Bill
  readonly method: HeldMethod
  readonly account: AccountRow
}

/** Renews those of the locked subscriptions that need nothing but a new period, its order and its charge. Returns the charges. */
const billHeld = async (
  tx: BusinessTx,
  scope: TenantScope,
  seller: OrganizationRow,
  held: readonly Locked<SubscriptionRow>[],
  holder: string,
): Promise<Map<string, Charge>> => {
  const organization_id = seller.id
  const now = tx.clock.business()
  const candidates = onePerCustomer(held.filter((row) => isPlain(row, now)))
  if (candidates.length === 0) return new Map()
  const loaded = await loadSubscriptions(tx, scope, candidates)
  const facts = await findRenewalFacts(tx, organization_id, candidates)
  const renewals = loaded.flatMap((one, at) => renewalOf(candidates[at]!, one, facts.get(one.subscription.id)!, now) ?? [])
  if (renewals.length === 0) return new Map()
  const token = newId(tx.clock.wall())
  const due = {
    due_at: now,
    lease_until: later(tx.clock.wall(), sweeps['billing.collect'].lease_ms),
    lease_token: token,
    lease_holder: holder,
  }
  const billed = await priceAll(tx, seller, renewals, due)
  if (billed.length === 0) return new Map()
  const numbers = await numbersOfAll(
    tx,
    seller,
    billed.map(({ bill }) => numberedOf(bill)),
  )
  const orders = billed.map((one, at) => ({ ...one, composed: composeOrder(tx, one.bill, numbers[at]!) }))
  return writeAll(tx, scope, organization_id, orders, { token, holder })
}

/** True if the row itself shows nothing unusual: billable, its period is over, and nothing else happens at its end. */
const isPlain = (row: SubscriptionRow, now: Date): boolean => {
  const due = subscriptionDue(row)
  return (
    row.clock_id === null &&
    row.parked_at === null &&
    billable.includes(row.status) &&
    due !== null &&
    due <= now &&
    row.current_period_end <= now &&
    !row.cancel_at_period_end &&
    !row.pause_at_period_end
  )
}

/** Keeps the first subscription of each customer. The orders of one customer share a balance, so they are computed one by one. */
const onePerCustomer = (rows: readonly Locked<SubscriptionRow>[]): Locked<SubscriptionRow>[] => {
  const seen = new Set<string>()
  return rows.filter(({ customer_id }) => !seen.has(customer_id) && seen.add(customer_id))
}

/** Computes the next period. Returns undefined if the row must be processed alone. */
const renewalOf = (before: Locked<SubscriptionRow>, loaded: LoadedSubscription, facts: RenewalFacts, now: Date): Renewal | undefined => {
  const { customer, pending, paying } = loaded
  if (customer.deleted_at !== null || customer.clock_id !== null || pending || paying || facts.has_entries) return undefined
  // Usage is settled under locks of the subscription's own periods.
  if (facts.has_unsettled_usage || loaded.periods.length > 0 || loaded.prices.some(({ meter_id }) => meter_id !== null)) return undefined
  const start = before.current_period_end
  if (billedTooOften({ ...before, period_start: start, earlier: facts.earlier })) return undefined
  const { period, discount, changes } = periodFrom(start, before, loaded)
  const columns = { ...changes, modified_at: now, lease_until: null, lease_token: null, lease_holder: null }
  const due_at = subscriptionDue({ ...before, ...columns })
  const next = { ...loaded, subscription: { ...before, ...columns, due_at }, discount, pending: null }
  const lines = periodLines(next)
  // A free period has no order.
  return sum(lines.map(({ amount }) => amount)) > 0 ? { before, changes: { ...columns, due_at }, next, period, lines } : undefined
}

/** Computes the bills. Leaves out orders with unknown tax, orders without a payment method, and orders that need no payment. */
const priceAll = async (tx: BusinessTx, seller: OrganizationRow, renewals: readonly Renewal[], due: NonNullable<Bill['due']>): Promise<Billed[]> => {
  const quotes = await quoteGroup(
    tx,
    renewals.map(({ next, lines }) => taxQuestionOf(seller, next, lines)),
  )
  const methods = await holdMethods(
    tx,
    seller.id,
    renewals.map(({ before }) => before),
  )
  const ready = renewals.flatMap((renewal, at) => {
    const paying = methods.get(renewal.before.id)
    const quote = quotes[at]
    return paying && quote !== undefined ? [{ ...renewal, ...paying, quote }] : []
  })
  if (ready.length === 0) return []
  const balances = await lockBalances(
    tx,
    seller.id,
    ready.map(({ before }) => before),
  )
  return ready
    .map(({ quote, ...renewal }, at) => {
      const terms = { billing_reason: 'subscription_cycle' as const, period: renewal.period, due, quote, balance: balances[at]!, carried: false }
      return { ...renewal, bill: billOf(seller, renewal.next, renewal.lines, terms) }
    })
    .filter(({ bill }) => bill.status === 'pending')
}

/** Writes the new periods, orders, postings and attempts, one statement per table, and emits the events. Returns the charges. */
const writeAll = async (
  tx: BusinessTx,
  scope: TenantScope,
  organization_id: string,
  orders: readonly (Billed & { readonly composed: ComposedOrder })[],
  { token, holder }: { token: string; holder: string },
): Promise<Map<string, Charge>> => {
  await updateSubscriptions(
    tx,
    organization_id,
    orders.map(({ before, changes }) => ({ id: before.id, ...changes })),
  )
  await insertOrders(
    tx,
    orders.map(({ composed }) => composed),
  )
  await postOrders(
    tx,
    orders.map(({ composed }) => composed.figures),
  )
  const payments = orders.map(({ composed, account, method }) => attemptFor(tx, composed.order, account, method, 'subscription_cycle'))
  await insertPayments(tx, payments)
  for (const { before, next, composed, bill } of orders) {
    await emitSubscriptionEvents(tx, scope, before, next, { cycled: true })
    await tellCreated(tx, issuedOf(markLocked(composed.order), composed, bill.parties))
  }
  return new Map(
    orders.map(({ before, composed, account, method }, at) => [
      before.id,
      { payment: payments[at]!, method: method.name, account, lease: { table: 'orders', organization_id, id: composed.order.id, token, holder } },
    ]),
  )
}
