import { randomUUID } from 'node:crypto'
import type { Pool, PoolClient } from 'pg'
import { readConfig } from '../../server/src/platform/config.ts'
import { openLog } from '../../server/src/platform/log.ts'
import { openPool } from '../../server/src/platform/postgres/postgres.ts'

/**
 * The bare loop of the renewal benchmark. For each of many subscriptions, writes the rows of a renewal without any checks.
 * node settle.ts <name of the subscriptions> <how many at a time>
 *
 * The rows are copied with new ids from one renewal that the product has done. The loop uses five transactions per
 * renewal, as the product does, because money moves between them: the period with its order and attempt; the
 * processor's intent; the attempt's intent id; the processor's charge; the outcome. Each transaction writes each row
 * once, with one statement per table. Tables, indexes, triggers and constraints are the same as for the product.
 */
const [name = '', concurrency = '16'] = process.argv.slice(2)
const config = readConfig(process.env)
const log = openLog('silent')
// The same numbers of connections as the worker and its test processor use.
const ours = openPool(config.database_url, 'bursar_worker', { max: config.database_connections / 2, log })
const theirs = openPool(config.database_url, 'bursar_processor', { max: 2, log })

type Row = Record<string, unknown>
const one = async (pool: Pool, text: string, values: unknown[] = []): Promise<Row> => (await pool.query<Row>(text, values)).rows[0]!
const all = async (pool: Pool, text: string, values: unknown[] = []): Promise<Row[]> => (await pool.query<Row>(text, values)).rows

const order = await one(ours, `select * from orders where billing_reason = 'subscription_cycle' and status = 'paid' limit 1`)
const payment = await one(ours, 'select * from payments where order_id = $1', [order.id])
const made = {
  order,
  payment,
  subscription: await one(ours, 'select * from subscriptions where id = $1', [order.subscription_id]),
  items: await all(ours, 'select * from order_items where order_id = $1', [order.id]),
  taxes: await all(ours, 'select * from order_taxes where order_item_id in (select id from order_items where order_id = $1)', [order.id]),
  billed: await one(ours, `select * from ledger_transactions where kind = 'order_billed' and reference = $1`, [order.id]),
  received: await one(ours, `select * from ledger_transactions where kind = 'payment_received' and reference = $1`, [payment.id]),
  entries: await all(ours, 'select e.*, t.kind from ledger_entries e join ledger_transactions t on t.id = e.transaction_id where t.reference in ($1, $2)', [
    order.id,
    payment.id,
  ]),
  events: await all(
    ours,
    `select organization_id, id, kind, resource_id, customer_id, api_version, payload::text as payload, business_at, wall_at from events
     where resource_id = $1 or (resource_id = $2 and kind in ('subscription.updated', 'subscription.cycled')) order by position`,
    [order.id, order.subscription_id],
  ),
  mail: await one(ours, 'select * from mails where reference = $1', [order.id]),
  balance: await one(ours, 'select * from customer_balances where customer_id = $1', [order.customer_id]),
  intent: await one(theirs, 'select * from test_processor.intents where id = $1', [payment.intent_id]),
  charge: await one(theirs, 'select * from test_processor.charges where intent_id = $1', [payment.intent_id]),
  keys: await all(theirs, 'select account, key, fingerprint, answer::text as answer, expires_at from test_processor.keys where key like $1 order by key', [
    `${payment.id as string}%`,
  ]),
  callback: await one(theirs, 'select account, event_id, kind, object_id, happened_at, due_at from test_processor.callbacks where object_id = $1', [
    payment.intent_id,
  ]),
}
const before = made.events.filter(({ kind }) => kind !== 'order.updated' && kind !== 'order.paid')
const after = made.events.filter(({ kind }) => kind === 'order.updated' || kind === 'order.paid')
if (before.length !== 3 || after.length !== 2 || made.keys.length !== 2 || made.entries.length !== 5) throw new Error('a renewal leaves other rows than these')

const plain = (value: unknown) => (value !== null && typeof value === 'object' && !(value instanceof Date) ? JSON.stringify(value) : value)
const insert = (client: PoolClient, table: string, rows: readonly Row[]) => {
  const columns = Object.keys(rows[0]!)
  const places = rows.map((_, row) => `(${columns.map((_column, at) => `$${row * columns.length + at + 1}`).join()})`)
  return client.query(
    `insert into ${table} (${columns.join()}) values ${places.join()}`,
    rows.flatMap((row) => columns.map((column) => plain(row[column]))),
  )
}
const within = async (pool: Pool, work: (client: PoolClient) => Promise<unknown>) => {
  const client = await pool.connect()
  await client.query('begin')
  await work(client)
  await client.query('commit')
  client.release()
}

interface Due {
  organization_id: string
  id: string
  customer_id: string
  method_id: string
  processor_method_id: string
}

