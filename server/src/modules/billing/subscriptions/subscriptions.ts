import { ResourceNotFound, type Subscription } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { presentDiscountBase, presentPrices, presentProduct } from '../../catalog/index.ts'
import { presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { findSubscription, type LoadedSubscription } from './subscriptions.sql.ts'

/** The subscription as the wire shows it, at the prices it was bought at. */
export const presentSubscription = ({ subscription, customer, product, discount, prices, meters, pending }: LoadedSubscription): Subscription => ({
  ...subscription,
  customer: presentCustomer(customer),
  product: presentProduct(product),
  discount: discount && presentDiscountBase(discount),
  prices: presentPrices(prices),
  // Nothing is counted yet: each meter that a price charges by stands at zero.
  meters: prices.flatMap(({ id, meter_id }) => {
    const meter = meters.find((one) => one.id === meter_id)
    const { created_at } = subscription
    return meter ? [{ id, created_at, modified_at: null, consumed_units: 0, credited_units: 0, amount: 0, meter_id: meter.id, meter }] : []
  }),
  pending_update: pending && { ...pending, applies_at: subscription.current_period_end },
})

/** The one subscription that a caller means, if the caller may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<LoadedSubscription> => {
  const found = await findSubscription(db, reach, id)
  if (!found) throw new ResourceNotFound()
  permit(reach, found.subscription.organization_id, 'sales:read')
  return found
}
