import {
  createCheckout,
  createCustomer,
  createProduct,
  getCheckout,
  getCustomer,
  getCustomerState,
  getProduct,
  listCheckouts,
  listCustomers,
  listOrders,
  listProducts,
  listSubscriptions,
  updateCustomer,
  updateProduct,
} from '@bursar/contract'
import pg from 'pg'
import { expect, test } from 'vitest'
import { openWorld, type World } from '../../harness/world.ts'

interface Planned {
  readonly statement: string
  readonly custom_plans: number
}

/** Records all connections that this process opens. Returns the plans that the database made for prepared statements, by connection and text. */
const watchConnections = () => {
  const clients: pg.ClientBase[] = []
  // oxlint-disable-next-line typescript/unbound-method -- called with the pool as `this`
  const original = pg.Pool.prototype.emit
  pg.Pool.prototype.emit = function (this: pg.Pool, event: string, ...args: unknown[]) {
    if (event === 'connect') clients.push(args[0] as pg.ClientBase)
    return original.call(this, event as 'connect', ...(args as [pg.PoolClient]))
  } as typeof original
  return {
    plans: async (): Promise<Map<string, number>> => {
      const plans = new Map<string, number>()
      for (const [at, client] of clients.entries()) {
        const { rows } = await client
          .query<Planned>('select statement, custom_plans::integer from pg_prepared_statements')
          .catch(() => ({ rows: [] as Planned[] }))
        for (const { statement, custom_plans } of rows) plans.set(`${at} ${statement.replaceAll(/\s+/g, ' ').trim()}`, custom_plans)
      }
      return plans
    },
    end: () => void (pg.Pool.prototype.emit = original),
  }
}

/** Copies the first row of each table a thousand times. With few rows, every plan costs the same. */
const copyRows = (world: World, tables: readonly string[]): Promise<void> =>
  world.database.owner(async (owner) => {
    await owner.query('set session_replication_role = replica')
    for (const table of tables)
      await owner.query(
        `insert into ${table} select (jsonb_populate_record(null::${table}, to_jsonb(t) || jsonb_build_object('id', gen_random_uuid(), 'email', n || '@people.test'))).*
         from (select * from ${table} limit 1) t, generate_series(1, 1000) n`,
      )
    await owner.query('analyze')
  })

test('the database keeps the plans of the most frequent requests, and does not plan them again', async () => {
  const connections = watchConnections()
  const world = await openWorld({ settings: { BURSAR_DATABASE_CONNECTIONS: '2' } })
  const { api } = await world.shop()
  let n = 0
  const prices = [{ amount_type: 'fixed' as const, price_amount: 1000, price_currency: 'usd' as const }]
  const newCustomer = () => api.call(createCustomer, { body: { email: `buyer-${n++}@people.test`, name: 'A buyer' } })
  const newProduct = () => api.call(createProduct, { body: { name: `Plan ${n++}`, prices } })
  const { id: product_id } = await newProduct()
  const newCheckout = () => api.call(createCheckout, { body: { products: [product_id] } })
  await newCustomer()
  await newCheckout()
  await copyRows(world, ['products', 'customers'])
  const { id: customer_id } = await newCustomer()
  const { id: checkout_id } = await newCheckout()
  const query = { limit: 10 }
  const requests: Record<string, () => Promise<unknown>> = {
    'products:list': () => api.call(listProducts, { query }),
    'products:get': () => api.call(getProduct, { params: { id: product_id } }),
    'products:create': newProduct,
    'products:update': () => api.call(updateProduct, { params: { id: product_id }, body: { name: `Plan ${n++}` } }),
    'customers:list': () => api.call(listCustomers, { query }),
    'customers:get': () => api.call(getCustomer, { params: { id: customer_id } }),
    'customers:get_state': () => api.call(getCustomerState, { params: { id: customer_id } }),
    'customers:create': newCustomer,
    'customers:update': () => api.call(updateCustomer, { params: { id: customer_id }, body: { name: `Name ${n++}` } }),
    'orders:list': () => api.call(listOrders, { query }),
    'subscriptions:list': () => api.call(listSubscriptions, { query }),
    'checkouts:list': () => api.call(listCheckouts, { query }),
    'checkouts:get': () => api.call(getCheckout, { params: { id: checkout_id } }),
    'checkouts:create': newCheckout,
  }
  const planned: string[] = []
  let kept = 0
  for (const [operation, send] of Object.entries(requests)) {
    // The database plans a statement five times with its values before it may keep a plan.
    for (let sent = 0; sent < 8; sent++) await send()
    const before = await connections.plans()
    for (let sent = 0; sent < 5; sent++) await send()
    for (const [statement, plans] of await connections.plans())
      // Every process reads its signing keys every five seconds. No request waits for that.
      if (statement.includes('"signing_keys"')) continue
      else if (plans > (before.get(statement) ?? plans)) planned.push(`${operation}: ${statement}`)
      else kept++
  }
  connections.end()
  await world.close()
  expect(kept).toBeGreaterThan(30)
  expect(planned).toEqual([])
})
