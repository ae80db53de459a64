import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { randomText } from '../../src/kernel/secrets.ts'
import { asOwner, loginOf, urlOf } from '../harness/database.ts'
import { launch, portOf } from '../harness/process.ts'
import { eventually, variables } from '../harness/world.ts'
import type { Recorded } from './recorded.ts'

interface Row extends Record<string, unknown> {
  readonly id: string
  readonly status: string
  readonly client_secret: string
  readonly customer_id: string
  readonly name: string
}

const made: string[] = []
const running: ReturnType<typeof launch>[] = []
afterAll(async () => {
  for (const one of running) {
    one.child.kill('SIGKILL')
    await one.exited
  }
  for (const name of made) await asOwner('postgres', (client) => client.query(`drop database if exists ${name} with (force)`))
})

/** Returns the places where an answer lost something that the old version said, or says it differently. New fields are allowed. */
const lost = (before: unknown, after: unknown, path = ''): string[] => {
  if (Array.isArray(before)) {
    if (!Array.isArray(after) || after.length !== before.length) return [`${path}: another number of items`]
    return before.flatMap((item, at) => lost(item, after[at], `${path}[]`))
  }
  if (typeof before === 'object' && before !== null) {
    if (typeof after !== 'object' || after === null) return [path]
    return Object.entries(before).flatMap(([name, value]) => lost(value, (after as Record<string, unknown>)[name], `${path}.${name}`))
  }
  return Object.is(before, after) ? [] : [`${path}: ${JSON.stringify(before)} became ${JSON.stringify(after)}`]
}

/** Released versions whose data is stored here, each written by the code of that version. */
const recordings = globSync('*/recorded.json', { cwd: import.meta.dirname }).map((file) => {
  const folder = join(import.meta.dirname, dirname(file))
  return { folder, recorded: JSON.parse(readFileSync(join(folder, 'recorded.json'), 'utf8')) as Recorded }
})

test('has the data of at least one released version', () => {
  expect(recordings.map(({ recorded: { version } }) => version)).toContain('0.1.0')
})

test.for(recordings.map((one) => [one.recorded.version, one] as const))(
  'upgrades the data of version %s: old answers stay, all verifications pass, and old subscriptions renew',
  { timeout: 300_000 },
  async ([, { folder, recorded }]) => {
    const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_${randomText(10, 'abcdefghijklmnopqrstuvwxyz')}`
    made.push(name)
    await asOwner('postgres', (client) => client.query(`create database ${name}`))
    const restored = spawnSync('psql', ['--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', urlOf(name)], {
      input: gunzipSync(readFileSync(join(folder, 'database.sql.gz'))),
      encoding: 'utf8',
    })
    expect([restored.status, restored.stderr]).toEqual([0, ''])
    const settings = {
      ...variables({ url: loginOf(name), owner_url: urlOf(name) }, 'smtp://127.0.0.1:1'),
      BURSAR_PEPPERS: recorded.peppers,
      BURSAR_SEALING_KEYS: recorded.sealing_keys,
      BURSAR_PUBLIC_URL: recorded.public_url,
      BURSAR_EGRESS_LOOPBACK: 'true',
    }
    const run = async (...args: string[]) => {
      const program = launch(args, settings)
      running.push(program)
      return { code: await program.exited, output: program.output() }
    }

    // A process of this version does not touch the database before the upgrade.
    const refused = await run('serve')
    expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('does not match this version')])

    const backup = `${process.env.BURSAR_TEST_SCRATCH}/${name}/backup`
    const upgraded = await run('upgrade', '--to', backup)
    expect(upgraded.output).toContain('applied: ')
    expect(existsSync(join(backup, 'manifest.json'))).toBe(true)
    // No mail server answers. No worker runs yet, so work that became due since the recording waits.
    const doctor = JSON.parse((await run('doctor', '--json')).output) as { checks: { name: string; state: string }[] }
    expect(
      doctor.checks
        .filter(({ state }) => state === 'failed')
        .map(({ name: check }) => check)
        .filter((check) => check !== 'backlog'),
    ).toEqual(['mail', 'worker'])

    const start = async (role: string) => {
      const program = launch(['serve', '--roles', role], settings)
      running.push(program)
      await program.line('serving')
      return program
    }
    // Without a worker, no work that has become due since the recording changes an answer.
    const server = await start('api')
    const address = `http://127.0.0.1:${portOf(await server.line('listening'))}`
    const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
      const answer = await fetch(`${address}${path}`, {
        method,
        headers: { authorization: `Bearer ${recorded.token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
        ...(body ? { body: JSON.stringify(body) } : {}),
      })
      expect([path, answer.status < 300 || (await answer.text())]).toEqual([path, true])
      return (await answer.json()) as T
    }
    const differences: string[] = []
    for (const [path, before] of Object.entries(recorded.answers)) differences.push(...lost(before, await call('GET', path), path))
    expect([...new Set(differences)]).toEqual([])

    for (const words of [
      ['verify', 'metrics'],
      ['verify', 'usage'],
      ['audit', 'verify'],
    ]) {
      const { code, output } = await run(...words)
      expect([words, code, output]).toEqual([words, 0, expect.anything()])
    }

    const worker = await start('worker')
    // An old subscription renews at its old price, and an old product sells.
    const itemsOf = (path: string) => (recorded.answers[`/v1/${path}/?limit=100`] as { items: Row[] }).items
    const customer = itemsOf('customers').find(({ name: one }) => one === 'Renewing')!
    const orders = () => call<{ items: Row[] }>('GET', `/v1/orders/?customer_id=${customer.id}&limit=100`)
    const before = (await orders()).items
    const clocks = await call<{ items: Row[] }>('GET', '/v1/test-clocks/')
    await call('POST', `/v1/test-clocks/${clocks.items[0]!.id}/advance`, { by_seconds: 32 * 86_400 })
    const renewed = await eventually('the old subscription renews', async () => {
      const { items } = await orders()
      return items.length > before.length && items.find(({ id, status }) => status === 'paid' && !before.some((one) => one.id === id))
    })
    expect(renewed['total_amount']).toBe(before.find(({ status }) => status === 'paid')!['total_amount'])

    const book = itemsOf('products').find(({ name: one }) => one === 'Book')!
    const checkout = await call<Row>('POST', '/v1/checkouts/', { products: [book.id], customer_email: 'new@example.com' })
    await call('POST', `/v1/checkouts/client/${checkout.client_secret}/confirm`, {
      customer_billing_address: { country: 'DE' },
      confirmation_token_id: 'tok_visa',
    })
    await eventually('the old product is sold', async () => {
      const { items } = await call<{ items: Row[] }>('GET', `/v1/orders/?checkout_id=${checkout.id}`)
      return items[0]?.status === 'paid'
    })
    const again = await run('verify', 'metrics')
    expect([again.code, again.output]).toEqual([0, expect.anything()])

    for (const one of [server, worker]) {
      one.child.kill('SIGTERM')
      expect(await one.exited).toBe(0)
    }
  },
)
