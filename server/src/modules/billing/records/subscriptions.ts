import { ResourceNotFound, type Subscription } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { numberOf } from '../../../kernel/decimals.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { presentDiscountBase, presentPrices, presentProduct } from '../../catalog/index.ts'
import { presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { amountOfPeriods } from '../calc/metered.ts'
import { loadUsage, type PriceUsage } from './subscription-usage.sql.ts'
import { findSubscription, type LoadedSubscription } from './subscriptions.sql.ts'

/**
 * Converts a subscription to its API representation, with the prices at which it was bought. A metered price that `usage`
 * does not contain has no usage.
 */
export const presentSubscription = (
  { subscription, customer, product, discount, prices, meters, pending }: LoadedSubscription,
  usage: readonly PriceUsage[],
): Subscription => ({
  ...subscription,
  customer: presentCustomer(customer),
  product: presentProduct(product),
  discount: discount && presentDiscountBase(discount),
  prices: presentPrices(prices),
  meters: prices.flatMap(({ id, meter_id, unit_amount, cap_amount }) => {
    const meter = meters.find((one) => one.id === meter_id)
    if (!meter) return []
    const used = usage.find((one) => one.price_id === id)
    const { consumed, billed, credited_units } = used ?? { consumed: '0', billed: [], credited_units: 0 }
    const amount = amountOfPeriods({ unit_amount, cap_amount }, billed, credited_units)
    return [
      { id, created_at: subscription.created_at, modified_at: null, consumed_units: numberOf(consumed), credited_units, amount, meter_id: meter.id, meter },
    ]
  }),
  pending_update: pending && { ...pending, applies_at: subscription.current_period_end },
})

/** Presents subscriptions with the usage of their current periods, in the given sequence. One statement computes all usage. */
export const presentSubscriptions = async (db: Db, scope: TenantScope, loaded: readonly LoadedSubscription[]): Promise<Subscription[]> => {
  const usage = await loadUsage(db, scope, loaded)
  return loaded.map((one) => presentSubscription(one, usage.get(one.subscription.id) ?? []))
}

/** Presents a subscription with the usage of its current period. */
export const presentWithUsage = async (db: Db, scope: TenantScope, loaded: LoadedSubscription): Promise<Subscription> =>
  (await presentSubscriptions(db, scope, [loaded]))[0]!

/** Finds a subscription by id. Throws if it is out of scope or the caller may not read sales. */
export const requireSubscription = async (db: Db, scope: TenantScope, id: string): Promise<LoadedSubscription> => {
  const found = await findSubscription(db, scope, id)
  if (!found) throw new ResourceNotFound()
  permit(scope, found.subscription.organization_id, 'sales:read')
  return found
}
