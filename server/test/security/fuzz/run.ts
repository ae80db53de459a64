import { parseArgs } from 'node:util'
import { operations } from '@bursar/contract'
import { counted } from '../../harness/pace.ts'
import { endRun } from '../../harness/runs.ts'
import { watchChanges } from './changes.ts'
import { playOperation } from './play.ts'
import { recipeSettings } from './recipes/recipes.ts'
import { openReport } from './report.ts'
import { openStage } from './stage.ts'
import { sourceOf } from './valid.ts'
import { openWire } from './wire.ts'

/**
 * Sends valid, mutated and hostile requests to every operation of the contract, with every kind of credential. Checks
 * each answer: no status of 500 or more, only declared answers, small refusals, little CPU, and no change by a refused
 * request.
 *
 *   --requests N   number of requests; 20,000 by default, fewer on a slow machine
 *   --seed N       generates other requests
 *   --only NAME    tests the operations whose id begins with NAME
 *   --request N    sends only the request with this number, for each chosen operation
 *   --part N/M     tests only every Mth operation
 *   --long         sends 1,000,000 requests
 */
const { values } = parseArgs({
  options: {
    requests: { type: 'string' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    request: { type: 'string' },
    part: { type: 'string', default: '0/1' },
    long: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const [part = 0, parts = 1] = values.part.split('/').map(Number)
const chosen = operations.filter(
  ({ id }, at) =>
    at % parts === part &&
    (values.only === undefined || id === values.only || (id.startsWith(values.only) && !operations.some((other) => other.id === values.only))),
)
const requests = Math.ceil((values.requests === undefined ? (values.long ? 1_000_000 : counted('REQUESTS', 20_000, 5000)) : Number(values.requests)) / parts)
/** Number of requests per database. A new database keeps queries and logs small. */
const perStage = 20_000

const started = performance.now()
const elapsed = () => Math.round((performance.now() - started) / 1000)
const report = openReport(seed)
const problems: string[] = []
let said = started

/** Sends requests to every chosen operation in a new database. */
const round = async (first: number, total: number): Promise<void> => {
  const stage = await openStage(recipeSettings)
  const changes = await watchChanges(stage.world)
  const wire = openWire(stage.world.port)
  const slow: (() => Promise<void>)[] = []
  try {
    for (const [at, operation] of chosen.entries()) {
      // Divides the requests evenly: the first operations get the remainder.
      const count = values.request === undefined ? Math.floor(total / chosen.length) + (at < total % chosen.length ? 1 : 0) : 1
      const source = sourceOf(operation)
      if (!source) problems.push(`there is no valid request for ${operation.id}`)
      else if (count > 0)
        await playOperation(operation, source, first, count, {
          stage,
          wire,
          changes,
          report,
          slow,
          seed,
          alone: values.request !== undefined,
        }).catch((error: unknown) => void problems.push(`${operation.id} could not be tested: ${String(error)}`))
      if (performance.now() - said > 5000) {
        said = performance.now()
        console.log(`${elapsed()} s: ${report.requests()} requests, ${operation.id}`)
      }
    }
    for (const repeat of slow) await repeat()
  } finally {
    wire.close()
    await changes.close()
    await stage.close()
    problems.push(...(await endRun()).problems)
  }
}

if (values.request !== undefined) await round(Number(values.request), chosen.length)
else {
  const perRound = Math.ceil(Math.min(requests, perStage) / chosen.length)
  for (let sent = 0; sent < requests; sent += perStage) await round(1 + (sent / perStage) * perRound, Math.min(perStage, requests - sent))
  for (const { id } of chosen) if (report.validIn(id) === 0) problems.push(`no valid request of ${id} was accepted`)
}
for (const problem of problems) console.log(`FAIL ${problem}`)
const { user, system } = process.cpuUsage()
console.log(`${elapsed()} s · ${Math.round((user + system) / 1e6)} s of CPU · seed ${seed}`)
console.log(report.summary(chosen.length))
process.exitCode = problems.length + report.total() > 0 ? 1 : 0
