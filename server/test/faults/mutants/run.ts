import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { copyTree, listTree } from '../../harness/tree.ts'
import { applyMutant, compactTree, isSource, mutantName, parseMutant } from './mutants.ts'

/**
 * Runs each mutant in a copy of the tree. The mutant's check must fail, and its output must contain the mutant's words.
 * `--share 8` runs an eighth of the mutants, another eighth with each commit. `pnpm check` verifies that all of them
 * still apply.
 */
const root = process.cwd()
const { values, positionals: only } = parseArgs({ options: { share: { type: 'string', default: '1' } }, allowPositionals: true })
const share = Number(values.share)
const files = listTree(root)
const all = files
  .flatMap((file) => mutantName(file) ?? [])
  .filter((name) => only.length === 0 || only.some((part) => name.includes(part)))
  .toSorted()
if (all.length === 0) throw new Error(`There is no mutant ${only.join(', ')} in server/test/faults/mutants.`)
const turn = Number(execFileSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })) % share
const chosen = all.filter((_, at) => at % share === turn)
const tree = compactTree(new Map(files.filter(isSource).map((file) => [file, readFileSync(join(root, file), 'utf8')])))

/**
 * Environment of a check. Its timeouts are short, because many bugs prevent the event that a test waits for. Its counts
 * stay at the daily level even on a slow machine. With fewer rounds, a test may miss a race.
 */
const { BURSAR_TEST_PACE: pace = '1', ...inherited } = process.env
const env = { ...inherited, CI: 'true', BURSAR_TEST_WAIT_MS: String(Math.round(45_000 / Number(pace))) }
/** Timeout of a check. A check that takes longer is killed, and has not caught its mutant. */
const longest = Math.round(300_000 / Number(pace))

/** Runs a check in a folder, and returns its exit code and output. */
const run = (command: string, args: readonly string[], cwd: string) =>
  new Promise<{ status: number | null; output: string }>((resolve) => {
    const child = spawn(command, args, { cwd, timeout: longest, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.once('error', (error) => resolve({ status: null, output: error.message }))
    child.once('close', (status) => resolve({ status, output }))
  })

const tryMutant = async (name: string): Promise<boolean> => {
  const mutant = parseMutant(name, readFileSync(join(root, 'server/test/faults/mutants', `${name}.txt`), 'utf8'))
  const { bug, check, says } = mutant
  const copy = join(root, '.scratch/mutants', name)
  rmSync(copy, { recursive: true, force: true })
  copyTree(root, copy, files)
  for (const [file, text] of applyMutant(mutant, tree)) writeFileSync(join(copy, file), text)
  const [command = '', ...args] = check.split(' ')
  const started = performance.now()
  const { status, output } = await run(command, args, copy)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  rmSync(copy, { recursive: true, force: true })
  if (status !== 0 && status !== null && output.includes(says)) {
    console.log(`ok   ${name}: ${bug} — caught in ${seconds} s by ${check}`)
    return true
  }
  console.log(`FAIL ${name}: ${bug} — not caught by ${check} (exit ${status})\n${output.split('\n').slice(-15).join('\n')}`)
  return false
}

// Runs two mutants at a time, because most checks keep one core busy.
const waiting = [...chosen]
let caught = 0
await Promise.all(
  [1, 2].map(async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) if (await tryMutant(name)) caught++
  }),
)
console.log(`caught: ${caught}/${chosen.length}${share > 1 ? ` · of ${all.length}` : ''}`)
process.exitCode = caught === chosen.length ? 0 : 1
