import {
  createCustomer,
  createMeter,
  dryRunMeter,
  ingestEvents,
  listMeters,
  updateMeter,
  type Aggregation,
  type Filter,
  type FilterClause,
  type Meter,
} from '@bursar/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { statementsOf } from '../../../../test/faults/sizes/statements.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { aggregate } from '../../catalog/calc/aggregations.ts'
import { matches } from '../../catalog/calc/compiled-filters.ts'
import type { Counted } from '../../catalog/calc/filters.ts'
import { loadConsumed } from '../index.ts'
import { loadAtOnce } from '../records/consumption.sql.ts'
import { countQuarters } from './counting.ts'
import { mergeUsage } from './merging.ts'

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

type Shop = Awaited<ReturnType<World['shop']>>

const all: Filter = { conjunction: 'and', clauses: [] }
const calls: Filter = { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] }
const aggregations: Aggregation[] = [
  { func: 'count' },
  { func: 'sum', property: 'units' },
  { func: 'max', property: 'units' },
  { func: 'min', property: 'units' },
  { func: 'avg', property: 'units' },
  { func: 'unique', property: 'units' },
  { func: 'sum', property: '_cost.amount' },
]
const meterOf = (shop: Shop, aggregation: Aggregation, filter = calls) => shop.api.call(createMeter, { body: { name: 'Meter', filter, aggregation } })
const customerOf = (shop: Shop, external_id: string) => shop.api.call(createCustomer, { body: { email: `${external_id}@people.test`, external_id } })

type MeterOf = Pick<Meter, 'id' | 'filter' | 'aggregation'>
interface Range {
  readonly since: Date | null
  readonly until: Date | null
}
const always: Range = { since: null, until: null }

/** Returns the quantity of each meter in each range, in one statement. */
const consumedIn = async (shop: Shop, customer_id: string, meters: readonly MeterOf[], ranges: readonly Range[]): Promise<string[]> => {
  const { id: organization_id } = shop.organization
  const scope = within(organization_id, 'machine', 'phase2')
  const asked = ranges.flatMap((range) => meters.map((meter) => ({ organization_id, customer_id, meter, ...range })))
  return loadConsumed(world.api.postgres.db, scope, asked)
}
const consumedOf = (shop: Shop, customer_id: string, meters: readonly MeterOf[]) => consumedIn(shop, customer_id, meters, [always])
const rowsOf = async (shop: Shop): Promise<{ rows: number; merged: number }> => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ rows: number; merged: number }>(
      'select count(*)::int as rows, count(*) filter (where is_merged)::int as merged from usage_quarters where organization_id = $1',
      [shop.organization.id],
    ),
  )
  return rows[0]!
}
const backfill = async () => {
  for (let round = 0; round < 20; round++) await deployment.sweep('usage.backfill_meters')
}

const start = Date.UTC(2026, 0, 5, 10, 7, 30)

