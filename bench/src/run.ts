import { beginRun, endRun } from '../../server/test/harness/runs.ts'
import { asOwner } from '../../server/test/harness/database.ts'
import { openWorld, type World } from '../../server/test/harness/world.ts'
import { exporting } from './exporting.ts'
import * as lists from './lists.ts'
import { migration } from './migration.ts'
import { options } from './options.ts'
import * as renewals from './renewals.ts'
import { isReached, keep, machineOf, shown, type Goal, type Machine, type Outcome } from './results.ts'
import { scale } from './scale.ts'
import * as stages from './stages.ts'
import { latency, throughput } from './webhooks.ts'

interface Bench {
  /** What it gives, by name, and how good that should be. */
  readonly gives: Record<string, Goal>
  readonly measure: (world: World) => Promise<Record<string, Outcome>>
}

const benches: Record<string, Bench> = {
  ratelimit: { gives: { ratelimit: { measures: 'requests a second, with rate limits over without', goal: '>= 0.9' } }, measure: stages.ratelimit },
  list: {
    gives: {
      list: { measures: 'a page of products, over a bare handler with the same statements', goal: '>= 0.7' },
      'list-orders': { measures: 'a page of orders, over a bare handler with the same statements', goal: '>= 0.7' },
      'list-orders-size': { measures: 'time of the first page of many orders, over that of 1,000', goal: '<= 1.5' },
      'list-orders-deep': { measures: 'time of the last page of many orders, over its bare statement', goal: '<= 1.3' },
    },
    measure: lists.list,
  },
  size: { gives: { size: { measures: 'time of the first page of many products, over that of 1,000', goal: '<= 1.5' } }, measure: lists.size },
  export: {
    gives: {
      export: { measures: 'export of orders over HTTP, over psql with the same COPY', goal: '>= 0.9' },
      'export-memory': { measures: 'memory of the API, highest during an export over idle', goal: '<= 64', unit: ' MiB' },
    },
    measure: exporting,
  },
  audit: { gives: { audit: { measures: 'customers written a second, with the audit log over without', goal: '>= 0.9' } }, measure: stages.audit },
  webhooks: { gives: { webhooks: { measures: 'deliveries a second, over a loop that only signs and posts', goal: '>= 0.6' } }, measure: throughput },
  webhook_p50: {
    gives: {
      webhook_p50: { measures: "from commit to the receiver's socket at 200 events/s, median", goal: '<= 25', unit: ' ms' },
      webhook_p99: { measures: 'the same, the 99th of 100', goal: '<= 150', unit: ' ms' },
    },
    measure: latency,
  },
  renewals: {
    gives: { renewals: { measures: 'renewals a second, over a loop that writes the same rows in as many transactions', goal: '>= 0.4' } },
    measure: renewals.throughput,
  },
  'renewals-api-p99': {
    gives: { 'renewals-api-p99': { measures: "the API's 99th of 100 answers while renewals are due, over idle", goal: '<= 2' } },
    measure: renewals.besides,
  },
  migration: {
    gives: {
      migration: { measures: 'phase 1 of the member migration, bare statements with the same rows over it', goal: '>= 0.4' },
      'switch-lock': { measures: 'how long the switch to members keeps writers of seats out', goal: '<= 20', unit: ' ms' },
      'switch-wait': { measures: 'the longest that anybody waited for the switch', goal: '<= 100', unit: ' ms' },
    },
    measure: migration,
  },
  rls: { gives: { rls: { measures: 'a page behind row-level security, over one without', goal: '>= 0.9' } }, measure: lists.rls },
}

/** What is left out unless it is asked for by name: a question that was settled, and one that has no goal. */
const asked = ['rls', 'scale']

const measure = async (name: string, machine: Machine) => {
  const world = await openWorld({
    settings: { BURSAR_LOG_LEVEL: 'silent', BURSAR_BUDGETS: JSON.stringify({ api: [[100_000_000, 60]] }), BURSAR_EGRESS_LOOPBACK: 'true' },
  })
  const date = new Date().toISOString()
  if (name === 'scale') {
    const steps = await scale(world)
    if (options.keep) keep(name, { bench: name, date, machine, rounds: options.rounds, note: options.note, steps })
  } else {
    const { gives, measure: found } = benches[name]!
    for (const [bench, outcome] of Object.entries(await found(world))) {
      const goal = gives[bench]!
      const reached = isReached(goal.goal, outcome.ratio)
      for (const { what, value, unit } of outcome.figures) console.log(`  ${what}: ${Number(value.toPrecision(4)).toLocaleString('en')}${unit}`)
      console.log(`${bench} ${outcome.ratio.toFixed(2)} ${goal.goal}`)
      if (options.keep) keep(bench, { bench, ...goal, date, machine, ...outcome, reached, note: options.note })
      if (!reached) process.exitCode = 1
    }
  }
  await world.close()
}

const all = [...Object.keys(benches), 'scale']
const names = options.names.length > 0 ? options.names : all.filter((name) => !asked.includes(name))
const unknown = names.find((name) => name !== 'readme' && !all.includes(name))
if (unknown !== undefined) {
  console.error(`bench: there is no ${unknown}; there are ${all.join(', ')}, and readme, which puts the results into the texts that show them`)
  process.exit(2)
}
if (names.some((name) => name !== 'readme')) {
  await beginRun('bench')
  const version = await asOwner('postgres', async (client) => (await client.query<{ server_version: string }>('show server_version')).rows[0]!.server_version)
  for (const name of names) if (name !== 'readme') await measure(name, machineOf(version.split(' ')[0]!))
  await endRun()
  if (!options.keep) console.log('a smaller run than usual: bench/results is as it was')
}
if (names.includes('readme')) for (const { write } of shown()) write()
