import type { World } from '../../harness/world.ts'

/** SQL statements by the violation that they find. A statement without rows found no violation. */
type Breaches = Readonly<Record<string, string>>

/** Charges in the test processor's own records, with their payment attempt and order. */
const charges = `(
  select c.intent_id, c.amount, c.currency, c.metadata->>'payment_id' as payment_ref, p.id as payment_id, p.order_id
  from test_processor.charges c left join payments p on p.id::text = c.metadata->>'payment_id' and p.organization_id::text = c.metadata->>'organization_id'
) c`

/** Invariants that are checked during the run and at its end. */
export const always: Breaches = {
  'a period with two orders': `
    select subscription_id, period_start, count(*) from orders where billing_reason = 'subscription_cycle' group by 1, 2 having count(*) > 1`,
  'an order that was paid twice': `select order_id, count(*) from payments where status = 'succeeded' and order_id is not null group by 1 having count(*) > 1`,
  'an order that was charged twice': `select c.order_id, count(*) from ${charges} where c.order_id is not null group by 1 having count(*) > 1`,
  'an attempt that was charged twice': `select c.payment_ref, count(*) from ${charges} group by 1 having count(*) > 1`,
  'a period that was charged twice': `
    select o.subscription_id, o.period_start, count(*) from ${charges} join orders o on o.id = c.order_id
    where o.billing_reason = 'subscription_cycle' group by 1, 2 having count(*) > 1`,
  'a ledger that does not sum to zero': `select currency, sum(amount) from ledger_entries group by 1 having sum(amount) <> 0`,
}

/** Finds work that is not done yet. All of it must be done soon after the last kill. */
export const unsettled: Breaches = {
  'subscriptions without their order': `
    select f.subscription_id from fates f where not exists (
      select from orders o where o.subscription_id = f.subscription_id and o.billing_reason = 'subscription_cycle' and o.period_start = f.due_at)`,
  'orders that nobody has asked the money for': `select id from orders where status = 'pending' and first_failed_at is null`,
  'attempts without an outcome': `select id from payments where status = 'pending' or (order_id is not null and concluded_at is null and checkout_id is null)`,
  'purchases that are not finished': `select id from checkouts where status not in ('succeeded', 'open')`,
  'rows that are due': `
    select id from subscriptions where due_at <= clock_timestamp() union all select id from orders where due_at <= clock_timestamp()
    union all select id from payments where due_at <= clock_timestamp()`,
  'due rows under a lease': `
    select id, due_at, lease_until, lease_holder from subscriptions where due_at is not null and lease_token is not null
    union all select id, due_at, lease_until, lease_holder from orders where due_at is not null and lease_token is not null`,
  'jobs in the queue': `
    select j.id, t.identifier, j.attempts, j.last_error from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id`,
  'events without a number': `select id from events where sequence is null`,
}

/** Finds lost renewals: each due period must have exactly one order, and each charge must be in the ledger. */
export const lost: Breaches = {
  'a subscription without exactly one order for the period that was due': `
    select f.subscription_id, count(o.id) from fates f left join orders o on o.subscription_id = f.subscription_id and o.billing_reason = 'subscription_cycle'
    group by 1 having count(o.id) <> 1 or bool_or(o.period_start is distinct from f.due_at)`,
  'a subscription that is not in its next period': `
    select s.id, s.current_period_start, s.current_period_end, f.due_at from fates f join subscriptions s on s.id = f.subscription_id
    where s.current_period_start is distinct from f.due_at or s.due_at is distinct from s.current_period_end or s.parked_at is not null`,
  'money that the processor took and the ledger does not know': `
    select c.intent_id, c.payment_ref from ${charges} where not exists (
      select from ledger_transactions t join ledger_entries e on e.organization_id = t.organization_id and e.transaction_id = t.id
      where t.kind = 'payment_received' and t.reference = c.payment_id and e.account = 'processor' and e.amount = c.amount and e.currency = c.currency)`,
  'money in the ledger that the processor never took': `
    select t.reference from ledger_transactions t where t.kind = 'payment_received' and not exists (select from ${charges} where c.payment_id = t.reference)`,
}

