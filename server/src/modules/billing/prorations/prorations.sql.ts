import type { LineLabel } from '@bursar/views'
import { sql } from 'kysely'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** The key of a locked subscription and the start of its current period. */
type LockedPeriod = Locked<{ organization_id: string; id: string; current_period_start: Date }>

/** A proration charge from a subscription change, for the rest of a period. */
export interface ChargeRow {
  organization_id: string
  id: string
  created_at: Date
  subscription_id: string
  period_start: Date
  product_price_id: string
  amount: number
  entry_id: string | null
  order_id: string | null
}

/** A proration credit from a subscription change. Each row credits one earlier order or proration charge. */
export interface CreditRow {
  organization_id: string
  id: string
  created_at: Date
  subscription_id: string
  period_start: Date
  product_price_id: string
  label: LineLabel
  amount: number
  withheld_amount: number
  source_order_id: string | null
  source_charge_id: string | null
  entry_id: string | null
  order_id: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    proration_charges: ChargeRow
    proration_credits: CreditRow
  }
}

/** An order line or proration charge that billed time of the current period. */
export interface BilledRow {
  charge_id: string | null
  /** Null while the billing entry of the charge is not on an order. */
  order_id: string | null
  product_price_id: string
  amount: number
  from: Date
}

/**
 * Returns the lines that billed time of the current period, the latest first. The order that began the period comes
 * last.
 */
export const billedInPeriod = async (tx: Tx, { organization_id, id, current_period_start: start }: LockedPeriod): Promise<BilledRow[]> => {
  const { rows } = await sql<BilledRow>`
    select charge_id, order_id, product_price_id, amount, "from" from (
      select c.id as charge_id, coalesce(c.order_id, e.order_id) as order_id, c.product_price_id, c.amount, c.created_at as "from", c.place
      from proration_charges c left join billing_entries e on e.organization_id = c.organization_id and e.id = c.entry_id
      where c.organization_id = ${organization_id} and c.subscription_id = ${id} and c.period_start = ${start}
      union all
      select null, o.id, i.product_price_id, i.amount - i.discount_amount, o.period_start, 0
      from orders o join order_items i on i.organization_id = o.organization_id and i.order_id = o.id
      where o.organization_id = ${organization_id} and o.subscription_id = ${id} and o.period_start = ${start}
        and o.status in ('paid', 'partially_refunded', 'refunded') and not i.proration and i.product_price_id is not null and i.amount > i.discount_amount
    ) billed order by place desc`.execute(tx.q)
  return rows
}

/** Returns the credits that were given in the current period. */
export const creditsInPeriod = (tx: Tx, { organization_id, id, current_period_start }: LockedPeriod): Promise<CreditRow[]> =>
  tx.q
    .selectFrom('proration_credits')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('subscription_id', '=', id)
    .where('period_start', '=', current_period_start)
    .execute()

/** Whether an order that billed time of the current period has an open dispute. */
export const isPeriodDisputed = async (tx: Tx, { organization_id, id, current_period_start: start }: LockedPeriod): Promise<boolean> => {
  const { rows } = await sql`
    select from disputes d join orders o on o.organization_id = d.organization_id and o.id = d.order_id
    where d.organization_id = ${organization_id} and o.subscription_id = ${id} and d.status in ('needs_response', 'under_review') and (
      o.period_start = ${start}
      or exists (
        select from proration_charges c left join billing_entries e on e.organization_id = c.organization_id and e.id = c.entry_id
        where c.organization_id = ${organization_id} and c.subscription_id = ${id} and c.period_start = ${start} and coalesce(c.order_id, e.order_id) = o.id))
    limit 1`.execute(tx.q)
  return rows.length > 0
}

/** The value of an order, and the parts of it that were returned or may have to be returned. */
export interface Standing {
  order_id: string
  /** The sum of the positive lines of the order after discounts, plus the debt that the order collected. */
  value: number
  /** The part that was refunded, or lost to a dispute. */
  gone: number
  /** `gone` plus pending refunds and open disputes. */
  at_risk: number
}

/** Returns the `Standing` of each order. The amounts include tax if the prices include tax, because they are compared with order lines. */
export const standingsOf = async (tx: Tx, organization_id: string, order_ids: readonly string[]): Promise<Map<string, Standing>> => {
  if (order_ids.length === 0) return new Map()
  const { rows } = await sql<Standing>`
    with found as (
      select o.id, o.refunded_amount, o.refunded_tax_amount, greatest(o.applied_balance_amount, 0) as debt,
        case when o.tax_behavior = 'inclusive' then 1 else 0 end as taxed
      from orders o where o.organization_id = ${organization_id} and o.id = any(${[...new Set(order_ids)]}::uuid[])
    ), items as (
      select i.order_id, sum(i.amount - i.discount_amount) as amount from order_items i join found f on f.id = i.order_id
      where i.organization_id = ${organization_id} and i.amount > i.discount_amount group by 1
    ), pending as (
      select r.order_id, sum(r.amount + f.taxed * r.tax_amount) as amount from refunds r join found f on f.id = r.order_id
      where r.organization_id = ${organization_id} and r.status = 'pending' group by 1
    ), disputed as (
      select d.order_id, coalesce(sum(d.amount + f.taxed * d.tax_amount) filter (where d.status = 'lost'), 0) as lost,
        coalesce(sum(d.amount + f.taxed * d.tax_amount) filter (where d.status in ('needs_response', 'under_review')), 0) as open
      from disputes d join found f on f.id = d.order_id where d.organization_id = ${organization_id} group by 1
    ), sums as (
      select f.id as order_id, coalesce(i.amount, 0) + f.debt as value,
        f.refunded_amount + f.taxed * f.refunded_tax_amount + coalesce(d.lost, 0) as gone, coalesce(p.amount, 0) + coalesce(d.open, 0) as risk
      from found f left join items i on i.order_id = f.id left join pending p on p.order_id = f.id left join disputed d on d.order_id = f.id
    )
    select order_id, value::bigint as value, gone::bigint as gone, (gone + risk)::bigint as at_risk from sums`.execute(tx.q)
  return new Map(rows.map((row) => [row.order_id, row]))
}

