import type { Db } from '../../../platform/postgres/postgres.ts'
import { permissions } from '../../organizations/index.ts'

/** Returns the users who may manage the organization's tokens. */
export const managersOf = async (db: Db, organization_id: string): Promise<string[]> => {
  const found = await db.q
    .selectFrom('organization_members')
    .select('user_id')
    .where('organization_id', '=', organization_id)
    .where('role', 'in', [...permissions['organization:manage']])
    .orderBy('user_id')
    .execute()
  return found.map(({ user_id }) => user_id)
}

/** Returns the data of the mail about a leaked organization token, for one recipient. */
export const organizationLeak = (db: Db, organization_id: string, token_id: string, user_id: string) =>
  db.q
    .selectFrom('organization_access_tokens as t')
    .innerJoin('organizations as o', 'o.id', 't.organization_id')
    .innerJoin('users as u', (on) => on.on('u.id', '=', user_id).on('u.deleted_at', 'is', null))
    .select(['t.hint', 't.comment', 'o.name as organization_name', 'o.country', 'u.email'])
    .where('t.organization_id', '=', organization_id)
    .where('t.id', '=', token_id)
    .executeTakeFirst()

export const personalLeak = (db: Db, token_id: string) =>
  db.q
    .selectFrom('personal_access_tokens as t')
    .innerJoin('users as u', 'u.id', 't.user_id')
    .select(['t.hint', 't.comment', 'u.email'])
    .where('t.id', '=', token_id)
    .executeTakeFirst()

export const clientLeak = (db: Db, id: string) =>
  db.q
    .selectFrom('oauth_clients as c')
    .innerJoin('users as u', 'u.id', 'c.owner_id')
    .select(['c.client_id', 'c.client_name', 'u.email'])
    .where('c.id', '=', id)
    .executeTakeFirst()
