import { writeLabel, type LineLabel } from '@bursar/views'
import { addDecimals, divideDecimal, multiplyDecimals, negateDecimal, readDecimal, writeDecimal } from '../../../kernel/decimals.ts'
import { formatRate } from '../../../kernel/money.ts'
import { subtractUnits } from './usage-credits.ts'

/** The largest amount of one line of usage, in minor units. Sums of lines then stay exact integers. */
export const largestUsageAmount = 1_000_000_000_000

/**
 * Returns the amount of usage at a metered price, in minor units. Credited units are free. The amount is rounded once, half
 * away from zero. It exceeds neither the cap nor the largest amount of a line.
 */
export const meteredAmount = (
  { unit_amount, cap_amount }: { readonly unit_amount: string | null; readonly cap_amount: number | null },
  consumed: string,
  credited_units: number | string,
): number => {
  const billable = addDecimals(readDecimal(consumed), negateDecimal(readDecimal(String(credited_units))))
  if (billable.units <= 0n || unit_amount === null) return 0
  const amount = Number(divideDecimal(multiplyDecimals(billable, readDecimal(unit_amount)), 1n, 0).units)
  return Math.min(amount, cap_amount ?? largestUsageAmount, largestUsageAmount)
}

/**
 * Returns the amount of the usage of several periods at one price. They share the credited units and the cap, and the earlier use them
 * first.
 */
export const amountOfPeriods = (
  { unit_amount, cap_amount }: { readonly unit_amount: string | null; readonly cap_amount: number | null },
  quantities: readonly string[],
  credited_units: number,
): number => {
  let amount = 0
  let credits = String(credited_units)
  for (const quantity of quantities) {
    amount += meteredAmount({ unit_amount, cap_amount: cap_amount === null ? null : Math.max(0, cap_amount - amount) }, quantity, credits)
    const left = subtractUnits(credits, quantity)
    credits = left.startsWith('-') ? '0' : quantity.startsWith('-') ? credits : left
  }
  return amount
}

/**
 * Returns the credit for usage whose amount was lowered. `billed` is the amount of the usage before, and `left` the money that is left
 * of it after discounts and refunds. The credit is the same share of this money, rounded down, and never more than all of it.
 */
export const creditOf = (lowered: number, { billed, left }: { readonly billed: number; readonly left: number }): number =>
  left <= 0 || billed <= 0 ? 0 : Math.min(lowered, Number((BigInt(lowered) * BigInt(left)) / BigInt(billed)))

/** A line of usage of a period. `charged` is negative for a credit, and `withheld` is the part of a charge that was refunded or lost. */
export interface BackedLine {
  readonly charged: number
  readonly withheld: number
}

/**
 * Returns the part of the credits that no money stands behind. `lines` are those of one period, oldest first. A credit is backed by the
 * charges before it only: a later charge is for other usage.
 */
export const unbackedCredits = (lines: readonly BackedLine[]): number => {
  let left = 0
  let unbacked = 0
  for (const { charged, withheld } of lines) {
    left += charged - withheld
    if (charged < 0) unbacked = Math.max(unbacked, 0 - left)
  }
  return unbacked
}

/** Usage of a period, as the label of its order line shows it. Numbers of units are decimal text. */
export interface UsageLabel {
  readonly meter: string
  /** True for a meter with `avg`, whose quantities may have many decimal places. */
  readonly is_average: boolean
  readonly quantity: string
  readonly credited: string
  /** The quantity that earlier lines have billed. Null for the first line of the period. */
  readonly corrects: string | null
  readonly unit_amount: string
  readonly currency: string
  readonly starts_at: Date
  readonly ends_at: Date
}

/** Decimal places of an average in a label. The amount is computed from the exact average. */
const averagePlaces = 4

/** Returns the label of an order line for usage: the meter, the units, the rate and the period. */
export const usageLabel = ({ meter, is_average, quantity, credited, corrects, unit_amount, currency, starts_at, ends_at }: UsageLabel): LineLabel => {
  const shown = (units: string) => (is_average ? writeDecimal(divideDecimal(readDecimal(units), 1n, averagePlaces)) : units)
  return writeLabel({
    type: 'usage',
    meter,
    quantity: shown(quantity),
    credited: shown(credited),
    corrects: corrects === null ? null : shown(corrects),
    rate: formatRate(unit_amount, currency),
    currency: currency.toUpperCase(),
    ...daysOf(starts_at, ends_at),
  })
}

/** Returns the first and last day of a period, as labels store them. */
export const daysOf = (starts_at: Date, ends_at: Date) => ({ from: starts_at.toISOString().slice(0, 10), to: ends_at.toISOString().slice(0, 10) })
