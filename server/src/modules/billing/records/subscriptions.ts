import { ResourceNotFound, type Subscription } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { presentDiscountBase, presentPrices, presentProduct } from '../../catalog/index.ts'
import { presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { findSubscription, type LoadedSubscription } from './subscriptions.sql.ts'

/** Converts a subscription to its API representation, with the prices at which it was bought. */
export const presentSubscription = ({ subscription, customer, product, discount, prices, meters, pending }: LoadedSubscription): Subscription => ({
  ...subscription,
  customer: presentCustomer(customer),
  product: presentProduct(product),
  discount: discount && presentDiscountBase(discount),
  prices: presentPrices(prices),
  // Usage is not counted yet, so each meter of a price is shown with zero.
  meters: prices.flatMap(({ id, meter_id }) => {
    const meter = meters.find((one) => one.id === meter_id)
    const { created_at } = subscription
    return meter ? [{ id, created_at, modified_at: null, consumed_units: 0, credited_units: 0, amount: 0, meter_id: meter.id, meter }] : []
  }),
  pending_update: pending && { ...pending, applies_at: subscription.current_period_end },
})

/** Finds a subscription by id. Throws if it is out of scope or the caller may not read sales. */
export const requireSubscription = async (db: Db, scope: TenantScope, id: string): Promise<LoadedSubscription> => {
  const found = await findSubscription(db, scope, id)
  if (!found) throw new ResourceNotFound()
  permit(scope, found.subscription.organization_id, 'sales:read')
  return found
}