const settle = async (due: Due) => {
  const { organization_id, customer_id } = due
  const [order_id, payment_id, intent_id] = [randomUUID(), randomUUID(), `int_${randomUUID()}`]
  const told = (events: readonly Row[]) =>
    events.map((event) => ({ ...event, id: randomUUID(), customer_id, resource_id: event.resource_id === order.id ? order_id : due.id }))
  const post = async (client: PoolClient, fact: Row, reference: string) => {
    const id = randomUUID()
    await insert(client, 'ledger_transactions', [{ ...fact, id, reference }])
    const entries = made.entries.filter(({ kind }) => kind === fact.kind).map(({ kind: _, ...entry }) => ({ ...entry, transaction_id: id, customer_id }))
    await insert(client, 'ledger_entries', entries)
  }
  await within(ours, async (client) => {
    const { modified_at, status, current_period_start, current_period_end, due_at } = made.subscription
    await client.query(
      `update subscriptions set modified_at = $3, status = $4, current_period_start = $5, current_period_end = $6, due_at = $7, lease_until = null, lease_token = null, lease_holder = null
       where organization_id = $1 and id = $2`,
      [organization_id, due.id, modified_at, status, current_period_start, current_period_end, due_at],
    )
    await insert(client, 'customer_balances', [{ ...made.balance, customer_id }])
    await insert(client, 'orders', [
      { ...order, id: order_id, customer_id, subscription_id: due.id, status: 'pending', invoice_number: null, due_at: order.created_at, modified_at: null },
    ])
    const items = made.items.map((item) => ({ ...item, id: randomUUID(), order_id }))
    await insert(client, 'order_items', items)
    await insert(
      client,
      'order_taxes',
      made.taxes.map((tax, at) => ({ ...tax, id: randomUUID(), order_item_id: items[at]!.id })),
    )
    await post(client, made.billed, order_id)
    await insert(client, 'events', told(before))
    const opened = { status: 'pending', intent_id: null, intent_status: null, method: null, method_metadata: null, processor_method: null, settled_at: null }
    await insert(client, 'payments', [
      { ...payment, ...opened, id: payment_id, order_id, customer_id, payment_method_id: due.method_id, concluded_at: null, due_at: payment.created_at },
    ])
  })
  const key = (row: Row, suffix: string) => ({ ...row, key: `${payment_id}${suffix}` })
  await within(theirs, async (client) => {
    const opened = { status: 'requires_confirmation', method_id: null, client_secret: `${intent_id}_secret_${randomUUID()}` }
    await insert(client, 'test_processor.intents', [{ ...made.intent, ...opened, id: intent_id, customer: customer_id }])
    await insert(client, 'test_processor.keys', [key(made.keys[0]!, '')])
  })
  await ours.query(`update payments set intent_id = $3, intent_status = 'requires_confirmation', modified_at = $4 where organization_id = $1 and id = $2`, [
    organization_id,
    payment_id,
    intent_id,
    payment.modified_at,
  ])
  await within(theirs, async (client) => {
    await client.query(`update test_processor.intents set status = 'succeeded', method_id = $3 where account = $1 and id = $2`, [
      made.intent.account,
      intent_id,
      due.processor_method_id,
    ])
    await insert(client, 'test_processor.charges', [{ ...made.charge, intent_id, customer: customer_id }])
    await insert(client, 'test_processor.callbacks', [{ ...made.callback, event_id: randomUUID(), object_id: intent_id }])
    await insert(client, 'test_processor.keys', [key(made.keys[1]!, ':confirm')])
  })
  await within(ours, async (client) => {
    await client.query(
      `update payments set intent_status = $3, method = $4, status = $5, settled_at = $6, due_at = null, method_metadata = $7, processor_method = $8, concluded_at = $9, modified_at = $10
       where organization_id = $1 and id = $2`,
      [
        organization_id,
        payment_id,
        ...['intent_status', 'method', 'status', 'settled_at', 'method_metadata', 'processor_method', 'concluded_at', 'modified_at'].map((column) =>
          plain(payment[column]),
        ),
      ],
    )
    await post(client, made.received, payment_id)
    await client.query('update invoice_counters set last_number = last_number + 1 where organization_id = $1 and customer_id = $2', [
      organization_id,
      customer_id,
    ])
    await client.query(`update orders set status = 'paid', invoice_number = $3, modified_at = $4, due_at = null where organization_id = $1 and id = $2`, [
      organization_id,
      order_id,
      `BARE-${order_id}`,
      order.modified_at,
    ])
    await insert(client, 'events', told(after))
    await insert(client, 'mails', [{ ...made.mail, reference: order_id }])
    await client.query('select enqueue_job($1, $2::jsonb)', ['mail.order_receipt', JSON.stringify({ organization_id, order_id })])
  })
}

const { rows: queue } = await ours.query<Due>(
  `select s.organization_id, s.id, s.customer_id, m.id as method_id, m.processor_method_id from subscriptions s
   join payment_methods m on m.organization_id = s.organization_id and m.customer_id = s.customer_id where s.metadata->>'bench' = $1`,
  [name],
)
const count = queue.length
const started = performance.now()
await Promise.all(
  Array.from({ length: Number(concurrency) }, async () => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) await settle(next)
  }),
)
console.log(JSON.stringify({ per_second: count / ((performance.now() - started) / 1000) }))
process.exit(0)
