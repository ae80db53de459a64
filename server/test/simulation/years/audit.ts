import { hash } from 'node:crypto'
import type pg from 'pg'
import { readBooks } from '../../harness/books.ts'
import type { World } from '../../harness/world.ts'
import type { Billed } from './biller.ts'
import type { Story } from './stories.ts'

interface Known {
  readonly story: Story
  readonly customer_id: string
  readonly id: string
}

/** Audits ledger and orders. `tick` checks the invariants each time the clocks have advanced. `end` compares each order with the biller's. */
export const openAudit = (world: World, organization_id: string) => {
  const ask = <T extends pg.QueryResultRow>(text: string, given: readonly unknown[] = []): Promise<T[]> =>
    world.database.owner(async (owner) => (await owner.query<T>(text, [...given])).rows)
  /** Id of the last order that was checked. Later orders have larger ids, and the amounts of an order never change. */
  let seen = '00000000-0000-0000-0000-000000000000'

  /** Returns the violated invariants. Empty if all hold. */
  const tick = async (): Promise<string[]> => {
    const rows = await ask<{ problem: string }>(checks, [seen])
    seen = (await ask<{ id: string }>('select id from orders order by id desc limit 1'))[0]?.id ?? seen
    return rows.map(({ problem }) => problem)
  }

  /** `more` are further lines of the digest. */
  const end = async (known: readonly Known[], more: readonly string[]) => {
    const compared: string[] = []
    const { charges } = await readBooks(world, organization_id)
    const received = await ask<{ reference: string; amount: string }>(
      `select t.reference, e.amount from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
       where e.account = 'processor' and t.kind = 'payment_received'`,
    )
    const theirs = new Map(charges.map(({ metadata, amount }) => [metadata.payment_id, amount]))
    for (const { reference, amount } of received)
      if (theirs.get(reference) !== Number(amount)) compared.push(`the bank knows of ${theirs.get(reference)} where the ledger says ${amount}`)
    if (theirs.size !== received.length) compared.push(`the bank charged ${theirs.size} times, the ledger says ${received.length}`)
    const found = Map.groupBy(await ask<OrderSeen>(everyOrder), ({ subscription_id }) => subscription_id)
    const facts = Map.groupBy(await ask<{ customer_id: string; fact: string }>(everyFact), ({ customer_id }) => customer_id)
    const pages: string[] = [...more]
    let orders = 0
    for (const { story, id, customer_id } of known) {
      const seen = (found.get(id) ?? []).map(lineOf)
      const wanted = story.expected.orders.map(wantedLine)
      orders += seen.length
      pages.push(story.name, ...seen, ...(facts.get(customer_id) ?? []).map(({ fact }) => fact).toSorted())
      const first = wanted.findIndex((line, n) => line !== seen[n])
      const at = first === -1 && seen.length > wanted.length ? wanted.length : first
      if (at !== -1)
        compared.push(
          `${story.name} (${story.currency}, ${story.place}): order ${at + 1} of ${wanted.length} should be\n       ${wanted[at]}\n     and is\n       ${seen[at]}\n     after ${JSON.stringify(
            story.deeds
              .filter(({ at: when }) => when <= (story.expected.orders[at]?.at ?? Infinity))
              .slice(-4)
              .map(({ at: when, act }) => [new Date(when).toISOString(), act.kind, 'way' in act ? act.way : null, 'plan' in act ? act.plan.id : null]),
          )}`,
        )
    }
    const [sum] = await ask<{ sum: string }>(
      `select coalesce(sum(abs(s)), 0)::text as sum from (select sum(amount) as s from ledger_entries group by currency) x`,
    )
    return { compared, orders, ledger: sum!.sum, digest: hash('sha256', pages.join('\n')).slice(0, 16) }
  }
  return { tick, end }
}

