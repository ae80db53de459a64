import { checkoutExpired, orderCreated, orderPaid, orderUpdated, subscriptionActive, subscriptionCreated } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import { within, type Reach } from '../../../kernel/actors.ts'
import { later, minutes } from '../../../platform/clock.ts'
import { underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import {
  anchorOf,
  assignPayment,
  insertOrder,
  insertSubscription,
  keepMethod,
  loadOrders,
  loadSubscriptions,
  nextInvoiceNumber,
  nextPeriod,
  readPayment,
  postOrder,
  presentOrder,
  presentSubscription,
  subjectOfOrder,
  type PaymentRow,
} from '../../billing/index.ts'
import { loadCustomers, type CustomerRow } from '../../customers/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
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
export const reopen = async (tx: Tx, platform: Platform, ref: Ref, payment_id: string): Promise<void> => {
  const checkout = await take(tx, ref)
  if (checkout?.status !== 'confirmed' || checkout.payment_id !== payment_id) return
  await releaseUses(tx, checkout)
  const open = await changeCheckout(tx, checkout, {
    status: 'open',
    figures: null,
    payment_id: null,
    confirmed_with: null,
    confirmed_at: null,
    // Who they are was said by somebody who did not pay: it is asked again.
    ...(checkout.is_bound ? {} : { customer_id: null, knows_customer: false }),
    due_at: checkout.expires_at,
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

const fulfil = async (tx: Tx, platform: Platform, checkout: Locked<CheckoutRow>, payment: PaymentRow | undefined): Promise<void> => {
  const opened = await openOne(tx, checkout)
  const reach = within(checkout.organization_id, 'machine', opened.seller.member_phase)
  const customer = (await loadCustomers(tx, reach, [checkout.customer_id!]))[0]!
  const recurring = chosen(opened).recurring_interval !== null
  const method_id = recurring && payment?.processor_method ? await keepMethod(tx, customer, payment.account_id, payment.processor_method) : null
  const subscription_id = recurring ? await subscribe(tx, reach, opened, customer, method_id) : null
  const order_id = await bill(tx, reach, opened, customer, subscription_id)
  if (payment?.kind === 'payment') await assignPayment(tx, payment, order_id)
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
): Promise<string> => {
  const product = chosen({ checkout, products })
  const now = tx.clock.business()
  const trialing = checkout.trial_end !== null
  const anchor = anchorOf(checkout.trial_end ?? now)
  const period = trialing ? { start: now, end: checkout.trial_end! } : nextPeriod(now, product.recurring_interval!, product.recurring_interval_count!, anchor)
  const id = newId(tx.clock.wall())
  const made = await insertSubscription(
    tx,
    {
      organization_id: checkout.organization_id,
      id,
      created_at: now,
      modified_at: null,
      status: trialing ? 'trialing' : 'active',
      customer_id: customer.id,
      product_id: product.id,
      discount_id: discount?.id ?? null,
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
      current_meter_period_start: null,
      current_meter_period_end: null,
      trial_start: trialing ? now : null,
      trial_end: checkout.trial_end,
      started_at: now,
      cancel_at_period_end: false,
      canceled_at: null,
      ends_at: null,
      ended_at: null,
      past_due_at: null,
      pause_at_period_end: false,
      paused_at: null,
      resumes_at: null,
      seats: checkout.seats,
      discount_applied_at: trialing ? null : now,
      customer_cancellation_reason: null,
      customer_cancellation_comment: null,
      metadata: checkout.metadata,
      custom_field_data: checkout.custom_field_data,
    },
    checkout.figures!.lines.map((line) => line.product_price_id),
  )
  const [loaded] = await loadSubscriptions(tx, reach, [made])
  const about = { organization_id: checkout.organization_id, resource_id: id, customer_id: customer.id }
  await emit(tx, subscriptionCreated, about, presentSubscription(loaded!))
  await emit(tx, subscriptionActive, about, presentSubscription(loaded!))
  return id
}

/** The order that a checkout became: paid, numbered, with its lines, its taxes and its place in the ledger. */
const bill = async (tx: Tx, reach: Reach, { checkout, seller, products }: Opened, customer: CustomerRow, subscription_id: string | null): Promise<string> => {
  const product = chosen({ checkout, products })
  const now = tx.clock.business()
  const id = newId(tx.clock.wall())
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
  const figures = trial ? nothing : sums
  const item = (line: { label: string; amount: number; discount_amount: number; net_amount: number; tax_amount: number; product_price_id: string | null }) => ({
    id: newId(tx.clock.wall()),
    proration: false,
    ...line,
  })
  const items = trial
    ? [
        item({
          // The product may have lost its trial since; the buyer has not.
          label: `${product.name}: trial${active_trial_interval === null ? '' : ` of ${active_trial_interval_count} ${active_trial_interval}${active_trial_interval_count === 1 ? '' : 's'}`}`,
          amount: 0,
          discount_amount: 0,
          net_amount: 0,
          tax_amount: 0,
          product_price_id: null,
        }),
      ]
    : lines
        .filter((line) => line.amount_type !== 'metered_unit')
        .map((line) =>
          item({
            label: line.seats === null ? product.name : `${product.name} (${line.seats} ${line.seats === 1 ? 'seat' : 'seats'})`,
            amount: line.amount,
            discount_amount: line.discount_amount,
            net_amount: line.net_amount,
            tax_amount: line.tax_amount,
            product_price_id: line.product_price_id,
          }),
        )
  const quote = checkout.tax
  const taxes = quote
    ? items.map((line) => ({
        id: newId(tx.clock.wall()),
        order_item_id: line.id,
        jurisdiction: quote.jurisdiction,
        rate: quote.rate,
        behavior: quote.behavior,
        basis_amount: line.amount - line.discount_amount,
        tax_amount: line.tax_amount,
        reason: quote.reason,
      }))
    : []
  const { balance_movement_amount, ...stored } = figures
  const made = await insertOrder(
    tx,
    {
      organization_id: checkout.organization_id,
      id,
      created_at: now,
      modified_at: null,
      status: 'paid',
      billing_reason: subscription_id === null ? 'purchase' : 'subscription_create',
      currency: checkout.currency,
      ...stored,
      refunded_amount: 0,
      refunded_tax_amount: 0,
      tax_behavior: quote?.behavior ?? null,
      billing_name: checkout.customer_billing_name ?? checkout.customer_name,
      billing_address: checkout.customer_billing_address,
      tax_id: checkout.customer_tax_id,
      tax_id_format: checkout.customer_tax_id_format,
      invoice_number: await nextInvoiceNumber(tx, seller, customer),
      receipt_number: null,
      seats: checkout.seats,
      customer_id: customer.id,
      product_id: product.id,
      discount_id: checkout.discount_id,
      subscription_id,
      checkout_id: checkout.id,
      next_payment_attempt_at: null,
      description: product.name,
      metadata: checkout.metadata,
      custom_field_data: checkout.custom_field_data,
    },
    items,
    taxes,
  )
  await postOrder(tx, {
    ...figures,
    organization_id: checkout.organization_id,
    id,
    customer_id: customer.id,
    currency: checkout.currency,
    balance_movement_amount,
  })
  const [loaded] = await loadOrders(tx, reach, [made])
  const about = subjectOfOrder(made)
  const order = presentOrder(loaded!)
  await emit(tx, orderCreated, about, order)
  await emit(tx, orderUpdated, about, order)
  await emit(tx, orderPaid, about, order)
  return id
}

/** The sweep over checkouts: one that is still open when its time is over expires; one that was confirmed and heard nothing is looked after. */
export const watch = ({ transact, platform }: Means, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (tx) => {
    const checkout = await take(tx, { organization_id: lease.organization_id, checkout_id: lease.id })
    if (!checkout) return null
    if (checkout.status === 'open') {
      if (checkout.expires_at > tx.clock.business()) return checkout.expires_at
      const expired = await changeCheckout(tx, checkout, { status: 'expired' })
      await emit(tx, checkoutExpired, subject(expired), present(await openOne(tx, expired), platform))
      return null
    }
    await conclude(tx, platform, checkout)
    const after = await take(tx, { organization_id: lease.organization_id, checkout_id: lease.id })
    if (after?.status === 'open') return after.expires_at
    return after?.status === 'confirmed' ? later(tx.clock.wall(), 10 * minutes) : null
  })
