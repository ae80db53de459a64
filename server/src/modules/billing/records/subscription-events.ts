import {
  subscriptionActive,
  subscriptionCanceled,
  subscriptionCycled,
  subscriptionPastDue,
  subscriptionPaused,
  subscriptionResumed,
  subscriptionRevoked,
  subscriptionUncanceled,
  subscriptionUpdated,
} from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emitAll } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { touchState } from '../../customers/index.ts'
import { reminderOf } from '../calc/reminders.ts'
import { changeSubscription, watchGrace, type LoadedSubscription, type SubscriptionRow } from './subscriptions.sql.ts'
import { presentSubscription, presentWithUsage } from './subscriptions.ts'
import { followUsage } from './usage-periods.ts'

type Status = SubscriptionRow['status']
const active: readonly Status[] = ['trialing', 'active']
const revoked: readonly Status[] = ['canceled', 'unpaid']
/** The statuses of subscriptions that are renewed. */
export const billable: readonly Status[] = ['trialing', 'active', 'past_due']

/** Returns when the renewal sweep must process the subscription next. Null if nothing happens automatically. */
export const subscriptionDue = (subscription: SubscriptionRow): Date | null => {
  const { status, parked_at, resumes_at, current_period_end, reminded_for } = subscription
  // A parked subscription is not billed. If it was canceled, it still ends with its period.
  if (parked_at !== null && !(subscription.cancel_at_period_end && billable.includes(status))) return null
  if (status === 'paused') return resumes_at
  if (!billable.includes(status)) return null
  const reminder = reminderOf(subscription)
  const reminded = reminded_for?.getTime() === current_period_end.getTime()
  return reminder && !reminded && reminder.at < current_period_end ? reminder.at : current_period_end
}

/** Updates the subscription and its next due time. */
export const updateSubscription = (
  tx: BusinessTx,
  subscription: Locked<SubscriptionRow>,
  changes: Partial<SubscriptionRow>,
): Promise<Locked<SubscriptionRow>> =>
  changeSubscription(tx, subscription, { modified_at: tx.clock.business(), ...changes, due_at: subscriptionDue({ ...subscription, ...changes }) })

export const subjectOf = ({ organization_id, id, customer_id }: SubscriptionRow) => ({ organization_id, resource_id: id, customer_id })

/**
 * Emits the events of a change in the documented order: `subscription.updated` once, then one event for each transition.
 * Also ends and begins usage periods, so that no change can leave them behind.
 * The events contain the usage of the current period. A period that has just begun is shown without usage, so a renewal does not
 * compute it. `told`: another mail tells the customer of the change, such as a receipt.
 */
export const emitSubscriptionEvents = async (
  tx: BusinessTx,
  scope: TenantScope,
  before: SubscriptionRow,
  loaded: LoadedSubscription,
  { cycled = false, told = false } = {},
): Promise<void> => {
  const after = loaded.subscription
  const about = subjectOf(after)
  await followUsage(tx, before, loaded)
  const data = cycled ? presentSubscription(loaded, []) : await presentWithUsage(tx, scope, loaded)
  const kinds = [subscriptionUpdated]
  if (active.includes(after.status) && !active.includes(before.status)) kinds.push(subscriptionActive)
  if (after.status === 'paused' && before.status !== 'paused') kinds.push(subscriptionPaused)
  if (before.status === 'paused' && active.includes(after.status)) kinds.push(subscriptionResumed)
  if (before.cancel_at_period_end && !after.cancel_at_period_end && !revoked.includes(after.status)) kinds.push(subscriptionUncanceled)
  if (after.status === 'past_due' && before.status !== 'past_due') kinds.push(subscriptionPastDue)
  if (after.canceled_at !== null && before.canceled_at === null) kinds.push(subscriptionCanceled)
  if (revoked.includes(after.status) && !revoked.includes(before.status)) kinds.push(subscriptionRevoked)
  if (cycled) kinds.push(subscriptionCycled)
  await emitAll(tx, kinds, about, data)
  if (after.status !== before.status || after.product_id !== before.product_id || (after.seats === null) !== (before.seats === null)) await entitle(tx, after)
  if (after.seats !== null && revoked.includes(after.status)) await enqueue(tx, 'billing.end_seats', { ...containing(after), order_id: null })
  if (after.status === 'past_due' && before.status !== 'past_due') await watchGrace(tx, after, tx.clock.business())
  if (!told) await mailChange(tx, before, after, cycled)
  await touchState(tx, after)
}

/** Enqueues the mails about a change. A renewal is told by its receipt, and its scheduled change was told when it was requested. */
const mailChange = async (tx: Tx, before: SubscriptionRow, after: SubscriptionRow, cycled: boolean): Promise<void> => {
  const ends = revoked.includes(after.status)
  const changes = [
    ends && !revoked.includes(before.status) && 'ended',
    !ends && after.cancel_at_period_end && !before.cancel_at_period_end && 'canceled',
    !ends && !after.cancel_at_period_end && before.cancel_at_period_end && 'uncanceled',
    !ends && after.pause_at_period_end && !before.pause_at_period_end && 'paused',
    before.status === 'paused' && active.includes(after.status) && 'resumed',
    !ends && !cycled && after.product_id !== before.product_id && 'plan',
    !ends && !cycled && after.product_id === before.product_id && after.seats !== before.seats && 'seats',
  ] as const
  for (const change of changes) if (change) await enqueue(tx, 'mail.subscription', { ...containing(after), change })
}

const containing = ({ organization_id, id }: SubscriptionRow) => ({ organization_id, subscription_id: id })

/** Enqueues the job that grants or revokes the benefits of the subscription and its seat holders. */
export const entitle = (tx: Tx, subscription: SubscriptionRow): Promise<void> =>
  enqueue(tx, 'entitlements.reconcile', { ...containing(subscription), order_id: null, seat_id: null })
