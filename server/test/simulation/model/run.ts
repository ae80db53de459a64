import { parseArgs } from 'node:util'
import { randomText } from '../../../src/kernel/secrets.ts'
import { beginRun, endRun } from '../../harness/runs.ts'
import { generate, wordsOf } from './generator.ts'
import { openReport } from './report.ts'
import { play, shrink } from './play.ts'
import { openStage } from './stage.ts'

/**
 * Plays random sequences of purchases, changes, refunds, disputes and renewals through both APIs, on test clocks. After
 * every step it checks the invariants of `checker.ts`, with its own record of prorations and its own price table.
 *
 *   --sequences N   number of sequences; 200 by default
 *   --seed N        generates other sequences
 *   --sequence N    plays only the sequence with this number
 *   --long          plays 100,000 sequences
 */
const { values } = parseArgs({
  options: {
    sequences: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    sequence: { type: 'string' },
    long: { type: 'boolean', default: false },
    lanes: { type: 'string', default: '6' },
  },
})
const seed = Number(values.seed)
const first = values.sequence === undefined ? 1 : Number(values.sequence)
const count = values.sequence !== undefined ? 1 : values.long ? 100_000 : Number(values.sequences)
/** Number of sequences per database. A new database keeps queries and logs small. */
const perStage = 500
/** Number of failures that are printed in full. */
const printed = 6

const started = performance.now()
const report = openReport()
const problems: string[] = []
let violations = 0

for (let from = first; from < first + count; from += perStage) {
  await beginRun(`model${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
  const stage = await openStage()
  try {
    const numbers = Array.from({ length: Math.min(perStage, first + count - from) }, (_, at) => from + at)
    const lane = async (): Promise<void> => {
      const shop = await stage.openLane()
      for (let number = numbers.shift(); number !== undefined; number = numbers.shift()) {
        const sequence = generate(seed, number)
        const played = await play(shop, sequence, `s${number}`)
        report.add(played)
        if (!played.violation) continue
        const known = report.found(played.violation)
        violations++
        const shortest = known <= 2 ? await shrink(shop, sequence, played, `s${number}`) : { ...played, steps: sequence.steps.slice(0, played.done.length) }
        if (violations > printed && known > 2) continue
        console.log(`FAIL sequence ${number} of seed ${seed}: ${shortest.violation!.text}`)
        console.log(`     customer in ${sequence.place}, the organization's default is ${sequence.behavior}`)
        shortest.steps.forEach((step, at) => console.log(`     ${at + 1}. ${wordsOf(step)}${shortest.done[at] ? ` – ${shortest.done[at]}` : ''}`))
        console.log(`     again: pnpm model --seed ${seed} --sequence ${number}`)
      }
    }
    await Promise.all(Array.from({ length: Math.min(Number(values.lanes), numbers.length) }, lane))
  } finally {
    await stage.close()
    problems.push(...(await endRun()).problems)
  }
  if (count > perStage) console.log(`${Math.round((performance.now() - started) / 1000)} s: ${from + perStage - first} sequences`)
}
console.log(report.table())
if (count >= 100) problems.push(...report.neverAccepted().map((kind) => `no step of this kind was ever accepted: ${kind}`))
for (const problem of problems) console.log(`FAIL ${problem}`)
const { user, system } = process.cpuUsage()
console.log(`${report.steps()} steps · ${Math.round((performance.now() - started) / 1000)} s · ${Math.round((user + system) / 1e6)} s of CPU · seed ${seed}`)
console.log(`sequences: ${count} · violations: ${violations}`)
process.exitCode = violations > 0 || problems.length > 0 ? 1 : 0
