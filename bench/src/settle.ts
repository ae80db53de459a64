import { randomUUID } from 'node:crypto'
import type { Pool, PoolClient } from 'pg'
import { readConfig } from '../../server/src/platform/config.ts'
import { openLog } from '../../server/src/platform/log.ts'
import { openPool } from '../../server/src/platform/postgres/postgres.ts'
import { countsSoFar } from './counting.ts'
import { cpuOf, databaseCpu } from './cpu.ts'

/**
 * The hand-written loop of the renewal benchmark. Renews many subscriptions, each as follows.
 * node settle.ts <name of the subscriptions> <how many at a time>
 *
 * A good engineer who knows in advance what every row must contain would write this loop. It decides, checks and reads
 * nothing. It needs five transactions, because the records of the processor are not in the same database in production,
 * and because the id of the intent must be committed before money moves:
 * 1. the new period, the pending order with its lines, taxes, ledger entries and events, and the pending payment
 * 2. the processor creates the intent
 * 3. the payment stores the id of the intent
 * 4. the processor charges the intent
 * 5. the paid order with its invoice number, the settled payment with its ledger entries, the events, and the receipt
 *
 * Each transaction has one prepared statement per table. Tables, indexes, triggers and constraints are those of the
 * product. The contents come from one paid renewal of the product, with other ids. Only its final rows are read, so the
 * loop does not depend on how the product gets there.
 */
const [name = '', concurrency = '16'] = process.argv.slice(2)
const config = readConfig(process.env)
const log = openLog('silent')
// The same numbers of connections as the worker and its test processor use.
const ours = openPool(config.database_url, 'bursar_worker', { max: config.database_connections / 2, log })
const theirs = openPool(config.database_url, 'bursar_processor', { max: 2, log })

type Row = Record<string, unknown>

/** Reads rows as JSON, so that a row can be written again without knowing its types. */
const read = async (pool: Pool, table: string, where: string, ...values: unknown[]): Promise<Row[]> =>
  (await pool.query<{ row: Row }>(`select row_to_json(t) as row from ${table} t where ${where}`, values)).rows.map(({ row }) => row)
const readOne = async (...asked: Parameters<typeof read>): Promise<Row> => {
  const [row] = await read(...asked)
  if (!row) throw new Error(`a paid renewal leaves no row in ${asked[1]}`)
  return row
}

const order = await readOne(ours, 'orders', `billing_reason = 'subscription_cycle' and status = 'paid' limit 1`)
const payment = await readOne(ours, 'payments', 'order_id = $1', order.id)
const intent = await readOne(theirs, 'test_processor.intents', 'id = $1', payment.intent_id)
const method = await readOne(ours, 'payment_methods', 'id = $1', payment.payment_method_id)
const items = await read(ours, 'order_items', 'order_id = $1', order.id)
const taxes = await read(ours, 'order_taxes', 'order_item_id = any($1)', idsOf(items))
const facts = await read(ours, 'ledger_transactions', 'reference = any($1)', idsOf([order, payment]))
const entries = await read(ours, 'ledger_entries', 'transaction_id = any($1)', idsOf(facts))
const events = (await read(ours, 'events', 'resource_id = any($1) order by position', [order.id, order.subscription_id])).map(
  // The sequencer numbers events after the renewal.
  (event): Row => ({ ...event, sequence: null }),
)
const balances = await read(ours, 'customer_balances', 'customer_id = $1', order.customer_id)
// A worker emits the changed state of the customer after the renewal, and clears the time then.
const states = (await read(ours, 'customer_states', 'id = $1', order.customer_id)).map((state): Row => ({ ...state, due_at: order.created_at }))
const mails = await read(ours, 'mails', 'reference = $1', order.id)
const charges = await read(theirs, 'test_processor.charges', 'intent_id = $1', intent.id)
const keys = await read(theirs, 'test_processor.keys', 'starts_with(key, $1)', payment.id)
const callbacks = (await read(theirs, 'test_processor.callbacks', 'object_id = $1', intent.id)).map((callback): Row => ({ ...callback, taken_at: null }))
const renewed = await readOne(ours, 'subscriptions', 'id = $1', order.subscription_id)

