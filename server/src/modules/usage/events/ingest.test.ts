import {
  createCustomer,
  createMember,
  getCustomer,
  getUsageEvent,
  ingestEvents,
  listEventTypes,
  listUsageEvents,
  updateCustomer,
  type UserEvent,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

type Shop = Awaited<ReturnType<World['shop']>>
type Api = Shop['api']

let made = 0
const customerOf = (api: Api, more: object = {}) => api.call(createCustomer, { body: { email: `customer-${++made}@people.test`, ...more } })
const listed = async (api: Api, query: object = {}) =>
  (await api.call(listUsageEvents, { query: { limit: 100, source: ['user'], ...query } })).items as unknown as UserEvent[]
/** Sends a request that must be refused. Returns the places and messages of its problems. */
const refused = async (api: Api, events: object[]) => {
  const answer = await api.sendRaw(ingestEvents, { body: { events } })
  expect(answer.status).toBe(422)
  return (answer.body as { detail: { loc: unknown[]; msg: string }[] }).detail.map(({ loc, msg }) => ({ loc: loc.join('.'), msg }))
}
/** Sends a body as text, because a number of JavaScript cannot have all its digits. */
const sendText = async (shop: Shop, body: string) => {
  const { secret } = await shop.organization.token()
  return exchange(world.port, 'POST', ingestEvents.path, { authorization: `Bearer ${secret.reveal()}`, 'content-type': 'application/json' }, body)
}

describe('ingest', () => {
  test('[S1-13] stores events of known and of unknown customers, and reads them back', async () => {
    const { api, organization } = await world.shop()
    const customer = await customerOf(api, { external_id: 'known' })
    const at = '2026-01-02T03:04:05.678Z'
    const answer = await api.call(ingestEvents, {
      body: {
        events: [
          { name: 'call', customer_id: customer.id, timestamp: at, metadata: { tokens: 12, model: 'small', free: false, ratio: 0.25 } },
          { name: 'call', external_customer_id: 'known', timestamp: '2026-01-02T03:04:06Z' },
          { name: 'upload', external_customer_id: 'unknown' },
        ],
      },
    })
    expect(answer).toEqual({ inserted: 3, duplicates: 0 })
    const [upload, second, first] = await listed(api)
    expect(first).toMatchObject({
      name: 'call',
      source: 'user',
      label: 'call',
      timestamp: at,
      organization_id: organization.id,
      customer_id: customer.id,
      customer: { id: customer.id, email: customer.email },
      external_customer_id: 'known',
      member_id: null,
      external_member_id: null,
      parent_id: null,
      child_count: 0,
      metadata: { tokens: 12, model: 'small', free: false, ratio: 0.25 },
    })
    expect(second).toMatchObject({ customer_id: customer.id, metadata: {} })
    expect(upload).toMatchObject({ name: 'upload', customer_id: null, customer: null, external_customer_id: 'unknown' })
    expect(await api.call(getUsageEvent, { params: { id: first!.id } })).toEqual(first)
    expect((await api.call(getCustomer, { params: { id: customer.id } })).first_user_event_at).toBe(at)
    expect(await api.call(ingestEvents, { body: { events: [] } })).toEqual({ inserted: 0, duplicates: 0 })
  })

  test('counts an external id once for ever, in one request, in later requests and in later months', async () => {
    const { api } = await world.shop()
    const event = (external_id: string) => ({ name: 'call', external_customer_id: 'c', external_id })
    expect(await api.call(ingestEvents, { body: { events: [event('a'), event('b'), event('a')] } })).toEqual({ inserted: 2, duplicates: 1 })
    expect(await api.call(ingestEvents, { body: { events: [event('b'), event('c')] } })).toEqual({ inserted: 1, duplicates: 1 })
    world.clock.advance(40 * 86_400_000)
    try {
      expect(await api.call(ingestEvents, { body: { events: [event('a')] } })).toEqual({ inserted: 0, duplicates: 1 })
    } finally {
      world.clock.advance(-40 * 86_400_000)
    }
    expect(await listed(api)).toHaveLength(3)
    const other = await world.shop()
    expect(await other.api.call(ingestEvents, { body: { events: [event('a')] } })).toEqual({ inserted: 1, duplicates: 0 })
  })

  test('counts each external id once when requests race', async () => {
    const { api } = await world.shop()
    const batch = (order: number) => {
      const events = Array.from({ length: 50 }, (_, at) => ({ name: 'call', external_customer_id: `c${at % 7}`, external_id: `k${at}` }))
      return { events: order % 2 === 0 ? events : events.toReversed() }
    }
    const answers = await Promise.all(Array.from({ length: 8 }, (_, order) => api.call(ingestEvents, { body: batch(order) })))
    expect(answers.reduce((sum, { inserted }) => sum + inserted, 0)).toBe(50)
    expect(answers.reduce((sum, { duplicates }) => sum + duplicates, 0)).toBe(350)
    expect(await listed(api)).toHaveLength(50)
  })

  test('stores all events or none, and names the place of each problem', async () => {
    const { api } = await world.shop()
    const { api: neighbour } = await world.shop()
    const stranger = await customerOf(neighbour)
    const good = { name: 'call', external_customer_id: 'c' }
    const later = new Date(world.clock.wall().getTime() + 3_600_000).toISOString()
    const problems = async (event: object) => (await refused(api, [good, event])).map(({ loc }) => loc)
    expect(await problems({ name: 'call', customer_id: stranger.id })).toEqual(['body.events.1.customer_id'])
    expect(await problems({ ...good, timestamp: later })).toEqual(['body.events.1.timestamp'])
    expect(await problems({ ...good, timestamp: '2026-01-01T00:00:00' })).toEqual(['body.events.1.timestamp'])
    expect(await problems({ ...good, name: 'x'.repeat(129) })).toEqual(['body.events.1.name'])
    expect(await problems({ name: 'call' })).toEqual(['body.events.1.customer_id'])
    expect(await problems({ ...good, customer_id: stranger.id })).toContain('body.events.1.customer_id')
    expect((await problems({ ...good, metadata: { list: [1] } })).every((loc) => loc.startsWith('body.events.1.metadata.list'))).toBe(true)
    expect((await problems({ ...good, metadata: { text: '' } })).every((loc) => loc.startsWith('body.events.1.metadata.text'))).toBe(true)
    for (const amount of [100_000, '1.0000000000001', 'much', -123_456])
      expect((await problems({ ...good, metadata: { _cost: { amount, currency: 'usd' } } })).at(0)).toMatch(/^body\.events\.1\.metadata\._cost\.amount/)
    expect(await problems({ ...good, metadata: { _cost: { amount: 1, currency: 'eur' } } })).toEqual(['body.events.1.metadata._cost.currency'])
    expect(await listed(api)).toEqual([])
  })

  test('rejects organization_id from an organization token, and requires it from a user', async () => {
    const { api, organization } = await world.shop()
    const event = { name: 'call', external_customer_id: 'c' }
    expect(await refused(api, [event, { ...event, organization_id: organization.id }])).toMatchObject([{ loc: 'body.events.1.organization_id' }])
    const user = await world.person()
    await world.join(organization.id, user.id, 'member')
    const other = await world.organization({ owner: user.id })
    const own = world.client({ token: (await user.token()).secret })
    expect(await refused(own, [event])).toMatchObject([{ loc: 'body.events.0.organization_id' }])
    expect(await refused(own, [{ ...event, organization_id: (await world.organization()).id }])).toMatchObject([{ loc: 'body.events.0.organization_id' }])
    const sent = [organization.id, other.id, organization.id].map((organization_id) => ({ ...event, organization_id }))
    expect(await own.call(ingestEvents, { body: { events: sent } })).toEqual({ inserted: 3, duplicates: 0 })
    expect(await listed(api)).toHaveLength(2)
    const finance = await world.person()
    await world.join(organization.id, finance.id, 'finance')
    const theirs = world.client({ token: (await finance.token()).secret })
    expect((await theirs.send(ingestEvents, { body: { events: [{ ...event, organization_id: organization.id }] } })).status).toBe(403)
    // A customer of another organization of the same user is a stranger.
    const customer = await customerOf(world.client({ token: (await other.token()).secret }))
    expect(await refused(own, [{ name: 'call', customer_id: customer.id, organization_id: organization.id }])).toMatchObject([
      { loc: 'body.events.0.customer_id' },
    ])
  })

  test('names the member, and rejects a member of another customer', async () => {
    const { api } = await world.shop()
    const team = await customerOf(api, { type: 'team', external_id: 'team' })
    const other = await customerOf(api, { type: 'team' })
    const member = await api.call(createMember, { params: { id: team.id }, body: { email: 'm@people.test', role: 'member', external_id: 'm' } })
    const foreign = await api.call(createMember, { params: { id: other.id }, body: { email: 'f@people.test', role: 'member' } })
    await api.call(ingestEvents, {
      body: {
        events: [
          { name: 'a', customer_id: team.id, member_id: member.id },
          { name: 'b', external_customer_id: 'team', external_member_id: 'm' },
          { name: 'c', external_customer_id: 'team', external_member_id: 'later' },
        ],
      },
    })
    const byName = async () => Object.fromEntries((await listed(api)).map((event) => [event.name, event]))
    const before = await byName()
    expect(before.a).toMatchObject({ member_id: member.id, external_member_id: 'm' })
    expect(before.b).toMatchObject({ member_id: member.id, external_member_id: 'm' })
    expect(before.c).toMatchObject({ member_id: null, external_member_id: 'later' })
    const late = await api.call(createMember, { params: { id: team.id }, body: { email: 'l@people.test', role: 'member', external_id: 'later' } })
    expect((await byName()).c).toMatchObject({ member_id: late.id, external_member_id: 'later' })
    expect(await refused(api, [{ name: 'd', customer_id: team.id, member_id: foreign.id }])).toMatchObject([{ loc: 'body.events.0.member_id' }])
  })

  test('links the events of an external id to the customer that is created later', async () => {
    const { api } = await world.shop()
    await api.call(ingestEvents, { body: { events: [{ name: 'call', external_customer_id: 'soon' }] } })
    expect(await listed(api)).toMatchObject([{ customer_id: null, external_customer_id: 'soon' }])
    const customer = await customerOf(api, { external_id: 'soon' })
    expect(await listed(api, { customer_id: customer.id })).toMatchObject([{ customer_id: customer.id, external_customer_id: 'soon' }])
    const plain = await customerOf(api)
    await api.call(ingestEvents, {
      body: {
        events: [
          { name: 'one', external_customer_id: 'set' },
          { name: 'two', customer_id: plain.id },
        ],
      },
    })
    await api.call(updateCustomer, { params: { id: plain.id }, body: { external_id: 'set' } })
    await api.call(ingestEvents, { body: { events: [{ name: 'three', external_customer_id: 'set' }] } })
    expect((await listed(api, { external_customer_id: 'set', sorting: 'timestamp' })).map(({ name }) => name).toSorted()).toEqual(['one', 'three', 'two'])
  })
})

describe('exact numbers', () => {
  test('keeps all digits of costs and of other numbers, from the request to the answer', async () => {
    const shop = await world.shop()
    const cost = (amount: string) => `{"name":"call","external_customer_id":"c","metadata":{"_cost":{"amount":${amount},"currency":"usd"}}}`
    const amounts = ['12345.123456789012', '"99999.999999999999"', '0.1', '1e-7', '"+007.50"', '-3', '1234.50000000000000000', '0.000000000001']
    const sent = await sendText(shop, `{"events":[${amounts.map(cost).join()}]}`)
    expect([sent.status, sent.text]).toEqual([200, '{"inserted":8,"duplicates":0}'])
    const stored = (await listed(shop.api)).map(({ metadata: { _cost: cost } }) => cost!.amount)
    expect(stored.toSorted()).toEqual(['12345.123456789012', '99999.999999999999', '0.1', '0.0000001', '7.5', '-3', '1234.5', '0.000000000001'].toSorted())
    for (const amount of ['12345.1234567890123', '123456.5', '1e5', '12345678901234567890'])
      expect([(await sendText(shop, `{"events":[${cost(amount)}]}`)).status, amount]).toEqual([422, amount])
    const exact = '{"events":[{"name":"exact","external_customer_id":"c","metadata":{"big":12345678901234567890,"fine":0.12345678901234567891,"a.b":1}}]}'
    expect((await sendText(shop, exact)).status).toBe(200)
    const { secret } = await shop.organization.token()
    const answer = await exchange(world.port, 'GET', '/v1/events/?name=exact', { authorization: `Bearer ${secret.reveal()}` })
    expect(answer.text).toContain('"big":12345678901234567890')
    expect(answer.text).toContain('"fine":0.12345678901234567891')
    expect((await sendText(shop, `{"events":[{"name":"n","external_customer_id":"c","metadata":{"x":1${'0'.repeat(80)}.5}}]}`)).status).toBe(422)
  })
})

describe('parents', () => {
  const event = (external_id: string, parent_id?: string) => ({
    name: external_id,
    external_customer_id: 'c',
    external_id,
    ...(parent_id ? { parent_id } : {}),
  })
  const send = (api: Api, ...events: object[]) => api.call(ingestEvents, { body: { events: events as never } })
  const names = (events: readonly { name: string }[]) => events.map(({ name }) => name).toSorted()

  test('finds the parent by id or external id, before and after it arrives', async () => {
    const { api } = await world.shop()
    await send(api, event('root'))
    const [root] = await listed(api)
    await send(api, event('by-id', root!.id), event('by-external', 'root'), event('late', 'unborn'), event('below-late', 'late'))
    const late = (await listed(api, { name: 'late' }))[0]!
    expect(late.parent_id).toBeNull()
    expect(names(await listed(api, { depth: 0 }))).toEqual(['late', 'root'])
    expect(await api.call(getUsageEvent, { params: { id: root!.id } })).toMatchObject({ child_count: 2 })
    await send(api, event('unborn', 'root'))
    const unborn = (await listed(api, { name: 'unborn' }))[0]!
    expect((await listed(api, { name: 'late' }))[0]!.parent_id).toBe(unborn.id)
    expect(names(await listed(api, { parent_id: root!.id }))).toEqual(['by-external', 'by-id', 'unborn'])
    expect(names(await listed(api, { parent_id: root!.id, depth: 0 }))).toEqual([])
    expect(names(await listed(api, { parent_id: root!.id, depth: 2 }))).toEqual(['by-external', 'by-id', 'late', 'unborn'])
    expect(names(await listed(api, { parent_id: root!.id, depth: 5 }))).toEqual(['below-late', 'by-external', 'by-id', 'late', 'unborn'])
    expect(names(await listed(api, { depth: 0 }))).toEqual(['root'])
    expect(names(await listed(api, { depth: 2 }))).toEqual(['by-external', 'by-id', 'late', 'root', 'unborn'])
    expect((await listed(api, { name: 'unborn' }))[0]!.child_count).toBe(1)
  })

  test('rejects cycles, in one request and over several', async () => {
    const { api } = await world.shop()
    const cycle = 'An event cannot be its own ancestor.'
    expect(await refused(api, [event('a', 'b'), event('b', 'a')])).toEqual([{ loc: 'body.events.0.parent_id', msg: cycle }])
    expect(await refused(api, [event('self', 'self')])).toEqual([{ loc: 'body.events.0.parent_id', msg: cycle }])
    await send(api, event('x', 'z'))
    await send(api, event('y', 'x'))
    expect(await refused(api, [event('z', 'y')])).toEqual([{ loc: 'body.events.0.parent_id', msg: cycle }])
    expect(names(await listed(api))).toEqual(['x', 'y'])
    await send(api, event('z'))
    expect(names(await listed(api, { depth: 1 }))).toEqual(['x', 'z'])
  })

  test('allows 100 ancestors and no more, also when the parent arrives last', async () => {
    const { api } = await world.shop()
    const chain = (from: number, to: number, prefix = 'n') =>
      Array.from({ length: to - from + 1 }, (_, at) => event(`${prefix}${from + at}`, from + at === 0 ? undefined : `${prefix}${from + at - 1}`))
    await send(api, ...chain(0, 100))
    expect((await refused(api, chain(101, 101)))[0]).toMatchObject({ loc: 'body.events.0.parent_id' })
    await send(api, ...chain(1, 99, 'm'))
    await send(api, event('m0'))
    const deepest = (await listed(api, { name: 'm99' }))[0]!
    const { rows } = await world.database.owner((owner) => owner.query('select depth from usage_events where id = $1', [deepest.id]))
    expect(rows).toEqual([{ depth: 99 }])
    await send(api, ...chain(1, 100, 'k'), event('k101', 'k100'))
    expect((await refused(api, [event('k0')]))[0]).toMatchObject({ loc: 'body.events.0.parent_id', msg: expect.stringContaining('100') as string })
  })

  test('does not find a parent of another organization, by id or by external id', async () => {
    const [one, other] = [await world.shop(), await world.shop()]
    await send(other.api, event('foreign'))
    const [foreign] = await listed(other.api)
    await send(one.api, event('by-id', foreign!.id), event('by-external', 'foreign'))
    expect((await listed(one.api)).map(({ parent_id }) => parent_id)).toEqual([null, null])
    expect((await other.api.call(getUsageEvent, { params: { id: foreign!.id } })).child_count).toBe(0)
  })

  test('links a child and its parent that arrive at the same time', async () => {
    const { api } = await world.shop()
    for (let round = 0; round < 10; round++) await Promise.all([send(api, event(`child${round}`, `parent${round}`)), send(api, event(`parent${round}`))])
    const all = await listed(api)
    expect(all.filter(({ name, parent_id }) => name.startsWith('child') && parent_id === null)).toEqual([])
    expect(names(await listed(api, { depth: 0 })).every((name) => name.startsWith('parent'))).toBe(true)
  })
})

describe('language models', () => {
  test('keeps prompts and responses apart from the metadata', async () => {
    const { api, organization } = await world.shop()
    const llm = { vendor: 'v', model: 'm', prompt: 'who is zoe?', response: 'a person', input_tokens: 1, output_tokens: 2, total_tokens: 3 }
    await api.call(ingestEvents, { body: { events: [{ name: 'llm', external_customer_id: 'c', metadata: { _llm: llm } }] } })
    expect((await listed(api))[0]!.metadata).toEqual({ _llm: llm })
    const { rows } = await world.database.owner((owner) => owner.query('select metadata from usage_events where organization_id = $1', [organization.id]))
    expect(JSON.stringify(rows)).not.toContain('zoe')
  })
})

describe('partitions', () => {
  test('stores the events of a month without a partition, and moves them when the partition is made', async () => {
    const { api, organization } = await world.shop()
    world.clock.advance(200 * 86_400_000)
    try {
      await api.call(ingestEvents, { body: { events: [{ name: 'far', external_customer_id: 'c', external_id: 'far' }] } })
      const where = async () => {
        const { rows } = await world.database.owner((owner) =>
          owner.query<{ part: string }>('select tableoid::regclass::text as part from usage_events where organization_id = $1', [organization.id]),
        )
        return rows.map(({ part }) => part)
      }
      expect(await where()).toEqual(['usage_events_default'])
      const month = world.clock.wall().toISOString().slice(0, 7).replace('-', '')
      await world.database.owner((owner) => owner.query('select ensure_usage_parts($1)', [world.clock.wall()]))
      expect(await where()).toEqual([`usage_events_${month}`])
      expect(await listed(api)).toMatchObject([{ name: 'far' }])
      expect((await api.call(listEventTypes, {})).items).toMatchObject([{ name: 'far', occurrences: 1 }])
    } finally {
      world.clock.advance(-200 * 86_400_000)
    }
  })

  test('has partitions for this month and the next one', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ name: string }>(`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'usage_events'::regclass`),
    )
    const names = rows.map(({ name }) => name)
    const now = world.clock.wall()
    for (const month of [0, 1]) {
      const first = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + month, 1))
      expect(names).toContain(`usage_events_${first.toISOString().slice(0, 7).replace('-', '')}`)
    }
  })
})
