import type { OrganizationAccessToken, PageRequest, PersonalAccessToken } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    organization_access_tokens: OrganizationAccessToken & { revoked_at: Date | null }
    personal_access_tokens: PersonalAccessToken & { user_id: string; revoked_at: Date | null }
  }
}

const common = ['id', 'created_at', 'modified_at', 'comment', 'scopes', 'hint', 'expires_at', 'last_used_at'] as const
const organizational = [...common, 'organization_id'] as const

const ofOrganizations = (db: Db, scope: TenantScope) =>
  db.q.selectFrom('organization_access_tokens').where('organization_id', '=', inScope(scope)).where('revoked_at', 'is', null)

const ofUser = (db: Db, user_id: string) => db.q.selectFrom('personal_access_tokens').where('user_id', '=', user_id).where('revoked_at', 'is', null)

type Sorted = PageRequest & { sorting: readonly string[] }

const sortable = {
  created_at: { expression: 'created_at', type: 'timestamptz' },
  comment: { expression: 'comment', type: 'text' },
  last_used_at: { expression: `coalesce(last_used_at, '1970-01-01Z'::timestamptz)`, type: 'timestamptz' },
  organization_id: { expression: 'organization_id', type: 'uuid' },
} as const
const { organization_id: _, ...personal } = sortable
const always = sql`revoked_at is null`
const organizationList = { table: 'organization_access_tokens', tenant: 'organization_id', id: 'id', always, sortable } satisfies ListSpec<string>
const personalList = { table: 'personal_access_tokens', tenant: 'user_id', id: 'id', always, sortable: personal } satisfies ListSpec<string>

export const listOrganizationTokens = async (db: Db, scope: TenantScope, query: Sorted) => {
  return listRows(db, organizationList, organizationIds(scope), query, [], (found) =>
    ofOrganizations(db, scope).select(organizational).where('id', '=', oneOf(found)).execute(),
  )
}

export const listPersonalTokens = async (db: Db, user_id: string, query: Sorted) => {
  return listRows(db, personalList, [user_id], query, [], (found) => ofUser(db, user_id).select(common).where('id', '=', oneOf(found)).execute())
}

/** Locks the token, so that only one transaction at a time changes or revokes it. */
export const lockOrganizationToken = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<OrganizationAccessToken> | undefined> =>
  await lockRow(ofOrganizations(tx, scope).select(organizational).where('id', '=', id), 'update')

export const lockPersonalToken = async (tx: Tx, user_id: string, id: string): Promise<Locked<PersonalAccessToken> | undefined> =>
  await lockRow(ofUser(tx, user_id).select(common).where('id', '=', id), 'update')

export const insertOrganizationToken = (tx: Tx, token: OrganizationAccessToken): Promise<OrganizationAccessToken> =>
  tx.q
    .insertInto('organization_access_tokens')
    .values({ ...token, revoked_at: null })
    .returning(organizational)
    .executeTakeFirstOrThrow()

export const insertPersonalToken = (tx: Tx, token: PersonalAccessToken & { user_id: string }): Promise<PersonalAccessToken> =>
  tx.q
    .insertInto('personal_access_tokens')
    .values({ ...token, revoked_at: null })
    .returning(common)
    .executeTakeFirstOrThrow()

type Changes = { comment?: string; scopes?: OrganizationAccessToken['scopes']; modified_at?: Date; revoked_at?: Date }

export const changeOrganizationToken = (
  tx: Tx,
  token: Pick<OrganizationAccessToken, 'organization_id' | 'id'>,
  changes: Changes,
): Promise<OrganizationAccessToken> =>
  tx.q
    .updateTable('organization_access_tokens')
    .set(changes)
    .where('organization_id', '=', token.organization_id)
    .where('id', '=', token.id)
    .returning(organizational)
    .executeTakeFirstOrThrow()

export const changePersonalToken = (tx: Tx, token: Pick<PersonalAccessToken, 'id'>, changes: Changes): Promise<PersonalAccessToken> =>
  tx.q.updateTable('personal_access_tokens').set(changes).where('id', '=', token.id).returning(common).executeTakeFirstOrThrow()