function idsOf(rows: readonly Row[]): string[] {
  return rows.map(({ id }) => id as string)
}

interface Due {
  organization_id: string
  id: string
  customer_id: string
  method_id: string
  processor_method_id: string
}
const { rows: queue } = await ours.query<Due>(
  `select s.organization_id, s.id, s.customer_id, m.id as method_id, m.processor_method_id from subscriptions s
   join payment_methods m on m.organization_id = s.organization_id and m.customer_id = s.customer_id where s.metadata->>'bench' = $1`,
  [name],
)
const waiting = await readOne(ours, 'subscriptions', 'id = $1', queue[0]!.id)

/** The values of the pending order and payment that differ from the final rows. */
const pendingOrder = { status: 'pending', invoice_number: null, receipt_number: null, modified_at: null, due_at: order.created_at }
const pendingPayment = {
  status: 'pending',
  intent_id: null,
  intent_status: null,
  method: null,
  method_metadata: null,
  processor_method: null,
  settled_at: null,
  concluded_at: null,
  modified_at: null,
  due_at: payment.created_at,
}
const pendingIntent = { status: 'requires_confirmation', method_id: null }
/** The columns that a renewal changes in the subscription. */
const cycled = Object.keys(renewed).filter(
  (column) => !/^(id|.*_id|metadata|lease_.*|created_at)$/.test(column) && JSON.stringify(renewed[column]) !== JSON.stringify(waiting[column]),
)

const { rows: generated } = await ours.query<{ column: string }>(
  `select attrelid::regclass || '.' || attname as column from pg_attribute where attnum > 0 and (attidentity <> '' or attgenerated <> '')`,
)
const isGenerated = (table: string, column: string) => generated.some((one) => one.column === `${table}.${column}`)

/** A prepared statement, and its rows with the ids of the copied renewal. */
interface Statement {
  readonly name: string
  readonly text: string
  readonly rows: string
}
let statements = 0
const statement = (text: string, rows: unknown): Statement => ({ name: `s${++statements}`, text, rows: JSON.stringify(rows) })

const insert = (table: string, rows: readonly Row[]): Statement[] => {
  if (rows.length === 0) return []
  const columns = Object.keys(rows[0]!)
    .filter((column) => !isGenerated(table, column))
    .join()
  return [statement(`insert into ${table} (${columns}) select ${columns} from json_populate_recordset(null::${table}, $1)`, rows)]
}
const update = (table: string, key: readonly string[], row: Row, columns: readonly string[]): Statement[] => [
  statement(
    `update ${table} t set ${columns.map((column) => `${column} = n.${column}`).join()} from json_populate_record(null::${table}, $1) n
     where ${key.map((column) => `t.${column} = n.${column}`).join(' and ')}`,
    row,
  ),
]
const tenant = ['organization_id', 'id']
const factsOf = (reference: unknown): Statement[] => {
  const posted = facts.filter((fact) => fact.reference === reference)
  return [
    ...insert('ledger_transactions', posted),
    ...insert(
      'ledger_entries',
      entries.filter(({ transaction_id }) => posted.some(({ id }) => id === transaction_id)),
    ),
  ]
}
const isAboutPayment = ({ kind }: Row) => kind === 'order.updated' || kind === 'order.paid'

