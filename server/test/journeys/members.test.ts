import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { golden, importBundle } from '../harness/golden.ts'
import { launch } from '../harness/process.ts'
import { openWorld, type World } from '../harness/world.ts'

let world: World
let home: string
beforeAll(async () => {
  world = await openWorld({ worker: true })
  home = mkdtempSync(join(tmpdir(), 'bursar-members-'))
})
afterAll(async () => {
  await world.close()
  rmSync(home, { recursive: true })
})

test('runs the dry run, phase 1, the id map, the switch and the undo of the member migration by CLI commands [S3-01]', { timeout: 240_000 }, async () => {
  const { organization } = await importBundle(world, golden({ size: 0.1 }))
  const token = (await organization.token()).secret.reveal()
  const run = async (...args: string[]) => {
    const program = launch(['members', ...args], { BURSAR_API: `http://127.0.0.1:${world.port}`, BURSAR_TOKEN: token }, home)
    return { code: await program.exited, output: program.output() }
  }
  expect(await run('status')).toMatchObject({ code: 0, output: expect.stringMatching(/^before: each seat holder is a separate customer/) })
  expect(await run('rehearse')).toMatchObject({ code: 0, output: expect.stringMatching(/^ +\d+ {2}customers get an owner[^]*Nothing was changed/) })
  expect((await run('rehearse', '--out', join(home, 'plan.csv'))).code).toBe(0)
  expect(readFileSync(join(home, 'plan.csv'), 'utf8')).toMatch(/^What,ID,Member ID,/)
  expect(await run('switch')).toMatchObject({ code: 2, output: expect.stringContaining('Confirm with --yes') })
  expect(await run('switch', '--yes')).toMatchObject({ code: 1, output: expect.stringContaining('This step needs the state "phase1"') })
  expect(await run('prepare')).toMatchObject({ code: 0, output: expect.stringMatching(/^phase1: every seat/) })
  expect(await run('status')).toMatchObject({ code: 0, output: expect.stringContaining('integrations: all are ready') })
  expect((await run('map', '--out', join(home, 'map.csv'))).code).toBe(0)
  expect(readFileSync(join(home, 'map.csv'), 'utf8').split('\r\n').length).toBeGreaterThan(3)
  expect(await run('switch', '--yes')).toMatchObject({ code: 0, output: expect.stringMatching(/^phase2: [^]*sealed automatically at: /) })
  expect(await run('undo', '--yes')).toMatchObject({ code: 0, output: expect.stringMatching(/^phase1: /) })
  expect(await run('undo', '--yes')).toMatchObject({ code: 0, output: expect.stringMatching(/^before: /) })
  expect(await run('dance')).toMatchObject({ code: 2, output: expect.stringContaining('takes status, rehearse') })
})
