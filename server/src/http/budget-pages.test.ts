import { createCustomer, createCustomerSession, getPortalCustomer } from '@bursar/contract'
import { afterEach, expect, test } from 'vitest'
import { openVisitor } from '../../test/harness/visitor.ts'
import { exchange, openWorld, type World } from '../../test/harness/world.ts'
import { portalCookiePrefix } from '../modules/identity/index.ts'
import { minutes } from '../platform/clock.ts'

let world: World
afterEach(() => world.close())

/** Opens a world with these limits, each in a minute. Client addresses are forwarded. */
const open = async (limits: Record<string, number>) => {
  const budgets = Object.fromEntries(Object.entries({ api: 1_000_000, sign_in: 1_000_000, ...limits }).map(([name, limit]) => [name, [[limit, 60]]]))
  world = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify(budgets), BURSAR_TRUSTED_PROXIES: '127.0.0.1' } })
  return world
}
type Visitor = ReturnType<typeof openVisitor>

/** Loads a page until it answers 429, and returns the number of pages before. */
const pagesUntilRefused = async (visit: () => Promise<{ status: number }>, most = 400): Promise<number> => {
  for (let at = 0; at < most; at++) if ((await visit()).status === 429) return at
  return Infinity
}
const login = (visitor: Visitor, address = '203.0.113.1') => visitor.once('GET', '/login', undefined, { 'x-forwarded-for': address })
/** Loads a page as a browser without cookies. */
const loginAsNew = (address = '203.0.113.1') => exchange(world.port, 'GET', '/login', { accept: 'text/html', 'x-forwarded-for': address })

test('charges a page and its calls to the page session, and leaves the limit of the API to the API', async () => {
  await open({ api: 12 })
  const { organization, api } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'ada@people.test', name: 'Ada' } })
  const { token } = await api.call(createCustomerSession, { body: { customer_id: customer.id } })
  const visitor = openVisitor(world, `${portalCookiePrefix(world.config)}${organization.id}=${token}`)
  const statuses: number[] = []
  for (let at = 0; at < 20; at++) statuses.push((await visitor.once('GET', `/${organization.slug}/portal/overview`)).status)
  expect(new Set(statuses)).toEqual(new Set([200]))
  const own = []
  for (let at = 0; at < 13; at++) own.push((await world.client({ token }).send(getPortalCustomer, {})).status)
  expect(own).toEqual([...Array.from({ length: 12 }, () => 200), 429])
  // A page also works for a customer whose limit of the API is used up.
  expect((await visitor.once('GET', `/${organization.slug}/portal/overview`)).status).toBe(200)
})

test('limits the pages of a session, and tells the true wait, without affecting another session at the address', async () => {
  await open({ page_session: 130 })
  const [one, other] = [openVisitor(world), openVisitor(world)]
  // A page begins only while 100 units are left for its calls. The sign-in page makes no calls.
  expect(await pagesUntilRefused(() => login(one))).toBeLessThanOrEqual(31)
  const refused = await login(one)
  expect([refused.status, refused.headers.get('content-type')]).toEqual([429, 'text/html; charset=utf-8'])
  const wait = Number(refused.headers.get('retry-after'))
  expect(wait).toBeGreaterThan(0)
  expect(wait).toBeLessThanOrEqual(60)
  expect(refused.text).toContain(`data-wait="${wait}"`)
  expect((await login(other)).status).toBe(200)
})

test('counts browsers that drop or invent their cookie together, and not those that visited before', async () => {
  await open({ new_page_sessions: 120 })
  const [kept, early] = [openVisitor(world), openVisitor(world)]
  expect((await login(kept)).status).toBe(200)
  world.clock.advance(2 * minutes)
  expect((await login(early)).status).toBe(200)
  expect(await pagesUntilRefused(() => loginAsNew())).toBeLessThanOrEqual(20)
  // An invented cookie, and one with an earlier time, do not begin an older session.
  const [name] = [...kept.jar.keys()].filter((key) => key.endsWith('_page'))
  const cookie = kept.jar.get(name!)!.value
  for (const value of [cookie.replace(/^./, '1'), `aaaa.${'b'.repeat(20)}.${'0'.repeat(64)}`, 'x'])
    expect((await exchange(world.port, 'GET', '/login', { cookie: `${name}=${value}`, 'x-forwarded-for': '203.0.113.1' })).status).toBe(429)
  // A session that is younger than a minute counts as new, and older ones do not.
  expect((await login(early)).status).toBe(429)
  expect((await login(kept)).status).toBe(200)
  expect((await loginAsNew('203.0.113.2')).status).toBe(200)
})

test('limits all older page sessions of an address together', async () => {
  await open({ page_address: 110 })
  const visitors = Array.from({ length: 4 }, () => openVisitor(world))
  for (const visitor of visitors) expect((await login(visitor)).status).toBe(200)
  world.clock.advance(2 * minutes)
  let turn = 0
  expect(await pagesUntilRefused(() => login(visitors[turn++ % 4]!))).toBeLessThanOrEqual(10)
  expect((await login(visitors[0]!, '203.0.113.2')).status).toBe(200)
})

test('keeps the limits of expensive acts for pages', async () => {
  await open({ sign_in: 2 })
  const { organization } = await world.shop()
  const path = `/${organization.slug}/portal/sign-in`
  const visitor = openVisitor(world)
  const csrf = visitor.field((await visitor.once('GET', path)).text, 'csrf')
  const statuses = []
  for (let at = 0; at < 3; at++) statuses.push((await visitor.once('POST', path, { csrf, step: 'email', email: 'ada@people.test' })).status)
  expect(statuses).toEqual([200, 200, 429])
})
