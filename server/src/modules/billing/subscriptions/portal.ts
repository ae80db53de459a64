import {
  PaymentMethodRequired,
  PauseResumeNotAllowed,
  ResourceNotFound,
  UpdateSubscriptionPlanNotAllowed,
  UpdateSubscriptionSeatsNotAllowed,
  type CustomerSubscription,
  type CustomerSubscriptionUpdate,
} from '@bursar/contract'
import type { PortalActor, Reach } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { allows, holdStanding } from '../../customers/index.ts'
import { findOrganization, presentSeller, type OrganizationRow } from '../../organizations/index.ts'
import { methodFor } from '../renewals/collecting.ts'
import { cancel, clearPending, hold, pause, refusePaying, resume, revoke, uncancel, unpause, withTax, type Intended } from './changing.ts'
import { findSubscription, type LoadedSubscription } from './subscriptions.sql.ts'
import { presentSubscription } from './subscriptions.ts'
import { changeProduct, changeSeats, nothingToPay, type Begun } from './switching.ts'
import type { Asking } from './trials.ts'

/** The subscription as its customer sees it: with the product as it is on sale, and who sells it. */
export const presentOwn = (loaded: LoadedSubscription, seller: OrganizationRow): CustomerSubscription => {
  const shown = presentSubscription(loaded)
  return { ...shown, product: { ...shown.product, organization: presentSeller(seller) } }
}

/** Subscriptions of one seller for the eyes of whoever has them. Who only sits in one learns what it is, and nothing of what is paid or planned. */
export const showOwn = async (db: Db, reach: Reach, actor: PortalActor, items: readonly LoadedSubscription[]): Promise<CustomerSubscription[]> => {
  const seller = (await findOrganization(db, reach, actor.organization_id))!
  return items.map((loaded) => {
    const shown = presentOwn(loaded, seller)
    const pays = loaded.subscription.customer_id === actor.customer_id && allows(actor.role, 'billing:read')
    return pays ? shown : { ...shown, ...unpaid, product: { ...shown.product, prices: [] } }
  })
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

/** A subscription of the customer who stands in the portal; somebody else's is answered like none. */
export const findOwn = async (db: Db, reach: Reach, { customer_id }: PortalActor, id: string): Promise<LoadedSubscription> => {
  const found = await findSubscription(db, reach, id)
  if (!found || found.subscription.customer_id !== customer_id) throw new ResourceNotFound()
  return found
}

/** The customer's door: whoever pays, as far as the seller allows. The customer is held first, then the subscription. */
export const beginOwn = async (
  tx: Tx,
  reach: Reach,
  platform: Platform,
  actor: PortalActor,
  id: string,
  body: CustomerSubscriptionUpdate,
): Promise<Intended> => {
  const asking = await holdOwn(tx, reach, platform, actor, id)
  refusePaying(asking, body)
  const { organization_id } = asking.subscription
  return { organization_id, subscription_id: id, ...(await withTax(() => changeOwn(asking, body))) }
}

/** Whoever pays, held with what they pay for. */
export const holdOwn = async (tx: Tx, reach: Reach, platform: Platform, actor: PortalActor, id: string): Promise<Asking> => {
  await holdStanding(tx, reach, actor, 'billing:manage')
  const asking = await hold(tx, reach, platform, id)
  if (asking.subscription.customer_id !== actor.customer_id) throw new ResourceNotFound()
  return asking
}

/** A change that its customer wants, as far as the seller lets them. */
export const changeOwn = async (asking: Asking, body: CustomerSubscriptionUpdate): Promise<Begun> => {
  const { customer_portal_settings, subscription_settings } = asking.seller
  const allowed = customer_portal_settings.subscription
  if ('product_id' in body) {
    if (!allowed.update_plan || !subscription_settings.allow_customer_updates) throw new UpdateSubscriptionPlanNotAllowed()
    return changeProduct(asking, body.product_id, null, { publicOnly: true })
  }
  if ('seats' in body) {
    if (!allowed.update_seats || !subscription_settings.allow_customer_updates) throw new UpdateSubscriptionSeatsNotAllowed()
    return changeSeats(asking, body.seats, null)
  }
  if ('pause_at_period_end' in body || 'resume' in body) {
    if (!allowed.pause) throw new PauseResumeNotAllowed()
    if ('resume' in body) await needMethod(asking)
    await ('resume' in body ? resume(asking) : body.pause_at_period_end ? pause(asking, body.resumes_at ?? null) : unpause(asking))
  } else if ('pending_update' in body) await clearPending(asking)
  else if (body.cancel_at_period_end === true) await leave(asking, body.cancellation_reason, body.cancellation_comment)
  else if (body.cancel_at_period_end === false) {
    await needMethod(asking)
    await uncancel(asking)
  }
  return nothingToPay
}

/** Nobody takes up again what they have nothing to pay with; what is free needs nothing. */
const needMethod = async ({ tx, subscription, loaded }: Asking): Promise<void> => {
  if (subscription.amount > 0 && !(await methodFor(tx, subscription, loaded.customer))) throw new PaymentMethodRequired()
}

/** In the portal a subscription ends with the period that is paid for. One that is paused has none, and nothing to lose: it ends at once. */
const leave = (asking: Asking, reason: Parameters<typeof cancel>[1], comment: Parameters<typeof cancel>[2]): Promise<void> =>
  asking.subscription.status === 'paused' ? revoke(asking, reason, comment) : cancel(asking, reason, comment)

export const cancelOwn = async (tx: Tx, reach: Reach, platform: Platform, actor: PortalActor, id: string): Promise<LoadedSubscription> => {
  const asking = await holdOwn(tx, reach, platform, actor, id)
  await leave(asking, null, null)
  return findOwn(tx, reach, actor, id)
}
