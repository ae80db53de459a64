import { createCustomer, createMeter, ingestEvents, updateMeter, type Aggregation, type Filter } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { statementsOf } from '../../../../test/faults/sizes/statements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { openPostgres } from '../../../platform/postgres/postgres.ts'
import { loadConsumed } from '../index.ts'
import { mergeQuarters, type MergePart } from './merging.sql.ts'
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

const calls: Filter = { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: 'call' }] }
const meterOf = (shop: Shop, aggregation: Aggregation, filter = calls) => shop.api.call(createMeter, { body: { name: 'Meter', filter, aggregation } })
const customerOf = (shop: Shop, external_id: string) => shop.api.call(createCustomer, { body: { email: `${external_id}@people.test`, external_id } })
const consumedOf = (shop: Shop, customer_id: string, meters: readonly Awaited<ReturnType<typeof meterOf>>[]) => {
  const { id: organization_id } = shop.organization
  return loadConsumed(
    world.api.postgres.db,
    within(organization_id, 'machine', 'phase2'),
    meters.map((meter) => ({ organization_id, customer_id, meter, since: null, until: null })),
  )
}
const owner = <T extends object>(statement: string, values: unknown[] = []) =>
  world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)
const rowsOf = async (shop: Shop, table = 'usage_quarters') =>
  (
    await owner<{ rows: number; merged: number }>(
      `select count(*)::int as rows, count(*) filter (where is_merged)::int as merged from ${table} where organization_id = $1`,
      [shop.organization.id],
    )
  )[0]!
const backfill = async () => {
  for (let round = 0; round < 20; round++) await deployment.sweep('usage.backfill_meters')
}
/** Returns shops in the sequence in which merges visit them. */
const sortedShops = async (count: number) =>
  (await Promise.all(Array.from({ length: count }, () => world.shop()))).toSorted((a, b) => (a.organization.id < b.organization.id ? -1 : 1))
/** Sends one event of each customer. */
const send = (shop: Shop, customers: number) =>
  shop.api.call(ingestEvents, { body: { events: Array.from({ length: customers }, (_, at) => ({ name: 'call', external_customer_id: `customer-${at}` })) } })
const usual: Omit<MergePart, 'after'> = { postponed: [], meters: 100, rows: 10_000 }

test('a merge begins after the given meter, so that no organization delays those after it', async () => {
  await mergeUsage(deployment.deps)
  const shops = await sortedShops(2)
  const meters = []
  for (const shop of shops) {
    meters.push(await meterOf(shop, { func: 'count' }))
    await send(shop, 1)
  }
  const after = { organization_id: shops[0]!.organization.id, meter_id: meters[0]!.id }
  const merged = await deployment.deps.transact((tx) => mergeQuarters(tx, { ...usual, after }))
  expect(merged).toEqual({ organization_id: shops[1]!.organization.id, meter_id: meters[1]!.id })
  expect(await Promise.all(shops.map((shop) => rowsOf(shop)))).toEqual([
    { rows: 1, merged: 0 },
    { rows: 1, merged: 1 },
  ])
  await mergeUsage(deployment.deps)
  expect(await rowsOf(shops[0]!)).toEqual({ rows: 1, merged: 1 })
})

test('a merge gives each meter an equal share of its rows, and takes the oldest first', async () => {
  await mergeUsage(deployment.deps)
  const shop = await world.shop()
  const meters = [await meterOf(shop, { func: 'count' }), await meterOf(shop, { func: 'sum', property: 'units' }, { conjunction: 'and', clauses: [] })]
  await backfill()
  const event = (external_customer_id: string) => ({ name: 'call', external_customer_id, metadata: { units: 1 } })
  for (let batch = 0; batch < 12; batch++) await shop.api.call(ingestEvents, { body: { events: [event('busy'), event(`other ${batch}`)] } })
  const unmerged = () =>
    owner<{ meter_id: string; rows: number }>(
      `select meter_id, count(*)::int as rows from usage_quarters where organization_id = $1 and not is_merged group by 1 order by 1`,
      [shop.organization.id],
    )
  const each = (rows: number) => meters.map(({ id: meter_id }) => ({ meter_id, rows })).toSorted((a, b) => (a.meter_id < b.meter_id ? -1 : 1))
  expect(await unmerged()).toEqual(each(24))
  await deployment.deps.transact((tx) => mergeQuarters(tx, { ...usual, after: undefined, rows: 20 }))
  expect(await unmerged()).toEqual(each(14))
  const [times] = await owner<{ ordered: boolean }>(
    `select max(created_at) filter (where is_merged) <= min(created_at) filter (where not is_merged) as ordered from usage_quarters where organization_id = $1`,
    [shop.organization.id],
  )
  expect(times).toEqual({ ordered: true })
  const customer = await customerOf(shop, 'busy')
  expect(await consumedOf(shop, customer.id, meters)).toEqual(['12', '12'])
  await mergeUsage(deployment.deps)
  expect(await unmerged()).toEqual([])
  expect(await consumedOf(shop, customer.id, meters)).toEqual(['12', '12'])
  // One row for each quarter hour of a subject on a meter.
  const repeated = await owner('select from usage_quarters where organization_id = $1 group by meter_id, subject_id, starts_at having count(*) > 1', [
    shop.organization.id,
  ])
  expect(repeated).toHaveLength(0)
})

