import { sum } from '../../../kernel/money.ts'
import { loadConsumed } from '../../usage/index.ts'
import { withheldOf } from '../calc/credits.ts'
import { creditOf, meteredAmount, usageLabel } from '../calc/metered.ts'
import { addUnits, creditedParts, subtractUnits, useCredits, type CreditedPeriod, type PeriodCredit } from '../calc/usage-credits.ts'
import { standingsOf } from '../prorations/prorations.sql.ts'
import { attachCredits, lockUnsettled, type UnsettledPeriod } from '../records/usage-periods.sql.ts'
import { applicableCredits, billedBeside, chargedUsage, saveSettled, type SettledPeriod } from '../records/usage-settlements.sql.ts'
import type { BilledLine, RenewalContext } from './billing.ts'
import type { Issued } from './issuing.ts'

/** The order lines of usage, and the state of the periods that they settle. */
export interface UsageLines {
  readonly lines: readonly BilledLine[]
  readonly settled: readonly SettledPeriod[]
}

/**
 * Locks the ended periods of a subscription whose usage may differ from what was billed, and computes a line for each difference. The
 * caller bills the lines in the same transaction, and then calls `keepUsage`. `open` contains open periods that are billed up to now,
 * because a change ends them as soon as it is paid.
 */
export const usageLines = async (turn: RenewalContext, choice: Parameters<typeof lockUnsettled>[2] = {}): Promise<UsageLines> => {
  const { tx, scope, subscription, loaded } = turn
  if (!loaded.has_usage) return { lines: [], settled: [] }
  const { organization_id } = subscription
  const periods = await lockUnsettled(tx, subscription, choice)
  if (choice.open && choice.open.length > 0) await attachCredits(tx, organization_id, choice.open)
  const settled = await limitUsageCredits(turn, await differencesOf(tx, scope, organization_id, periods))
  const own = new Map(periods.map((period) => [period.id, period]))
  return { settled, lines: settled.flatMap((one) => lineOf(own.get(one.id)!, one, tx.clock.business())) }
}

/**
 * Limits the credits of lowered usage to the charged amounts of the period's lines after discounts, without refunded and disputed
 * parts. A period with an unpaid line is left out, and stays unsettled until the line is paid.
 */
const limitUsageCredits = async (
  { tx, subscription: { organization_id, currency } }: RenewalContext,
  found: readonly SettledPeriod[],
): Promise<readonly SettledPeriod[]> => {
  const lowered = found.filter(({ more_amount }) => more_amount < 0)
  if (lowered.length === 0) return found
  const charges = await chargedUsage(
    tx,
    organization_id,
    lowered.map(({ id }) => id),
  )
  const standings = await standingsOf(
    tx,
    organization_id,
    charges.map(({ order_id }) => order_id),
  )
  return found.flatMap((settled) => {
    const { id, amount, more_amount } = settled
    if (more_amount >= 0) return [settled]
    const own = charges.filter(({ period_id }) => period_id === id)
    if (own.some(({ order_status }) => order_status === 'pending')) return []
    const left = own.map(({ order_id, charged_amount: charged }) => {
      const { value, at_risk: lost } = standings.get(order_id)!
      return charged > 0 ? charged - withheldOf(charged, { value, lost }, currency) : charged
    })
    return [{ ...settled, line_amount: 0 - creditOf(0 - more_amount, { billed: amount - more_amount, left: sum(left) }) }]
  })
}

/**
 * True if the period was settled with another filter or aggregation of the meter. Such a period stays as it was settled. Otherwise a
 * change of the filter would bill usage of periods that the customer has paid already.
 */
const isSettledOtherwise = ({ settled_as, definition }: UnsettledPeriod): boolean => settled_as !== null && settled_as !== definition

