import type { World } from '../../harness/world.ts'

/** The state of billed usage, in events. */
export interface UsageFigures {
  /** Events in the time of a metered subscription, by the subscriptions. */
  readonly events: string
  /** By the periods of meters with `count`, like the next two. */
  readonly billed: string
  readonly unbilled: string
  /** Events of open periods, and of periods that wait for the next order. */
  readonly waiting: string
  readonly amount: string
  /** Units of credits that were used. */
  readonly credited: string
  /** Order lines that correct an earlier line of the same period. */
  readonly later_lines: string
}

/** Computes each usage period from its stored events with plain SQL, without code of the server. */
const measured = `
  with used as (
    select p.id, count(e.id)::numeric as count, coalesce(sum(e.units), 0) as sum, coalesce(max(e.units), 0) as max, coalesce(min(e.units), 0) as min,
      coalesce(round(sum(e.units) / nullif(count(e.units), 0), 12), 0) as avg, count(distinct e.units)::numeric as unique
    from usage_periods p
    left join (select id, subject_id, timestamp, (metadata->>'units')::numeric as units from usage_events where corrected_at is null) e
      on e.subject_id = p.customer_id and e.timestamp >= p.starts_at and (p.ends_at is null or e.timestamp < p.ends_at)
    group by p.id
  ), measured as (
    select p.*, m.aggregation->>'func' as func, p.ends_at is not null and not p.is_unsettled as is_settled,
      exists (select from usage_credit_uses c where c.organization_id = p.organization_id and c.period_id = p.id) as has_credits,
      case m.aggregation->>'func' when 'count' then u.count when 'sum' then u.sum when 'max' then u.max when 'min' then u.min
        when 'avg' then u.avg when 'unique' then u.unique end as quantity
    from usage_periods p join used u on u.id = p.id join meters m on m.organization_id = p.organization_id and m.id = p.meter_id
  )`

/** Invariants of usage: each of these queries must always return no rows. */
const checks = `${measured}
  select format('%s from %s: %s units are used, %s billed and %s listed as unbilled', func, starts_at, quantity, billed_quantity, unbilled_quantity) as problem
  from measured where is_settled and quantity <> billed_quantity + unbilled_quantity
  union all
  select format('%s from %s: %s units (%s credited) at %s are billed as %s, and listed as %s', func, starts_at, quantity, credited_units, unit_amount, billed_amount, unbilled_amount)
  from measured where is_settled and not (has_credits and unbilled_quantity <> 0)
    and greatest(0, round((quantity - credited_units) * unit_amount::numeric)) <> billed_amount + unbilled_amount
  union all
  select format('%s from %s: %s is billed, by settlements %s', func, starts_at, billed_amount, s.amount)
  from measured p cross join lateral (
    select coalesce(sum(amount), 0) as amount from usage_settlements s where s.organization_id = p.organization_id and s.period_id = p.id and s.voided_at is null) s
  where s.amount <> p.billed_amount
  union all
  select format('order %s has lines of usage of %s, and settlements of %s', order_id, i.amount, s.amount)
  from (
    select o.id as order_id, i.product_price_id as price_id, sum(i.amount - i.discount_amount) as amount
    from orders o join order_items i on i.organization_id = o.organization_id and i.order_id = o.id
    join product_prices r on r.organization_id = i.organization_id and r.id = i.product_price_id and r.meter_id is not null
    where o.status <> 'void' group by 1, 2
  ) i full join (
    select s.order_id, p.price_id, sum(s.charged_amount) as amount from usage_settlements s
    join usage_periods p on p.organization_id = s.organization_id and p.id = s.period_id where s.voided_at is null group by 1, 2
  ) s using (order_id, price_id)
  where coalesce(i.amount, 0) <> coalesce(s.amount, 0)
  union all
  select format('periods have a gap or overlap: %s %s %s %s', before, starts_at, ends_at, following)
  from (
    select p.starts_at, p.ends_at, coalesce(lag(p.ends_at) over w, s.started_at) as before, coalesce(lead(p.starts_at) over w, s.ended_at) as following
    from usage_periods p join subscriptions s on s.organization_id = p.organization_id and s.id = p.subscription_id
    window w as (partition by p.subscription_id, p.meter_id order by p.starts_at, p.ends_at)
  ) p where starts_at is distinct from before or ends_at is distinct from following
  union all
  select format('%s units of a credit are used, of %s', sum(u.units), c.units)
  from usage_credit_uses u join meter_credits c on c.organization_id = u.organization_id and c.id = u.credit_id group by c.id, c.units having sum(u.units) > c.units
  union all
  select format('a period has used %s units of credits, and its lots say %s', p.credited_units, sum(u.units))
  from usage_periods p join usage_credit_uses u on u.organization_id = p.organization_id and u.period_id = p.id
  group by p.id, p.credited_units having p.credited_units <> sum(u.units)
  union all
  select format('%s from %s: %s units are used, only %s credited although a lot has units left', func, starts_at, quantity, credited_units)
  from measured p where is_settled and unbilled_quantity = 0 and quantity > credited_units and exists (
    select from usage_credit_uses u join meter_credits c on c.organization_id = u.organization_id and c.id = u.credit_id
    where u.organization_id = p.organization_id and u.period_id = p.id and u.units < c.units
      and not exists (select from usage_credit_uses o where o.organization_id = u.organization_id and o.credit_id = u.credit_id and o.period_id <> u.period_id))
  limit 20`

