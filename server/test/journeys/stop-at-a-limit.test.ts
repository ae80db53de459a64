import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openWorld } from '../harness/world.ts'

const guide = readFileSync(new URL('../../../docs/guides/stop-at-a-limit.md', import.meta.url), 'utf8')
const [script = '', printed = '', ...others] = [...guide.matchAll(/^```\w*\n(.*?)^```$/gms)].map(([, text]) => text!)

test('stops at the limit with the code of the guide, and receives the event', async () => {
  // Each snippet of the guide runs: there is one, with its output.
  expect(others).toEqual([])
  const world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
  try {
    const { organization } = await world.shop()
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: new URL('../../', import.meta.url).pathname,
      env: { PATH: process.env.PATH, BURSAR_API: `http://127.0.0.1:${world.port}`, BURSAR_TOKEN: (await organization.token()).secret.reveal() },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let out = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number | null]
    expect([code, out]).toEqual([0, printed])
  } finally {
    await world.close()
  }
})
