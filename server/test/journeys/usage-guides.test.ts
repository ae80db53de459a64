import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const folder = new URL('../../../docs/guides/', import.meta.url)
/** Printed between the blocks of a guide. */
const mark = '--- next block ---'
/** The shell function of the quickstart that the guides use. */
const field = /^field\(\) .*$/m.exec(readFileSync(new URL('../../../README.md', import.meta.url), 'utf8'))![0]

const run = async (command: string, args: readonly string[], cwd?: string) => {
  const { organization } = await world.shop()
  const env = { PATH: process.env.PATH, BURSAR_API: `http://127.0.0.1:${world.port}`, BURSAR_TOKEN: (await organization.token()).secret.reveal() }
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'], ...(cwd === undefined ? {} : { cwd }) })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, organization }
}

test.each(['usage.md', 'meters.md', 'correct-usage.md', 'usage-billing.md'])('runs the commands of %s, and prints the documented output', async (page) => {
  const blocks = [...readFileSync(new URL(page, folder), 'utf8').matchAll(/^```sh\n(.*?)^```\n\n```text\n(.*?)^```$/gms)]
  const commands = [...readFileSync(new URL(page, folder), 'utf8').matchAll(/^```sh$/gm)]
  expect(blocks.length).toBeGreaterThan(0)
  // Each command of a guide shows its output.
  expect(blocks).toHaveLength(commands.length)
  const script = [field, ...blocks.map(([, text]) => `${text}echo; echo '${mark}'`)].join('\n')
  const { code, out } = await run('bash', ['-euo', 'pipefail', '-c', script])
  const printed = out.split(`${mark}\n`).map((text) => text.trim())
  expect([code, printed.slice(0, -1)]).toEqual([0, blocks.map(([, , text]) => text!.trim())])
})

test('sends an event with the code of the usage guide for the ingestion client', async () => {
  const [, script] = /^```js\n(.*?)^```$/ms.exec(readFileSync(new URL('usage.md', folder), 'utf8'))!
  const { code, organization } = await run(process.execPath, ['--input-type=module', '--eval', script!], new URL('../../', import.meta.url).pathname)
  expect(code).toBe(0)
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ name: string }>('select name from usage_events where organization_id = $1', [organization.id]),
  )
  expect(rows).toEqual([{ name: 'image.created' }])
})
