import { sql, type Generated } from 'kysely'
import { lockRow, markLocked } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { json } from '../../../platform/postgres/parts.sql.ts'
import type { DisputeStatus, IntentKind, IntentStatus, ProcessorEventKind, RefundStatus } from '../payments.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    'test_processor.methods': MethodTable
    'test_processor.intents': IntentTable
    'test_processor.charges': ChargeTable
    'test_processor.refunds': RefundTable
    'test_processor.disputes': DisputeTable
    'test_processor.keys': { account: string; key: string; fingerprint: string; answer: object; expires_at: Date }
    'test_processor.callbacks': CallbackTable
  }
}

interface MethodTable {
  account: string
  id: string
  created_at: Date
  customer: string
  token: string
  kept_at: Date | null
  forgotten_at: Date | null
}

interface IntentTable {
  account: string
  id: string
  created_at: Date
  kind: IntentKind
  status: IntentStatus
  amount: number
  currency: string
  customer: string
  client_secret: string
  metadata: Record<string, string>
  reusable: boolean
  method_id: string | null
  decline_code: string | null
  lost: Generated<number>
  settles_at: Date | null
}

interface ChargeTable {
  account: string
  intent_id: string
  amount: number
  currency: string
  customer: string
  metadata: Record<string, string>
  charged_at: Date
}

interface RefundTable {
  account: string
  id: string
  created_at: Date
  intent_id: string
  status: RefundStatus
  amount: number
  currency: string
  metadata: Record<string, string>
  settles_at: Date | null
  settles_to: 'succeeded' | 'failed' | null
}

interface DisputeTable {
  account: string
  id: string
  created_at: Date
  intent_id: string
  status: DisputeStatus
  amount: number
  currency: string
  reason: string
  respond_by: Date | null
  settles_at: Date | null
  settles_to: DisputeStatus | null
}

interface CallbackTable {
  account: string
  position: Generated<number>
  event_id: string
  kind: ProcessorEventKind
  object_id: string
  happened_at: Date
  due_at: Date
  taken_at: Date | null
}

export type MethodRow = Readonly<MethodTable>
export type ChargeRow = Readonly<ChargeTable>
export type RefundRow = Readonly<RefundTable>
export type DisputeRow = Readonly<DisputeTable>
export type CallbackRow = Readonly<Omit<CallbackTable, 'position'>>
/** An intent with the card of its last confirmation and the time of its charge. */
export type IntentRow = Readonly<Omit<IntentTable, 'lost'> & { lost: number; token: string | null; charged_at: Date | null }>

const intents = (db: Db, account: string) =>
  db.q
    .selectFrom('test_processor.intents as i')
    .leftJoin('test_processor.methods as m', (join) => join.onRef('m.account', '=', 'i.account').onRef('m.id', '=', 'i.method_id'))
    .leftJoin('test_processor.charges as c', (join) => join.onRef('c.account', '=', 'i.account').onRef('c.intent_id', '=', 'i.id'))
    .selectAll('i')
    .select(['m.token', 'c.charged_at'])
    .where('i.account', '=', account)

export const findIntent = (db: Db, account: string, id: string): Promise<IntentRow | undefined> =>
  intents(db, account).where('i.id', '=', id).executeTakeFirst()

/** Locks the intent, so that confirmation, cancellation, settlement and refunds run one at a time. */
export const lockIntent = async (tx: Tx, account: string, id: string): Promise<Locked<IntentRow> | undefined> => {
  await tx.q.selectFrom('test_processor.intents').select('id').where('account', '=', account).where('id', '=', id).forUpdate().execute()
  // Reads the row again after the lock, because joined rows may have changed while waiting.
  return markLocked(await findIntent(tx, account, id))
}

export const listIntents = (db: Db, account: string, customer: string, metadata: Readonly<Record<string, string>>): Promise<IntentRow[]> =>
  intents(db, account)
    .where('i.customer', '=', customer)
    .where(sql<boolean>`i.metadata @> ${json(metadata)}`)
    .orderBy('i.created_at')
    .orderBy('i.id')
    .execute()

export const findByClientSecret = (db: Db, client_secret: string): Promise<{ account: string; id: string } | undefined> =>
  db.q.selectFrom('test_processor.intents').select(['account', 'id']).where('client_secret', '=', client_secret).executeTakeFirst()

export const insertIntent = async (tx: Tx, row: Readonly<Omit<IntentTable, 'lost' | 'method_id' | 'decline_code' | 'settles_at'>>): Promise<void> => {
  await tx.q
    .insertInto('test_processor.intents')
    .values({ ...row, metadata: json(row.metadata), method_id: null, decline_code: null, settles_at: null })
    .execute()
}

