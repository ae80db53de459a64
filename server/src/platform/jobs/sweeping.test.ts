import { createMeter } from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../test/harness/world.ts'
import { minutes } from '../clock.ts'
import { openLog } from '../log.ts'
import { releaseLease, type Lease } from './leases.sql.ts'
import { openClaimer, type Sweeping } from './sweeping.ts'

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
beforeEach(async () => {
  await world.database.owner((owner) => owner.query('update usage_meters set due_at = null, lease_until = null, lease_token = null, lease_holder = null'))
})

const filter = { conjunction: 'and' as const, clauses: [] }
/** Creates due rows of one organization. */
const dueRows = async (count: number): Promise<string> => {
  const { api, organization } = await world.shop()
  for (let made = 0; made < count; made++) await api.call(createMeter, { body: { name: 'Meter', filter, aggregation: { func: 'count' } } })
  return organization.id
}

/** Returns a function that claims and processes all due rows with this handler, as a worker does. */
const openSweep = (run: (lease: Lease) => Promise<void>) => {
  const options = {
    postgres: { transact: deployment.deps.transact },
    sweeps: { 'usage.backfill_meters': run },
    log: openLog('error', { write: () => undefined }),
    telemetry: { job: () => undefined },
  } as unknown as Sweeping
  const claimer = openClaimer(options, 'usage.backfill_meters', 'test', new AbortController().signal)
  return async () => {
    claimer.start()
    await claimer.finish()
  }
}
const succeed = (lease: Lease) => deployment.deps.transact((tx) => releaseLease(tx, lease, null))

/** Returns the minutes after which failing rows are tried again, for some hours. */
const pausesFor = async (hours: number, sweep: () => Promise<void>, tries: { count: number }) => {
  const pauses: number[] = []
  let last = 0
  for (let minute = 0; minute <= hours * 60; minute++) {
    const before = tries.count
    await sweep()
    if (tries.count > before && minute > 0) pauses.push(minute - last)
    if (tries.count > before) last = minute
    world.clock.advance(1 * minutes)
  }
  return pauses
}

test('tries a row that fails after pauses that double up to an hour, and after a short pause again once it has succeeded', async () => {
  const tries = { count: 0 }
  let failing = true
  const sweep = openSweep(async (lease) => {
    tries.count++
    if (failing) throw new Error('this row always fails')
    await succeed(lease)
  })
  const organization_id = await dueRows(1)
  expect(await pausesFor(5, sweep, tries)).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
  failing = false
  expect(await pausesFor(2, sweep, tries)).toHaveLength(1)
  failing = true
  await world.database.owner((owner) => owner.query('update usage_meters set due_at = $2 where organization_id = $1', [organization_id, world.clock.wall()]))
  expect(await pausesFor(0.1, sweep, tries)).toEqual([1, 2])
})

test('processes the rows of other organizations while the oldest rows always fail', async () => {
  const failing = await dueRows(6)
  const tried: string[] = []
  const sweep = openSweep(async (lease) => {
    tried.push(lease.organization_id)
    if (lease.organization_id === failing) throw new Error('this row always fails')
    await succeed(lease)
  })
  for (let minute = 0; minute < 20; minute++) {
    await sweep()
    world.clock.advance(1 * minutes)
  }
  tried.length = 0
  const other = await dueRows(2)
  await sweep()
  expect(tried).toEqual([other, other])
})

test('leaves the lease of a row as it is if the database is unavailable or the lease is lost', async () => {
  const organization_id = await dueRows(1)
  const rows = async () =>
    (
      await world.database.owner((owner) =>
        owner.query<{ lease_holder: string | null }>('select lease_holder from usage_meters where organization_id = $1', [organization_id]),
      )
    ).rows
  await openSweep(() => Promise.reject(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })))()
  expect(await rows()).toEqual([{ lease_holder: 'test' }])
  world.clock.advance(2 * minutes)
  await openSweep(() => Promise.reject(Object.assign(new Error('too slow'), { code: '57014' })))()
  expect(await rows()).toEqual([{ lease_holder: null }])
})
