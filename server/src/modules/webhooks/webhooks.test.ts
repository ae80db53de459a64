import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  contractKinds,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createMeter,
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  getWebhookReplay,
  ingestEvents,
  listEvents,
  listWebhookDeliveries,
  listWebhookEndpoints,
  redeliverWebhookEvent,
  replayWebhookEndpoint,
  resetWebhookSecret,
  revealWebhookSecret,
  updateCustomer,
  updateOrganization,
  updateWebhookEndpoint,
  usageThresholdReached,
  webhookKinds,
  type WebhookEventType,
} from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openSink, type Received, type Sink } from '../../../test/harness/sink.ts'
import { eventually, openWorld, type World } from '../../../test/harness/world.ts'
import { maintainEvents } from './events/events.ts'

let world: World
let sink: Sink
beforeAll(async () => {
  sink = await openSink()
  world = await openWorld({
    worker: true,
    settings: { BURSAR_EGRESS_LOOPBACK: 'true', BURSAR_WEBHOOK_TIMEOUT_MS: '10000', BURSAR_WEBHOOK_SCHEDULE: '0.1,0.1,0.1,0.1,0.1,0.1' },
  })
})
afterAll(async () => {
  await world.close()
  sink.close()
})

let paths = 0
/** Creates an organization with its own webhook endpoint at the test receiver. */
const hooked = async (options: { events?: WebhookEventType[]; strict?: boolean; format?: 'raw' | 'slack' | 'discord' } = {}) => {
  const shop = await world.shop()
  const path = `/hooks/${paths++}`
  const { events = [...webhookKinds], strict = false, format = 'raw' } = options
  const endpoint = await shop.api.call(createWebhookEndpoint, { body: { url: sink.url(path), format, events, strict } })
  const params = { id: endpoint.id }
  let serial = 0
  const customer = () => shop.api.call(createCustomer, { body: { email: `c${serial++}@people.test` } })
  const rename = (id: string, name: string) => shop.api.call(updateCustomer, { params: { id }, body: { name } })
  const statuses = async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ status: string; count: string }>('select status, count(*) from webhook_deliveries where endpoint_id = $1 group by 1', [endpoint.id]),
    )
    return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]))
  }
  return { ...shop, path, endpoint, params, customer, rename, statuses }
}
const nameOf = ({ body }: Received) => (JSON.parse(body) as { data: { name: string | null } }).data.name

test('delivers an event with type and data under one id, with a signature that every official client verifies [S6-01] [S6-10]', async () => {
  const { api, path, endpoint, organization } = await hooked()
  expect(endpoint.secret).toMatch(/^whsec_[0-9A-Za-z+/]{43}=$/)
  await api.call(updateOrganization, { params: { id: organization.id }, body: { name: 'Renamed' } })
  const [one] = await sink.until(path, 1)
  const { type, data, timestamp } = JSON.parse(one!.body) as { type: string; data: { id: string }; timestamp: string }
  expect([type, data.id]).toEqual(['organization.updated', organization.id])
  expect(Date.parse(timestamp)).not.toBeNaN()
  expect(new Webhook(endpoint.secret).verify(one!.body, one!.headers)).toMatchObject({ type })
  expect(await currentWebhooks.validateEvent(one!.body, one!.headers, endpoint.secret)).toMatchObject({ type })
  expect(validateEvent(one!.body, one!.headers, endpoint.secret)).toMatchObject({ type })
  expect(() => new Webhook(endpoint.secret).verify(`${one!.body} `, one!.headers)).toThrow()
  const [logged] = (await api.call(listEvents, {})).items
  expect(logged).toMatchObject({ id: one!.headers['webhook-id'], sequence: Number(one!.headers['bursar-sequence']), payload: one!.body, type })
})

