import { writeLabel } from '@bursar/views'
import { checkoutExpired } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { later, minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import {
  anchorOf,
  assignPayment,
  isLineQuote,
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
import { dropCredentials } from '../../identity/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
import { inItsTime, welcome } from './checkouts.ts'
import { changeCheckout, lockCheckout, releaseUses, type CheckoutRow } from './checkouts.sql.ts'
import { keptAfterExpiry } from './drafts.ts'
import { deleteDraft } from './drafts.sql.ts'
import { trialOf } from './figures.ts'
import { loadCheckout, openCheckout, type Opened } from './loading.sql.ts'
import { presentCheckout, subject, tellUpdated } from './opening.ts'

interface Ref {
  readonly organization_id: string
  readonly checkout_id: string
}

/** Locks the checkout and waits for the lock. Unlike a request, a background job cannot ask its client to retry. */
const take = async (tx: Tx, { organization_id, checkout_id }: Ref) => {
  const seller = await findLivingOrganization(tx, { id: organization_id })
  return seller && lockCheckout(tx, within(organization_id, 'machine', seller.member_phase), checkout_id, { wait: true })
}

/**
 * Reopens a checkout whose payment failed, and releases its trial and discount redemption. Does nothing if `payment_id`
 * is not the current payment attempt: a newer attempt may still succeed.
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
    // A customer found by a typed address is detached, because the buyer may type another address next. `knows_customer`
    // stays: it records whether this checkout created the customer.
    ...(checkout.is_bound ? {} : { customer_id: null }),
    due_at: checkout.expires_at,
    clock_id: checkout.is_bound ? clock.clock_id : null,
  })
  // Loads the discount and the prices again: the redemption was released, and the catalog prices apply again.
  await tellUpdated(tx, platform, await loadCheckout(tx, open))
}

/**
 * Fulfils a paid checkout exactly once, even if the payment is reported several times. Locks the checkout and checks its
 * status first. As a second safeguard, unique keys reject a second order or subscription of the checkout.
 */
export const paymentSettled = async ({ transact, platform }: Deps, ref: Ref): Promise<void> =>
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
  const opened = await openCheckout(wall, checkout)
  const scope = within(checkout.organization_id, 'machine', opened.seller.member_phase)
  // Locks the customer if it is not deleted, so that a deletion runs entirely before or after the fulfilment.
  const [living] = await lockCustomers(wall, scope, { id: checkout.customer_id! })
  const customer = living ?? (await loadCustomers(wall, scope, [checkout.customer_id!]))[0]!
  const gone = customer.deleted_at !== null
  const tx = await inTimeOf(wall, customer)
  await becomeBuyer(tx, scope, customer, { seats: checkout.seats !== null })
  const recurring = chosen(opened).recurring_interval !== null
  const own = recurring && payment?.processor_method && !gone ? await keepMethod(tx, customer, payment.account_id, payment.processor_method) : null
  const subscription = recurring ? await subscribe(tx, scope, opened, customer, own) : null
  const order_id = await bill(tx, opened, customer, subscription)
  // Assigns a seat to the buyer only if there is no success URL. Otherwise the seller's page at that URL assigns the seats.
  if (checkout.seats !== null && checkout.success_url === null) {
    const { organization_id } = checkout
    await seatBuyer(
      tx,
      scope,
      customer,
      subscription ? { organization_id, subscription_id: subscription.id, order_id: null } : { organization_id, subscription_id: null, order_id },
    )
  }
  if (payment?.kind === 'payment') await assignPayment(tx, payment, order_id)
  // The customer was deleted while the payment was pending. Runs the cleanup again, so that it also ends this purchase.
  if (gone) {
    if (payment) await keepNothing(tx, payment)
    await lookAfterDeleted(tx, customer)
  }
  const secret_until = later(wall.clock.wall(), welcome)
  const done = await changeCheckout(tx, checkout, { status: 'succeeded', secret_until, due_at: secret_until, clock_id: null })
  await tellUpdated(tx, platform, { ...opened, checkout: done })
}

const chosen = ({ checkout, products }: Pick<Opened, 'checkout' | 'products'>) => products.find((one) => one.product.id === checkout.product_id)!.product

/** Creates the subscription of the checkout: active or on trial, in its first period. */
const subscribe = async (
  tx: BusinessTx,
  scope: TenantScope,
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
  const upgraded = checkout.subscription_id ? await upgradeSubscription(tx, scope, checkout.subscription_id, row, price_ids) : undefined
  return upgraded ?? (await startSubscription(tx, scope, row, price_ids)).subscription
}

/** Issues the paid order of a checkout, with number, lines, taxes and ledger entries. */
const bill = async (
  tx: BusinessTx,
  { checkout, seller, products, discount }: Opened,
  customer: CustomerRow,
  subscription: SubscriptionRow | null,
): Promise<string> => {
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
  // Uses the totals that the buyer confirmed, even if the catalog has changed since.
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
            // The product may have no trial any more, but this buyer keeps the confirmed one.
            label: writeLabel({ type: 'trial', name: product.name, interval: active_trial_interval, count: active_trial_interval_count ?? 0 }),
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
          .map(({ amount, discount_amount, net_amount, tax_amount, taxes, product_price_id, seats }) => ({
            label: labelOf(product.name, seats),
            amount,
            discount_amount,
            net_amount,
            tax_amount,
            proration: false,
            product_price_id,
            ...(taxes ? { taxes } : {}),
          })),
    // A tax that was quoted for the lines of the price does not apply to a free trial.
    quote: trial && isLineQuote(checkout.tax) ? null : checkout.tax,
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

/**
 * Sweeps one checkout. An open checkout expires if its time is over. A confirmed checkout is fulfilled or reopened if
 * the result of its payment is known. The client secret and the draft of a succeeded checkout are deleted after the
 * welcome window, those of an expired one after a week, and those of a deleted seller when the checkout is due.
 */
export const watch = ({ transact, platform }: Deps, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (wall) => {
    const checkout = await take(wall, { organization_id: lease.organization_id, checkout_id: lease.id })
    // The seller was deleted.
    if (!checkout) return endSecret(wall, lease)
    if (checkout.status === 'open') {
      const tx = await inItsTime(wall, checkout)
      if (checkout.expires_at > tx.clock.business()) return checkout.expires_at
      const expired = await changeCheckout(tx, checkout, { status: 'expired' })
      await emit(tx, checkoutExpired, subject(expired), presentCheckout(await loadCheckout(tx, expired), platform), platform.sealer)
      return later(checkout.expires_at, keptAfterExpiry)
    }
    if (checkout.status === 'expired') return endSecret(wall, checkout)
    if (checkout.status === 'succeeded') {
      const { secret_until } = checkout
      return secret_until !== null && secret_until > wall.clock.wall() ? secret_until : endSecret(wall, checkout)
    }
    await conclude(wall, platform, checkout)
    const after = await take(wall, { organization_id: lease.organization_id, checkout_id: lease.id })
    if (after?.status === 'open') return after.expires_at
    if (after?.status === 'succeeded') return after.secret_until
    return after?.status === 'confirmed' ? later(wall.clock.wall(), 10 * minutes) : null
  })

/** Deletes the client secret and the draft of a checkout. Returns null, because no further sweep is needed. */
const endSecret = async (tx: Tx, checkout: Pick<CheckoutRow, 'organization_id' | 'id'>): Promise<null> => {
  await dropCredentials(tx, 'checkout', checkout.id)
  await deleteDraft(tx, checkout)
  return null
}
