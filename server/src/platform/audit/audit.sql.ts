import { sql, type Generated, type RawBuilder } from 'kysely'
import { recordedBetween, recordedBy } from '../postgres/logs.sql.ts'
import { anyOf } from '../postgres/parts.sql.ts'
import type { Db, Tx } from '../postgres/postgres.ts'
import { beginning, link, type Entry } from './chain.ts'

declare module '../postgres/postgres.ts' {
  interface Tables {
    audit_log: Omit<Entry, 'changes'> & { changes: unknown; position: Generated<number>; sequence: number | null; hash: string | null }
    audit_heads: { organization_id: string; sequence: number; hash: string }
  }
}

const columns = sql`organization_id, id, at, operation, request_id, actor_kind, actor_id, credential_id, client_id, resource_id, changes::text as changes`

/**
 * Assigns sequence numbers and hashes to up to `most` committed audit entries of one organization. Returns true if more
 * entries may be waiting. An advisory lock allows one sequencer per organization. Transactions that write entries do
 * not wait for this lock.
 */
export const chain = async (tx: Tx, organization_id: string, most = 1000): Promise<boolean> => {
  const lock = await sql<{ taken: boolean }>`select pg_try_advisory_xact_lock(hashtextextended(${`bursar.audit.${organization_id}`}, 0)) as taken`.execute(tx.q)
  if (!lock.rows[0]!.taken) return false
  const head = await tx.q.selectFrom('audit_heads').selectAll().where('organization_id', '=', organization_id).executeTakeFirst()
  const { rows } = await sql<Entry>`
    select ${columns} from audit_log where organization_id = ${organization_id} and sequence is null order by position limit ${most}`.execute(tx.q)
  if (rows.length === 0) return false
  let { sequence, hash } = head ?? { sequence: 0, hash: beginning }
  const links = rows.map((entry) => {
    hash = link(hash, ++sequence, entry)
    return { id: entry.id, at: entry.at, sequence, hash }
  })
  await sql`
    update audit_log set sequence = l.sequence, hash = l.hash
    from unnest(${links.map(({ id }) => id)}::uuid[], ${links.map(({ at }) => at)}::timestamptz[], ${links.map((one) => one.sequence)}::bigint[], ${links.map((one) => one.hash)}::text[]) as l (id, at, sequence, hash)
    where audit_log.organization_id = ${organization_id} and audit_log.id = l.id and audit_log.at = l.at`.execute(tx.q)
  await sql`
    insert into audit_heads (organization_id, sequence, hash) values (${organization_id}, ${sequence}, ${hash})
    on conflict (organization_id) do update set sequence = excluded.sequence, hash = excluded.hash`.execute(tx.q)
  return rows.length === most
}

/** Lists the organizations whose audit logs have entries without a sequence number. */
export const findUnchained = async (db: Db): Promise<string[]> => {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from (select organization_id from audit_log where sequence is null limit 10000) e`.execute(db.q)
  return rows.map(({ organization_id }) => organization_id)
}

/** Lists the head of every audit log: its highest sequence number and last hash. */
export const listHeads = (db: Db): Promise<{ organization_id: string; sequence: number; hash: string }[]> =>
  db.q.selectFrom('audit_heads').selectAll().orderBy('organization_id').execute()

export const findHead = (db: Db, organization_id: string): Promise<{ sequence: number; hash: string } | undefined> =>
  db.q.selectFrom('audit_heads').select(['sequence', 'hash']).where('organization_id', '=', organization_id).executeTakeFirst()

/**
 * Verifies the hash chain of an audit log up to `head`, in batches of 1,000 entries. Returns the sequence number of the
 * first changed or missing entry. Returns undefined if the log is intact.
 */
export const verifyChain = async (
  db: Db,
  head: { organization_id: string; sequence: number; hash: string },
  progress: (done: number) => void = () => undefined,
): Promise<number | undefined> => {
  let previous = beginning
  let at = 0
  while (at < head.sequence) {
    const { rows } = await sql<Entry & { sequence: number; hash: string }>`
      select ${columns}, sequence, hash from audit_log
      where organization_id = ${head.organization_id} and sequence > ${at} and sequence <= ${head.sequence} order by sequence limit 1000`.execute(db.q)
    for (const entry of rows) {
      at++
      if (entry.sequence !== at || link(previous, at, entry) !== entry.hash) return at
      previous = entry.hash
    }
    // The log ends before the sequence number of its head, so entries are missing.
    if (rows.length === 0) return at + 1
    progress(at)
  }
  return previous === head.hash ? undefined : head.sequence
}

export interface AuditQuery {
  readonly operation: readonly string[]
  readonly actor_id: readonly string[]
  readonly resource_id: readonly string[]
  readonly request_id: readonly string[]
  readonly start_timestamp?: Date | undefined
  readonly end_timestamp?: Date | undefined
  readonly before?: number | undefined
  readonly limit: number
}

export type Logged = Entry & { readonly sequence: number; readonly hash: string }

/** Lists the audit entries of one organization that have a sequence number, newest first. */
export const listEntries = async (db: Db, organization_id: string, query: AuditQuery): Promise<Logged[]> => {
  const conditions: RawBuilder<unknown>[] = [sql`organization_id = ${organization_id}`, sql`sequence is not null`]
  if (query.before !== undefined) conditions.push(sql`sequence < ${query.before}`)
  conditions.push(...anyOf('operation', query.operation, 'text'), ...anyOf('actor_id', query.actor_id), ...anyOf('resource_id', query.resource_id))
  conditions.push(...recordedBy(query.request_id))
  conditions.push(...recordedBetween('audit_log', organization_id, { start: query.start_timestamp, end: query.end_timestamp }))
  const { rows } = await sql<Logged>`
    select ${columns}, sequence, hash from audit_log where ${sql.join(conditions, sql` and `)} order by sequence desc limit ${query.limit}`.execute(db.q)
  return rows
}