export const insertCharges = async (tx: Tx, rows: readonly ChargeRow[]): Promise<void> => {
  if (rows.length > 0) await tx.q.insertInto('proration_charges').values(rows).execute()
}

export const insertCredits = async (tx: Tx, rows: readonly CreditRow[]): Promise<void> => {
  if (rows.length > 0) await tx.q.insertInto('proration_credits').values(rows).execute()
}

/**
 * Deletes the proration charges and credits of a change that was not applied, because its order was voided or paid too
 * late.
 */
export const forgetProrations = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }): Promise<void> => {
  await sql`delete from proration_credits where organization_id = ${organization_id} and order_id = ${id}`.execute(tx.q)
  await sql`delete from proration_charges where organization_id = ${organization_id} and order_id = ${id}`.execute(tx.q)
}

/** A credit whose billed line is on an order, together with the entry or order that contains the credit itself. */
export interface ReviewedCredit extends CreditRow {
  currency: string
  backing_id: string
  entry_amount: number | null
  /** The order that contains the credit, directly or through an entry. */
  carrier_id: string | null
  carrier_status: string | null
}

/**
 * Selects credits of a subscription by the order that they credit (`source`), the order that contains them (`carrier`),
 * or their entries.
 */
export type Reviewed = { readonly source: string } | { readonly carrier: string } | { readonly entries: readonly string[] }

export const creditsOf = async (tx: Tx, { organization_id, id }: { organization_id: string; id: string }, which: Reviewed): Promise<ReviewedCredit[]> => {
  const filter =
    'source' in which
      ? sql`coalesce(k.source_order_id, c.order_id, ce.order_id) = ${which.source}`
      : 'carrier' in which
        ? sql`coalesce(k.order_id, e.order_id) = ${which.carrier}`
        : sql`k.entry_id = any(${[...which.entries]}::uuid[])`
  const { rows } = await sql<ReviewedCredit>`
    select k.*, s.currency, coalesce(k.source_order_id, c.order_id, ce.order_id) as backing_id, e.amount as entry_amount, o.id as carrier_id, o.status as carrier_status
    from proration_credits k
    join subscriptions s on s.organization_id = k.organization_id and s.id = k.subscription_id
    left join proration_charges c on c.organization_id = k.organization_id and c.id = k.source_charge_id
    left join billing_entries ce on ce.organization_id = c.organization_id and ce.id = c.entry_id
    left join billing_entries e on e.organization_id = k.organization_id and e.id = k.entry_id
    left join orders o on o.organization_id = k.organization_id and o.id = coalesce(k.order_id, e.order_id)
    where k.organization_id = ${organization_id} and k.subscription_id = ${id} and ${filter} and coalesce(k.source_order_id, c.order_id, ce.order_id) is not null
    order by k.id`.execute(tx.q)
  return rows
}

/** Stores how much of each credit is withheld. */
export const withhold = async (tx: Tx, organization_id: string, rows: readonly { id: string; withheld_amount: number }[]): Promise<void> => {
  await sql`
    update proration_credits k set withheld_amount = v.amount
    from unnest(${rows.map(({ id }) => id)}::uuid[], ${rows.map((row) => row.withheld_amount)}::bigint[]) as v (id, amount)
    where k.organization_id = ${organization_id} and k.id = v.id`.execute(tx.q)
}

/** Changes the amounts of open billing entries. Deletes entries whose amount becomes zero. */
export const changeEntries = async (tx: Tx, organization_id: string, rows: readonly { id: string; amount: number }[]): Promise<void> => {
  const kept = rows.filter(({ amount }) => amount !== 0)
  const gone = rows.filter(({ amount }) => amount === 0).map(({ id }) => id)
  if (kept.length > 0)
    await sql`
      update billing_entries e set amount = v.amount
      from unnest(${kept.map(({ id }) => id)}::uuid[], ${kept.map(({ amount }) => amount)}::bigint[]) as v (id, amount)
      where e.organization_id = ${organization_id} and e.id = v.id`.execute(tx.q)
  if (gone.length === 0) return
  await sql`update proration_credits set entry_id = null where organization_id = ${organization_id} and entry_id = any(${gone}::uuid[])`.execute(tx.q)
  await sql`delete from billing_entries where organization_id = ${organization_id} and id = any(${gone}::uuid[])`.execute(tx.q)
}

/** Links a credit without a billing entry to a new entry. */
export const assignEntry = async (tx: Tx, { organization_id, id }: CreditRow, entry_id: string): Promise<void> => {
  await sql`update proration_credits set entry_id = ${entry_id} where organization_id = ${organization_id} and id = ${id}`.execute(tx.q)
}
