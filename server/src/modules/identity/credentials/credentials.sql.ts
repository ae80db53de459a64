import type { AnyScope, MemberRole, OrganizationRole } from '@bursar/contract'
import { sql, type Kysely, type RawBuilder } from 'kysely'
import type { MemberPhase } from '../../../kernel/actors.ts'
import type { Hasher, Secret, TokenKind } from '../../../kernel/secrets.ts'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tables, Tx } from '../../../platform/postgres/postgres.ts'

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

/** Statement that stores a credential of a subject, as a part of another statement. Only the keyed hash of the secret is stored. */
export const insertCredential = (q: Pick<Kysely<Tables>, 'insertInto'>, hasher: Hasher, secret: Secret, subject: Subject) =>
  q.insertInto('credentials').values({ ...subject, hash: hasher.hash(secret), pepper: hasher.current })

/** Stores a credential of a subject. */
export const addCredential = async (tx: Tx, hasher: Hasher, secret: Secret, subject: Subject): Promise<void> => {
  await insertCredential(tx.q, hasher, secret, subject).execute()
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
  scopes: ReadonlySet<AnyScope>
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

/** A presented secret: its kind, which its prefix shows, and its hashes. Organizations in a `closed` status are left out. */
export interface PresentedSecret {
  readonly kind: TokenKind
  readonly hashes: readonly string[]
  readonly closed: readonly string[]
}

/** A credential as selected. A list of 100 scopes is faster to read as one text than as an array. */
export type CredentialRow = Omit<Resolved, 'scopes'> & { scopes: string | null }

/**
 * The table of all data needed to authenticate a request, with one row. The data are the credential, the status of its
 * owner, and the owner's memberships. The table is empty for a credential that is unknown, revoked or orphaned. Most
 * requests present a token of an organization, which needs less.
 */
export const resolvedCredential = ({ kind, hashes, closed }: PresentedSecret): RawBuilder<CredentialRow> =>
  kind === 'organization'
    ? sql<CredentialRow>`(
        select c.kind, c.pepper, t.id as credential_id, t.organization_id, array_to_string(t.scopes, ' ') as scopes, t.expires_at, t.created_at, t.last_used_at, o.member_phase
        from credentials c
        join organization_access_tokens t on t.organization_id = c.organization_id and t.id = c.subject_id and t.revoked_at is null
        join organizations o on o.id = t.organization_id and o.deleted_at is null and o.status <> all(${closed}::text[])
        where c.hash = any(${hashes}::text[]) and c.kind = 'organization')`
    : sql<CredentialRow>`(
        select kind, pepper, credential_id, organization_id, array_to_string(scopes, ' ') as scopes, expires_at, created_at, last_used_at, user_id, email, is_operator,
          memberships, member_phase, customer_id, member_id, member_role, client_id, second_factor, restricted
        from resolve_credential(${hashes}, ${closed}))`

export const readCredential = (row: CredentialRow): Resolved => ({ ...row, scopes: setOf(row.scopes ?? '') })

/** The sets of scopes that were used last, by their text. Most tokens share a few sets. */
const scopeSets = new Map<string, ReadonlySet<AnyScope>>()
const mostScopeSets = 1000

const setOf = (text: string): ReadonlySet<AnyScope> => {
  const known = scopeSets.get(text)
  if (known) return known
  if (scopeSets.size >= mostScopeSets) scopeSets.delete(scopeSets.keys().next().value!)
  const scopes = new Set(text === '' ? [] : (text.split(' ') as AnyScope[]))
  scopeSets.set(text, scopes)
  return scopes
}

/** Finds the credential of a presented secret. */
export type FindCredential = (presented: PresentedSecret) => Promise<Resolved | undefined>

/** Returns a function that finds a credential with a statement of its own. */
export const credentialsIn =
  (db: Db): FindCredential =>
  async (presented) => {
    const { rows } = await sql<CredentialRow>`select * from ${resolvedCredential(presented)} c`.execute(db.q)
    return rows[0] && readCredential(rows[0])
  }

/** Records the last use of many tokens. */
export const touchTokens = async (tx: Tx, ids: readonly string[], now: Date): Promise<void> => {
  await sql`update organization_access_tokens set last_used_at = ${now} where (organization_id, id) in (select organization_id, subject_id from credentials where kind = 'organization' and subject_id = any(${ids}::uuid[]))`.execute(
    tx.q,
  )
  await sql`update personal_access_tokens set last_used_at = ${now} where id = any(${ids}::uuid[])`.execute(tx.q)
}
