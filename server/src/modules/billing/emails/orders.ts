import type { MailBenefit, MailOf, ReceiptReason } from '@bursar/views'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadProducts } from '../../catalog/index.ts'
import type { Deps } from '../../handlers.ts'
import { findOrder, type LoadedOrder, type OrderRow } from '../records/orders.sql.ts'
import { readDispute } from '../records/disputes.sql.ts'
import { readRefund } from '../records/refunds.sql.ts'
import { methodOf, paymentsOfOrder, readPayment } from '../payments/attempts.sql.ts'
import { cardOf, isWanted, mailCustomer, periodOf, portalOf, sceneOf, type Scene, type Setting } from './scene.ts'

/*
 * A mail job stores only ids. The mail is written from the current state when it is sent, so that outdated facts are not mailed. A job
 * runs at least once. A mail is sent twice only if the worker crashes after the mail server's confirmation and before the job ends.
 * This is accepted, because losing a mail would be worse.
 */

/** The benefits that the buyer of a purchase has. `more_to_come`: other benefits are still being prepared. */
export interface Given {
  readonly benefits: readonly MailBenefit[]
  readonly more_to_come: boolean
}

/** Loads the benefits of a purchase. The area of entitlements provides it, because billing does not know grants. */
export type FindGiven = (
  scene: Scene,
  container: { organization_id: string; subscription_id: string | null; order_id: string | null },
  product_id: string | null,
  since: string,
) => Promise<Given>

const nothing: Given = { benefits: [], more_to_come: false }
const paidStatuses: readonly string[] = ['paid', 'refunded', 'partially_refunded']

/** Mails the receipt of an order that was paid, even if it was refunded meanwhile. A purchase at no cost is confirmed instead. */
export const mailReceipt = async (
  deps: Deps,
  { organization_id, order_id }: { organization_id: string; order_id: string },
  findGiven: FindGiven,
): Promise<void> => {
  const { db } = deps
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.scope, order_id))
  if (!loaded || !paidStatuses.includes(loaded.order.status)) return
  const { order } = loaded
  const reason = reasonOf(loaded)
  const setting = settings[reason]
  if (!isWanted(scene.seller, setting)) return
  const isNew = reason === 'purchase' || reason === 'subscription'
  const container = { organization_id, subscription_id: order.subscription_id, order_id: order.subscription_id === null ? order_id : null }
  const given = isNew && order.seats === null ? await findGiven(scene, container, order.product_id, order_id) : nothing
  const picture = isNew ? await pictureOf(db, order) : null
  const charged = order.due_amount - order.carried_amount
  const isFree = isNew && order.total_amount === 0 && charged === 0
  const view = isFree ? freeOrder(deps, scene, loaded, { ...given, picture }) : await receipt(deps, scene, loaded, reason, { ...given, picture })
  await mailCustomer(deps, scene, order.customer_id, setting, view, order_id)
}

const settings: Record<ReceiptReason, Setting> = {
  purchase: 'order_confirmation',
  subscription: 'subscription_confirmation',
  change: 'subscription_updated',
  renewal: 'subscription_cycled',
  first_renewal: 'subscription_cycled_after_trial',
}

const reasonOf = ({ order, subscription }: LoadedOrder): ReceiptReason => {
  switch (order.billing_reason) {
    case 'purchase':
      return 'purchase'
    case 'subscription_create':
      return 'subscription'
    case 'subscription_update':
      return 'change'
    case 'subscription_cycle':
    case 'subscription_meter_cycle': {
      const trial_end = subscription?.trial_end?.getTime()
      return trial_end !== undefined && order.period_start?.getTime() === trial_end ? 'first_renewal' : 'renewal'
    }
  }
}

/** The benefits of a purchase, and the picture of its product. */
type Bought = Given & Pick<MailOf<'receipt'>, 'picture'>

/** Returns the first picture of the product. Most mail programs do not show SVG. */
const pictureOf = async (db: Db, { organization_id, product_id, description: name }: OrderRow): Promise<Bought['picture']> => {
  const [product] = product_id === null ? [] : await loadProducts(db, [{ tenant: organization_id, id: product_id }])
  const found = product?.medias.find(({ mime_type, public_url }) => mime_type !== 'image/svg+xml' && public_url !== null)
  return found ? { name, url: found.public_url! } : null
}

const freeOrder = ({ platform }: Deps, { seller }: Scene, { order }: LoadedOrder, given: Bought): MailOf<'free_order'> => ({
  kind: 'free_order',
  description: order.description,
  date: order.created_at,
  ...given,
  access_url: portalOf(platform, seller).access,
})

const receipt = async ({ db, platform }: Deps, { seller }: Scene, loaded: LoadedOrder, reason: ReceiptReason, given: Bought): Promise<MailOf<'receipt'>> => {
  const { order, items, discount } = loaded
  const payments = await paymentsOfOrder(db, order.organization_id, order.id)
  const payment = payments.find(({ kind, status }) => kind === 'payment' && status === 'succeeded')
  const charged = order.due_amount - order.carried_amount
  const portal = portalOf(platform, seller)
  return {
    kind: 'receipt',
    reason,
    description: order.description,
    currency: order.currency,
    lines: items.map(({ label, amount, proration }) => ({ label, amount, proration })),
    seats: order.seats,
    discount: order.discount_amount === 0 ? null : { name: discount?.name ?? null, amount: order.discount_amount },
    tax: order.tax_amount,
    tax_included: order.tax_behavior === 'inclusive',
    total: order.total_amount,
    applied_balance: order.applied_balance_amount,
    carried: order.carried_amount,
    charged,
    paid: charged === 0 || !payment || payment.settled_at === null ? null : { card: cardOf(payment), at: payment.settled_at },
    invoice_number: order.invoice_number,
    date: order.created_at,
    period: periodOf(order),
    ...given,
    order_url: portal.order(order.id),
    pdf: pdfOf(order, payment !== undefined, portal),
    access_url: portal.overview,
  }
}

