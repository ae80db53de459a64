import { confirmClientCheckout, createCheckout, createProduct, receiveProcessorEvent } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { openTestProcessor, type TestProcessor } from '../../../gateways/payments/test/processor.ts'
import { newId } from '../../../kernel/ids.ts'
import { findAccountAnywhere, openAccount } from './attempts.sql.ts'

let world: World
let processor: TestProcessor
beforeAll(async () => {
  world = await openWorld({
    settings: {
      BURSAR_TRUSTED_PROXIES: '127.0.0.1',
      BURSAR_BUDGETS: JSON.stringify({ api: [[40, 60]], received_events: [[30, 60]], refused_events: [[5, 60]], processor_events: [[20, 60]] }),
    },
  })
  processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
})
afterAll(async () => {
  await processor.close()
  await world.close()
})

/** Creates a seller whose account has an event to send, and returns the event and its endpoint path. */
const open = async () => {
  const { api, organization } = await world.shop()
  const price = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
  const { id: product_id } = await api.call(createProduct, { body: { name: 'Guide', prices: [price] } })
  const { client_secret } = await api.call(createCheckout, { body: { products: [product_id] } })
  await world.client({}, { 'x-forwarded-for': '198.51.100.250' }).call(confirmClientCheckout, {
    params: { client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string }>('select id from payment_accounts where organization_id = $1', [organization.id]),
  )
  const row = (await findAccountAnywhere(world.api.postgres.db, rows[0]!.id))!
  const account = processor.account(row.id, openAccount(world.platform.sealer, row).secret)
  const [event] = await account.takeCallbacks(1)
  return { event: event!, path: `/v1/payment-accounts/${organization.id}/${row.id}/events` }
}
const post = (path: string, headers: Readonly<Record<string, string>>, body: string, from: string) =>
  exchange(world.port, receiveProcessorEvent.method, path, { ...headers, 'x-forwarded-for': from }, body)
const json = { 'content-type': 'application/json' }

test('gives verified events their own rate limit, which neither the IP address nor unsigned events use up', async () => {
  const { event, path } = await open()
  const from = '203.0.113.5'
  // The IP address has used up its own rate limit and the one for unverifiable events.
  const others = await Promise.all(Array.from({ length: 45 }, () => exchange(world.port, 'GET', '/v1/organizations/', { 'x-forwarded-for': from })))
  expect(others.filter(({ status }) => status === 429).length).toBe(5)
  for (let at = 0; at < 8; at++) await post(path, json, '{"id":"rubbish"}', from)
  const statuses = []
  for (let at = 0; at < 20; at++) statuses.push((await post(path, event.headers, event.body, from)).status)
  expect(statuses).toEqual(Array.from({ length: 20 }, () => 200))
  // The limit counts per account, regardless of the IP address that the processor calls from.
  expect((await post(path, event.headers, event.body, '203.0.113.6')).status).toBe(429)
})

test('does not count verified events against the rate limit of the IP address', async () => {
  const { event, path } = await open()
  const from = '203.0.113.15'
  for (let at = 0; at < 15; at++) expect((await post(path, event.headers, event.body, from)).status).toBe(200)
  const others = await Promise.all(Array.from({ length: 42 }, () => exchange(world.port, 'GET', '/v1/organizations/', { 'x-forwarded-for': from })))
  expect(others.filter(({ status }) => status === 429).length).toBe(2)
})

test('limits events that cannot be verified or have no account by IP address', async () => {
  const { event, path } = await open()
  const from = '203.0.113.25'
  const nowhere = path.replace(/[^/]+\/events$/, `${newId(world.clock.wall())}/events`)
  const tries = [
    () => post(path, json, '{"id":"rubbish"}', from),
    () => post(path, { ...event.headers, 'test-processor-signature': 'wrong' }, `${event.body} `, from),
    () => post(nowhere, event.headers, event.body, from),
    () => post(`${path.split('/').slice(0, 3).join('/')}/x/y/events`, json, '{}', from),
    () => post(path, json, '{"id":"rubbish"}', from),
    () => post(path, json, '{"id":"rubbish"}', from),
    () => post(nowhere, json, '{}', from),
  ]
  const answers = []
  for (const attempt of tries) answers.push(await attempt())
  expect(answers.map(({ status }) => status)).toEqual([403, 403, 404, 422, 403, 429, 429])
  expect(Number(answers.at(-1)!.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await post(path, json, '{"id":"rubbish"}', '203.0.113.26')).status).toBe(403)
})

test('limits all events from an IP address before their body is read', async () => {
  const { event, path } = await open()
  const from = '203.0.113.35'
  for (let at = 0; at < 30; at++) await post(path, json, '{"id":"rubbish"}', from)
  // An invalid body would be answered with 400 if it were read.
  for (const [headers, body] of [
    [json, 'unreadable'],
    [event.headers, event.body],
  ] as const) {
    const refused = await post(path, headers, body, from)
    expect([refused.status, refused.headers.get('ratelimit-policy')]).toEqual([429, '"received_events";q=30;w=60'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  }
  expect((await post(path, event.headers, event.body, '203.0.113.36')).status).toBe(200)
})
