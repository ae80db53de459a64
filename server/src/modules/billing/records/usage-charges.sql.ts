import { sql, type RawBuilder } from 'kysely'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import type { PeriodCredit } from '../calc/usage-credits.ts'
import { appliesToPeriod, creditsOfPeriod } from './usage-periods.sql.ts'
import { usedFirst } from './usage-settlements.sql.ts'

/** The open usage period of a customer on a meter, with what its amount depends on beside the usage. */
export interface OpenCharge {
  readonly subscription_id: string
  readonly price_id: string
  readonly unit_amount: string
  readonly cap_amount: number | null
  readonly currency: string
  readonly billing_start: Date
  readonly starts_at: Date
  readonly period_end: Date
  /** The amount that other periods of the same price and billing period have billed. They share the cap. */
  readonly beside_amount: number
  /** The credits that the period can use, in the sequence in which they are used. */
  readonly credits: readonly PeriodCredit[]
}

const fromJson = rowFromJson<Omit<OpenCharge, 'credits'>>({ billing_start: true, starts_at: true, period_end: true })
const creditFromJson = rowFromJson<PeriodCredit>({ since: true, until: true })

/** Reads the JSON of a row of `openChargeSql`. */
export const chargeFromJson = ({ credits, ...charge }: ChargeJson): OpenCharge => ({ ...fromJson(charge), credits: credits.map(creditFromJson) })
export type ChargeJson = JsonRow<Omit<OpenCharge, 'credits'>> & { readonly credits: readonly JsonRow<PeriodCredit>[] }

/** SQL for the open usage period of the customer and the meter of a row, with the columns of `OpenCharge`. Finds at most one row. */
export const openChargeSql = (row: string): RawBuilder<unknown> => sql`
  select p.subscription_id, p.price_id, p.unit_amount, p.cap_amount, p.currency, p.billing_start, p.starts_at,
    coalesce(s.current_meter_period_end, s.current_period_end) as period_end,
    (select coalesce(sum(o.billed_amount), 0)::bigint from usage_periods o where o.organization_id = p.organization_id
      and o.subscription_id = p.subscription_id and o.price_id = p.price_id and o.billing_start = p.billing_start and o.id <> p.id) as beside_amount,
    (select coalesce(json_agg(json_build_object('period_id', p.id, 'credit_id', c.id, 'since', w.since, 'until', w.until,
        'left', (c.units - coalesce((select sum(u.units) from usage_credit_uses u
          where u.organization_id = c.organization_id and u.credit_id = c.id and u.period_id <> p.id), 0))::text) order by ${usedFirst('w')}), '[]')
      from (select p.*) p ${creditsOfPeriod} where ${appliesToPeriod}) as credits
  from usage_periods p join subscriptions s on s.organization_id = p.organization_id and s.id = p.subscription_id
  where p.organization_id = ${sql.ref(`${row}.organization_id`)} and p.customer_id = ${sql.ref(`${row}.customer_id`)}
    and p.meter_id = ${sql.ref(`${row}.meter_id`)} and p.ends_at is null`
