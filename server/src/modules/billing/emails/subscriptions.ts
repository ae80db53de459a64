import type { MailView, Purchased } from '@bursar/views'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { loadProducts } from '../../catalog/index.ts'
import type { Deps } from '../../handlers.ts'
import { capabilities } from '../../organizations/index.ts'
import { reminderOf, type Reminder } from '../calc/reminders.ts'
import { shapeOf, stillPossible } from '../invoicing/applying.ts'
import { findSubscription, type LoadedSubscription } from '../records/subscriptions.sql.ts'
import { forecastOf } from './forecasts.ts'
import type { FindGiven } from './orders.ts'
import { isWanted, mailCustomer, portalOf, priceOf, sceneOf, type Scene, type Setting } from './scene.ts'

type About = { organization_id: string; subscription_id: string }
type Change = Payload<'mail.subscription'>['change']

const load = async ({ db }: Deps, { organization_id, subscription_id }: About): Promise<{ scene: Scene; loaded: LoadedSubscription } | undefined> => {
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findSubscription(db, scene.scope, subscription_id))
  return scene && loaded && { scene, loaded }
}

/** Mails the cost of the next period. Sent only if the subscription will still renew at the end of the period that the mail was enqueued for. */
export const mailRenewalReminder = (deps: Deps, about: About): Promise<void> => mailForecast(deps, about, 'renewal', 'subscription_renewal_reminder')

/** Mails the cost after a trial. Sent only if the trial still ends at the time that the mail was enqueued for. */
export const mailTrialEnding = (deps: Deps, about: About): Promise<void> => mailForecast(deps, about, 'trial_ending', 'subscription_trial_conversion_reminder')

const mailForecast = async (deps: Deps, about: About, kind: Reminder['kind'], setting: Setting): Promise<void> => {
  const found = await load(deps, about)
  if (!found || !capabilities[found.scene.seller.status].subscription_renewals || !isExpected(found.loaded, kind)) return
  const { scene, loaded } = found
  const { plan, forecast } = await forecastOf(deps.db, loaded)
  // A period without a charge needs no reminder. Usage is charged, so a metered price needs one.
  if (forecast.amount <= 0 && forecast.usage.length === 0) return
  const { subscriptions: portal_url, cancel: cancel_url } = portalOf(deps.platform, scene.seller)
  await mailCustomer(deps, scene, loaded.subscription.customer_id, setting, {
    kind: kind === 'renewal' ? 'renewal_reminder' : 'trial_ending',
    plan,
    forecast,
    portal_url,
    cancel_url,
  })
}

/** True if the reminder still matches the subscription. False if the period has changed since, or if no renewal follows. */
const isExpected = ({ subscription }: LoadedSubscription, kind: Reminder['kind']): boolean =>
  subscription.parked_at === null &&
  subscription.reminded_for?.getTime() === subscription.current_period_end.getTime() &&
  reminderOf(subscription)?.kind === kind

/** Mails that a trial has started, with what it gives and what it costs afterwards. */
export const mailTrialStarted = async (deps: Deps, about: About, findGiven: FindGiven): Promise<void> => {
  const found = await load(deps, about)
  if (found?.loaded.subscription.status !== 'trialing' || !isWanted(found.scene.seller, 'subscription_confirmation')) return
  const { scene, loaded } = found
  const { organization_id, id, product_id, customer_id, seats } = loaded.subscription
  const given =
    seats === null ? await findGiven(scene, { organization_id, subscription_id: id, order_id: null }, product_id, id) : { benefits: [], more_to_come: false }
  const { access: access_url, cancel: cancel_url } = portalOf(deps.platform, scene.seller)
  const view = { kind: 'trial_started' as const, ...(await forecastOf(deps.db, loaded)), ...given, access_url, cancel_url }
  await mailCustomer(deps, scene, customer_id, 'subscription_confirmation', view)
}

const settings: Record<Change, Setting> = {
  canceled: 'subscription_cancellation',
  uncanceled: 'subscription_uncanceled',
  ended: 'subscription_revoked',
  paused: 'subscription_paused',
  resumed: 'subscription_resumed',
  seats: 'subscription_updated',
  plan: 'subscription_updated',
}

