import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fairStopwatch } from '../server/test/harness/fair.ts'

/**
 * Runs the quickstart of the README, as it stands there: its command to start, the lines of its second shell, and what
 * these are said to print. Only the folder and the ports are others, so that a sandbox in use is left alone.
 */
const folder = '.scratch/quickstart'
/** What the README promises, on a machine of one's own. */
const promised = 30_000

const section = /^## Quickstart\n(.*?)^## /ms.exec(readFileSync('README.md', 'utf8'))?.[1] ?? ''
const [start = '', second = '', printed = '', browser = '', shown = ''] = [...section.matchAll(/^```(?:sh|text)\n(.*?)^```$/gms)].map(([, text]) => text!)
const command = /^pnpm bursar dev[^#\n]*/m.exec(start)?.[0].trim()
if (!command || !second.includes('. .scratch/dev/env') || printed === '') throw new Error('the README has no quickstart to run')

const { DATABASE_URL: _, ...inherited } = process.env
const env = { ...inherited, BURSAR_LISTEN: '127.0.0.1:0', BURSAR_ADMIN_LISTEN: '127.0.0.1:0' }
const clock = () => `${(performance.now() / 1000).toFixed(1).padStart(5)} s `

const bash = (script: string) => {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  return { child, out: () => out, exited: once(child, 'close').then(([code]) => code as number | null) }
}

const elapsed = fairStopwatch()
const sandbox = bash(`exec ${command} --json --dir ${folder}`)
const late = setTimeout(() => {
  console.log('quickstart: nothing comes of it')
  process.exitCode = 1
  sandbox.child.kill('SIGINT')
}, 600_000)
try {
  console.log(`${clock()} ${command}`)
  await new Promise<void>((resolve, reject) => {
    sandbox.child.stdout.on('data', () => {
      if (sandbox.out().includes('\n')) resolve()
    })
    void sandbox.exited.then((code) => reject(new Error(`dev ended with ${code}`)))
  })
  console.log(`${clock()} ready`)
  const shell = bash(second.replaceAll('.scratch/dev', folder))
  const code = await Promise.race([shell.exited, sandbox.exited])
  process.stdout.write(shell.out())
  if (code !== 0) throw new Error(`the second shell ended with ${code}; the log is in ${folder}/server.log`)
  if (shell.out() !== printed) throw new Error(`the README says that it prints:\n${printed}`)
  const page = bash(browser.replaceAll('.scratch/dev', folder))
  await page.exited
  if (shown === '' || page.out() !== shown) throw new Error(`the page says:\n${page.out()}and the README:\n${shown}`)
  if (elapsed() > promised) throw new Error(`not done within ${promised / 1000} s`)
  console.log(`quickstart: a paid order and its webhook after ${clock().trim()}`)
} catch (error) {
  console.log(`quickstart: ${(error as Error).message}`)
  process.exitCode = 1
} finally {
  clearTimeout(late)
  sandbox.child.kill('SIGINT')
  await sandbox.exited
}
