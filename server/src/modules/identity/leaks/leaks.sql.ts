import { sql } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'

/** What to tell, and whom: everyone who could have made the token. */
export const organizationLeak = async (db: Db, organization_id: string, token_id: string) => {
  const { rows } = await sql<{ hint: string; comment: string; organization_name: string; emails: string[] }>`
    select t.hint, t.comment, o.name as organization_name, array(
      select u.email from organization_members m join users u on u.id = m.user_id and u.deleted_at is null
      where m.organization_id = t.organization_id and m.role in ('owner', 'admin') order by u.email
    ) as emails
    from organization_access_tokens t join organizations o on o.id = t.organization_id
    where t.organization_id = ${organization_id} and t.id = ${token_id}`.execute(db.q)
  return rows[0]
}

export const personalLeak = (db: Db, token_id: string) =>
  db.q
    .selectFrom('personal_access_tokens as t')
    .innerJoin('users as u', 'u.id', 't.user_id')
    .select(['t.hint', 't.comment', 'u.email'])
    .where('t.id', '=', token_id)
    .executeTakeFirst()
