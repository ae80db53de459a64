import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fairStopwatch } from '../server/test/harness/fair.ts'

/**
 * Runs the quickstart of the README exactly as written: the start command and the lines of its second shell. Compares
 * their output with the README, and opens the checkout page that the sandbox prints. Only the folder and the ports
 * differ, so that a running sandbox is not disturbed.
 */
const folder = '.scratch/quickstart'
/** The time limit in milliseconds that the README promises for a local machine. */
const promised = 30_000

const section = /^## Quickstart\n(.*?)^## /ms.exec(readFileSync('README.md', 'utf8'))?.[1] ?? ''
const [start = '', second = '', printed = ''] = [...section.matchAll(/^```(?:sh|text)\n(.*?)^```$/gms)].map(([, text]) => text!)
const command = /^pnpm bursar dev[^#\n]*/m.exec(start)?.[0].trim()
if (!command || !second.includes('. .scratch/dev/env') || printed === '')
  throw new Error('README.md has no quickstart to run: expected the start command, the second shell and its output')
const lines = [start, second].join('').trim().split('\n').length
if (lines > 10) throw new Error(`the quickstart of README.md has ${lines} lines, at most 10 are allowed`)

// Removes the settings of the test run from the environment, because the server refuses to start with unknown settings.
const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => name !== 'DATABASE_URL' && !name.startsWith('BURSAR_TEST_')))
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
  console.log('quickstart: no purchase within ten minutes. Stopped.')
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
  const page = bash(`. ${folder}/env && curl -fsSL -H "sec-fetch-mode: navigate" -c ${folder}/cookies "$CHECKOUT_URL" | grep -o '<h1[^>]*>[^<]*'`)
  await page.exited
  if (!page.out().endsWith('>Field guide\n')) throw new Error(`the checkout page of the field guide has the heading: ${page.out() || 'none'}`)
  const { dashboard } = JSON.parse(sandbox.out()) as { dashboard: string }
  const answer = await fetch(dashboard, { redirect: 'manual', headers: { 'sec-fetch-mode': 'navigate', accept: 'text/html' } })
  if (!answer.headers.get('location')?.startsWith('/login?return_to=%2Fdashboard')) throw new Error(`${dashboard} does not lead to the sign-in`)
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
