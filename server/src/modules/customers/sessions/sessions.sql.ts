import { sql } from 'kysely'
import type { Reach } from '../../../kernel/actors.ts'
import { withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { exists } from '../customers/customers.sql.ts'

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
      tries_left: number
      requests: number
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
  /** It came of an address that was only typed. */
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

/** Removes the sessions of a customer that came of an address that was only typed. */
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

/** Whom to tell that a session of theirs has leaked. */
export const holderOf = (db: Db, organization_id: string, session_id: string) =>
  db.q
    .selectFrom('customer_sessions as s')
    .innerJoin('organizations as o', 'o.id', 's.organization_id')
    .innerJoin('customers as c', (on) => on.onRef('c.organization_id', '=', 's.organization_id').onRef('c.id', '=', 's.customer_id'))
    .leftJoin('members as m', (on) => on.onRef('m.organization_id', '=', 's.organization_id').onRef('m.id', '=', 's.member_id'))
    .select(['o.name as organization_name', 's.customer_id', sql<string | null>`coalesce(m.email, c.email)`.as('email')])
    .where('s.organization_id', '=', organization_id)
    .where('s.id', '=', session_id)
    .executeTakeFirst()

export interface Match {
  readonly customer_id: string
  readonly member_id: string | null
  readonly name: string | null
  readonly email: string
}

/** Everyone in an organization who signs in with this address: members, or the customers themselves before the member model. */
export const findMatches = async (db: Db, reach: Reach, organization_id: string, email: string): Promise<Match[]> => {
  const wanted = email.toLowerCase()
  const living = db.q.selectFrom('customers').select(['id', 'name', 'email']).where('organization_id', '=', withinReach(reach)).where(exists(reach))
  if (reach.phases.get(organization_id) !== 'phase2') {
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

/** Spends one try on the code of this organization and address, whoever asks and whether or not one was mailed: tries run out however many guess at once, and a known address costs no more time than an unknown one. */
export const spendTry = (tx: Tx, organization_id: string, email: string, now: Date) =>
  tx.q
    .updateTable('customer_session_codes')
    .set((row) => ({ tries_left: row('tries_left', '-', 1) }))
    .where('organization_id', '=', organization_id)
    .where(sql`lower(email)`, '=', email.toLowerCase())
    .where('tries_left', '>', 0)
    .where('expires_at', '>', now)
    .returning(['id', 'hash'])
    .executeTakeFirst()

/** The code was right and its owner has something to choose: the try did not count. */
export const returnTry = async (tx: Tx, organization_id: string, id: string): Promise<void> => {
  await tx.q
    .updateTable('customer_session_codes')
    .set((row) => ({ tries_left: row('tries_left', '+', 1) }))
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .execute()
}

export const deleteCode = async (tx: Tx, organization_id: string, id: string): Promise<void> => {
  await tx.q.deleteFrom('customer_session_codes').where('organization_id', '=', organization_id).where('id', '=', id).execute()
}

/** Removes what has run out, at most so many of each, and hands back what its secrets opened. */
export const deleteExpired = async (tx: Tx, now: Date, most: number): Promise<string[]> => {
  const ended = async (table: 'customer_sessions' | 'customer_email_changes', before: Date) => {
    const { rows } = await sql<{ id: string }>`
      delete from ${sql.table(table)} where (organization_id, id) in (select organization_id, id from ${sql.table(table)} where expires_at <= ${before} limit ${most})
      returning id`.execute(tx.q)
    return rows.map(({ id }) => id)
  }
  // Kept for an hour after it was first asked for: the row also counts how often.
  await tx.q
    .deleteFrom('customer_session_codes')
    .where('expires_at', '<=', now)
    .where('created_at', '<=', new Date(now.getTime() - 3_600_000))
    .execute()
  // A change is kept for a day more: whoever had the address before must be told, also when the mail is late.
  return [...(await ended('customer_sessions', now)), ...(await ended('customer_email_changes', new Date(now.getTime() - 86_400_000)))]
}
