import type { OrderStatus } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { MemberPhase, TenantScope } from '../../../kernel/actors.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'

/** The person whose access is explained: a member, or the customer itself. */
export interface Recipient {
  readonly organization_id: string
  /** The customer that pays. */
  readonly customer_id: string
  readonly member_id: string | null
  /** True for the owner of the customer, who has what the customer itself has. */
  readonly is_owner: boolean
}

/** Finds a member in scope, including a removed one, whose former access can be explained. */
export const findMemberRecipient = async (db: Db, scope: TenantScope, id: string): Promise<Recipient | undefined> => {
  const { rows } = await sql<Recipient>`
    select organization_id, customer_id, id as member_id, role = 'owner' as is_owner from members where organization_id = ${inScope(scope)} and id = ${id}`.execute(
    db.q,
  )
  return rows[0]
}

/** One purchase that gives the benefit, or a manual grant, with the seat and the grant of the recipient. */
export interface ChainRow {
  readonly product_id: string | null
  readonly product_gives: boolean | null
  readonly order_id: string | null
  readonly order_status: OrderStatus | null
  readonly order_at: Date | null
  readonly benefits_revoked_at: Date | null
  readonly subscription_id: string | null
  readonly subscription_status: string | null
  readonly started_at: Date | null
  readonly ends_at: Date | null
  readonly ended_at: Date | null
  readonly grace_until: Date | null
  /** Null if the purchase has no seats. */
  readonly seats: number | null
  readonly seat_id: string | null
  readonly seat_status: 'pending' | 'claimed' | 'revoked' | null
  readonly claimed_at: Date | null
  readonly seat_revoked_at: Date | null
  readonly grant_id: string | null
  readonly is_manual: boolean | null
  readonly is_withheld: boolean | null
  readonly granted_at: Date | null
  readonly revoked_at: Date | null
  readonly error: { readonly message: string } | null
  readonly key_expires_at: Date | null
}

const paid = sql`('paid', 'partially_refunded', 'refunded')`

/** Reads the purchases, seats and grants through which a recipient has, had or may get a benefit. Reads at most `most` of each kind. */
export const findChains = async (
  db: Db,
  { organization_id, customer_id, member_id, is_owner }: Recipient,
  benefit_id: string,
  phase: MemberPhase,
  most: number,
): Promise<ChainRow[]> => {
  const tenant = sql`${organization_id}::uuid`
  const own = (table: string) =>
    sql`(${sql.ref(`${table}.buyer_customer_id`)} = ${customer_id} and ${sql.ref(`${table}.member_id`)} is null and ${sql.ref(`${table}.holder_customer_id`)} is null)`
  const held = (table: string): RawBuilder<unknown> => {
    if (member_id !== null)
      return is_owner ? sql`(${sql.ref(`${table}.member_id`)} = ${member_id} or ${own(table)})` : sql`${sql.ref(`${table}.member_id`)} = ${member_id}`
    return phase === 'phase2' ? own(table) : sql`(${sql.ref(`${table}.holder_customer_id`)} = ${customer_id} or ${own(table)})`
  }
  const gives = (product: string) =>
    sql`exists (select from product_benefits pb where pb.organization_id = ${tenant} and pb.product_id = ${sql.ref(product)} and pb.benefit_id = ${benefit_id})`
  // A purchase without seats gives its benefits to the customer itself, and not to its other members.
  const seated = (table: string) => (member_id !== null && !is_owner ? sql`${sql.ref(`${table}.seats`)} is not null` : sql`true`)
  const { rows } = await sql<ChainRow>`
    with given as (
      select * from benefit_grants g where g.organization_id = ${tenant} and g.benefit_id = ${benefit_id} and ${held('g')}
      order by (g.granted_at is not null) desc, g.id desc limit ${most}
    ), taken as (
      select * from seats s where s.organization_id = ${tenant} and ${held('s')} order by (s.status <> 'revoked') desc, s.id desc limit ${most}
    ), bought as (
      select subscription_id, order_id from given where not is_manual
      union select t.subscription_id, t.order_id from taken t
        left join subscriptions s on s.organization_id = ${tenant} and s.id = t.subscription_id
        left join orders o on o.organization_id = ${tenant} and o.id = t.order_id
        where ${gives('s.product_id')} or ${gives('o.product_id')}
      union (select s.id, null::uuid from subscriptions s where s.organization_id = ${tenant} and s.customer_id = ${customer_id} and ${seated('s')} and ${gives('s.product_id')}
        order by s.id desc limit ${most})
      union (select null::uuid, o.id from orders o where o.organization_id = ${tenant} and o.customer_id = ${customer_id} and o.subscription_id is null and o.status in ${paid}
        and ${seated('o')} and ${gives('o.product_id')} order by o.id desc limit ${most})
    ), chains as (
      select b.subscription_id, b.order_id, g.id as grant_id from bought b left join lateral (
        select id from given where subscription_id is not distinct from b.subscription_id and order_id is not distinct from b.order_id
        order by (granted_at is not null) desc, id desc limit 1) g on true
      union all select null, null, id from given where is_manual
    )
    select coalesce(s.product_id, o.product_id) as product_id, ${gives('p.id')} as product_gives,
      o.id as order_id, o.status as order_status, o.created_at as order_at, case when s.id is null then o.benefits_revoked_at end as benefits_revoked_at,
      s.id as subscription_id, s.status as subscription_status, coalesce(s.started_at, s.created_at) as started_at, s.ends_at, s.ended_at,
      case when s.status = 'past_due' then bg.due_at end as grace_until, case when s.id is null then o.seats else s.seats end as seats,
      t.id as seat_id, t.status as seat_status, t.claimed_at, t.revoked_at as seat_revoked_at,
      g.id as grant_id, g.is_manual, g.is_withheld, g.granted_at, g.revoked_at, g.error, k.expires_at as key_expires_at
    from chains c
    left join subscriptions s on s.organization_id = ${tenant} and s.id = c.subscription_id
    left join lateral (
      select * from orders x where x.organization_id = ${tenant} and (x.id = c.order_id or (x.subscription_id = c.subscription_id and x.billing_reason = 'subscription_create'))
      order by x.created_at limit 1) o on true
    left join products p on p.organization_id = ${tenant} and p.id = coalesce(s.product_id, o.product_id)
    left join benefit_graces bg on bg.organization_id = ${tenant} and bg.id = s.id
    left join given g on g.id = c.grant_id
    left join license_keys k on k.organization_id = ${tenant} and k.grant_id = g.id
    left join lateral (
      select * from seats x where x.organization_id = ${tenant} and (x.id = g.seat_id or x.id in (
        select id from taken where subscription_id is not distinct from c.subscription_id and order_id is not distinct from c.order_id))
      order by (x.status <> 'revoked') desc, x.id desc limit 1) t on true
    order by (g.granted_at is not null) desc, coalesce(g.id, t.id, s.id, o.id) desc limit ${most}`.execute(db.q)
  return rows
}
