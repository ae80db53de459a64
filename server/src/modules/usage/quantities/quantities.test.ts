import { createCustomer, createMeter, getMeterQuantities, ingestEvents, type Aggregation, type Filter } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { mergeUsage } from '../counting/merging.ts'

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

const calls: Filter = { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] }

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const ada = await api.call(createCustomer, { body: { email: 'ada@people.test', external_id: 'ada' } })
  const send = (events: readonly [at: string, who: string, units: number, region?: string][]) =>
    api.call(ingestEvents, {
      body: {
        events: events.map(([timestamp, external_customer_id, units, region = 'eu']) => ({
          name: 'call',
          timestamp,
          external_customer_id,
          metadata: { units, region },
        })),
      },
    })
  const meter = (aggregation: Aggregation) => api.call(createMeter, { body: { name: 'Calls', filter: calls, aggregation } })
  const ask = async (id: string, query: Partial<Record<string, unknown>>) => {
    const { quantities, total } = await api.call(getMeterQuantities, {
      params: { id },
      query: { start_timestamp: '2026-01-01T00:00:00Z', end_timestamp: '2026-01-04T00:00:00Z', interval: 'day', ...query } as never,
    })
    return { starts: quantities.map(({ timestamp }) => timestamp.slice(0, 16)), values: quantities.map(({ quantity }) => quantity), total }
  }
  return { ...shop, ada, send, meter, ask }
}

const three = [
  ['2025-12-31T23:59:59.999Z', 'ada', 100],
  ['2026-01-01T00:00:00Z', 'ada', 1],
  ['2026-01-01T23:59:59.999Z', 'bob', 2],
  ['2026-01-02T12:00:00Z', 'ada', 1, 'us'],
  ['2026-01-03T09:30:00Z', 'bob', 5],
  ['2026-01-03T10:30:00Z', 'ada', 7],
  ['2026-01-04T00:00:00Z', 'ada', 1000],
] as const

test('[S1-13] returns the quantity of each interval and of the whole range, without events outside of it', async () => {
  const { send, meter, ask } = await open()
  const early = await meter({ func: 'sum', property: 'units' })
  await send(three as never)
  const check = async (query: object, expected: object) => {
    // The events may be counted already, or not yet, and the totals may be merged or not.
    expect(await ask(early.id, query)).toMatchObject(expected)
    await deployment.sweep('usage.backfill_meters')
    expect(await ask(early.id, query)).toMatchObject(expected)
    await mergeUsage(deployment.deps)
    expect(await ask(early.id, query)).toMatchObject(expected)
  }
  await check({}, { starts: ['2026-01-01T00:00', '2026-01-02T00:00', '2026-01-03T00:00'], values: [3, 1, 12], total: 16 })
  await check({ start_timestamp: '2026-01-01T06:07:08Z', end_timestamp: '2026-01-03T10:00:00Z' }, { values: [2, 1, 5], total: 8 })
  await check({ start_timestamp: '2026-01-03T09:20:00Z', end_timestamp: '2026-01-03T10:31:00Z', interval: 'hour' }, { values: [5, 7], total: 12 })
  await check({ start_timestamp: '2026-01-03T09:31:00Z', end_timestamp: '2026-01-03T09:32:00Z', interval: 'hour' }, { values: [0], total: 0 })
  await check({ interval: 'week' }, { starts: ['2025-12-29T00:00'], values: [16], total: 16 })
  await check({ interval: 'month' }, { starts: ['2026-01-01T00:00'], values: [16], total: 16 })
  await check({ interval: 'year', start_timestamp: '2025-12-31T00:00:00Z', end_timestamp: '2026-01-05T00:00:00Z' }, { values: [100, 1016], total: 1116 })
  await check({ metadata: { region: 'us' } }, { values: [0, 1, 0], total: 1 })
})

test('days begin by the clock of the time zone, whose old names are accepted', async () => {
  const { send, meter, ask } = await open()
  const { id } = await meter({ func: 'sum', property: 'units' })
  await send(three as never)
  await deployment.sweep('usage.backfill_meters')
  const days = { values: [1, 3, 7], total: 11, starts: ['2025-12-31T18:30', '2026-01-01T18:30', '2026-01-02T18:30'] }
  const range = { start_timestamp: '2025-12-31T18:30:00Z', end_timestamp: '2026-01-03T10:00:00Z' }
  for (const timezone of ['Asia/Calcutta', 'Asia/Kolkata'])
    expect(await ask(id, { ...range, timezone, end_timestamp: '2026-01-03T18:30:00Z' })).toEqual({ ...days, values: [101, 3, 12], total: 116 })
  expect(await ask(id, { ...range, timezone: 'Asia/Kathmandu', start_timestamp: '2026-01-01T00:00:00Z' })).toMatchObject({ values: [1, 3, 5], total: 9 })
  expect(await ask(id, { timezone: 'Factory' })).toMatchObject({ values: [3, 1, 12] })
})

