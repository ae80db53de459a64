import {
  accountLimits,
  createCustomer,
  createMember,
  createMeter,
  getMeterQuantities,
  ingestEvents,
  listMetricFacts,
  listUsageEvents,
  type UserEvent,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { linkRecentUsage } from '../records/linking.ts'
import { scanningReads } from './concurrency.ts'
import { linkToCustomers } from './ingest.sql.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Api = Awaited<ReturnType<World['shop']>>['api']
const event = { name: 'call', external_customer_id: 'c' }
const send = (api: Api, events: readonly object[]) => api.call(ingestEvents, { body: { events: events as never } })
/** Sends a request that must be refused. Returns the place and the message of its first problem. */
const refused = async (api: Api, events: readonly object[]) => {
  const { status, body } = await api.sendRaw(ingestEvents, { body: { events } })
  expect(status).toBe(422)
  const { loc, msg } = (body as { detail: { loc: unknown[]; msg: string }[] }).detail[0]!
  return `${loc.join('.')}: ${msg}`
}
const listed = async (api: Api, query: object = {}) =>
  (await api.call(listUsageEvents, { query: { limit: 100, source: ['user'], ...query } })).items as unknown as UserEvent[]

test('subjects are linked to their customers in the sequence of their ids', async () => {
  const { organization } = await world.shop()
  const [first, second] = ['00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002'] as const
  await world.database.owner(async (other) => {
    for (const id of [first, second])
      await other.query('insert into usage_subjects (organization_id, id, created_at, external_id) values ($1, $2, now(), $3)', [organization.id, id, id])
    await other.query('begin')
    await other.query('select from usage_subjects where organization_id = $1 and id = $2 for update', [organization.id, first])
    const linking = world.transact((tx) =>
      linkToCustomers(
        tx,
        organization.id,
        [second, first].map((id) => ({ id, customer_id: newId(world.clock.wall()) })),
      ),
    )
    const ended = linking.catch((error: unknown) => error)
    await eventually('the request waits', () =>
      world.database.owner(
        async (owner) => (await owner.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)).rows.length > 0,
      ),
    )
    // It waits for the first subject, and has not locked the second.
    await world.database.owner((owner) =>
      owner.query('select from usage_subjects where organization_id = $1 and id = $2 for update nowait', [organization.id, second]),
    )
    await other.query('rollback')
    await ended
  })
})

test('rejects times before 1970 and numbers beyond 1e30', async () => {
  const { api } = await world.shop()
  for (const timestamp of ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00+23:59', '1969-12-31T23:59:59.999Z'])
    expect(await refused(api, [{ ...event, timestamp }])).toContain('body.events.0.timestamp')
  for (const units of [1.1e30, -1.1e30, 1e300]) expect(await refused(api, [{ ...event, metadata: { units } }])).toContain('body.events.0.metadata.units')
  await send(api, [
    { ...event, timestamp: '1970-01-01T00:00:00Z' },
    { ...event, metadata: { units: 1e30, low: -1e30 } },
  ])
})

test('rejects a new name of an organization with the largest number of names, and accepts its known names', async () => {
  const { api, organization } = await world.shop()
  await send(api, [event])
  await world.database.owner((owner) =>
    owner.query(
      `insert into event_types (organization_id, id, created_at, name, label)
       select $1, gen_random_uuid(), now(), 'name ' || n, 'name ' || n from generate_series(2, $2::int) n`,
      [organization.id, accountLimits.event_names_per_organization],
    ),
  )
  expect(await refused(api, [event, { ...event, name: 'one too many' }])).toMatch(/^body\.events\.1\.name: .* 10000 .* 10001/)
  expect(await send(api, [event, { ...event, name: 'name 7' }])).toEqual({ inserted: 2, duplicates: 0 })
})

test('lets 10,000 events wait for one parent and no more, and links all of them when the parent arrives', async () => {
  const { api, organization } = await world.shop()
  const most = accountLimits.waiting_children_per_parent_event
  const child = { ...event, parent_id: 'parent' }
  await send(
    api,
    Array.from({ length: most - 1 }, () => child),
  )
  expect(await refused(api, [child, event, child])).toMatch(/^body\.events\.2\.parent_id: 10000 events wait/)
  await send(api, [child])
  expect(await refused(api, [child])).toContain('Send the parent first')
  await send(api, [{ ...event, name: 'parent', external_id: 'parent' }])
  expect(await listed(api, { name: 'parent' })).toMatchObject([{ child_count: most }])
  await send(api, [child])
  const { rows } = await world.database.owner((owner) =>
    owner.query('select count(*)::int as waiting from usage_events where organization_id = $1 and awaited_parent is not null', [organization.id]),
  )
  expect(rows).toEqual([{ waiting: 0 }])
})

test('stores more events, customers and external ids than one statement processes', async () => {
  const { api } = await world.shop()
  const events = Array.from({ length: 12_000 }, (_, at) => ({
    name: 'call',
    external_customer_id: `customer ${at}`,
    external_id: `event ${at}`,
    ...(at % 2 === 1 ? { parent_id: `event ${at - 1}` } : {}),
  }))
  expect(await send(api, events)).toEqual({ inserted: 12_000, duplicates: 0 })
  expect(await send(api, events.toReversed())).toEqual({ inserted: 0, duplicates: 12_000 })
  expect(await listed(api, { external_customer_id: 'customer 11999' })).toMatchObject([{ external_customer_id: 'customer 11999' }])
})

test('links usage whose customer and member were created while it arrived', async () => {
  const { api, organization } = await world.shop()
  await send(api, [{ ...event, external_customer_id: 'racer', external_member_id: 'driver' }])
  const team = await api.call(createCustomer, { body: { type: 'team', email: 'racer@people.test', external_id: 'racer' } })
  const member = await api.call(createMember, { params: { id: team.id }, body: { email: 'driver@people.test', role: 'member', external_id: 'driver' } })
  const unlink = (table: 'usage_subjects' | 'usage_members') =>
    world.database.owner((owner) =>
      owner.query(`update ${table} set ${table === 'usage_subjects' ? 'customer_id' : 'member_id'} = null where organization_id = $1`, [organization.id]),
    )
  const link = () => linkRecentUsage(deployment.deps)
  for (const tables of [['usage_members'], ['usage_members', 'usage_subjects']] as const) {
    for (const table of tables) await unlink(table)
    expect((await listed(api))[0]!.member_id).toBeNull()
    await link()
    expect(await listed(api)).toMatchObject([{ customer_id: team.id, member_id: member.id }])
  }
})

test('stores the first event of a customer that is created while the request waits for another request with the same external id', async () => {
  const { api, organization } = await world.shop()
  await world.database.owner(async (other) => {
    await other.query('begin')
    await other.query(`insert into usage_subjects (organization_id, id, created_at, external_id) values ($1, gen_random_uuid(), now(), 'racer')`, [
      organization.id,
    ])
    const sent = send(api, [{ ...event, external_customer_id: 'racer', external_member_id: 'driver' }])
    await eventually('the request waits', () =>
      world.database.owner(
        async (owner) => (await owner.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)).rows.length > 0,
      ),
    )
    const { id } = await api.call(createCustomer, { body: { type: 'team', email: 'racer@people.test', external_id: 'racer' } })
    await other.query('commit')
    expect(await sent).toEqual({ inserted: 1, duplicates: 0 })
    expect(await listed(api)).toMatchObject([{ customer_id: id, external_customer_id: 'racer' }])
  })
})