test('quantities of all functions are equal to those of the single events, before and after totals are merged', async () => {
  const shop = await world.shop()
  const early = await Promise.all(aggregations.map((aggregation) => meterOf(shop, aggregation)))
  await backfill()
  const [ada, bob] = [await customerOf(shop, 'ada'), await customerOf(shop, 'bob')]
  const value = fc.oneof(fc.integer({ min: -5, max: 5 }), fc.constantFrom(0.1, 0.2, 1e-7, 'text', true))
  const one = fc.record({
    name: fc.constantFrom('call', 'call', 'call', 'other'),
    external_customer_id: fc.constantFrom('ada', 'ada', 'bob'),
    at: fc.integer({ min: 0, max: 3 * 3_600_000 }),
    units: value,
    cost: fc.option(fc.constantFrom('0.123456789012', '99.999999999999', '5'), { nil: undefined }),
  })
  const batches = fc.sample(fc.array(one, { minLength: 1, maxLength: 40 }), { numRuns: 12, seed: 4 })
  const sent: (Counted & { readonly customer: string })[] = []
  for (const [round, batch] of batches.entries()) {
    const events = batch.map(({ name, external_customer_id, at, units, cost }) => ({
      name,
      external_customer_id,
      timestamp: new Date(start + at),
      cost,
      units,
    }))
    await shop.api.call(ingestEvents, {
      body: {
        events: events.map(({ name, external_customer_id, timestamp, units, cost }) => ({
          name,
          external_customer_id,
          timestamp: timestamp.toISOString(),
          metadata: { units, ...(cost === undefined ? {} : { _cost: { amount: cost, currency: 'usd' as const } }) },
        })),
      },
    })
    for (const { name, external_customer_id, timestamp, units, cost } of events)
      sent.push({
        name,
        source: 'user',
        timestamp,
        customer: external_customer_id,
        metadata: { units, ...(cost === undefined ? {} : { _cost: { amount: JSON.rawJSON(cost) } }) },
      })
    // Some totals are merged, others are not.
    if (round === 5) await mergeUsage(deployment.deps)
  }
  // These meters count all events by backfill.
  const late = await Promise.all(aggregations.map((aggregation) => meterOf(shop, aggregation)))
  const bounds = [null, start + 1, start + 900_000, start + 1_350_000, Date.UTC(2026, 0, 5, 10, 15), Date.UTC(2026, 0, 5, 12), start + 9_000_000]
  const date = (at: number | null) => (at === null ? null : new Date(at))
  const ranges = bounds.flatMap((since) =>
    bounds.flatMap((until) => (since !== null && until !== null && until < since ? [] : [{ since: date(since), until: date(until) }])),
  )
  const check = async (stage: string) => {
    for (const [customer, name] of [
      [ada, 'ada'],
      [bob, 'bob'],
    ] as const) {
      const expected = ranges.flatMap(({ since, until }) => {
        const own = sent.filter(
          (event) =>
            event.customer === name && matches(calls, event) && (since === null || event.timestamp >= since) && (until === null || event.timestamp < until),
        )
        const each = aggregations.map((aggregation) => aggregate(aggregation, own))
        return [...each, ...each]
      })
      expect([stage, name, await consumedIn(shop, customer.id, [...early, ...late], ranges)]).toEqual([stage, name, expected])
    }
  }
  await check('before the backfill')
  await backfill()
  await check('after the backfill')
  const before = await rowsOf(shop)
  await mergeUsage(deployment.deps)
  const after = await rowsOf(shop)
  expect(after.rows).toBeLessThan(before.rows)
  expect(after.merged).toBe(after.rows)
  await check('after the merge')
  await mergeUsage(deployment.deps)
  await check('after another merge')
})

test('duplicates are not counted, and usage of an unknown customer counts for the customer that takes the external id', async () => {
  const shop = await world.shop()
  const meter = await meterOf(shop, { func: 'count' })
  await backfill()
  const event = (external_id: string) => ({ name: 'call', external_customer_id: 'later', external_id })
  await shop.api.call(ingestEvents, { body: { events: [event('a'), event('a'), event('b')] } })
  await shop.api.call(ingestEvents, { body: { events: [event('b'), event('c')] } })
  const customer = await customerOf(shop, 'later')
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['3'])
})

test('each event counts once, live or by backfill, if meters are made while events arrive', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'busy')
  let sent = 0
  const send = async () => {
    for (let round = 0; round < 12; round++) {
      const events = Array.from({ length: 5 }, () => ({ name: 'call', customer_id: customer.id, metadata: { units: ++sent } }))
      await shop.api.call(ingestEvents, { body: { events } })
    }
  }
  const meters: MeterOf[] = []
  const make = async () => {
    for (let round = 0; round < 6; round++) {
      meters.push(await meterOf(shop, { func: 'count' }), await meterOf(shop, { func: 'sum', property: 'units' }))
      await deployment.sweep('usage.backfill_meters')
    }
  }
  await Promise.all([send(), send(), send(), make()])
  await backfill()
  await mergeUsage(deployment.deps)
  const total = String((sent * (sent + 1)) / 2)
  expect(sent).toBe(180)
  expect(await consumedOf(shop, customer.id, meters)).toEqual(meters.map(({ aggregation }) => (aggregation.func === 'count' ? '180' : total)))
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ events: string }>('select sum(count)::text as events from usage_quarters where organization_id = $1', [shop.organization.id]),
  )
  expect(rows[0]!.events).toBe(String(180 * meters.length))
})

test('an event that is live after a meter was made counts once, although its id is older than the last event before the meter', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'late')
  const send = (more: object) => shop.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: customer.id, ...more }] } })
  // Inserts the rows of the customer, for which one ingest waits for another.
  await send({})
  const [late, meter] = await world.database.owner(async (owner) => {
    // The first ingest has chosen the id of its event, and waits for this lock.
    await owner.query('begin; lock table usage_keys in exclusive mode')
    const waiting = send({ external_id: 'late' })
    await eventually(
      'the ingest waits',
      async () => (await owner.query(`select 1 from pg_locks where not granted and relation = 'usage_keys'::regclass`)).rows.length > 0,
    )
    await send({})
    const made = await meterOf(shop, { func: 'count' })
    await owner.query('rollback')
    return [waiting, made] as const
  })
  expect(await late).toEqual({ inserted: 1, duplicates: 0 })
  await backfill()
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['3'])
})

