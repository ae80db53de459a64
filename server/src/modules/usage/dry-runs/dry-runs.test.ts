import { createCustomer, createMeter, dryRunMeter, getMeterQuantities, ingestEvents, listMeters, type Aggregation } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { runMeter } from './dry-runs.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const day = 86_400_000
const filter = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: 'call' }] }
const sum: Aggregation = { func: 'sum', property: 'units' }

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const ada = await api.call(createCustomer, { body: { email: 'ada@people.test', external_id: 'ada' } })
  const now = world.clock.wall()
  const ago = (days: number) => new Date(now.getTime() - days * day).toISOString()
  const use = (events: readonly object[]) => api.call(ingestEvents, { body: { events: events.map((one) => ({ name: 'call', ...one })) as never } })
  const run = (body: object) => api.call(dryRunMeter, { body: { filter, aggregation: sum, ...body } })
  return { ...shop, ada, now, ago, use, run }
}

test('[S1-13] counts the last 30 days as a meter would have, by day and customer, with what a price would have billed', async () => {
  const { api, ada, now, ago, use, run } = await open()
  await use([
    { customer_id: ada.id, metadata: { units: 0.1 } },
    { customer_id: ada.id, metadata: { units: 0.2 } },
    { customer_id: ada.id, timestamp: ago(3), metadata: { units: 10 } },
    { external_customer_id: 'unknown', timestamp: ago(3), metadata: { units: 4.5 } },
    { customer_id: ada.id, timestamp: ago(31), metadata: { units: 1000 } },
    { customer_id: ada.id, name: 'other', metadata: { units: 1000 } },
    { customer_id: ada.id, metadata: { units: 'no number' } },
  ])
  const answer = await run({ unit_amount: '3', timezone: 'Asia/Kathmandu' })
  expect(answer).toMatchObject({ timezone: 'Asia/Kathmandu', events_read: 6, is_complete: true, read_since: answer.start, total: '14.8', customers: 2 })
  expect(answer.days).toHaveLength(30)
  expect(new Date(answer.days.at(-1)!.timestamp).getTime()).toBeGreaterThan(now.getTime() - day)
  expect(answer.days.filter(({ quantity }) => quantity !== '0').map(({ quantity }) => quantity)).toEqual(['14.5', '0.3'])
  // 10.3 units cost 30.9, and 4.5 units cost 13.5. Each customer has an order of its own.
  expect(answer.amount).toBe('45')
  expect(answer.top_customers).toEqual([
    { customer_id: ada.id, external_customer_id: 'ada', quantity: '10.3', amount: '31' },
    { customer_id: null, external_customer_id: 'unknown', quantity: '4.5', amount: '14' },
  ])
  expect((await api.call(listMeters, { query: {} })).items).toEqual([])
  expect(await run({})).toMatchObject({ total: '14.8', amount: null, top_customers: [{ amount: null }, { amount: null }] })
})

test('counts with every function as the meter itself does', async () => {
  const { api, ada, ago, use, run } = await open()
  await use(Array.from({ length: 40 }, (_, at) => ({ customer_id: ada.id, timestamp: ago(at / 2), metadata: { units: (at * 7) % 11 } })))
  for (const aggregation of [
    { func: 'count' },
    sum,
    ...(['max', 'min', 'avg', 'unique'] as const).map((func) => ({ func, property: 'units' })),
  ] as Aggregation[]) {
    const dry = await run({ aggregation })
    const meter = await api.call(createMeter, { body: { name: aggregation.func, filter, aggregation } })
    const query = { start_timestamp: dry.start, end_timestamp: dry.end, interval: 'day' as const }
    const real = await api.call(getMeterQuantities, { params: { id: meter.id }, query })
    expect(dry.days.map(({ quantity }) => Number(quantity))).toEqual(real.quantities.map(({ quantity }) => quantity))
    expect(Number(dry.total)).toBe(real.total)
  }
})

test('reads the newest events only, and says so', async () => {
  const { ada, now, ago, use, organization } = await open()
  await use(Array.from({ length: 10 }, (_, at) => ({ customer_id: ada.id, timestamp: ago(at + 1), metadata: { units: 1 } })))
  const scope = within(organization.id, 'machine', 'before')
  const wanted = { filter, aggregation: sum, timezone: 'UTC' }
  expect(await runMeter(world.api.postgres.db, scope, organization.id, wanted, now, 4)).toMatchObject({
    events_read: 4,
    is_complete: false,
    read_since: new Date(now.getTime() - 5 * day + 1),
    total: '4',
  })
  expect(await runMeter(world.api.postgres.db, scope, organization.id, wanted, now, 10)).toMatchObject({ events_read: 10, is_complete: true, total: '10' })
})

test('rejects invalid filters and prices, missing credentials, a wrong scope and another organization', async () => {
  const { api, organization } = await open()
  const body = { filter, aggregation: sum }
  for (const wrong of [
    { unit_amount: '0' },
    { unit_amount: '-1' },
    { timezone: 'Nowhere' },
    { filter: { conjunction: 'xor', clauses: [] } },
    { aggregation: { func: 'sum' } },
  ])
    expect((await api.sendRaw(dryRunMeter, { body: { ...body, ...wrong } })).status).toBe(422)
  expect((await world.client().send(dryRunMeter, { body })).status).toBe(401)
  const other = world.client({ token: (await organization.token(['events:read'])).secret })
  expect((await other.send(dryRunMeter, { body })).status).toBe(403)
  const person = world.client({ token: (await (await world.person()).token()).secret })
  expect((await person.send(dryRunMeter, { body: { ...body, organization_id: organization.id } })).status).toBe(422)
})