/** Returns the quantities of periods, with those of the parts that some credits are limited to. */
const quantitiesOf = async (
  tx: RenewalContext['tx'],
  scope: RenewalContext['scope'],
  periods: readonly UnsettledPeriod[],
  credits: readonly PeriodCredit[],
): Promise<CreditedPeriod[]> => {
  const asked = periods.map(({ id, organization_id, customer_id, meter, starts_at, ends_at }) => {
    const whole = { since: starts_at, until: ends_at ?? tx.clock.business() }
    const own = credits.filter(({ period_id }) => period_id === id)
    return [whole, ...creditedParts(whole, own)].map((part) => ({ organization_id, customer_id, meter, ...part }))
  })
  const consumed = await loadConsumed(tx, scope, asked.flat(), { billed: true })
  let from = 0
  return periods.map((period, nth) => {
    const [whole, ...rest] = consumed.slice(from, (from += asked[nth]!.length))
    const parts = rest.map((quantity, at) => ({ ...asked[nth]![at + 1]!, quantity }))
    return { id: period.id, quantity: isSettledOtherwise(period) ? period.billed_quantity : whole!, parts }
  })
}

/** Computes what locked periods cost by now, and the difference to what was billed. */
export const differencesOf = async (
  tx: RenewalContext['tx'],
  scope: RenewalContext['scope'],
  organization_id: string,
  periods: readonly UnsettledPeriod[],
): Promise<SettledPeriod[]> => {
  if (periods.length === 0) return []
  // The periods are locked before these statements take their snapshots. Usage that they do not see is merged later, and waits for the lock.
  const credits = await applicableCredits(
    tx,
    organization_id,
    periods.map(({ id }) => id),
  )
  const used = await quantitiesOf(tx, scope, periods, credits)
  const uses = useCredits(used, credits)
  const beside = periods.some(({ cap_amount }) => cap_amount !== null)
    ? await billedBeside(
        tx,
        organization_id,
        periods.map(({ id }) => id),
      )
    : new Map<string, number>()
  // The cap of a price holds for all periods of a billing period together. Earlier periods use it first.
  const taken = new Map<string, number>()
  return periods.map((period, at) => {
    const { id, meter_id, price_id, billing_start, unit_amount, billed_quantity, billed_amount } = period
    const settled_as = isSettledOtherwise(period) ? period.settled_as! : period.definition
    const { quantity } = used[at]!
    const own = uses.get(id)!
    const credited = addUnits(own.map(({ units }) => units))
    const shared = `${price_id} ${billing_start.getTime()}`
    const before = taken.get(shared) ?? 0
    const cap_amount = period.cap_amount === null ? null : Math.max(0, period.cap_amount - (beside.get(id) ?? 0) - before)
    const amount = meteredAmount({ unit_amount, cap_amount }, quantity, credited)
    taken.set(shared, before + amount)
    const difference = { more_quantity: subtractUnits(quantity, billed_quantity), more_amount: amount - billed_amount }
    return { id, meter_id, settled_as, quantity, amount, credited, uses: own, ...difference, line_amount: difference.more_amount }
  })
}

const lineOf = (period: UnsettledPeriod, { quantity, credited, line_amount }: SettledPeriod, now: Date): BilledLine[] => {
  if (line_amount === 0) return []
  const { price_id, meter, unit_amount, currency, starts_at, ends_at, billed_quantity, billed_amount } = period
  const corrects = billed_amount === 0 ? null : billed_quantity
  const is_average = meter.aggregation.func === 'avg'
  const label = usageLabel({ meter: meter.name, is_average, quantity, credited, corrects, unit_amount, currency, starts_at, ends_at: ends_at ?? now })
  return [{ product_price_id: price_id, label, amount: line_amount, proration: false }]
}

/**
 * Stores that an order has billed the lines. They are the items of the order from the position `first` on. `issued` is null if there
 * was no line to bill.
 */
export const keepUsage = (
  { tx, subscription }: Pick<RenewalContext, 'tx' | 'subscription'>,
  { settled }: UsageLines,
  issued: Issued | null,
  first = 0,
): Promise<void> => {
  const billed = settled.filter(({ line_amount }) => line_amount !== 0)
  const order = issued && {
    id: issued.order.id,
    charged: new Map(
      billed.map(({ id }, at) => {
        const { amount, discount_amount } = issued.items[first + at]!
        return [id, amount - discount_amount]
      }),
    ),
  }
  return saveSettled(tx, subscription.organization_id, settled, order)
}
