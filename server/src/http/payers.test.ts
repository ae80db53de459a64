import { createCustomer, createCustomerSession, getPortalCustomer, listOrganizations } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openApp, openGrant, openPerson } from '../../test/harness/visitor.ts'
import { exchange, openClock, openWorld, type World } from '../../test/harness/world.ts'

/** The default rate limits. Client addresses are forwarded, so that each test can use its own. */
const asShipped = { BURSAR_BUDGETS: '', BURSAR_TRUSTED_PROXIES: '127.0.0.1' }
const limitedTo = (limit: number, seconds = 60) => ({
  BURSAR_BUDGETS: JSON.stringify({ api: [[limit, seconds]], registration: [[100, 60]], failed_authentications: [[1000, 60]] }),
  BURSAR_TRUSTED_PROXIES: '127.0.0.1',
})

const get = async (world: World, path: string, token: string, headers: Record<string, string> = {}) =>
  exchange(world.port, 'GET', path, { authorization: `Bearer ${token}`, 'x-forwarded-for': '203.0.113.1', ...headers })
const statusesOf = async (count: number, ask: (at: number) => Promise<{ status: number }>) =>
  (await Promise.all(Array.from({ length: count }, (_, at) => ask(at)))).map(({ status }) => status)
const granted = (statuses: readonly number[]) => statuses.filter((status) => status === 200).length

describe.each([
  ['production', 500],
  ['sandbox', 100],
] as const)('in %s', (environment, limit) => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ environment, settings: asShipped })
  })
  afterAll(() => world.close())

  test(`limits a customer to ${limit} requests in any minute over all its sessions [S8-06, S8-07]`, async () => {
    const { api } = await world.shop()
    const sessionOf = async (email: string) => {
      const { id } = await api.call(createCustomer, { body: { email } })
      return async () => (await api.call(createCustomerSession, { body: { customer_id: id } })).token
    }
    const [own, others] = [await sessionOf('payer@people.test'), await sessionOf('neighbour@people.test')]
    const tokens = [await own(), await own()]
    const neighbour = await others()
    const ask = (token: string) => get(world, getPortalCustomer.path, token)
    const statuses = await statusesOf(limit + 10, (at) => ask(tokens[at % 2]!))
    expect(granted(statuses)).toBe(limit)
    expect(statuses.filter((status) => status === 429)).toHaveLength(10)
    expect((await ask(tokens[0]!)).headers.get('retry-after')).toMatch(/^\d+$/)
    expect((await ask(neighbour)).status).toBe(200)
  })

  test(`limits an OAuth client to ${limit} requests in any minute over all its tokens [S8-06, S8-07]`, async () => {
    const [one, two] = [await world.person(), await world.person()]
    const app = await openGrant(world, one.id, null)
    const other = await openGrant(world, two.id, null)
    const tokens = [(await app(['organizations:read'])).reveal(), (await app(['organizations:read'])).reveal()]
    const statuses = await statusesOf(limit + 10, (at) => get(world, listOrganizations.path, tokens[at % 2]!))
    expect(granted(statuses)).toBe(limit)
    expect(statuses.filter((status) => status === 429)).toHaveLength(10)
    expect((await get(world, listOrganizations.path, (await other(['organizations:read'])).reveal())).status).toBe(200)
  })
})

describe('rate limit of a personal token', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ settings: limitedTo(5) })
  })
  afterAll(() => world.close())
  const path = listOrganizations.path

  test('charges requests with a personal token to the only organization of its user', async () => {
    const person = await world.person()
    const organization = await world.organization({ owner: person.id })
    const own = (await person.token()).secret.reveal()
    expect(granted(await statusesOf(8, () => get(world, path, own)))).toBe(5)
    expect((await get(world, path, (await organization.token()).secret.reveal())).status).toBe(429)
  })

  test('charges a personal token to the organization that the request names if the user has several, else to the user', async () => {
    const person = await world.person()
    const [here, there] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
    const own = (await person.token()).secret.reveal()
    const ofHere = (await here.token()).secret.reveal()
    const ofThere = (await there.token()).secret.reveal()
    expect(granted(await statusesOf(8, () => get(world, path, own, { 'bursar-organization': here.id })))).toBe(5)
    expect((await get(world, path, ofHere)).status).toBe(429)
    expect(granted(await statusesOf(4, () => get(world, `/v1/products/?organization_id=${there.id}`, own)))).toBe(4)
    expect((await get(world, path, ofThere)).status).toBe(200)
    expect((await get(world, path, ofThere)).status).toBe(429)
    expect(granted(await statusesOf(8, () => get(world, path, own)))).toBe(5)
  })

  test('charges a personal token to the organization in the path of the operation', async () => {
    const person = await world.person()
    const [here, there] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
    const own = (await person.token()).secret.reveal()
    const paths = [`/v1/organizations/${here.id.toUpperCase()}`, `/v1/organizations/${here.id}/members`]
    expect(granted(await statusesOf(8, (at) => get(world, paths[at % 2]!, own)))).toBe(5)
    expect((await get(world, path, (await here.token()).secret.reveal())).status).toBe(429)
    // The requests above were charged neither to the user nor to the other organization.
    expect(granted(await statusesOf(8, () => get(world, path, own)))).toBe(5)
    expect((await get(world, path, (await there.token()).secret.reveal())).status).toBe(200)
  })

  test('charges a personal token to its user if only the body names the organization', async () => {
    const person = await world.person()
    const [here] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
    const own = (await person.token()).secret.reveal()
    const create = () =>
      exchange(
        world.port,
        'POST',
        createCustomer.path,
        { authorization: `Bearer ${own}`, 'content-type': 'application/json' },
        JSON.stringify({ organization_id: here.id, email: `${crypto.randomUUID()}@people.test` }),
      )
    expect((await statusesOf(8, create)).filter((status) => status === 429)).toHaveLength(3)
    expect((await get(world, path, (await here.token()).secret.reveal())).status).toBe(200)
  })

  test('charges a personal token to its user if the request names an organization of other users', async () => {
    const [person, stranger] = [await world.person(), await world.organization()]
    const own = (await person.token()).secret.reveal()
    expect(granted(await statusesOf(8, () => get(world, path, own, { 'bursar-organization': stranger.id })))).toBe(5)
    expect((await get(world, path, (await stranger.token()).secret.reveal())).status).toBe(200)
  })
})

