import type { PageRequest, Scope } from '@bursar/contract'
import { sql } from 'kysely'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export interface GrantRow {
  client_id: string
  user_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  last_authorized_at: Date
  scopes: Scope[]
  /** Null means every organization of the user, including those joined later. */
  organizations: string[] | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    oauth_grants: GrantRow
  }
}

export const findGrant = (db: Db, client_id: string, user_id: string): Promise<GrantRow | undefined> =>
  db.q.selectFrom('oauth_grants').selectAll().where('client_id', '=', client_id).where('user_id', '=', user_id).executeTakeFirst()

/** Stores a grant. New scopes are added to the earlier ones. The choice of organizations replaces the earlier choice. */
export const storeGrant = async (tx: Tx, grant: Pick<GrantRow, 'client_id' | 'user_id' | 'id' | 'scopes' | 'organizations'>, now: Date): Promise<void> => {
  await sql`
    insert into oauth_grants as g (client_id, user_id, id, created_at, last_authorized_at, scopes, organizations)
    values (${grant.client_id}, ${grant.user_id}, ${grant.id}, ${now}, ${now}, ${grant.scopes}, ${grant.organizations})
    on conflict (client_id, user_id) do update set
      modified_at = excluded.created_at, last_authorized_at = excluded.created_at, organizations = excluded.organizations,
      scopes = g.scopes || array(select s from unnest(excluded.scopes) s where s <> all(g.scopes))`.execute(tx.q)
}

export const touchGrant = async (tx: Tx, client_id: string, user_id: string, now: Date): Promise<void> => {
  await tx.q.updateTable('oauth_grants').set({ last_authorized_at: now }).where('client_id', '=', client_id).where('user_id', '=', user_id).execute()
}

export const deleteGrants = async (tx: Tx, client_id: string, user_id?: string): Promise<boolean> => {
  let gone = tx.q.deleteFrom('oauth_grants').where('client_id', '=', client_id)
  if (user_id !== undefined) gone = gone.where('user_id', '=', user_id)
  return (await gone.executeTakeFirst()).numDeletedRows > 0n
}

const list = {
  table: 'oauth_grants',
  tenant: 'user_id',
  id: 'id',
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' } },
} satisfies ListSpec<string>

export const listGrantsOf = async (db: Db, user_id: string, query: PageRequest & { sorting: readonly string[]; client_id: readonly string[] }) => {
  const filters = query.client_id.length === 0 ? [] : [sql`client_id = any(${query.client_id})`]
  return listRows(db, list, [user_id], query, filters, (found) =>
    db.q
      .selectFrom('oauth_grants as g')
      .innerJoin('oauth_clients as c', 'c.client_id', 'g.client_id')
      .select(['g.id', 'g.created_at', 'g.modified_at', 'g.scopes', 'g.organizations', 'g.last_authorized_at', 'g.client_id', 'c.verified_at'])
      .select([
        'c.client_name',
        'c.client_uri',
        'c.logo_uri',
        'c.tos_uri',
        'c.policy_uri',
        'c.created_at as client_created_at',
        'c.modified_at as client_modified_at',
      ])
      .where('g.user_id', '=', user_id)
      .where('g.id', '=', oneOf(found))
      .execute(),
  )
}
export type ListedGrant = Awaited<ReturnType<typeof listGrantsOf>>['items'][number]

/** Returns these organizations, ordered by name. */
export const organizationsOf = (db: Db, ids: readonly string[]) =>
  ids.length === 0
    ? Promise.resolve([])
    : db.q.selectFrom('organizations').select(['id', 'name', 'slug', 'avatar_url']).where('id', '=', oneOf(ids)).orderBy('name').orderBy('id').execute()

/** Returns the organizations that the user belongs to now. */
export const membershipsOf = async (db: Db, user_id: string): Promise<string[]> =>
  (await db.q.selectFrom('organization_members').select('organization_id').where('user_id', '=', user_id).execute()).map(
    ({ organization_id }) => organization_id,
  )

/** Returns the data for the consent mail: the grant of the user to the client with this internal id. */
export const findAllowed = (db: Db, user_id: string, id: string) =>
  db.q
    .selectFrom('oauth_grants as g')
    .innerJoin('oauth_clients as c', 'c.client_id', 'g.client_id')
    .innerJoin('users as u', 'u.id', 'g.user_id')
    .select(['u.email', 'c.client_name'])
    .where('c.id', '=', id)
    .where('g.user_id', '=', user_id)
    .executeTakeFirst()