test('a meter that is made during an ingest counts the events of that ingest', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'slow')
  const made = await world.database.owner(async (owner) => {
    // The ingest has inserted its events, and waits for this lock before it inserts its batch.
    await owner.query('begin; lock table usage_batches in exclusive mode')
    const ingested = shop.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: customer.id }] } })
    const isWaiting = (condition: string) =>
      eventually('a request waits', async () => (await owner.query(`select 1 from pg_locks where not granted and ${condition}`)).rows.length > 0)
    await isWaiting(`relation = 'usage_batches'::regclass`)
    const creation = meterOf(shop, { func: 'count' })
    let done = false
    void creation.then(() => (done = true))
    await Promise.race([isWaiting(`locktype = 'advisory'`), eventually('the meter is made', async () => done)])
    await owner.query('commit')
    await ingested
    return creation
  })
  await backfill()
  expect(await consumedOf(shop, customer.id, [made])).toEqual(['1'])
})

test('a new filter or aggregation counts all events again, and both are fixed once usage was billed', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'cleo')
  const meter = await meterOf(shop, { func: 'count' })
  await backfill()
  const events = [1, 2, 4].map((units) => ({ name: units === 4 ? 'other' : 'call', customer_id: customer.id, metadata: { units } }))
  await shop.api.call(ingestEvents, { body: { events } })
  await mergeUsage(deployment.deps)
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['2'])
  const params = { id: meter.id }
  const changed = await shop.api.call(updateMeter, { params, body: { filter: all, aggregation: { func: 'sum', property: 'units' } } })
  expect(await consumedOf(shop, customer.id, [changed])).toEqual(['7'])
  await shop.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: customer.id, metadata: { units: 0.5 } }] } })
  await backfill()
  await mergeUsage(deployment.deps)
  expect(await consumedOf(shop, customer.id, [changed])).toEqual(['7.5'])
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ version: number }>('select distinct version from usage_quarters where meter_id = $1', [meter.id]),
  )
  expect(rows).toEqual([{ version: 2 }])

  await world.database.owner((owner) => owner.query('update meters set billed_at = now() where id = $1', [meter.id]))
  for (const [field, value] of [
    ['filter', calls],
    ['aggregation', { func: 'count' }],
  ] as const)
    expect(await shop.api.send(updateMeter, { params, body: { [field]: value } })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', field], msg: expect.stringContaining('has been billed') as string }] },
    })
  expect(await shop.api.call(updateMeter, { params, body: { name: 'Renamed', filter: all } })).toMatchObject({ name: 'Renamed', filter: all })
})

test('the backfill ends with the last event that was stored when the meter was made', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'early')
  const send = () => shop.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: customer.id }] } })
  await send()
  await send()
  const one = async <T extends object>(statement: string, id: string) =>
    (await world.database.owner(async (owner) => (await owner.query<T>(statement, [id])).rows))[0]
  const last = await one<{ id: string }>('select id from usage_events where organization_id = $1 order by id desc limit 1', shop.organization.id)
  const meter = await meterOf(shop, { func: 'count' })
  await send()
  const row = () => one<object>('select until_event, counted_at is not null as is_counted from usage_meters where id = $1', meter.id)
  expect(await row()).toEqual({ until_event: last!.id, is_counted: false })
  await deployment.sweep('usage.backfill_meters')
  expect(await row()).toEqual({ until_event: last!.id, is_counted: true })
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['3'])
})

test('a meter that is archived and not used stops to count, keeps its quantities, and counts again when it is restored', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'pia')
  const meter = await meterOf(shop, { func: 'count' })
  await backfill()
  const send = () => shop.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: customer.id }] } })
  const archive = (is_archived: boolean) => shop.api.call(updateMeter, { params: { id: meter.id }, body: { is_archived } })
  await send()
  await archive(true)
  await send()
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['2'])
  await backfill()
  expect(await rowsOf(shop)).toEqual({ rows: 0, merged: 0 })
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['2'])
  await archive(false)
  await send()
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['3'])
  await backfill()
  await mergeUsage(deployment.deps)
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['3'])
  expect(await rowsOf(shop)).not.toEqual({ rows: 0, merged: 0 })
})