const { organization_id } = order
const billed = [
  ...update('subscriptions', tenant, renewed, cycled),
  ...((await read(ours, 'customer_balances', 'customer_id = $1', queue[0]!.customer_id)).length > 0 ? [] : insert('customer_balances', balances)),
  ...insert('orders', [{ ...order, ...pendingOrder }]),
  ...insert('order_items', items),
  ...insert('order_taxes', taxes),
  ...factsOf(order.id),
  ...insert(
    'events',
    events.filter((event) => !isAboutPayment(event)),
  ),
  ...insert('customer_states', states),
  ...insert('payments', [{ ...payment, ...pendingPayment }]),
]
const isConfirmation = ({ key }: Row) => key !== payment.id
const created = [
  ...insert('test_processor.intents', [{ ...intent, ...pendingIntent }]),
  ...insert(
    'test_processor.keys',
    keys.filter((key) => !isConfirmation(key)),
  ),
]
const named = update('payments', tenant, { ...payment, intent_status: pendingIntent.status }, ['intent_id', 'intent_status'])
const charged = [
  ...update('test_processor.intents', ['account', 'id'], intent, Object.keys(pendingIntent)),
  ...insert('test_processor.charges', charges),
  ...insert('test_processor.callbacks', callbacks),
  ...insert('test_processor.keys', keys.filter(isConfirmation)),
]
const { customer_id } = order
const receipt = { organization_id, order_id: order.id }
const paid = [
  ...update('payments', tenant, payment, Object.keys(pendingPayment)),
  ...factsOf(payment.id),
  statement(
    `update invoice_counters t set last_number = t.last_number + 1 from json_populate_record(null::invoice_counters, $1) n
     where t.organization_id = n.organization_id and t.customer_id = n.customer_id`,
    { organization_id, customer_id },
  ),
  ...update('orders', tenant, order, Object.keys(pendingOrder)),
  ...insert('events', events.filter(isAboutPayment)),
  ...insert('mails', mails),
  statement(`select enqueue_job('mail.order_receipt', $1::jsonb)`, receipt),
]

/** Ids that every renewal has anew. Numbers of invoices and receipts must differ too. */
const own = [order, payment, intent, ...items, ...taxes, ...facts, ...events, ...balances].map(({ id }) => id as string)
const numbers = [...callbacks.map(({ event_id }) => event_id), order.invoice_number, order.receipt_number].filter((number) => number !== null) as string[]
const given = [order.subscription_id, order.customer_id, method.id, method.processor_method_id] as string[]
// A longer id comes first, because it may contain a shorter one.
const copied = [...new Set([...own, ...numbers, ...given])].toSorted((a, b) => b.length - a.length)
const pattern = new RegExp(copied.map((id) => id.replaceAll(/[^\w-]/g, String.raw`\$&`)).join('|'), 'g')

const within = async (pool: Pool, work: (client: PoolClient) => Promise<unknown>) => {
  const client = await pool.connect()
  await client.query('begin')
  await work(client)
  await client.query('commit')
  client.release()
}

const settle = async (due: Due) => {
  const ids = new Map<string, string>([
    ...own.map((id): [string, string] => [id, randomUUID()]),
    ...numbers.map((number): [string, string] => [number, `bare_${randomUUID()}`]),
    ...given.map((id, at): [string, string] => [id, [due.id, due.customer_id, due.method_id, due.processor_method_id][at]!]),
  ])
  const run = async (client: PoolClient | Pool, { rows, ...prepared }: Statement) =>
    client.query({ ...prepared, values: [rows.replaceAll(pattern, (id) => ids.get(id)!)] })
  const runAll = (pool: Pool, all: readonly Statement[]) =>
    within(pool, async (client) => {
      for (const one of all) await run(client, one)
    })
  await runAll(ours, billed)
  await runAll(theirs, created)
  await run(ours, named[0]!)
  await runAll(theirs, charged)
  await runAll(ours, paid)
}

/** Opens all connections of a pool, so that opening them is not measured. */
const warm = async (pool: Pool) => {
  const clients = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()))
  for (const client of clients) client.release()
}
await Promise.all([warm(ours), warm(theirs)])

const count = queue.length
const database = config.database_url.reveal().split('/').at(-1)!
const used = () => ({ process: cpuOf(process.pid), database: databaseCpu(database, 'bursar_test_login'), counts: countsSoFar() })
const [before, started] = [used(), performance.now()]
await Promise.all(
  Array.from({ length: Number(concurrency) }, async () => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) await settle(next)
  }),
)
const per_second = count / ((performance.now() - started) / 1000)
console.log(JSON.stringify({ per_second, before, after: used() }))
process.exit(0)
