import { orderUpdated } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { voidOrder } from '../ledger/ledger.ts'
import { changeOrder, loadOrders, lockOpenOrders, type OrderRow } from '../orders/orders.sql.ts'
import { presentOrder, subjectOf } from '../orders/orders.ts'
import { releaseUse } from '../redemptions/redemptions.sql.ts'
import type { SubscriptionRow } from '../subscriptions/subscriptions.sql.ts'
import { deleteUpdate, findPaying, releaseEntries } from '../subscriptions/updates.sql.ts'

/** What a subscription is, once it has ended at a moment. */
export const ended = (subscription: SubscriptionRow, at: Date): Partial<SubscriptionRow> => ({
  status: 'canceled',
  canceled_at: subscription.canceled_at ?? at,
  ends_at: at,
  ended_at: at,
  pause_at_period_end: false,
  resumes_at: null,
})

/** Nobody will pay it any more: its place in the ledger is taken back. Only where no attempt is under way, which might yet bring money. */
export const callOff = async (tx: Tx, reach: Reach, order: Locked<OrderRow>): Promise<void> => {
  await voidOrder(tx, order)
  await releaseEntries(tx, order.organization_id, order.id)
  const paying = await findPaying(tx, order.organization_id, order.id)
  if (paying) {
    await deleteUpdate(tx, paying)
    const { organization_id, subscription_id, besides } = paying
    if (besides.redeemed !== undefined) await releaseUse(tx, { organization_id, subscription_id, discount_id: besides.redeemed })
  }
  const after = await changeOrder(tx, order, { status: 'void', next_payment_attempt_at: null, due_at: null })
  const [loaded] = await loadOrders(tx, reach, [after])
  await emit(tx, orderUpdated, subjectOf(after), presentOrder(loaded!))
}

/** Calls off what is still open of a subscription that has ended. What is being charged at this moment is left to whoever hears of it. */
export const callOffOpen = async (tx: Tx, reach: Reach, subscription: Locked<SubscriptionRow>): Promise<void> => {
  for (const { order, charging } of await lockOpenOrders(tx, subscription)) if (!charging) await callOff(tx, reach, order)
}