test('counts a batch with more totals than one statement appends', { timeout: 60_000 }, async () => {
  const shop = await world.shop()
  const meters = [await meterOf(shop, { func: 'count' }), await meterOf(shop, { func: 'sum', property: 'units' }, all)]
  await backfill()
  const customers = await Promise.all(['first', 'last'].map((name) => customerOf(shop, name)))
  const others = Array.from({ length: 2600 }, (_, at) => ({ name: 'call', external_customer_id: `other ${at}`, metadata: { units: at } }))
  const event = (external_customer_id: string) => ({ name: 'call', external_customer_id, metadata: { units: 2 } })
  await shop.api.call(ingestEvents, { body: { events: [event('first'), event('last'), ...others, event('last'), event('first')] } })
  for (const { id } of customers) expect(await consumedOf(shop, id, meters)).toEqual(['2', '4'])
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ events: string }>('select sum(count)::text as events from usage_quarters where organization_id = $1', [shop.organization.id]),
  )
  expect(rows[0]!.events).toBe(String(2 * 2604))
})

test('ingest appends the values of all unique meters with one statement', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'one')
  const none: Filter = { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'other' }] }
  const meters = [
    await meterOf(shop, { func: 'unique', property: 'units' }),
    await meterOf(shop, { func: 'unique', property: 'region' }),
    await meterOf(shop, { func: 'unique', property: 'units' }, none),
    await meterOf(shop, { func: 'unique', property: 'missing' }),
    await meterOf(shop, { func: 'count' }),
  ]
  await backfill()
  const events = [1, 2, 2, 3].map((units) => ({ name: units === 3 ? 'other' : 'call', customer_id: customer.id, metadata: { units, region: 'eu' } }))
  const { statements } = await statementsOf(() => shop.api.call(ingestEvents, { body: { events } }))
  expect(statements.filter(({ text }) => text.includes('insert into usage_uniques'))).toHaveLength(1)
  expect(await consumedOf(shop, customer.id, meters)).toEqual(['2', '1', '1', '0', '3'])
})

test('counts events on meters with unique whose filters have more values than one statement can have', async () => {
  const shop = await world.shop()
  const { id: organization_id } = shop.organization
  const customer = await customerOf(shop, 'many')
  const some: Filter = {
    conjunction: 'or',
    clauses: Array.from({ length: 48 }, () => ({ property: 'a.b.c.d.e.f.g.h', operator: 'like', value: 'x' })),
  }
  const meter = await meterOf(shop, { func: 'unique', property: 'units' }, { conjunction: 'or', clauses: [...calls.clauses, some, some, some, some] })
  await world.database.owner((owner) =>
    owner.query(
      `insert into meters select (jsonb_populate_record(null::meters, to_jsonb(m) || jsonb_build_object('id', gen_random_uuid()))).*
       from meters m, generate_series(2, 32) where organization_id = $1`,
      [organization_id],
    ),
  )
  const events = [1, 2, 2].map((units) => ({ name: 'call', external_customer_id: 'many', metadata: { units } }))
  expect(await shop.api.send(ingestEvents, { body: { events } })).toMatchObject({ status: 200 })
  const { items: meters } = await shop.api.call(listMeters, { query: { limit: 100 } })
  const scope = within(organization_id, 'machine', 'phase2')
  const asked = meters.map((one) => ({ organization_id, customer_id: customer.id, meter: one, ...always }))
  expect(await loadAtOnce(world.api.postgres.db, scope, asked)).toEqual(Array.from({ length: 32 }, () => '2'))
  expect(await shop.api.call(dryRunMeter, { body: { filter: meter.filter, aggregation: meter.aggregation, timezone: 'UTC' } })).toMatchObject({ total: '2' })
})

describe('the limits of counting a batch', () => {
  const clause: FilterClause = { property: 'a', operator: 'eq', value: 1 }
  const wide: Filter = { conjunction: 'or', clauses: Array.from({ length: 200 }, () => clause) }
  const meters = Array.from({ length: 10 }, (_, at) => ({ id: String(at), version: 1, filter: wide, aggregation: { func: 'count' as const } }))
  const events = Array.from({ length: 10_000 }, (_, at) => ({
    id: String(at),
    subject_id: 'ada',
    name: 'call',
    source: 'user',
    timestamp: new Date(start),
    metadata: { a: 'x' },
  }))
  const none = {} as Tx

  test('counts 10,000 events against 2,000 clauses within a fifth of the time of a request', async () => {
    await countQuarters(none, 'none', meters, events, new Map(), { longest: 2000 })
  })

  test('stops a batch that takes too long, and names what to do', async () => {
    const late = countQuarters(none, 'none', meters, events, new Map(), { longest: 20 })
    await expect(late).rejects.toMatchObject({ problems: [{ loc: ['body', 'events'], msg: expect.stringContaining('Send fewer events at once') as string }] })
  })

  test('stops a batch when the client has closed the connection', async () => {
    let turns = 0
    await expect(countQuarters(none, 'none', meters, events, new Map(), { isGone: () => ++turns === 3 })).rejects.toThrow('closed the connection')
    expect(turns).toBe(3)
  })
})
