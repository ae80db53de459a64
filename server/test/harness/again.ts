import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Failures } from './reporter.ts'

// Runs all tests. If tests of few files fail, it runs these files again: alone and twice. A file that passes both times
// counts as passed, and is printed as unstable with its first error. Tests wait for timers and browsers, and a machine that
// stands still for a second can make one of 3,000 fail, and with it the later steps of its file. Files of races never run
// again, because what they find once is real.
const most = 3
const repeats = 2

const folder = mkdtempSync(join(tmpdir(), 'bursar-failures-'))
const run = (files: string[], report: string, env: NodeJS.ProcessEnv = process.env) =>
  spawnSync('pnpm', ['--silent', 'exec', 'vitest', 'run', ...files], { stdio: 'inherit', env: { ...env, BURSAR_TEST_FAILURES: report } }).status === 0
/** A single file may issue no secrets. Without CI in the environment, a search for secrets with nothing to search is no failure. */
const alone: NodeJS.ProcessEnv = { ...process.env, BURSAR_TEST_WORKERS: '1' }
delete alone.CI
const read = (path: string): Failures => JSON.parse(readFileSync(path, 'utf8')) as Failures

const first = join(folder, 'first')
const clean = run(process.argv.slice(2), first)
if (clean) process.exit(0)
const { passed, failed, files, elsewhere } = read(first)
const names = Object.keys(files)
const repeatable = names.length > 0 && names.length <= most && !elsewhere && names.every((file) => !file.includes('races'))
let settled = 0
if (repeatable) {
  for (const file of names) {
    let stable = true
    for (let round = 0; stable && round < repeats; round++) stable = run([file], join(folder, 'again'), alone)
    if (stable) settled += files[file]!.length
    for (const { test, error } of files[file]!) process.stdout.write(`${stable ? 'unstable' : 'failed again'}: ${file} > ${test}\n  ${error}\n`)
  }
}
rmSync(folder, { recursive: true })
process.stdout.write(`${passed + settled} passed, ${failed - settled} failed\n`)
process.exit(repeatable && failed === settled ? 0 : 1)
