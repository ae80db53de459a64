import { writeLabel, type LineLabel } from '@bursar/views'
import type { BusinessTx } from '../../../platform/postgres/postgres.ts'
import { sum } from '../../../kernel/money.ts'
import { withheldOf } from '../calc/credits.ts'
import { daysOf, unbackedCredits } from '../calc/metered.ts'
import { standingsOf, type Reviewed } from '../prorations/prorations.sql.ts'
import { chargedUsage, periodsBilledBy, type BilledPeriod } from '../records/usage-settlements.sql.ts'

/** The amount by which the credits for lowered usage of a period are too high. Negative if too much was taken back before. */
export interface UsageExcess {
  readonly period_id: string
  readonly product_price_id: string
  readonly label: LineLabel
  readonly amount: number
}

/**
 * Compares the credits for lowered usage with the money that is left of the order lines before them. Called after a refund, a dispute or the
 * payment of an order with lines of usage. As for prorations, a pending refund or open dispute takes nothing back, and restores nothing. Credits
 * on a pending order are reviewed when it is paid. Idempotent. The caller must have locked the subscription.
 */
export const reviewUsageCredits = async (
  tx: BusinessTx,
  { organization_id, currency }: { readonly organization_id: string; readonly currency: string },
  which: Reviewed,
): Promise<UsageExcess[]> => {
  const order_id = 'source' in which ? which.source : 'carrier' in which ? which.carrier : null
  const periods = order_id === null ? [] : await periodsBilledBy(tx, organization_id, order_id)
  if (periods.length === 0) return []
  const lines = await chargedUsage(
    tx,
    organization_id,
    periods.map(({ id }) => id),
  )
  const standings = await standingsOf(
    tx,
    organization_id,
    lines.map((line) => line.order_id),
  )
  return periods.flatMap((period) => {
    const own = lines.filter(({ period_id }) => period_id === period.id)
    const taken = sum(own.filter(({ is_taken_back }) => is_taken_back).map(({ charged_amount }) => charged_amount))
    const unbacked = (lost: 'gone' | 'at_risk') =>
      unbackedCredits(
        own.flatMap(({ charged_amount: charged, order_id: id, order_status, is_taken_back }) => {
          if (is_taken_back || (charged < 0 && order_status === 'pending')) return []
          const standing = standings.get(id)!
          return [{ charged, withheld: charged > 0 ? withheldOf(charged, { value: standing.value, lost: standing[lost] }, currency) : 0 }]
        }),
      )
    const amount = Math.min(Math.max(taken, unbacked('gone')), unbacked('at_risk')) - taken
    return amount === 0 ? [] : [{ period_id: period.id, product_price_id: period.price_id, label: labelOf(period, tx.clock.business()), amount }]
  })
}

const labelOf = ({ meter, starts_at, ends_at }: BilledPeriod, now: Date): LineLabel =>
  writeLabel({ type: 'lowered_usage', meter, ...daysOf(starts_at, ends_at ?? now) })
