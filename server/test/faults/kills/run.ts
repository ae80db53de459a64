import { randomInt } from 'node:crypto'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { openCluster } from './cluster.ts'
import { openDice, planActs, type Victim } from './plan.ts'

/**
 * Runs renewals while the API, the workers and PostgreSQL are killed at pseudorandom times. Workers are also paused until
 * other workers take over their leases. Afterwards the ledger is compared with the processor's records. `--quick` is the
 * daily run.
 */
const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    kills: { type: 'string' },
    renewals: { type: 'string' },
    /** Duration of a lease in milliseconds. */
    lease: { type: 'string', default: '5000' },
    seed: { type: 'string' },
  },
})
const kills = Number(given.kills ?? (given.quick ? 40 : 2000))
const renewals = Number(given.renewals ?? (given.quick ? 600 : 100_000))
const lease_ms = Number(given.lease)
const seed = given.seed === undefined ? randomInt(2 ** 31) : Number(given.seed)
const dice = openDice(seed)
const acts = planActs(dice, kills)
console.log(`faults: ${kills} kills during ${renewals} renewals, leases of ${lease_ms} ms, seed ${seed}`)

// A killed process writes no compile cache. This process writes it, so that restarted processes start fast.
const compiled = resolve('.scratch/compiled')
enableCompileCache(compiled)

const begun = performance.now()
const elapsed = () => `${((performance.now() - begun) / 1000).toFixed(1)} s`
const pause = (milliseconds: number) => new Promise<void>((resolve) => void setTimeout(resolve, milliseconds))
const problems: string[] = []
const cluster = await openCluster()
const closing: (() => Promise<unknown>)[] = [cluster.close]
const close = async () => {
  for (const one of closing.splice(0).toReversed()) await one()
}
let doing = 'starting the system'
/** Describes the processes of the run, to find out why it does not go on. */
let describe: () => string = () => 'no processes yet'
const giveUp = (reason: unknown) => {
  console.log(`  FAIL ${elapsed()}, while ${doing}: ${reason instanceof Error ? reason.stack : String(reason)}\n${describe()}`)
  setTimeout(() => process.exit(1), 60_000)
  void close().finally(() => process.exit(1))
}
// Ends a run that hangs. The limit is several times the expected duration.
setTimeout(() => giveUp('the run takes too long'), 300_000 + kills * 10_000 + renewals * 300).unref()
for (const event of ['SIGINT', 'SIGTERM']) process.once(event, giveUp)
// The connections of this process break when PostgreSQL is killed. A running query reports the error to its caller. The
// error of an idle connection is ignored.
const broken = ['ECONNRESET', 'ECONNREFUSED', 'EPIPE', '57P01', '57P02', '57P03']
process.on('uncaughtException', (error: Error & { code?: string }) => {
  if (!broken.includes(error.code ?? '') && !/terminated/.test(error.message)) giveUp(error)
})
// Makes the test harness use the killable PostgreSQL. The variable must be set before the modules below are loaded.
process.env.BURSAR_TEST_SERVER = cluster.url
const { beginRun, endRun } = await import('../../harness/runs.ts')
const { openWorld } = await import('../../harness/world.ts')
const { openCrew } = await import('./crew.ts')
const { always, atTheEnd, findBreaches: find, lost, unsettled } = await import('./judge.ts')
const { writeSubscriptions } = await import('./rows.ts')
const { openTraffic } = await import('./traffic.ts')
type Breach = Awaited<ReturnType<typeof find>>[number]
flushCompileCache()
const tell = ({ what, count, examples }: Breach) => `${count} × ${what}\n    ${examples.join('\n    ')}`

console.log(`${elapsed()}: PostgreSQL runs`)
await beginRun(`faults${seed}`)
const world = await openWorld({ settings: { BURSAR_LOG_LEVEL: 'info', NODE_COMPILE_CACHE: compiled } })
console.log(`${elapsed()}: a system is there`)
// The first renewal falls due after all rows are written and all processes are started.
const from = new Date(Date.now() + 6000 + renewals)
const shop = await writeSubscriptions(world, dice, { count: renewals, from, over: renewals * 20 })
console.log(`${elapsed()}: the subscriptions are written`)
const crew = openCrew(world.environmentVariables, lease_ms)
closing.push(crew.close)
describe = () => `PostgreSQL: ${cluster.describe()}\n${crew.describe()}`
await crew.pick('worker', () => 0)
await pause(Math.max(0, from.getTime() - Date.now()))
console.log(`${elapsed()}: the first are due`)
const traffic = openTraffic(crew, shop.token.reveal(), shop.product_id)

const killed: Record<Victim | 'stopped', number> = { api: 0, worker: 0, server: 0, backend: 0, stopped: 0 }
let held = 0
const watch = { on: true }
const safety = (async () => {
  while (watch.on) {
    try {
      for (const breach of await find(world, always)) problems.push(`in the middle: ${tell(breach)}`)
    } catch {
      // PostgreSQL is down at this moment. The next round checks again.
    }
    if (problems.length > 0) return
    await pause(3000)
  }
})()

