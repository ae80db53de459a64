import type { Benefit, Metadata } from '@bursar/contract'
import { sql } from 'kysely'
import { phaseOf, within, type Reach } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { ofCustomers, type CustomerRow } from '../../customers/index.ts'

/** What this file reads is written elsewhere, by those who guard it. */
type Whose = Pick<CustomerRow, 'organization_id' | 'id'>

/** The subscriptions that count, the oldest first. */
export const activeSubscriptions = (db: Db, { organization_id, id }: Whose) =>
  db.q
    .selectFrom('subscriptions')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('customer_id', '=', id)
    .where('status', 'in', ['trialing', 'active'])
    .orderBy('created_at')
    .orderBy('id')
    .execute()

/** The prices among theirs that charge by a meter. */
export const meteredPrices = (db: Db, { organization_id }: Whose, subscription_ids: readonly string[]) =>
  db.q
    .selectFrom('subscription_prices as s')
    .innerJoin('product_prices as p', (join) => join.onRef('p.organization_id', '=', 's.organization_id').onRef('p.id', '=', 's.price_id'))
    .select(['s.subscription_id', 'p.id', 'p.meter_id'])
    .where('s.organization_id', '=', organization_id)
    .where('s.subscription_id', 'in', [...subscription_ids])
    .where('p.meter_id', 'is not', null)
    .orderBy('s.position')
    .$narrowType<{ meter_id: string }>()
    .execute()

export interface HeldGrant {
  readonly id: string
  readonly created_at: Date
  readonly modified_at: Date | null
  readonly granted_at: Date
  readonly benefit_id: string
  readonly benefit_type: Benefit['type']
  readonly benefit_metadata: Metadata
  readonly member_id: string | null
  readonly properties: Readonly<Record<string, unknown>>
}

/** Whose grants are wanted: everybody's, or one member's, who as the owner has those of the customer itself too. */
export interface Portion {
  readonly member_id?: string | undefined
  readonly owner_id: string | null
  readonly most: number
}

/** What is granted and is to stay so; the customer's own first, then its members', the oldest first. */
export const heldGrants = async (db: Db, reach: Reach, { organization_id, id }: Whose, { member_id, owner_id, most }: Portion): Promise<HeldGrant[]> => {
  const whose =
    member_id === undefined ? sql`` : member_id === owner_id ? sql`and (member_id = ${member_id} or member_id is null)` : sql`and member_id = ${member_id}`
  // Nowhere else is anything of theirs, and only so each side of the lens is found by its index.
  const there = within(organization_id, 'machine', phaseOf(reach, organization_id))
  const { rows } = await sql<HeldGrant>`
    select g.id, g.created_at, g.modified_at, g.granted_at, g.benefit_id, b.type as benefit_type, b.metadata as benefit_metadata,
      coalesce(g.member_id, ${owner_id}::uuid) as member_id, g.properties
    from (
      select * from benefit_grants
      where ${ofCustomers(there, [id], 'benefit_grants')} and granted_at is not null and is_wanted ${whose}
      order by member_id is not null, created_at, id limit ${most}
    ) g join benefits b on b.organization_id = g.organization_id and b.id = g.benefit_id
    order by g.member_id is not null, g.created_at, g.id`.execute(db.q)
  return rows
}

/** What was credited on each meter by what is still granted. What does not roll over counts in its period alone. */
export const creditedMeters = async (db: Db, reach: Reach, { organization_id, id }: Whose) => {
  const there = within(organization_id, 'machine', phaseOf(reach, organization_id))
  const { rows } = await sql<{ id: string; created_at: Date; modified_at: Date | null; meter_id: string; credited_units: number }>`
    select (array_agg(c.id order by c.created_at, c.id))[1] as id, min(c.created_at) as created_at,
      nullif(max(c.created_at), min(c.created_at)) as modified_at, c.meter_id, sum(c.units)::bigint as credited_units
    from benefit_grants join meter_credits c on c.organization_id = benefit_grants.organization_id and c.grant_id = benefit_grants.id
    where ${ofCustomers(there, [id], 'benefit_grants')} and benefit_grants.granted_at is not null and benefit_grants.is_wanted
      and (c.rollover or c.period_start is not distinct from benefit_grants.cycled_for)
    group by c.meter_id order by 2, 1`.execute(db.q)
  return rows
}

/** Keeps a customer as they are until what is told of them is written down. */
export const holdTold = async (tx: Tx, organization_id: string, customer_id: string): Promise<void> => {
  await sql`select from customers where organization_id = ${organization_id} and id = ${customer_id} for share`.execute(tx.q)
}
