import type { Lane } from './stage.ts'

/** Rows of one customer that the checker reads after each step. Amounts are in cents. */
export interface Books {
  readonly now: string
  readonly balance: number
  readonly subscriptions: readonly Subscription[]
  readonly orders: readonly Order[]
  /** Prorations that an order has billed or will bill. */
  readonly entries: readonly Entry[]
  /** Changes that wait for a payment or for the next period. */
  readonly updates: readonly { readonly subscription_id: string; readonly kind: 'pending' | 'paying' }[]
  readonly methods: readonly string[]
}

export interface Subscription {
  readonly id: string
  readonly product_id: string
  readonly status: string
  readonly seats: number | null
  readonly amount: number
  readonly current_period_start: string
  readonly current_period_end: string
  readonly cancel_at_period_end: boolean
  readonly ended_at: string | null
}

export interface Order {
  readonly id: string
  readonly subscription_id: string
  readonly status: 'draft' | 'pending' | 'paid' | 'refunded' | 'partially_refunded' | 'void'
  readonly billing_reason: string
  readonly created_at: string
  readonly period_start: string | null
  readonly net_amount: number
  readonly tax_amount: number
  readonly total_amount: number
  readonly applied_balance_amount: number
  readonly due_amount: number
  readonly carried_amount: number
  readonly refunded_amount: number
  /** True if a payment attempt is scheduled. */
  readonly scheduled: boolean
  readonly items: readonly Item[]
  /** True if a payment attempt is pending. */
  readonly attempting: boolean
  readonly charges: readonly Charge[]
}

export interface Item {
  readonly id: string
  readonly label: string
  readonly amount: number
  readonly discount_amount: number
  /** Amount with tax. */
  readonly gross: number
  readonly proration: boolean
}

/** A charge for the order, from the test processor's own records. */
export interface Charge {
  readonly intent_id: string
  readonly amount: number
  /** The sum of refunds that succeeded or are pending. */
  readonly refunded: number
  readonly pending: readonly { readonly id: string; readonly amount: number }[]
  readonly disputes: readonly { readonly id: string; readonly status: string; readonly amount: number }[]
}

export interface Entry {
  readonly id: string
  readonly subscription_id: string
  readonly created_at: string
  readonly amount: number
  readonly order_id: string | null
}

export const isPaid = ({ status }: Order): boolean => status === 'paid' || status === 'refunded' || status === 'partially_refunded'

/** Reads one customer's rows as the database owner: orders and entries of the server, and charges of the test processor. */
export const readBooks = async ({ ask, organization_id }: Pick<Lane, 'ask' | 'organization_id'>, customer_id: string): Promise<Books> =>
  (await ask<{ books: Books }>(statement, [organization_id, customer_id]))[0]!.books

const list = (row: string, from: string): string => `coalesce((select jsonb_agg(${row}) from ${from}), '[]')`

const charges = `
  select c.intent_id, c.amount,
    (select coalesce(sum(r.amount), 0) from test_processor.refunds r
     where r.account = c.account and r.intent_id = c.intent_id and r.status in ('pending', 'succeeded')) as refunded,
    ${list(`jsonb_build_object('id', r.id, 'amount', r.amount)`, `test_processor.refunds r where r.account = c.account and r.intent_id = c.intent_id and r.status = 'pending'`)} as pending,
    ${list(`jsonb_build_object('id', d.id, 'status', d.status, 'amount', d.amount)`, `(select * from test_processor.disputes d where d.account = c.account and d.intent_id = c.intent_id order by d.created_at, d.id) d`)} as disputes
  from payments p join test_processor.charges c on c.account = p.account_id::text and c.intent_id = p.intent_id
  where p.organization_id = o.organization_id and p.order_id = o.id order by p.id`

const orders = `
  select o.id, o.subscription_id, o.status, o.billing_reason, o.created_at, o.period_start, o.net_amount, o.tax_amount, o.total_amount,
    o.applied_balance_amount, o.due_amount, o.carried_amount, o.refunded_amount, (o.due_at is not null or o.next_payment_attempt_at is not null) as scheduled,
    ${list(
      `jsonb_build_object('id', i.id, 'label', i.label, 'amount', i.amount, 'discount_amount', i.discount_amount, 'gross', i.net_amount + i.tax_amount, 'proration', i.proration) order by i.position`,
      'order_items i where i.organization_id = o.organization_id and i.order_id = o.id',
    )} as items,
    exists (select from payments p where p.organization_id = o.organization_id and p.order_id = o.id and p.status = 'pending') as attempting,
    ${list('c', `(${charges}) c`)} as charges
  from orders o where o.organization_id = $1 and o.customer_id = $2 order by o.created_at, o.id`

const statement = `
  select jsonb_build_object(
    'now', (select k.now_at from customers c join test_clocks k on k.organization_id = c.organization_id and k.id = c.clock_id where c.organization_id = $1 and c.id = $2),
    'balance', coalesce((select sum(amount) from customer_balances where organization_id = $1 and customer_id = $2), 0),
    'subscriptions', ${list(
      's',
      `(select id, product_id, status, seats, amount, current_period_start, current_period_end, cancel_at_period_end, ended_at
        from subscriptions where organization_id = $1 and customer_id = $2 order by created_at, id) s`,
    )},
    'orders', ${list('o', `(${orders}) o`)},
    'entries', ${list(
      'e',
      `(select e.id, e.subscription_id, e.created_at, e.amount, e.order_id from billing_entries e
        join subscriptions s on s.organization_id = e.organization_id and s.id = e.subscription_id
        where s.organization_id = $1 and s.customer_id = $2 order by e.created_at, e.position, e.id) e`,
    )},
    'updates', ${list(
      `jsonb_build_object('subscription_id', u.subscription_id, 'kind', u.kind)`,
      `subscription_updates u
        join subscriptions s on s.organization_id = u.organization_id and s.id = u.subscription_id where s.organization_id = $1 and s.customer_id = $2`,
    )},
    'methods', ${list('m.id', `payment_methods m where m.organization_id = $1 and m.customer_id = $2 and m.deleted_at is null`)}
  ) as books`
