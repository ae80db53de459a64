import type { Organization } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { loadProducts } from '../../catalog/index.ts'
import { findCustomers, findOwnerOf } from '../../customers/index.ts'
import { capabilities, findSeller, type OrganizationRow } from '../../organizations/index.ts'
import { isDiscountOver } from '../calc/discounts-over-time.ts'
import { reminderOf, type Reminder } from '../calc/reminders.ts'
import { totalsOf } from '../calc/totals.ts'
import { reductionOf } from '../invoicing/issuing.ts'
import { findOrder, type LoadedOrder } from '../records/orders.sql.ts'
import { methodOf, paymentsOfOrder } from '../payments/attempts.sql.ts'
import { labelOf, shapeOf, staticLines, discountWith, stillPossible } from '../invoicing/applying.ts'
import { findSubscription, type LoadedSubscription } from '../records/subscriptions.sql.ts'
import { paymentFailed, receipt, renewalReminder, trialEnding, type Consequence, type Forecast, type Words } from '../templates/templates.ts'
import { waitingAmounts } from './emails.sql.ts'

/*
 * A mail job stores only the id of its order or subscription. The text is written from the current state when the mail
 * is sent, so that outdated facts are not mailed. A job runs at least once. A mail is sent twice only if the worker
 * crashes after the mail server's confirmation and before the job ends. This is accepted, because losing a mail would
 * be worse.
 */

type Setting = keyof Organization['customer_email_settings']

/** Mails the receipt of an order that was paid, even if it was refunded meanwhile. */
export const mailReceipt = async (deps: Deps, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const { db } = deps
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.scope, order_id))
  if (!loaded || !['paid', 'refunded', 'partially_refunded'].includes(loaded.order.status)) return
  const payments = await paymentsOfOrder(db, organization_id, order_id)
  const payment = payments.find(({ kind, status }) => kind === 'payment' && status === 'succeeded')
  await send(deps, scene, loaded.order.customer_id, receiptSetting(loaded), receipt(scene.seller, loaded, payment))
}

const receiptSetting = ({ order, subscription }: LoadedOrder): Setting => {
  switch (order.billing_reason) {
    case 'purchase':
      return 'order_confirmation'
    case 'subscription_create':
      return 'subscription_confirmation'
    case 'subscription_update':
      return 'subscription_updated'
    case 'subscription_cycle':
    case 'subscription_meter_cycle': {
      const trial_end = subscription?.trial_end?.getTime()
      return trial_end !== undefined && order.period_start?.getTime() === trial_end ? 'subscription_cycled_after_trial' : 'subscription_cycled'
    }
  }
}

/** Mails that a payment failed. Sent only if the order is still owed, or if its subscription has ended since. */
export const mailPaymentFailed = async (deps: Deps, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const { db } = deps
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.scope, order_id))
  const next = loaded && consequenceOf(loaded)
  if (!next) return
  const setting = next.kind === 'ended' ? 'subscription_revoked' : 'subscription_past_due'
  await send(deps, scene, loaded.order.customer_id, setting, paymentFailed(scene.seller, loaded, await reasonOf(db, loaded), next))
}

/**
 * Returns the consequence of a failed payment for the customer. Null if the order is no longer owed and its
 * subscription has not ended.
 */
const consequenceOf = ({ order, subscription }: LoadedOrder): Consequence | null => {
  if ((order.status !== 'pending' && order.status !== 'void') || order.first_failed_at === null) return null
  if (subscription && subscription.ended_at !== null) return { kind: 'ended' }
  if (order.status === 'void') return null
  return order.next_payment_attempt_at === null ? { kind: 'open' } : { kind: 'retried', at: order.next_payment_attempt_at }
}

/**
 * Returns the reason of the failed payment. If the customer has no payment method left, that is the reason, and not an
 * earlier decline.
 */
const reasonOf = async (db: Db, { order, customer, subscription }: LoadedOrder): Promise<string | null> => {
  const ids = [subscription?.payment_method_id, customer.default_payment_method_id].filter((id) => typeof id === 'string')
  const kept = await Promise.all(ids.map((id) => methodOf(db, order.organization_id, customer.id, id)))
  if (kept.every((method) => method === undefined)) return 'We have no payment method that we could charge.'
  const payments = await paymentsOfOrder(db, order.organization_id, order.id)
  return payments.find(({ kind, status }) => kind === 'payment' && status === 'failed')?.decline_message ?? null
}

/**
 * Mails the cost of the next period. Sent only if the subscription will still renew at the end of the period that the
 * mail was enqueued for.
 */
