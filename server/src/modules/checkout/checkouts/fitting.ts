import { InvalidRequest } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findDiscount } from '../../catalog/index.ts'
import { createFrom, type Create, type Offer } from './creating.ts'
import type { Opened } from './loading.sql.ts'

/**
 * Creates the checkout with the first discount that applies. If values are rejected, tries again without them. That is
 * safe, because `createFrom` validates everything before it writes.
 */
export const createFitting = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  offer: Omit<Offer, 'discount'>,
  discounts: readonly string[],
  body: Create,
): Promise<Opened> => {
  let [wish, left] = [body, discounts]
  for (;;)
    try {
      const [discount_id] = left
      const discount = discount_id === undefined ? null : ((await findDiscount(tx, scope, discount_id)) ?? null)
      return await createFrom(tx, platform, { ...offer, discount }, { ...wish, discount_id: discount_id ?? null })
    } catch (error) {
      if (!(error instanceof InvalidRequest)) throw error
      const refused = new Set(error.problems.map(({ loc }) => loc[1]))
      const wrong = new Set(error.problems.flatMap(({ loc }) => (loc[1] === 'custom_field_data' ? [loc[2]] : [])))
      const next: Create = {
        ...wish,
        ...(refused.has('amount') ? { amount: null } : {}),
        ...(refused.has('customer_tax_id') ? { customer_tax_id: null } : {}),
        ...(refused.has('currency') ? { currency: null } : {}),
        // The seats of a link are the seller's choice. In a renewed checkout the buyer has chosen them, within the seller's bounds.
        ...(!isSeats(refused) ? {} : offer.renews === null ? { seats: null, min_seats: null, max_seats: null } : { seats: null }),
        custom_field_data: Object.fromEntries(Object.entries(wish.custom_field_data ?? {}).filter(([slug]) => !wrong.has(slug))),
      }
      const fewer = refused.has('discount_id') ? left.slice(1) : left
      // No value was removed in this round, so the error is caused by the offer itself.
      if (fewer.length === left.length && JSON.stringify(next) === JSON.stringify(wish)) throw error
      ;[wish, left] = [next, fewer]
    }
}

const isSeats = (refused: ReadonlySet<unknown>): boolean => ['seats', 'min_seats', 'max_seats'].some((field) => refused.has(field))