test('sends a type that only Bursar has to endpoints that name it, because the older client refuses it', async () => {
  const { api, path, endpoint, customer } = await hooked({ events: [...contractKinds] })
  const url = sink.url(`${path}/named`)
  const named = await api.call(createWebhookEndpoint, { body: { url, format: 'raw', events: ['usage.threshold_reached', 'customer.updated'] } })
  const { id: meter_id } = await api.call(createMeter, {
    body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } },
  })
  const properties = { meter_id, units: 1, rollover: false }
  const { id: benefit_id } = await api.call(createBenefit, { body: { type: 'meter_credit', description: 'One call', properties } })
  const { id: customer_id } = await customer()
  await api.call(createBenefitGrant, { body: { customer_id, benefit_id } })
  await api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id }] } })
  const [event] = await sink.until(`${path}/named`, 1)
  const validate = (secret: string) => validateEvent(event!.body, event!.headers, secret)
  expect(JSON.parse(event!.body)).toMatchObject({ type: usageThresholdReached.kind, data: { customer_id, meter_id, basis: 'credits', percent: 100 } })
  expect(() => validate(named.secret)).toThrow('Unknown event type')
  // The next event of the customer is delivered to both. Deliveries of a customer are in order, so no earlier event is missing then.
  await api.call(updateCustomer, { params: { id: customer_id }, body: { name: 'Ada' } })
  await sink.until(`${path}/named`, 2)
  const kinds = () => sink.of(path).map(({ body }) => (JSON.parse(body) as { type: string }).type)
  await eventually('the other endpoint has the next event', async () => kinds().includes('customer.updated'))
  expect(kinds()).not.toContain(usageThresholdReached.kind)
  const deliveries = await api.call(listWebhookDeliveries, { query: { event_type: ['usage.threshold_reached'] } })
  expect(deliveries.items.map(({ endpoint_id }) => endpoint_id)).toEqual([named.id])
  const { rows } = await world.database.owner((owner) =>
    owner.query('select from webhook_deliveries where endpoint_id = $1 and kind = $2', [endpoint.id, usageThresholdReached.kind]),
  )
  expect(rows).toEqual([])
})

test('shows the endpoint secret only when new or revealed, seals it in the database, and also signs with the previous one during the overlap', async () => {
  const { api, path, endpoint, params, customer } = await hooked()
  for (const shown of [await api.call(getWebhookEndpoint, { params }), (await api.call(listWebhookEndpoints, {})).items[0]!])
    expect(shown.secret).toBe(`whsec_…${endpoint.secret.slice(-5)}`)
  expect((await api.call(revealWebhookSecret, { params })).secret).toBe(endpoint.secret)
  const { rows } = await world.database.owner((owner) => owner.query('select * from webhook_endpoints where id = $1', [endpoint.id]))
  expect(JSON.stringify(rows)).not.toContain(endpoint.secret.slice(6, 20))
  const fresh = await api.call(resetWebhookSecret, { params, query: { overlap: '3600' } })
  expect(fresh.secret).not.toBe(endpoint.secret)
  await customer()
  const [first] = await sink.until(path, 1)
  for (const secret of [fresh.secret, endpoint.secret]) {
    new Webhook(secret).verify(first!.body, first!.headers)
    validateEvent(first!.body, first!.headers, secret)
  }
  await api.call(resetWebhookSecret, { params, query: { overlap: '0' } })
  await customer()
  const last = (await sink.until(path, 4)).at(-1)!
  for (const secret of [fresh.secret, endpoint.secret]) expect(() => new Webhook(secret).verify(last.body, last.headers)).toThrow()
})