describe('rate limits of the OAuth endpoints', () => {
  const form = (world: World, path: string, fields: Record<string, string>, address: string) =>
    exchange(
      world.port,
      'POST',
      path,
      { 'content-type': 'application/x-www-form-urlencoded', 'x-forwarded-for': address },
      new URLSearchParams(fields).toString(),
    )

  test('charges an authenticated OAuth client from any address, and does not charge the address', async () => {
    const world = await openWorld({ settings: limitedTo(6) })
    const [app, other] = [await openApp(world), await openApp(world)]
    const person = await world.person()
    const introspect = (by: typeof app, address: string) => form(world, '/v1/oauth2/introspect', { ...by.credentials(), token: 'none' }, address)
    expect(granted(await statusesOf(8, () => introspect(app, '198.51.100.1')))).toBe(6)
    const refused = await introspect(app, '198.51.100.2')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(refused.headers.get('ratelimit')).toMatch(/^"api";r=0;t=\d+$/)
    expect(JSON.parse(refused.text)).toMatchObject({ error: 'TooManyRequests' })
    expect((await introspect(other, '198.51.100.1')).status).toBe(200)
    // The OAuth endpoints and the API share the rate limit of the client.
    const grant = await openGrant(world, person.id, null)
    const token = (await grant(['openid', 'organizations:read'])).reveal()
    const userinfo = () => get(world, '/v1/oauth2/userinfo', token, { 'x-forwarded-for': '198.51.100.1' })
    expect(granted(await statusesOf(8, userinfo))).toBe(6)
    expect((await get(world, listOrganizations.path, token)).status).toBe(429)
    await world.close()
  })

  test('charges the address if no OAuth client has authenticated, and does not limit authenticated clients at that address', async () => {
    const world = await openWorld({ settings: limitedTo(6) })
    const app = await openApp(world)
    const address = '198.51.100.9'
    const guess = () => form(world, '/v1/oauth2/introspect', { client_id: app.client_id, client_secret: 'wrong', token: 'none' }, address)
    const statuses = []
    for (let at = 0; at < 8; at++) statuses.push((await guess()).status)
    expect(statuses).toEqual([401, 401, 401, 401, 401, 401, 429, 429])
    expect((await form(world, '/v1/oauth2/introspect', { ...app.credentials(), token: 'none' }, address)).status).toBe(200)
    await world.close()
  })

  test('charges a public OAuth client that sends its own code or token, else the address', async () => {
    const world = await openWorld({ settings: limitedTo(30) })
    const { visitor } = await openPerson(world)
    const app = await openApp(world, { token_endpoint_auth_method: 'none', redirect_uris: ['https://app.example/callback'] })
    const { access_token } = await app.tokens(visitor)
    const address = '198.51.100.17'
    const introspect = (token: string) => form(world, '/v1/oauth2/introspect', { client_id: app.client_id, token }, address)
    expect(granted(await statusesOf(32, () => introspect('none')))).toBe(30)
    // The network address has used up its limit. The client has its own limit of 30, of which it used one request to
    // redeem its code.
    expect(granted(await statusesOf(32, () => introspect(access_token)))).toBe(29)
    await world.close()
  })

  test('rejects a token request over the rate limit before a token is issued, so that the same code works later', async () => {
    const clock = openClock()
    clock.hold()
    const world = await openWorld({ clock, settings: { ...limitedTo(20, 10), BURSAR_REDIS_URL: '' } })
    const { visitor } = await openPerson(world)
    const app = await openApp(world)
    const code = await app.code(visitor)
    expect(granted(await statusesOf(20, () => app.introspect('none')))).toBe(20)
    expect((await app.redeem(code)).status).toBe(429)
    clock.advance(10_001)
    expect((await app.redeem(code)).status).toBe(200)
    await world.close()
  })
})
