import type { MovedCustomer } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { asked, text, type Export } from '../../../platform/postgres/exports.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

/** Key of the last pair of the previous page. */
export interface Pair {
  readonly holder_customer_id: string
  readonly member_id: string
}

/** Tables that reference seat holders. A row without a member is not prepared yet and is not part of the map. */
const tables = ['seats', 'benefit_grants'] as const
const mapped = 'h.holder_customer_id <> h.buyer_customer_id and h.member_id is not null'

/**
 * Lists the next pairs of a seat holder and its present or future member, ordered by id. Steps from holder to holder
 * through an index of each table, so that only the rows of the page are read.
 */
export const listPairs = async (db: Db, organization_id: string, after: Pair | undefined, limit: number): Promise<MovedCustomer[]> => {
  const beyond = after ? sql`where (walk.holder, pair.member_id) > (${after.holder_customer_id}::uuid, ${after.member_id}::uuid)` : sql``
  const own = sql`h.organization_id = ${organization_id} and ${sql.raw(mapped)}`
  const next = (from: RawBuilder<unknown>) => sql`(
    select first.holder from (${sql.join(
      tables.map(
        (table) => sql`(select h.holder_customer_id as holder from ${sql.table(table)} h where ${own} and ${from} order by h.holder_customer_id limit 1)`,
      ),
      sql` union all `,
    )}) first order by 1 limit 1)`
  const pairs = tables.map(
    (table) => sql`select h.member_id, h.buyer_customer_id from ${sql.table(table)} h where ${own} and h.holder_customer_id = walk.holder`,
  )
  const { rows } = await sql<MovedCustomer>`
    with recursive walk (holder, at) as (
      select ${next(after ? sql`h.holder_customer_id >= ${after.holder_customer_id}::uuid` : sql`h.holder_customer_id is not null`)}, 1
      union all
      select ${next(sql`h.holder_customer_id > walk.holder`)}, walk.at + 1 from walk where walk.holder is not null and walk.at <= ${limit}
    )
    select walk.holder as holder_customer_id, pair.member_id, pair.buyer_customer_id as customer_id, m.email
    from walk cross join lateral (${sql.join(pairs, sql` union `)}) pair
    join members m on m.organization_id = ${organization_id} and m.id = pair.member_id
    ${beyond} order by 1, 2 limit ${limit}`.execute(db.q)
  return rows
}

/** Returns the COPY statement that exports all pairs as a file. */
export const pairsExport = (organization_id: string): Export => {
  const own = asked('organization', 'uuid')
  const pairs = tables
    .map((table) => `select h.holder_customer_id, h.member_id, h.buyer_customer_id from ${table} h where h.organization_id = ${own} and ${mapped}`)
    .join(' union ')
  return {
    copy: `copy (select p.holder_customer_id as "Holder Customer ID", p.member_id as "Member ID", p.buyer_customer_id as "Customer ID", ${text('m.email')} as "Email"
      from (${pairs} order by 1, 2) p join members m on m.organization_id = ${own} and m.id = p.member_id
      order by p.holder_customer_id, p.member_id) to stdout with (format csv, header)`,
    count: `select count(*) as total from (${pairs}) p`,
    asked: { organization: organization_id },
    organizations: [organization_id],
    timezone: 'UTC',
  }
}