/** All other invariants of the final state. */
export const atTheEnd: Breaches = {
  'an order that is not what its card makes of it': `
    select f.fate, f.token, o.id, o.status, o.total_amount, s.status as subscription_status, o.next_payment_attempt_at - o.first_failed_at as wait, p.* from fates f
    join orders o on o.subscription_id = f.subscription_id and o.billing_reason = 'subscription_cycle'
    join subscriptions s on s.id = f.subscription_id
    cross join lateral (
      select count(*) filter (where status = 'succeeded') as succeeded, count(*) filter (where status = 'failed') as failed from payments p where p.order_id = o.id) p
    where not coalesce(case f.fate
      when 'paid' then o.status = 'paid' and s.status = 'active' and o.total_amount = f.amount and o.due_at is null and p.succeeded = 1 and p.failed = 0
      when 'free' then o.status = 'paid' and s.status = 'active' and o.total_amount = 0 and o.due_at is null and p.succeeded + p.failed = 0
      else o.status = 'pending' and s.status = 'past_due' and o.total_amount = f.amount and p.succeeded = 0 and p.failed = case f.fate when 'no_card' then 0 else 1 end
        and o.due_at = o.next_payment_attempt_at and o.invoice_number is not null
        and o.next_payment_attempt_at - o.first_failed_at = case f.fate when 'declined_for_good' then interval '21 days' else interval '2 days' end
      end, false)`,
  'a paid order without a number, or that says paid not exactly once': `
    select o.id, o.invoice_number, count(e.id) from orders o left join events e on e.organization_id = o.organization_id and e.resource_id = o.id and e.kind = 'order.paid'
    where o.status = 'paid' group by o.organization_id, o.id having count(e.id) <> 1 or o.invoice_number is null`,
  'an unpaid order that says paid': `
    select o.id from orders o join events e on e.organization_id = o.organization_id and e.resource_id = o.id and e.kind = 'order.paid' where o.status <> 'paid'`,
  'an order that was not made known exactly once': `
    select o.id, count(e.id) from orders o left join events e on e.organization_id = o.organization_id and e.resource_id = o.id and e.kind = 'order.created'
    group by o.organization_id, o.id having count(e.id) <> 1`,
  'a new period that was not made known exactly once': `
    select f.subscription_id, count(e.id) from fates f left join events e on e.resource_id = f.subscription_id and e.kind = 'subscription.cycled' group by 1 having count(e.id) <> 1`,
  'a customer who owes something else than what is open': `
    select c.id, coalesce(e.owed, 0), coalesce(o.open, 0) from customers c
    left join (select customer_id, sum(amount) as owed from ledger_entries where account = 'receivable' group by 1) e on e.customer_id = c.id
    left join (select customer_id, sum(due_amount) as open from orders where status = 'pending' group by 1) o on o.customer_id = c.id
    where coalesce(e.owed, 0) <> coalesce(o.open, 0)`,
  'a purchase without exactly one paid order': `
    select k.id, count(o.id) from checkouts k left join orders o on o.checkout_id = k.id and o.status = 'paid' where k.status = 'succeeded' group by k.organization_id, k.id having count(o.id) <> 1`,
  'a numbering with gaps': `select organization_id, max(sequence), count(*) from events group by 1 having max(sequence) <> count(*)`,
}

export interface Breach {
  readonly what: string
  readonly count: number
  readonly examples: readonly string[]
}

/** Returns every violation, with its count and a few examples. */
export const findBreaches = (world: World, breaches: Breaches): Promise<Breach[]> =>
  world.database.owner(async (owner) => {
    const found: Breach[] = []
    for (const [what, statement] of Object.entries(breaches)) {
      const { rows } = await owner.query<Record<string, unknown>>(statement)
      if (rows.length > 0) found.push({ what, count: rows.length, examples: rows.slice(0, 3).map((row) => JSON.stringify(row)) })
    }
    return found
  })
