import { createCustomerSession, operations, pageSizeLimit, type Operation, type PortalCredential, type Sent } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { openWorld, type World } from '../../harness/world.ts'
import { gather, type Crowd, type Tenant } from './bulk-data.ts'
import { reads, statementsOf, workOf, type Work, withoutIntervals } from './statements.ts'
import { broad, counting, filtersOf, isList, narrow, searching, valueFor, wide } from './values.ts'

/** Number of rows. `BURSAR_TEST_ROWS=1000000` for the long run. */
const rows = Number(process.env.BURSAR_TEST_ROWS ?? 20_000)
/** Text in the names of the lists that are tested. `BURSAR_TEST_LISTS=event` tests the lists of usage events only, and prints the work of each request. */
const only = process.env.BURSAR_TEST_LISTS ?? ''
const limit = 10
const long = 3_600_000

let world: World
let crowd: Crowd
let database: pg.Client
beforeAll(async () => {
  world = await withoutIntervals(() => openWorld())
  crowd = await gather(world, rows)
  database = new pg.Client({ connectionString: world.database.owner_url })
  await database.connect()
  await database.query('set role bursar_api')
}, long)
afterAll(async () => {
  await database?.end()
  await world?.close()
})

interface Caller {
  readonly name: string
  readonly api: Client
  readonly tenant: Tenant
  readonly credential: 'oat' | 'pat' | 'session' | PortalCredential
  /** Number of tenants that one list of this caller covers. */
  readonly scope: number
}

/** Returns the callers: a token of the big tenant, a person in three tenants, and portal users with many purchases. */
const callersOf = async (): Promise<Caller[]> => {
  const machineOf = async (tenant: Tenant) => world.client({ token: (await crowd.organizations[tenant].token()).secret })
  const [big, middle] = [await machineOf('big'), await machineOf('middle')]
  const visit = async (api: Client, body: Sent<typeof createCustomerSession, 'body'>) =>
    world.client({ token: (await api.call(createCustomerSession, { body })).token })
  const owner = await visit(big, { customer_id: crowd.id('customers', 30), member_id: crowd.id('members', 30) })
  const customer = await visit(middle, { customer_id: crowd.id('customers', 30, 'middle') })
  return [
    { name: 'a machine', credential: 'oat', api: big, tenant: 'big', scope: 1 },
    { name: 'a person', credential: 'pat', api: world.client({ token: (await crowd.person.token()).secret }), tenant: 'big', scope: 3 },
    { name: 'a person', credential: 'session', api: world.client({ cookie: await crowd.person.cookie() }), tenant: 'big', scope: 3 },
    { name: 'an owner', credential: 'member_session', api: owner, tenant: 'big', scope: 1 },
    { name: 'a customer', credential: 'customer_session', api: customer, tenant: 'middle', scope: 1 },
  ]
}

const accepts = ({ access }: Operation, credential: Caller['credential']): boolean =>
  access.kind === 'session' ? credential === 'session' : 'credentials' in access && (access.credentials as readonly string[]).includes(credential)

/** Returns the path parameters of a list. */
const paramsOf = (operation: Operation, tenant: Tenant): Record<string, string> => ({
  id: operation.path.startsWith('/v1/organizations')
    ? crowd.organizations[tenant].id
    : operation.path.startsWith('/v1/benefits')
      ? crowd.id('benefits', 6, tenant)
      : crowd.id('customers', 30, tenant),
  external_id: `${tenant}-30`,
})

/** Returns the query parameters that a list requires. */
const neededBy = (operation: Operation, { tenant, scope }: Caller, filter?: string): Record<string, unknown> => {
  if (operation.path.endsWith('portal/seats')) return filter === 'order_id' ? {} : { subscription_id: crowd.id('subscriptions', 1, tenant) }
  // A search of events requires one organization.
  if (operation.id === 'events:list' && filter?.startsWith('query') && scope > 1) return { organization_id: crowd.organizations[tenant].id }
  // The list of a log requires one organization.
  return operation.query && !('page' in (operation.query as z.ZodObject).shape) && scope > 1 ? { organization_id: crowd.organizations[tenant].id } : {}
}

interface Offence {
  readonly operation: string
  readonly asked: string
  readonly caller: string
  readonly what: string
}

