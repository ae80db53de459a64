import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'

const server = new URL('../..', import.meta.url).pathname
const folder = mkdtempSync(join(tmpdir(), 'bursar-node-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Starts the program on a Node that reports another version. */
const startedBy = (version: string, program: string) => {
  const pretend = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`, program, '--version'], {
    encoding: 'utf8',
  })
  return [status, stdout, stderr]
}

test('refuses a Node that is too old with one sentence, before any other file is imported', () => {
  const program = join(server, 'bin/bursar.js')
  for (const version of ['18.20.8', '20.20.2', '22.20.0'])
    expect(startedBy(version, program)).toEqual([
      1,
      '',
      `bursar: Bursar needs Node 24 or later, and this is Node ${version}; run ./scripts/setup && . scripts/env, and run the command again.\n`,
    ])
  const { version: own } = JSON.parse(readFileSync(join(server, 'package.json'), 'utf8')) as { version: string }
  for (const version of ['24.0.0', '26.1.0']) expect(startedBy(version, program)).toEqual([0, `${own}\n`, ''])

  // The npm package has no sources, so no setup either.
  mkdirSync(join(folder, 'bin'))
  cpSync(program, join(folder, 'bin/bursar.js'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', engines: { node: '>=24' } }))
  expect(startedBy('22.20.0', join(folder, 'bin/bursar.js'))[2]).toBe(
    'bursar: Bursar needs Node 24 or later, and this is Node 22.20.0; install Node 24 from https://nodejs.org, and run the command again.\n',
  )
})

test('refuses the Node of this machine if it is too old', (context) => {
  const versions = spawnSync('/usr/bin/node', ['--version'], { encoding: 'utf8' })
  if (versions.status !== 0 || Number(versions.stdout.slice(1).split('.')[0]) >= 24) context.skip('this machine has no old Node')
  const { status, stderr } = spawnSync('/usr/bin/node', [join(server, 'bin/bursar.js'), 'dev'], { encoding: 'utf8' })
  expect([status, stderr.split('\n').length]).toEqual([1, 2])
  expect(stderr).toContain(`this is Node ${versions.stdout.trim().slice(1)}`)
})
