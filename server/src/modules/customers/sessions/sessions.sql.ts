import { sql } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { exists } from '../records/customer-rows.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    customer_sessions: SessionRow
    customer_session_codes: {
      organization_id: string
      id: string
      email: string
      created_at: Date
      expires_at: Date
      hash: string | null
    }
  }
}

export interface SessionRow {
  organization_id: string
  id: string
  customer_id: string
  member_id: string | null
  created_at: Date
  expires_at: Date
  return_url: string | null
  /** True if the session's address was only typed, not verified. */
  unproved: boolean
}

export const insertSession = async (tx: Tx, session: SessionRow): Promise<void> => {
  await tx.q.insertInto('customer_sessions').values(session).execute()
}

export const findSession = (db: Db, organization_id: string, id: string): Promise<SessionRow | undefined> =>
  db.q.selectFrom('customer_sessions').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

export const deleteSession = async (tx: Tx, organization_id: string, id: string): Promise<void> => {
  await tx.q.deleteFrom('customer_sessions').where('organization_id', '=', organization_id).where('id', '=', id).execute()
}

/** Deletes a customer's sessions that were opened with a typed, unverified address. Returns their ids. */
export const deleteUnproved = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<string[]> => {
  const gone = await tx.q
    .deleteFrom('customer_sessions')
    .where('organization_id', '=', organization_id)
    .where('customer_id', '=', id)
    .where('unproved', '=', true)
    .returning('id')
    .execute()
  return gone.map((session) => session.id)
}

/** Returns the person and the seller of a session, for the mail about its leak. */
export const holderOf = (db: Db, organization_id: string, session_id: string) =>
  db.q
    .selectFrom('customer_sessions as s')
    .innerJoin('customers as c', (on) => on.onRef('c.organization_id', '=', 's.organization_id').onRef('c.id', '=', 's.customer_id'))
    .leftJoin('members as m', (on) => on.onRef('m.organization_id', '=', 's.organization_id').onRef('m.id', '=', 's.member_id'))
    .select(['s.customer_id', 'c.locale', 'c.billing_address', sql<string | null>`coalesce(m.email, c.email)`.as('email')])
    .where('s.organization_id', '=', organization_id)
    .where('s.id', '=', session_id)
    .executeTakeFirst()

export interface Match {
  readonly customer_id: string
  readonly member_id: string | null
  readonly name: string | null
  readonly email: string
}

/** Returns the accounts that can sign in with this email address: members in phase 2, and customers before phase 2. */
export const findMatches = async (db: Db, scope: TenantScope, organization_id: string, email: string): Promise<Match[]> => {
  const wanted = email.toLowerCase()
  const living = db.q.selectFrom('customers').select(['id', 'name', 'email']).where('organization_id', '=', inScope(scope)).where(exists(scope))
  if (scope.phases.get(organization_id) !== 'phase2') {
    const found = await living
      .where('organization_id', '=', organization_id)
      .where(sql`lower(email)`, '=', wanted)
      .execute()
    return found.map((customer) => ({ customer_id: customer.id, member_id: null, name: customer.name, email: customer.email! }))
  }
  return db.q
    .selectFrom('members as m')
    .innerJoin(living.as('c'), 'c.id', 'm.customer_id')
    .select(['m.customer_id', 'm.id as member_id', 'c.name', 'm.email'])
    .where('m.organization_id', '=', organization_id)
    .where(sql`lower(m.email)`, '=', wanted)
    .where('m.deleted_at', 'is', null)
    .orderBy('m.created_at')
    .orderBy('m.id')
    .limit(100)
    .execute()
}

export const findCode = (db: Db, organization_id: string, id: string) =>
  db.q
    .selectFrom('customer_session_codes')
    .select(['id', 'email', 'expires_at'])
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .executeTakeFirst()

export const setCodeHash = async (tx: Tx, organization_id: string, id: string, hash: string): Promise<void> => {
  await tx.q.updateTable('customer_session_codes').set({ hash }).where('organization_id', '=', organization_id).where('id', '=', id).execute()
}

/**
 * Deletes expired codes, up to `most` expired sessions and up to `most` expired address changes. The caller must delete
 * the credentials of the returned ids.
 */
export const deleteExpired = async (tx: Tx, now: Date, most: number): Promise<string[]> => {
  const ended = async (table: 'customer_sessions' | 'customer_email_changes', before: Date) => {
    const { rows } = await sql<{ id: string }>`
      delete from ${sql.table(table)} where (organization_id, id) in (select organization_id, id from ${sql.table(table)} where expires_at <= ${before} limit ${most})
      returning id`.execute(tx.q)
    return rows.map(({ id }) => id)
  }
  // Codes are kept for an hour after the request, because the rate limit counts the rows of the last hour.
  await tx.q
    .deleteFrom('customer_session_codes')
    .where('expires_at', '<=', now)
    .where('created_at', '<=', new Date(now.getTime() - 3_600_000))
    .execute()
  // Address changes are kept one more day, so that the previous address is notified even if the mail is late.
  return [...(await ended('customer_sessions', now)), ...(await ended('customer_email_changes', new Date(now.getTime() - 86_400_000)))]
}
