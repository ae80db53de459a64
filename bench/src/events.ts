import { createCustomer, createMeter, type Aggregation, type Meter } from '@bursar/contract'
import { openEventStore } from '../../server/src/gateways/event-store/open.ts'
import { within } from '../../server/src/kernel/actors.ts'
import { findMeter } from '../../server/src/modules/catalog/index.ts'
import { quantitiesOf } from '../../server/src/modules/usage/quantities/quantities.ts'
import { verifyCopy } from '../../server/src/modules/usage/copies/verifying.ts'
import { systemClock } from '../../server/src/platform/clock.ts'
import { openPostgres } from '../../server/src/platform/postgres/postgres.ts'
import { directSettings, openEventStore as openProxy } from '../../server/test/harness/event-stores.ts'
import { launch } from '../../server/test/harness/process.ts'
import { eventually, openWorld, type World } from '../../server/test/harness/world.ts'
import { startApi } from './exporting.ts'
import { sendAll, sent } from './ingest.ts'
import { alternate, median, quotients } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'
import { seedUsage } from './seed-usage.ts'
import { benchSettings } from './settings.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
/** Different values of the property that is counted. */
const users = 200_000

/** Compares questions over all events of an organization in both stores, times the first copy, and compares ingest with and without a copy. */
export const events = async (world: World): Promise<Record<string, Outcome>> => {
  const { api, organization } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'buyer@people.test' } })
  const meterOf = async (name: string, aggregation: Aggregation) => {
    const { id } = await api.call(createMeter, { body: { name, filter: { conjunction: 'and', clauses: [] }, aggregation } })
    return (await findMeter(postgres.db, scope, id))!
  }
  const scope = within(organization.id, 'machine', 'before')
  const postgres = openPostgres(world.config.database_url, 'bursar_worker', { max: 4, clock: systemClock, log: world.base.log, timeout_ms: hour })
  const meters = { sum: await meterOf('Units', { func: 'sum', property: 'units' }), unique: await meterOf('Users', { func: 'unique', property: 'user' }) }
  const until = new Date(Math.floor(Date.now() / hour) * hour)
  const from = new Date(until.getTime() - 30 * day)
  const seeding = performance.now()
  const usage = { organization_id: organization.id, customer_id: customer.id, meter_id: meters.sum.id, from, until, count: options.copied, batch: 1000, users }
  await world.database.owner((owner) => seedUsage(owner, [usage]))
  console.log(`  ${options.copied.toLocaleString('en')} usage events, made in ${Math.round((performance.now() - seeding) / 1000)} s`)
  const copySeconds = await copyAll(world)
  console.log(`  copied in ${copySeconds.toFixed(1)} s`)

  const store = (await openEventStore(world.config))!
  const verified = await verifyCopy(postgres.db, store, undefined, () => undefined)
  if (verified?.differences.length !== 0) throw new Error('the copy differs from the events')
  // The time is measured, so no question is given up.
  const reader = {
    store: { ...store, servers: store.servers.map((server) => ({ ...server, ask: (question: string) => server.ask(question, 10 * minute) })) },
    log: world.base.log,
  }
  const query = {
    start_timestamp: from,
    end_timestamp: until,
    interval: 'day' as const,
    timezone: 'UTC' as const,
    // Without this filter, PostgreSQL answers a sum from stored totals.
    metadata: { region: ['eu-central-1'] },
    customer_id: [],
    external_customer_id: [],
    customer_aggregation_function: undefined,
  }
  const ask = (meter: Meter, expected: number, reading?: typeof reader) => async () => {
    const began = performance.now()
    const { total } = await quantitiesOf(postgres.db, scope, meter, query, reading)
    if (total !== expected) throw new Error(`the answer is ${total} instead of ${expected}`)
    return performance.now() - began
  }
  const question = async (meter: Meter, expected: number): Promise<Outcome> => {
    const [slow, fast] = await alternate([ask(meter, expected), ask(meter, expected, reader)])
    return {
      ratio: median(slow) / median(fast),
      ratios: quotients(slow, fast),
      figures: [
        { what: 'PostgreSQL', value: median(slow) / 1000, unit: ' s' },
        { what: 'ClickHouse 18.16', value: median(fast) / 1000, unit: ' s' },
      ],
      rows: options.copied,
      rounds: options.rounds,
    }
  }
  const units = Array.from({ length: 10 }, (_, at) => at + 1)
  const sumOf = (count: number) => Math.floor(count / 10) * 55 + units.slice(0, count % 10).reduce((sum, one) => sum + one, 0)
  const found = {
    'events-sum': await question(meters.sum, sumOf(options.copied)),
    'events-distinct': await question(meters.unique, Math.min(users, options.copied)),
  }
  await store.close()
  await postgres.close()
  await dropCopy(world)
  return {
    ...found,
    'events-copy': {
      ratio: options.copied / copySeconds,
      figures: [{ what: 'all of them', value: copySeconds, unit: ' s' }],
      rows: options.copied,
      rounds: 1,
    },
    'ingest-copied': await compareIngest(),
  }
}

