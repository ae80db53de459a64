import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { openEventStore as openStore } from '../../../src/gateways/event-store/open.ts'
import { verifyCopy } from '../../../src/modules/usage/copies/verifying.ts'
import { openDeployment, openLife } from '../../harness/crashes.ts'
import { openEventStore } from '../../harness/event-stores.ts'
import { launch, portOf, type Line } from '../../harness/process.ts'
import { beginRun, endRun } from '../../harness/runs.ts'
import { openUsageLanes } from '../../harness/usage-lanes.ts'
import { eventually, openWorld } from '../../harness/world.ts'

/**
 * Copies usage events to two ClickHouse servers that replicate each other, while events are sent and questions are asked. Each server is killed
 * once. One is also the only one that is left while it is behind. Every answer must be right, and at the end both servers have each event once.
 */
const ports = [47791, 47794] as const
const folder = (server: number) => `/tmp/bursar-clickhouse-replicas-${ports[0]}/${server + 1}`
const startReplicas = () => execFileSync('scripts/clickhouse', ['start', 'replicas'], { stdio: 'inherit' })
const begun = performance.now()
const tell = (text: string) => console.log(`${((performance.now() - begun) / 1000).toFixed(1)} s: ${text}`)
// Ends a run that hangs.
setTimeout(() => {
  console.log('the run hangs')
  process.exit(1)
}, 600_000).unref()

