import { createCustomer, createWebhookEndpoint, getWebhookEndpointHealth, listEvents, listWebhookDeliveries, updateWebhookEndpoint } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { record } from '../../../test/harness/statements.ts'
import { openSink, type Sink } from '../../../test/harness/sink.ts'
import { eventually, openWorld, type World } from '../../../test/harness/world.ts'

let world: World
let sink: Sink
beforeAll(async () => {
  sink = await openSink()
  world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true', BURSAR_WEBHOOK_SCHEDULE: '0.1,600,600' } })
})
afterAll(async () => {
  await world.close()
  sink.close()
})

const open = async () => {
  const shop = await world.shop()
  const path = `/health/${shop.organization.id}`
  const endpoint = await shop.api.call(createWebhookEndpoint, { body: { url: sink.url(path), format: 'raw', events: ['customer.created'] } })
  let serial = 0
  const customer = () => shop.api.call(createCustomer, { body: { email: `health-${serial++}@people.test` } })
  const health = (query: Record<string, string> = {}) => shop.api.call(getWebhookEndpointHealth, { params: { id: endpoint.id }, query })
  return { ...shop, path, endpoint, customer, health }
}

test('shows the status of each event, the rate of success, the latency, and the number of undelivered events', async () => {
  const { path, health, customer, api, endpoint } = await open()
  expect(await health()).toMatchObject({
    attempts: { total: 0, succeeded: 0, success_rate: null, latency_p50_ms: null, complete: true },
    days: [],
    undelivered: 0,
    oldest_undelivered_at: null,
    next_attempt_at: null,
    events: [],
    next_before: null,
  })
  const delivered = [await customer(), await customer()]
  await eventually('both are delivered', async () => (await health()).attempts.succeeded === 2)
  sink.answer(path, 500)
  const failed = await customer()
  const now = await eventually('two attempts have failed', async () => {
    const seen = await health()
    return seen.events.find(({ resource_id }) => resource_id === failed.id)?.attempts === 2 && seen
  })
  expect(now).toMatchObject({ endpoint_id: endpoint.id, undelivered: 1, attempts: { total: 4, succeeded: 2, success_rate: 0.5 } })
  expect(now.attempts.latency_p95_ms).toBeGreaterThanOrEqual(now.attempts.latency_p50_ms!)
  expect(now.days).toMatchObject([{ total: 4, succeeded: 2 }])
  expect(
    now.events.map(({ resource_id, customer_id, status, attempts, last_http_code }) => [resource_id, customer_id, status, attempts, last_http_code]),
  ).toEqual([
    [failed.id, failed.id, 'retrying', 2, 500],
    [delivered[1]!.id, delivered[1]!.id, 'delivered', 1, 200],
    [delivered[0]!.id, delivered[0]!.id, 'delivered', 1, 200],
  ])
  expect(now.next_attempt_at).toBe(now.events[0]!.next_attempt_at)
  expect(now.oldest_undelivered_at).toBe(now.events[0]!.recorded_at)
  expect((await health({ status: 'delivered' })).events).toHaveLength(2)
  const first = await health({ limit: '2' })
  const rest = await health({ limit: '2', before: String(first.next_before) })
  expect([...first.events, ...rest.events].map(({ event_id }) => event_id)).toEqual(now.events.map(({ event_id }) => event_id))
  expect(rest.next_before).toBeNull()
  await api.call(updateWebhookEndpoint, { params: { id: endpoint.id }, body: { enabled: false } })
  expect((await health()).events[0]!.status).toBe('parked')
})

test('needs the same number of statements for any history', async () => {
  const { health, customer } = await open()
  const none = await record(() => health())
  for (let at = 0; at < 5; at++) await customer()
  await eventually('all are delivered', async () => (await health()).attempts.succeeded === 5)
  const some = await record(() => health())
  expect(some.statements.filter((text) => text.includes('webhook_')).length).toBe(none.statements.filter((text) => text.includes('webhook_')).length)
})

test('finds the deliveries of an event, and the events of a customer', async () => {
  const { api, customer } = await open()
  const [one] = [await customer(), await customer()]
  const deliveries = await eventually('both are delivered', async () => {
    const { items } = await api.call(listWebhookDeliveries, {})
    return items.length === 2 && items
  })
  const { items: events } = await api.call(listEvents, { query: { customer_id: [one.id] } })
  expect(events.every(({ customer_id }) => customer_id === one.id)).toBe(true)
  const created = events.find(({ type }) => type === 'customer.created')!
  const { items } = await api.call(listWebhookDeliveries, { query: { event_id: [created.id] } })
  expect(items).toMatchObject([{ event_id: created.id, webhook_event: { id: created.id, customer_id: one.id } }])
  expect(deliveries.map(({ event_id }) => event_id)).toContain(created.id)
})

test('is closed to other organizations, roles and scopes', async () => {
  const { api, organization, endpoint } = await open()
  const ask = (by: typeof api) => by.send(getWebhookEndpointHealth, { params: { id: endpoint.id } })
  expect((await ask((await open()).api)).status).toBe(404)
  expect((await ask(world.client())).status).toBe(401)
  expect((await ask(world.client({ token: (await organization.token(['orders:read'])).secret }))).status).toBe(403)
  const person = await world.person()
  await world.join(organization.id, person.id, 'member')
  expect(await ask(world.client({ cookie: await person.cookie() }))).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  expect((await api.sendRaw(getWebhookEndpointHealth, { params: { id: endpoint.id }, query: { days: '31' } })).status).toBe(422)
})
