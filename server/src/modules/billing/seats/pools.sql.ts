import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type MemberPhase, type TenantScope } from '../../../kernel/actors.ts'
import type { Clocked } from '../../../platform/clocks.sql.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { heldPhase } from '../../organizations/index.ts'
import type { OrderRow } from '../records/orders.sql.ts'
import type { SubscriptionRow } from '../records/subscriptions.sql.ts'

/** Key of a pool: a subscription or an order. */
export interface PoolKey {
  readonly organization_id: string
  readonly subscription_id: string | null
  readonly order_id: string | null
}

/** A purchase that may have seats. */
export interface Purchase extends PoolKey, Clocked {
  /** The customer who pays for the seats. */
  readonly customer_id: string
  readonly product_id: string | null
  /** Number of bought seats. */
  readonly bought: number
  /** Reason why no seat can be assigned or claimed now. Null if seats can be assigned. */
  readonly closed: string | null
  /** True if the subscription has ended, or the benefits of the order were revoked. All seats are then revoked. */
  readonly over: boolean
}

/** The seats of one purchase. */
export interface Pool extends Purchase {
  /** Number of seats that may be assigned in total. A scheduled reduction already lowers this number. */
  readonly places: number
}

/** The ids by which a request can name a pool. */
export interface PoolNaming {
  readonly subscription_id?: string | null | undefined
  readonly order_id?: string | null | undefined
  readonly checkout_id?: string | null | undefined
}

/** The statuses of subscriptions and orders in which their seats can be assigned. */
export interface Giving {
  readonly subscriptions: readonly SubscriptionRow['status'][]
  readonly orders: readonly OrderRow['status'][]
}

/**
 * Counts the taken seats of a purchase: claimed seats, and seats with a valid invitation. Whether an invitation is
 * valid depends on the seat's clock, which may be a test clock.
 */
const takenIn = (pool: RawBuilder<unknown>, now: Date) => sql`(
  select count(*) from seats t where ${pool} and t.status <> 'revoked' and (t.status = 'claimed' or t.invitation_expires_at >
    coalesce((select c.now_at from test_clocks c where c.organization_id = t.organization_id and c.id = t.clock_id), ${now})))`

const ofSubscription = sql`t.organization_id = s.organization_id and t.subscription_id = s.id`
const ofOrder = sql`t.organization_id = o.organization_id and t.subscription_id is null and t.order_id = o.id`

/** True if the organization that this column names sells seats. */
export const sellsSeats = (organization_id: string) => sql<boolean>`exists (
  select from organizations seller where seller.id = ${sql.ref(organization_id)} and seller.deleted_at is null
    and (seller.feature_settings ->> 'seat_based_pricing_enabled')::boolean)`

/** The lowest number of seats in the scheduled changes of a subscription. Null if no change is scheduled. */
export const comingSeats = (organization_id: RawBuilder<unknown>, subscription_id: RawBuilder<unknown>) => sql<number | null>`(
  select min(u.seats) from subscription_updates u where u.organization_id = ${organization_id} and u.subscription_id = ${subscription_id})`

/** Returns `comingSeats` of a purchase. */
export const loadComing = async (db: Db, { organization_id, subscription_id }: PoolKey): Promise<number | null> => {
  if (subscription_id === null) return null
  const { rows } = await sql<{ coming: number | null }>`select ${comingSeats(sql`${organization_id}`, sql`${subscription_id}`)} as coming`.execute(db.q)
  return rows[0]!.coming
}

/** Records that are found together with a purchase. */
interface Found {
  readonly coming: number | null
  readonly sells: boolean
  /** The member phase, if the statement locks it. */
  readonly phase: MemberPhase | null
}

/** Whether a statement that finds a purchase also locks the member phase of its organization. */
type PhaseLock = 'phase locked' | 'no lock'
const phaseIn = (organization_id: string, lock: PhaseLock) => (lock === 'phase locked' ? heldPhase(sql.ref(organization_id)) : sql`null`)

type By = { readonly id: string } | { readonly checkout_id: string }
const isNamed = (table: 's' | 'o', by: By) =>
  'id' in by ? sql`${sql.ref(`${table}.id`)} = ${by.id}` : sql`${sql.ref(`${table}.checkout_id`)} = ${by.checkout_id}`

export type SeatSubscription = Pick<SubscriptionRow, 'organization_id' | 'id' | 'customer_id' | 'product_id' | 'clock_id' | 'seats' | 'status' | 'ended_at'>
export type SeatOrder = Pick<
  OrderRow,
  'organization_id' | 'id' | 'customer_id' | 'product_id' | 'clock_id' | 'seats' | 'status' | 'subscription_id' | 'benefits_revoked_at'
>

/** Finds a subscription by its own id or by the id of its checkout. */
export const findSubscriptionSeats = async (db: Db, scope: TenantScope, by: By, lock: PhaseLock): Promise<(SeatSubscription & Found) | undefined> => {
  const { rows } = await sql<SeatSubscription & Found>`
    select s.organization_id, s.id, s.customer_id, s.product_id, s.clock_id, s.seats, s.status, s.ended_at,
      ${comingSeats(sql`s.organization_id`, sql`s.id`)} as coming, ${sellsSeats('s.organization_id')} as sells, ${phaseIn('s.organization_id', lock)} as phase
    from subscriptions s where s.organization_id = ${inScope(scope)} and ${isNamed('s', by)}`.execute(db.q)
  return rows[0]
}

/** Finds an order by its own id or by the id of its checkout. */
export const findOrderSeats = async (db: Db, scope: TenantScope, by: By, lock: PhaseLock): Promise<(SeatOrder & Found) | undefined> => {
  const { rows } = await sql<SeatOrder & Found>`
    select o.organization_id, o.id, o.customer_id, o.product_id, o.clock_id, o.seats, o.status, o.subscription_id, o.benefits_revoked_at,
      null::int as coming, ${sellsSeats('o.organization_id')} as sells, ${phaseIn('o.organization_id', lock)} as phase
    from orders o where o.organization_id = ${inScope(scope)} and ${isNamed('o', by)}`.execute(db.q)
  return rows[0]
}

/**
 * Sums the bought and the available seats of every purchase within the scope, by the rules of `pools.ts`. Uses two
 * partial indexes: on purchases with seats, and on seats that are not revoked.
 */
export const sumPools = async (db: Db, scope: TenantScope, now: Date, giving: Giving): Promise<{ bought: number; available: number }> => {
  const tenants = sql`any(${organizationIds(scope)}::uuid[])`
  const { rows } = await sql<{ bought: number; available: number }>`
    select coalesce(sum(p.seats), 0)::bigint as bought, coalesce(sum(greatest(0, p.available)), 0)::bigint as available
    from (
      select s.seats, case when s.status = any(${giving.subscriptions}::text[]) and s.ended_at is null then
        least(s.seats, (select min(u.seats) from subscription_updates u where u.organization_id = s.organization_id and u.subscription_id = s.id))
        - ${takenIn(ofSubscription, now)} else 0 end as available
      from subscriptions s where s.organization_id = ${tenants} and s.seats is not null
      union all
      select o.seats, case when o.status = any(${giving.orders}::text[]) and o.benefits_revoked_at is null then o.seats - ${takenIn(ofOrder, now)} else 0 end
      from orders o where o.organization_id = ${tenants} and o.seats is not null and o.subscription_id is null
    ) p`.execute(db.q)
  return rows[0]!
}
