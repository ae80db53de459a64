import type { Db } from '../../../platform/postgres/postgres.ts'

/** What changes of a subscription have cost or given back, and its next order will say. */
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
