import { stepOf } from '../../../kernel/money.ts'

/**
 * An order line or proration charge that bills the time from `from` to the end of the period. `credits` were already
 * given for it.
 */
export interface BilledTime {
  readonly amount: number
  readonly from: Date
  readonly credits: readonly { readonly amount: number; readonly at: Date }[]
}

export interface Moment {
  readonly currency: string
  readonly now: Date
  /** The end of the period. */
  readonly end: Date
}

/** The value of the order that billed a line, and the part of that value that was refunded or disputed (`lost`). */
export interface Backing {
  readonly value: number
  readonly lost: number
}

/**
 * Returns the part of a billed line that covers the time after `now`, less earlier credits. Rounds up once, for the
 * whole sum, to a payable amount: a multiple of the currency's smallest unit in use. Rounding down could cut a credit
 * that `prorate` already rounded up by one unit.
 */
export const unusedOf = ({ amount, from, credits }: BilledTime, { currency, now, end }: Moment): number => {
  const rest = BigInt(Math.max(0, end.getTime() - now.getTime()))
  let numerator = 0n
  let denominator = 1n
  const add = (value: number, since: Date) => {
    const span = BigInt(end.getTime() - since.getTime())
    if (span <= 0n) return
    numerator = numerator * span + BigInt(value) * denominator
    denominator *= span
  }
  add(amount, from)
  for (const credit of credits) add(0 - credit.amount, credit.at)
  if (numerator <= 0n || rest === 0n) return 0
  const unit = denominator * BigInt(stepOf(currency))
  return Number((numerator * rest + unit - 1n) / unit) * stepOf(currency)
}

/**
 * Splits a credit over the lines that billed the credited time, in the given order. Each line takes at most its unused
 * part. If the lines cannot cover the whole credit, the rest is dropped, because it was never billed.
 */
export const allot = <Time extends BilledTime>(amount: number, times: readonly Time[], moment: Moment): { readonly time: Time; readonly amount: number }[] => {
  let left = amount
  return times.flatMap((time) => {
    const share = Math.min(left, unusedOf(time, moment))
    left -= share
    return share > 0 ? [{ time, amount: share }] : []
  })
}

/**
 * Returns the part of a credit that is withheld because the order behind it was refunded or disputed. The credit that
 * remains is rounded down to a payable amount.
 */
export const withheldOf = (amount: number, { value, lost }: Backing, currency: string): number => {
  if (lost <= 0) return 0
  if (lost >= value) return amount
  const unit = BigInt(value) * BigInt(stepOf(currency))
  return amount - Number((BigInt(amount) * BigInt(value - lost)) / unit) * stepOf(currency)
}