/** Returns the PDF of a paid order. An invoice needs the name and address of the buyer. A receipt needs only a payment. */
const pdfOf = ({ id, billing_name, billing_address }: OrderRow, isCharged: boolean, portal: ReturnType<typeof portalOf>): MailOf<'receipt'>['pdf'] => {
  const kind = billing_name !== null && billing_address !== null ? 'invoice' : isCharged ? 'receipt' : null
  return kind && { kind, url: portal.pdf(id, kind) }
}

/** Mails that a payment failed. Sent only if the order is still owed, or if its subscription has ended since. */
export const mailPaymentFailed = async (deps: Deps, { organization_id, order_id }: { organization_id: string; order_id: string }): Promise<void> => {
  const { db, platform } = deps
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.scope, order_id))
  const next = loaded && nextOf(loaded)
  if (!next) return
  const { order } = loaded
  const portal = portalOf(platform, scene.seller)
  await mailCustomer(
    deps,
    scene,
    order.customer_id,
    next.type === 'ended' ? 'subscription_revoked' : 'subscription_past_due',
    {
      kind: 'payment_failed',
      owed: { amount: order.due_amount - order.carried_amount, currency: order.currency },
      description: order.description,
      period: periodOf(order),
      reason: await declineOf(db, loaded),
      next,
      pay_url: portal.order(order.id),
      card_url: portal.card,
      portal_url: portal.overview,
    },
    order.id,
  )
}

/** Returns what follows a failed payment. Null if the order is no longer owed and its subscription has not ended. */
const nextOf = ({ order, subscription }: LoadedOrder): MailOf<'payment_failed'>['next'] | null => {
  if ((order.status !== 'pending' && order.status !== 'void') || order.first_failed_at === null) return null
  if (subscription && subscription.ended_at !== null) return { type: 'ended' }
  if (order.status === 'void') return null
  return order.next_payment_attempt_at === null ? { type: 'open' } : { type: 'retried', at: order.next_payment_attempt_at }
}

/**
 * Returns the reason of the failed payment. If the customer has no payment method left, that is the reason, and not an earlier decline.
 */
const declineOf = async (db: Db, { order, customer, subscription }: LoadedOrder): Promise<MailOf<'payment_failed'>['reason']> => {
  const ids = [subscription?.payment_method_id, customer.default_payment_method_id].filter((id) => typeof id === 'string')
  const kept = await Promise.all(ids.map((id) => methodOf(db, order.organization_id, customer.id, id)))
  if (kept.every((method) => method === undefined)) return { type: 'no_method' }
  const payments = await paymentsOfOrder(db, order.organization_id, order.id)
  return { type: 'declined', message: payments.find(({ kind, status }) => kind === 'payment' && status === 'failed')?.decline_message ?? null }
}

/** Mails that an order was refunded, in whole or in part. Sent only while the refund is valid. */
export const mailRefund = async (deps: Deps, { organization_id, refund_id }: { organization_id: string; refund_id: string }): Promise<void> => {
  const { db, platform } = deps
  const scene = await sceneOf(db, organization_id)
  const refund = scene && (await readRefund(db, organization_id, refund_id))
  if (!scene || refund?.status !== 'succeeded') return
  const loaded = await findOrder(db, scene.scope, refund.order_id)
  if (!loaded) return
  const { order } = loaded
  await mailCustomer(
    deps,
    scene,
    order.customer_id,
    null,
    {
      kind: 'refund',
      refunded: { amount: refund.amount + refund.tax_amount, currency: refund.currency },
      description: order.description,
      invoice_number: order.invoice_number,
      card: cardOf(await readPayment(db, organization_id, refund.payment_id)),
      date: refund.modified_at ?? refund.created_at,
      order_url: portalOf(platform, scene.seller).order(order.id),
    },
    order.id,
  )
}

const outcomes: Partial<Record<string, MailOf<'dispute'>['outcome']>> = { needs_response: 'opened', won: 'won', lost: 'lost' }

/** Mails the customer about a dispute: that it was opened, or how the bank has decided. */
export const mailDispute = async (deps: Deps, { organization_id, dispute_id }: { organization_id: string; dispute_id: string }): Promise<void> => {
  const { db, platform } = deps
  const scene = await sceneOf(db, organization_id)
  const dispute = scene && (await readDispute(db, organization_id, dispute_id))
  const outcome = dispute && outcomes[dispute.status]
  const loaded = scene && outcome && (await findOrder(db, scene.scope, dispute.order_id))
  if (!loaded) return
  const { order } = loaded
  await mailCustomer(
    deps,
    scene,
    order.customer_id,
    null,
    {
      kind: 'dispute',
      disputed: { amount: dispute.amount + dispute.tax_amount, currency: dispute.currency },
      description: order.description,
      outcome,
      order_date: order.created_at,
      order_url: portalOf(platform, scene.seller).order(order.id),
    },
    order.id,
  )
}
