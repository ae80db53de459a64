import { Redis } from 'ioredis'
import { getOrganization, listOrganizations, requestSignInCode, TooManyRequests } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOwnRedis } from '../../test/harness/redis.ts'
import { eventually, exchange, openClock, openWorld, type World } from '../../test/harness/world.ts'
import { networkOf } from '../kernel/networks.ts'
import { budgetsOf, openBudgets } from './budget.ts'
import { openRedis, withoutRedis } from '../platform/redis.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { Secret } from '../kernel/secrets.ts'

/** The default rate limits. Client addresses are forwarded, so that each test can use its own. */
const asShipped = { BURSAR_BUDGETS: '', BURSAR_TRUSTED_PROXIES: '127.0.0.1' }

const call = async (world: World, token: string, address = '203.0.113.1') =>
  exchange(world.port, 'GET', '/v1/organizations/', { authorization: `Bearer ${token}`, 'x-forwarded-for': address })

describe.each([
  ['production', 500, 'S8-06'],
  ['sandbox', 100, 'S8-07'],
] as const)('in %s', (environment, limit, _id) => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ environment, settings: asShipped })
  })
  afterAll(() => world.close())

  test(`limits an organization to ${limit} requests in any minute over all tokens, then answers 429 with retry-after [S8-06, S8-07, S7-02]`, async () => {
    const [organization, neighbour] = [await world.organization(), await world.organization()]
    const tokens = await Promise.all(Array.from({ length: 10 }, async () => (await organization.token()).secret.reveal()))
    const answers = await Promise.all(Array.from({ length: limit + 20 }, (_, at) => call(world, tokens[at % 10]!)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(limit)
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused).toHaveLength(20)
    for (const { headers, text } of refused) {
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
      expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60)
      expect(JSON.parse(text)).toMatchObject({ error: 'TooManyRequests' })
      expect(headers.get('ratelimit')).toMatch(/^"api";r=0;t=\d+$/)
    }
    expect(answers[0]!.headers.get('ratelimit-policy')).toBe(`"api";q=${limit};w=60`)
    expect(new Set(answers.filter(({ status }) => status === 200).map(({ headers }) => headers.get('ratelimit')!.split(';')[1])).size).toBe(limit)
    expect((await call(world, (await neighbour.token()).secret.reveal())).status).toBe(200)
    // A personal token shares the limit of the organization if its user belongs to no other organization.
    const person = await world.person()
    await world.join(organization.id, person.id, 'member')
    expect((await call(world, (await person.token()).secret.reveal())).status).toBe(429)
  })
})