test('a total is kept if a correction is merged before the other totals of its quarter hour', async () => {
  await mergeUsage(deployment.deps)
  const shop = await world.shop()
  const meter = await meterOf(shop, { func: 'sum', property: 'units' })
  await backfill()
  const customer = await customerOf(shop, 'corrected')
  for (const units of [5, 7])
    await shop.api.call(ingestEvents, {
      body: { events: [{ name: 'call', customer_id: customer.id, timestamp: '2026-01-05T10:00:00.000Z', metadata: { units } }] },
    })
  // The event with 7 units was voided, and its total is the newest. The two oldest rows have the number 0 and the total -2.
  await owner(
    `insert into usage_quarters (organization_id, meter_id, version, subject_id, starts_at, created_at, count, total)
     select organization_id, meter_id, version, subject_id, starts_at, created_at - interval '1 day', -1, -7 from usage_quarters where organization_id = $1 and total = 7`,
    [shop.organization.id],
  )
  await owner(`update usage_quarters set created_at = created_at - interval '1 hour' where organization_id = $1 and total = 5`, [shop.organization.id])
  await deployment.deps.transact((tx) => mergeQuarters(tx, { ...usual, after: undefined, rows: 2 }))
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['5'])
  await mergeUsage(deployment.deps)
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['5'])
})

test('an organization whose merge takes too long is left out for a minute, and the others are merged', async () => {
  await mergeUsage(deployment.deps)
  const shops = await sortedShops(3)
  for (const shop of shops) {
    await meterOf(shop, { func: 'count' })
    await send(shop, 2)
  }
  await customerOf(shops[1]!, 'customer-0')
  const { log } = world.base
  const hasty = openPostgres(world.config.database_url, 'bursar_worker', { max: 2, timeout_ms: 500, clock: world.clock, log })
  const deps = { ...deployment.deps, db: hasty.db, transact: hasty.transact }
  await world.database.owner(async (blocker) => {
    await blocker.query('begin')
    await blocker.query('select from usage_quarters where organization_id = $1 for update', [shops[1]!.organization.id])
    await mergeUsage(deps)
    expect(await Promise.all(shops.map((shop) => rowsOf(shop)))).toEqual([
      { rows: 2, merged: 2 },
      { rows: 2, merged: 0 },
      { rows: 2, merged: 2 },
    ])
    await send(shops[2]!, 1)
    // The statement leaves the organization out, so it waits for no lock.
    await mergeUsage(deps)
    expect(await rowsOf(shops[2]!)).toEqual({ rows: 2, merged: 2 })
    await blocker.query('rollback')
  })
  expect(await rowsOf(shops[1]!)).toEqual({ rows: 2, merged: 0 })
  world.clock.advance(61_000)
  await mergeUsage(deps)
  expect(await rowsOf(shops[1]!)).toEqual({ rows: 2, merged: 2 })
  await hasty.close()
})

test('totals of a transaction that commits late are merged, although newer ones were merged before', async () => {
  await mergeUsage(deployment.deps)
  const shop = await world.shop()
  const meter = await meterOf(shop, { func: 'count' })
  await backfill()
  await send(shop, 1)
  await mergeUsage(deployment.deps)
  await send(shop, 1)
  await owner(`update usage_quarters set created_at = created_at - interval '1 hour' where organization_id = $1 and not is_merged`, [shop.organization.id])
  await mergeUsage(deployment.deps)
  expect(await rowsOf(shop)).toEqual({ rows: 1, merged: 1 })
  const customer = await customerOf(shop, 'customer-0')
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['2'])
})

