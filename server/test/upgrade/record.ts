import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { root } from '../harness/image.ts'
import { eventually as eventuallyWithin } from '../harness/world.ts'
import type { Recorded } from './recorded.ts'

/**
 * Records the data of a released version, for the upgrade test. Runs the sandbox of that version from its own clone, sells
 * with it over HTTP, and stores a dump of its database with the answers of its API.
 *   node server/test/upgrade/record.ts <clone of that version, after its setup> <version>
 */
const [clone, version] = process.argv.slice(2)
if (clone === undefined || version === undefined) throw new Error('usage: node server/test/upgrade/record.ts <clone> <version>')
const server = execFileSync(join(root, 'scripts/test-postgres'), [String(process.pid)], { encoding: 'utf8' }).trim()
const folder = mkdtempSync(join(tmpdir(), 'bursar-recorded-'))
const sandbox = spawn(process.execPath, ['server/src/main/cli.ts', 'dev', '--json', '--dir', folder], {
  cwd: clone,
  env: { PATH: process.env.PATH, DATABASE_URL: `${server}/recorded`, BURSAR_LISTEN: '127.0.0.1:0', BURSAR_ADMIN_LISTEN: '127.0.0.1:0' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
const ended = new Promise<void>((resolve) => void sandbox.once('close', () => resolve()))
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))
/** Waits longer than a test does, because older versions allow few requests in a minute. */
const eventually = <T>(what: string, ask: () => Promise<T | undefined | false>) => eventuallyWithin(what, ask, 300_000)
try {
  let printed = ''
  sandbox.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  await eventually('the sandbox is ready', async () => {
    if (sandbox.exitCode !== null) throw new Error(`the sandbox of ${version} ended with ${sandbox.exitCode}`)
    return printed.includes('\n')
  })
  const { api, token } = JSON.parse(printed) as { api: string; token: string }
  const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const answer = await fetch(`${api}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    const text = await answer.text()
    if (answer.status === 429) {
      await pause(Number(answer.headers.get('retry-after') ?? 10) * 1000)
      return call(method, path, body)
    }
    if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }
  type Row = { readonly id: string; readonly status: string; readonly client_secret: string }
  const post = (path: string, body: object) => call<Row>('POST', path, body)
  const list = async (path: string) => (await call<{ items: Row[] }>('GET', path)).items

  const buy = async (product: string, customer_id: string, more: object = {}, card = 'tok_visa') => {
    const checkout = await post('/v1/checkouts/', { products: [product], customer_id, ...more })
    await post(`/v1/checkouts/client/${checkout.client_secret}/confirm`, { customer_billing_address: { country: 'DE' }, confirmation_token_id: card })
    return eventually('the order is paid', async () => (await list(`/v1/orders/?checkout_id=${checkout.id}`)).find(({ status }) => status === 'paid'))
  }
  const fixed = (price_amount: number) => ({ prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount }] })
  const customer = (name: string, more: object = {}) => post('/v1/customers/', { name, email: `${name.toLowerCase()}@example.com`, ...more })
  const advance = async (clock: string, by_seconds: number) => {
    await post(`/v1/test-clocks/${clock}/advance`, { by_seconds })
    await eventually('the clock arrives', async () => {
      await pause(500)
      return (await call<Row>('GET', `/v1/test-clocks/${clock}`)).status === 'ready'
    })
  }

  const book = await post('/v1/products/', { name: 'Book', metadata: { shelf: 'b' }, ...fixed(2900) })
  const keys = await post('/v1/benefits/', {
    type: 'license_keys',
    description: 'Key',
    properties: { prefix: 'BOOK', activations: { limit: 2, enable_customer_admin: false } },
  })
  await post(`/v1/products/${book.id}/benefits`, { benefits: [keys.id] })
  const plan = await post('/v1/products/', { name: 'Plan', recurring_interval: 'month', ...fixed(1500) })
  const seats = (await list('/v1/products/?query=Team%20plan'))[0]!
  const discount = await post('/v1/discounts/', { name: 'Spring', type: 'percentage', basis_points: 2000, duration: 'once', code: 'SPRING' })

  const reader = await customer('Reader')
  const order = await buy(book.id, reader.id, { discount_id: discount.id })
  await post('/v1/refunds/', { order_id: order.id, reason: 'customer_request', amount: 300 })
  await buy(book.id, (await customer('Second')).id)

  // A subscription that has renewed three times, one whose card fails, and one that ends.
  const clock = await post('/v1/test-clocks/', { name: 'months' })
  const renewing = await customer('Renewing', { test_clock_id: clock.id })
  await buy(plan.id, renewing.id)
  const leaving = await customer('Leaving', { test_clock_id: clock.id })
  await buy(plan.id, leaving.id)
  const [left] = await list(`/v1/subscriptions/?customer_id=${leaving.id}`)
  await call('PATCH', `/v1/subscriptions/${left!.id}`, { cancel_at_period_end: true })
  for (let month = 0; month < 3; month++) await advance(clock.id, 31 * 86_400)
  await eventually(
    'the subscription renews',
    async () => (await list(`/v1/orders/?customer_id=${renewing.id}`)).filter(({ status }) => status === 'paid').length >= 3,
  )

  const team = await customer('Team', { type: 'team' })
  await buy(seats.id, team.id, { seats: 4 })
  const [held] = await list(`/v1/subscriptions/?customer_id=${team.id}`)
  for (const email of ['ada@team.example', 'grace@team.example']) await post('/v1/customer-seats', { subscription_id: held!.id, email })

  await eventually('the keys are granted', async () => (await list('/v1/license-keys/')).length === 2)
  const events = () => list('/v1/webhooks/events?limit=1').then((items) => items[0]?.id)
  await eventually('no more events are emitted', async () => {
    const before = await events()
    await pause(3000)
    return before === (await events())
  })

  const lists = [
    'products',
    'benefits',
    'discounts',
    'customers',
    'orders',
    'subscriptions',
    'refunds',
    'license-keys',
    'benefit-grants',
    'payments',
    'organizations',
  ]
  const paths = [
    // Open checkouts expire, and answers must not depend on the day of the test.
    '/v1/checkouts/?status=succeeded&limit=100',
    ...lists.map((name) => `/v1/${name}/?limit=100`),
    '/v1/members/?limit=100',
    `/v1/customer-seats?subscription_id=${held!.id}`,
    `/v1/customers/${renewing.id}/state`,
  ]
  const answers: Recorded['answers'] = {}
  for (const path of paths) answers[path] = await call('GET', path)
  sandbox.kill('SIGINT')
  await ended

  const { peppers, sealing_keys } = JSON.parse(readFileSync(join(folder, 'state.json'), 'utf8')) as { peppers: string; sealing_keys: string }
  const to = join(import.meta.dirname, version)
  mkdirSync(to, { recursive: true })
  const recorded: Recorded = { version, public_url: api, token, peppers, sealing_keys, answers }
  writeFileSync(join(to, 'recorded.json'), `${JSON.stringify(recorded, null, 1)}\n`)
  const sql = execFileSync('pg_dump', ['--format=plain', '--no-password', `${server}/recorded`], { maxBuffer: 1 << 28 })
  writeFileSync(join(to, 'database.sql.gz'), gzipSync(sql, { level: 9 }))
  console.log(`recorded ${version}: ${paths.length} answers, ${sql.length} bytes of SQL`)
} finally {
  sandbox.kill('SIGINT')
  await ended
  rmSync(folder, { recursive: true, force: true })
}
