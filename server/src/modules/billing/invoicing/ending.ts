import { orderUpdated } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import { voidOrder } from '../ledger/ledger.ts'
import { changeOrder, loadOrders, lockOpenOrders, type OrderRow } from '../records/orders.sql.ts'
import { presentOrder, subjectOf } from '../records/orders.ts'
import { reviewCredits } from '../prorations/crediting.ts'
import { forgetProrations } from '../prorations/prorations.sql.ts'
import { releaseUse } from '../redemptions/redemptions.sql.ts'
import type { SubscriptionRow } from '../records/subscriptions.sql.ts'
import { deleteUpdate, findPaying, releaseEntries } from '../records/subscription-updates.sql.ts'
import { holdBilledUsage, releaseUsage } from '../records/usage-settlements.sql.ts'

/** Returns the columns of a subscription that ends at the given moment. */
export const ended = (subscription: SubscriptionRow, at: Date): Partial<SubscriptionRow> => ({
  status: 'canceled',
  canceled_at: subscription.canceled_at ?? at,
  ends_at: at,
  ended_at: at,
  pause_at_period_end: false,
  resumes_at: null,
})

/**
 * Voids an order and reverses its ledger postings. Call this only if no payment attempt is in progress, because such an
 * attempt might still succeed.
 */
export const callOff = async (tx: BusinessTx, scope: TenantScope, order: Locked<OrderRow>): Promise<void> => {
  const bills = order.subscription_id !== null && (await holdBilledUsage(tx, order))
  await voidOrder(tx, order)
  const released = await releaseEntries(tx, order.organization_id, order.id)
  if (bills) await releaseUsage(tx, order.organization_id, order.id)
  const paying = await findPaying(tx, order.organization_id, order.id)
  if (paying) {
    await deleteUpdate(tx, paying)
    await forgetProrations(tx, order)
    const { organization_id, subscription_id, besides } = paying
    if (besides.redeemed !== undefined) await releaseUse(tx, { organization_id, subscription_id, discount_id: besides.redeemed })
  }
  const after = await changeOrder(tx, order, { status: 'void', next_payment_attempt_at: null, due_at: null })
  // The payments behind the credits on this order may have been refunded while the order was pending.
  if (released.length > 0) await reviewCredits(tx, { organization_id: order.organization_id, id: order.subscription_id! }, { entries: released })
  const [loaded] = await loadOrders(tx, scope, [after])
  await emit(tx, orderUpdated, subjectOf(after), presentOrder(loaded!))
}

/**
 * Voids the open orders of an ended subscription. Skips an order with an attempt in progress. The code that settles the
 * attempt voids that order.
 */
export const callOffOpen = async (tx: BusinessTx, scope: TenantScope, subscription: Locked<SubscriptionRow>): Promise<void> => {
  for (const { order, charging } of await lockOpenOrders(tx, subscription)) if (!charging) await callOff(tx, scope, order)
}
