import type { Organization } from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { loadProducts } from '../../catalog/index.ts'
import { findCustomers, findOwnerOf } from '../../customers/index.ts'
import { capabilities, findSeller, type OrganizationRow } from '../../organizations/index.ts'
import { isDiscountOver } from '../engine/discounts-over-time.ts'
import { reminderOf, type Reminder } from '../engine/reminders.ts'
import { totalsOf } from '../engine/totals.ts'
import { reductionOf } from '../orders/issuing.ts'
import { findOrder, type LoadedOrder } from '../orders/orders.sql.ts'
import { methodOf, paymentsOfOrder } from '../payments/attempts.sql.ts'
import { labelOf, shapeOf, staticLines, discountWith, stillPossible } from '../subscriptions/applying.ts'
import { findSubscription, type LoadedSubscription } from '../subscriptions/subscriptions.sql.ts'
import { paymentFailed, receipt, renewalReminder, trialEnding, type Consequence, type Forecast, type Words } from './letters.ts'
import { waitingAmounts } from './mails.sql.ts'

/*
 * A mail is promised with what it is about and written from what is so when it is sent: what is not true any more is not
 * said. A job runs at least once, so a mail is sent twice only where its worker dies between the mail server's yes and
 * the end of the job; one that is lost would be worse.
 */

type Setting = keyof Organization['customer_email_settings']

/** The receipt of an order, as long as it is paid. */
export const mailReceipt = async (means: Means, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const { db } = means
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.reach, order_id))
  if (!loaded || !['paid', 'refunded', 'partially_refunded'].includes(loaded.order.status)) return
  const payments = await paymentsOfOrder(db, organization_id, order_id)
  const payment = payments.find(({ kind, status }) => kind === 'payment' && status === 'succeeded')
  await send(means, scene, loaded.order.customer_id, receiptSetting(loaded), receipt(scene.seller, loaded, payment))
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

/** That a payment failed, as long as the order is owed; or that its subscription has ended over it. */
export const mailPaymentFailed = async (means: Means, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const { db } = means
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.reach, order_id))
  const next = loaded && consequenceOf(loaded)
  if (!next) return
  const setting = next.kind === 'ended' ? 'subscription_revoked' : 'subscription_past_due'
  await send(means, scene, loaded.order.customer_id, setting, paymentFailed(scene.seller, loaded, await reasonOf(db, loaded), next))
}

/** What became of an order that could not be paid; nothing where it is not owed any more, and nothing ended with it. */
const consequenceOf = ({ order, subscription }: LoadedOrder): Consequence | null => {
  if ((order.status !== 'pending' && order.status !== 'void') || order.first_failed_at === null) return null
  if (subscription && subscription.ended_at !== null) return { kind: 'ended' }
  if (order.status === 'void') return null
  return order.next_payment_attempt_at === null ? { kind: 'open' } : { kind: 'retried', at: order.next_payment_attempt_at }
}

/** Why, in words: an earlier decline says nothing where there is no card left. */
const reasonOf = async (db: Db, { order, customer, subscription }: LoadedOrder): Promise<string | null> => {
  const ids = [subscription?.payment_method_id, customer.default_payment_method_id].filter((id) => typeof id === 'string')
  const kept = await Promise.all(ids.map((id) => methodOf(db, order.organization_id, customer.id, id)))
  if (kept.every((method) => method === undefined)) return 'There is no payment method that we could charge.'
  const payments = await paymentsOfOrder(db, order.organization_id, order.id)
  return payments.find(({ kind, status }) => kind === 'payment' && status === 'failed')?.decline_message ?? null
}

/** What the next period will cost, as long as it will come and is the one that was meant. */
export const mailRenewalReminder = (means: Means, about: { organization_id: string; subscription_id: string }): Promise<void> =>
  mailForecast(means, about, 'renewal', 'subscription_renewal_reminder', renewalReminder)

/** What comes after a trial, as long as it will come and is the one that was meant. */
export const mailTrialEnding = (means: Means, about: { organization_id: string; subscription_id: string }): Promise<void> =>
  mailForecast(means, about, 'trial_ending', 'subscription_trial_conversion_reminder', trialEnding)

const mailForecast = async (
  means: Means,
  { organization_id, subscription_id }: { organization_id: string; subscription_id: string },
  kind: Reminder['kind'],
  setting: Setting,
  words: (seller: OrganizationRow, forecast: Forecast) => Words,
): Promise<void> => {
  const { db } = means
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findSubscription(db, scene.reach, subscription_id))
  if (!loaded || !capabilities[scene.seller.status].subscription_renewals || !isExpected(loaded, kind)) return
  const forecast = await forecastOf(db, loaded)
  // Nobody is told of a charge that will not come.
  if (forecast.amount <= 0 && !forecast.metered) return
  await send(means, scene, loaded.subscription.customer_id, setting, words(scene.seller, forecast))
}

/** A period that has ended meanwhile, or will not be followed by another, is not announced. */
const isExpected = ({ subscription }: LoadedSubscription, kind: Reminder['kind']): boolean =>
  subscription.parked_at === null &&
  subscription.reminded_for?.getTime() === subscription.current_period_end.getTime() &&
  reminderOf(subscription)?.kind === kind

/** The next period as it will be billed: with the change that waits for it, and the discount where it still counts. */
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
    metered: prices.some(({ amount_type }) => amount_type === 'metered_unit'),
  }
}

interface Scene {
  readonly seller: OrganizationRow
  readonly reach: Reach
}

const sceneOf = async (db: Db, organization_id: string): Promise<Scene | undefined> => {
  const seller = await findSeller(db, { id: organization_id })
  return seller && { seller, reach: within(organization_id, 'machine', seller.member_phase) }
}

/** Mails a customer in its seller's name, if the seller wants such mails and there is somebody to read them. */
const send = async ({ db, gateways }: Means, { seller, reach }: Scene, customer_id: string, setting: Setting, words: Words): Promise<void> => {
  if (!seller.customer_email_settings[setting]) return
  const to = await addresseeOf(db, reach, customer_id)
  if (to !== undefined) await gateways.mail.send({ ...words, to, from_name: seller.name, reply_to: seller.email ?? undefined })
}

/** The customer's address, or that of its owner; nobody's where the customer is gone. */
const addresseeOf = async (db: Db, reach: Reach, customer_id: string): Promise<string | undefined> => {
  const [customer] = await findCustomers(db, reach, { id: customer_id })
  return customer && (customer.email ?? (await findOwnerOf(db, customer))?.email)
}
