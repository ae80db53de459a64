import type { AnyScope, MemberRole, OrganizationRole } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { MemberPhase } from '../../../kernel/actors.ts'
import type { Hasher, Secret, TokenKind } from '../../../kernel/secrets.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
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

/** Stores a credential of a subject. Only the keyed hash of the secret is stored. */
export const addCredential = async (tx: Tx, hasher: Hasher, secret: Secret, subject: Subject): Promise<void> => {
  await tx.q
    .insertInto('credentials')
    .values({ ...subject, hash: hasher.hash(secret), pepper: hasher.current })
    .execute()
}

/** Revokes every credential of one kind of a subject. The next request with it is rejected. Returns true if there was one. */
export const dropCredentials = async (tx: Tx, kind: TokenKind, subject_id: string): Promise<boolean> => {
  const done = await tx.q.deleteFrom('credentials').where('subject_id', '=', subject_id).where('kind', '=', kind).executeTakeFirst()
  return done.numDeletedRows > 0n
}

/** Revokes all credentials, of all kinds, of subjects that are deleted or expired. */
export const forgetSubjects = async (tx: Tx, subject_ids: readonly string[]): Promise<void> => {
  if (subject_ids.length > 0) await tx.q.deleteFrom('credentials').where('subject_id', '=', oneOf(subject_ids)).execute()
}

/** Finds the subject of a secret of any kind. */
export const findSubject = (db: Db, hasher: Hasher, secret: Secret): Promise<Subject | undefined> =>
  db.q.selectFrom('credentials').select(['kind', 'subject_id', 'organization_id']).where('hash', 'in', hasher.candidates(secret)).executeTakeFirst()

/** Finds the subject of a secret and deletes the credential. If two requests present the secret concurrently, only one succeeds. */
export const takeSubject = (tx: Tx, hasher: Hasher, secret: Secret, kind: TokenKind): Promise<Subject | undefined> =>
  tx.q
    .deleteFrom('credentials')
    .where('hash', 'in', hasher.candidates(secret))
    .where('kind', '=', kind)
    .returning(['kind', 'subject_id', 'organization_id'])
    .executeTakeFirst()

/** Rehashes a credential with the newest pepper. An old pepper can be retired once no credential uses it. */
export const rehash = async (tx: Tx, hasher: Hasher, secret: Secret): Promise<void> => {
  const [current, ...older] = hasher.candidates(secret)
  if (older.length > 0) await tx.q.updateTable('credentials').set({ hash: current!, pepper: hasher.current }).where('hash', 'in', older).execute()
}

export interface Resolved {
  kind: Exclude<TokenKind, 'checkout' | 'checkout_link'>
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
  memberships: { organization_id: string; role: OrganizationRole; phase: MemberPhase }[]
  member_phase: MemberPhase | null
  customer_id: string | null
  member_id: string | null
  member_role: MemberRole | null
  client_id: string | null
  second_factor: boolean | null
  /** True if the user granted the app access to selected organizations only. */
  restricted: boolean
}

/**
 * The table of all data needed to authenticate a request, with one row. The data are the credential, the status of its
 * owner, and the owner's memberships. Organizations in a `closed` status are left out. The table is empty for a
 * credential that is unknown, revoked or orphaned.
 */
export const resolvedCredential = (hashes: readonly string[], closed: readonly string[]): RawBuilder<Resolved> =>
  sql<Resolved>`resolve_credential(${hashes}, ${closed})`

/** Finds the credential that has one of these hashes. Leaves out organizations in a `closed` status. */
export type FindCredential = (hashes: readonly string[], closed: readonly string[]) => Promise<Resolved | undefined>

/** Returns a function that finds a credential with a statement of its own. */
export const credentialsIn =
  (db: Db): FindCredential =>
  async (hashes, closed) =>
    (await sql<Resolved>`select * from ${resolvedCredential(hashes, closed)}`.execute(db.q)).rows[0]

/** Records the last use of many tokens. */
export const touchTokens = async (tx: Tx, ids: readonly string[], now: Date): Promise<void> => {
  await sql`update organization_access_tokens set last_used_at = ${now} where (organization_id, id) in (select organization_id, subject_id from credentials where kind = 'organization' and subject_id = any(${ids}::uuid[]))`.execute(
    tx.q,
  )
  await sql`update personal_access_tokens set last_used_at = ${now} where id = any(${ids}::uuid[])`.execute(tx.q)
}