describe('rate limit windows', () => {
  const clock = { wall: () => new Date(), business: () => new Date() }
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  let world: World
  beforeAll(async () => {
    world = await openWorld()
  })
  afterAll(() => world.close())

  const open = async (windows: [number, number][], url = 'redis://127.0.0.1:6379') => {
    const cache = openRedis(new Secret(url), `test-${crypto.randomUUID()}`, silent, world.config.redis_timeout_ms)
    await eventually('Redis answers', async () => cache.available())
    const budgets = openBudgets({
      config: { ...world.config, budgets: { api: windows } },
      cache,
      transact: world.transact,
      clock,
      telemetry: openTelemetry(),
    })
    return {
      spend: (who: string) =>
        budgets.spend('api', who).then(
          () => 0,
          (error: unknown) => (error instanceof TooManyRequests ? Number(error.headers['retry-after']) : Promise.reject(error as Error)),
        ),
      close: cache.close,
    }
  }

  test('admits all of 1,000 rejected requests that are retried after the time in retry-after [S8-09]', async () => {
    const { spend, close } = await open([[3, 1]])
    const trial = async (at: number): Promise<boolean> => {
      const who = `trial-${at}`
      for (let arrival = 0; ; arrival++) {
        // Slow requests that are sent one at a time may never reach the limit. After five of them, four are sent at
        // once, so that one is rejected.
        const waits = await Promise.all(Array.from({ length: arrival < 5 ? 1 : 4 }, () => spend(who)))
        const wait = Math.max(...waits)
        if (wait > 0) {
          const refused = performance.now()
          while (performance.now() - refused < wait * 1000)
            await new Promise((resolve) => setTimeout(resolve, Math.max(1, refused + wait * 1000 - performance.now())))
          return (await spend(who)) === 0
        }
        if (arrival > 200) throw new Error('never refused')
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 300))
      }
    }
    const outcomes: boolean[] = []
    for (let group = 0; group < 4; group++) outcomes.push(...(await Promise.all(Array.from({ length: 250 }, (_, at) => trial(group * 250 + at)))))
    expect(outcomes.filter(Boolean)).toHaveLength(1000)
    close()
  })

  test('never admits more requests in a window than its limit', async () => {
    const { spend, close } = await open([[10, 0.5]])
    const admitted: { sent: number; answered: number }[] = []
    const until = performance.now() + 300_000
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        while (admitted.length < 50 && performance.now() < until) {
          const sent = performance.now()
          if ((await spend('one')) === 0) admitted.push({ sent, answered: performance.now() })
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
        }
      }),
    )
    expect(admitted.length).toBeGreaterThanOrEqual(50)
    // Each request was admitted between `sent` and `answered`. The limit is ten in half a second. Of any eleven
    // requests, the last answer must therefore come at least half a second after the first was sent.
    const answers = admitted.toSorted((a, b) => a.answered - b.answered)
    for (let at = 10; at < answers.length; at++)
      expect(answers[at]!.answered - Math.min(...answers.slice(at - 10, at + 1).map(({ sent }) => sent))).toBeGreaterThanOrEqual(500)
    close()
  })

  test.each([
    ['in Redis', true],
    ['in the database, without Redis', false],
  ])('answers 429 with a short retry-after while open reservations use up the limit: %s', async (_, withRedis) => {
    const cache = withRedis
      ? openRedis(new Secret('redis://127.0.0.1:6379'), `test-${crypto.randomUUID()}`, silent, world.config.redis_timeout_ms)
      : withoutRedis
    if (withRedis) await eventually('Redis answers', async () => cache.available())
    const config = { ...world.config, budgets: { checkout_declines: [[3, 3600] as const, [10, 86_400] as const] } }
    const budgets = openBudgets({ config, cache, transact: world.transact, clock, telemetry: openTelemetry() })
    const reserve = () => budgets.reserve('checkout_declines', '203.0.113.5')
    const waitOf = () =>
      reserve().then(
        () => 0,
        (error: unknown) => (error instanceof TooManyRequests ? Number(error.headers['retry-after']) : Promise.reject(error as Error)),
      )
    const [first, second, third] = [await reserve(), await reserve(), await reserve()]
    expect(await waitOf()).toBe(5)
    // Two reservations become charges. These alone are below the limit of three, so the open third reservation causes the rejection.
    await first.keep()
    await second.keep()
    expect(await waitOf()).toBe(5)
    await third.giveBack()
    const fourth = await reserve()
    expect(await waitOf()).toBe(5)
    await fourth.keep()
    expect(await waitOf()).toBeGreaterThan(3500)
    cache.close()
  })

  test('does not charge other budgets for a request that one budget rejects', async () => {
    const own = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1000, 60]] }), BURSAR_TRUSTED_PROXIES: '127.0.0.1' } })
    const organization = await own.organization()
    const token = (await organization.token()).secret.reveal()
    const address = { 'x-forwarded-for': '198.51.100.7' }
    const ask = () => exchange(own.port, 'POST', requestSignInCode.path, { 'content-type': 'application/json', ...address }, '{"email":"a@people.test"}')
    const { limit } = budgetsOf('sandbox').sign_in.windows[0]!
    const statuses = []
    for (let at = 0; at < limit + 3; at++) statuses.push((await ask()).status)
    expect(statuses).toEqual([...Array.from({ length: limit }, () => 202), 429, 429, 429])
    expect((await exchange(own.port, 'GET', `/v1/organizations/${organization.id}`, { authorization: `Bearer ${token}`, ...address })).status).toBe(200)
    await own.close()
  })

  test('charges each web session to a budget of its own, which tokens of the same person do not use up', async () => {
    const own = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[2, 60]], dashboard: [[5, 60]] }) } })
    const person = await own.person()
    await own.organization({ owner: person.id })
    const ask = (headers: Record<string, string>) => exchange(own.port, 'GET', '/v1/organizations/', headers)
    const statusesOf = async (headers: Record<string, string>, count: number) => {
      const statuses = []
      for (let at = 0; at < count; at++) statuses.push((await ask(headers)).status)
      return statuses
    }
    const token = { authorization: `Bearer ${(await person.token()).secret.reveal()}` }
    const [one, other] = [{ cookie: await person.cookie() }, { cookie: await person.cookie() }]
    expect(await statusesOf(token, 3)).toEqual([200, 200, 429])
    expect(await statusesOf(one, 6)).toEqual([200, 200, 200, 200, 200, 429])
    expect(await statusesOf(other, 1)).toEqual([200])
    expect((await ask(other)).headers.get('ratelimit-policy')).toMatch(/^"dashboard";q=5;w=60/)
    expect(budgetsOf('production').dashboard.windows).toEqual([{ limit: 600, seconds: 60 }])
    await own.close()
  })

  test('accepts forwarded client addresses only from a trusted proxy', async () => {
    const own = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ sign_in: [[3, 60]] }) } })
    const ask = (address: string) =>
      exchange(
        own.port,
        'POST',
        requestSignInCode.path,
        { 'content-type': 'application/json', 'x-forwarded-for': address, 'true-client-ip': address, forwarded: `for=${address}` },
        '{"email":"a@people.test"}',
      )
    const statuses = []
    for (let at = 0; at < 6; at++) statuses.push((await ask(`192.0.2.${at}`)).status)
    expect(statuses).toEqual([202, 202, 202, 429, 429, 429])
    await own.close()
    expect(networkOf('::ffff:203.0.113.9')).toBe('203.0.113.9')
    expect(networkOf('2001:db8:1:2:3:4:5:6')).toBe(networkOf('2001:0db8:1:2::99'))
    expect(networkOf('::1')).toBe('0:0:0:0::/64')
  })

  test('charges failed authentications to the client address, and still accepts valid credentials', async () => {
    const own = await openWorld({
      settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1000, 60]], failed_authentications: [[5, 60]] }), BURSAR_TRUSTED_PROXIES: '127.0.0.1' },
    })
    const organization = await own.organization()
    const statuses = []
    for (let at = 0; at < 8; at++) statuses.push((await call(own, 'bursar_test_oat_wrong')).status)
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
    expect((await call(own, (await organization.token()).secret.reveal())).status).toBe(200)
    expect((await call(own, 'bursar_test_oat_wrong', '203.0.113.77')).status).toBe(401)
    await own.close()
  })
})

