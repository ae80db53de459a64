import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { BusinessTx } from '../../../platform/postgres/postgres.ts'
import { closePeriods, holdUsage, openPeriods, scheduleLastUsage, type OpenPeriod } from './usage-periods.sql.ts'

/** The columns of a subscription that determine its usage periods. */
interface MeteredSubscription {
  readonly organization_id: string
  readonly id: string
  readonly customer_id: string
  readonly currency: string
  readonly status: string
  readonly current_period_start: Date
  readonly current_meter_period_start: Date | null
  readonly ended_at: Date | null
  readonly paused_at: Date | null
  readonly clock_id: string | null
}

/** A loaded subscription, as far as its usage periods depend on it. */
interface Metered {
  readonly subscription: MeteredSubscription
  readonly prices: readonly { readonly id: string; readonly meter_id: string | null; readonly unit_amount: string | null; readonly cap_amount: number | null }[]
  /** The open periods before the change. */
  readonly periods: readonly OpenPeriod[]
  /** True if the subscription has or had usage periods. */
  readonly has_usage: boolean
}

/** The statuses in which usage is billed. Usage during a trial or a pause is free. */
const meteredStatuses: readonly string[] = ['active', 'past_due']

const startOf = ({ current_meter_period_start, current_period_start }: MeteredSubscription): Date => current_meter_period_start ?? current_period_start

/**
 * Ends and begins usage periods after a change of the subscription, in the same transaction. A period ends with the billing period,
 * with its price, with a pause, at the start of a trial, and with the subscription. `before` is null for a new subscription.
 */
export const followUsage = async (tx: BusinessTx, before: MeteredSubscription | null, loaded: Metered): Promise<void> => {
  const { subscription, periods } = loaded
  const prices = meteredStatuses.includes(subscription.status) ? meteredPrices(loaded) : []
  const isEnding = subscription.ended_at !== null && before?.ended_at === null && loaded.has_usage
  const restarts = before === null || startOf(before).getTime() !== startOf(subscription).getTime()
  const at = momentOf(tx, subscription, restarts)
  const stays = ({ price_id }: OpenPeriod) => !restarts && prices.some(({ id }) => id === price_id)
  const closing = periods.filter((period) => !stays(period))
  const opening = prices.filter(({ id }) => !periods.some((period) => period.price_id === id && stays(period)))
  if (closing.length + opening.length > 0 || isEnding) await holdUsage(tx, subscription)
  if (closing.length > 0)
    await closePeriods(
      tx,
      subscription,
      closing.map(({ id }) => id),
      at,
    )
  if (opening.length > 0) await open(tx, subscription, opening, at)
  if (isEnding) await scheduleLastUsage(tx, subscription, subscription.ended_at)
  // Another subscription of the customer may have a price on the same meter. It is billed from now on.
  if (closing.some(({ meter_id }) => !opening.some((price) => price.meter_id === meter_id)))
    await enqueue(tx, 'billing.follow_usage', { organization_id: subscription.organization_id, customer_id: subscription.customer_id })
}

/** Opens missing periods of a subscription that did not change, because another subscription is no longer billed for the meter. */
export const takeOverUsage = async (tx: BusinessTx, loaded: Metered): Promise<void> => {
  const { subscription, periods } = loaded
  if (!meteredStatuses.includes(subscription.status)) return
  const missing = meteredPrices(loaded).filter(({ id }) => !periods.some(({ price_id }) => price_id === id))
  if (missing.length === 0) return
  await holdUsage(tx, subscription)
  await open(tx, subscription, missing, startOf(subscription))
}

const open = (tx: BusinessTx, subscription: MeteredSubscription, prices: ReturnType<typeof meteredPrices>, from: Date): Promise<void> => {
  const { organization_id, id: subscription_id, customer_id, currency, current_period_start: billing_start, clock_id } = subscription
  return openPeriods(tx, { organization_id, subscription_id, customer_id, currency, billing_start, clock_id, prices }, from)
}

const meteredPrices = ({ prices }: Metered) =>
  prices.flatMap(({ id, meter_id, unit_amount, cap_amount }) => (meter_id !== null && unit_amount !== null ? [{ id, meter_id, unit_amount, cap_amount }] : []))

/** Returns the time at which periods end and begin. */
const momentOf = (tx: BusinessTx, subscription: MeteredSubscription, restarts: boolean): Date => {
  const { status, ended_at, paused_at } = subscription
  if (ended_at !== null) return ended_at
  if (status === 'paused' && paused_at !== null) return paused_at
  return restarts ? startOf(subscription) : tx.clock.business()
}
