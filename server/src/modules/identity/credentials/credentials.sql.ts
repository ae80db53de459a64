import type { AnyScope, OrganizationRole } from '@bursar/contract'
import { sql } from 'kysely'
import type { Hasher, Secret, TokenKind } from '../../../kernel/secrets.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    credentials: { hash: string; pepper: number; kind: TokenKind; subject_id: string; organization_id: string | null }
  }
}

export interface Subject {
  readonly kind: TokenKind
  readonly subject_id: string
  readonly organization_id: string | null
}

/** From now on this secret opens that subject. Only its keyed hash is stored. */
export const addCredential = async (tx: Tx, hasher: Hasher, secret: Secret, subject: Subject): Promise<void> => {
  await tx.q
    .insertInto('credentials')
    .values({ ...subject, hash: hasher.hash(secret), pepper: hasher.current })
    .execute()
}

/** Ends every secret of a subject with the next request. True when there was one. */
export const dropCredentials = async (tx: Tx, kind: TokenKind, subject_id: string): Promise<boolean> => {
  const done = await tx.q.deleteFrom('credentials').where('subject_id', '=', subject_id).where('kind', '=', kind).executeTakeFirst()
  return done.numDeletedRows > 0n
}

/** What a secret opens, whatever its kind. */
export const findSubject = (db: Db, hasher: Hasher, secret: Secret): Promise<Subject | undefined> =>
  db.q.selectFrom('credentials').select(['kind', 'subject_id', 'organization_id']).where('hash', 'in', hasher.candidates(secret)).executeTakeFirst()

/** The same, holding the credential: of two who present it at once, the second finds it gone. */
export const takeSubject = (tx: Tx, hasher: Hasher, secret: Secret, kind: TokenKind): Promise<Subject | undefined> =>
  tx.q
    .deleteFrom('credentials')
    .where('hash', 'in', hasher.candidates(secret))
    .where('kind', '=', kind)
    .returning(['kind', 'subject_id', 'organization_id'])
    .executeTakeFirst()

/** Moves a credential to the newest pepper: the old one can be retired once nothing hangs on it. */
export const rehash = async (tx: Tx, hasher: Hasher, secret: Secret): Promise<void> => {
  const [current, ...older] = hasher.candidates(secret)
  if (older.length > 0) await tx.q.updateTable('credentials').set({ hash: current!, pepper: hasher.current }).where('hash', 'in', older).execute()
}

export interface Resolved {
  kind: TokenKind
  pepper: number
  credential_id: string
  organization_id: string | null
  scopes: AnyScope[] | null
  expires_at: Date | null
  created_at: Date
  last_used_at: Date | null
  user_id: string | null
  email: string | null
  is_operator: boolean | null
  memberships: { organization_id: string; role: OrganizationRole }[]
}

/**
 * Everything a request needs to know about its bearer, in one query: the credential, whether its owner may still enter,
 * and where that owner belongs at this moment; organizations in a `closed` status let nobody in. Nothing comes back for a credential that is unknown, revoked or orphaned.
 */
export const resolveCredential = async (db: Db, hashes: readonly string[], closed: readonly string[]): Promise<Resolved | undefined> => {
  const { rows } = await sql<Resolved>`
    select c.kind, c.pepper, c.subject_id as credential_id, c.organization_id,
      coalesce(oat.scopes, pat.scopes) as scopes,
      coalesce(oat.expires_at, pat.expires_at, us.expires_at) as expires_at,
      coalesce(oat.created_at, pat.created_at, us.created_at) as created_at,
      coalesce(oat.last_used_at, pat.last_used_at) as last_used_at,
      u.id as user_id, u.email, u.is_operator,
      coalesce(m.memberships, '[]') as memberships
    from credentials c
    left join organization_access_tokens oat on c.kind = 'organization' and oat.organization_id = c.organization_id and oat.id = c.subject_id and oat.revoked_at is null
    left join personal_access_tokens pat on c.kind = 'personal' and pat.id = c.subject_id and pat.revoked_at is null
    left join user_sessions us on c.kind = 'session' and us.id = c.subject_id
    left join organizations o on o.id = oat.organization_id and o.deleted_at is null and o.status <> all(${closed})
    left join users u on u.id = coalesce(pat.user_id, us.user_id) and u.deleted_at is null and u.blocked_at is null
    left join lateral (
      select jsonb_agg(jsonb_build_object('organization_id', om.organization_id, 'role', om.role)) as memberships
      from organization_members om join organizations mo on mo.id = om.organization_id and mo.deleted_at is null and mo.status <> all(${closed})
      where om.user_id = u.id
    ) m on u.id is not null
    where c.hash = any(${hashes}) and (o.id is not null or u.id is not null)
    limit 1`.execute(db.q)
  return rows[0]
}

/** Remembers when tokens were last used, many at a time. */
export const touchTokens = async (tx: Tx, ids: readonly string[], now: Date): Promise<void> => {
  await sql`update organization_access_tokens set last_used_at = ${now} where (organization_id, id) in (select organization_id, subject_id from credentials where kind = 'organization' and subject_id = any(${ids}::uuid[]))`.execute(
    tx.q,
  )
  await sql`update personal_access_tokens set last_used_at = ${now} where id = any(${ids}::uuid[])`.execute(tx.q)
}
