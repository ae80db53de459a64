import { sql, type RawBuilder } from 'kysely'

/**
 * Subquery for the member that replaces a pure seat holder in phase 2, and the customer of that member. `customers` is the
 * alias of the holder in the outer query; `h` and `m` are taken. Prefers the member of the first seat over the member of the first grant. Seats
 * and grants belong to other modules. They are read here because these files decide which customers are hidden.
 */
export const movedFrom = (customers: string): RawBuilder<unknown> => {
  const [tenant, id] = [sql.ref(`${customers}.organization_id`), sql.ref(`${customers}.id`)]
  const held = (table: 'seats' | 'benefit_grants', rank: number) => sql`(
    select ${sql.lit(rank)} as rank, h.id, h.member_id, h.buyer_customer_id as customer_id from ${sql.table(table)} h
    join members m on m.organization_id = h.organization_id and m.id = h.member_id and m.deleted_at is null
    where h.organization_id = ${tenant} and h.holder_customer_id = ${id} and h.buyer_customer_id <> ${id} order by h.id limit 1)`
  return sql`select member_id, customer_id from (${held('seats', 1)} union all ${held('benefit_grants', 2)}) either order by rank limit 1`
}
