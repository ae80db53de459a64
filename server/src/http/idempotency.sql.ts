import { sql } from 'kysely'
import type { Tx } from '../platform/postgres/postgres.ts'

export interface Kept {
  operation: string
  fingerprint: string
  status: number
  headers: Record<string, string>
  body: string | null
  sealed: boolean
}

declare module '../platform/postgres/postgres.ts' {
  interface Tables {
    idempotency_keys: Kept & { mentions: string[]; owner: string; key: string; created_at: Date; expires_at: Date }
    budget_spends: { key: string; spent_at: Date }
  }
}

/** Takes the key for this transaction. False: another request with the same key is under way at this moment. */
export const takeKey = async (tx: Tx, owner: string, key: string): Promise<boolean> => {
  const { rows } = await sql<{
    taken: boolean
  }>`select pg_try_advisory_xact_lock(hashtextextended(${JSON.stringify(['bursar.idempotency', owner, key])}, 0)) as taken`.execute(tx.q)
  return rows[0]!.taken
}

export const findKept = (tx: Tx, owner: string, key: string, now: Date): Promise<Kept | undefined> =>
  tx.q
    .selectFrom('idempotency_keys')
    .select(['operation', 'fingerprint', 'status', 'headers', 'body', 'sealed'])
    .where('owner', '=', owner)
    .where('key', '=', key)
    .where('expires_at', '>', now)
    .executeTakeFirst()

/** Writes the answer down with the effect it tells of. One that has run out makes way. */
export const keep = async (tx: Tx, row: Kept & { mentions: string[]; owner: string; key: string; created_at: Date; expires_at: Date }): Promise<void> => {
  await tx.q.deleteFrom('idempotency_keys').where('owner', '=', row.owner).where('key', '=', row.key).where('expires_at', '<=', row.created_at).execute()
  await tx.q
    .insertInto('idempotency_keys')
    .values({ ...row, headers: sql`${JSON.stringify(row.headers)}::jsonb` })
    .execute()
}

/** Removes answers and spends that nobody can ask for any more. */
export const purgeRequests = async (tx: Tx, now: Date): Promise<void> => {
  await tx.q.deleteFrom('idempotency_keys').where('expires_at', '<=', now).execute()
  await tx.q
    .deleteFrom('budget_spends')
    .where('spent_at', '<=', new Date(now.getTime() - 86_400_000))
    .execute()
}