const owner = async <T extends object>(world: World, statement: string): Promise<T[]> =>
  world.database.owner(async (client) => (await client.query<T>(statement)).rows)

const isCopied = async (world: World): Promise<boolean> =>
  (await owner(world, `select from usage_copies where listed = 'everything' and not exists (select from usage_uncopied)`)).length === 1

const startWorker = (world: World, settings: Record<string, string> = {}) => {
  const program = launch(['serve', '--roles', 'worker'], { ...world.environmentVariables, ...settings, BURSAR_LOG_LEVEL: 'info' })
  return async () => {
    program.signal('SIGTERM')
    await program.exited
  }
}

/** Makes a new copy of all events with one worker. Returns the seconds from the beginning of the copy. */
const copyAll = async (world: World): Promise<number> => {
  const stop = startWorker(world)
  await eventually('a copy has begun', async () => (await owner(world, 'select from usage_copies')).length === 1)
  const began = performance.now()
  await eventually('everything is copied', () => isCopied(world), 2 * hour)
  const took = performance.now() - began
  await stop()
  return took / 1000
}

const dropCopy = async (world: World): Promise<void> => {
  const proxy = await openProxy()
  await proxy.drop((await owner<{ id: string }>(world, 'select id from usage_copies')).map(({ id }) => id))
  await proxy.close()
}

/** Ingests into two new databases in turn. Each has its own worker, and only one of them has a copy. */
const compareIngest = async (): Promise<Outcome> => {
  const open = async (settings: Record<string, string>) => {
    const world = await openWorld({ settings: { ...benchSettings, ...settings } })
    const { organization } = await world.shop()
    const [api, token, stop] = [await startApi(world), (await organization.token()).secret.reveal(), startWorker(world)]
    return {
      world,
      send: async () => (await sendAll(world, api, token)).per_second,
      close: async () => {
        await api.stop()
        await stop()
      },
    }
  }
  const sides = { copied: await open(directSettings()), plain: await open({}) }
  await eventually('there is a copy', () => isCopied(sides.copied.world))
  const waits: number[] = []
  const [copied, plain] = await alternate([
    async () => {
      const rate = await sides.copied.send()
      // The other side is measured without this work.
      const began = performance.now()
      await eventually('everything is copied', () => isCopied(sides.copied.world))
      waits.push((performance.now() - began) / 1000)
      return rate
    },
    sides.plain.send,
  ])
  await dropCopy(sides.copied.world)
  for (const { world, close } of Object.values(sides)) {
    await close()
    await world.close()
  }
  return {
    ratio: median(copied) / median(plain),
    ratios: quotients(copied, plain),
    figures: [
      { what: 'with a copy', value: median(copied), unit: ' events/s' },
      { what: 'without', value: median(plain), unit: ' events/s' },
      { what: 'until the rest was copied', value: median(waits.slice(1)), unit: ' s' },
    ],
    rows: sent,
    rounds: options.rounds,
  }
}
