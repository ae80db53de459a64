import { accountLimits, createCustomer, createProduct, signOut, streamLive, webhookKinds } from '@bursar/contract'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { fairStopwatch } from '../../../../test/harness/fair.ts'
import { record } from '../../../../test/harness/statements.ts'
import { openStream, type Stream } from '../../../../test/harness/streams.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { permissionFor } from './live.api.ts'

let world: World
const streams: Stream[] = []
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close()
})
afterAll(() => world.close())

let serial = 0
/** Opens an organization with a person who follows it. */
const open = async (at: World = world) => {
  const shop = await at.shop()
  const { id } = shop.organization
  const person = await at.person()
  await at.join(id, person.id, 'finance')
  const cookie = await person.cookie()
  const follow = async (more = '', headers: Record<string, string> = {}, own = cookie) => {
    const stream = await openStream(at.port, `/v1/live?organization_id=${id}${more}`, { cookie: own, ...headers })
    streams.push(stream)
    return stream
  }
  const customer = () => shop.api.call(createCustomer, { body: { email: `live-${serial++}@people.test` } })
  return { ...shop, id, person, cookie, follow, customer }
}

test('sends a hint without data soon after each commit', async () => {
  const { follow, customer } = await open()
  const stream = await follow()
  expect(stream.status).toBe(200)
  expect(stream.headers).toMatchObject({ 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store, no-transform' })
  await stream.message('ready')
  const delays: number[] = []
  for (let round = 1; round <= 20; round++) {
    const { id } = await customer()
    const since = fairStopwatch()
    await eventually('the hint arrives', async () => stream.hints().some(({ kind, resource_id }) => kind === 'customer.created' && resource_id === id))
    delays.push(since())
  }
  const [hint] = stream.hints()
  expect(hint).toMatchObject({ kind: 'customer.created', resource: 'customer', customer_id: hint!.resource_id })
  expect(stream.text()).not.toContain('people.test')
  const p95 = delays.toSorted((one, other) => one - other)[18]!
  expect(p95).toBeLessThan(1_000)
})

test('shows a stream nothing of another organization, and is closed to people who do not belong to it', async () => {
  const ours = await open()
  const theirs = await open()
  const stream = await ours.follow()
  await stream.message('ready')
  const foreign = await theirs.customer()
  const own = await ours.customer()
  await stream.received(1)
  expect(stream.hints().map(({ resource_id }) => resource_id)).toContain(own.id)
  expect(stream.text()).not.toContain(foreign.id)
  expect((await theirs.follow('', {}, ours.cookie)).status).toBe(422)
  expect((await world.client().send(streamLive, { query: { organization_id: ours.id } })).status).toBe(401)
  expect((await ours.api.send(streamLive, { query: { organization_id: ours.id } })).status).toBe(403)
})

test('sends the missed hints after a reconnect, each once and in order', async () => {
  const { follow, customer } = await open()
  const first = await follow()
  await first.message('ready')
  await customer()
  await first.received(1)
  const last = String(first.hints().at(-1)!.sequence)
  first.close()
  for (let at = 0; at < 5; at++) await customer()
  const second = await follow('', { 'last-event-id': last })
  for (let at = 0; at < 5; at++) await customer()
  const expected = Array.from({ length: 10 }, (_, at) => Number(last) + 1 + at)
  const hints = await second.received(10)
  expect(hints.map(({ sequence }) => sequence).slice(0, 10)).toEqual(expected)
  expect(
    second.messages
      .filter(({ event }) => event === 'hint')
      .map(({ id }) => Number(id))
      .slice(0, 10),
  ).toEqual(expected)
  // A browser keeps its address. The header replaces the number in it.
  const third = await follow('&last_event_id=0&wait=0', { 'last-event-id': last })
  await third.ended()
  expect(third.hints()[0]!.sequence).toBe(Number(last) + 1)
  expect((await follow('', { 'last-event-id': 'yesterday' })).status).toBe(422)
})

test('tells the client to load everything again if too many hints were missed, or if its number is unknown', async () => {
  const { id, follow, customer } = await open()
  await customer()
  await eventually('the event has its number', async () => {
    const stream = await follow('&wait=0&last_event_id=0')
    await stream.ended()
    return stream.hints().length > 0
  })
  const unknown = await follow('&last_event_id=1000000&wait=0')
  await unknown.ended()
  expect(unknown.messages.map(({ event }) => event)).toEqual(['ready', 'reset', 'end'])
  await world.database.owner(async (owner) => {
    await owner.query(
      `insert into events (organization_id, id, sequence, kind, resource_id, api_version, business_at, wall_at)
       select $1, gen_random_uuid(), h.last_sequence + n, 'product.updated', gen_random_uuid(), '2026-04', now(), now()
       from event_heads h cross join generate_series(1, 1001) n where h.organization_id = $1`,
      [id],
    )
    await owner.query('update event_heads set last_sequence = last_sequence + 1001 where organization_id = $1', [id])
  })
  const behind = await follow('&last_event_id=1&wait=0')
  await behind.ended()
  expect(behind.hints()).toEqual([])
  expect(behind.messages.map(({ event }) => event)).toEqual(['ready', 'reset', 'end'])
  const close = await follow('&last_event_id=10&wait=0')
  await close.ended()
  expect(close.hints().length).toBeGreaterThan(900)
})

test('ends a stream when the person signs out, changes role or leaves', async () => {
  const { id, follow, person } = await open()
  const [leaving, signedOut, staying] = [await person.cookie(), await person.cookie(), await person.cookie()]
  const one = await follow('', {}, signedOut)
  await one.message('ready')
  await world.client({ cookie: signedOut }, { 'bursar-csrf': '1', origin: world.config.public_url.origin }).call(signOut, {})
  expect((await one.message('end')).data).toEqual({ reason: 'rights_changed' })
  await one.ended()
  const two = await follow('', {}, staying)
  await two.message('ready')
  await world.database.owner((owner) =>
    owner.query(`update organization_members set role = 'member' where organization_id = $1 and user_id = $2`, [id, person.id]),
  )
  expect((await two.message('end')).data).toEqual({ reason: 'rights_changed' })
  const three = await follow('', {}, leaving)
  await three.message('ready')
  await world.database.owner((owner) => owner.query('delete from organization_members where organization_id = $1 and user_id = $2', [id, person.id]))
  await three.message('end')
})

test('limits the streams of a session', async () => {
  const { follow, person } = await open()
  const cookie = await person.cookie()
  for (let at = 0; at < accountLimits.live_streams_per_session; at++) await (await follow('', {}, cookie)).message('ready')
  const refused = await follow('', {}, cookie)
  expect(refused.status).toBe(429)
  expect(refused.headers['retry-after']).toBe('5')
  expect((await follow('', {}, await person.cookie())).status).toBe(200)
  streams[0]!.close()
  await eventually('a place is free', async () => (await follow('&wait=0', {}, cookie)).status === 200)
})

test('200 idle streams cause at most five statements a second', async () => {
  const { follow, person, customer } = await open()
  const all: Stream[] = []
  for (let session = 0; session < 20; session++) {
    const cookie = await person.cookie()
    all.push(...(await Promise.all(Array.from({ length: 10 }, () => follow('', {}, cookie)))))
  }
  for (const stream of all) await stream.message('ready')
  // Measured over two checks of the rights of all readers.
  const measured = 10
  const { statements } = await record(() => new Promise((resolve) => setTimeout(resolve, measured * 1_000)))
  expect(statements.length).toBeLessThanOrEqual(5 * measured)
  expect(statements.filter((text) => text.includes('from user_sessions s')).length).toBeGreaterThan(0)
  // One read serves all of them.
  const busy = await record(async () => {
    await customer()
    for (const stream of all) await stream.received(1)
  })
  expect(busy.statements.filter((text) => text.includes('select sequence, kind, resource_id, customer_id from events')).length).toBeLessThanOrEqual(5)
})

test('streams end when the process stops, and tell why', async () => {
  const own = await openWorld()
  const { follow } = await open(own)
  const stream = await follow()
  await stream.message('ready')
  await own.close()
  expect(stream.messages.at(-1)).toMatchObject({ event: 'end', data: { reason: 'draining' } })
  expect(stream.isOver()).toBe(true)
})

test('every event type has a permission that its readers need', () => {
  for (const kind of webhookKinds) expect([kind, permissionFor(kind)]).not.toEqual([kind, undefined])
  expect(permissionFor('order.paid')).toBe('sales:read')
  expect(permissionFor('unheard.of')).toBeUndefined()
})

test('sends hints of products to people with the permission to read products', async () => {
  const { follow, api } = await open()
  const stream = await follow()
  await stream.message('ready')
  const product = await api.call(createProduct, { body: { name: 'Map', prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }] } })
  expect((await stream.received(1))[0]).toMatchObject({ kind: 'product.created', resource: 'product', resource_id: product.id, customer_id: null })
})
