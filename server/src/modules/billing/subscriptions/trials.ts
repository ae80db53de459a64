import { AlreadyCanceledSubscription, InactiveSubscription, invalidAt, InvalidRequest, PaymentMethodRequired, SubscriptionLocked } from '@bursar/contract'
import type { Platform } from '../../handlers.ts'
import { loadSubscriptions, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import { anchorOf, trialEnd } from '../calc/periods.ts'
import { type RenewalContext } from '../invoicing/billing.ts'
import { methodFor } from '../invoicing/collecting.ts'
import { billPeriod, cycle, billedAlready } from '../renewals/renewals.ts'
import { changesOf, discountWith, reshape, takeShape, type Shape } from '../invoicing/applying.ts'
import { updateSubscription, emitSubscriptionEvents } from '../records/subscription-events.ts'

/** The context of a change that a caller requests. */
export interface ChangeContext extends RenewalContext {
  readonly platform: Platform
}

/** Fields that can be changed together with any other part of a request. */
export type Wished = Partial<Pick<SubscriptionRow, 'metadata' | 'discount_id' | 'discount_applied_at' | 'period_discount_id' | 'proration_behavior'>>

/** Refuses changes to a subscription that has ended or is canceled at the end of its period. */
export const refuseEnding = ({ ended_at, cancel_at_period_end }: SubscriptionRow): void => {
  if (ended_at !== null || cancel_at_period_end) throw new AlreadyCanceledSubscription()
}

/** Throws `PaymentMethodRequired` if the customer has no payment method to charge. */
export const needMethod = async ({ tx, subscription, loaded }: ChangeContext): Promise<void> => {
  if (!(await methodFor(tx, subscription, loaded.customer))) throw new PaymentMethodRequired()
}

/**
 * Changes metadata, discount and trial, but not the product. Emits one event for all changes, including a moved or
 * ended trial.
 */
export const changeWithin = async (asking: ChangeContext, besides: Wished, trial_end: Date | 'now' | null, { always = false } = {}): Promise<void> => {
  const { tx, subscription } = asking
  const changes: Partial<SubscriptionRow> = { ...besides, ...movedTrial(asking, trial_end) }
  const different = Object.keys(changes).length > 0
  const after = different ? await updateSubscription(tx, subscription, changes) : subscription
  // Another discount, or another pending change, is a related row that the context does not hold yet.
  const stale = always || changes.discount_id !== undefined
  const turn = stale ? await again(asking, after) : { ...asking, subscription: after, loaded: { ...asking.loaded, subscription: after } }
  if (trial_end === 'now') await endTrial(turn)
  else if (different || always) await emitSubscriptionEvents(tx, asking.scope, subscription, turn.loaded)
}

/**
 * Emits an update event without a change to the subscription row. Needed if a related row has changed, such as the
 * pending change.
 */
export const tellAgain = (asking: ChangeContext): Promise<void> => changeWithin(asking, {}, null, { always: true })

const again = async <T extends RenewalContext>(turn: T, subscription: RenewalContext['subscription']): Promise<T> => ({
  ...turn,
  subscription,
  loaded: (await loadSubscriptions(turn.tx, turn.scope, [subscription]))[0]!,
})

/**
 * Changes the product during a trial. The trial ends at the requested time. If none is requested, it lasts as long as
 * the trial of the new product, counted from the start of the trial. If that time has passed, or the new product has no
 * trial, the trial ends now.
 */
export const changeTrial = async (asking: ChangeContext, shape: Shape, besides: Wished, asked: Date | 'now' | null, { portal = false } = {}): Promise<void> => {
  const { tx, scope, subscription, loaded } = asking
  const now = tx.clock.business()
  const moved = movedTrial(asking, asked)
  const { trial_interval, trial_interval_count } = shape.product.product
  const own = trial_interval && trial_interval_count ? trialEnd(subscription.trial_start ?? now, trial_interval, trial_interval_count) : null
  const until = asked === 'now' ? null : (asked ?? own)
  const wanted = besides.discount_id === undefined ? subscription.discount_id : besides.discount_id
  const discount_id = (await discountWith(tx, subscription.organization_id, wanted, shape.product.product.id))?.id ?? null
  const others = { ...besides, discount_id, ...(discount_id === subscription.discount_id ? {} : { discount_applied_at: null }), ...moved }
  const held = { subscription, pending: loaded.pending }
  if (until !== null && until > now) {
    await reshape(tx, scope, held, shape, null, { ...others, trial_end: until, current_period_end: until, anchor_day: anchorOf(until) })
    return
  }
  // The trial ends now, so the first period is billed now. In the portal, a change that ends the trial of a paid plan
  // requires a payment method.
  if (portal && shape.amount > 0) await needMethod(asking)
  const taken = await takeShape(tx, scope, held, shape, { ...changesOf(shape, null), ...others })
  await endTrial({ ...asking, subscription: taken.after, loaded: taken.loaded })
}

/** Ends the trial now and begins the first period. The sweep charges its order shortly after. */
const endTrial = async (turn: RenewalContext): Promise<void> => {
  const now = turn.tx.clock.business()
  const cycled = await cycle(turn, now, { trial_end: now, anchor_day: anchorOf(now), calendar_from: now })
  if (!cycled) throw new SubscriptionLocked(billedAlready)
  await billPeriod(cycled, { due_at: now })
}

/**
 * Returns the columns for a new trial end. For an active subscription, a trial starts now and must end after the paid
 * period.
 */
const movedTrial = ({ tx, subscription }: RenewalContext, trial_end: Date | 'now' | null): Partial<SubscriptionRow> => {
  if (trial_end === null) return {}
  const { status } = subscription
  const wrong = (problem: string) =>
    new InvalidRequest(invalidAt(['body', 'trial_end'], problem, trial_end instanceof Date ? trial_end.toISOString() : trial_end))
  refuseEnding(subscription)
  if (trial_end === 'now') {
    if (status !== 'trialing') throw wrong('This subscription has no trial to end.')
    return {}
  }
  if (status !== 'trialing' && status !== 'active') throw new InactiveSubscription()
  const now = tx.clock.business()
  if (trial_end <= now) throw wrong('The end of a trial must be in the future.')
  if (status === 'active' && trial_end <= subscription.current_period_end)
    throw wrong(`The trial must end after the paid period, which ends at ${subscription.current_period_end.toISOString()}.`)
  return {
    status: 'trialing',
    trial_start: subscription.trial_start ?? now,
    trial_end,
    current_period_end: trial_end,
    anchor_day: anchorOf(trial_end),
    calendar_from: trial_end,
  }
}
