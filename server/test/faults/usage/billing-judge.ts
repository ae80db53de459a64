import type { World } from '../../harness/world.ts'

/** A usage period, with the quantity and the amount that follow from its stored events. */
interface Judged {
  readonly customer: string
  readonly func: string
  readonly starts_at: Date
  /** False if usage of the period can still be billed. */
  readonly is_final: boolean
  /** By the stored events. */
  readonly quantity: string
  readonly amount: number
  /** By order lines, and by the list of unbilled usage. */
  readonly billed_quantity: string
  readonly unbilled_quantity: string
  readonly billed_amount: number
  readonly unbilled_amount: number
  /** The amount of the period's settlements. */
  readonly settled_amount: number
  readonly charged_amount: number
  readonly settlements: number
}

export interface BillingVerdict {
  readonly periods: number
  readonly lines: number
  /** Lines that bill a difference to an earlier line of the same period. */
  readonly later_lines: number
  /** Events that order lines bill, and events that are listed as unbilled. */
  readonly billed: number
  readonly unbilled: number
  /** Events in usage periods. */
  readonly expected: number
  readonly billed_amount: number
  readonly lost: number
  readonly double: number
  readonly problems: string[]
}

/**
 * Computes each period from its events with plain SQL, without code of the server. The prices have no caps, and the customers have no
 * credits and no discounts.
 */
const everyPeriod = `
  with used as (
    select p.id, count(e.id)::numeric as count, coalesce(sum(e.units), 0) as sum, coalesce(max(e.units), 0) as max, coalesce(min(e.units), 0) as min,
      coalesce(round(sum(e.units) / nullif(count(e.units), 0), 12), 0) as avg, count(distinct e.units)::numeric as unique
    from usage_periods p
    left join (
      select s.customer_id, e.id, e.timestamp, (e.metadata->>'units')::numeric as units from usage_events e
      join usage_subjects s on s.organization_id = e.organization_id and s.id = e.subject_id
      where e.organization_id = $1 and e.name = 'call' and e.corrected_at is null
    ) e on e.customer_id = p.customer_id and e.timestamp >= p.starts_at and e.timestamp < p.ends_at
    where p.organization_id = $1 group by p.id
  ), measured as (
    select p.*, m.aggregation->>'func' as func, case m.aggregation->>'func' when 'count' then u.count when 'sum' then u.sum when 'max' then u.max
      when 'min' then u.min when 'avg' then u.avg when 'unique' then u.unique end as quantity
    from usage_periods p join used u on u.id = p.id join meters m on m.organization_id = p.organization_id and m.id = p.meter_id
  )
  select c.external_id as customer, p.func, p.starts_at, p.ends_at is not null and p.final_at is not null and not p.is_unsettled and p.due_at is null as is_final,
    trim_scale(p.quantity)::text as quantity, greatest(0, round(p.quantity * p.unit_amount::numeric))::float8 as amount,
    trim_scale(p.billed_quantity)::text as billed_quantity, trim_scale(p.unbilled_quantity)::text as unbilled_quantity,
    p.billed_amount::float8 as billed_amount, p.unbilled_amount::float8 as unbilled_amount, s.*
  from measured p join customers c on c.organization_id = p.organization_id and c.id = p.customer_id
  cross join lateral (
    select coalesce(sum(amount), 0)::float8 as settled_amount, coalesce(sum(charged_amount), 0)::float8 as charged_amount, count(*)::int as settlements
    from usage_settlements s where s.organization_id = p.organization_id and s.period_id = p.id and s.voided_at is null) s
  order by c.external_id, p.func, p.starts_at`

/** Orders whose lines of usage are not the settlements of this order, by price. Voided orders bill nothing. */
const differingOrders = `
  select order_id, coalesce(i.amount, 0)::float8 as by_lines, coalesce(s.amount, 0)::float8 as by_settlements
  from (
    select o.id as order_id, i.product_price_id as price_id, sum(i.amount - i.discount_amount) as amount
    from orders o join order_items i on i.organization_id = o.organization_id and i.order_id = o.id
    join product_prices r on r.organization_id = i.organization_id and r.id = i.product_price_id and r.meter_id is not null
    where o.organization_id = $1 and o.status <> 'void' group by 1, 2
  ) i full join (
    select s.order_id, p.price_id, sum(s.charged_amount) as amount from usage_settlements s
    join usage_periods p on p.organization_id = s.organization_id and p.id = s.period_id
    where s.organization_id = $1 and s.voided_at is null group by 1, 2
  ) s using (order_id, price_id)
  where coalesce(i.amount, 0) <> coalesce(s.amount, 0)`

