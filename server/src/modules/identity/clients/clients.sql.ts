import type { OAuth2Client } from '@bursar/contract'
import type { PageRequest } from '@bursar/contract'
import { sql } from 'kysely'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

export interface ClientRow {
  client_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  owner_id: string | null
  verified_at: Date | null
  client_name: string
  client_uri: string | null
  logo_uri: string | null
  tos_uri: string | null
  policy_uri: string | null
  redirect_uris: string[]
  token_endpoint_auth_method: OAuth2Client['token_endpoint_auth_method']
  grant_types: OAuth2Client['grant_types']
  scopes: string[]
  default_sub_type: OAuth2Client['default_sub_type']
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    oauth_clients: ClientRow
  }
}

const living = (db: Db) => db.q.selectFrom('oauth_clients').selectAll().where('deleted_at', 'is', null)

/** Format of every client id. Other values cannot exist, so they are rejected without a query. */
const shape = /^bursar_(test_)?ci_[0-9A-Za-z]{43}$/

export const findClient = async (db: Db, client_id: string): Promise<ClientRow | undefined> =>
  shape.test(client_id) ? living(db).where('client_id', '=', client_id).executeTakeFirst() : undefined

/** Locks the client. Only one transaction at a time changes its registration, and no token is issued during the change. */
export const lockClient = async (tx: Tx, client_id: string): Promise<Locked<ClientRow> | undefined> =>
  shape.test(client_id) ? await lockRow(living(tx).where('client_id', '=', client_id), 'update') : undefined

export const insertClient = (tx: Tx, client: ClientRow): Promise<ClientRow> =>
  tx.q.insertInto('oauth_clients').values(client).returningAll().executeTakeFirstOrThrow()

export const changeClient = (tx: Tx, client_id: string, changes: Partial<ClientRow>): Promise<ClientRow> =>
  tx.q.updateTable('oauth_clients').set(changes).where('client_id', '=', client_id).returningAll().executeTakeFirstOrThrow()

/** Returns the stored hash of the client's secret. */
export const secretHashOf = async (db: Db, id: string): Promise<string | undefined> =>
  (await db.q.selectFrom('credentials').select('hash').where('subject_id', '=', id).where('kind', '=', 'client_secret').executeTakeFirst())?.hash

const list = {
  table: 'oauth_clients',
  tenant: 'owner_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: { created_at: { expression: 'created_at', type: 'timestamptz' }, client_name: { expression: 'client_name', type: 'text' } },
} satisfies ListSpec<string>

export const listClientsOf = async (db: Db, user_id: string, query: PageRequest & { sorting: readonly string[] }) => {
  return listRows(db, list, [user_id], query, [], (found) => living(db).where('owner_id', '=', user_id).where('id', '=', oneOf(found)).execute())
}
