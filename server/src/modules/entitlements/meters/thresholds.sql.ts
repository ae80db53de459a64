import { sql } from 'kysely'
import type { Meter, UsageThreshold } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import type { BusinessTx, Db, Tx } from '../../../platform/postgres/postgres.ts'
import { chargeFromJson, openChargeSql, type ChargeJson, type OpenCharge } from '../../billing/index.ts'
import { creditsMeter, hasPriceOn, inForce, selectCustomerMeters, type LoadedCustomerMeter } from './customer-meters.sql.ts'

/** A stored limit with the highest announced threshold. Numbers are decimal text. */
export interface StoredThreshold {
  readonly id: string
  readonly basis: UsageThreshold['basis']
  readonly price_id: string | null
  readonly period_start: Date | null
  readonly percent: number
  readonly limit: string
}

/** The subscription of a customer that has a price on the meter or credits it. */
interface Paying {
  readonly id: string
  readonly period_start: Date
  readonly period_end: Date
}

/** A customer meter with its limits. `charge` is null if usage is not billed, and `paying` if no live subscription has or credits the meter. */
export interface WatchedMeter extends LoadedCustomerMeter {
  readonly charge: OpenCharge | null
  readonly paying: Paying | null
  readonly thresholds: readonly StoredThreshold[]
}

const payingFromJson = rowFromJson<Paying>({ period_start: true, period_end: true })
const thresholdFromJson = rowFromJson<StoredThreshold>({ period_start: true })

/** Loads a customer meter with everything that its thresholds depend on beside the usage, in one statement. */
export const findWatchedMeter = async (tx: Tx, scope: TenantScope, id: string): Promise<WatchedMeter | undefined> => {
  const [found] = await selectCustomerMeters<{
    readonly charge: ChargeJson | null
    readonly paying: JsonRow<Paying> | null
    readonly thresholds: readonly JsonRow<StoredThreshold>[]
  }>(
    tx,
    scope,
    sql`m.id = ${id}`,
    sql`, (select to_json(charge) from (${openChargeSql('m')}) charge) as charge, (${paying}) as paying,
      (select coalesce(json_agg(json_build_object('id', t.id, 'basis', t.basis, 'price_id', t.price_id, 'period_start', t.period_start,
          'percent', t.percent, 'limit', t.limit_amount::text)), '[]')
        from usage_thresholds t where t.organization_id = m.organization_id and t.customer_id = m.customer_id and t.meter_id = m.meter_id) as thresholds`,
  )
  if (!found) return undefined
  const [loaded, { charge, paying: payer, thresholds }] = found
  return {
    ...loaded,
    charge: charge && chargeFromJson(charge),
    paying: payer && payingFromJson(payer),
    thresholds: thresholds.map(thresholdFromJson),
  }
}

/** The first live subscription with a price on the meter, or else the first that credits it. */
const paying = sql`
  select json_build_object('id', s.id, 'period_start', coalesce(s.current_meter_period_start, s.current_period_start),
    'period_end', coalesce(s.current_meter_period_end, s.current_period_end))
  from subscriptions s cross join lateral (select ${hasPriceOn(sql.ref('m.meter_id'))} as priced) own
  where s.organization_id = m.organization_id and s.customer_id = m.customer_id and s.status in ('trialing', 'active', 'past_due')
    and (own.priced or exists (select from benefit_grants g where g.organization_id = s.organization_id and g.subscription_id = s.id and ${inForce}
      and g.${creditsMeter(sql.ref('m.organization_id'), sql.ref('m.meter_id'))}))
  order by own.priced desc, s.created_at, s.id limit 1`

/** The state of a limit to store. */
export interface NewThreshold extends Pick<
  UsageThreshold,
  'customer_id' | 'subscription_id' | 'meter_id' | 'basis' | 'currency' | 'period_start' | 'period_end'
> {
  readonly organization_id: string
  readonly price_id: string | null
  readonly percent: number
  readonly consumed: string
  readonly limit: string
}

/** Stores the state of a limit, and returns its id. The caller holds the lease of the customer meter, so no other transaction does the same. */
export const saveThreshold = async (tx: BusinessTx, state: NewThreshold): Promise<string> => {
  const { organization_id, customer_id, meter_id, basis, price_id, subscription_id, period_start, period_end, percent, consumed, limit, currency } = state
  const { rows } = await sql<{ id: string }>`
    insert into usage_thresholds (organization_id, id, created_at, customer_id, meter_id, basis, price_id, subscription_id, period_start, period_end, percent,
      consumed, limit_amount, currency, reached_at)
    values (${organization_id}, ${newId(tx.clock.wall())}, ${tx.clock.business()}, ${customer_id}, ${meter_id}, ${basis}, ${price_id}, ${subscription_id},
      ${period_start}, ${period_end}, ${percent}, ${consumed}, ${limit}, ${currency}, ${tx.clock.business()})
    on conflict (organization_id, customer_id, meter_id, basis, price_id) do update set subscription_id = excluded.subscription_id,
      period_start = excluded.period_start, period_end = excluded.period_end, percent = excluded.percent, consumed = excluded.consumed,
      limit_amount = excluded.limit_amount, reached_at = excluded.reached_at
    returning id`.execute(tx.q)
  return rows[0]!.id
}

/** A reached threshold, as its mail shows it. Numbers of units are decimal text. */
export interface MailedThreshold {
  readonly customer_id: string
  readonly basis: UsageThreshold['basis']
  readonly percent: number
  readonly consumed: string
  readonly limit: string
  readonly currency: string | null
  readonly period_end: Date | null
  readonly meter: Pick<Meter, 'name' | 'unit' | 'custom_label' | 'custom_multiplier'>
  /** The price of further usage. Null if usage is not billed. */
  readonly rate: { readonly unit_amount: string; readonly currency: string } | null
}

export const findThreshold = async (db: Db, organization_id: string, id: string): Promise<MailedThreshold | undefined> =>
  (
    await sql<MailedThreshold>`
      select t.customer_id, t.basis, t.percent, t.consumed::text as consumed, t.limit_amount::text as limit, t.currency, t.period_end,
        json_build_object('name', m.name, 'unit', m.unit, 'custom_label', m.custom_label, 'custom_multiplier', m.custom_multiplier) as meter,
        (select json_build_object('unit_amount', p.unit_amount, 'currency', p.currency) from usage_periods p
          where p.organization_id = t.organization_id and p.customer_id = t.customer_id and p.meter_id = t.meter_id and p.ends_at is null) as rate
      from usage_thresholds t join meters m on m.organization_id = t.organization_id and m.id = t.meter_id
      where t.organization_id = ${organization_id} and t.id = ${id}`.execute(db.q)
  ).rows[0]
