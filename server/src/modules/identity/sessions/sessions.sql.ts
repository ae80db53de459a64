import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    users: UserTable
    user_sessions: { id: string; user_id: string; created_at: Date; expires_at: Date; second_factor: boolean }
    sign_in_codes: { id: string; email: string; created_at: Date; expires_at: Date; hash: string | null }
  }
}

export interface UserTable {
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  email: string
  email_verified: boolean
  avatar_url: string | null
  is_operator: boolean
  blocked_at: Date | null
}

export const findUser = (db: Db, id: string): Promise<UserTable | undefined> =>
  db.q.selectFrom('users').selectAll().where('id', '=', id).where('deleted_at', 'is', null).executeTakeFirst()

export const findUserByEmail = (db: Db, email: string): Promise<UserTable | undefined> =>
  db.q
    .selectFrom('users')
    .selectAll()
    .where(sql`lower(email)`, '=', email.toLowerCase())
    .where('deleted_at', 'is', null)
    .executeTakeFirst()

export const insertUser = (tx: Tx, user: UserTable): Promise<UserTable> => tx.q.insertInto('users').values(user).returningAll().executeTakeFirstOrThrow()

export const markVerified = async (tx: Tx, id: string, now: Date): Promise<void> => {
  await tx.q.updateTable('users').set({ email_verified: true, modified_at: now }).where('id', '=', id).where('email_verified', '=', false).execute()
}

export const insertSession = async (
  tx: Tx,
  session: { id: string; user_id: string; created_at: Date; expires_at: Date; second_factor: boolean },
): Promise<void> => {
  await tx.q.insertInto('user_sessions').values(session).execute()
}

export const deleteSession = async (tx: Tx, id: string): Promise<void> => {
  await tx.q.deleteFrom('user_sessions').where('id', '=', id).execute()
}

/** Deletes every session of a user together with its credential. */
export const deleteSessionsOf = async (tx: Tx, user_id: string): Promise<void> => {
  await sql`
    with ended as (delete from user_sessions where user_id = ${user_id} returning id)
    delete from credentials where kind = 'session' and subject_id in (select id from ended)`.execute(tx.q)
}

export const countSessions = async (db: Db, user_id: string, now: Date): Promise<number> =>
  (
    await db.q
      .selectFrom('user_sessions')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('user_id', '=', user_id)
      .where('expires_at', '>', now)
      .executeTakeFirstOrThrow()
  ).count

export const findCode = (db: Db, id: string) => db.q.selectFrom('sign_in_codes').select(['id', 'email', 'expires_at']).where('id', '=', id).executeTakeFirst()

export const setCodeHash = async (tx: Tx, id: string, hash: string): Promise<void> => {
  await tx.q.updateTable('sign_in_codes').set({ hash }).where('id', '=', id).execute()
}

export const deleteExpired = async (tx: Tx, now: Date): Promise<void> => {
  await sql`
    with ended as (delete from user_sessions where expires_at <= ${now} returning id)
    delete from credentials where kind = 'session' and subject_id in (select id from ended)`.execute(tx.q)
  // An expired code is kept until an hour after its request, because the hourly limit counts these rows.
  await tx.q
    .deleteFrom('sign_in_codes')
    .where('expires_at', '<=', now)
    .where('created_at', '<=', new Date(now.getTime() - 3_600_000))
    .execute()
}