/**
 * The credits of each period, less those that were taken back, never exceed the money that is left of its charges. A charge keeps the share of its
 * order that was neither refunded nor lost.
 */
const unbackedCredits = `
  with orders_kept as (
    select o.id, (select coalesce(sum(i.amount - i.discount_amount), 0) from order_items i
        where i.organization_id = o.organization_id and i.order_id = o.id and i.amount > i.discount_amount) + greatest(o.applied_balance_amount, 0) as value,
      o.refunded_amount + (select coalesce(sum(d.amount), 0) from disputes d where d.organization_id = o.organization_id and d.order_id = o.id and d.status = 'lost')
        + case when o.tax_behavior = 'inclusive' then o.refunded_tax_amount + (select coalesce(sum(d.tax_amount), 0) from disputes d
          where d.organization_id = o.organization_id and d.order_id = o.id and d.status = 'lost') else 0 end as gone
    from orders o where o.status <> 'pending'
  )
  select format('a period from %s has credits of %s without money behind them', p.starts_at, -s.kept) as problem
  from usage_periods p cross join lateral (
    select sum(case when u.charged_amount <= 0 or k.gone <= 0 then u.charged_amount when k.gone >= k.value then 0
      else floor(u.charged_amount * (k.value - k.gone) / k.value) end) as kept
    from usage_settlements u join orders_kept k on k.id = u.order_id
    where u.organization_id = p.organization_id and u.period_id = p.id and u.voided_at is null) s
  where s.kept < 0 limit 20`

/** Counts the events of the time of metered subscriptions, and compares them with the periods of meters with `count`. */
const figures = `${measured}
  select (
      select count(*) from usage_events e join subscriptions s on s.organization_id = e.organization_id and s.customer_id = e.subject_id
        and e.timestamp >= s.started_at and (s.ended_at is null or e.timestamp < s.ended_at)
      where e.corrected_at is null and exists (select from usage_periods p where p.organization_id = s.organization_id and p.subscription_id = s.id)
    )::text as events,
    coalesce(sum(billed_quantity), 0)::text as billed, coalesce(sum(unbilled_quantity), 0)::text as unbilled,
    coalesce(sum(quantity - billed_quantity - unbilled_quantity) filter (where not is_settled), 0)::text as waiting,
    (select coalesce(sum(billed_amount), 0)::text from usage_periods) as amount,
    (select trim_scale(coalesce(sum(credited_units), 0))::text from usage_periods) as credited,
    (select (count(*) - count(distinct period_id))::text from usage_settlements where voided_at is null) as later_lines
  from measured where func = 'count'`

/** The lines of all orders of metered customers, and their usage periods. Without ids, because these differ in each run. */
const everyLine = `
  select concat_ws(' ', c.email, o.created_at at time zone 'UTC', o.billing_reason, o.status, o.total_amount, o.due_amount, i.label, i.amount, i.tax_amount) as line
  from orders o join customers c on c.organization_id = o.organization_id and c.id = o.customer_id
  join order_items i on i.organization_id = o.organization_id and i.order_id = o.id
  where c.id in (select customer_id from usage_periods)
  union all
  select concat_ws(' ', c.email, m.name, p.starts_at at time zone 'UTC', p.ends_at at time zone 'UTC', trim_scale(p.billed_quantity), p.billed_amount,
    trim_scale(p.credited_units), trim_scale(p.unbilled_quantity), p.unbilled_amount)
  from usage_periods p join customers c on c.organization_id = p.organization_id and c.id = p.customer_id
  join meters m on m.organization_id = p.organization_id and m.id = p.meter_id
  order by 1`

/** Audits billed usage. All usage must have been merged before. */
export const openUsageAudit = (world: World) => {
  const ask = <T extends object>(text: string): Promise<T[]> => world.database.owner(async (owner) => (await owner.query<T>(text)).rows)
  return {
    /** Returns the violated invariants. Empty if all hold. */
    tick: async (): Promise<string[]> => {
      const { events, billed, unbilled, waiting } = (await ask<UsageFigures>(figures))[0]!
      const found = [...(await ask<{ problem: string }>(checks)), ...(await ask<{ problem: string }>(unbackedCredits))].map(({ problem }) => problem)
      if (Number(billed) + Number(unbilled) + Number(waiting) !== Number(events))
        found.push(`of ${events} events, ${billed} are billed, ${unbilled} listed as unbilled and ${waiting} waiting`)
      return found
    },
    /** Returns credits for lowered usage without money behind them. */
    credits: async (): Promise<string[]> => (await ask<{ problem: string }>(unbackedCredits)).map(({ problem }) => problem),
    figures: async (): Promise<UsageFigures> => (await ask<UsageFigures>(figures))[0]!,
    /** Returns lines for the digest. */
    lines: async (): Promise<string[]> => (await ask<{ line: string }>(everyLine)).map(({ line }) => line),
  }
}
