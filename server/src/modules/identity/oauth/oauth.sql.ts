import { sql } from 'kysely'
import type { Hasher, Secret, TokenKind } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export type OAuthTokenKind = Extract<TokenKind, 'oauth_access' | 'oauth_refresh' | 'oauth_code'>

export interface FamilyRow {
  id: string
  client_id: string
  user_id: string
  created_at: Date
  scopes: string[]
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

/** A family counts as long as the person's grant does: the foreign key sees to it. */
export const findFamily = (db: Db, id: string): Promise<FamilyRow | undefined> =>
  db.q.selectFrom('oauth_families').selectAll().where('id', '=', id).executeTakeFirst()

export const insertFamily = async (tx: Tx, family: FamilyRow): Promise<void> => {
  await tx.q.insertInto('oauth_families').values(family).execute()
}

/**
 * Stores a token under its hash. One that is there already stays as it is: two refreshes with the same old token make
 * the same new one, and only the first of them writes it.
 */
export const storeToken = async (tx: Tx, hasher: Hasher, secret: Secret, token: OAuthTokenRow): Promise<void> => {
  // The hash decides between two at once: whoever comes second waits here, and then finds it taken.
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
  /** A token that replaced this one is stored. */
  replaced: boolean
}

/** The token that a secret opens, if its kind is right. */
export const findToken = async (db: Db, hasher: Hasher, secret: Secret, kind: OAuthTokenKind): Promise<FoundToken | undefined> => {
  const { rows } = await sql<FoundToken>`
    select t.*, exists (select from oauth_tokens s where s.parent_id = t.id) as replaced
    from credentials c join oauth_tokens t on t.id = c.subject_id and t.kind = c.kind
    where c.hash = any(${hasher.candidates(secret)}) and c.kind = ${kind}`.execute(db.q)
  return rows[0]
}

/** Uses a token up. False: somebody was first. */
export const consumeToken = async (tx: Tx, id: string, now: Date, from: string): Promise<boolean> => {
  const done = await tx.q
    .updateTable('oauth_tokens')
    .set({ consumed_at: now, consumed_from: from })
    .where('id', '=', id)
    .where('consumed_at', 'is', null)
    .executeTakeFirst()
  return done.numUpdatedRows > 0n
}

/** Ends authorizations with all that came of them. */
export const endFamilies = async (tx: Tx, ids: readonly string[]): Promise<void> => {
  if (ids.length === 0) return
  await sql`
    with ended as (delete from oauth_tokens where family_id = any(${ids}::uuid[]) returning id)
    delete from credentials where subject_id in (select id from ended)`.execute(tx.q)
  await tx.q
    .deleteFrom('oauth_families')
    .where('id', 'in', [...ids])
    .execute()
}

/** The authorizations of an app: all of them, or those of one person. */
export const familiesOf = async (tx: Tx, client_id: string, user_id?: string): Promise<string[]> => {
  let found = tx.q.selectFrom('oauth_families').select('id').where('client_id', '=', client_id)
  if (user_id !== undefined) found = found.where('user_id', '=', user_id)
  return (await found.execute()).map(({ id }) => id)
}

export const dropToken = async (tx: Tx, id: string): Promise<void> => {
  await tx.q.deleteFrom('credentials').where('subject_id', '=', id).execute()
  await tx.q.deleteFrom('oauth_tokens').where('id', '=', id).execute()
}

/** The authorization that a token came of, with whose it is and the inner id of the client. */
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

/** Removes what has run out: visits, tokens, and authorizations of which nothing is left. */
export const purgeOAuth = async (tx: Tx, now: Date): Promise<void> => {
  const dayAgo = later(now, -1 * days)
  await tx.q.deleteFrom('oauth_visits').where('expires_at', '<=', now).execute()
  // A used code is kept for a day, so that its second use is recognised; a used refresh token until it would have expired.
  await sql`
    with ended as (delete from oauth_tokens where id in (select id from oauth_tokens where expires_at <= ${dayAgo} order by expires_at limit 10000) returning id)
    delete from credentials where subject_id in (select id from ended)`.execute(tx.q)
  await sql`
    delete from oauth_families f where id in (
      select id from oauth_families where created_at <= ${dayAgo} and not exists (select from oauth_tokens t where t.family_id = oauth_families.id)
      order by created_at limit 10000)`.execute(tx.q)
}
