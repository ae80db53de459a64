import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    second_factors: { user_id: string; sealed: string; created_at: Date; confirmed_at: Date | null; last_step: number }
    recovery_codes: { user_id: string; hash: string }
    pending_sign_ins: { id: string; user_id: string; created_at: Date; expires_at: Date; tries_left: number }
  }
}

export const findFactor = (db: Db, user_id: string) => db.q.selectFrom('second_factors').selectAll().where('user_id', '=', user_id).executeTakeFirst()

/** Holds the factor: of two who send the same code at once, one is first. */
export const lockFactor = (tx: Tx, user_id: string) =>
  tx.q.selectFrom('second_factors').selectAll().where('user_id', '=', user_id).forUpdate().executeTakeFirst()

export const storeFactor = async (tx: Tx, factor: { user_id: string; sealed: string; created_at: Date }): Promise<void> => {
  await tx.q.deleteFrom('second_factors').where('user_id', '=', factor.user_id).execute()
  await tx.q
    .insertInto('second_factors')
    .values({ ...factor, confirmed_at: null, last_step: 0 })
    .execute()
}

export const stepFactor = async (tx: Tx, user_id: string, last_step: number, confirmed_at: Date): Promise<void> => {
  await tx.q
    .updateTable('second_factors')
    .set({ last_step, confirmed_at: sql`coalesce(confirmed_at, ${confirmed_at})` })
    .where('user_id', '=', user_id)
    .execute()
}

export const dropFactor = async (tx: Tx, user_id: string): Promise<void> => {
  await tx.q.deleteFrom('second_factors').where('user_id', '=', user_id).execute()
}

export const storeRecoveryCodes = async (tx: Tx, user_id: string, hashes: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('recovery_codes').where('user_id', '=', user_id).execute()
  await tx.q
    .insertInto('recovery_codes')
    .values(hashes.map((hash) => ({ user_id, hash })))
    .execute()
}

export const takeRecoveryCode = async (tx: Tx, user_id: string, hashes: readonly string[]): Promise<boolean> => {
  const done = await tx.q
    .deleteFrom('recovery_codes')
    .where('user_id', '=', user_id)
    .where('hash', 'in', [...hashes])
    .executeTakeFirst()
  return done.numDeletedRows > 0n
}

export const recoveryCodesLeft = async (db: Db, user_id: string): Promise<number> =>
  (
    await db.q
      .selectFrom('recovery_codes')
      .select(({ fn }) => fn.countAll<number>().as('left'))
      .where('user_id', '=', user_id)
      .executeTakeFirstOrThrow()
  ).left

export const insertPending = async (
  tx: Tx,
  pending: { id: string; user_id: string; created_at: Date; expires_at: Date; tries_left: number },
): Promise<void> => {
  await tx.q.insertInto('pending_sign_ins').values(pending).execute()
}

/** Spends one try: they run out however many guess at once. */
export const spendPendingTry = (tx: Tx, id: string, now: Date) =>
  tx.q
    .updateTable('pending_sign_ins')
    .set((row) => ({ tries_left: row('tries_left', '-', 1) }))
    .where('id', '=', id)
    .where('tries_left', '>', 0)
    .where('expires_at', '>', now)
    .returning(['user_id'])
    .executeTakeFirst()

export const dropPending = async (tx: Tx, id: string): Promise<void> => {
  await tx.q.deleteFrom('pending_sign_ins').where('id', '=', id).execute()
}

export const purgePending = async (tx: Tx, now: Date): Promise<void> => {
  await sql`
    with ended as (delete from pending_sign_ins where expires_at <= ${now} returning id)
    delete from credentials where kind = 'sign_in' and subject_id in (select id from ended)`.execute(tx.q)
}

export const strengthenSession = async (tx: Tx, session_id: string): Promise<void> => {
  await tx.q.updateTable('user_sessions').set({ second_factor: true }).where('id', '=', session_id).execute()
}
