import { within, type TenantScope } from '../../../kernel/actors.ts'
import { later, days } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { BusinessTx, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { capabilities, findLivingOrganization } from '../../organizations/index.ts'
import type { RenewalContext } from '../invoicing/billing.ts'
import { differencesOf, usageLines } from '../invoicing/metering.ts'
import { findLiveSubscriptions, loadSubscriptions, lockSubscription } from '../records/subscriptions.sql.ts'
import { takeOverUsage } from '../records/usage-periods.ts'
import { findPeriod, lateUsageDays, lockDuePeriods, lockPeriod, type UnsettledPeriod } from '../records/usage-periods.sql.ts'
import { finalizePeriods, saveUnbilled } from '../records/usage-settlements.sql.ts'
import { TaxUnknown } from '../taxes/taxes.ts'
import { billPeriod } from './renewals.ts'

/**
 * Sweep task for usage periods of ended subscriptions. Makes one last order for all late usage, 35 days after the end. Usage that
 * arrives later, or cannot be billed, is listed as unbilled.
 */
export const settleLateUsage = async (deps: Deps, lease: Lease): Promise<void> => {
  try {
    await deps.transact((tx) => settle(tx, lease, true))
  } catch (error) {
    if (!(error instanceof TaxUnknown)) throw error
    deps.platform.log.error('tax_unknown', { organization_id: lease.organization_id })
    await deps.transact((tx) => settle(tx, lease, false))
  }
}

const settle = async (wall: Tx, lease: Lease, canBill: boolean): Promise<void> => {
  const { organization_id } = lease
  const found = await findPeriod(wall, lease)
  const seller = await findLivingOrganization(wall, { id: organization_id })
  if (!found || !seller) {
    await checkLease(wall, lease)
    await releaseLease(wall, lease, null)
    return
  }
  const scope = within(organization_id, 'machine', seller.member_phase)
  const subscription = (await lockSubscription(wall, scope, found.subscription_id))!
  // The lease is a column of the period. So its check locks the period, and all other periods must be locked with it.
  await lockDuePeriods(wall, subscription)
  await checkLease(wall, lease)
  const tx = await inTimeOf(wall, subscription)
  const loaded = (await loadSubscriptions(tx, scope, [subscription]))[0]!
  const next = await settleEnded({ tx, scope, seller, subscription, loaded }, lease, canBill)
  await releaseLease(tx, lease, next)
}

/** Settles the usage of an ended subscription. Returns when the period must be looked at again. */
const settleEnded = async (turn: RenewalContext, lease: Lease, canBill: boolean): Promise<Date | null> => {
  const { tx, scope, seller, subscription, loaded } = turn
  const period = await lockPeriod(tx, lease)
  // The next order of a live subscription bills late usage.
  if (!period || subscription.ended_at === null) return null
  if (period.final_at === null) {
    const until = later(subscription.ended_at, lateUsageDays * days)
    if (tx.clock.business() < until) return until
    if (!capabilities[seller.status].subscription_renewals) return later(tx.clock.business(), 1 * days)
    if (canBill && loaded.customer.deleted_at === null) {
      const usage = await usageLines(turn, { due: true })
      await billPeriod({ turn, lines: [], entries: [], usage, period: undefined }, { due_at: tx.clock.business() })
      await finalizePeriods(tx, subscription)
      return (await lockPeriod(tx, lease))!.due_at
    }
  }
  await listUnbilled(tx, scope, period)
  return null
}

const listUnbilled = async (tx: BusinessTx, scope: TenantScope, period: UnsettledPeriod): Promise<void> => {
  const [difference] = await differencesOf(tx, scope, period.organization_id, [period])
  await saveUnbilled(tx, period, difference!.more_quantity, difference!.more_amount)
}

/**
 * Job that runs after a subscription is no longer billed for a meter. The customer's next subscription with a price on this meter is
 * billed from that moment on.
 */
export const followCustomerUsage = async (
  { db, transact }: Deps,
  { organization_id, customer_id }: { organization_id: string; customer_id: string },
): Promise<void> => {
  for (const id of await findLiveSubscriptions(db, organization_id, customer_id))
    await transact(async (wall) => {
      const seller = await findLivingOrganization(wall, { id: organization_id })
      if (!seller) return
      const scope = within(organization_id, 'machine', seller.member_phase)
      const subscription = await lockSubscription(wall, scope, id)
      if (!subscription) return
      const tx = await inTimeOf(wall, subscription)
      await takeOverUsage(tx, (await loadSubscriptions(tx, scope, [subscription]))[0]!)
    })
}
