import type { Invalid, ProductPriceCreate, ProductUpdate } from '@bursar/contract'
import type { z } from 'zod'
import { newId } from '../../../kernel/ids.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Wanted } from './prices.ts'
import { archivePrices, insertPrices, nextPosition, priceRow, type PriceTable, type ProductRow } from './products.sql.ts'

/** The change of a product's prices that a request asks for. */
export interface PricePlan {
  readonly problems: readonly Invalid[]
  /** All requested prices, existing and new ones, in the order of the request. */
  readonly whole: readonly Wanted[]
  /** All remaining prices in the order in which they will be shown: existing ones first, then new ones. */
  readonly lasting: readonly ProductPriceCreate[]
  readonly added: readonly ProductPriceCreate[]
  readonly dropped: readonly string[]
}

/** Compares the existing prices with the requested list. Returns which prices to keep, to archive and to create. */
export const planPrices = (existing: readonly PriceTable[], wanted: NonNullable<z.output<typeof ProductUpdate>['prices']>): PricePlan => {
  const problems: Invalid[] = []
  const whole: Wanted[] = []
  const added: ProductPriceCreate[] = []
  const kept = new Set<string>()
  wanted.forEach((one, at) => {
    if ('amount_type' in one) {
      added.push(one)
      return whole.push({ price: one, at })
    }
    const price = existing.find(({ id }) => id === one.id)
    if (!price)
      return problems.push({ loc: ['body', 'prices', at, 'id'], msg: 'This product has no such price, or it is archived.', type: 'value_error', input: one.id })
    kept.add(price.id)
    return whole.push({ price: asWanted(price), at })
  })
  if (wanted.length === 0) problems.push({ loc: ['body', 'prices'], msg: 'A product needs at least one price.', type: 'too_short', ctx: { min_length: 1 } })
  const lasting = [...existing.filter(({ id }) => kept.has(id)).map(asWanted), ...added]
  return { problems, whole, added, lasting, dropped: existing.filter(({ id }) => !kept.has(id)).map(({ id }) => id) }
}

/** Casts a stored price to the type of a requested price, so that the same validation applies to both. */
const asWanted = (row: PriceTable): ProductPriceCreate => row as unknown as ProductPriceCreate

/** Archives the dropped prices and inserts the new ones. */
export const applyPlan = async (tx: Tx, product: Locked<ProductRow>, { added, dropped }: PricePlan, now: Date): Promise<void> => {
  await archivePrices(tx, product, dropped, now)
  if (added.length > 0) await insertPrices(tx, newPrices(tx, product, added, await nextPosition(tx, product), now))
}

/** Builds the rows of new prices. The first one gets the position `from`. */
export const newPrices = (tx: Tx, product: ProductRow, prices: readonly ProductPriceCreate[], from: number, now: Date): PriceTable[] =>
  prices.map((price, at) => priceRow(product, { ...price, id: newId(tx.clock.wall()), position: from + at }, now))
