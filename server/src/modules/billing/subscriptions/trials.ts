import { AlreadyCanceledSubscription, InactiveSubscription, invalidAt, InvalidRequest, SubscriptionLocked } from '@bursar/contract'
import type { Platform } from '../../handlers.ts'
import { loadSubscriptions, type SubscriptionRow } from './subscriptions.sql.ts'
import { anchorOf, trialEnd } from '../engine/periods.ts'
import { billPeriod, cycle, type Turn, billedAlready } from '../renewals/renewals.ts'
import { changesOf, discountWith, reshape, takeShape, type Shape } from './applying.ts'
import { keep, tell } from './telling.ts'

/** Whoever asks, and what they ask through. */
export interface Asking extends Turn {
  readonly platform: Platform
}

/** What may be asked for together with anything else. */
export type Wished = Partial<Pick<SubscriptionRow, 'metadata' | 'discount_id' | 'discount_applied_at' | 'period_discount_id'>>

/** What has ended, or is going to, is not changed any more. */
export const refuseEnding = ({ ended_at, cancel_at_period_end }: SubscriptionRow): void => {
  if (ended_at !== null || cancel_at_period_end) throw new AlreadyCanceledSubscription()
}

/** Everything but the product: what is different is told once, together with a trial that moves or ends. */
export const changeWithin = async (asking: Asking, besides: Wished, trial_end: Date | 'now' | null, { always = false } = {}): Promise<void> => {
  const { tx, subscription } = asking
  const changes: Partial<SubscriptionRow> = { ...besides, ...movedTrial(asking, trial_end) }
  const different = Object.keys(changes).length > 0
  const turn = await again(asking, different ? await keep(tx, subscription, changes) : subscription)
  if (trial_end === 'now') await endTrial(turn)
  else if (different || always) await tell(tx, subscription, turn.loaded)
}

/** Nothing of its own row is different, and yet it is another one to look at. */
export const tellAgain = (asking: Asking): Promise<void> => changeWithin(asking, {}, null, { always: true })

const again = async <T extends Turn>(turn: T, subscription: Turn['subscription']): Promise<T> => ({
  ...turn,
  subscription,
  loaded: (await loadSubscriptions(turn.tx, turn.reach, [subscription]))[0]!,
})

/** During a trial nothing is paid for yet: it ends when that is asked for, or is as long as that of the new product, counted from its beginning, or over. */
export const changeTrial = async (asking: Asking, shape: Shape, besides: Wished, asked: Date | 'now' | null): Promise<void> => {
  const { tx, reach, subscription, loaded } = asking
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
    await reshape(tx, reach, held, shape, null, { ...others, trial_end: until, current_period_end: until, anchor_day: anchorOf(until) })
    return
  }
  const taken = await takeShape(tx, reach, held, shape, { ...changesOf(shape, null), ...others })
  await endTrial({ ...asking, subscription: taken.after, loaded: taken.loaded })
}

/** The trial is over now, and the first period begins; it is charged within a moment. */
const endTrial = async (turn: Turn): Promise<void> => {
  const now = turn.tx.clock.business()
  const cycled = await cycle(turn, now, { trial_end: now, anchor_day: anchorOf(now), calendar_from: now })
  if (!cycled) throw new SubscriptionLocked(billedAlready)
  await billPeriod(cycled, { due_at: now })
}

/** A trial that ends at another moment; for a subscription that is paid for, one that begins now and outlasts what was paid. */
const movedTrial = ({ tx, subscription }: Turn, trial_end: Date | 'now' | null): Partial<SubscriptionRow> => {
  if (trial_end === null) return {}
  const { status } = subscription
  const wrong = (problem: string) =>
    new InvalidRequest(invalidAt(['body', 'trial_end'], problem, trial_end instanceof Date ? trial_end.toISOString() : trial_end))
  refuseEnding(subscription)
  if (trial_end === 'now') {
    if (status !== 'trialing') throw wrong('There is no trial to end.')
    return {}
  }
  if (status !== 'trialing' && status !== 'active') throw new InactiveSubscription()
  const now = tx.clock.business()
  if (trial_end <= now) throw wrong('A trial ends in the future.')
  if (status === 'active' && trial_end <= subscription.current_period_end)
    throw wrong(`A trial must outlast the period that is paid for, which ends at ${subscription.current_period_end.toISOString()}.`)
  return {
    status: 'trialing',
    trial_start: subscription.trial_start ?? now,
    trial_end,
    current_period_end: trial_end,
    anchor_day: anchorOf(trial_end),
    calendar_from: trial_end,
  }
}
