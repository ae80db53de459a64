import { createBenefit, createBenefitGrant, createCustomer, createMeter, ingestEvents } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { statementsOf } from '../../../../test/faults/sizes/statements.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { claim } from '../../../platform/jobs/leases.sql.ts'
import { openPostgres } from '../../../platform/postgres/postgres.ts'
import { mergeUsage } from '../../usage/index.ts'
import { refreshCustomerMeter } from './refreshing.ts'

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

/** Values that one statement counts in these tests. */
const most = 5

/** Opens a shop with a meter of unique users and a customer with a credit. */
const open = async () => {
  const shop = await world.shop()
  const meter = await shop.api.call(createMeter, {
    body: { name: 'Users', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'unique', property: 'user' } },
  })
  for (let round = 0; round < 5; round++) await deployment.sweep('usage.backfill_meters')
  const customer = await shop.api.call(createCustomer, { body: { email: 'ada@people.test', external_id: 'ada' } })
  const benefit = await shop.api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Users', properties: { meter_id: meter.id, units: 20, rollover: false } },
  })
  await shop.api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
  const row = async () =>
    (
      await world.database.owner((owner) =>
        owner.query<{ units: string; due_at: Date | null; lease_token: string | null }>(
          'select consumed_units::text as units, due_at, lease_token from customer_meters where customer_id = $1',
          [customer.id],
        ),
      )
    ).rows[0]!
  /** Sends one event of each user. */
  const use = async (from: number, to: number) => {
    const events = Array.from({ length: to - from }, (_, at) => ({ name: 'call', customer_id: customer.id, metadata: { user: from + at } }))
    await shop.api.call(ingestEvents, { body: { events } })
  }
  const take = async () => {
    const leases = await claim(deployment.deps.transact, 'customer_meters', { holder: 'test', limit: 1000, lease_ms: 30_000 })
    return leases.find(({ organization_id }) => organization_id === shop.organization.id)
  }
  return { ...shop, customer, row, use, take }
}

/** Expects that a row is due after the given time. The clock runs, so it may be a little less. */
const expectIn = (due_at: Date | null, rest: number) => {
  const left = due_at!.getTime() - world.clock.wall().getTime()
  expect(left).toBeLessThanOrEqual(rest)
  expect(left).toBeGreaterThan(rest - 5000)
}

/** Keeps the values of all meters from being read while the work runs. */
const withoutValues = <T>(work: () => Promise<T>) =>
  world.database.owner(async (blocker) => {
    await blocker.query('begin')
    await blocker.query('lock table usage_uniques in access exclusive mode')
    try {
      return await work()
    } finally {
      await blocker.query('rollback')
    }
  })
const isWaiting = () =>
  eventually('a count waits', () =>
    world.database.owner(
      async (owner) => (await owner.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)).rows.length > 0,
    ),
  )

test('many unique values are counted in parts and without a lock on the customer meter, and thresholds are announced', async () => {
  const shop = await open()
  await shop.use(0, 17)
  await mergeUsage(deployment.deps)
  const lease = (await shop.take())!
  const { statements } = await statementsOf(async () => {
    let refreshed = Promise.resolve()
    await withoutValues(async () => {
      refreshed = refreshCustomerMeter(deployment.deps, lease, most)
      await isWaiting()
      await world.database.owner((other) => other.query('select from customer_meters where customer_id = $1 for update nowait', [shop.customer.id]))
    })
    await refreshed
  })
  expect(statements.filter(({ text }) => text.includes('q.hash between')).length).toBeGreaterThanOrEqual(4)
  expect(await shop.row()).toEqual({ units: '17', due_at: null, lease_token: null })
  expect((await shop.events('usage.threshold_reached')).map(({ data }) => (data as { percent: number }).percent)).toEqual([80])
})

test('usage that arrives while values are counted is counted after a rest', async () => {
  const shop = await open()
  await shop.use(0, 7)
  const lease = (await shop.take())!
  let refreshed = Promise.resolve()
  const gate = Promise.withResolvers<void>()
  const counted = withoutValues(async () => {
    refreshed = refreshCustomerMeter(deployment.deps, lease, most)
    await isWaiting()
    gate.resolve()
    await new Promise((resolve) => setTimeout(resolve, 200))
  })
  await gate.promise
  // Ingest would wait for the same lock. So the number of counted events is changed as ingest would do it.
  const sent = world.database.owner((owner) => owner.query('update usage_quarters set count = count + 1 where organization_id = $1', [shop.organization.id]))
  await Promise.all([counted, sent])
  await refreshed
  const { units, due_at, lease_token } = await shop.row()
  expect([units, lease_token]).toEqual(['7', null])
  expect(due_at!.getTime()).toBeGreaterThan(world.clock.wall().getTime() + 30_000)
  // Further usage does not end the rest.
  await mergeUsage(deployment.deps)
  expect((await shop.row()).due_at).toEqual(due_at)
  expect(await shop.take()).toBeUndefined()
  await shop.use(7, 9)
  world.clock.advance(120_000)
  await refreshCustomerMeter(deployment.deps, (await shop.take())!, most)
  expect(await shop.row()).toEqual({ units: '9', due_at: null, lease_token: null })
})

test('a count that takes too long is repeated after ten minutes, and not by each worker at once', async () => {
  const shop = await open()
  await shop.use(0, 8)
  const hasty = openPostgres(world.config.database_url, 'bursar_worker', { max: 2, timeout_ms: 500, clock: world.clock, log: world.base.log })
  const deps = { ...deployment.deps, db: hasty.db, transact: hasty.transact }
  const lease = (await shop.take())!
  await withoutValues(() => refreshCustomerMeter(deps, lease, most))
  const { due_at, lease_token } = await shop.row()
  expect(lease_token).toBeNull()
  expectIn(due_at, 600_000)
  expect(await shop.take()).toBeUndefined()
  world.clock.advance(601_000)
  await refreshCustomerMeter(deps, (await shop.take())!, most)
  expect(await shop.row()).toEqual({ units: '8', due_at: null, lease_token: null })
  await hasty.close()
})

test('a worker counts the many values of one customer meter at a time', async () => {
  const [first, second] = [await open(), await open()]
  await first.use(0, 8)
  await second.use(0, 9)
  const leases = [(await first.take())!, undefined]
  await world.database.owner((owner) =>
    owner.query('update customer_meters set lease_until = null, lease_token = null, lease_holder = null where organization_id = $1', [second.organization.id]),
  )
  leases[1] = (await second.take())!
  const refreshed: Promise<void>[] = []
  await withoutValues(async () => {
    refreshed.push(refreshCustomerMeter(deployment.deps, leases[0]!, most))
    await isWaiting()
    await refreshCustomerMeter(deployment.deps, leases[1]!, most)
    expectIn((await second.row()).due_at, 60_000)
  })
  await Promise.all(refreshed)
  expect((await first.row()).units).toBe('8')
  world.clock.advance(61_000)
  await refreshCustomerMeter(deployment.deps, (await second.take())!, most)
  expect((await second.row()).units).toBe('9')
})