export const mailRenewalReminder = (deps: Deps, about: { organization_id: string; subscription_id: string }): Promise<void> =>
  mailForecast(deps, about, 'renewal', 'subscription_renewal_reminder', renewalReminder)

/** Mails the cost after a trial. Sent only if the trial still ends at the time that the mail was enqueued for. */
export const mailTrialEnding = (deps: Deps, about: { organization_id: string; subscription_id: string }): Promise<void> =>
  mailForecast(deps, about, 'trial_ending', 'subscription_trial_conversion_reminder', trialEnding)

const mailForecast = async (
  deps: Deps,
  { organization_id, subscription_id }: { organization_id: string; subscription_id: string },
  kind: Reminder['kind'],
  setting: Setting,
  words: (seller: OrganizationRow, forecast: Forecast) => Words,
): Promise<void> => {
  const { db } = deps
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findSubscription(db, scene.scope, subscription_id))
  if (!loaded || !capabilities[scene.seller.status].subscription_renewals || !isExpected(loaded, kind)) return
  const forecast = await forecastOf(db, loaded)
  // A period without a charge needs no reminder. Metered prices are not billed, so they cause no reminder either.
  if (forecast.amount <= 0) return
  await send(deps, scene, loaded.subscription.customer_id, setting, words(scene.seller, forecast))
}

/**
 * True if the reminder still matches the subscription. False if the period has changed since, or if no renewal follows.
 */
const isExpected = ({ subscription }: LoadedSubscription, kind: Reminder['kind']): boolean =>
  subscription.parked_at === null &&
  subscription.reminded_for?.getTime() === subscription.current_period_end.getTime() &&
  reminderOf(subscription)?.kind === kind

/**
 * Forecasts the bill of the next period, including a pending change, open prorations and the discount if it still
 * applies.
 */
const forecastOf = async (db: Db, loaded: LoadedSubscription): Promise<Forecast> => {
  const { subscription, pending } = loaded
  const { organization_id, currency } = subscription
  const product = pending?.product_id ? ((await loadProducts(db, [{ tenant: organization_id, id: pending.product_id }]))[0] ?? null) : null
  const shape = pending ? stillPossible(() => shapeOf(loaded, product, pending.seats)) : undefined
  const prices = shape?.prices ?? loaded.prices
  const lines = shape?.lines ?? staticLines(prices, subscription)
  const waiting = (await waitingAmounts(db, subscription)).map((amount) => ({ amount, proration: true }))
  const at = subscription.current_period_end
  const own = shape && product ? await discountWith(db, organization_id, subscription.discount_id, product.product.id) : loaded.discount
  const discount = own && !isDiscountOver({ ...own, applied_at: subscription.discount_applied_at, period_start: at }) ? own : null
  const { total_amount, discount_amount } = totalsOf({
    currency,
    lines: [...lines.map(({ amount }) => ({ amount, proration: false })), ...waiting],
    discount: discount && reductionOf(discount),
    tax: null,
    credit: 0,
    debt: 0,
  })
  return {
    label: labelOf((shape?.product ?? loaded.product).product.name, shape ? shape.seats : subscription.seats),
    at,
    amount: total_amount,
    currency,
    discount: discount && discount_amount > 0 ? discount.name : null,
    tax_included: subscription.tax_behavior === 'inclusive',
  }
}

interface Scene {
  readonly seller: OrganizationRow
  readonly scope: TenantScope
}

const sceneOf = async (db: Db, organization_id: string): Promise<Scene | undefined> => {
  const seller = await findSeller(db, { id: organization_id })
  return seller && { seller, scope: within(organization_id, 'machine', seller.member_phase) }
}

/**
 * Mails a customer in the seller's name. Does nothing if the seller has disabled this kind of mail, or if there is no
 * address.
 */
const send = async ({ db, gateways }: Deps, { seller, scope }: Scene, customer_id: string, setting: Setting, words: Words): Promise<void> => {
  if (!seller.customer_email_settings[setting]) return
  const to = await addresseeOf(db, scope, customer_id)
  if (to !== undefined) await gateways.mail.send({ ...words, to, from_name: seller.name, reply_to: seller.email ?? undefined })
}

/**
 * Returns the customer's address, or that of the team owner if the customer has none. Undefined for a deleted customer.
 */
const addresseeOf = async (db: Db, scope: TenantScope, customer_id: string): Promise<string | undefined> => {
  const [customer] = await findCustomers(db, scope, { id: customer_id })
  return customer && (customer.email ?? (await findOwnerOf(db, customer))?.email)
}