/** Invariants: each of these queries must always return no rows. */
const checks = `
  select 'the ledger of ' || currency || ' comes to ' || sum(amount) as problem from ledger_entries group by currency having sum(amount) <> 0
  union all
  select 'receivable in ' || coalesce(l.currency, o.currency) || ' is ' || coalesce(l.amount, 0) || ', open orders are ' || coalesce(o.amount, 0)
  from (select currency, sum(amount) as amount from ledger_entries where account = 'receivable' group by currency) l
  full join (select currency, sum(due_amount - carried_amount) as amount from orders where status = 'pending' group by currency) o on o.currency = l.currency
  where coalesce(l.amount, 0) <> coalesce(o.amount, 0)
  union all
  select 'the bank holds ' || coalesce(b.amount, 0) || ' ' || coalesce(l.currency, b.currency) || ', the ledger says ' || coalesce(l.amount, 0)
  from (select currency, sum(amount) as amount from ledger_entries where account = 'processor' group by currency) l
  full join (select currency, sum(amount) as amount from (
    select currency, amount from test_processor.charges
    union all select currency, -amount from test_processor.refunds where status = 'succeeded'
    union all select currency, -amount from test_processor.disputes where status not in ('early_warning', 'won')
  ) bank group by currency) b on b.currency = l.currency
  where coalesce(l.amount, 0) <> coalesce(b.amount, 0)
  union all
  select 'a customer has ' || coalesce(b.amount, 0) || ' ' || coalesce(l.currency, b.currency) || ', the ledger says ' || coalesce(l.amount, 0)
  from (select customer_id, currency, -sum(amount) as amount from ledger_entries where account = 'customer_balance' group by 1, 2) l
  full join customer_balances b on b.customer_id = l.customer_id and b.currency = l.currency
  where coalesce(l.amount, 0) <> coalesce(b.amount, 0)
  union all
  select 'a period has ' || count(*) || ' orders: ' || subscription_id || ' ' || period_start
  from orders where period_start is not null and status <> 'void' group by subscription_id, period_start having count(*) > 1
  union all
  select 'order ' || o.id || ' is not the sum of its lines'
  from orders o join lateral (
    select sum(amount) as amount, sum(discount_amount) as discount, sum(tax_amount) as tax, sum(net_amount) as net from order_items i
    where i.organization_id = o.organization_id and i.order_id = o.id) i on true
  where o.id > $1 and ((i.amount, i.discount, i.tax, i.net) is distinct from (o.subtotal_amount::numeric, o.discount_amount::numeric, o.tax_amount::numeric, o.net_amount::numeric)
    or o.total_amount <> o.net_amount + o.tax_amount
    or o.total_amount <> o.subtotal_amount - o.discount_amount + case when o.tax_behavior = 'exclusive' then o.tax_amount else 0 end
    or o.due_amount <> greatest(0, o.total_amount + o.applied_balance_amount))
  union all
  select 'order ' || o.id || ' is dated ' || o.created_at || ' and for a period from ' || o.period_start
  from orders o where o.id > $1 and o.billing_reason = 'subscription_cycle' and o.created_at <> o.period_start
  union all
  select 'order ' || o.id || ' of ' || o.created_at || ' was billed after the end, ' || s.ended_at
  from orders o join subscriptions s on s.organization_id = o.organization_id and s.id = o.subscription_id where s.ended_at < o.created_at
    and not exists (select from usage_settlements u where u.organization_id = o.organization_id and u.order_id = o.id)
  union all
  select 'order ' || o.id || ' of ' || o.created_at || ' was billed in the pause since ' || s.paused_at
  from orders o join subscriptions s on s.organization_id = o.organization_id and s.id = o.subscription_id where s.paused_at <= o.created_at
  union all
  select 'subscription ' || s.id || ' has left its day, the ' || s.anchor_day || ': ' || s.current_period_end
  from subscriptions s
  where s.recurring_interval in ('month', 'year') and s.status in ('active', 'past_due') and not s.pause_at_period_end
    and extract(day from s.current_period_end at time zone 'UTC')
      <> least(s.anchor_day, extract(day from (date_trunc('month', s.current_period_end at time zone 'UTC') + interval '1 month - 1 day')))
  union all
  select 'subscription ' || id || ' was parked' from subscriptions where parked_at is not null
  limit 20`

interface OrderSeen {
  readonly subscription_id: string
  readonly created_at: Date
  readonly billing_reason: string
  readonly period_start: Date | null
  readonly period_end: Date | null
  readonly status: string
  readonly figures: readonly string[]
  readonly lines: readonly string[]
}

const everyOrder = `
  select o.subscription_id, o.created_at, o.billing_reason, o.period_start, o.period_end, o.status,
    array[o.subtotal_amount, o.discount_amount, o.tax_amount, o.total_amount, o.applied_balance_amount, o.due_amount, o.carried_amount]::text[] as figures,
    (select array_agg(i.amount || '-' || i.discount_amount || '+' || i.tax_amount) from order_items i
     where i.organization_id = o.organization_id and i.order_id = o.id) as lines
  from orders o order by o.subscription_id, o.created_at, o.id`

const everyFact = `
  select e.customer_id, concat_ws(' ', to_char(t.business_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS'), t.kind, e.account, e.amount, e.currency) as fact
  from ledger_entries e join ledger_transactions t on t.organization_id = e.organization_id and t.id = e.transaction_id`

const lineOf = ({ created_at, billing_reason, period_start, period_end, status, figures, lines }: OrderSeen): string =>
  `${created_at.toISOString()} ${billing_reason} for ${period_start && period_end ? `${period_start.toISOString()}/${period_end.toISOString()}` : null}: ${figures.join(' ')} ${status} (${lines.toSorted().join(' ')})`

const wantedLine = ({ at, reason, period, status, lines, ...o }: Billed): string =>
  `${new Date(at).toISOString()} ${reason} for ${period}: ${[o.subtotal, o.discount, o.tax, o.total, o.applied, o.due, o.carried].join(' ')} ${status} (${lines
    .map(({ amount, discount, tax }) => `${amount}-${discount}+${tax}`)
    .toSorted()
    .join(' ')})`
