import type { Benefit, CustomerStateSubscription, Metadata, Meter } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Clocked } from '../../../platform/clocks.sql.ts'
import { inScope, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { creditedOn, usagePeriodsOf, type UsageSpan } from '../../billing/index.ts'
import { activeMetersJson, type LoadedCustomerMeter } from '../meters/customer-meters.sql.ts'
import { reservedUnits } from '../../usage/index.ts'
import { customerColumns, exists, ownerWhere, shownWithCustomer, type CustomerRow, type findCustomer, type Marked } from '../../customers/index.ts'

export type Naming = Parameters<typeof findCustomer>[2]

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

/** A metered price of a subscription. */
interface MeteredPrice {
  readonly id: string
  readonly meter: Meter
  readonly unit_amount: string
  readonly cap_amount: number | null
  readonly credited_units: number
  /** The period whose usage is billed together. */
  readonly since: Date
  readonly until: Date
  /** The usage periods in this period. Only their usage is billed. */
  readonly periods: readonly UsageSpan[]
}

type ActiveSubscription = Omit<z.output<typeof CustomerStateSubscription>, 'meters'> & { readonly meters: readonly MeteredPrice[] }

interface ActiveMeter extends Pick<LoadedCustomerMeter, 'id' | 'created_at' | 'modified_at' | 'meter' | 'credited_units' | 'since'> {
  /** Units that live reservations hold, as decimal text. */
  readonly reserved_units: string
}

/** Selects the grants of a state: all grants of the customer, or those of one member. An owner also has the customer's own grants. */
export interface Portion {
  readonly member_id?: string | undefined
  readonly most: number
}

/** A customer with its subscriptions, grants and meters. */
export interface LoadedState {
  readonly customer: CustomerRow & Marked
  /** Active and trialing subscriptions with their metered prices, oldest first. */
  readonly subscriptions: readonly ActiveSubscription[]
  /** Grants that are active and still wanted. The customer's own grants come first, then those of members, each oldest first. */
  readonly grants: readonly HeldGrant[]
  /** The meters of live subscriptions and of active grants on which the customer has usage or credits, oldest first. */
  readonly meters: readonly ActiveMeter[]
}

/** Columns of a subscription that a state shows. */
const shown = sql.raw(
  [
    'id',
    'created_at',
    'modified_at',
    'metadata',
    'custom_field_data',
    'status',
    'amount',
    'currency',
    'recurring_interval',
    'current_period_start',
    'current_period_end',
    'trial_start',
    'trial_end',
    'cancel_at_period_end',
    'canceled_at',
    'started_at',
    'ends_at',
    'product_id',
    'discount_id',
  ]
    .map((column) => `s.${column}`)
    .join(', '),
)

const subscriptions = sql`
  select coalesce(json_agg(s order by s.created_at, s.id), '[]') from (
    select ${shown}, (
      select coalesce(json_agg(json_build_object('id', p.id, 'meter', t, 'unit_amount', p.unit_amount::text, 'cap_amount', p.cap_amount,
        'credited_units', ${creditedOn('s', 'p.meter_id')}, 'since', coalesce(s.current_meter_period_start, s.current_period_start),
        'until', coalesce(s.current_meter_period_end, s.current_period_end), 'periods', ${usagePeriodsOf('s', 'p')}) order by r.position), '[]')
      from subscription_prices r join product_prices p on p.organization_id = r.organization_id and p.id = r.price_id
      join meters t on t.organization_id = p.organization_id and t.id = p.meter_id
      where r.organization_id = s.organization_id and r.subscription_id = s.id) as meters
    from subscriptions s where s.organization_id = customers.organization_id and s.customer_id = customers.id and s.status in ('trialing', 'active')
  ) s`

const reserved = (at: Date) =>
  sql`, 'reserved_units', ${reservedUnits({ organization_id: sql.ref('m.organization_id'), customer_id: sql.ref('m.customer_id'), meter_id: sql.ref('m.meter_id') }, at)}::text`

const inForce = sql`granted_at is not null and is_wanted`

const grants = (scope: TenantScope, { member_id, most }: Portion) => {
  const whose =
    member_id === undefined ? [inForce] : [sql`${inForce} and member_id = ${member_id}`, sql`${inForce} and member_id is null and o.id = ${member_id}`]
  return sql`
    select coalesce(json_agg(json_build_object(
      'id', g.id, 'created_at', g.created_at, 'modified_at', g.modified_at, 'granted_at', g.granted_at, 'benefit_id', g.benefit_id, 'benefit_type', b.type,
      'benefit_metadata', b.metadata, 'member_id', coalesce(g.member_id, o.id), 'properties', g.properties)
      order by g.member_id is not null, g.created_at, g.id), '[]')
    from (
      select * from (${shownWithCustomer(scope, 'benefit_grants', whose)}) held order by member_id is not null, created_at, id limit ${most}
    ) g join benefits b on b.organization_id = g.organization_id and b.id = g.benefit_id`
}

type JsonPrice = Omit<JsonRow<MeteredPrice>, 'periods'> & { readonly periods: readonly JsonRow<UsageSpan>[] }

interface StateRow {
  readonly subscriptions: readonly (Omit<JsonRow<ActiveSubscription>, 'meters'> & { readonly meters: readonly JsonPrice[] })[]
  readonly grants: readonly JsonRow<HeldGrant>[]
  readonly meters: readonly JsonRow<ActiveMeter>[]
}

const stamps = { created_at: true, modified_at: true } as const
const subscriptionFromJson = rowFromJson<Omit<ActiveSubscription, 'meters'>>({
  ...stamps,
  current_period_start: true,
  current_period_end: true,
  trial_start: true,
  trial_end: true,
  canceled_at: true,
  started_at: true,
  ends_at: true,
})
const grantFromJson = rowFromJson<HeldGrant>({ ...stamps, granted_at: true })
const meterFromJson = rowFromJson<ActiveMeter>({ ...stamps, since: true })
const spanFromJson = rowFromJson<UsageSpan>({ since: true, until: true })
const datesFromJson = rowFromJson<Omit<MeteredPrice, 'periods'>>({ since: true, until: true })
const priceFromJson = ({ periods, ...price }: JsonPrice): MeteredPrice => ({ ...datesFromJson(price), periods: periods.map(spanFromJson) })

/** Loads states in one statement, and so from one snapshot. `at` decides which reservations are live. Only reads the tables of other modules. */
const loadStates = async (db: Db, scope: TenantScope, at: Date, condition: RawBuilder<unknown>, portion: Portion): Promise<LoadedState[]> => {
  const { rows } = await sql<CustomerRow & Marked & StateRow>`
    select ${customerColumns(scope)}, customers.pure_holder as only_holds, customers.becomes_team as buys_seats,
      (${subscriptions}) as subscriptions, (${grants(scope, portion)}) as grants, (${activeMetersJson(scope, reserved(at))}) as meters
    from customers left join lateral (${ownerWhere('customers.organization_id', 'customers.id')}) o on true
    where customers.organization_id = ${inScope(scope)} and ${condition}`.execute(db.q)
  return rows.map(({ subscriptions: active, grants: held, meters: credited, ...customer }) => ({
    customer,
    subscriptions: active.map(({ meters: prices, ...one }) => ({ ...subscriptionFromJson(one), meters: prices.map(priceFromJson) })),
    grants: held.map(grantFromJson),
    meters: credited.map(meterFromJson),
  }))
}

/** Returns the states of the matching customers. There are two only if two organizations in scope use the same external id. */
export const findStates = (db: Db, scope: TenantScope, at: Date, naming: Naming, portion: Portion): Promise<LoadedState[]> => {
  const named = 'id' in naming ? sql`customers.id = ${naming.id}` : sql`customers.external_id = ${naming.external_id}`
  return loadStates(db, scope, at, sql`${named} and ${exists(scope)} limit 2`, portion)
}

/** Returns the states of customers that exist in the current phase, or that were deleted. */
export const findToldStates = (db: Db, scope: TenantScope, at: Date, ids: readonly string[], portion: Portion): Promise<LoadedState[]> =>
  loadStates(db, scope, at, sql`customers.id = ${oneOf(ids)} and (${exists(scope)} or customers.deleted_at is not null)`, portion)

/**
 * Locks customers in share mode, in the order of their ids, until the transaction has written their state events.
 * Returns the test clock of each customer.
 */
export const holdTold = async (tx: Tx, organization_id: string, ids: readonly string[]): Promise<Map<string, Clocked>> => {
  const { rows } = await sql<Clocked & { id: string }>`
    select organization_id, id, clock_id from customers
    where organization_id = ${organization_id} and id = ${oneOf(ids)} order by id for share`.execute(tx.q)
  return new Map(rows.map((row) => [row.id, row]))
}