test('notes the changes of a transaction up to a limit, and then only that there were more', async () => {
  const { organization } = await world.shop()
  await world.database.owner(async (owner) => {
    await owner.query('begin')
    await owner.query(
      `insert into event_types (organization_id, id, created_at, name, label)
       select $1, gen_random_uuid(), now(), 'name ' || n, 'name ' || n from generate_series(1, 20000) n`,
      [organization.id],
    )
    const { rows } = await owner.query<{ size: number; ending: string }>(
      `select octet_length(current_setting('bursar.changes')) as size, right(current_setting('bursar.changes'), 5) as ending`,
    )
    await owner.query('rollback')
    expect(rows[0]!.size).toBeGreaterThan(500_000)
    expect(rows[0]!.size).toBeLessThan(510_000)
    expect(rows[0]!.ending).toBe('\nmore')
  })
})

test('a third search of an organization waits and is then refused with 429, and lists without a scan are answered', async () => {
  const { api, organization } = await world.shop()
  const other = await world.shop()
  const filter = { conjunction: 'and' as const, clauses: [{ property: 'a', operator: 'eq' as const, value: 1 }] }
  const meter = await api.call(createMeter, { body: { name: 'Meter', filter, aggregation: { func: 'count' } } })
  const range = { start_timestamp: '2026-01-01T00:00:00Z', end_timestamp: '2026-01-04T00:00:00Z', interval: 'day' } as const
  const quantities = (of: Api, metadata: object) => of.send(getMeterQuantities, { params: { id: meter.id }, query: { ...range, ...metadata } })
  const facts = { params: { slug: 'orders' as const }, query: { timestamp: '2026-01-01T00:00:00Z', interval: 'day' } as never }
  const scans = (of: Api) => [
    of.send(listUsageEvents, { query: { query: 'text' } }),
    of.send(listUsageEvents, { query: { metadata: { team: 'a' } } }),
    of.send(listUsageEvents, { query: { filter: JSON.stringify(filter) } }),
    of.send(listMetricFacts, facts),
  ]
  const { promise, resolve } = Promise.withResolvers<void>()
  const held = [1, 2].map(() => scanningReads.run([organization.id], () => promise))
  try {
    const waiting = Promise.all([...scans(api), quantities(api, { metadata: { team: 'a' } }), api.send(listUsageEvents, { query: { meter_id: meter.id } })])
    expect((await quantities(api, {})).status).toBe(200)
    expect((await api.send(listUsageEvents, { query: { name: 'call' } })).status).toBe(200)
    expect((await Promise.all(scans(other.api))).map(({ status }) => status)).toEqual([200, 200, 200, 200])
    for (const { status, headers } of await waiting) expect([status, headers.get('retry-after')]).toEqual([429, '1'])
  } finally {
    resolve()
    await Promise.all(held)
  }
  expect((await Promise.all(scans(api))).map(({ status }) => status)).toEqual([200, 200, 200, 200])
})