test('a locked customer meter delays only its own totals, and the merge does not wait for it', async () => {
  await mergeUsage(deployment.deps)
  const shop = await world.shop()
  await meterOf(shop, { func: 'count' })
  await send(shop, 2)
  const [locked] = [await customerOf(shop, 'customer-0'), await customerOf(shop, 'customer-1')]
  await owner('update customer_meters set due_at = null where organization_id = $1', [shop.organization.id])
  const { log } = world.base
  const hasty = openPostgres(world.config.database_url, 'bursar_worker', { max: 2, timeout_ms: 500, clock: world.clock, log })
  const due = async () =>
    (await owner<{ id: string }>('select customer_id as id from customer_meters where organization_id = $1 and due_at is not null', [shop.organization.id]))
      .length
  await world.database.owner(async (blocker) => {
    await blocker.query('begin')
    await blocker.query('select from customer_meters where organization_id = $1 and customer_id = $2 for update', [shop.organization.id, locked.id])
    await hasty.transact((tx) => mergeQuarters(tx, { ...usual, after: undefined }))
    expect(await rowsOf(shop)).toEqual({ rows: 2, merged: 1 })
    expect(await due()).toBe(1)
    await blocker.query('rollback')
  })
  await mergeUsage(deployment.deps)
  expect(await rowsOf(shop)).toEqual({ rows: 2, merged: 2 })
  expect(await due()).toBe(2)
  await hasty.close()
})

test('unique values of several batches count once, by their type, and are stored once after a merge', async () => {
  const shop = await world.shop()
  const customer = await customerOf(shop, 'una')
  const early = await meterOf(shop, { func: 'unique', property: 'units' })
  await backfill()
  const timestamp = '2026-01-05T10:07:30.000Z'
  const events = [1, '1', true, 'true'].map((units) => ({ name: 'call', customer_id: customer.id, timestamp, metadata: { units } }))
  await shop.api.call(ingestEvents, { body: { events } })
  await shop.api.call(ingestEvents, { body: { events: [...events, { name: 'call', customer_id: customer.id, timestamp, metadata: {} }] } })
  const late = await meterOf(shop, { func: 'unique', property: 'units' })
  await backfill()
  expect(await rowsOf(shop, 'usage_uniques')).toEqual({ rows: 12, merged: 0 })
  expect(await consumedOf(shop, customer.id, [early, late])).toEqual(['4', '4'])
  await mergeUsage(deployment.deps)
  expect(await rowsOf(shop, 'usage_uniques')).toEqual({ rows: 8, merged: 8 })
  expect(await consumedOf(shop, customer.id, [early, late])).toEqual(['4', '4'])
  await shop.api.call(ingestEvents, { body: { events } })
  await mergeUsage(deployment.deps)
  expect(await rowsOf(shop, 'usage_uniques')).toEqual({ rows: 8, merged: 8 })
  await shop.api.call(updateMeter, { params: { id: late.id }, body: { aggregation: { func: 'count' } } })
  await backfill()
  expect(await rowsOf(shop, 'usage_uniques')).toEqual({ rows: 4, merged: 4 })
})

test('a merge of unique values reads only the new values of a quarter hour', async () => {
  await mergeUsage(deployment.deps)
  const shop = await world.shop()
  const customer = await customerOf(shop, 'many')
  const meter = await meterOf(shop, { func: 'unique', property: 'units' })
  await backfill()
  const values = (from: number, count: number) =>
    shop.api.call(ingestEvents, {
      body: {
        events: Array.from({ length: count }, (_, at) => ({
          name: 'call',
          customer_id: customer.id,
          timestamp: '2026-01-05T10:07:30.000Z',
          metadata: { units: from + at },
        })),
      },
    })
  await values(0, 1500)
  await values(1000, 1000)
  const { statements } = await statementsOf(() => mergeUsage(deployment.deps))
  expect(statements.filter(({ text }) => text.includes('delete from usage_uniques')).length).toBeLessThan(10)
  expect(await rowsOf(shop, 'usage_uniques')).toEqual({ rows: 2000, merged: 2000 })
  const before = await owner<{ ctid: string }>('select ctid::text as ctid from usage_uniques where organization_id = $1 order by hash', [shop.organization.id])
  await values(1999, 2)
  await mergeUsage(deployment.deps)
  const after = await owner<{ ctid: string }>('select ctid::text as ctid from usage_uniques where organization_id = $1 order by hash', [shop.organization.id])
  // The merged values stay where they are, and one is new.
  expect(after).toHaveLength(2001)
  expect(new Set(after.map(({ ctid }) => ctid)).isSupersetOf(new Set(before.map(({ ctid }) => ctid)))).toBe(true)
  expect(await consumedOf(shop, customer.id, [meter])).toEqual(['2001'])
})
