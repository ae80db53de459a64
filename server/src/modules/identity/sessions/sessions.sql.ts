import type { OrganizationRole } from '@bursar/contract'
import { sql } from 'kysely'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    users: UserTable
    user_sessions: { id: string; user_id: string; created_at: Date; expires_at: Date; second_factor: boolean; signed_in_at: Date | null }
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
  await tx.q
    .insertInto('user_sessions')
    .values({ ...session, signed_in_at: null })
    .execute()
}

/** Records that the person of a session has just proved who they are. */
export const renewSession = async (tx: Tx, id: string, at: Date, second_factor: boolean): Promise<void> => {
  await tx.q
    .updateTable('user_sessions')
    .set({ signed_in_at: at, ...(second_factor ? { second_factor } : {}) })
    .where('id', '=', id)
    .execute()
}

/**
 * Returns the current role of each session in each organization of its person, by `session_id organization_id`. Leaves
 * out sessions that have ended, and operators without their second factor, who may only read their account.
 */
export const findRoles = async (db: Db, session_ids: readonly string[], closed: readonly string[], now: Date): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await sql<{ session_id: string; organization_id: string; role: string }>`
    select s.id as session_id, m.organization_id, m.role
    from user_sessions s
    join users u on u.id = s.user_id and u.deleted_at is null and u.blocked_at is null and (s.second_factor or not u.is_operator)
    join organization_members m on m.user_id = u.id
    join organizations o on o.id = m.organization_id and o.deleted_at is null and o.status <> all(${closed}::text[])
    where s.id = any(${session_ids}::uuid[]) and s.expires_at > ${now}`.execute(db.q)
  return new Map(rows.map(({ session_id, organization_id, role }) => [`${session_id} ${organization_id}`, role]))
}

export interface SignedInRow extends UserTable {
  session_has_factor: boolean
  factor_confirmed: boolean
  memberships: { organization_id: string; organization_name: string; organization_slug: string; role: OrganizationRole }[]
}

/** Finds the person of a session, with their organizations among the given ones. */
export const findSignedIn = async (db: Db, user_id: string, session_id: string, organization_ids: readonly string[]): Promise<SignedInRow> => {
  const { rows } = await sql<SignedInRow>`
    select u.*, s.second_factor as session_has_factor,
      exists (select from second_factors f where f.user_id = u.id and f.confirmed_at is not null) as factor_confirmed,
      coalesce((
        select jsonb_agg(jsonb_build_object('organization_id', o.id, 'organization_name', o.name, 'organization_slug', o.slug, 'role', m.role) order by lower(o.name), o.id)
        from organization_members m join organizations o on o.id = m.organization_id
        where m.user_id = u.id and m.organization_id = ${oneOf(organization_ids)}), '[]') as memberships
    from users u join user_sessions s on s.user_id = u.id and s.id = ${session_id}
    where u.id = ${user_id} and u.deleted_at is null`.execute(db.q)
  return rows[0]!
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
