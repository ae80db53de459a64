import type { LineLabel } from '@bursar/views'
import { newId } from '../../../kernel/ids.ts'
import { split, sum } from '../../../kernel/money.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { allot, withheldOf } from '../calc/credits.ts'
import { upfrontLines, type UpfrontPrice } from '../calc/prices.ts'
import type { SubscriptionRow } from '../records/subscriptions.sql.ts'
import { insertEntries } from '../records/subscription-updates.sql.ts'
import {
  assignEntry,
  billedInPeriod,
  changeEntries,
  creditsInPeriod,
  creditsOf,
  insertCharges,
  insertCredits,
  standingsOf,
  withhold,
  type BilledRow,
  type Reviewed,
  type ReviewedCredit,
} from './prorations.sql.ts'

/** A proration line of a subscription change. The amount is positive for a charge and negative for a credit. */
export interface ChangeLine {
  readonly product_price_id: string
  readonly label: LineLabel
  readonly amount: number
}

/** A part of a proration credit, and the billed line that it credits. */
interface Share {
  readonly time: BilledRow
  readonly amount: number
  readonly withheld_amount: number
}

/**
 * A proration line with the billed lines that its credit comes from. The amount is the credit after withholding: zero
 * if everything is withheld.
 */
export interface CreditedLine extends ChangeLine {
  readonly shares: readonly Share[]
}

/**
 * Limits the credits of a subscription change to money that the seller still has. Each credit is taken from the lines
 * that billed the credited time, the latest first. Parts of their orders that are refunded or disputed are withheld.
 */
export const limitCredits = async (tx: BusinessTx, subscription: Locked<SubscriptionRow>, lines: readonly ChangeLine[]): Promise<CreditedLine[]> => {
  if (lines.every(({ amount }) => amount > 0)) return lines.map((line) => ({ ...line, shares: [] }))
  const billed = await billedInPeriod(tx, subscription)
  const given = await creditsInPeriod(tx, subscription)
  const standings = await standingsOf(
    tx,
    subscription.organization_id,
    billed.flatMap(({ order_id }) => order_id ?? []),
  )
  const times = billed.map((time) => ({
    ...time,
    credits: given
      .filter((credit) =>
        time.charge_id === null
          ? credit.source_order_id === time.order_id && credit.product_price_id === time.product_price_id
          : credit.source_charge_id === time.charge_id,
      )
      .map(({ amount, created_at }) => ({ amount, at: created_at })),
  }))
  const { currency, current_period_end: end } = subscription
  const moment = { currency, end, now: tx.clock.business() }
  return lines.map((line) => {
    if (line.amount > 0) return { ...line, shares: [] }
    const own = times.filter(({ product_price_id }) => product_price_id === line.product_price_id)
    const shares = allot(0 - line.amount, own, moment).map(({ time, amount }) => {
      const standing = time.order_id === null ? undefined : standings.get(time.order_id)
      return { time, amount, withheld_amount: standing ? withheldOf(amount, { value: standing.value, lost: standing.at_risk }, currency) : 0 }
    })
    return { ...line, shares, amount: 0 - sum(shares.map(({ amount, withheld_amount }) => amount - withheld_amount)) }
  })
}

/**
 * Where the proration lines of a change are billed: on the order of the change, or as billing entries for the next
 * order.
 */
export type Carrier = { readonly order_id: string } | { readonly entry_ids: readonly (string | null)[] }

/** Stores the proration charges of a change, and its credits with the billed lines they come from. */
export const recordProrations = async (
  tx: BusinessTx,
  subscription: Locked<SubscriptionRow>,
  lines: readonly CreditedLine[],
  /** The start of the period that the charges are for: the current period, or one that begins with the change. */
  charged_period: Date,
  carrier: Carrier,
): Promise<void> => {
  const { organization_id, id: subscription_id, current_period_start } = subscription
  const made = () => ({ organization_id, id: newId(tx.clock.wall()), created_at: tx.clock.business(), subscription_id })
  const sayer = (at: number) =>
    'order_id' in carrier ? { entry_id: null, order_id: carrier.order_id } : { entry_id: carrier.entry_ids[at] ?? null, order_id: null }
  await insertCharges(
    tx,
    lines.flatMap(({ product_price_id, amount }, at) =>
      amount > 0 ? [{ ...made(), period_start: charged_period, product_price_id, amount, ...sayer(at) }] : [],
    ),
  )
  await insertCredits(
    tx,
    lines.flatMap(({ product_price_id, label, shares }, at) =>
      shares.map(({ time, amount, withheld_amount }) => ({
        ...made(),
        period_start: current_period_start,
        product_price_id,
        label,
        amount,
        withheld_amount,
        source_order_id: time.charge_id === null ? time.order_id : null,
        source_charge_id: time.charge_id,
        ...sayer(at),
      })),
    ),
  )
}

