import { sql } from 'kysely'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { DiscountTable } from '../../catalog/index.ts'

/** One use of a discount: by a checkout, or by an existing subscription. */
export interface RedemptionTable {
  organization_id: string
  id: string
  created_at: Date
  discount_id: string
  checkout_id: string | null
  subscription_id: string | null
  customer_id: string
  email_key: string
  card_key: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    discount_redemptions: RedemptionTable
  }
}

/**
 * Reserves one use of a discount. Returns the discount with the new number of redemptions, or undefined if no use is left.
 * Atomic, so concurrent callers never exceed the limit.
 */
export const reserveUse = async (
  tx: Tx,
  { organization_id, discount_id }: { organization_id: string; discount_id: string },
): Promise<DiscountTable | undefined> => {
  const { rows } = await sql<DiscountTable>`
    update discounts set redemptions_count = redemptions_count + 1
    where organization_id = ${organization_id} and id = ${discount_id} and deleted_at is null and (max_redemptions is null or redemptions_count < max_redemptions)
    returning *`.execute(tx.q)
  return rows[0]
}

export const insertRedemption = async (tx: Tx, row: RedemptionTable): Promise<void> => {
  await tx.q.insertInto('discount_redemptions').values(row).execute()
}

/** Releases the latest use of a discount by a subscription. Called if the change that reserved the use was not made. */
export const releaseUse = async (
  tx: Tx,
  { organization_id, discount_id, subscription_id }: { organization_id: string; discount_id: string; subscription_id: string },
): Promise<void> => {
  const { rows } = await sql`
    delete from discount_redemptions where (organization_id, id) in (
      select organization_id, id from discount_redemptions
      where organization_id = ${organization_id} and discount_id = ${discount_id} and subscription_id = ${subscription_id} order by id desc limit 1) returning 1`.execute(
    tx.q,
  )
  if (rows.length === 0) return
  await sql`update discounts set redemptions_count = redemptions_count - 1 where organization_id = ${organization_id} and id = ${discount_id}`.execute(tx.q)
}
