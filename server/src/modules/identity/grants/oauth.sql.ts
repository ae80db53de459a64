import { sql } from 'kysely'
import type { Hasher, Secret, TokenKind } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export type OAuthTokenKind = Extract<TokenKind, 'oauth_access' | 'oauth_refresh' | 'oauth_code'>

export interface FamilyRow {
  id: string
  client_id: string
  user_id: string
  created_at: Date
  scopes: string[]
  /** The organizations chosen at the authorization, without those that the user removed later. Null means every organization. */
  organizations: string[] | null
}

export interface OAuthTokenRow {
  id: string
  kind: OAuthTokenKind
  family_id: string
  parent_id: string | null
  created_at: Date
  expires_at: Date
  consumed_at: Date | null
  consumed_from: string | null
  scopes: string[]
  payload: Record<string, unknown>
}

export type VisitKind = 'Session' | 'Interaction'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    oauth_families: FamilyRow
    oauth_tokens: OAuthTokenRow
    oauth_visits: { kind: VisitKind; hash: string; uid: string | null; payload: Record<string, unknown>; expires_at: Date }
  }
}

/** Finds an authorization. When the user's grant is deleted, a foreign key deletes the authorization too. */
export const findFamily = (db: Db, id: string): Promise<FamilyRow | undefined> =>
  db.q.selectFrom('oauth_families').selectAll().where('id', '=', id).executeTakeFirst()

/**
 * Inserts an authorization with the current organizations of the grant. Returns false if there is no grant. Locks the
 * grant in share mode, so that a concurrent narrowing of the choice also applies to this authorization.
 */
export const insertFamily = async (tx: Tx, { id, client_id, user_id, created_at, scopes }: Omit<FamilyRow, 'organizations'>): Promise<boolean> => {
  const { numAffectedRows } = await sql`
    insert into oauth_families (id, client_id, user_id, created_at, scopes, organizations)
    select ${id}, g.client_id, g.user_id, ${created_at}, ${scopes}, g.organizations
    from (select * from oauth_grants where client_id = ${client_id} and user_id = ${user_id} for share) g`.execute(tx.q)
  return (numAffectedRows ?? 0n) > 0n
}

/**
 * Restricts the existing authorizations to these organizations. Tokens lose access to all others with the next request.
 * Ends an authorization that is left with no organization, because in introspection an empty list means unrestricted
 * access.
 */
export const narrowFamilies = async (tx: Tx, client_id: string, user_id: string, organizations: readonly string[]): Promise<void> => {
  const { rows } = await sql<{ id: string }>`
    with narrowed as (
      update oauth_families set organizations =
        case when organizations is null then ${organizations}::uuid[] else array(select o from unnest(organizations) o where o = any(${organizations}::uuid[])) end
      where client_id = ${client_id} and user_id = ${user_id} returning id, organizations)
    select id from narrowed where cardinality(organizations) = 0`.execute(tx.q)
  await endFamilies(
    tx,
    rows.map(({ id }) => id),
  )
}

/** Stores a token under its hash, unless it exists. Two refreshes with the same old token derive the same new token. Only the first one inserts it. */
export const storeToken = async (tx: Tx, hasher: Hasher, secret: Secret, token: OAuthTokenRow): Promise<void> => {
  // The hash is unique. Of two concurrent inserts, the second waits for the first and then inserts nothing.
  const { rows } = await sql<{ subject_id: string }>`
    insert into credentials (hash, pepper, kind, subject_id) values (${hasher.hash(secret)}, ${hasher.current}, ${token.kind}, ${token.id})
    on conflict (hash) do nothing returning subject_id`.execute(tx.q)
  if (rows.length === 0) return
  await tx.q
    .insertInto('oauth_tokens')
    .values({ ...token, payload: JSON.stringify(token.payload) as never })
    .execute()
}

export interface FoundToken extends OAuthTokenRow {
  /** True if the token that replaces this one is stored already. */
  replaced: boolean
}

/** Finds the token of a secret, if it is of this kind. */
export const findToken = async (db: Db, hasher: Hasher, secret: Secret, kind: OAuthTokenKind): Promise<FoundToken | undefined> => {
  const { rows } = await sql<FoundToken>`
    select t.*, exists (select from oauth_tokens s where s.parent_id = t.id) as replaced
    from credentials c join oauth_tokens t on t.id = c.subject_id and t.kind = c.kind
    where c.hash = any(${hasher.candidates(secret)}) and c.kind = ${kind}`.execute(db.q)
  return rows[0]
}

