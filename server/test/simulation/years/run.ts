import { parseArgs } from 'node:util'
import { randomText } from '../../../src/kernel/secrets.ts'
import { beginRun, endRun } from '../../harness/runs.ts'
import { live } from './life.ts'
import { composeMetered } from './metered.ts'
import { compose, horizon } from './stories.ts'

/**
 * Simulates sixty subscriptions over thirty years, on test clocks of the sandbox. A tenth as many more have metered prices. Checks the
 * ledger, the orders and the billed usage each time the clocks have advanced. At the end it compares each order with the independent calculation in `biller.ts`. The
 * same seed produces the same digest; `--twice` runs the simulation twice to check that.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    subscriptions: { type: 'string', default: '60' },
    years: { type: 'string', default: '30' },
    twice: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const years = Number(values.years)
const subscriptions = Number(values.subscriptions)
/** Subscriptions with metered prices, in addition. */
const metered = Math.max(2, Math.round(subscriptions / 10))
const until = horizon - (30 - years) * 365.25 * 86_400_000

const started = performance.now()
const say = (line: string) => console.log(`${Math.round((performance.now() - started) / 1000)} s: ${line}`)
await beginRun(`years${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
const simulate = () => {
  const composed = compose({ seed, subscriptions, until })
  return live({ ...composed, metered: composeMetered(seed, metered, composed.clocks) }, say)
}
const { orders, ledger, digest, usage, problems } = await simulate()
const found = [...problems]
if (values.twice) {
  const again = await simulate()
  found.push(...again.problems)
  if (again.digest !== digest) found.push(`the same seed came to ${digest} and then to ${again.digest}`)
}
const { figures, problems: leaked } = await endRun()
found.push(...leaked)
if (years >= 2 && (usage.later_lines === '0' || usage.credited === '0')) found.push('this run shows nothing: no late usage or no credits')
for (const problem of found.slice(0, 40)) console.log(`FAIL ${problem}`)
if (found.length > 40) console.log(`FAIL and ${found.length - 40} more`)
console.log(figures)
console.log(
  `usage: ${metered} subscriptions · ${usage.events} events in periods · ${usage.billed} billed · ${usage.unbilled} listed as unbilled · ${usage.waiting} waiting · ${usage.amount} cents · ${usage.later_lines} lines of late usage · ${usage.credited} units credited`,
)
console.log(
  `years: ${years} · subscriptions: ${subscriptions} · orders: ${orders} · ledger: ${ledger} · digest ${digest} · seed ${seed} · ${Math.round((performance.now() - started) / 1000)} s`,
)
process.exitCode = found.length > 0 ? 1 : 0
