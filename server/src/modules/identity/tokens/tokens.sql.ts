import type { OrganizationAccessToken, PageRequest, PersonalAccessToken } from '@bursar/contract'
import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    organization_access_tokens: OrganizationAccessToken & { revoked_at: Date | null }
    personal_access_tokens: PersonalAccessToken & { user_id: string; revoked_at: Date | null }
  }
}

const common = ['id', 'created_at', 'modified_at', 'comment', 'scopes', 'hint', 'expires_at', 'last_used_at'] as const
const organizational = [...common, 'organization_id'] as const

const ofOrganizations = (db: Db, reach: Reach) =>
  db.q.selectFrom('organization_access_tokens').where('organization_id', '=', withinReach(reach)).where('revoked_at', 'is', null)

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

export const listOrganizationTokens = async (db: Db, reach: Reach, query: Sorted) => {
  return listRows(db, organizationList, organizationIds(reach), query, [], (found) =>
    ofOrganizations(db, reach).select(organizational).where('id', 'in', found).execute(),
  )
}

export const listPersonalTokens = async (db: Db, user_id: string, query: Sorted) => {
  return listRows(db, personalList, [user_id], query, [], (found) => ofUser(db, user_id).select(common).where('id', 'in', found).execute())
}

/** Holds the token: it is changed or revoked by one caller at a time. */
export const lockOrganizationToken = async (tx: Tx, reach: Reach, id: string): Promise<Locked<OrganizationAccessToken> | undefined> =>
  (await ofOrganizations(tx, reach).select(organizational).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<OrganizationAccessToken> | undefined

export const lockPersonalToken = async (tx: Tx, user_id: string, id: string): Promise<Locked<PersonalAccessToken> | undefined> =>
  (await ofUser(tx, user_id).select(common).where('id', '=', id).forUpdate().executeTakeFirst()) as Locked<PersonalAccessToken> | undefined

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
