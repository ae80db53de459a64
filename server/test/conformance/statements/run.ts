import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { operations, type Operation } from '@bursar/contract'
import { endRun } from '../../harness/runs.ts'
import { withoutIntervals } from '../../faults/sizes/statements.ts'
import { recipeSettings } from '../../security/fuzz/recipes/recipes.ts'
import { openStage } from '../../security/fuzz/stage.ts'
import { goals, isReason, type Budget } from './budgets.ts'
import { measure, type Measured } from './measure.ts'

/**
 * Counts the statements that a valid request of every operation sends to the database, and compares the count with the
 * budget of the operation.
 *
 *   --only NAME   measures the operations whose id begins with NAME
 *   --show        prints the statements
 *   --write       lowers budgets to what was measured, and adds operations that have none. It never raises a budget
 */
const { values } = parseArgs({
  options: { only: { type: 'string' }, show: { type: 'boolean', default: false }, write: { type: 'boolean', default: false } },
})
const file = fileURLToPath(new URL('budgets.json', import.meta.url))
const budgets = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Budget>
const chosen = operations.filter(({ id }) => values.only === undefined || id.startsWith(values.only))
// Background tasks of the API would send statements of their own during a request.
const stage = await withoutIntervals(() => openStage(recipeSettings))

/** Measures an operation. If its request is refused, opens new credentials and then another tenant. */
const measureSafely = async (operation: Operation): Promise<Measured> => {
  let measured: Measured | undefined
  for (const repair of [async () => undefined, stage.tenant.renew, stage.replaceTenant]) {
    await repair()
    measured = await measure(stage, operation)
    if (measured.status < 400) break
  }
  return measured!
}

const problems: string[] = []
const over: string[] = []
for (const operation of chosen) {
  const { id } = operation
  const { status, body, statements } = await measureSafely(operation)
  if (status >= 400) problems.push(`${id}: the valid request was answered with ${status} ${body.slice(0, 200)}`)
  const now = statements.length
  const budget = budgets[id]
  if (!budget && !values.write) problems.push(`${id} has no budget. Add one with --write.`)
  const [before, most] = budget ?? [now, now]
  if (values.write && status < 400) budgets[id] = budget && now < most ? [before, now] : (budget ?? [now, now])
  if (budget && most > before && !isReason(budget[2])) problems.push(`${id}: the budget was raised without a reason`)
  const goal = goals[id]
  const missed = goal !== undefined && now > goal
  if (now > most) over.push(id)
  const notes = [now > most ? `OVER ${most}` : '', goal === undefined ? '' : missed ? `goal ${goal} missed` : `goal ${goal}`].filter((note) => note !== '')
  console.log(`${id.padEnd(62)}${String(before).padStart(4)}${String(now).padStart(4)}  ${notes.join(' · ')}`.trimEnd())
  if (values.show) for (const text of statements) console.log(`     ${text.replaceAll(/\s+/g, ' ').trim()}`)
}
if (values.only === undefined)
  for (const id of Object.keys(budgets)) if (!operations.some((operation) => operation.id === id)) problems.push(`${id} has a budget but does not exist`)
if (values.write)
  writeFileSync(
    file,
    `${JSON.stringify(Object.fromEntries(Object.entries(budgets).toSorted(([a], [b]) => (a < b ? -1 : 1))), null, 2).replaceAll(/\[\s+(\d+),\s+(\d+)\s+\]/g, '[$1, $2]')}\n`,
  )
await stage.close()
problems.push(...(await endRun()).problems)
for (const problem of problems) console.log(`FAIL ${problem}`)
console.log(`operations: ${chosen.length} · over budget: ${over.length}`)
process.exitCode = problems.length + over.length > 0 ? 1 : 0
