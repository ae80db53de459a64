import { randomInt } from 'node:crypto'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { openCluster } from './cluster.ts'
import { openDice, planActs, type Victim } from './plan.ts'

/**
 * Renewals while everything they need is killed: the API, workers and PostgreSQL itself, at moments that a seed chooses,
 * and workers that stand still until their leases are others'. Then the books are compared. `--quick` is what is run daily.
 */
const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    kills: { type: 'string' },
    renewals: { type: 'string' },
    /** Milliseconds that a lease lasts. */
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

// A process that is killed leaves no compiled code for the next one: ours does, for all of them.
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
let doing = 'beginning'
const giveUp = (reason: unknown) => {
  console.error(`${elapsed()} (${doing}):`, reason)
  setTimeout(() => process.exit(1), 60_000)
  void close().finally(() => process.exit(1))
}
// Several times what it takes: whatever waits for something that never comes is said, and ends.
setTimeout(() => giveUp(new Error(`nothing has come of this for too long: ${doing}`)), 900_000 + kills * 25_000 + renewals * 300).unref()
for (const event of ['SIGINT', 'SIGTERM']) process.once(event, giveUp)
// Our own connections break with the server that we kill: whoever waits on one is told, and those that nobody waits on do not matter.
const broken = ['ECONNRESET', 'ECONNREFUSED', 'EPIPE', '57P01', '57P02', '57P03']
process.on('uncaughtException', (error: Error & { code?: string }) => {
  if (!broken.includes(error.code ?? '') && !/terminated/.test(error.message)) giveUp(error)
})
// The tests' own server is another one: everything below is told of this one before it is loaded.
process.env.BURSAR_TEST_SERVER = cluster.url
const { beginRun, endRun } = await import('../../harness/runs.ts')
const { openWorld } = await import('../../harness/world.ts')
const { openCrew } = await import('./crew.ts')
const { always, atTheEnd, find, lost, unsettled } = await import('./judge.ts')
const { writeSubscriptions } = await import('./rows.ts')
const { openTraffic } = await import('./traffic.ts')
type Breach = Awaited<ReturnType<typeof find>>[number]
flushCompileCache()
const tell = ({ what, count, examples }: Breach) => `${count} × ${what}\n    ${examples.join('\n    ')}`

console.log(`${elapsed()}: PostgreSQL runs`)
await beginRun(`faults${seed}`)
const world = await openWorld({ settings: { BURSAR_LOG_LEVEL: 'info', NODE_COMPILE_CACHE: compiled } })
console.log(`${elapsed()}: a system is there`)
// Late enough for everything to be written and started before.
const from = new Date(Date.now() + 6000 + renewals)
const shop = await writeSubscriptions(world, dice, { count: renewals, from, over: renewals * 20 })
console.log(`${elapsed()}: the subscriptions are written`)
const crew = openCrew(world.environmentVariables, lease_ms)
closing.push(crew.close)
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
      // The database is being killed at this moment.
    }
    if (problems.length > 0) return
    await pause(3000)
  }
})()

/** Kills something that has been at work for a while. */
const kill = async (victim: Victim, after: number) => {
  doing = `${JSON.stringify(killed)}, then killing one more: ${victim}`
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
      // Not to be killed again before it is known to be dead.
      post.ready = undefined
      break
    }
  killed[victim]++
}

/** How many leases a worker has at this moment; nothing where nobody can say. */
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

/** A worker in the middle of its work stands still for longer than its leases last; when it goes on, they are others'. */
const stop = async ({ after, longer, meanwhile }: Extract<(typeof acts)[number], { kind: 'stop' }>) => {
  doing = `${JSON.stringify(killed)}, then making a worker stand still`
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
doing = 'settling what is left'
const ended = await Promise.race([traffic.end().then(() => true), pause(300_000).then(() => false)])
if (!ended) problems.push('requests are under way that nobody answers')
let left: Breach[] = []
// As long as something still moves, it is waited for.
for (let [before, moved] = ['', last]; ;) {
  left = await find(world, unsettled)
  const now = left.map(({ what, count }) => `${count} ${what}`).join()
  if (now !== before) [before, moved] = [now, performance.now()]
  if (left.length === 0 || performance.now() - moved > 120_000) break
  await pause(200)
}
const settled = (performance.now() - last) / 1000
problems.push(...left.map((breach) => `not settled after ${settled.toFixed(1)} s: ${tell(breach)}`), ...traffic.figures.problems)
watch.on = false
await safety
const [double, missing, wrong] = [await find(world, always), await find(world, lost), await find(world, atTheEnd)]
problems.push(...[...double, ...missing, ...wrong].map(tell))
await closing.pop()!()
for (const [name, { count, example }] of crew.tally.errors)
  console.log(`  logged as an error ${count} times: ${name}${problems.length === 0 ? '' : `\n    ${example}`}`)
await world.close()
const run = await endRun()
problems.push(...run.problems)
await close()

const sum = (found: readonly Breach[]) => found.reduce((total, { count }) => total + count, 0)
const { figures } = traffic
if (problems.length > 0) for (const [reason, count] of figures.reasons) console.log(`  asked again ${count} times: ${reason}`)
for (const words of crew.tally.last_words) console.log(`  ended by itself: ${words}`)
for (const problem of problems) console.log(`  FAIL ${problem}`)
console.log(
  `${elapsed()}: ${figures.reads} lists and ${figures.purchases} purchases answered, ${figures.repeated} requests repeated · ${held} leases held by those that stood still, ` +
    `${crew.tally.leases_lost} lost · ${crew.tally.reaped} workers reaped · ${crew.tally.quit} processes ended by themselves · ${run.figures}`,
)
console.log(
  `kills: ${killed.api + killed.worker + killed.server + killed.backend} (api ${killed.api}, worker ${killed.worker}, postgres ${killed.server + killed.backend}, stopped ${killed.stopped}) · ` +
    `renewals: ${renewals} · lost: ${sum(missing)} · double: ${sum(double)} · settled after: ${settled.toFixed(1)} s · seed ${seed}`,
)
process.exit(problems.length === 0 ? 0 : 1)