/** An imported subscription in its current period, with its prices. */
export interface ImportedPeriod {
  readonly subscription: Pick<SubscriptionRow, 'organization_id' | 'id' | 'amount' | 'seats' | 'current_period_start'>
  readonly prices: readonly UpfrontPrice[]
}

/**
 * Records that another system billed the current period of imported subscriptions. Without this record, a change in
 * that period would give no credit for the old plan. The recorded charges have no order, so no refund reduces their
 * credit.
 */
export const recordImportedPeriods = async (tx: Tx, periods: readonly ImportedPeriod[]): Promise<void> => {
  await insertCharges(
    tx,
    periods.flatMap(({ subscription: { organization_id, id: subscription_id, amount: paid, seats, current_period_start }, prices }) => {
      const made = { organization_id, created_at: current_period_start, subscription_id, period_start: current_period_start, entry_id: null, order_id: null }
      const billed = prices.filter(({ amount_type }) => amount_type !== 'metered_unit')
      if (billed.length === 0) return []
      // A single price gets the whole amount. Several prices share it in proportion to today's prices.
      const shares =
        billed.length === 1
          ? [paid]
          : split(
              paid,
              upfrontLines(billed, { seats }).map(({ amount }) => amount),
            )
      return billed
        .map(({ id: product_price_id }, at) => ({ ...made, id: newId(tx.clock.wall()), product_price_id, amount: shares[at]! }))
        .filter(({ amount }) => amount > 0)
    }),
  )
}

/**
 * The amount by which a credit on a settled order is too high after a refund or dispute. Negative if the credit is too
 * low.
 */
export interface Excess {
  readonly product_price_id: string
  readonly label: LineLabel
  readonly amount: number
}

const settled: readonly (string | null)[] = ['paid', 'partially_refunded', 'refunded']

/**
 * Compares credits with the money that is left of the orders behind them. Called after a refund, a dispute or the
 * settlement of an order. Corrects credits that are still open entries. Returns the excess of credits that were already
 * used. Skips credits on a pending order, which are reviewed when that order is paid or voided. Idempotent. The caller
 * must have locked the subscription.
 */
export const reviewCredits = async (tx: BusinessTx, subscription: { organization_id: string; id: string }, which: Reviewed): Promise<Excess[]> => {
  const { organization_id } = subscription
  const credits = (await creditsOf(tx, subscription, which)).filter(({ carrier_status }) => carrier_status === null || settled.includes(carrier_status))
  if (credits.length === 0) return []
  const standings = await standingsOf(
    tx,
    organization_id,
    credits.map(({ backing_id }) => backing_id),
  )
  const different = credits.flatMap((credit) => {
    const { value, gone, at_risk } = standings.get(credit.backing_id)!
    const least = withheldOf(credit.amount, { value, lost: gone }, credit.currency)
    const most = withheldOf(credit.amount, { value, lost: at_risk }, credit.currency)
    const withheld_amount = Math.min(Math.max(credit.withheld_amount, least), most)
    return withheld_amount === credit.withheld_amount ? [] : [{ credit, withheld_amount, excess: withheld_amount - credit.withheld_amount }]
  })
  if (different.length === 0) return []
  await withhold(
    tx,
    organization_id,
    different.map(({ credit: { id }, withheld_amount }) => ({ id, withheld_amount })),
  )
  const waiting = different.filter(({ credit }) => credit.carrier_id === null)
  const entries = new Map<string, number>()
  for (const { credit, excess } of waiting)
    if (credit.entry_id !== null) entries.set(credit.entry_id, (entries.get(credit.entry_id) ?? credit.entry_amount!) + excess)
  if (entries.size > 0)
    await changeEntries(
      tx,
      organization_id,
      [...entries].map(([id, amount]) => ({ id, amount })),
    )
  for (const { credit, excess } of waiting) if (credit.entry_id === null) await sayAgain(tx, credit, excess)
  return different
    .filter(({ credit }) => credit.carrier_id !== null)
    .map(({ credit: { product_price_id, label }, excess }) => ({ product_price_id, label, amount: excess }))
}

/**
 * Creates a new billing entry for a credit that was withheld completely. Needed if the refund behind the withholding
 * fails.
 */
const sayAgain = async (tx: BusinessTx, credit: ReviewedCredit, amount: number): Promise<void> => {
  const { organization_id, subscription_id, product_price_id, label, currency } = credit
  const id = newId(tx.clock.wall())
  const made = { organization_id, id, created_at: tx.clock.business(), subscription_id, product_price_id, position: 0, label, currency, order_id: null }
  await insertEntries(tx, [{ ...made, amount }])
  await assignEntry(tx, credit, id)
}
