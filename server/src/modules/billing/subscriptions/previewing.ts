import type { CustomerSubscriptionPreviewRequest, PreviewedCharge, SubscriptionPreview } from '@bursar/contract'
import { loadOrders, ordersOf, readOrder, type LoadedOrder } from '../records/orders.sql.ts'
import { type RenewalContext } from '../invoicing/billing.ts'
import { billPeriod, cycle, type Cycled } from '../renewals/renewals.ts'
import { TaxUnknown } from '../taxes/taxes.ts'
import { applyPaid } from '../invoicing/applying.ts'
import { withTax } from './changing.ts'
import { loadSubscriptions, lockSubscription } from '../records/subscriptions.sql.ts'
import type { Begun } from './switching.ts'
import type { ChangeContext } from './trials.ts'
import { findUpdate } from '../records/subscription-updates.sql.ts'

/**
 * Computes the cost of a change. Makes the change as if it were paid, and then begins the next period. Both use the
 * code of a real change. The caller must roll back the transaction.
 */
export const preview = async (asking: ChangeContext, wish: CustomerSubscriptionPreviewRequest, change: () => Promise<Begun>): Promise<SubscriptionPreview> => {
  const { tx, scope, subscription } = asking
  const before = new Set((await ordersOf(tx, subscription)).map(({ id }) => id))
  await withTax(change)
  const issued = (await ordersOf(tx, subscription)).filter(({ id }) => !before.has(id))
  const [order] = await loadOrders(tx, scope, issued)
  const turn = await paid(asking)
  const after = turn.subscription
  const { pending } = turn.loaded
  const waits = 'seats' in wish ? pending?.seats === wish.seats : pending != null && wish.product_id != null && pending.product_id === wish.product_id
  const ends = after.cancel_at_period_end || after.ended_at !== null
  const cycled = ends ? undefined : await cycle(turn, after.current_period_end)
  const shape = waits && cycled ? cycled.turn.subscription : after
  const { currency, product_id, seats, amount, recurring_interval, recurring_interval_count } = shape
  return {
    currency,
    product_id,
    seats,
    amount,
    recurring_interval,
    recurring_interval_count,
    applies_at: waits ? after.current_period_end : tx.clock.business(),
    now: order ? chargeOf(order, tx.clock.business()) : null,
    next: cycled && !after.pause_at_period_end ? await nextCharge(cycled, after.current_period_end) : null,
  }
}

/** Applies the change as if its payment had succeeded, and returns the subscription afterwards. */
const paid = async ({ tx, scope, seller, subscription }: ChangeContext): Promise<RenewalContext> => {
  const held = (await lockSubscription(tx, scope, subscription.id))!
  const paying = await findUpdate(tx, held, 'paying')
  const after = paying ? await applyPaid(tx, scope, held, paying, (await readOrder(tx, held.organization_id, paying.order_id!))!) : held
  return { tx, scope, seller, subscription: after, loaded: (await loadSubscriptions(tx, scope, [after]))[0]! }
}

/**
 * Bills the next period and returns its charge. Returns null if the tax is unknown, because then there is no total to
 * show.
 */
const nextCharge = async (cycled: Cycled, at: Date): Promise<PreviewedCharge | null> => {
  try {
    const issued = await billPeriod(cycled, { due_at: at })
    return issued ? chargeOf(issued, at) : { ...nothing, at }
  } catch (error) {
    if (error instanceof TaxUnknown) return null
    throw error
  }
}

const nothing = {
  lines: [],
  subtotal_amount: 0,
  discount_amount: 0,
  net_amount: 0,
  tax_amount: 0,
  total_amount: 0,
  applied_balance_amount: 0,
  charge_amount: 0,
}

const chargeOf = ({ order, items }: Pick<LoadedOrder, 'order' | 'items'>, at: Date): PreviewedCharge => {
  const { subtotal_amount, discount_amount, net_amount, tax_amount, total_amount, applied_balance_amount, due_amount, carried_amount } = order
  return {
    at,
    lines: items.map((line) => ({
      label: line.label,
      amount: line.amount,
      discount_amount: line.discount_amount,
      tax_amount: line.tax_amount,
      proration: line.proration,
    })),
    subtotal_amount,
    discount_amount,
    net_amount,
    tax_amount,
    total_amount,
    applied_balance_amount,
    charge_amount: due_amount - carried_amount,
  }
}
