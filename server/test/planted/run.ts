import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Every guard is tried: a bug is planted into a copy of the tree, and the check that it names must fail. A patch file
 * begins with three lines: what the bug is, the command that must catch it, and words that its complaint must contain,
 * so that a check which fails for another reason has caught nothing. With --third, every patch must apply and a third of
 * them is tried, another one with each commit.
 */
const root = process.cwd()
const folder = join(root, 'server/test/planted')
const third = process.argv.includes('--third')
const only = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const all = readdirSync(folder)
  .filter((name) => name.endsWith('.patch') && (only.length === 0 || only.some((part) => name.includes(part))))
  .toSorted()
const turn = third ? Number(execFileSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })) % 3 : 0
const patches = third ? all.filter((_, at) => at % 3 === turn) : all
const misfits = all.filter((name) => spawnSync('patch', ['-p1', '--dry-run', '--silent', '-i', join(folder, name)], { cwd: root }).status !== 0)
for (const name of misfits) console.log(`FAIL ${name}: the patch does not apply`)
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((name) => name !== '')

let caught = 0
for (const name of patches) {
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
    continue
  }
  const [command = '', ...args] = check.split(' ')
  const started = performance.now()
  const run = spawnSync(command, args, { cwd: copy, encoding: 'utf8', shell: false, timeout: 300_000, env: { ...process.env, CI: 'true' } })
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  const output = `${run.stdout}${run.stderr}`
  if (run.status !== 0 && run.status !== null && complaint !== '' && output.includes(complaint)) {
    caught++
    console.log(`ok   ${name.replace('.patch', '')}: ${bug} — caught in ${seconds} s by ${check}`)
  } else console.log(`FAIL ${name}: ${bug} — not caught by ${check} (exit ${run.status})\n${output.split('\n').slice(-15).join('\n')}`)
  rmSync(copy, { recursive: true, force: true })
}
console.log(`caught: ${caught}/${patches.length}${third ? ` · of ${all.length} that apply` : ''}`)
process.exitCode = caught === patches.length && misfits.length === 0 ? 0 : 1
