import { sql, type RawBuilder } from 'kysely'
import { readCredential, resolvedCredential, type CredentialRow, type PresentedSecret, type Resolved } from '../modules/identity/index.ts'
import { takeEntries } from '../platform/postgres/ending.sql.ts'
import { RaceLost, type Tx } from '../platform/postgres/postgres.ts'

export interface Kept {
  operation: string
  fingerprint: string
  /** Null while the request is in progress or was interrupted. `intent` then holds the state to resume from. */
  status: number | null
  headers: Record<string, string | string[]>
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

/** An idempotency key that this transaction has tried to lock. */
export interface TakenKey {
  readonly owner: string
  /** False if another request with the same key is in progress. */
  readonly taken: boolean
  /** The stored request of the key, if there is one. */
  readonly kept: (Kept & Pick<KeptRow, 'intent' | 'busy_until'>) | undefined
}

type Columns = { taken: boolean; operation: string | null } & Omit<Kept, 'operation'> & Pick<KeptRow, 'intent' | 'busy_until'>

/** The lock of a key and its stored request as `k`. One row. */
const locked = (owner: string, key: string, now: Date): RawBuilder<unknown> =>
  sql`take_idempotency_key(${JSON.stringify(['bursar.idempotency', owner, key])}, ${owner}, ${key}, ${now}) k`

const takenKey = (owner: string, { taken, operation, ...kept }: Columns): TakenKey => ({
  owner,
  taken,
  kept: operation === null ? undefined : { ...kept, operation },
})

/** Locks the idempotency key until this transaction ends, and returns its stored request. */
export const takeKey = async (tx: Tx, owner: string, key: string, now: Date): Promise<TakenKey> => {
  const { rows } = await sql<Columns>`select k.* from ${locked(owner, key, now)}`.execute(tx.q)
  return takenKey(owner, rows[0]!)
}

/** Finds a credential again and locks an idempotency key like `takeKey`, in one statement. */
export const takeKeyAndCredential = async (
  tx: Tx,
  owner: string,
  key: string,
  now: Date,
  presented: PresentedSecret,
): Promise<{ key: TakenKey; found: Resolved | undefined }> => {
  const { rows } = await sql<Columns & (CredentialRow | { kind: null })>`
    select k.*, c.* from ${locked(owner, key, now)} left join ${resolvedCredential(presented)} c on true`.execute(tx.q)
  const { taken, operation, fingerprint, status, headers, body, sealed, intent, busy_until, ...found } = rows[0]!
  const row: Columns = { taken, operation, fingerprint, status, headers, body, sealed, intent, busy_until }
  return { key: takenKey(owner, row), found: found.kind === null ? undefined : readCredential(found) }
}

/**
 * Stores the response in the transaction of its effect, together with the audit entries. Replaces an expired row of the
 * same key.
 */
export const storeIdempotentAnswer = async (tx: Tx, row: KeptRow): Promise<void> => {
  const json = (value: unknown) => (value === null ? null : JSON.stringify(value))
  const { rows } = await sql`
    with audited as (${takeEntries(tx)})
    insert into idempotency_keys as k (owner, key, operation, fingerprint, created_at, expires_at, status, headers, body, sealed, mentions, intent, busy_until)
    values (${row.owner}, ${row.key}, ${row.operation}, ${row.fingerprint}, ${row.created_at}, ${row.expires_at}, ${row.status}, ${json(row.headers)}::jsonb,
      ${row.body}, ${row.sealed}, ${row.mentions}, ${json(row.intent)}::jsonb, ${row.busy_until})
    on conflict (owner, key) do update set
      operation = excluded.operation, fingerprint = excluded.fingerprint, created_at = excluded.created_at, expires_at = excluded.expires_at,
      status = excluded.status, headers = excluded.headers, body = excluded.body, sealed = excluded.sealed, mentions = excluded.mentions,
      intent = excluded.intent, busy_until = excluded.busy_until
    where k.expires_at <= excluded.created_at
    returning true`.execute(tx.q)
  if (rows.length === 0) throw new RaceLost('Another request with this idempotency key committed first.')
}

/**
 * Updates a stored request: changes its lease or stores its response. With `since`, updates it only if the lease still
 * ends at that time.
 */
export const updateKept = async (tx: Tx, owner: string, key: string, changes: Partial<KeptRow>, since?: Date | null): Promise<void> => {
  const headers = changes.headers ? { headers: sql<Record<string, string | string[]>>`${JSON.stringify(changes.headers)}::jsonb` } : {}
  await tx.q
    .updateTable('idempotency_keys')
    .set({ ...changes, ...headers })
    .where('owner', '=', owner)
    .where('key', '=', key)
    .$if(since instanceof Date, (query) => query.where('busy_until', '=', since!))
    .execute()
}

/** Deletes expired idempotent responses, and rate limit entries that are outside every window. */
export const purgeRequests = async (tx: Tx, now: Date): Promise<void> => {
  await tx.q.deleteFrom('idempotency_keys').where('expires_at', '<=', now).execute()
  await tx.q
    .deleteFrom('budget_spends')
    .where('spent_at', '<=', new Date(now.getTime() - 86_400_000))
    .execute()
}
