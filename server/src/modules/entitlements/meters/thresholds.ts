import { usageThresholdReached } from '@bursar/contract'
import { numberOf } from '../../../kernel/decimals.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { addUnits, creditedParts, meteredAmount, useCredits, type OpenCharge, type UsedPart } from '../../billing/index.ts'
import type { Consumption } from '../../usage/index.ts'
import { nextThreshold } from './calc/thresholds.ts'
import { saveThreshold, type NewThreshold, type WatchedMeter } from './thresholds.sql.ts'

/** A limit of a customer's usage on a meter, and how much of it is used. */
type WatchedLimit = Pick<NewThreshold, 'basis' | 'price_id' | 'subscription_id' | 'currency' | 'period_start' | 'period_end' | 'consumed' | 'limit'>

/** The threshold from which on customers are mailed. Lower thresholds only emit an event. */
export const mailedFrom = 80

/**
 * Announces the thresholds that usage on a customer meter has reached: by an event, and from 80 percent on also by a mail. The caller holds
 * the lease of the customer meter. So two workers never announce the same threshold. `consumed` is the usage since the start of the meter's
 * period, and `charged` contains the quantities of `chargedRanges`.
 */
export const announceThresholds = async (tx: Tx, watched: WatchedMeter, consumed: string, charged: readonly string[]): Promise<void> => {
  const limits = [...creditLimit(watched, consumed), ...capLimit(watched, charged)]
  for (const limit of limits) await announce(tx, watched, limit)
}

/** Returns the ranges of usage that the cap of the price depends on: the open period, and its parts with credits of their own. None without a cap. */
export const chargedRanges = ({ organization_id, customer_id, meter, charge }: WatchedMeter): Consumption[] => {
  if (!charge || charge.cap_amount === null || charge.cap_amount <= 0) return []
  const open = { since: charge.starts_at, until: null }
  return [open, ...creditedParts(open, charge.credits)].map((range) => ({ organization_id, customer_id, meter, ...range }))
}

/** The credits of the customer. The numbers are those of the customer meter, so 100 percent means that the balance is not above zero. */
const creditLimit = ({ credited_units, since, paying }: WatchedMeter, consumed: string): WatchedLimit[] => {
  if (credited_units <= 0) return []
  // Credits that outlive their period are counted from an earlier time on, and do not end with the period.
  const period_end = paying && paying.period_start.getTime() === since?.getTime() ? paying.period_end : null
  const period = { subscription_id: paying?.id ?? null, period_start: since, period_end }
  return [{ basis: 'credits', price_id: null, currency: null, ...period, consumed, limit: String(credited_units) }]
}

/** The cap of the price that the customer pays. The amount is that which an order would bill now, before discounts and taxes. */
const capLimit = (watched: WatchedMeter, charged: readonly string[]): WatchedLimit[] => {
  const { charge } = watched
  const [whole, ...parts] = chargedRanges(watched).map(({ since, until }, at) => ({ since: since!, until, quantity: charged[at]! }))
  if (!charge || !whole) return []
  const { subscription_id, price_id, currency, billing_start, period_end, cap_amount } = charge
  const period = { subscription_id, period_start: billing_start, period_end }
  return [{ basis: 'cap', price_id, currency, ...period, consumed: String(amountSoFar(charge, whole.quantity, parts)), limit: String(cap_amount) }]
}

/** Returns the amount of the usage in the billing period, with the arithmetic of an order. Its periods at the same price share the cap. */
const amountSoFar = ({ unit_amount, cap_amount, beside_amount, credits }: OpenCharge, quantity: string, parts: readonly UsedPart[]): number => {
  const left = Math.max(0, (cap_amount ?? 0) - beside_amount)
  const used = [...useCredits([{ id: credits[0]?.period_id ?? '', quantity, parts }], credits).values()].flat()
  return beside_amount + meteredAmount({ unit_amount, cap_amount: left }, quantity, addUnits(used.map(({ units }) => units)))
}

const announce = async (wall: Tx, watched: WatchedMeter, limit: WatchedLimit): Promise<void> => {
  const { organization_id, customer_id, customer, meter, thresholds } = watched
  const before = thresholds.find(({ basis, price_id }) => basis === limit.basis && price_id === limit.price_id)
  const { percent, period_start, reached, isChanged } = nextThreshold(before, limit)
  if (!isChanged) return
  const tx = await inTimeOf(wall, customer)
  const id = await saveThreshold(tx, { organization_id, customer_id, meter_id: meter.id, ...limit, period_start, percent })
  if (reached === null) return
  const { price_id: _, ...shown } = limit
  await emit(
    tx,
    usageThresholdReached,
    { organization_id, resource_id: id, customer_id },
    {
      id,
      customer_id,
      external_customer_id: customer.external_id,
      meter_id: meter.id,
      meter_name: meter.name,
      percent: reached,
      ...shown,
      consumed: numberOf(limit.consumed),
      limit: numberOf(limit.limit),
    },
  )
  if (reached >= mailedFrom) await enqueue(tx, 'mail.usage_threshold', { organization_id, threshold_id: id })
}
