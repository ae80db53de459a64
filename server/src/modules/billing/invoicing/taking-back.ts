import { readLabel, writeLabel } from '@bursar/views'
import type { Locked } from '../../../platform/postgres/postgres.ts'
import { billLines, type RenewalContext } from './billing.ts'
import { loadSubscriptions, lockSubscription, type SubscriptionRow } from '../records/subscriptions.sql.ts'
import { reviewCredits } from '../prorations/crediting.ts'
import type { Reviewed } from '../prorations/prorations.sql.ts'
import { saveTakenBack } from '../records/usage-settlements.sql.ts'
import { reviewUsageCredits } from './usage-crediting.ts'

/** A locked subscription. The transaction uses the customer's clock, which may be a test clock. */
type LockedSubscriptionContext = Pick<RenewalContext, 'tx' | 'scope' | 'seller'> & { readonly subscription: Locked<SubscriptionRow> | null }

/**
 * Takes back credits of prorations and of lowered usage whose underlying payment was refunded or lost to a dispute. Runs in the transaction of
 * that refund or dispute. A credit that was already used becomes a debt of the customer, through an order that names
 * the credit. The next renewal or change collects the debt. If a refund fails, the credit is restored in the same way.
 */
export const settleCredits = async ({ tx, scope, seller, subscription }: LockedSubscriptionContext, which: Reviewed): Promise<void> => {
  if (!subscription) return
  const usage = await reviewUsageCredits(tx, subscription, which)
  const excess = [...(await reviewCredits(tx, subscription, which)), ...usage]
  if (excess.length === 0) return
  // Reads the subscription again, because a lost dispute may have ended it in this transaction.
  const current = (await lockSubscription(tx, scope, subscription.id))!
  const loaded = (await loadSubscriptions(tx, scope, [current]))[0]!
  const { order } = await billLines(
    { tx, scope, seller, subscription: current, loaded: { ...loaded, discount: null } },
    excess.map(({ product_price_id, label, amount }) => ({
      product_price_id,
      amount,
      label: writeLabel({ type: amount > 0 ? 'taken_back' : 'restored', credit: readLabel({ label, amount: -1, proration: true }, true) }),
      proration: true,
    })),
    { billing_reason: 'subscription_update', period: undefined, due: undefined },
    { carried: true },
  )
  if (usage.length > 0) await saveTakenBack(tx, subscription.organization_id, order.id, usage)
}