export const updateIntent = async (
  tx: Tx,
  intent: Locked<IntentRow>,
  change: Partial<Pick<IntentTable, 'status' | 'method_id' | 'decline_code' | 'settles_at'> & { lost: number }>,
): Promise<void> => {
  await tx.q.updateTable('test_processor.intents').set(change).where('account', '=', intent.account).where('id', '=', intent.id).execute()
}

/** Counts the other intents that a card paid or declined, including those canceled since. */
export const countOthers = async (tx: Tx, { account, id }: Locked<IntentRow>, method_id: string): Promise<{ paid: number; declined: number }> =>
  tx.q
    .selectFrom('test_processor.intents')
    .select([
      sql<number>`count(*) filter (where status = 'succeeded' and kind = 'payment')::int`.as('paid'),
      sql<number>`count(*) filter (where status in ('failed', 'canceled'))::int`.as('declined'),
    ])
    .where('account', '=', account)
    .where('method_id', '=', method_id)
    .where('id', '!=', id)
    .executeTakeFirstOrThrow()

export const insertMethod = async (tx: Tx, row: MethodRow): Promise<void> => {
  await tx.q.insertInto('test_processor.methods').values(row).execute()
}

export const findMethod = (db: Db, account: string, id: string): Promise<MethodRow | undefined> =>
  db.q.selectFrom('test_processor.methods').selectAll().where('account', '=', account).where('id', '=', id).executeTakeFirst()

export const keepMethod = async (tx: Tx, account: string, id: string, at: Date): Promise<void> => {
  await tx.q
    .updateTable('test_processor.methods')
    .set({ kept_at: at })
    .where('account', '=', account)
    .where('id', '=', id)
    .where('kept_at', 'is', null)
    .execute()
}

