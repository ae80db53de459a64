import { checkoutExpired } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import { within, type Reach } from '../../../kernel/actors.ts'
import { later, minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import {
  anchorOf,
  assignPayment,
  issue,
  keepMethod,
  keepNothing,
  labelOf,
  untouched,
  nextPeriod,
  readPayment,
  seatBuyer,
  startSubscription,
  upgradeSubscription,
  type PaymentRow,
  type SubscriptionRow,
} from '../../billing/index.ts'
import { becomeBuyer, clockOf, loadCustomers, lockCustomers, lookAfterDeleted, type CustomerRow } from '../../customers/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
import { inItsTime } from './checkouts.ts'
import { changeCheckout, lockCheckout, releaseUses, type CheckoutRow } from './checkouts.sql.ts'
import { trialOf } from './figures.ts'
import { openOne, present, subject, tellUpdated, type Opened } from './opening.ts'

interface Ref {
  readonly organization_id: string
  readonly checkout_id: string
}

/** Held until the transaction ends, and waited for: nobody is there to be told to come back. */
const take = async (tx: Tx, { organization_id, checkout_id }: Ref) => {
  const seller = await findLivingOrganization(tx, { id: organization_id })
  return seller && lockCheckout(tx, within(organization_id, 'machine', seller.member_phase), checkout_id, { wait: true })
}

/**
 * A payment that failed leaves the checkout open for another try, and gives back what was reserved. Only the attempt that
 * the checkout stands or falls with can do that: one that was given up before says nothing about its successor.
 */
export const reopen = async (wall: Tx, platform: Platform, ref: Ref, payment_id: string): Promise<void> => {
  const checkout = await take(wall, ref)
  if (checkout?.status !== 'confirmed' || checkout.payment_id !== payment_id) return
  const clock = await clockOf(wall, checkout)
  const tx = await inTimeOf(wall, clock)
  await releaseUses(tx, checkout)
  const open = await changeCheckout(tx, checkout, {
    status: 'open',
    figures: null,
    payment_id: null,
    confirmed_with: null,
    confirmed_at: null,
    // Who they are was said by somebody who did not pay: it is asked again. That this checkout brought them is not forgotten.
    ...(checkout.is_bound ? {} : { customer_id: null }),
    due_at: checkout.expires_at,
    clock_id: checkout.is_bound ? clock.clock_id : null,
  })
  await tellUpdated(tx, platform, open)
}

/**
 * Gives what was paid for: once, whoever hears of the payment and however often. The checkout is held, its status says
 * whether it was done, and the keys on its order and subscription would refuse a second.
 */
export const paymentSettled = async ({ transact, platform }: Means, ref: Ref): Promise<void> =>
  transact(async (tx) => {
    const checkout = await take(tx, ref)
    if (checkout) await conclude(tx, platform, checkout)
  })

const conclude = async (tx: Tx, platform: Platform, checkout: Locked<CheckoutRow>): Promise<void> => {
  if (checkout.status !== 'confirmed') return
  const { organization_id, id: checkout_id, payment_id } = checkout
  const payment = payment_id === null ? undefined : await readPayment(tx, organization_id, payment_id)
  if (payment?.status === 'pending') return
  if (payment?.status === 'failed') return reopen(tx, platform, { organization_id, checkout_id }, payment.id)
  await fulfil(tx, platform, checkout, payment)
}

const fulfil = async (wall: Tx, platform: Platform, checkout: Locked<CheckoutRow>, payment: PaymentRow | undefined): Promise<void> => {
  const opened = await openOne(wall, checkout)
  const reach = within(checkout.organization_id, 'machine', opened.seller.member_phase)
  // Held while they live, so that whoever deletes them comes before or after all of this.
  const [living] = await lockCustomers(wall, reach, { id: checkout.customer_id! })
  const customer = living ?? (await loadCustomers(wall, reach, [checkout.customer_id!]))[0]!
  const gone = customer.deleted_at !== null
  const tx = await inTimeOf(wall, customer)
  await becomeBuyer(tx, reach, customer, { seats: checkout.seats !== null })
  const recurring = chosen(opened).recurring_interval !== null
  const own = recurring && payment?.processor_method && !gone ? await keepMethod(tx, customer, payment.account_id, payment.processor_method) : null
  const subscription = recurring ? await subscribe(tx, reach, opened, customer, own) : null
  const order_id = await bill(tx, opened, customer, subscription)
  // Whoever is sent elsewhere afterwards is seated by whoever sends them there.
  if (checkout.seats !== null && checkout.success_url === null) {
    const { organization_id } = checkout
    await seatBuyer(
      tx,
      reach,
      customer,
      subscription ? { organization_id, subscription_id: subscription.id, order_id: null } : { organization_id, subscription_id: null, order_id },
    )
  }
  if (payment?.kind === 'payment') await assignPayment(tx, payment, order_id)
  // Who was deleted while their bank took its time is looked after once more: what came only now ends as well.
  if (gone) {
    if (payment) await keepNothing(tx, payment)
    await lookAfterDeleted(tx, customer)
  }
  const done = await changeCheckout(tx, checkout, { status: 'succeeded', due_at: null })
  await tellUpdated(tx, platform, done)
}

const chosen = ({ checkout, products }: Pick<Opened, 'checkout' | 'products'>) => products.find((one) => one.product.id === checkout.product_id)!.product

/** The subscription that a checkout was for: active, or on trial, in its first period. */
const subscribe = async (
  tx: Tx,
  reach: Reach,
  { checkout, products, discount }: Opened,
  customer: CustomerRow,
  payment_method_id: string | null,
): Promise<SubscriptionRow> => {
  const product = chosen({ checkout, products })
  const now = tx.clock.business()
  const trialing = checkout.trial_end !== null
  const anchor = anchorOf(checkout.trial_end ?? now)
  const period = trialing ? { start: now, end: checkout.trial_end! } : nextPeriod(now, product.recurring_interval!, product.recurring_interval_count!, anchor)
  const row: SubscriptionRow = {
    ...untouched,
    organization_id: checkout.organization_id,
    id: newId(tx.clock.wall()),
    created_at: now,
    status: trialing ? 'trialing' : 'active',
    customer_id: customer.id,
    product_id: product.id,
    discount_id: discount?.id ?? null,
    discount_applied_at: trialing ? null : now,
    period_discount_id: trialing ? null : (discount?.id ?? null),
    checkout_id: checkout.id,
    payment_method_id,
    amount: checkout.amount,
    currency: checkout.currency,
    tax_behavior: checkout.tax_behavior,
    recurring_interval: product.recurring_interval!,
    recurring_interval_count: product.recurring_interval_count!,
    anchor_day: anchor,
    current_period_start: period.start,
    current_period_end: period.end,
    trial_start: trialing ? now : null,
    trial_end: checkout.trial_end,
    started_at: now,
    seats: checkout.seats,
    metadata: checkout.metadata,
    custom_field_data: checkout.custom_field_data,
    calendar_from: now,
    clock_id: customer.clock_id,
  }
  const price_ids = checkout.figures!.lines.map((line) => line.product_price_id)
  const upgraded = checkout.subscription_id ? await upgradeSubscription(tx, reach, checkout.subscription_id, row, price_ids) : undefined
  return upgraded ?? (await startSubscription(tx, reach, row, price_ids)).subscription
}

/** The order that a checkout became: paid, numbered, with its lines, its taxes and its place in the ledger. */
const bill = async (tx: Tx, { checkout, seller, products, discount }: Opened, customer: CustomerRow, subscription: SubscriptionRow | null): Promise<string> => {
  const product = chosen({ checkout, products })
  const trial = checkout.trial_end !== null
  const { active_trial_interval, active_trial_interval_count } = trialOf({ checkout, product })
  const nothing = {
    subtotal_amount: 0,
    discount_amount: 0,
    net_amount: 0,
    tax_amount: 0,
    total_amount: 0,
    applied_balance_amount: 0,
    due_amount: 0,
    carried_amount: 0,
    balance_movement_amount: 0,
  }
  // What the buyer agreed to, whatever was changed in the catalog since.
  const { lines, charge_amount: _, ...sums } = checkout.figures!
  const { order } = await issue(tx, {
    seller,
    parties: { customer, product, discount, subscription },
    status: 'paid',
    billing_reason: subscription === null ? 'purchase' : subscription.id === checkout.subscription_id ? 'subscription_update' : 'subscription_create',
    currency: checkout.currency,
    figures: trial ? nothing : sums,
    lines: trial
      ? [
          {
            // The product may have lost its trial since; the buyer has not.
            label: `${product.name}: trial${active_trial_interval === null ? '' : ` of ${active_trial_interval_count} ${active_trial_interval}${active_trial_interval_count === 1 ? '' : 's'}`}`,
            amount: 0,
            discount_amount: 0,
            net_amount: 0,
            tax_amount: 0,
            proration: false,
            product_price_id: null,
          },
        ]
      : lines
          .filter((line) => line.amount_type !== 'metered_unit')
          .map(({ amount, discount_amount, net_amount, tax_amount, product_price_id, seats }) => ({
            label: labelOf(product.name, seats),
            amount,
            discount_amount,
            net_amount,
            tax_amount,
            proration: false,
            product_price_id,
          })),
    quote: checkout.tax,
    billed_to: {
      billing_name: checkout.customer_billing_name ?? checkout.customer_name,
      billing_address: checkout.customer_billing_address,
      tax_id: checkout.customer_tax_id,
      tax_id_format: checkout.customer_tax_id_format,
    },
    seats: checkout.seats,
    checkout_id: checkout.id,
    description: product.name,
    metadata: checkout.metadata,
    custom_field_data: checkout.custom_field_data,
    period: subscription ? { start: subscription.current_period_start, end: subscription.current_period_end } : undefined,
  })
  return order.id
}

/** The sweep over checkouts: one that is still open when its time is over expires; one that was confirmed and heard nothing is looked after. */
export const watch = ({ transact, platform }: Means, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (wall) => {
    const checkout = await take(wall, { organization_id: lease.organization_id, checkout_id: lease.id })
    if (!checkout) return null
    if (checkout.status === 'open') {
      const tx = await inItsTime(wall, checkout)
      if (checkout.expires_at > tx.clock.business()) return checkout.expires_at
      const expired = await changeCheckout(tx, checkout, { status: 'expired' })
      await emit(tx, checkoutExpired, subject(expired), present(await openOne(tx, expired), platform))
      return null
    }
    await conclude(wall, platform, checkout)
    const after = await take(wall, { organization_id: lease.organization_id, checkout_id: lease.id })
    if (after?.status === 'open') return after.expires_at
    return after?.status === 'confirmed' ? later(wall.clock.wall(), 10 * minutes) : null
  })
