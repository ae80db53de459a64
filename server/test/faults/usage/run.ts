import { randomInt } from 'node:crypto'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { beginRun, endRun } from '../../harness/runs.ts'
import { openWorld } from '../../harness/world.ts'
import { openCrew } from '../kills/crew.ts'
import { openDice } from '../kills/plan.ts'
import { findGaps, judgeBilling } from './billing-judge.ts'
import { openClosers } from './closers.ts'
import { findUnsettled, judge } from './judge.ts'
import { aggregations, makeLastOrdersDue, sellMetered } from './sale.ts'
import { openSender, pause } from './sender.ts'
import { openTraffic } from './traffic.ts'

/**
 * Sends usage events and corrections over HTTP while the API and the workers are killed at pseudorandom times. Meanwhile the workers
 * merge totals, backfill new meters, renew subscriptions with metered prices and make last orders. Plan changes and revocations end
 * periods too. Afterwards the totals and the order lines are compared with the stored events, and with what the senders know.
 */
const { values: given } = parseArgs({
  options: {
    usage: { type: 'boolean' },
    /** Duration of the traffic. The daily run takes 20 seconds. */
    minutes: { type: 'string' },
    seed: { type: 'string' },
  },
})
const duration = given.minutes === undefined ? 20_000 : Number(given.minutes) * 60_000
const seed = given.seed === undefined ? randomInt(2 ** 31) : Number(given.seed)
const dice = openDice(seed)
const lease_ms = 5000
/** Time after the last kill in which all work must be done. */
const longest = 180_000
console.log(`faults of usage: ${duration / 1000} s, seed ${seed}`)

// A killed process writes no compile cache. This process writes it, so that restarted processes start fast.
const compiled = resolve('.scratch/compiled')
enableCompileCache(compiled)
flushCompileCache()

const begun = performance.now()
const elapsed = () => `${((performance.now() - begun) / 1000).toFixed(1)} s`
// Ends a run that hangs.
setTimeout(
  () => {
    console.log(`${elapsed()}: the run hangs`)
    process.exit(1)
  },
  duration * 3 + 600_000,
).unref()

await beginRun(`usagefaults${seed}`)
const world = await openWorld({ settings: { BURSAR_LOG_LEVEL: 'info', NODE_COMPILE_CACHE: compiled } })
const shop = await world.shop()
const { organization } = shop
const sale = await sellMetered(world, shop, dice)
console.log(`${elapsed()}: ${sale.subscribers.length} subscriptions are sold`)
const crew = openCrew(world.environmentVariables, lease_ms, ['api', 'api', 'worker', 'worker'])
await crew.pick('api', () => 0)
await crew.pick('worker', () => 0)
console.log(`${elapsed()}: the processes run`)
await sale.spreadDue(duration * 0.9)
const sender = openSender(crew, (await organization.token()).secret.reveal())
const traffic = openTraffic(sender, sale, dice)
const closers = openClosers(sender, sale, dice)

const killed = { api: 0, worker: 0 }
const isRefused = () => sender.figures.problems.length > 0
/** Kills a process of a role, after a pause of up to `longest` milliseconds. `isDue` may postpone the kill. */
const kill = async (role: 'api' | 'worker', longest: number, isDue: () => boolean) => {
  const post = await crew.pick(role, dice.below)
  const { program } = post.ready!
  await pause(dice.below(longest))
  while (!isDue()) await pause(20)
  if (post.ready?.program !== program) return
  program.signal('SIGKILL')
  // Marks the process as not ready, so that it is not chosen again before its exit is noticed.
  post.ready = undefined
  killed[role]++
}
/** True if both API processes are ready. The traffic goes on with the other one while the killed one starts again. */
const areBothReady = () => crew.posts.every(({ role, ready }) => role === 'worker' || ready !== undefined)
const isEnough = () => isRefused() || (killed.api > 1 && killed.worker > 1 && traffic.figures.corrections >= 10 && closers.figures.changes > 0)
for (const until = performance.now() + duration; performance.now() < until || !isEnough();) {
  const role = killed.api > killed.worker ? 'worker' : 'api'
  const { sent } = traffic.figures
  // Kills nothing until a request was answered. Otherwise a slow machine would only start processes.
  await kill(role, 850, () => isRefused() || (traffic.figures.sent > sent && (role === 'worker' || areBothReady())))
}
console.log(`${elapsed()}: the traffic ends`)
const problems: string[] = []
let settling = 0
/** Waits until all work is done. Kills a worker `kills` times meanwhile. */
const settle = async (kills = 0) => {
  const begin = performance.now()
  let left: string[] = []
  do {
    left = await findUnsettled(world)
    if (left.length > 0 && kills-- > 0) await kill('worker', 300, () => true)
    else if (left.length > 0) await pause(100)
  } while (left.length > 0 && performance.now() - begin < longest)
  if (left.length > 0) problems.push(`not settled after ${longest / 1000} s: ${left.join(', ')}`)
  settling += (performance.now() - begin) / 1000
}
const ended = await Promise.race([Promise.all([traffic.end(), closers.end()]).then(() => true), pause(longest).then(() => false)])
if (!ended) problems.push('some requests are never answered')
await settle()
await closers.revokeAll()
await settle()
problems.push(...(await findGaps(world, organization.id)))
await makeLastOrdersDue(world)
await settle(2)
const { figures, meters } = traffic
const counted = await judge(world, organization.id, traffic)
const billed = await judgeBilling(world, organization.id)
problems.push(...sender.figures.problems, ...counted.problems, ...billed.problems)
if (meters.length <= aggregations.length) problems.push('no meter was made during the traffic')
if (figures.corrections === 0 || closers.figures.changes === 0 || billed.later_lines === 0 || killed.api === 0 || killed.worker === 0)
  problems.push('this run shows nothing: no corrections, no plan changes, no late usage or no kills')
await crew.close()
problems.push(...crew.tally.quit.map((words) => `ended by itself: ${words}`))
for (const [name, { count, example }] of crew.tally.errors)
  console.log(`  logged as an error ${count} times: ${name}${problems.length === 0 ? '' : `\n    ${example}`}`)
await world.close()
const run = await endRun()
problems.push(...run.problems)

for (const problem of problems.slice(0, 40)) console.log(`  FAIL ${problem}`)
if (problems.length > 40) console.log(`  FAIL and ${problems.length - 40} more`)
console.log(
  `${elapsed()}: ${killed.api} kills of the API, ${killed.worker} of workers · ${meters.length} meters · ${figures.corrections} events corrected · ` +
    `${closers.figures.changes} plan changes · ${closers.figures.revoked} revocations · ` +
    `${sender.figures.repeated} requests repeated, ${figures.recognised} events recognised · settled in ${settling.toFixed(1)} s · seed ${seed} · ${run.figures}`,
)
console.log(
  `sent ${figures.sent} · counted ${counted.counted} · billed ${billed.billed} · expected ${billed.expected} · lost ${counted.lost + billed.lost} · ` +
    `double ${counted.double + billed.double} · listed as unbilled ${billed.unbilled} · ${billed.periods} periods · ` +
    `${billed.lines} lines, ${billed.later_lines} of late usage · ${billed.billed_amount} cents`,
)
process.exit(problems.length === 0 ? 0 : 1)