/** Marks a token as used. Returns false if it was used before. */
export const consumeToken = async (tx: Tx, id: string, now: Date, from: string): Promise<boolean> => {
  const done = await tx.q
    .updateTable('oauth_tokens')
    .set({ consumed_at: now, consumed_from: from })
    .where('id', '=', id)
    .where('consumed_at', 'is', null)
    .executeTakeFirst()
  return done.numUpdatedRows > 0n
}

/** Ends authorizations together with all their tokens. */
export const endFamilies = async (tx: Tx, ids: readonly string[]): Promise<void> => {
  if (ids.length === 0) return
  await sql`
    with ended as (delete from oauth_tokens where family_id = any(${ids}::uuid[]) returning id)
    delete from credentials where subject_id in (select id from ended)`.execute(tx.q)
  await tx.q.deleteFrom('oauth_families').where('id', '=', oneOf(ids)).execute()
}

/** Returns the authorizations of an app: all, or those of one user. */
export const familiesOf = async (tx: Tx, client_id: string, user_id?: string): Promise<string[]> => {
  let found = tx.q.selectFrom('oauth_families').select('id').where('client_id', '=', client_id)
  if (user_id !== undefined) found = found.where('user_id', '=', user_id)
  return (await found.execute()).map(({ id }) => id)
}

export const dropToken = async (tx: Tx, id: string): Promise<void> => {
  await tx.q.deleteFrom('credentials').where('subject_id', '=', id).execute()
  await tx.q.deleteFrom('oauth_tokens').where('id', '=', id).execute()
}

/** Returns the authorization of a token, with its user and the internal id of the client. */
export const familyOf = (tx: Tx, token_id: string) =>
  tx.q
    .selectFrom('oauth_tokens as t')
    .innerJoin('oauth_families as f', 'f.id', 't.family_id')
    .innerJoin('oauth_clients as c', 'c.client_id', 'f.client_id')
    .select(['f.id', 'f.user_id', 'c.id as client'])
    .where('t.id', '=', token_id)
    .executeTakeFirst()

export const storeVisit = async (
  tx: Tx,
  visit: { kind: VisitKind; hash: string; uid: string | null; payload: Record<string, unknown>; expires_at: Date },
): Promise<void> => {
  const values = { ...visit, payload: JSON.stringify(visit.payload) as never }
  await tx.q
    .insertInto('oauth_visits')
    .values(values)
    .onConflict((conflict) => conflict.columns(['kind', 'hash']).doUpdateSet({ uid: visit.uid, payload: values.payload, expires_at: visit.expires_at }))
    .execute()
}

export const findVisit = (db: Db, kind: VisitKind, hashes: readonly string[], now: Date) =>
  db.q
    .selectFrom('oauth_visits')
    .select(['payload'])
    .where('kind', '=', kind)
    .where('hash', 'in', [...hashes])
    .where('expires_at', '>', now)
    .executeTakeFirst()

export const findVisitByUid = (db: Db, uid: string, now: Date) =>
  db.q.selectFrom('oauth_visits').select(['payload']).where('uid', '=', uid).where('expires_at', '>', now).executeTakeFirst()

export const dropVisit = async (tx: Tx, kind: VisitKind, hashes: readonly string[]): Promise<void> => {
  await tx.q
    .deleteFrom('oauth_visits')
    .where('kind', '=', kind)
    .where('hash', 'in', [...hashes])
    .execute()
}

/** Deletes expired sessions and interactions of the library, expired tokens, and authorizations without tokens. */
export const purgeOAuth = async (tx: Tx, now: Date): Promise<void> => {
  const dayAgo = later(now, -1 * days)
  await tx.q.deleteFrom('oauth_visits').where('expires_at', '<=', now).execute()
  // A used code is kept for a day, so that its second use is recognized. A used refresh token is kept until it would have expired.
  await sql`
    with ended as (delete from oauth_tokens where id in (select id from oauth_tokens where expires_at <= ${dayAgo} order by expires_at limit 10000) returning id)
    delete from credentials where subject_id in (select id from ended)`.execute(tx.q)
  await sql`
    delete from oauth_families f where id in (
      select id from oauth_families where created_at <= ${dayAgo} and not exists (select from oauth_tokens t where t.family_id = oauth_families.id)
      order by created_at limit 10000)`.execute(tx.q)
}
