import { sql, type RawBuilder } from 'kysely'
import type { Tx } from './postgres.ts'

interface MailedCode {
  readonly id: string
  readonly organization_id?: string
  readonly email: string
  readonly created_at: Date
  readonly expires_at: Date
  readonly tries_left: number
}

/**
 * One code per address (and organization, where the table has one): a new request takes the place of the old, `most`
 * times an hour. False: that was too often, and the last code stands.
 */
export const replaceCode = async (tx: Tx, table: 'sign_in_codes' | 'customer_session_codes', code: MailedCode, most: number): Promise<boolean> => {
  const name = sql.table(table)
  const tenant = (column: RawBuilder<unknown>) => (code.organization_id === undefined ? sql`` : sql`${column}, `)
  const recent = sql`${name}.created_at > ${new Date(code.created_at.getTime() - 3_600_000)}`
  const { numAffectedRows } = await sql`
    insert into ${name} (${tenant(sql`organization_id`)}id, email, created_at, expires_at, tries_left, requests)
    values (${tenant(sql`${code.organization_id}`)}${code.id}, ${code.email}, ${code.created_at}, ${code.expires_at}, ${code.tries_left}, 1)
    on conflict (${tenant(sql`organization_id`)}lower(email)) do update set
      id = excluded.id, email = excluded.email, expires_at = excluded.expires_at, tries_left = excluded.tries_left, hash = null,
      requests = case when ${recent} then ${name}.requests + 1 else 1 end,
      created_at = case when ${recent} then ${name}.created_at else excluded.created_at end
    where not (${recent}) or ${name}.requests < ${most}`.execute(tx.q)
  return numAffectedRows === 1n
}
