import { window, type OrganizationAccessToken, type PageRequest, type PersonalAccessToken } from '@bursar/contract'
import { sql, type SelectQueryBuilder } from 'kysely'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import type { Db, Locked, Tables, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    organization_access_tokens: OrganizationAccessToken & { revoked_at: Date | null }
    personal_access_tokens: PersonalAccessToken & { user_id: string; revoked_at: Date | null }
  }
}

type TokenTable = 'organization_access_tokens' | 'personal_access_tokens'

const common = ['id', 'created_at', 'modified_at', 'comment', 'scopes', 'hint', 'expires_at', 'last_used_at'] as const
const organizational = [...common, 'organization_id'] as const

const ofOrganizations = (db: Db, reach: Reach) =>
  db.q
    .selectFrom('organization_access_tokens')
    .where('organization_id', '=', sql<string>`any(${organizationIds(reach)}::uuid[])`)
    .where('revoked_at', 'is', null)

const ofUser = (db: Db, user_id: string) => db.q.selectFrom('personal_access_tokens').where('user_id', '=', user_id).where('revoked_at', 'is', null)

type Sorted = PageRequest & { sorting: readonly string[] }

const pageOf = <T extends TokenTable, O>(query: Sorted, matching: SelectQueryBuilder<Tables, T, O>): SelectQueryBuilder<Tables, T, O> => {
  const { size, offset } = window(query)
  let ordered = matching
  for (const key of query.sorting) ordered = ordered.orderBy(sql.ref(key.replace(/^-/, '')), key.startsWith('-') ? 'desc' : 'asc')
  return ordered.orderBy(sql.ref('id')).limit(size).offset(offset)
}

export const listOrganizationTokens = async (db: Db, reach: Reach, query: Sorted) => {
  const [items, count] = await Promise.all([
    pageOf(query, ofOrganizations(db, reach).select(organizational)).execute(),
    ofOrganizations(db, reach)
      .select((all) => all.fn.countAll<number>().as('total'))
      .executeTakeFirstOrThrow(),
  ])
  return { items, total: count.total }
}

export const listPersonalTokens = async (db: Db, user_id: string, query: Sorted) => {
  const [items, count] = await Promise.all([
    pageOf(query, ofUser(db, user_id).select(common)).execute(),
    ofUser(db, user_id)
      .select((all) => all.fn.countAll<number>().as('total'))
      .executeTakeFirstOrThrow(),
  ])
  return { items, total: count.total }
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
