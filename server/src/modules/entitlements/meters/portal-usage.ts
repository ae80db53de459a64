import type { CustomerUsage, CustomerUsageCharge, Meter } from '@bursar/contract'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import { numberOf } from '../../../kernel/decimals.ts'
import { days as wholeDays, later, type Clock } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { meteredAmount } from '../../billing/index.ts'
import { bucketStarts, loadConsumed, type Consumption } from '../../usage/index.ts'
import { projectUnits } from './calc/projections.ts'
import { balanceOf } from './customer-meters.ts'
import { loadOwnUsage, type LoadedCharge, type LoadedUsage } from './portal-usage.sql.ts'

interface Wish {
  readonly meter_id: readonly string[]
  readonly days: number
  readonly timezone: string
}

interface ShownMeter {
  readonly meter: Meter
  readonly since: Date | null
  readonly credited_units: number
  readonly charges: readonly LoadedCharge[]
}

/**
 * Returns the meters to show. A price on a meter without usage or credits has no customer meter yet. It is shown too, so
 * that customers know what usage will cost.
 */
const shownMeters = ({ meters, charges }: LoadedUsage, wanted: readonly string[]): ShownMeter[] => {
  const priced = Map.groupBy(charges, ({ meter }) => meter.id)
  const own = meters.map(({ meter, since, credited_units }) => ({ meter, since, credited_units, charges: priced.get(meter.id) ?? [] }))
  const unused = [...priced.values()]
    .filter(([first]) => !own.some(({ meter }) => meter.id === first!.meter.id))
    .map((of) => ({ meter: of[0]!.meter, since: of[0]!.period_start, credited_units: 0, charges: of }))
  return [...own, ...unused].filter(({ meter }) => wanted.length === 0 || wanted.includes(meter.id))
}

/** Returns the starts of the last days in a time zone, oldest first. The last one is the start of today. */
const dayStarts = (at: Date, days: number, timezone: string): Date[] =>
  days === 0 ? [] : bucketStarts({ start: later(at, -days * wholeDays), end: later(at, 1) }, 'day', timezone).slice(-days)

/** Returns the usage of the reader's customer. One statement computes the balances, costs and days of all meters. */
export const ownUsage = async (db: Db, scope: TenantScope, clock: Clock, actor: PortalActor, wish: Wish): Promise<CustomerUsage> => {
  const loaded = await loadOwnUsage(db, scope, actor)
  const at = loaded?.now_at ?? clock.business()
  const { timezone } = wish
  if (!loaded) return { at, timezone, meters: [] }
  const shown = shownMeters(loaded, wish.meter_id)
  const starts = dayStarts(at, wish.days, timezone)
  const { organization_id, customer_id } = loaded
  const asked = shown.map(({ meter, since, charges }): Consumption[] => {
    const within = (from: Date | null, until: Date | null) => ({ organization_id, customer_id, meter, since: from, until })
    return [
      within(since, null),
      ...charges.map(({ period_start, period_end }) => within(period_start, period_end)),
      ...starts.map((start, day) => within(start, starts[day + 1] ?? null)),
    ]
  })
  const consumed = await loadConsumed(db, scope, asked.flat())
  let from = 0
  return {
    at,
    timezone,
    meters: shown.map(({ meter, since, credited_units, charges }, index) => {
      const [units, ...rest] = consumed.slice(from, (from += asked[index]!.length))
      const { id, name, unit, custom_label, custom_multiplier } = meter
      return {
        id,
        name,
        unit,
        custom_label,
        custom_multiplier,
        aggregation: meter.aggregation.func,
        since,
        consumed_units: numberOf(units!),
        credited_units,
        balance: balanceOf(units!, credited_units),
        charges: charges.map((charge, nth) => presentCharge(charge, rest[nth]!, at)),
        days: starts.map((timestamp, day) => ({ timestamp, quantity: numberOf(rest[charges.length + day]!) })),
      }
    }),
  }
}

/** Presents the usage at a metered price. Usage during a trial is free, and usage of two subscriptions is billed once. */
const presentCharge = ({ meter, is_billed, ...charge }: LoadedCharge, consumed: string, at: Date): CustomerUsageCharge => {
  const costOf = (units: string) => (!is_billed ? 0 : meteredAmount(charge, units, charge.credited_units))
  const projected = projectUnits(meter.aggregation.func, consumed, { ...charge, at })
  return {
    ...charge,
    consumed_units: numberOf(consumed),
    amount: costOf(consumed),
    projected_units: projected === null ? null : numberOf(projected),
    projected_amount: projected === null ? null : costOf(projected),
  }
}
