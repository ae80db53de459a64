import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openWorld } from '../harness/world.ts'

const guide = readFileSync(new URL('../../../docs/guides/clocks.md', import.meta.url), 'utf8')
const [script = '', printed = ''] = [...guide.matchAll(/^```(?:sh|text)\n(.*?)^```$/gms)].map(([, text]) => text!)

test('runs the commands of the test clock guide with a worker, and prints the documented output', async () => {
  const world = await openWorld({ worker: true })
  try {
    const { organization } = await world.shop()
    const env = { ...process.env, BURSAR_API: `http://127.0.0.1:${world.port}`, BURSAR_TOKEN: (await organization.token()).secret.reveal() }
    const [first = '', ...lines] = script.split('\n')
    expect(first).toContain('. .scratch/dev/env')
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', lines.join('\n')], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    let out = ''
    shell.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    const [code] = (await once(shell, 'close')) as [number | null]
    expect([code, out]).toEqual([0, printed])
  } finally {
    await world.close()
  }
})