test('retries a failed delivery under the same id with a fresh signature until it succeeds', async () => {
  const { path, customer, endpoint, api, statuses } = await hooked({ events: ['customer.created'] })
  let failures = 3
  sink.answer(path, (answer) => void answer.writeHead(failures-- > 0 ? 503 : 200).end('busy\u0000now'))
  await customer()
  const all = await sink.until(path, 4)
  expect(new Set(all.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
  for (const one of all) new Webhook(endpoint.secret).verify(one.body, one.headers)
  await eventually('the event is delivered', async () => (await statuses()).delivered === 1)
  const { items } = await api.call(listWebhookDeliveries, { query: { endpoint_id: endpoint.id } })
  expect(items.map(({ succeeded, http_code, response }) => [succeeded, http_code, response])).toEqual([
    [true, 200, 'busynow'],
    [false, 503, 'busynow'],
    [false, 503, 'busynow'],
    [false, 503, 'busynow'],
  ])
  expect(items[0]!.webhook_event).toMatchObject({
    id: all[0]!.headers['webhook-id'],
    succeeded: true,
    last_http_code: 200,
    payload: all[0]!.body,
    skipped: false,
    is_archived: false,
  })
  const count = async (query: object) => (await api.call(listWebhookDeliveries, { query })).pagination.total_count
  expect(await count({ http_code_class: '5xx' })).toBe(3)
  expect(await count({ succeeded: 'true', event_type: 'customer.created' })).toBe(1)
  expect(await count({ event_type: 'product.created' })).toBe(0)
  // The query also filters by failure, because an id may contain these digits by chance.
  expect(await count({ query: '503', succeeded: 'false' })).toBe(3)
  expect(await count({ start_timestamp: new Date(Date.now() + 3_600_000).toISOString() })).toBe(0)
})

test('parks an event after the last attempt, and sends it again on request', async () => {
  const { path, customer, api, params, statuses } = await hooked({ events: ['customer.created'] })
  sink.answer(path, 500)
  await customer()
  const all = await sink.until(path, 7)
  await eventually('the delivery is parked', async () => (await statuses()).parked === 1)
  sink.answer(path, 200)
  const id = all[0]!.headers['webhook-id']!
  expect(await api.call(replayWebhookEndpoint, { params, body: { from_sequence: 1, dry_run: true } })).toMatchObject({ id: null, status: 'counted', total: 1 })
  expect(await api.call(redeliverWebhookEvent, { params: { id } })).toEqual({ deliveries: 1 })
  const again = (await sink.until(path, 8)).at(-1)!
  expect([again.headers['webhook-id'], again.body]).toEqual([id, all[0]!.body])
  await eventually('the event is delivered', async () => (await statuses()).delivered === 1)
  expect(await api.call(replayWebhookEndpoint, { params, body: { from_sequence: 1, dry_run: true } })).toMatchObject({ total: 0 })
})

test('treats redirects, timeouts, cut-off answers and invalid HTTP as failures, and does not read endless answers', async () => {
  const { path, customer, api, endpoint } = await hooked({ events: ['customer.created'] })
  const script = [
    (answer: ServerResponse) => void answer.writeHead(302, { location: sink.url('/elsewhere') }).end(),
    () => {},
    (answer: ServerResponse) => void answer.writeHead(200, { 'content-length': '100' }).write('cut', () => answer.destroy()),
    (_: unknown, __: unknown, request: IncomingMessage) => void request.socket.write('no http at all', () => request.socket.destroy()),
    (answer: ServerResponse) => {
      answer.writeHead(200)
      const pour = () => {
        if (!answer.destroyed) answer.write('x'.repeat(65_536), pour)
      }
      pour()
    },
  ]
  sink.answer(path, (answer, received, request) => script.shift()!(answer, received, request))
  await customer()
  await sink.until(path, 5)
  const attempts = await eventually('five delivery attempts are recorded', async () => {
    const { items } = await api.call(listWebhookDeliveries, { query: { endpoint_id: endpoint.id } })
    return items.length === 5 && items.toReversed()
  })
  expect(attempts.map(({ succeeded, http_code }) => [succeeded, http_code])).toEqual([
    [false, 302],
    [false, null],
    [false, null],
    [false, null],
    [true, 200],
  ])
  expect(attempts[1]!.response).toBe('No answer in time.')
  expect(attempts[4]!.response!.length).toBe(2048)
  expect(sink.of('/elsewhere')).toEqual([])
})

test('delays a retry until the time in the Retry-After header of the receiver', async () => {
  const { path, customer } = await hooked({ events: ['customer.created'] })
  let refused = false
  sink.answer(path, (answer) => {
    if (refused) return void answer.writeHead(200).end()
    refused = true
    answer.writeHead(429, { 'retry-after': '2' }).end()
  })
  await customer()
  const [first, second] = await sink.until(path, 2)
  expect(second!.at - first!.at).toBeGreaterThanOrEqual(1_900)
})

test('delivers events of one customer in order, without blocking another customer', async () => {
  const { path, customer, rename } = await hooked({ events: ['customer.updated'] })
  const [stuck, free] = [await customer(), await customer()]
  let failures = 3
  const { promise: freed, resolve: freeCame } = Promise.withResolvers<void>()
  sink.answer(path, (answer, { body }) => {
    if (body.includes(free.id)) freeCame()
    if (!body.includes(stuck.id) || failures-- <= 0) return void answer.writeHead(200).end()
    // The receiver answers the first of these requests only after the other customer's event has arrived.
    void (failures === 2 ? freed : Promise.resolve()).then(() => answer.writeHead(500).end())
  })
  for (const name of ['one', 'two', 'three']) await rename(stuck.id, name)
  await rename(free.id, 'free')
  const all = await sink.until(path, 7)
  const own = all.filter(({ body }) => body.includes(stuck.id)).map(nameOf)
  expect(own).toEqual(['one', 'one', 'one', 'one', 'two', 'three'])
  expect(all.findIndex(({ body }) => body.includes(free.id))).toBeLessThan(all.findLastIndex(({ body }) => body.includes(stuck.id)))
})

test('unblocks a lane after five failed attempts, unless the endpoint is strict', async () => {
  for (const strict of [false, true]) {
    const { path, customer, rename, statuses } = await hooked({ events: ['customer.updated'], strict })
    const { id } = await customer()
    sink.answer(path, (answer, received) => void answer.writeHead(nameOf(received) === 'bad' ? 500 : 200).end())
    for (const name of ['bad', 'good', 'better']) await rename(id, name)
    await eventually('one delivery is parked and two are delivered', async () => {
      const { parked = 0, delivered = 0 } = await statuses()
      return parked === 1 && delivered === 2
    })
    const names = sink.of(path).map(nameOf)
    expect(names.filter((name) => name !== 'bad')).toEqual(['good', 'better'])
    expect(names.slice(0, strict ? 7 : 5)).toEqual(Array.from({ length: strict ? 7 : 5 }, () => 'bad'))
  }
})

test('sends no more events of a kind that the endpoint unsubscribed from, and none to a deleted endpoint', async () => {
  const { api, path, params, customer, rename, statuses } = await hooked({ events: ['customer.created', 'customer.updated'] })
  sink.answer(path, 500)
  const { id } = await customer()
  await rename(id, 'waits behind')
  await sink.until(path, 2)
  await api.call(updateWebhookEndpoint, { params, body: { events: ['customer.updated'] } })
  sink.answer(path, 200)
  await eventually('the next event is delivered', async () => (await statuses()).delivered === 1)
  expect(await statuses()).toEqual({ skipped: 1, delivered: 1 })
  sink.answer(path, 500)
  // Waits for one request more than before, because the number of retries of the first event varies.
  const far = sink.of(path).length
  await rename(id, 'never')
  await sink.until(path, far + 1)
  expect((await api.send(deleteWebhookEndpoint, { params })).status).toBe(204)
  // One request may already have been sent when the endpoint is deleted.
  const before = sink.of(path).length
  await rename(id, 'never either')
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(sink.of(path).length).toBeLessThanOrEqual(before + 1)
  expect(await statuses()).toEqual({ skipped: 2, delivered: 1 })
  expect((await api.send(getWebhookEndpoint, { params })).status).toBe(404)
})

test('disables an endpoint that answers 410, keeps its events, and delivers them in order when it is enabled again', async () => {
  const { api, path, params, customer, rename, organization } = await hooked({ events: ['customer.updated'] })
  const owner = await world.database.owner((client) => client.query<{ email: string }>('select email from users where id = $1', [organization.owner]))
  const { id } = await customer()
  sink.answer(path, 410)
  await rename(id, 'one')
  expect((await world.mail.next(owner.rows[0]!.email)).text).toContain(sink.url(path))
  expect(await api.call(getWebhookEndpoint, { params })).toMatchObject({ enabled: false, paused_reason: 'gone' })
  for (const name of ['two', 'three']) await rename(id, name)
  sink.answer(path, 200)
  const before = sink.of(path).length
  expect(await api.call(updateWebhookEndpoint, { params, body: { enabled: true } })).toMatchObject({ enabled: true, paused_reason: null })
  const all = (await sink.until(path, before + 3)).slice(before)
  expect(all.map(nameOf)).toEqual(['one', 'two', 'three'])
})

test('delivers every event id exactly once to a receiver that was down for three simulated days', async () => {
  const { api, path, params, customer, rename, statuses, organization } = await hooked({ events: ['customer.created', 'customer.updated'] })
  const owner = await world.database.owner((client) => client.query<{ email: string }>('select email from users where id = $1', [organization.owner]))
  const people = await Promise.all(Array.from({ length: 5 }, customer))
  await sink.until(path, 5)
  sink.answer(path, (answer) => void answer.destroy())
  for (const { id } of people) await rename(id, 'down')
  await eventually('the endpoint is marked as failing', async () => (await api.call(getWebhookEndpoint, { params })).failing_since !== null)
  world.clock.advance(3 * 86_400_000)
  for (const { id } of people) await rename(id, 'still down')
  await world.mail.next(owner.rows[0]!.email)
  expect(await api.call(getWebhookEndpoint, { params })).toMatchObject({ enabled: false, paused_reason: 'failing' })
  for (const { id } of people) await rename(id, 'while off')
  await eventually('all 15 events are parked', async () => (await statuses()).parked === 15)
  const before = sink.of(path).length
  sink.answer(path, 200)
  await api.call(updateWebhookEndpoint, { params, body: { enabled: true } })
  const caught = (await sink.until(path, before + 15)).slice(before)
  await eventually('all 20 events are delivered', async () => (await statuses()).delivered === 20)
  expect(new Set(caught.map(({ headers }) => headers['webhook-id'])).size).toBe(15)
  for (const { id } of people) expect(caught.filter(({ body }) => body.includes(id)).map(nameOf)).toEqual(['down', 'still down', 'while off'])
  expect(caught).toHaveLength(15)
})

test('replays the requested events in order, skips events already delivered, and reports the progress', async () => {
  const { api, path, customer, rename, organization } = await hooked({ events: ['customer.created'] })
  const { id } = await customer()
  for (const name of ['one', 'two', 'three']) await rename(id, name)
  await sink.until(path, 1)
  await eventually(
    'all three events have a sequence number',
    async () => (await api.call(listEvents, { query: { type: 'customer.updated' } })).items.length === 3,
  )
  // This endpoint is created after the events, so it receives them only by a replay.
  const late = `/hooks/late-${organization.id}`
  const endpoint = await api.call(createWebhookEndpoint, { body: { url: sink.url(late), format: 'raw', events: ['customer.updated'] } })
  const params = { id: endpoint.id }
  const started = await api.call(replayWebhookEndpoint, { params, body: { from_sequence: 1 } })
  expect(started).toMatchObject({ status: 'running', total: 3, queued: 0 })
  expect((await sink.until(late, 3)).map(nameOf)).toEqual(['one', 'two', 'three'])
  const done = await eventually('the replay is done', async () => {
    const seen = await api.call(getWebhookReplay, { params: { ...params, replay_id: started.id! } })
    return seen.status === 'done' && seen
  })
  expect(done).toMatchObject({ total: 3, queued: 3 })
  const count = async (body: object) => (await api.call(replayWebhookEndpoint, { params, body: { dry_run: true, ...body } })).total
  // Both counts omit deliveries that are still being sent. So the test first waits until the results of all three are recorded.
  await eventually('all three events are delivered', async () => (await count({ from_sequence: 1, include_delivered: true })) === 3)
  expect(await count({ since: new Date(0).toISOString() })).toBe(0)
  expect(await count({ since: new Date(world.clock.wall().getTime() + 60_000).toISOString(), include_delivered: true })).toBe(0)
  const [first] = sink.of(late)
  await api.call(replayWebhookEndpoint, { params, body: { event_id: first!.headers['webhook-id']!, include_delivered: true } })
  expect((await sink.until(late, 4)).map(nameOf)).toEqual(['one', 'two', 'three', 'one'])
  for (const body of [{}, { from_sequence: 1, since: new Date(0).toISOString() }, { event_id: organization.id }])
    expect((await api.send(replayWebhookEndpoint, { params, body })).status).toBe(422)
})

test('reads the event log from any event number, filtered by kind, resource and time, and waits for new events', async () => {
  const { api, customer, rename } = await hooked({ events: [] })
  // The clock is stopped, so that the customer state event, which is due a second later, is not emitted.
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  const { id } = await customer()
  await eventually('both events have a sequence number', async () => (await api.call(listEvents, {})).items.length === 2)
  const all = await api.call(listEvents, {})
  expect(all.items.map(({ sequence, type }) => [sequence, type])).toEqual([
    [1, 'customer.created'],
    [2, 'member.created'],
  ])
  expect(all.last_sequence).toBe(2)
  const waiting = api.call(listEvents, { query: { after: '2', wait: '30' } })
  await rename(id, 'awaited')
  expect((await waiting).items.map(({ type }) => type)).toEqual(['customer.updated'])
  expect((await api.call(listEvents, { query: { after: '3' } })).items).toEqual([])
  expect((await api.call(listEvents, { query: { type: 'member.created' } })).items).toHaveLength(1)
  expect((await api.call(listEvents, { query: { resource_id: id } })).items).toHaveLength(2)
  expect((await api.call(listEvents, { query: { limit: '1' } })).last_sequence).toBe(1)
  expect((await api.call(listEvents, { query: { start_timestamp: new Date(world.clock.wall().getTime() + 60_000).toISOString() } })).items).toEqual([])
})

test('renders event data in chat messages as plain text', async () => {
  for (const format of ['slack', 'discord'] as const) {
    const { path, api } = await hooked({ events: ['customer.created'], format })
    await api.call(createCustomer, { body: { email: 'card@people.test', name: '<!channel> *bold* @here' } })
    const [one] = await sink.until(path, 1)
    const body = JSON.parse(one!.body) as { text?: string; content?: string }
    const text = body.text ?? body.content!
    expect(text).toContain('customer.created at ')
    expect(text).not.toMatch(/[<@*]/)
  }
})

test('drops the payloads of delivered events after 90 days, and keeps the event rows', async () => {
  const { api, path, customer, statuses } = await hooked({ events: ['customer.created'] })
  sink.answer(path, 200)
  await customer()
  await sink.until(path, 1)
  await eventually('the event is delivered', async () => (await statuses()).delivered === 1)
  world.clock.advance(91 * 86_400_000)
  await maintainEvents({ transact: world.transactAsWorker, platform: world.platform, db: world.api.postgres.db, gateways: {} as never })
  const { items } = await api.call(listEvents, { query: { type: 'customer.created' } })
  expect(items.map(({ payload }) => payload)).toEqual([null])
  const deliveries = await api.call(listWebhookDeliveries, {})
  expect(deliveries.items[0]!.webhook_event).toMatchObject({ is_archived: true, payload: null, succeeded: true })
  expect((await api.send(redeliverWebhookEvent, { params: { id: items[0]!.id } })).status).toBe(422)
})