/** Marks a card as deleted. Returns false if there is no such card. */
export const forgetMethod = async (tx: Tx, account: string, id: string, at: Date): Promise<boolean> => {
  const { numUpdatedRows } = await tx.q
    .updateTable('test_processor.methods')
    .set({ forgotten_at: sql<Date>`coalesce(forgotten_at, ${at})` })
    .where('account', '=', account)
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export const insertCharge = async (tx: Tx, intent: Locked<IntentRow>, charged_at: Date): Promise<void> => {
  const { account, id: intent_id, amount, currency, customer, metadata } = intent
  await tx.q
    .insertInto('test_processor.charges')
    .values({ account, intent_id, amount, currency, customer, metadata: json(metadata), charged_at })
    .execute()
}

/** Returns the amount of an intent that was or is being returned by refunds or prevented disputes. */
export const refundedOf = async (tx: Tx, { account, id }: Locked<IntentRow>): Promise<number> => {
  const { rows } = await sql<{ sum: number }>`
    select coalesce(sum(amount), 0)::bigint as sum from (
      select amount from test_processor.refunds where account = ${account} and intent_id = ${id} and status in ('pending', 'succeeded')
      union all
      select amount from test_processor.disputes where account = ${account} and intent_id = ${id} and status = 'prevented'
    ) gone`.execute(tx.q)
  return rows[0]!.sum
}

export const insertDispute = async (tx: Tx, row: DisputeRow): Promise<void> => {
  await tx.q.insertInto('test_processor.disputes').values(row).execute()
}

const disputes = (db: Db, account: string) => db.q.selectFrom('test_processor.disputes').selectAll().where('account', '=', account)

export const findDispute = (db: Db, account: string, id: string): Promise<DisputeRow | undefined> =>
  disputes(db, account).where('id', '=', id).executeTakeFirst()

/** Locks the dispute, so that its acceptance and its due status changes run one at a time. */
export const lockDispute = async (tx: Tx, account: string, id: string): Promise<Locked<DisputeRow> | undefined> =>
  await lockRow(disputes(tx, account).where('id', '=', id), 'update')

export const listDisputes = (db: Db, account: string, intent_id: string): Promise<DisputeRow[]> =>
  disputes(db, account).where('intent_id', '=', intent_id).orderBy('created_at').orderBy('id').execute()

export const updateDispute = (tx: Tx, dispute: Locked<DisputeRow>, change: Partial<DisputeTable>): Promise<DisputeRow> =>
  tx.q
    .updateTable('test_processor.disputes')
    .set(change)
    .where('account', '=', dispute.account)
    .where('id', '=', dispute.id)
    .returningAll()
    .executeTakeFirstOrThrow()

export const insertRefund = async (tx: Tx, row: RefundRow): Promise<void> => {
  await tx.q
    .insertInto('test_processor.refunds')
    .values({ ...row, metadata: json(row.metadata) })
    .execute()
}

export const findRefund = (db: Db, account: string, id: string): Promise<RefundRow | undefined> =>
  db.q.selectFrom('test_processor.refunds').selectAll().where('account', '=', account).where('id', '=', id).executeTakeFirst()

export const listRefunds = (db: Db, account: string, intent_id: string, metadata: Readonly<Record<string, string>>): Promise<RefundRow[]> =>
  db.q
    .selectFrom('test_processor.refunds')
    .selectAll()
    .where('account', '=', account)
    .where('intent_id', '=', intent_id)
    .where(sql<boolean>`metadata @> ${json(metadata)}`)
    .orderBy('created_at')
    .orderBy('id')
    .execute()

/** Returns the intents, refunds and disputes that are due to settle. */
export const findSettling = async (db: Db, now: Date) => {
  const settling = (table: 'test_processor.intents' | 'test_processor.refunds' | 'test_processor.disputes') =>
    db.q.selectFrom(table).select(['account', 'id']).where('settles_at', '<=', now).orderBy('settles_at').execute()
  const [intents, refunds, disputes] = await Promise.all([
    settling('test_processor.intents'),
    settling('test_processor.refunds'),
    settling('test_processor.disputes'),
  ])
  return { intents, refunds, disputes }
}

/** Settles a pending refund once. Returns undefined if a concurrent call has done it. */
export const settleRefund = (tx: Tx, account: string, id: string, now: Date): Promise<{ status: RefundStatus; intent_id: string } | undefined> =>
  tx.q
    .updateTable('test_processor.refunds')
    .set({ status: sql<RefundStatus>`settles_to`, settles_at: null, settles_to: null })
    .where('account', '=', account)
    .where('id', '=', id)
    .where('settles_at', '<=', now)
    .returning(['status', 'intent_id'])
    .executeTakeFirst()

/** Locks an idempotency key. A concurrent request with the same key waits and then finds the response. */
export const takeKey = async (tx: Tx, account: string, key: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${JSON.stringify(['test_processor.key', account, key])}, 0))`.execute(tx.q)
}

export const findKey = (tx: Tx, account: string, key: string, now: Date): Promise<{ fingerprint: string; answer: object } | undefined> =>
  tx.q
    .selectFrom('test_processor.keys')
    .select(['fingerprint', 'answer'])
    .where('account', '=', account)
    .where('key', '=', key)
    .where('expires_at', '>', now)
    .executeTakeFirst()

/** Stores the response of an idempotency key in the transaction of its effect. Replaces an expired response of the same key. */
export const keepKey = async (tx: Tx, row: { account: string; key: string; fingerprint: string; answer: object; expires_at: Date }): Promise<void> => {
  await tx.q
    .insertInto('test_processor.keys')
    .values({ ...row, answer: sql`${JSON.stringify(row.answer)}::json` })
    .onConflict((conflict) =>
      conflict.columns(['account', 'key']).doUpdateSet({
        fingerprint: sql`excluded.fingerprint`,
        answer: sql`excluded.answer`,
        expires_at: sql`excluded.expires_at`,
      }),
    )
    .execute()
}

export const forgetKeys = async (tx: Tx, account: string, now: Date): Promise<void> => {
  await tx.q.deleteFrom('test_processor.keys').where('account', '=', account).where('expires_at', '<=', now).execute()
}

export const insertCallbacks = async (tx: Tx, rows: readonly CallbackRow[]): Promise<void> => {
  if (rows.length > 0) await tx.q.insertInto('test_processor.callbacks').values(rows).execute()
}

export const listWaitingAccounts = async (db: Db, now: Date): Promise<string[]> =>
  (await db.q.selectFrom('test_processor.callbacks').select('account').distinct().where('taken_at', 'is', null).where('due_at', '<=', now).execute()).map(
    ({ account }) => account,
  )

/** Removes due events from the queue and returns them, oldest first. Each event is returned to one caller only. */
export const takeCallbacks = async (tx: Tx, account: string, limit: number, now: Date): Promise<CallbackRow[]> => {
  const taken = await tx.q
    .updateTable('test_processor.callbacks')
    .set({ taken_at: now })
    .where('account', '=', account)
    .where('position', 'in', (query) =>
      query
        .selectFrom('test_processor.callbacks')
        .select('position')
        .where('account', '=', account)
        .where('taken_at', 'is', null)
        .where('due_at', '<=', now)
        .orderBy('due_at')
        .orderBy('position')
        .limit(limit)
        .forUpdate()
        .skipLocked(),
    )
    .returningAll()
    .execute()
  return taken.toSorted((a, b) => a.due_at.getTime() - b.due_at.getTime() || a.position - b.position)
}

export const readBooks = async (db: Db): Promise<{ charges: ChargeRow[]; refunds: RefundRow[]; disputes: DisputeRow[] }> => {
  const [charges, refunds, disputes] = await Promise.all([
    db.q.selectFrom('test_processor.charges').selectAll().orderBy('charged_at').orderBy('intent_id').execute(),
    db.q.selectFrom('test_processor.refunds').selectAll().orderBy('created_at').orderBy('id').execute(),
    db.q.selectFrom('test_processor.disputes').selectAll().orderBy('created_at').orderBy('id').execute(),
  ])
  return { charges, refunds, disputes }
}
