import { sql } from 'kysely'
import type { MemberPhase } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

export interface EndedGrant {
  readonly grant_id: string
  readonly benefit_id: string
  readonly benefit_description: string
  readonly customer_id: string
  readonly member_id: string | null
  readonly seat_id: string | null
}

/** Lists up to `most` grants that an order gives now, and counts all of them. */
export const grantsOfOrder = async (
  db: Db,
  { organization_id, id }: { organization_id: string; id: string },
  phase: MemberPhase,
  most: number,
): Promise<{ items: EndedGrant[]; count: number }> => {
  const shown = phase === 'phase2' ? sql`g.buyer_customer_id` : sql`coalesce(g.holder_customer_id, g.buyer_customer_id)`
  const { rows } = await sql<EndedGrant & { count: number }>`
    select g.id as grant_id, g.benefit_id, b.description as benefit_description, ${shown} as customer_id, g.member_id, g.seat_id, count(*) over () as count
    from benefit_grants g join benefits b on b.organization_id = g.organization_id and b.id = g.benefit_id
    where g.organization_id = ${organization_id} and g.order_id = ${id} and g.granted_at is not null order by g.id limit ${most}`.execute(db.q)
  return { items: rows.map(({ count: _, ...grant }) => grant), count: rows[0]?.count ?? 0 }
}
