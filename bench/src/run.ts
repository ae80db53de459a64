import { beginRun, endRun } from '../../server/test/harness/runs.ts'
import { asOwner } from '../../server/test/harness/database.ts'
import { directSettings } from '../../server/test/harness/event-stores.ts'
import { openWorld, type World } from '../../server/test/harness/world.ts'
import { events } from './events.ts'
import { exporting } from './exporting.ts'
import { ingest } from './ingest.ts'
import * as lists from './lists.ts'
import { memory } from './memory.ts'
import { metrics } from './metrics.ts'
import { migration } from './migration.ts'
import { options } from './options.ts'
import { peers } from './peers.ts'
import * as renewals from './renewals.ts'
import { isReached, storeResult, machineOf, shown, type Goal, type Machine, type Outcome } from './results.ts'
import { scale } from './scale.ts'
import * as stages from './stages.ts'
import { benchSettings } from './settings.ts'
import { usage } from './usage.ts'
import { latency, throughput } from './webhooks.ts'

interface Bench {
  /** Results by name, each with its goal. */
  readonly gives: Record<string, Goal>
  readonly measure: (world: World) => Promise<Record<string, Outcome>>
  /** Settings of the world besides those of every benchmark. */
  readonly settings?: () => Record<string, string>
}

const benches: Record<string, Bench> = {
  ratelimit: { gives: { ratelimit: { measures: 'requests per second: with rate limits ÷ without', goal: '>= 0.9' } }, measure: stages.ratelimit },
  list: {
    gives: { list: { measures: 'pages of 10 products per second: API ÷ hand-written handler with the same answer', goal: '>= 0.6' } },
    measure: lists.list,
  },
  'list-orders': {
    gives: { 'list-orders': { measures: 'pages of 10 orders per second: API ÷ hand-written handler with the same answer', goal: '>= 0.6' } },
    measure: lists.listOrders,
  },
  get: {
    gives: { get: { measures: 'single products per second: API ÷ hand-written handler with the same answer', goal: '>= 0.6' } },
    measure: lists.get,
  },
  create: {
    gives: { create: { measures: 'customers created per second: API ÷ hand-written handler that writes the same rows', goal: '>= 0.6' } },
    measure: lists.create,
  },
  'size-orders': {
    gives: {
      'list-orders-size': { measures: 'time of the first page: many orders ÷ 1,000 orders', goal: '<= 1.5' },
      'list-orders-deep': { measures: 'time of the last page of many orders ÷ time of its SQL statement', goal: '<= 1.3' },
    },
    measure: lists.sizeOfOrders,
  },
  size: { gives: { size: { measures: 'time of the first page: many products ÷ 1,000 products', goal: '<= 1.5' } }, measure: lists.size },
  export: {
    gives: {
      export: { measures: 'orders exported per second: over HTTP ÷ by psql with the same COPY', goal: '>= 0.9' },
      'export-memory': { measures: 'memory of the API: peak during an export − idle', goal: '<= 64', unit: ' MiB' },
    },
    measure: exporting,
  },
  ingest: {
    gives: {
      ingest: { measures: 'usage events per second, 1,000 in a call: over HTTP ÷ COPY into a table without an index', goal: '>= 0.2' },
      'ingest-meters': { measures: 'usage events per second, 1,000 in a call: with two meters ÷ without', goal: '>= 0.65' },
      'ingest-turn': { measures: 'longest time for which a body of 10 MB holds the event loop, as CPU time', goal: '<= 50', unit: ' ms' },
    },
    measure: ingest,
  },
  usage: {
    gives: {
      balance: { measures: 'wrong balances in the first read after an ingest was answered', goal: '<= 0', unit: '' },
      'balance-size': { measures: 'CPU time of the API and the database for a read of a balance: many usage events ÷ 10,000', goal: '<= 2' },
      'usage-closing': { measures: 'CPU time of the worker and the database for a renewal that bills usage: a tenth of these events ÷ 1,000', goal: '<= 1.5' },
      'events-pages': { measures: 'slowest first page of 10 usage events, of any filter with an index: many usage events', goal: '<= 50', unit: ' ms' },
    },
    measure: usage,
  },
  events: {
    gives: {
      'events-sum': { measures: 'time for the sum of a property over the usage events of an organization: PostgreSQL ÷ ClickHouse', goal: '>= 3' },
      'events-distinct': { measures: 'time for the number of different values of a property of these events: PostgreSQL ÷ ClickHouse', goal: '>= 5' },
      'events-copy': { measures: 'usage events per second of the first copy, with one worker', goal: '>= 10000', unit: ' events/s' },
      'ingest-copied': { measures: 'usage events per second, 1,000 in a call: while a worker copies them to ClickHouse ÷ without a copy', goal: '>= 0.8' },
    },
    measure: events,
    settings: directSettings,
  },
  metrics: {
    gives: {
      metrics: { measures: 'time for all metrics of 366 days: from the records ÷ from the stored sums', goal: '>= 100' },
      'metrics-differences': { measures: 'random questions about metrics that are answered differently from the records', goal: '<= 0', unit: '' },
    },
    measure: metrics,
  },
  memory: { gives: { memory: { measures: 'memory of the API after 100,000 requests', goal: '<= 200', unit: ' MiB' } }, measure: memory },
  audit: { gives: { audit: { measures: 'customers written per second: with the audit log ÷ without', goal: '>= 0.9' } }, measure: stages.audit },
  webhooks: { gives: { webhooks: { measures: 'deliveries per second: worker ÷ loop that only signs and posts', goal: '>= 0.6' } }, measure: throughput },
  webhook_p50: {
    gives: {
      webhook_p50: { measures: "time from commit to the receiver's socket at 200 events/s: median", goal: '<= 25', unit: ' ms' },
      webhook_p99: { measures: "time from commit to the receiver's socket at 200 events/s: 99th percentile", goal: '<= 150', unit: ' ms' },
    },
    measure: latency,
  },
  renewals: {
    gives: { renewals: { measures: 'renewals per second: worker ÷ hand-written loop that writes the same rows', goal: '>= 0.4' } },
    measure: renewals.throughput,
  },
  'renewals-api-p99': {
    gives: { 'renewals-api-p99': { measures: '99th percentile of API response times: during renewals ÷ idle', goal: '<= 2' } },
    measure: renewals.besides,
  },
  migration: {
    gives: {
      migration: { measures: 'time of phase 1 of the member migration: plain statements with the same rows ÷ Bursar', goal: '>= 0.4' },
      'switch-lock': { measures: 'time for which the switch to members blocks writes of seats', goal: '<= 20', unit: ' ms' },
      'switch-wait': { measures: 'longest wait of a request for the switch to members', goal: '<= 100', unit: ' ms' },
    },
    measure: migration,
  },
  rls: { gives: { rls: { measures: 'pages per second: with row-level security ÷ without', goal: '>= 0.9' } }, measure: lists.rls },
  peers: {
    gives: {
      peers: { measures: 'pages of 10 products with prices and total per second: Bursar ÷ Vendure (`products` query of its shop API)', goal: '>= 6' },
      'peers-search': { measures: 'pages of 10 products with prices and total per second: Bursar ÷ Vendure (`search` query of its shop API)', goal: '>= 6' },
    },
    measure: peers,
  },
}