test('answers no 5xx under load while Redis is emptied and then down for ten seconds, and keeps enforcing rate limits', async () => {
  const redis = await openOwnRedis()
  const world = await openWorld({ settings: { BURSAR_REDIS_URL: redis.url, BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], sign_in: [[4, 60]] }) } })
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const statuses = new Map<number, number>()
  const loading = new AbortController()
  const load = Promise.all(
    Array.from({ length: 8 }, async () => {
      while (!loading.signal.aborted) {
        const { status } = await api.send(getOrganization, { params: { id: organization.id } })
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    }),
  )
  const admin = new Redis(redis.url)
  for (let at = 0; at < 20; at++) {
    await admin.flushall()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  admin.disconnect()
  await redis.stop()
  const stopped = performance.now()
  const guess = () => exchange(world.port, 'POST', requestSignInCode.path, { 'content-type': 'application/json' }, '{"email":"a@people.test"}')
  const guesses = []
  for (let at = 0; at < 7; at++) guesses.push((await guess()).status)
  // While Redis is down, sign-in attempts are counted in the database.
  expect(guesses).toEqual([202, 202, 202, 202, 429, 429, 429])
  const withoutRedis = async () => Number(/bursar_budget_without_redis\{of=""\} (\d+)/.exec(await world.base.telemetry.metrics())?.[1] ?? 0)
  await eventually(
    'the requests have run for ten seconds without Redis',
    async () => performance.now() - stopped >= 10_000 && (statuses.get(200) ?? 0) > 200 && (await withoutRedis()) > 100,
  )
  await redis.start()
  await eventually('Redis is used again', async () => (await world.base.telemetry.metrics()).includes('bursar_redis_available{of=""} 1'))
  loading.abort()
  await load
  expect([...statuses.keys()]).toEqual([200])
  await world.close()
  await redis.stop()
})

test('enforces the rate limit of an organization within one process while Redis is unavailable', async () => {
  // The clock is stopped, so that all requests are in the same minute.
  const clock = openClock()
  clock.hold()
  const world = await openWorld({ clock, settings: { BURSAR_REDIS_URL: 'redis://127.0.0.1:1', BURSAR_BUDGETS: '' } })
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const statuses = []
  for (let at = 0; at < 103; at++) statuses.push((await api.send(listOrganizations, {})).status)
  expect(statuses.filter((status) => status === 200)).toHaveLength(100)
  await world.close()
})
