import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

let base: string
let victim: ChildProcess
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'bursar-private-'))
  victim = spawn('sleep', ['600'])
})
afterEach(() => {
  victim.kill('SIGKILL')
  rmSync(base, { recursive: true })
})

const isRunning = () => victim.exitCode === null && victim.signalCode === null
const settings = { s3: 'BURSAR_TEST_S3_HOME', clickhouse: 'BURSAR_TEST_CLICKHOUSE_HOME' } as const
/** Runs `stop` of the script. This process must not block meanwhile: a child that has ended counts as running until it is collected. */
const stop = (script: keyof typeof settings, folder: string) =>
  new Promise<{ isRefused: boolean; stderr: string }>((resolve) =>
    execFile(`scripts/${script}`, ['stop'], { env: { PATH: process.env.PATH, [settings[script]]: folder } }, (error, _, stderr) =>
      resolve({ isRefused: error !== null, stderr }),
    ),
  )
/** Creates the folder of a test server. Its files with process ids name a process that the server never started. */
const pretend = (mode: number): string => {
  const folder = join(base, 'server')
  mkdirSync(join(folder, 'run'), { recursive: true })
  for (const file of ['pid', 'run/mon.a.pid']) writeFileSync(join(folder, file), `${victim.pid}\n`)
  chmodSync(folder, mode)
  return folder
}

test.each(['s3', 'clickhouse'] as const)('scripts/%s ends the processes of its own folder, and of no folder that others can write', async (script) => {
  for (const mode of [0o777, 0o775]) {
    const folder = pretend(mode)
    const linked = join(base, 'linked')
    symlinkSync(folder, linked)
    for (const path of [folder, linked]) {
      const stderr = `${script}: ${path} is a symbolic link, belongs to another user, or can be written by others. Delete it, and try again\n`
      expect(await stop(script, path)).toEqual({ isRefused: true, stderr })
      expect(existsSync(join(folder, 'pid'))).toBe(true)
    }
    expect(isRunning()).toBe(true)
    rmSync(linked)
  }
  const ended = once(victim, 'exit')
  expect(await stop(script, pretend(0o700))).toEqual({ isRefused: false, stderr: '' })
  await ended
  expect(existsSync(join(base, 'server'))).toBe(false)
})

test('accepts paths of this user, of root and of the user of the server, and refuses links and paths of others', (context) => {
  if (process.getuid!() !== 0) context.skip()
  const path = join(base, 'file')
  const check = (...args: string[]) => spawnSync('bash', ['-c', '. scripts/private; require_private "$@"', 'test', path, ...args]).status
  expect(check()).toBe(0)
  writeFileSync(path, '')
  expect(check()).toBe(0)
  chownSync(path, 65534, 65534)
  expect([check(), check('nobody'), check('root')]).toEqual([1, 0, 1])
  rmSync(path)
  symlinkSync(join(base, 'missing'), path)
  expect([check(), check('nobody')]).toEqual([1, 1])
})