/**
 * Benchmarks that run only if they are named. `rls` was needed for one decision (docs/decisions/0009), `scale` has no
 * goal, and `peers` installs another product.
 */
const asked = ['rls', 'scale', 'peers']

const measure = async (name: string, machine: Machine) => {
  const world = await openWorld({ settings: { ...benchSettings, ...benches[name]?.settings?.() } })
  const date = new Date().toISOString()
  if (name === 'scale') {
    const steps = await scale(world)
    if (options.keep) storeResult(name, { bench: name, date, machine, rounds: options.rounds, note: options.note, steps })
  } else {
    const { gives, measure: found } = benches[name]!
    for (const [bench, outcome] of Object.entries(await found(world))) {
      const goal = gives[bench]!
      const reached = isReached(goal.goal, outcome.ratio)
      for (const { what, value, unit } of outcome.figures) console.log(`  ${what}: ${Number(value.toPrecision(4)).toLocaleString('en')}${unit}`)
      console.log(`${bench} ${outcome.ratio.toFixed(2)} ${goal.goal}`)
      if (options.keep) storeResult(bench, { bench, ...goal, date, machine, ...outcome, reached, note: options.note })
      if (!reached) process.exitCode = 1
    }
  }
  await world.close()
}

const all = [...Object.keys(benches), 'scale']
const names = options.names.length > 0 ? options.names : all.filter((name) => !asked.includes(name))
const unknown = names.find((name) => name !== 'docs' && !all.includes(name))
if (unknown !== undefined) {
  console.error(
    `bench: unknown benchmark ${unknown}. Known: ${all.join(', ')}. The name docs writes the saved results into docs/performance.md and docs/scale.md`,
  )
  process.exit(2)
}
if (names.some((name) => name !== 'docs')) {
  await beginRun('bench')
  const version = await asOwner('postgres', async (client) => (await client.query<{ server_version: string }>('show server_version')).rows[0]!.server_version)
  for (const name of names) if (name !== 'docs') await measure(name, machineOf(version.split(' ')[0]!))
  await endRun()
  if (!options.keep) console.log('a smaller run than the default: bench/results is unchanged')
}
if (names.includes('docs')) for (const { write } of shown()) write()
