import type { Db } from '../../../platform/postgres/postgres.ts'

/** Returns the amounts of the open prorations of a subscription, which its next order will bill. */
export const waitingAmounts = async (db: Db, { organization_id, id }: { organization_id: string; id: string }): Promise<number[]> =>
  (
    await db.q
      .selectFrom('billing_entries')
      .select('amount')
      .where('organization_id', '=', organization_id)
      .where('subscription_id', '=', id)
      .where('order_id', 'is', null)
      .execute()
  ).map(({ amount }) => amount)
