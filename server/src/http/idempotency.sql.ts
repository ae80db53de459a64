import { sql } from 'kysely'
import type { Tx } from '../platform/postgres/postgres.ts'

export interface Kept {
  operation: string
  fingerprint: string
  /** Null: it is under way, or was stopped; `intent` says where to go on. */
  status: number | null
  headers: Record<string, string>
  body: string | null
  sealed: boolean
}

declare module '../platform/postgres/postgres.ts' {
  interface Tables {
    idempotency_keys: KeptRow
    budget_spends: { key: string; spent_at: Date }
  }
}

type KeptRow = Kept & {
  intent: unknown
  busy_until: Date | null
  mentions: string[]
  owner: string
  key: string
  created_at: Date
  expires_at: Date
}

/** Takes the key for this transaction. False: another request with the same key is under way at this moment. */
export const takeKey = async (tx: Tx, owner: string, key: string): Promise<boolean> => {
  const { rows } = await sql<{
    taken: boolean
  }>`select pg_try_advisory_xact_lock(hashtextextended(${JSON.stringify(['bursar.idempotency', owner, key])}, 0)) as taken`.execute(tx.q)
  return rows[0]!.taken
}

export const findKept = (tx: Tx, owner: string, key: string, now: Date): Promise<(Kept & Pick<KeptRow, 'intent' | 'busy_until'>) | undefined> =>
  tx.q
    .selectFrom('idempotency_keys')
    .select(['operation', 'fingerprint', 'status', 'headers', 'body', 'sealed', 'intent', 'busy_until'])
    .where('owner', '=', owner)
    .where('key', '=', key)
    .where('expires_at', '>', now)
    .executeTakeFirst()

/** Writes the answer down with the effect it tells of. One that has run out makes way. */
export const keep = async (tx: Tx, row: KeptRow): Promise<void> => {
  await tx.q.deleteFrom('idempotency_keys').where('owner', '=', row.owner).where('key', '=', row.key).where('expires_at', '<=', row.created_at).execute()
  await tx.q
    .insertInto('idempotency_keys')
    .values({ ...row, headers: sql`${JSON.stringify(row.headers)}::jsonb`, intent: row.intent === null ? null : sql`${JSON.stringify(row.intent)}::jsonb` })
    .execute()
}

/** Says how long somebody is at it, or writes down what came of it. */
export const updateKept = async (tx: Tx, owner: string, key: string, changes: Partial<KeptRow>, since?: Date | null): Promise<void> => {
  const headers = changes.headers ? { headers: sql<Record<string, string>>`${JSON.stringify(changes.headers)}::jsonb` } : {}
  await tx.q
    .updateTable('idempotency_keys')
    .set({ ...changes, ...headers })
    .where('owner', '=', owner)
    .where('key', '=', key)
    .$if(since instanceof Date, (query) => query.where('busy_until', '=', since!))
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
