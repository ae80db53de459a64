import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'

/**
 * Every guard is tried: a bug is planted into a copy of the tree, and the check that it names must fail. A patch file
 * begins with three lines: what the bug is, the command that must catch it, and words that its complaint must contain,
 * so that a check which fails for another reason has caught nothing. With --share 8, an
 * eighth of them is tried, another one with each commit; that all of them apply is seen by `pnpm check`.
 */
const root = process.cwd()
const folder = join(root, 'server/test/planted')
const { values, positionals: only } = parseArgs({ options: { share: { type: 'string', default: '1' } }, allowPositionals: true })
const share = Number(values.share)
const all = readdirSync(folder)
  .filter((name) => name.endsWith('.patch') && (only.length === 0 || only.some((part) => name.includes(part))))
  .toSorted()
const turn = Number(execFileSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })) % share
const patches = all.filter((_, at) => at % share === turn)
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((name) => name !== '')

/** Runs a check in a folder to its end, and tells what it said. */
const run = (command: string, args: readonly string[], cwd: string) =>
  new Promise<{ status: number | null; output: string }>((resolve) => {
    const child = spawn(command, args, { cwd, timeout: 1_800_000, env: { ...process.env, CI: 'true' }, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.once('error', (error) => resolve({ status: null, output: error.message }))
    child.once('close', (status) => resolve({ status, output }))
  })

const plant = async (name: string): Promise<boolean> => {
  const [bug = '', check = '', complaint = ''] = readFileSync(join(folder, name), 'utf8')
    .split('\n')
    .map((line) => line.replace(/^(bug|check|says): /, ''))
  const copy = join(root, '.scratch/planted', name.replace('.patch', ''))
  rmSync(copy, { recursive: true, force: true })
  for (const file of files) {
    mkdirSync(join(copy, dirname(file)), { recursive: true })
    cpSync(join(root, file), join(copy, file))
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  // Links inside point to their neighbours, so that the copy uses its own contract.
  for (const part of ['contract', 'server', 'web'])
    cpSync(join(root, part, 'node_modules'), join(copy, part, 'node_modules'), { recursive: true, verbatimSymlinks: true })
  cpSync(join(root, 'web/dist'), join(copy, 'web/dist'), { recursive: true })
  const applied = spawnSync('patch', ['-p1', '--silent', '--no-backup-if-mismatch', '-i', join(folder, name)], { cwd: copy, encoding: 'utf8' })
  if (applied.status !== 0) {
    console.log(`FAIL ${name}: the patch does not apply\n${applied.stdout}`)
    return false
  }
  const [command = '', ...args] = check.split(' ')
  const started = performance.now()
  const { status, output } = await run(command, args, copy)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  rmSync(copy, { recursive: true, force: true })
  if (status !== 0 && status !== null && complaint !== '' && output.includes(complaint)) {
    console.log(`ok   ${name.replace('.patch', '')}: ${bug} — caught in ${seconds} s by ${check}`)
    return true
  }
  console.log(`FAIL ${name}: ${bug} — not caught by ${check} (exit ${status})\n${output.split('\n').slice(-15).join('\n')}`)
  return false
}

// Two at a time, as most checks keep one core busy.
const waiting = [...patches]
let caught = 0
await Promise.all(
  [1, 2].map(async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) if (await plant(name)) caught++
  }),
)
console.log(`caught: ${caught}/${patches.length}${share > 1 ? ` · of ${all.length}` : ''}`)
process.exitCode = caught === patches.length ? 0 : 1
