import {
  PauseResumeNotAllowed,
  ResourceNotFound,
  UpdateSubscriptionPlanNotAllowed,
  UpdateSubscriptionSeatsNotAllowed,
  type CustomerSubscription,
  type CustomerSubscriptionUpdate,
} from '@bursar/contract'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { allows, holdStanding } from '../../customers/index.ts'
import { presentSeller } from '../../organizations/index.ts'
import {
  cancel,
  clearPending,
  requireLockedSubscription,
  pause,
  refusePaying,
  resume,
  revokeSubscription,
  uncancel,
  unpause,
  withTax,
  type Intended,
} from './changing.ts'
import { selectSold, type LoadedSubscription, type SoldSubscription } from '../records/subscriptions.sql.ts'
import { presentSubscription } from '../records/subscriptions.ts'
import { changeProduct, changeSeats, nothingToPay, type Begun } from './switching.ts'
import { loadUsage, type PriceUsage } from '../records/subscription-usage.sql.ts'
import { needMethod, type ChangeContext } from './trials.ts'

/**
 * Converts subscriptions to their representation in the portal, with the product and its seller. A member who only has a
 * seat sees the product, but no prices, usage, payments or planned changes.
 */
export const presentOwn = async (db: Db, scope: TenantScope, actor: PortalActor, sold: readonly SoldSubscription[]): Promise<CustomerSubscription[]> => {
  const usage = await loadUsage(
    db,
    scope,
    sold.filter((one) => isPayer(actor, one)),
  )
  return sold.map((one) => presentSold(actor, one, usage.get(one.subscription.id) ?? []))
}

const isPayer = (actor: PortalActor, { subscription }: SoldSubscription): boolean =>
  subscription.customer_id === actor.customer_id && allows(actor.role, 'billing:read')

const presentSold = (actor: PortalActor, sold: SoldSubscription, usage: readonly PriceUsage[]): CustomerSubscription => {
  const subscription = presentSubscription(sold, usage)
  const shown = { ...subscription, product: { ...subscription.product, organization: presentSeller(sold.seller) } }
  return isPayer(actor, sold) ? shown : { ...shown, ...unpaid, product: { ...shown.product, prices: [] } }
}

const unpaid = {
  amount: 0,
  prices: [],
  meters: [],
  discount_id: null,
  checkout_id: null,
  pending_update: null,
  past_due_at: null,
  customer_cancellation_reason: null,
  customer_cancellation_comment: null,
}

/** Finds a subscription of the customer in the portal. Throws the same 404 for another customer's subscription as for an unknown id. */
export const findOwn = async (db: Db, scope: TenantScope, { customer_id }: PortalActor, id: string): Promise<SoldSubscription> => {
  const [found] = await selectSold(db, scope, [id])
  if (!found || found.subscription.customer_id !== customer_id) throw new ResourceNotFound()
  return found
}

/**
 * Starts a change that the customer requests in the portal, within the seller's settings. Lock the customer before the
 * subscription.
 */
export const beginOwn = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  actor: PortalActor,
  id: string,
  body: CustomerSubscriptionUpdate,
): Promise<Intended> => {
  const asking = await holdOwn(tx, scope, platform, actor, id)
  refusePaying(asking, body)
  const { organization_id } = asking.subscription
  return { organization_id, subscription_id: id, ...(await withTax(() => changeOwn(asking, body))) }
}

/** Locks the customer, whose session must have `billing:manage`, and then the customer's subscription. */
export const holdOwn = async (tx: Tx, scope: TenantScope, platform: Platform, actor: PortalActor, id: string): Promise<ChangeContext> => {
  await holdStanding(tx, scope, actor, 'billing:manage')
  const asking = await requireLockedSubscription(tx, scope, platform, id)
  if (asking.subscription.customer_id !== actor.customer_id) throw new ResourceNotFound()
  return asking
}

/** Makes a change that the customer requests. Throws if the seller's portal settings do not allow it. */
export const changeOwn = async (asking: ChangeContext, body: CustomerSubscriptionUpdate): Promise<Begun> => {
  const { customer_portal_settings, subscription_settings } = asking.seller
  const allowed = customer_portal_settings.subscription
  if ('product_id' in body) {
    if (!allowed.update_plan || !subscription_settings.allow_customer_updates) throw new UpdateSubscriptionPlanNotAllowed()
    return changeProduct(asking, body.product_id, null, { portal: true })
  }
  if ('seats' in body) {
    if (!allowed.update_seats || !subscription_settings.allow_customer_updates) throw new UpdateSubscriptionSeatsNotAllowed()
    return changeSeats(asking, body.seats, null, { portal: true })
  }
  if ('pause_at_period_end' in body || 'resume' in body) {
    if (!allowed.pause) throw new PauseResumeNotAllowed()
    if ('resume' in body) await needMethodToPay(asking)
    await ('resume' in body ? resume(asking) : body.pause_at_period_end ? pause(asking, body.resumes_at ?? null) : unpause(asking))
  } else if ('pending_update' in body) await clearPending(asking)
  else if (body.cancel_at_period_end === true) await leave(asking, body.cancellation_reason, body.cancellation_comment)
  else if (body.cancel_at_period_end === false) {
    await needMethodToPay(asking)
    await uncancel(asking)
  }
  return nothingToPay
}

/** Requires a payment method to uncancel or resume a subscription, unless the subscription is free. */
const needMethodToPay = async (asking: ChangeContext): Promise<void> => {
  if (asking.subscription.amount > 0) await needMethod(asking)
}

/**
 * Cancels the subscription at the end of the current period. A paused subscription has no current period, so it ends at
 * once.
 */
const leave = (asking: ChangeContext, reason: Parameters<typeof cancel>[1], comment: Parameters<typeof cancel>[2]): Promise<LoadedSubscription> =>
  asking.subscription.status === 'paused' ? revokeSubscription(asking, reason, comment) : cancel(asking, reason, comment)

export const cancelOwn = async (tx: Tx, scope: TenantScope, platform: Platform, actor: PortalActor, id: string): Promise<SoldSubscription> => {
  const asking = await holdOwn(tx, scope, platform, actor, id)
  return { ...(await leave(asking, null, null)), seller: asking.seller }
}
