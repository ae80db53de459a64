import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, globSync, lstatSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPackages, embeddedPackages } from './build.ts'

/**
 * Builds and packs the packages for npm. With `--try`, installs them in an empty folder, and goes from there to a paid
 * order and its webhook with the commands of the README. Prints seconds, CPU seconds and megabytes.
 */
const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(1)} MB`
const packed = buildPackages()
for (const { name, size, unpackedSize, files } of packed)
  console.log(`${name}: ${megabytes(size)} packed, ${megabytes(unpackedSize)} with ${files.length} files`)
if (!process.argv.includes('--try')) process.exit()

/** CPU seconds of all ended processes that this one has started. */
const cpuOfChildren = (): number => {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[13]) + Number(fields[14])) / 100
}

const folder = mkdtempSync(join(tmpdir(), 'packed-bursar-'))
// The database server runs as another user if this process is root, and reads its program from this folder.
chmodSync(folder, 0o755)
const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => name !== 'DATABASE_URL' && !name.startsWith('BURSAR_')))
const env = { ...inherited, BURSAR_LISTEN: '127.0.0.1:0', BURSAR_ADMIN_LISTEN: '127.0.0.1:0' }

const bash = (script: string) => {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', script], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  // A terminal signals all processes of a command. npx does not pass a signal on.
  const interrupt = () => child.pid !== undefined && process.kill(-child.pid, 'SIGINT')
  return { child, out: () => out, interrupt, exited: once(child, 'close').then(([code]) => code as number | null) }
}
const must = async (what: string, script: string): Promise<string> => {
  const shell = bash(script)
  if ((await shell.exited) !== 0) throw new Error(`${what} failed:\n${shell.out()}`)
  return shell.out()
}
const said: string[] = []
const measured = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
  const [began, cpu] = [performance.now(), cpuOfChildren()]
  const result = await work()
  said.push(`${what} ${((performance.now() - began) / 1000).toFixed(1)} s, ${(cpuOfChildren() - cpu).toFixed(1)} s of CPU`)
  return result
}

try {
  await measured('install', () => must('npm install', `npm install --no-audit --no-fund --loglevel=error ${packed.map(({ file }) => file).join(' ')}`))
  const files = globSync('node_modules/**', { cwd: folder }).map((name) => lstatSync(join(folder, name)))
  said.push(`installed ${megabytes(files.reduce((sum, one) => sum + (one.isFile() ? one.size : 0), 0))}`)

  await measured('start, paid order and webhook', async () => {
    const sandbox = bash('exec npx bursar dev --json --dir sandbox')
    try {
      await new Promise<void>((resolve, reject) => {
        sandbox.child.stdout.on('data', () => {
          if (sandbox.out().includes('\n')) resolve()
        })
        void sandbox.exited.then((code) => reject(new Error(`bursar dev ended with ${code}`)))
      })
      const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
      const [, second, printed] = [...(/^## Quickstart\n(.*?)^## /ms.exec(readme)?.[1] ?? '').matchAll(/^```(?:sh|text)\n(.*?)^```$/gms)].map(
        ([, text]) => text!,
      )
      const out = await must('the second shell', second!.replace('. scripts/env && . .scratch/dev/env', '. sandbox/env'))
      if (out !== printed) throw new Error(`the commands of the README printed:\n${out}instead of:\n${printed}`)
      const page = await must('the dashboard', `. sandbox/env && curl -fsSL -o /dev/null -w '%{http_code}' "$BURSAR_API/dashboard/"`)
      if (page !== '200') throw new Error(`the dashboard answered with ${page}`)
    } finally {
      sandbox.interrupt()
      await sandbox.exited
    }
  })

  // The typed client, as an application in TypeScript sees it.
  copyFileSync(join(import.meta.dirname, '../../contract/scripts/typed-client.ts'), join(folder, 'typed-client.ts'))
  await measured('types of the client', () =>
    must(
      'tsc',
      `${join(import.meta.dirname, '../../node_modules/.bin/tsc')} --noEmit --strict --skipLibCheck --module nodenext --target es2025 --types node --typeRoots ${join(import.meta.dirname, '../../node_modules/@types')} typed-client.ts`,
    ),
  )
  // The packages of other platforms cannot run on this machine. The registry must have each of them, for the platform in its name.
  for (const { platform, spec } of embeddedPackages) {
    const { os, cpu } = JSON.parse(await must(spec, `npm view --json --loglevel=error ${spec} os cpu`)) as { os: string | string[]; cpu: string | string[] }
    if (`${String(os)}-${String(cpu)}` !== platform) throw new Error(`${spec} is for ${String(os)}-${String(cpu)}`)
  }
  console.log(said.join(' · '))
  console.log('packages: a paid order and its webhook from an empty folder')
} catch (error) {
  console.log(`packages: ${(error as Error).message}\n${said.join(' · ')}`)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
