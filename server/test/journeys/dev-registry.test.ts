import { hash } from 'node:crypto'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { commands, type Leaf } from '../../src/main/command-table.ts'
import { launch } from '../harness/process.ts'

// Files by which commands could find a sandbox that this user did not start. They name this process, which runs.

let base: string
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'bursar-registry-'))
  mkdirSync(join(base, 'project/src'), { recursive: true })
  mkdirSync(join(base, 'runtime/bursar'), { recursive: true, mode: 0o700 })
  chmodSync(join(base, 'runtime'), 0o700)
})
afterEach(() => rmSync(base, { recursive: true }))

const folder = () => join(base, 'project/.scratch/dev')
const sandbox = () => ({
  folder: folder(),
  pid: process.pid,
  settings: { PATH: '/foreign', NODE_OPTIONS: '--foreign', BURSAR_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' },
  api: 'http://127.0.0.1:1',
  token: 'bursar_oat_x',
})
const write = (file: string, content: object, mode = 0o600) => {
  writeFileSync(file, JSON.stringify(content))
  chmodSync(file, mode)
}
const entryOf = (of: string) => join(base, 'runtime/bursar', `dev-${hash('sha256', of).slice(0, 32)}.json`)

/** Runs a command in a folder below the project. Without a sandbox, it says which settings are missing. */
const below = async (call: string, settings: Record<string, string> = {}) => {
  const program = launch(call.split(' '), { XDG_RUNTIME_DIR: join(base, 'runtime'), ...settings }, join(base, 'project/src'))
  await program.exited
  return program.output()
}
const finds = async (settings: Record<string, string> = {}) =>
  (await below('api GET /v1/products/', settings)).includes('there is no answer from http://127.0.0.1:1')

test('finds a sandbox that this user registered for a folder above', async () => {
  write(entryOf(folder()), sandbox())
  expect(await finds()).toBe(true)
  expect(await below(`api GET /v1/products/ --dir ${folder()}`)).toContain('there is no answer from http://127.0.0.1:1')
})

test('ignores the file of an earlier version in the folder of the project', async () => {
  mkdirSync(folder(), { recursive: true })
  write(join(folder(), 'running.json'), sandbox())
  expect(await finds()).toBe(false)
  expect(await below('doctor')).not.toContain('bursar dev in')
})

test('ignores entries that another user can write or has written, and entries of another folder', async () => {
  const entry = entryOf(folder())
  write(entry, sandbox(), 0o644)
  expect(await finds()).toBe(false)
  write(entry, sandbox())
  chmodSync(join(base, 'runtime/bursar'), 0o755)
  expect(await finds()).toBe(false)
  chmodSync(join(base, 'runtime/bursar'), 0o700)
  expect(await finds()).toBe(true)

  write(entry, { ...sandbox(), folder: join(base, 'other/.scratch/dev') })
  expect(await finds()).toBe(false)
  rmSync(entry)
  write(join(base, 'entry.json'), sandbox())
  symlinkSync(join(base, 'entry.json'), entry)
  expect(await finds()).toBe(false)
  rmSync(entry)

  write(entryOf(join(base, 'other/.scratch/dev')), { ...sandbox(), folder: join(base, 'other/.scratch/dev') })
  expect(await finds()).toBe(false)
  if (process.getuid!() !== 0) return
  write(entry, sandbox())
  chownSync(entry, 65534, 65534)
  expect(await finds()).toBe(false)
  chownSync(entry, 0, 0)
  chownSync(join(base, 'runtime/bursar'), 65534, 65534)
  expect(await finds()).toBe(false)
  // A runtime folder of another user is not used at all.
  chownSync(join(base, 'runtime'), 65534, 65534)
  mkdirSync(join(base, 'state/bursar'), { recursive: true, mode: 0o700 })
  expect(await finds({ XDG_STATE_HOME: join(base, 'state') })).toBe(false)
  write(entry.replace('/runtime/', '/state/'), sandbox())
  expect(await finds({ XDG_STATE_HOME: join(base, 'state') })).toBe(true)
})

test('takes no folder relative to the current one as the folder of entries', async () => {
  mkdirSync(join(base, 'project/src/state/bursar'), { recursive: true, mode: 0o700 })
  write(entryOf(folder()).replace('/runtime/', '/project/src/state/'), sandbox())
  expect(await finds({ XDG_RUNTIME_DIR: 'state', XDG_STATE_HOME: 'state', HOME: join(base, 'home') })).toBe(false)
})

test('uses only settings of Bursar from an entry, and none for backup, restore and payments', async () => {
  write(entryOf(folder()), sandbox())
  const probe = join(base, 'probe.mjs')
  writeFileSync(
    probe,
    `const { adoptDevSettings } = await import(${JSON.stringify(new URL('../../src/main/dev-settings.ts', import.meta.url).href)})
     adoptDevSettings('server', {})
     const { PATH, NODE_OPTIONS, BURSAR_DATABASE_URL } = process.env
     console.log(JSON.stringify({ PATH, NODE_OPTIONS, BURSAR_DATABASE_URL }))`,
  )
  const program = launch([], { XDG_RUNTIME_DIR: join(base, 'runtime') }, join(base, 'project'), probe)
  expect(await program.exited).toBe(0)
  expect(JSON.parse(program.output())).toEqual({ PATH: process.env.PATH, BURSAR_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' })

  expect(await below('payments status')).toContain('It does not use those of a running bursar dev')
  const { payments } = commands['Data of an organization:']! as unknown as { payments: { commands: Record<string, Leaf> } }
  for (const [name, { settings }] of Object.entries(payments.commands)) expect([name, settings]).toEqual([name, undefined])
  for (const call of [`backup --to ${join(base, 'backup')}`, `restore --from ${join(base, 'backup')}`])
    expect([call, await below(call)]).toEqual([call, expect.stringContaining('BURSAR_DATABASE_URL')])
  for (const call of [`backup --to x --dir ${folder()}`, `payments status --dir ${folder()}`]) expect(await below(call)).toContain('has no flag --dir')
  expect(existsSync(join(base, 'backup'))).toBe(false)
})