test('reads the page and the total of every list by an index, without a filter and with each of its filters', { timeout: long }, async () => {
  const lists = operations.filter((operation) => isList(operation) && operation.id.includes(only))
  const callers = await callersOf()
  const offences: Offence[] = []
  const filled = await sizes()
  let asked = 0
  for (const operation of lists)
    for (const caller of callers.filter(({ credential }) => accepts(operation, credential))) {
      const params = paramsOf(operation, caller.tenant)
      const values = narrow(crowd, caller, crowd.orders(caller.tenant))
      const say = (query: string, what: string) => offences.push({ operation: operation.id, asked: query, caller: caller.name, what })
      let whole: number | undefined
      // A list of one customer may read all rows of that customer.
      const inside = operation.access.kind === 'portal' || (operation.path.startsWith('/v1/customers/') && operation.path.includes('{'))
      const ask = async (name: string, query: Record<string, unknown>, { broadly = false } = {}) => {
        asked++
        const input = { params, query: { ...neededBy(operation, caller, name), limit, ...query } }
        const started = performance.now()
        const { answer, statements } = await statementsOf(() => caller.api.sendRaw(operation, input))
        const took = Math.round(performance.now() - started)
        if (answer.status !== 200) return say(name, `answered ${answer.status}: ${JSON.stringify(answer.body)}`)
        const { items, pagination } = answer.body as { items: unknown[]; pagination?: { total_count: number } }
        const total = pagination?.total_count
        whole ??= total
        if (name === '' && items.length < (operation.path === '/v1/organizations/' ? 1 : 5))
          say(name, `there are only ${items.length} records: this shows nothing`)
        if (name !== '' && items.length === 0) say(name, 'nothing passes: this shows nothing')
        if (name !== '' && !broadly && !inside && !wide.has(name) && !wide.has(`${operation.id} ${name}`) && (total ?? 0) > (whole ?? 0) / 20 + limit)
          say(name, `${total} of ${whole} pass: this shows little`)
        if (only) console.log(`${operation.id} ?${name} by ${caller.name}: ${items.length} of ${total ?? 'uncounted'} in ${took} ms`)
        for (const statement of statements.filter(reads)) {
          const work = await workOf(database, statement)
          if (only) console.log(`  looks at ${work.looked} rows, ${work.blocks} blocks: ${work.summary}`)
          for (const table of work.tables.filter((one) => !fixed.has(one) && !/_(\d{6}|default)$/.test(one) && (filled.get(one) ?? 0) < 500))
            say(name, `${table} is empty: fill it`)
          const room = { page: (limit + 1) * caller.scope, total: name === '' && large.has(operation.id) ? 0 : (total ?? 0), own: inside ? (whole ?? 0) : 0 }
          if ((broadly && work.counts) || searching.has(`${operation.id} ${name.replace(', broadly', '')}`) || counting.has(operation.id)) continue
          for (const what of excesses(work, room)) say(name, `${what}; ${work.summary}; ${statement.text.replace(/\s+/g, ' ').slice(0, 700)}`)
        }
        return total
      }
      await ask('', {})
      for (const filter of filtersOf(operation)) {
        const value = valueFor(values, operation, filter)
        if (value === undefined) say(filter, 'this test has no value for it: add one to values.ts')
        else await ask(filter, { [filter]: value })
        const common = valueFor(broad(crowd), operation, filter)
        if (common !== undefined) await ask(`${filter}, broadly`, { [filter]: common }, { broadly: true })
      }
    }
  console.log(`${lists.length} lists, ${asked} requests`)
  for (const { operation, caller, asked: query, what } of offences) console.log(`${operation} ?${query} by ${caller}: ${what}`)
  expect(offences).toEqual([])
})

/** Lists that grow with every sale. The total without a filter must come from a stored count, not from counting rows. */
const large = new Set([
  'orders:list',
  'products:list',
  'customers:list',
  'subscriptions:list',
  'payments:list',
  'webhooks:list_webhook_deliveries',
  'events:list',
])

const fixed = new Set(['deployment', 'event_heads', 'audit_heads', 'payment_accounts', 'collection_deltas', 'signing_keys'])

const sizes = async () => {
  const { rows: tables } = await database.query<{ name: string; size: number }>(
    `select relname as name, reltuples::integer as size from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`,
  )
  return new Map(tables.map(({ name, size }) => [name, size]))
}

/** Returns a message for each measure of a statement that exceeds its limit: full scans, rows read, rows sorted, blocks. */
const excesses = (work: Work, { page, total, own }: { page: number; total: number; own: number }): string[] => {
  const looked = 25 * page + (work.counts ? 5 * Math.max(total, own) : 3 * own)
  const sorted = Math.max(pageSizeLimit, 3 * page) + own
  return [
    ...work.swept.filter((table) => !fixed.has(table) && !work.counts).map((table) => `reads ${table} from end to end`),
    ...(work.looked > looked ? [`looks at ${work.looked} rows, ${looked} would do`] : []),
    ...(work.sorted > sorted ? [`sorts ${work.sorted} rows, ${sorted} would do`] : []),
    ...(work.blocks > 100 + 6 * looked ? [`visits ${work.blocks} blocks, ${100 + 6 * looked} would do`] : []),
  ]
}
