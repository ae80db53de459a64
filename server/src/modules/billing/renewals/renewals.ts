import type { Reach } from '../../../kernel/actors.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { sum } from '../../../kernel/money.ts'
import { hours, later, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { checkHeld, releaseLease, underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { loadProducts } from '../../catalog/index.ts'
import { capabilities, findLivingOrganization, type OrganizationRow } from '../../organizations/index.ts'
import { isDiscountOver } from '../engine/discounts-over-time.ts'
import { anchorOf, nextPeriod } from '../engine/periods.ts'
import { reminderOf } from '../engine/reminders.ts'
import { billedTooOften } from '../engine/stop-loss.ts'
import { totalsOf } from '../engine/totals.ts'
import { lockBalance } from '../ledger/ledger.ts'
import { promiseMail } from '../mails/promises.sql.ts'
import { cycled, issue, reductionOf, type Bill, type Issued } from '../orders/issuing.ts'
import { periodsBilled } from '../orders/orders.sql.ts'
import { changesInterval, changesOf, discountWith, labelOf, shapeOf, staticLines, stillPossible, type Shape } from '../subscriptions/applying.ts'
import {
  findLiveSubscriptions,
  loadSubscriptions,
  lockSubscription,
  replacePrices,
  type LoadedSubscription,
  type SubscriptionRow,
} from '../subscriptions/subscriptions.sql.ts'
import { dueOf, keep, tell } from '../subscriptions/telling.ts'
import { assignEntries, deleteUpdate, openEntries, type EntryRow } from '../subscriptions/updates.sql.ts'
import { needTax, quoteTax, TaxUnknown } from '../taxes/taxes.ts'
import { failed, pay, prepare, type Charge } from './collecting.ts'
import { callOffOpen, ended } from './ending.ts'

/** Everything that a renewal is made of, held, in the customer's time. */
export interface Turn {
  readonly tx: Tx
  readonly reach: Reach
  readonly seller: OrganizationRow
  readonly subscription: Locked<SubscriptionRow>
  readonly loaded: LoadedSubscription
}

/**
 * The sweep over subscriptions: whatever is due happens once, in one transaction under the lease, one period at a time;
 * what is behind by several is due again at once. What the new period costs is charged right after, by the same worker.
 */
export const renew = async (means: Means, lease: Lease): Promise<void> => {
  try {
    await take(means, lease)
  } catch (error) {
    if (!(error instanceof TaxUnknown)) throw error
    // Nothing is billed without its tax: it waits until somebody has completed the address.
    means.platform.log.error('tax_unknown', { organization_id: lease.organization_id, subscription_id: lease.id })
    await underLease(means.transact, lease, async (tx) => later(await dueMoment(tx, lease), 1 * hours))
  }
}

/** Now, in the time of whoever it belongs to. */
const dueMoment = async (wall: Tx, { organization_id, id }: Lease): Promise<Date> => {
  const subscription = await lockSubscription(wall, within(organization_id, 'machine', 'phase2'), id)
  return (await inTimeOf(wall, subscription!)).clock.business()
}

const take = async (means: Means, lease: Lease): Promise<void> => {
  let charge: Charge | undefined
  await means.transact(async (tx) => {
    charge = undefined
    const seller = await findLivingOrganization(tx, { id: lease.organization_id })
    const reach = within(lease.organization_id, 'machine', seller?.member_phase ?? 'phase2')
    const subscription = await lockSubscription(tx, reach, lease.id)
    if (!subscription) return
    checkHeld(subscription, lease, tx.clock.wall())
    const step: Step = seller ? await advance(means, await inTimeOf(tx, subscription), reach, seller, subscription, lease.holder) : { next: null }
    charge = step.charge
    await releaseLease(tx, lease, step.next)
  })
  if (charge) await pay(means, charge)
}

interface Step {
  readonly next: Date | null
  readonly charge?: Charge | undefined
}

const advance = async (means: Means, tx: Tx, reach: Reach, seller: OrganizationRow, subscription: Locked<SubscriptionRow>, holder: string): Promise<Step> => {
  const now = tx.clock.business()
  const due = dueOf(subscription)
  if (due === null || due > now) return { next: due }
  if (!capabilities[seller.status].subscription_renewals) return { next: later(now, 1 * hours) }
  const loaded = (await loadSubscriptions(tx, reach, [subscription]))[0]!
  const turn: Turn = { tx, reach, seller, subscription, loaded }
  if (loaded.customer.deleted_at !== null) return { next: dueOf(await end(turn, now)) }
  if (subscription.status === 'paused') return bill(means, turn, holder, await resumed(turn, due))
  if (now < subscription.current_period_end) return { next: dueOf(await remind(turn)) }
  // A change is being paid for at this moment: it happens in the old period, or not at all.
  if (loaded.paying) return { next: later(now, 15 * seconds) }
  if (subscription.cancel_at_period_end) return finish(means, turn, holder)
  if (subscription.pause_at_period_end) return pause(means, turn, holder)
  return bill(means, turn, holder, await cycle(turn, subscription.current_period_end))
}

const remind = async ({ tx, subscription }: Turn): Promise<SubscriptionRow> => {
  const reminder = reminderOf(subscription)!
  await promiseMail(tx, reminder.kind === 'renewal' ? 'mail.renewal_reminder' : 'mail.trial_ending', subscription, subscription.current_period_end)
  // Nothing about it is different for anybody else.
  return keep(tx, subscription, { reminded_for: subscription.current_period_end, modified_at: subscription.modified_at })
}

/** A pause begins: what changes have cost and nobody has billed yet is billed before it, for nobody knows whether it ends. */
const pause = async (means: Means, turn: Turn, holder: string): Promise<Step> => {
  const { tx, subscription, loaded } = turn
  const after = await keep(tx, subscription, { status: 'paused', paused_at: subscription.current_period_end, pause_at_period_end: false })
  const paused = { ...loaded, subscription: after }
  await tell(tx, subscription, paused)
  return bill(means, turn, holder, { turn: { ...turn, subscription: after, loaded: paused }, lines: [], period: undefined })
}

/** It is over at once, and what is still open of it is called off. */
export const end = async ({ tx, reach, subscription, loaded }: Turn, at: Date): Promise<Locked<SubscriptionRow>> => {
  const after = await keep(tx, subscription, ended(subscription, at))
  await tell(tx, subscription, { ...loaded, subscription: after, pending: null })
  await callOffOpen(tx, reach, after)
  return after
}

/** The end of a subscription that was canceled: what changes of it have cost and nobody has billed yet is billed, then it is over. */
const finish = async (means: Means, turn: Turn, holder: string): Promise<Step> => {
  const { tx, subscription, loaded } = turn
  const at = subscription.current_period_end
  const after = await keep(tx, subscription, ended(subscription, at))
  await tell(tx, subscription, { ...loaded, subscription: after, pending: null })
  // What an order that is called off had said is forgiven with it; only what no order has said yet is billed.
  const entries = await openEntries(tx, after)
  await callOffOpen(tx, turn.reach, after)
  return bill(means, turn, holder, {
    turn: { ...turn, subscription: after, loaded: { ...loaded, subscription: after, pending: null } },
    lines: [],
    entries,
    period: { start: at, end: at },
  })
}

/** A new period, and what it costs. */
export interface Cycled {
  readonly turn: Turn
  readonly lines: readonly { product_price_id: string; label: string; amount: number; proration: false }[]
  readonly period: { readonly start: Date; readonly end: Date } | undefined
  /** What waited for this order; everything that waits, where it is not said. */
  readonly entries?: readonly EntryRow[]
}

/**
 * The next period begins at `start`: with the change that waited for it, without a discount whose time is over, on the day
 * that its calendar says, counted from the anchor and never from the end of a shorter month. Undefined: it would be
 * billed more often than its calendar allows, and is parked.
 */
export const cycle = async (turn: Turn, start: Date, restarted: Partial<SubscriptionRow> = {}): Promise<Cycled | undefined> => {
  const { tx, subscription } = turn
  const pending = await pendingShape(turn)
  const changed = pending ? changesOf(pending, changesInterval(subscription, pending) ? start : null) : {}
  const shaped = { ...subscription, ...changed, ...restarted }
  const period = nextPeriod(start, shaped.recurring_interval, shaped.recurring_interval_count, shaped.anchor_day)
  // Before anything has happened: what is parked stays as it was.
  if (billedTooOften({ ...shaped, period_start: start, earlier: await periodsBilled(tx, subscription, shaped.calendar_from) })) {
    await keep(tx, subscription, { parked_at: tx.clock.business() })
    return undefined
  }
  const loaded = await takePending(turn, pending)
  const discount = loaded.discount && !isOver(loaded, start) ? loaded.discount : null
  const after = await keep(tx, subscription, {
    ...changed,
    ...restarted,
    status: subscription.status === 'past_due' ? 'past_due' : 'active',
    current_period_start: period.start,
    current_period_end: period.end,
    discount_id: discount?.id ?? null,
    period_discount_id: discount?.id ?? null,
    discount_applied_at: discount === null ? null : (subscription.discount_applied_at ?? start),
  })
  const next = { ...loaded, subscription: after, discount, pending: null }
  await tell(tx, subscription, next, { cycled: true })
  return {
    turn: { ...turn, subscription: after, loaded: next },
    period,
    lines: staticLines(next.prices, after).map(({ product_price_id, amount, seats }) => ({
      product_price_id,
      amount,
      label: labelOf(next.product.product.name, seats),
      proration: false as const,
    })),
  }
}

const isOver = ({ discount, subscription }: LoadedSubscription, period_start: Date): boolean =>
  isDiscountOver({ ...discount!, applied_at: subscription.discount_applied_at, period_start })

/** What the change that waits would make of it, if that still can be. */
const pendingShape = async ({ tx, subscription, loaded }: Turn): Promise<Shape | undefined> => {
  const { pending } = loaded
  if (!pending) return undefined
  const product = pending.product_id === null ? null : ((await loadProducts(tx, [{ tenant: subscription.organization_id, id: pending.product_id }]))[0] ?? null)
  return stillPossible(() => shapeOf(loaded, product, pending.seats))
}

/** The change that waited for this period happens; one that cannot is dropped. */
const takePending = async ({ tx, subscription, loaded }: Turn, shape: Shape | undefined): Promise<LoadedSubscription> => {
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

/** A pause is over: a fresh period from the moment on that was said, or from now. */
export const resumed = (turn: Turn, at: Date): Promise<Cycled | undefined> =>
  cycle(turn, at, { anchor_day: anchorOf(at), calendar_from: at, resumes_at: null, paused_at: null })

/** What is said to whoever asks for a period that was billed. */
export const billedAlready = 'A period that begins at this moment was billed already.'

/** Bills a new period and opens the attempt to charge it; the order is the worker's own from its first moment. */
const bill = async (means: Means, turn: Turn, holder: string, cycled: Cycled | undefined): Promise<Step> => {
  if (!cycled) {
    means.platform.log.error('subscription_parked', { organization_id: turn.subscription.organization_id, subscription_id: turn.subscription.id })
    return { next: null }
  }
  const { tx, reach, seller, subscription } = cycled.turn
  const wall = tx.clock.wall()
  const token = newId(wall)
  const issued = await billPeriod(cycled, {
    due_at: tx.clock.business(),
    lease_until: later(wall, sweeps['billing.collect'].lease_ms),
    lease_token: token,
    lease_holder: holder,
  })
  if (issued?.order.status !== 'pending') return { next: dueOf(subscription) }
  const lease: Lease = { table: 'orders', organization_id: subscription.organization_id, id: issued.order.id, token, holder }
  const begun = await prepare(tx, issued, subscription, 'subscription_cycle')
  if (begun) return { next: dueOf(subscription), charge: { ...begun, lease } }
  await releaseLease(tx, lease, await failed({ tx, reach, seller, subscription, order: issued.order }, { final: false }))
  const after = await lockSubscription(tx, reach, subscription.id)
  return { next: after ? dueOf(after) : null }
}

/** The order for a new period with everything that waited for it; none where there is nothing to bill. */
export const billPeriod = async ({ turn, lines, period, entries: given }: Cycled, due: Bill['due']): Promise<Issued | undefined> => {
  const entries = given ?? (await openEntries(turn.tx, turn.subscription))
  const billedLines = [...lines, ...entries.map(lineOf)]
  if (billedLines.every(({ amount }) => amount === 0)) {
    // Nobody has to pay for it: it counts from now on.
    if (period && period.end > period.start) await cycled(turn.tx, turn.subscription, period.start)
    return undefined
  }
  const issued = await billLines(turn, billedLines, { billing_reason: 'subscription_cycle', period, due })
  await assignEntries(turn.tx, entries, issued.order.id)
  return issued
}

export const lineOf = ({ product_price_id, label, amount }: Pick<EntryRow, 'product_price_id' | 'label' | 'amount'>) => ({
  product_price_id,
  label,
  amount,
  proration: true as const,
})

export type BilledLine = { readonly product_price_id: string; readonly label: string; readonly amount: number; readonly proration: boolean }

/**
 * An order of a subscription: discounted, taxed by where the customer is now, with the credit that it has used up and the
 * debt collected; pending, or paid where nothing is left to charge. A tax that cannot be told throws: nothing is billed
 * without.
 */
export const billLines = async (
  { tx, seller, subscription, loaded }: Turn,
  lines: readonly BilledLine[],
  how: Pick<Bill, 'billing_reason' | 'period' | 'due'> & Partial<Pick<Bill, 'seats'>>,
): Promise<Issued> => {
  const { customer, product, discount } = loaded
  const { organization_id, currency } = subscription
  const question = {
    organization_id,
    currency,
    address: customer.billing_address,
    tax_id: customer.tax_id === null ? null : { value: customer.tax_id, format: customer.tax_id_format! },
    behavior_option: subscription.tax_behavior ?? loaded.prices[0]?.tax_behavior ?? seller.default_tax_behavior,
  }
  // What is given back needs no answer.
  const quote = sum(lines.map(({ amount }) => amount)) > 0 ? await needTax(tx, question) : await quoteTax(tx, null, question)
  const balance = await lockBalance(tx, organization_id, customer.id, currency)
  const { lines: figured, charge_amount, ...figures } = totalsOf({ currency, lines, discount: discount && reductionOf(discount), tax: quote, ...balance })
  return issue(tx, {
    seller,
    parties: { customer, product: product.product, discount, subscription },
    status: charge_amount > 0 ? 'pending' : 'paid',
    currency,
    figures,
    lines: figured.map(({ total_amount: _, ...line }) => line),
    quote,
    billed_to: {
      billing_name: customer.billing_name ?? customer.name,
      billing_address: customer.billing_address,
      tax_id: customer.tax_id,
      tax_id_format: customer.tax_id_format,
    },
    seats: subscription.seats,
    checkout_id: null,
    description: product.product.name,
    metadata: {},
    custom_field_data: {},
    ...how,
    due: charge_amount > 0 ? how.due : undefined,
  })
}

/** A customer that is deleted pays for nothing any more: all of its subscriptions end. */
export const customerDeleted = async (
  { db, transact }: Means,
  { organization_id, customer_id }: { organization_id: string; customer_id: string },
): Promise<void> => {
  for (const id of await findLiveSubscriptions(db, organization_id, customer_id))
    await transact(async (tx) => {
      const seller = await findLivingOrganization(tx, { id: organization_id })
      const reach = within(organization_id, 'machine', seller?.member_phase ?? 'phase2')
      const subscription = await lockSubscription(tx, reach, id)
      if (!seller || !subscription || subscription.ended_at !== null) return
      const timed = await inTimeOf(tx, subscription)
      await end({ tx: timed, reach, seller, subscription, loaded: (await loadSubscriptions(timed, reach, [subscription]))[0]! }, timed.clock.business())
    })
}
