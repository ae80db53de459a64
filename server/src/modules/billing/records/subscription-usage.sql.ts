import type { Meter } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadConsumed } from '../../usage/index.ts'

/** The usage of a metered price in the current period. Quantities are decimal text. */
export interface PriceUsage {
  readonly price_id: string
  readonly consumed: string
  /** The quantity of each usage period. Only these are billed. */
  readonly billed: readonly string[]
  readonly credited_units: number
}

/** The time range of a usage period. An open period has no end. */
export interface UsageSpan {
  readonly since: Date
  readonly until: Date | null
}

/** The time range that the usage of a metered price is shown for, with its usage periods. */
export interface ShownSpans {
  readonly since: Date
  readonly until: Date
  readonly periods: readonly UsageSpan[]
}

/**
 * SQL for the usage periods of a price in the current billing period of a subscription, as JSON. There is none during a trial, or if
 * another subscription of the customer is billed for the meter. `subscription` and `price` are aliases of tables, other than `own`.
 */
export const usagePeriodsOf = (subscription: string, price: string): RawBuilder<unknown> => sql`(
  select coalesce(json_agg(json_build_object('since', own.starts_at, 'until', own.ends_at) order by own.starts_at, own.id), '[]') from usage_periods own
  where own.organization_id = ${sql.ref(`${subscription}.organization_id`)} and own.subscription_id = ${sql.ref(`${subscription}.id`)}
    and own.price_id = ${sql.ref(`${price}.id`)} and own.billing_start = ${sql.ref(`${subscription}.current_period_start`)}
    and own.starts_at >= ${sql.ref(`${subscription}.current_period_start`)})`

/** Returns the ranges whose usage is shown or billed. The first is the shown one. A single usage period of this range is not repeated. */
export const spansOf = ({ since, until, periods }: ShownSpans): readonly { readonly since: Date; readonly until: Date }[] => {
  const billed = periods.map((period) => ({ since: period.since, until: period.until ?? until }))
  const isWhole = billed.length === 1 && billed[0]!.since.getTime() === since.getTime() && billed[0]!.until.getTime() === until.getTime()
  return [{ since, until }, ...(isWhole ? [] : billed)]
}

/** Returns the shown quantity and those of the usage periods, from the quantities of the ranges of `spansOf`. */
export const quantitiesOf = ({ periods }: ShownSpans, [consumed, ...billed]: readonly string[]): Pick<PriceUsage, 'consumed' | 'billed'> => ({
  consumed: consumed!,
  billed: periods.length === 1 && billed.length === 0 ? [consumed!] : billed,
})

/**
 * SQL for the units that benefits of a subscription have credited to a meter. A credit without rollover counts only in the
 * period that it was given for. `subscription` is the alias of the subscription. Reads tables of the module of benefits.
 */
export const creditedOn = (subscription: string, meter_id: string): RawBuilder<unknown> => sql`(
  select coalesce(sum(c.units), 0)::bigint from benefit_grants g join meter_credits c on c.organization_id = g.organization_id and c.grant_id = g.id
  where g.organization_id = ${sql.ref(`${subscription}.organization_id`)} and g.subscription_id = ${sql.ref(`${subscription}.id`)}
    and g.granted_at is not null and g.is_wanted and c.meter_id = ${sql.ref(meter_id)} and (c.rollover or c.period_start is not distinct from g.cycled_for))`

interface Period {
  readonly current_period_start: Date
  readonly current_period_end: Date
  readonly current_meter_period_start?: Date | null
  readonly current_meter_period_end?: Date | null
  readonly ended_at: Date | null
}

/** Returns the time range of the current period. It ends with the subscription. */
const currentSpan = ({ current_meter_period_start, current_period_start, current_meter_period_end, current_period_end, ended_at }: Period) => {
  const end = current_meter_period_end ?? current_period_end
  return { since: current_meter_period_start ?? current_period_start, until: ended_at !== null && ended_at < end ? ended_at : end }
}

/** A loaded subscription, as far as its usage depends on it. */
interface Metered {
  readonly subscription: Period & { readonly organization_id: string; readonly id: string; readonly customer_id: string }
  readonly prices: readonly { readonly id: string; readonly meter_id: string | null }[]
  readonly meters: readonly Pick<Meter, 'id' | 'filter' | 'aggregation'>[]
  readonly credits: readonly { readonly price_id: string; readonly credited_units: number; readonly periods: readonly UsageSpan[] }[]
}

/** Returns the usage of the current periods, by subscription, in one statement. Runs no statement if there is no metered price. */
export const loadUsage = async (db: Db, scope: TenantScope, loaded: readonly Metered[]): Promise<ReadonlyMap<string, PriceUsage[]>> => {
  const asked = loaded.flatMap(({ subscription, prices, meters, credits }) =>
    prices.flatMap(({ id: price_id, meter_id }) => {
      const { organization_id, id, customer_id } = subscription
      const meter = meters.find((one) => one.id === meter_id)
      if (!meter) return []
      const { credited_units, periods } = credits.find((one) => one.price_id === price_id)!
      const shown = { ...currentSpan(subscription), periods }
      return [{ id, price_id, credited_units, shown, spans: spansOf(shown).map((span) => ({ organization_id, customer_id, meter, ...span })) }]
    }),
  )
  const consumed = await loadConsumed(
    db,
    scope,
    asked.flatMap(({ spans }) => spans),
    { billed: true },
  )
  let from = 0
  const usage = asked.map(({ id, price_id, credited_units, shown, spans }) => ({
    id,
    used: { price_id, credited_units, ...quantitiesOf(shown, consumed.slice(from, (from += spans.length))) },
  }))
  return new Map([...Map.groupBy(usage, ({ id }) => id)].map(([id, own]) => [id, own.map(({ used }) => used)]))
}