startReplicas()
await beginRun(`replicas${process.pid}`)
const stores = await Promise.all(ports.map((port) => openEventStore(new URL(`http://default:@127.0.0.1:${port}/default`))))
/** The number of questions of requests that reached each server. The copier asks only for numbers of rows and chunks. */
const questions = [0, 0]
for (const [server, store] of stores.entries())
  store.misbehave((statement) => {
    if (/ where \(*organization/i.test(statement)) questions[server]!++
    return 'forward'
  })
const budgets = { api: [[100_000_000, 60]], ingested_events: [[100_000_000, 60]] }
const BURSAR_CLICKHOUSE_URL = stores.map(({ settings }) => settings.BURSAR_CLICKHOUSE_URL).join(',')
const world = await openWorld({ settings: { BURSAR_CLICKHOUSE_URL, BURSAR_BUDGETS: JSON.stringify(budgets) } })
const deployment = await openDeployment(world, openLife(null))
const addresses = (await openStore(world.config))!.servers.map(({ address }) => address)
const owner = <T extends object>(statement: string) => world.database.owner(async (client) => (await client.query<T>(statement)).rows)
const current = async () => (await owner<{ id: string; behind: string[]; chunk: string }>('select id, behind, chunk::text from usage_copies'))[0]
const waiting = async () => (await owner<{ rows: number }>('select count(*)::int as rows from usage_uncopied'))[0]!.rows

const settings = { ...world.environmentVariables, BURSAR_LOG_LEVEL: 'info' }
const programs = [launch(['serve', '--roles', 'api'], settings), launch(['serve', '--roles', 'worker'], settings)] as const
const [api, worker] = programs
const lanes = openUsageLanes(world, portOf(await api.line('listening')))
const { figures } = lanes

const known = new Set<Line>()
let failures = 0
/** Follows the failed steps of the worker. A failed step waits for a minute, and this run does not. */
const followFailures = async (): Promise<void> => {
  for (;;) {
    known.add(await worker.line('event_store_unavailable', (line) => !known.has(line)))
    failures++
  }
}
const following = followFailures().catch(() => undefined)
const wait = async (what: string, holds: () => Promise<boolean>): Promise<void> => {
  await Promise.race([
    eventually(what, async () => {
      if (failures > 0) {
        failures = 0
        await owner('update usage_copies set lease_until = null, lease_token = null')
      }
      return holds()
    }),
    running.then(() => {
      throw new Error('a lane ended')
    }),
  ])
  tell(what)
}
const isBehind = (server: number) => async () => (await current())!.behind.includes(addresses[server]!)
const areEqual = async () => (await current())!.behind.length === 0
/** Waits until more chunks are copied and more answers have come, from PostgreSQL or from this server. */
const goOn = async (what: string, server?: number): Promise<void> => {
  const [answers, chunk, asked] = [figures.answers, Number((await current())!.chunk), questions[server ?? 0]!]
  await wait(
    what,
    async () => figures.answers > answers + 50 && (server === undefined || (questions[server]! > asked + 20 && Number((await current())!.chunk) > chunk + 1)),
  )
}
const kill = (server: number) => process.kill(Number(readFileSync(`${folder(server)}/pid`, 'utf8')), 'SIGKILL')

const shops = [await lanes.openShop(), await lanes.openShop(), await lanes.openShop(), await lanes.openShop()] as const
await lanes.sendOne(shops[0])
await eventually(
  'there is a copy',
  async () => (await owner(`select from usage_copies where listed = 'everything' and chunk > 0`)).length === 1 && (await waiting()) === 0,
)
const running = Promise.all([...shops.slice(0, 2).map(lanes.sendEvents), ...shops.slice(2).map(lanes.ask)])
running.catch(() => undefined)
await goOn('the first server answers', 0)

kill(0)
await wait('the first server is killed, and is behind', isBehind(0))
await goOn('the second server answers and copies', 1)
startReplicas()
await wait('the first server is back, and has everything', areEqual)
await goOn('the first server answers', 0)

// The second server runs, but receives nothing. Then it is the only one.
const tables = ['events', 'corrected', 'chunks'].map((kind) => `bursar_${kind}_`)
const mark = (await current())!.id.replaceAll('-', '')
for (const table of tables) await stores[1]!.run(`system stop fetches ${table}${mark}`)
await wait('the second server is behind', isBehind(1))
await goOn('the first server copies alone', 0)
const asked = questions[1]!
kill(0)
const lagging = figures.answers
await goOn('the first server is killed, and PostgreSQL answers')
const askedBehind = questions[1]! - asked
for (const table of tables) await stores[1]!.run(`system start fetches ${table}${mark}`)
startReplicas()
await wait('both servers have everything', areEqual)
const laggingAnswers = figures.answers - lagging

kill(1)
await wait('the second server is killed, and is behind', isBehind(1))
await goOn('the first server answers and copies', 0)
startReplicas()
await wait('both servers have everything again', areEqual)
lanes.end()
await running
await eventually('everything is copied', async () => {
  if (failures > 0) {
    failures = 0
    await owner('update usage_copies set lease_until = null, lease_token = null')
  }
  return (await waiting()) === 0 && areEqual()
})

const [{ events }] = (await owner<{ events: number }>('select count(*)::int as events from usage_events')) as [{ events: number }]
const found = { missing: 0, double: 0 }
for (const store of stores) {
  const [[rows, distinct]] = (await store.ask(`select toString(count()), toString(uniqExact(id)) from bursar_events_${mark}`)) as [[string, string]]
  found.missing += events - Number(distinct)
  found.double += Number(rows) - Number(distinct)
}
const { differences } = (await verifyCopy(deployment.deps.db, deployment.deps.gateways.eventStore!, undefined, () => undefined))!
const problems = [
  ...(events === figures.sent ? [] : [`${figures.sent} events were sent, and ${events} are stored`]),
  ...(figures.wrong === 0 ? [] : [`${figures.wrong} answers are wrong`]),
  ...(found.missing === 0 && found.double === 0 ? [] : ['the copy is not exact']),
  ...(differences.length === 0 ? [] : [`the verification found ${differences.length} differences`]),
  ...(askedBehind === 0 ? [] : [`a server that was behind got ${askedBehind} questions`]),
  ...((await current())!.id.replaceAll('-', '') === mark ? [] : ['a new copy was made']),
]
for (const program of programs) {
  program.signal('SIGKILL')
  await program.exited
}
await following
for (const store of stores) {
  await store.drop([mark])
  await store.close()
}
await deployment.close()
await world.close()
const run = await endRun()
problems.push(...run.problems)
for (const problem of problems) console.log(`  FAIL ${problem}`)
tell('done')
console.log(
  `replicas: 3 kills · ${events} events · ${figures.answers} answers, ${figures.wrong} wrong · ${laggingAnswers} while one server was gone and the other behind · ` +
    `missing ${found.missing} · double ${found.double}`,
)
console.log(`${problems.length === 0 ? 1 : 0} passed, ${problems.length === 0 ? 0 : 1} failed`)
process.exit(problems.length === 0 ? 0 : 1)
