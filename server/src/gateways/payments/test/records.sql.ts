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

export const forgetKeys = async (tx: Tx, account: string, now: Date): Promise<void> => {
  await tx.q.deleteFrom('test_processor.keys').where('account', '=', account).where('expires_at', '<=', now).execute()
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
