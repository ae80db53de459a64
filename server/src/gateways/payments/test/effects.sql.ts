import { sql, type RawBuilder } from 'kysely'
import { markLocked } from '../../../platform/postgres/locks.ts'
import { insertRows } from '../../../platform/postgres/many.sql.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { CallbackRow, DisputeRow, IntentRow, MethodRow } from './records.sql.ts'

/** A statement that changes rows. It is a part of the last statement of its transaction. */
export type Write = RawBuilder<unknown>

/** An intent as it is stored, without its card and charge. */
export type StoredIntent = Omit<IntentRow, 'token' | 'charged_at'>

/** Runs several writes in one statement. No two of them may change the same row. */
export const runWrites = async (tx: Tx, writes: readonly Write[]): Promise<void> => {
  if (writes.length === 0) return
  const parts = writes.map((write, at) => sql`${sql.ref(`write_${at}`)} as (${write})`)
  await sql`with ${sql.join(parts)} select`.execute(tx.q)
}

export const insertIntent = ({
  account,
  id,
  created_at,
  kind,
  status,
  amount,
  currency,
  customer,
  client_secret,
  metadata,
  reusable,
}: StoredIntent): Write => sql`
  insert into test_processor.intents (account, id, created_at, kind, status, amount, currency, customer, client_secret, metadata, reusable)
  values (${account}, ${id}, ${created_at}, ${kind}, ${status}, ${amount}, ${currency}, ${customer}, ${client_secret}, ${json(metadata)}, ${reusable})`

/** Stores the changed columns of a locked intent. */
export const updateIntent = ({ account, id, status, method_id, decline_code, settles_at, lost }: Locked<StoredIntent>): Write => sql`
  update test_processor.intents
  set status = ${status}, method_id = ${method_id}, decline_code = ${decline_code}, settles_at = ${settles_at}, lost = ${lost}
  where account = ${account} and id = ${id}`

export const insertCharge = ({ account, id, amount, currency, customer, metadata }: StoredIntent, charged_at: Date): Write => sql`
  insert into test_processor.charges (account, intent_id, amount, currency, customer, metadata, charged_at)
  values (${account}, ${id}, ${amount}, ${currency}, ${customer}, ${json(metadata)}, ${charged_at})`

/** Inserts a card. With `kept_at`, it can be charged again. */
export const insertMethod = (row: MethodRow): Write => insertRows('test_processor.methods', [row])

/** Keeps a card, so that it can be charged again. */
export const keepMethod = (account: string, id: string, at: Date): Write => sql`
  update test_processor.methods set kept_at = ${at} where account = ${account} and id = ${id} and kept_at is null`

export const insertDispute = (row: DisputeRow): Write => insertRows('test_processor.disputes', [row])

/** Schedules events, in the given order. */
export const insertCallbacks = (rows: readonly CallbackRow[]): Write[] => (rows.length === 0 ? [] : [insertRows('test_processor.callbacks', rows)])

/** A saved card. A card that was deleted or never kept cannot be charged again. */
export interface SavedCard {
  readonly customer: string
  readonly token: string
  readonly is_chargeable: boolean
}

interface Confirmation {
  readonly intent: Locked<StoredIntent>
  /** The saved card of the request. Null if there is none with this id. */
  readonly card: SavedCard | null
  /** The number of other intents that the card paid or declined, including those canceled since. */
  readonly paid: number
  readonly declined: number
}

/**
 * Locks an intent for its confirmation, and reads the saved card of the request. A new card has no id yet, and no other
 * intents. Undefined if there is no such intent.
 */
export const lockToConfirm = async (tx: Tx, account: string, id: string, method_id: string | null): Promise<Confirmation | undefined> => {
  const { rows } = await sql<StoredIntent & Omit<Confirmation, 'intent'>>`
    select i.*, o.paid, o.declined, (
        select json_build_object('customer', customer, 'token', token, 'is_chargeable', kept_at is not null and forgotten_at is null)
        from test_processor.methods where account = ${account} and id = ${method_id}::text) as card
    from test_processor.intents i cross join (
      select count(*) filter (where status = 'succeeded' and kind = 'payment')::int as paid,
        count(*) filter (where status in ('failed', 'canceled'))::int as declined
      from test_processor.intents where account = ${account} and method_id = ${method_id}::text and id <> ${id}
    ) o
    where i.account = ${account} and i.id = ${id} for update of i`.execute(tx.q)
  if (!rows[0]) return undefined
  const { card, paid, declined, ...intent } = rows[0]
  return { intent: markLocked(intent), card, paid, declined }
}

/** Returns the intents, refunds and disputes that are due to settle, longest due first. */
export const findSettling = async (db: Db, now: Date) => {
  const settling = (table: string) =>
    sql`select ${sql.lit(table)} as of, account, id, settles_at from ${sql.table(`test_processor.${table}`)} where settles_at <= ${now}`
  const { rows } = await sql<{ of: 'intents' | 'refunds' | 'disputes'; account: string; id: string }>`
    ${settling('intents')} union all ${settling('refunds')} union all ${settling('disputes')} order by settles_at`.execute(db.q)
  const only = (table: string) => rows.filter((row) => row.of === table)
  return { intents: only('intents'), refunds: only('refunds'), disputes: only('disputes') }
}

interface KeyRow {
  readonly account: string
  readonly key: string
  readonly fingerprint: string
  readonly expires_at: Date
}

/**
 * Takes an idempotency key. A concurrent request with the same key waits for the end of this transaction. Returns the
 * fingerprint and the answer of an earlier request, or undefined if the key is new or has expired.
 */
export const takeKey = async (
  tx: Tx,
  { account, key, fingerprint, expires_at }: KeyRow,
  now: Date,
): Promise<{ fingerprint: string; answer: object } | undefined> => {
  const { rows } = await sql<{ fingerprint: string; answer: object | null }>`
    insert into test_processor.keys as k (account, key, fingerprint, answer, expires_at)
    values (${account}, ${key}, ${fingerprint}, 'null', ${expires_at})
    on conflict (account, key) do update set
      fingerprint = case when k.expires_at > ${now} then k.fingerprint else excluded.fingerprint end,
      answer = case when k.expires_at > ${now} then k.answer else excluded.answer end,
      expires_at = case when k.expires_at > ${now} then k.expires_at else excluded.expires_at end
    returning fingerprint, answer`.execute(tx.q)
  const { answer, ...kept } = rows[0]!
  return answer === null ? undefined : { ...kept, answer }
}

/** Stores the answer of a request under its key, in the transaction of its effect. */
export const storeAnswer = ({ account, key }: KeyRow, answer: object): Write => sql`
  update test_processor.keys set answer = ${JSON.stringify(answer)}::json where account = ${account} and key = ${key}`

/** Frees a key, because its request had no effect. */
export const freeKey = ({ account, key }: KeyRow): Write => sql`delete from test_processor.keys where account = ${account} and key = ${key}`