/**
 * Finds times of a subscription that no usage period contains, or that two contain. Call it after all subscriptions have ended, and
 * before `makeLastOrdersDue` changes the times at which they ended.
 */
export const findGaps = async (world: World, organization_id: string): Promise<string[]> => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ customer: string; gap: string }>(
      `select c.external_id as customer, concat_ws(' ', p.meter_id, p.before, p.starts_at, p.ends_at, p.following) as gap
       from (
         select p.*, coalesce(lag(p.ends_at) over w, s.started_at) as before, coalesce(lead(p.starts_at) over w, s.ended_at) as following
         from usage_periods p join subscriptions s on s.organization_id = p.organization_id and s.id = p.subscription_id
         where p.organization_id = $1 window w as (partition by p.subscription_id, p.meter_id order by p.starts_at, p.ends_at)
       ) p join customers c on c.organization_id = p.organization_id and c.id = p.customer_id
       where p.starts_at is distinct from p.before or p.ends_at is distinct from p.following`,
      [organization_id],
    ),
  )
  return rows.map(({ customer, gap }) => `the periods of ${customer} have a gap or overlap: ${gap}`)
}

/** Compares what order lines have billed with the stored events, for each usage period and function. */
export const judgeBilling = async (world: World, organization_id: string): Promise<BillingVerdict> => {
  const [periods, orders] = await world.database.owner(async (owner) => [
    (await owner.query<Judged>(everyPeriod, [organization_id])).rows,
    (await owner.query<{ order_id: string; by_lines: number; by_settlements: number }>(differingOrders, [organization_id])).rows,
  ])
  const problems: string[] = []
  let [lost, double] = [0, 0]
  /** Adds a difference between what is billed and what must be billed. */
  const differ = (difference: number, problem: string) => {
    if (difference < 0) lost -= difference
    else double += difference
    problems.push(problem)
  }
  for (const period of periods) {
    const { customer, func, starts_at, quantity, amount, billed_quantity, unbilled_quantity, billed_amount, unbilled_amount, settled_amount } = period
    const name = `${func} of ${customer} from ${starts_at.toISOString()}`
    if (!period.is_final) differ(-1, `${name}: the period is not settled`)
    // Quantities have at most 12 decimal places and few digits, so that sums of two are exact enough to compare.
    const difference = Number(billed_quantity) + Number(unbilled_quantity) - Number(quantity)
    if (Math.abs(difference) > 1e-9)
      differ(
        func === 'count' ? difference : Math.sign(difference),
        `${name}: ${billed_quantity} units are billed and ${unbilled_quantity} listed, of ${quantity}`,
      )
    if (billed_amount + unbilled_amount !== amount)
      differ(
        Math.sign(billed_amount + unbilled_amount - amount),
        `${name}: ${billed_amount} cents are billed and ${unbilled_amount} listed, and ${quantity} units cost ${amount}`,
      )
    if (settled_amount !== billed_amount || period.charged_amount !== settled_amount)
      differ(Math.sign(settled_amount - billed_amount), `${name}: ${billed_amount} cents are billed, by settlements ${settled_amount}`)
  }
  for (const { order_id, by_lines, by_settlements } of orders)
    differ(Math.sign(by_lines - by_settlements), `the order ${order_id} has lines of usage of ${by_lines} cents, and settlements of ${by_settlements}`)
  const sum = (of: (period: Judged) => number, chosen = periods) => chosen.reduce((total, period) => total + of(period), 0)
  for (const func of new Set(periods.map((period) => period.func)))
    if (
      sum(
        ({ billed_amount }) => billed_amount,
        periods.filter((period) => period.func === func),
      ) === 0
    )
      problems.push(`this run shows nothing for ${func}: nothing is billed`)
  const counts = periods.filter(({ func }) => func === 'count')
  return {
    periods: periods.length,
    lines: sum(({ settlements }) => settlements),
    later_lines: sum(({ settlements }) => Math.max(0, settlements - 1)),
    billed: sum(({ billed_quantity }) => Number(billed_quantity), counts),
    unbilled: sum(({ unbilled_quantity }) => Number(unbilled_quantity), counts),
    expected: sum(({ quantity }) => Number(quantity), counts),
    billed_amount: sum(({ billed_amount }) => billed_amount),
    lost,
    double,
    problems,
  }
}
