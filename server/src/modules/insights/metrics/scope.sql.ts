import { sql } from 'kysely'
import { oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

/**
 * Returns the currencies of organizations, and the time of the oldest change of a subscription that is due and has not
 * happened. Undefined if none is due.
 */
export const loadScope = async (db: Db, organizations: readonly string[], now: Date): Promise<{ currencies: string[]; overdue: Date | null }> => {
  const { rows } = await sql<{ currencies: string[]; overdue: Date | null }>`
    select array(select distinct default_presentment_currency from organizations where id = ${oneOf(organizations)} order by 1) as currencies,
      (select min(due_at) from subscriptions where due_at is not null and clock_id is null and due_at <= ${now} and organization_id = ${oneOf(organizations)}) as overdue`.execute(
    db.q,
  )
  return rows[0]!
}
