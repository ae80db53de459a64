import type { CustomerUsageCharge, Meter } from '@bursar/contract'
import { sql } from 'kysely'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { creditedOn, usagePeriodsOf } from '../../billing/index.ts'
import { activeMetersJson, type LoadedCustomerMeter } from './customer-meters.sql.ts'

/** A metered price of a live subscription, without its usage. */
export type LoadedCharge = Omit<CustomerUsageCharge, 'consumed_units' | 'amount' | 'projected_units' | 'projected_amount'> & {
  readonly meter: Meter
  /** False during a trial, and if another subscription is billed for the meter. */
  readonly is_billed: boolean
}

type OwnMeter = Pick<LoadedCustomerMeter, 'meter' | 'credited_units' | 'since'>

/** The meters and metered prices of a customer. */
export interface LoadedUsage {
  readonly organization_id: string
  readonly customer_id: string
  /** The time of the customer's test clock. Null for the system clock. */
  readonly now_at: Date | null
  /** Customer meters of live subscriptions and of granted credits, oldest first. */
  readonly meters: readonly OwnMeter[]
  /** Oldest subscription first. */
  readonly charges: readonly LoadedCharge[]
}

const charges = sql`
  select coalesce(json_agg(json_build_object('price_id', p.id, 'subscription_id', s.id, 'product_name', o.name, 'currency', p.price_currency,
    'unit_amount', p.unit_amount::text, 'cap_amount', p.cap_amount,
    'interval', case when s.current_meter_period_start is null then s.recurring_interval else coalesce(o.meter_interval, s.recurring_interval) end,
    'interval_count', case when s.current_meter_period_start is null then s.recurring_interval_count else coalesce(o.meter_interval_count, s.recurring_interval_count) end,
    'period_start', coalesce(s.current_meter_period_start, s.current_period_start),
    'period_end', coalesce(s.current_meter_period_end, s.current_period_end),
    'is_trial', s.status = 'trialing', 'is_billed', json_array_length(${usagePeriodsOf('s', 'p')}) > 0, 'credited_units', ${creditedOn('s', 'p.meter_id')}, 'meter', t) order by s.created_at, s.id, r.position), '[]')
  from subscriptions s
  join products o on o.organization_id = s.organization_id and o.id = s.product_id
  join subscription_prices r on r.organization_id = s.organization_id and r.subscription_id = s.id
  join product_prices p on p.organization_id = r.organization_id and p.id = r.price_id
  join meters t on t.organization_id = p.organization_id and t.id = p.meter_id
  where s.organization_id = customers.organization_id and s.customer_id = customers.id and s.status in ('trialing', 'active', 'past_due')`

const meterFromJson = rowFromJson<OwnMeter>({ since: true })
const chargeFromJson = rowFromJson<LoadedCharge>({ period_start: true, period_end: true })

/** Loads the meters and metered prices of the reader's customer in one statement. Only reads the tables of other modules. */
export const loadOwnUsage = async (db: Db, scope: TenantScope, { customer_id }: PortalActor): Promise<LoadedUsage | undefined> => {
  const { rows } = await sql<
    Omit<LoadedUsage, 'meters' | 'charges'> & { readonly meters: readonly JsonRow<OwnMeter>[]; readonly charges: readonly JsonRow<LoadedCharge>[] }
  >`
    select customers.organization_id, customers.id as customer_id, k.now_at, (${activeMetersJson(scope)}) as meters, (${charges}) as charges
    from customers left join test_clocks k on k.organization_id = customers.organization_id and k.id = customers.clock_id
    where customers.organization_id = ${inScope(scope)} and customers.id = ${customer_id}`.execute(db.q)
  const [found] = rows
  return found && { ...found, meters: found.meters.map(meterFromJson), charges: found.charges.map(chargeFromJson) }
}