/** Mails a change of a subscription. Does nothing if the change was undone since. */
export const mailSubscription = async (deps: Deps, { change, ...about }: Payload<'mail.subscription'>): Promise<void> => {
  const found = await load(deps, about)
  const view = found && (await views[change](deps, found.scene, found.loaded))
  if (view) await mailCustomer(deps, found.scene, found.loaded.subscription.customer_id, settings[change], view)
}

type ViewOf = (deps: Deps, scene: Scene, loaded: LoadedSubscription) => Promise<MailView | undefined> | MailView | undefined

const planOf = ({ product, subscription }: LoadedSubscription): Purchased => ({ name: product.product.name, seats: subscription.seats })
const link = ({ platform }: Deps, { seller }: Scene) => ({ portal_url: portalOf(platform, seller).subscriptions })

const views: Record<Change, ViewOf> = {
  canceled: (deps, scene, loaded) => {
    const { cancel_at_period_end, ended_at, ends_at, current_period_end } = loaded.subscription
    if (!cancel_at_period_end || ended_at !== null) return undefined
    return { kind: 'subscription_canceled', plan: planOf(loaded), ends_at: ends_at ?? current_period_end, ...link(deps, scene) }
  },
  uncanceled: (deps, scene, loaded) => {
    const { subscription } = loaded
    if (subscription.cancel_at_period_end || subscription.ended_at !== null) return undefined
    const renews_at = subscription.current_period_end
    return { kind: 'subscription_uncanceled', plan: planOf(loaded), renews_at, price: priceOf(subscription), ...link(deps, scene) }
  },
  ended: ({ platform }, { seller }, loaded) => {
    const { ended_at } = loaded.subscription
    if (ended_at === null) return undefined
    return { kind: 'subscription_ended', plan: planOf(loaded), ended_at, portal_url: portalOf(platform, seller).overview }
  },
  paused: (deps, scene, loaded) => {
    const { pause_at_period_end, status, current_period_end, resumes_at } = loaded.subscription
    if (!pause_at_period_end && status !== 'paused') return undefined
    const begins_at = pause_at_period_end ? current_period_end : null
    return { kind: 'subscription_paused', plan: planOf(loaded), begins_at, resumes_at, ...link(deps, scene) }
  },
  resumed: (deps, scene, loaded) => {
    const { subscription } = loaded
    if (subscription.status === 'paused' || subscription.ended_at !== null) return undefined
    const renews_at = subscription.current_period_end
    return { kind: 'subscription_resumed', plan: planOf(loaded), renews_at, price: priceOf(subscription), ...link(deps, scene) }
  },
  seats: async (deps, scene, loaded) => {
    const coming = await comingOf(deps, loaded)
    if (coming?.seats == null) return undefined
    const { plan, seats, from, price } = coming
    return { kind: 'seats_changed', plan, seats, from, price, team_url: portalOf(deps.platform, scene.seller).team, ...link(deps, scene) }
  },
  plan: async (deps, scene, loaded) => {
    const coming = await comingOf(deps, loaded)
    if (!coming) return undefined
    const { plan, from, price } = coming
    return { kind: 'plan_changed', plan, from, price, ...link(deps, scene) }
  },
}

/** Returns the plan of the subscription, or the one that is scheduled for the next period. Undefined for an ended subscription. */
const comingOf = async ({ db }: Deps, loaded: LoadedSubscription) => {
  const { subscription, pending } = loaded
  if (subscription.ended_at !== null) return undefined
  const now = { plan: planOf(loaded), seats: subscription.seats, from: null, price: priceOf(subscription) }
  if (!pending) return now
  const target = pending.product_id
  const product = target === null ? null : ((await loadProducts(db, [{ tenant: subscription.organization_id, id: target }]))[0] ?? null)
  const shape = stillPossible(() => shapeOf(loaded, product, pending.seats))
  if (!shape) return now
  const { recurring_interval, recurring_interval_count, name } = shape.product.product
  return {
    plan: { name, seats: shape.seats },
    seats: shape.seats,
    from: subscription.current_period_end,
    price: {
      amount: shape.amount,
      currency: subscription.currency,
      interval: recurring_interval ?? subscription.recurring_interval,
      interval_count: recurring_interval_count ?? subscription.recurring_interval_count,
    },
  }
}
