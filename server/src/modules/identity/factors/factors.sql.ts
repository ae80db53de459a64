import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    second_factors: {
      user_id: string
      session_id: string
      sealed: string
      created_at: Date
      confirmed_at: Date | null
      last_step: number
      tries: number
      tries_since: Date
    }
    recovery_codes: { user_id: string; hash: string }
    pending_sign_ins: { id: string; user_id: string; created_at: Date; expires_at: Date; tries_left: number }
  }
}

export const findFactor = (db: Db, user_id: string) => db.q.selectFrom('second_factors').selectAll().where('user_id', '=', user_id).executeTakeFirst()

/** Locks the factor, so that a code sent in two concurrent requests is accepted only once. */
export const lockFactor = (tx: Tx, user_id: string) =>
  tx.q.selectFrom('second_factors').selectAll().where('user_id', '=', user_id).forUpdate().executeTakeFirst()

export const storeFactor = async (tx: Tx, factor: { user_id: string; session_id: string; sealed: string; created_at: Date }): Promise<void> => {
  await tx.q.deleteFrom('second_factors').where('user_id', '=', factor.user_id).execute()
  await tx.q
    .insertInto('second_factors')
    .values({ ...factor, confirmed_at: null, last_step: 0, tries: 0, tries_since: factor.created_at })
    .execute()
}

export const stepFactor = async (tx: Tx, user_id: string, last_step: number, confirmed_at: Date): Promise<void> => {
  await tx.q
    .updateTable('second_factors')
    .set({ last_step, confirmed_at: sql`coalesce(confirmed_at, ${confirmed_at})`, tries: 0 })
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

/** Counts one attempt of a pending sign-in. The update is atomic, so concurrent guesses cannot exceed the limit. */
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

/** Counts one second-factor attempt in the current hour. All flows share this limit. Returns false if no attempt is left. */
export const spendFactorTry = async (tx: Tx, user_id: string, now: Date, hourAgo: Date, most: number): Promise<boolean> => {
  const { rows } = await sql`
    update second_factors set
      tries = case when tries_since <= ${hourAgo} then 1 else tries + 1 end,
      tries_since = case when tries_since <= ${hourAgo} then ${now} else tries_since end
    where user_id = ${user_id} and (tries_since <= ${hourAgo} or tries < ${most}) returning user_id`.execute(tx.q)
  return rows.length > 0
}

export const weakenSessions = async (tx: Tx, user_id: string): Promise<void> => {
  await tx.q.updateTable('user_sessions').set({ second_factor: false }).where('user_id', '=', user_id).execute()
}

/** Returns true if a sign-in that waits for its second factor can still be completed. */
export const isPending = async (db: Db, hashes: readonly string[], now: Date): Promise<boolean> =>
  (await db.q
    .selectFrom('credentials as c')
    .innerJoin('pending_sign_ins as p', 'p.id', 'c.subject_id')
    .select('p.id')
    .where('c.hash', 'in', [...hashes])
    .where('c.kind', '=', 'sign_in')
    .where('p.tries_left', '>', 0)
    .where('p.expires_at', '>', now)
    .executeTakeFirst()) !== undefined