test('the total of averages, unique values, maxima and minima is that of all events of the range', async () => {
  const { send, meter, ask } = await open()
  const of = async (aggregation: Aggregation) => (await meter(aggregation)).id
  const property = 'units'
  const [count, avg, unique, max, min] = [
    await of({ func: 'count' }),
    await of({ func: 'avg', property }),
    await of({ func: 'unique', property }),
    await of({ func: 'max', property }),
    await of({ func: 'min', property }),
  ]
  await send(three as never)
  for (const stage of ['events', 'totals'] as const) {
    expect([stage, await ask(count, {})]).toMatchObject([stage, { values: [2, 1, 2], total: 5 }])
    expect([stage, await ask(avg, {})]).toMatchObject([stage, { values: [1.5, 1, 6], total: 3.2 }])
    expect([stage, await ask(unique, {})]).toMatchObject([stage, { values: [2, 1, 2], total: 4 }])
    expect([stage, await ask(max, {})]).toMatchObject([stage, { values: [2, 1, 7], total: 7 }])
    expect([stage, await ask(min, {})]).toMatchObject([stage, { values: [1, 1, 5], total: 1 }])
    await deployment.sweep('usage.backfill_meters')
    await mergeUsage(deployment.deps)
  }
})

test('selects customers by id and external id, and combines the quantities of customers', async () => {
  const { api, ada, send, meter, ask } = await open()
  const { id } = await meter({ func: 'sum', property: 'units' })
  await send(three as never)
  await deployment.sweep('usage.backfill_meters')
  expect(await ask(id, { customer_id: ada.id })).toMatchObject({ values: [1, 1, 7], total: 9 })
  expect(await ask(id, { external_customer_id: ['bob', 'ada'] })).toMatchObject({ values: [3, 1, 12], total: 16 })
  expect(await ask(id, { external_customer_id: 'bob' })).toMatchObject({ values: [2, 0, 5], total: 7 })
  expect(await ask(id, { external_customer_id: 'nobody' })).toMatchObject({ values: [0, 0, 0], total: 0 })
  const combined = async (customer_aggregation_function: string) => ask(id, { customer_aggregation_function })
  expect(await combined('count')).toMatchObject({ values: [2, 1, 2], total: 2 })
  expect(await combined('max')).toMatchObject({ values: [2, 1, 7], total: 9 })
  expect(await combined('min')).toMatchObject({ values: [1, 1, 5], total: 7 })
  expect(await combined('avg')).toMatchObject({ values: [1.5, 1, 6], total: 8 })
  expect(await combined('sum')).toMatchObject({ values: [3, 1, 12], total: 16 })
  expect(await combined('unique')).toMatchObject({ values: [2, 1, 2], total: 2 })
  // Linked later, the events of `bob` are those of one customer.
  const bob = await api.call(createCustomer, { body: { email: 'bob@people.test', external_id: 'bob' } })
  expect(await ask(id, { customer_id: [bob.id] })).toMatchObject({ values: [2, 0, 5], total: 7 })
})

test('rejects ranges that are too long or end before they start, unknown zones and intervals, strangers and wrong scopes', async () => {
  const { api, organization, meter } = await open()
  const { id } = await meter({ func: 'count' })
  const query = { start_timestamp: '2026-01-01T00:00:00Z', end_timestamp: '2026-01-04T00:00:00Z', interval: 'day' }
  const refused = async (change: object) => {
    const { status, body } = await api.sendRaw(getMeterQuantities, { params: { id }, query: { ...query, ...change } })
    return [status, (body as { detail: { loc: string[] }[] }).detail[0]!.loc.at(-1)]
  }
  expect(await refused({ end_timestamp: '2025-12-31T00:00:00Z' })).toEqual([422, 'end_timestamp'])
  for (const [interval, end] of [
    ['hour', '2026-01-08T00:00:00.001Z'],
    ['day', '2027-01-02T00:00:00.001Z'],
    ['week', '2027-01-07T00:00:00.001Z'],
    ['month', '2029-12-31T00:00:00.001Z'],
    ['year', '2035-12-30T00:00:00.001Z'],
  ]) {
    expect(await refused({ interval, end_timestamp: end })).toEqual([422, 'end_timestamp'])
    const most = { ...query, interval, end_timestamp: end!.replace('.001Z', 'Z') }
    expect((await api.sendRaw(getMeterQuantities, { params: { id }, query: most })).status).toBe(200)
  }
  expect(await refused({ timezone: 'Mars/Base' })).toEqual([422, 'timezone'])
  expect(await refused({ timezone: '+01:00' })).toEqual([422, 'timezone'])
  expect(await refused({ interval: 'minute' })).toEqual([422, 'interval'])
  expect(await refused({ start_timestamp: '' })).toEqual([422, 'start_timestamp'])
  for (const at of ['0000-01-01T00:00:00Z', '1969-12-31T23:59:59.999Z', '9999-12-31T23:59:59-01:00']) {
    expect(await refused({ start_timestamp: at })).toEqual([422, 'start_timestamp'])
    expect(await refused({ end_timestamp: at })).toEqual([422, 'end_timestamp'])
  }
  const call = { params: { id }, query: query as never }
  expect((await world.client().send(getMeterQuantities, call)).status).toBe(401)
  expect((await world.client({ token: (await organization.token(['products:read'])).secret }).send(getMeterQuantities, call)).status).toBe(403)
  expect((await (await world.shop()).api.send(getMeterQuantities, call)).status).toBe(404)
})