/** Waits `after` milliseconds, then kills a process that has run all that time. */
const kill = async (victim: Victim, after: number) => {
  doing = `killing one more ${victim} after ${JSON.stringify(killed)}`
  if (victim === 'server' || victim === 'backend') {
    await pause(after)
    if (victim === 'server') await cluster.killServer()
    else while (!cluster.killBackend(dice.below)) await pause(50)
  } else
    for (;;) {
      const post = await crew.pick(victim, dice.below)
      const { program } = post.ready!
      await pause(after)
      if (post.ready?.program !== program) continue
      program.signal('SIGKILL')
      // Marks the process as not ready, so that it is not chosen again before its exit is noticed.
      post.ready = undefined
      break
    }
  killed[victim]++
}

/** Returns how many subscriptions and orders a worker has leased now. 0 if the database does not answer. */
const leasesOf = async (worker: string): Promise<number> => {
  try {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ count: number }>(
        `select (select count(*) from subscriptions where lease_holder = $1)::int + (select count(*) from orders where lease_holder = $1)::int as count`,
        [worker],
      ),
    )
    return rows[0]!.count
  } catch {
    return 0
  }
}

/** Pauses a worker that holds leases until they have expired. When it continues, other workers have taken over the leases. */
const stop = async ({ after, longer, meanwhile }: Extract<(typeof acts)[number], { kind: 'stop' }>) => {
  doing = `pausing a worker after ${JSON.stringify(killed)}`
  await pause(after)
  const post = await crew.pick('worker', dice.below)
  const { program, worker } = post.ready!
  for (let look = 0; look < 200 && (await leasesOf(worker)) === 0; look++) await pause(10)
  program.signal('SIGSTOP')
  post.stopped = true
  killed.stopped++
  const since = performance.now()
  held += await leasesOf(worker)
  for (const one of meanwhile) await kill(one.victim, one.after)
  await pause(Math.max(0, lease_ms + longer - (performance.now() - since)))
  program.signal('SIGCONT')
  post.stopped = false
}

for (const act of acts) {
  if (act.kind === 'kill') await kill(act.victim, act.after)
  else await stop(act)
}
const last = performance.now()
console.log(`${elapsed()}: the last kill`)
doing = 'waiting until no work is left'
const ended = await Promise.race([traffic.end().then(() => true), pause(300_000).then(() => false)])
if (!ended) problems.push('requests are under way that nobody answers')
let left: Breach[] = []
// Waits until no work is left, at most four minutes. Work that is retried again and again counts as left, too.
for (;;) {
  left = await find(world, unsettled)
  if (left.length === 0 || performance.now() - last > 240_000) break
  await pause(200)
}
if (left.length > 0) console.log(describe())
const settled = (performance.now() - last) / 1000
problems.push(...left.map((breach) => `not settled after ${settled.toFixed(1)} s: ${tell(breach)}`), ...traffic.figures.problems)
watch.on = false
doing = 'ending the checks'
await safety
doing = 'comparing the records'
const [double, missing, wrong] = [await find(world, always), await find(world, lost), await find(world, atTheEnd)]
problems.push(...[...double, ...missing, ...wrong].map(tell))
doing = 'stopping the processes'
await closing.pop()!()
// A process that loses its database connection must wait for the database. An exit without a kill is a failure.
problems.push(...crew.tally.quit.map((words) => `ended by itself: ${words}`))
for (const [name, { count, example }] of crew.tally.errors)
  console.log(`  logged as an error ${count} times: ${name}${problems.length === 0 ? '' : `\n    ${example}`}`)
doing = 'closing the system of this process'
await world.close()
doing = 'searching the dump for secrets'
const run = await endRun()
problems.push(...run.problems)
await close()

const sum = (found: readonly Breach[]) => found.reduce((total, { count }) => total + count, 0)
const { figures } = traffic
if (problems.length > 0) for (const [reason, count] of figures.reasons) console.log(`  asked again ${count} times: ${reason}`)
for (const problem of problems) console.log(`  FAIL ${problem}`)
console.log(
  `${elapsed()}: ${figures.reads} lists and ${figures.purchases} purchases answered, ${figures.repeated} requests repeated · ${held} leases held by those that stood still, ` +
    `${crew.tally.leases_lost} lost · ${crew.tally.reaped} workers reaped · ${run.figures}`,
)
console.log(
  `kills: ${killed.api + killed.worker + killed.server + killed.backend} (api ${killed.api}, worker ${killed.worker}, postgres ${killed.server + killed.backend}, stopped ${killed.stopped}) · ` +
    `renewals: ${renewals} · lost: ${sum(missing)} · double: ${sum(double)} · ended by themselves: ${crew.tally.quit.length} · settled after: ${settled.toFixed(1)} s · seed ${seed}`,
)
process.exit(problems.length === 0 ? 0 : 1)
