import { sql } from 'kysely'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { OrganizationRow } from '../organizations/organizations.sql.ts'

export interface LogoRow {
  organization_id: string
  sha256: string
  created_at: Date
  content_type: string
  bytes: Buffer
  /** True if a document shows this copy. It is then kept for ever. */
  in_documents: boolean
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    organization_logos: LogoRow
  }
}

/** Copies that stay after the logo has changed, because mails and link previews still show them. */
const kept = 5

/** Stores a copy, and deletes the oldest copies of the organization that no document shows. */
export const insertLogo = async (tx: Tx, { id }: Locked<OrganizationRow>, row: Omit<LogoRow, 'organization_id' | 'in_documents'>): Promise<void> => {
  await tx.q
    .insertInto('organization_logos')
    .values({ organization_id: id, ...row, in_documents: false })
    .onConflict((twin) => twin.columns(['organization_id', 'sha256']).doUpdateSet({ created_at: row.created_at }))
    .execute()
  await sql`delete from organization_logos where organization_id = ${id} and not in_documents and sha256 in (
    select sha256 from organization_logos where organization_id = ${id} order by created_at desc, sha256 offset ${kept})`.execute(tx.q)
}

/** Finds the copy whose checksum starts with the given digits. */
export const findLogo = (db: Db, organization_id: string, prefix: string): Promise<LogoRow | undefined> =>
  db.q.selectFrom('organization_logos').selectAll().where('organization_id', '=', organization_id).where('sha256', 'like', `${prefix}%`).executeTakeFirst()

/**
 * Marks a copy as part of a document, so that it is kept. Writes only once for each copy. False if there is no such copy, or if
 * `most` others are kept already.
 */
export const markInDocuments = async (tx: Tx, organization_id: string, sha256: string, most: number): Promise<boolean> => {
  const { rows } = await sql`
    with marked as (
      update organization_logos set in_documents = true where organization_id = ${organization_id} and sha256 = ${sha256} and not in_documents
        and (select count(*) from organization_logos where organization_id = ${organization_id} and in_documents) < ${most}
      returning 1)
    select from marked union all
    select from organization_logos where organization_id = ${organization_id} and sha256 = ${sha256} and in_documents`.execute(tx.q)
  return rows.length > 0
}

/** Returns organizations whose logo was never copied, or changed since. */
export const findWithoutCopy = async (db: Db, limit: number): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id from organizations where avatar_url is not null and deleted_at is null and logo ->> 'source' is distinct from avatar_url limit ${limit}`.execute(
    db.q,
  )
  return rows.map(({ id }) => id)
}
