import { rateLimits, TooManyRequests } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../test/harness/world.ts'
import { Secret } from '../kernel/secrets.ts'
import { openRedis, withoutRedis, type Cache } from '../platform/redis.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { openBudgets, type Reservation } from './budget.ts'

type Name = keyof typeof rateLimits
const names = Object.keys(rateLimits) as Name[]
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

let world: World
let redis: Cache
beforeAll(async () => {
  world = await openWorld()
  redis = openRedis(new Secret(world.config.redis_url!.reveal()), `test-${crypto.randomUUID()}`, silent, world.config.redis_timeout_ms)
  await eventually('Redis answers', async () => redis.available())
})
afterAll(async () => {
  redis.close()
  await world.close()
})

/** Budgets with these windows for every name, counted in Redis, or without it in this process and in the database. */
const open = (cache: Cache, windows: readonly (readonly [number, number])[]) =>
  openBudgets({
    config: { ...world.config, budgets: Object.fromEntries(names.map((name) => [name, windows])) },
    cache,
    transact: world.transact,
    clock: { wall: () => new Date(), business: () => new Date() },
    telemetry: openTelemetry(),
  })
type Budgets = ReturnType<typeof open>

/** One result: the remaining requests, or the hours until the next one. `at once` is the short wait for open reservations. */
const resultOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    const headers = (await work) as Record<string, string> | undefined
    return `allowed ${headers?.ratelimit?.replace(/;t=\d+$/, '') ?? ''}`
  } catch (error) {
    if (!(error instanceof TooManyRequests)) throw error
    const wait = Number(error.headers['retry-after'])
    return `refused for ${wait <= 5 ? 'seconds' : `${Math.round(wait / 3600)} h`}, ${error.headers.ratelimit!.replace(/;t=\d+$/, '')}, ${error.headers['ratelimit-policy']!}`
  }
}

/** Sends the same arrivals to a budget: charges, looks, and reservations that are kept or returned. */
const arrivals = async (budgets: Budgets, name: Name): Promise<string[]> => {
  const [one, other] = [crypto.randomUUID(), crypto.randomUUID()]
  const results: string[] = []
  const note = async (work: Promise<unknown>) => void results.push(await resultOf(work))
  const reserve = async () => {
    let made: Reservation | undefined
    await note(budgets.reserve(name, one).then((reservation) => void (made = reservation)))
    return made
  }
  for (let at = 0; at < 3; at++) await note(budgets.look(name, one))
  await note(budgets.spend(name, one))
  const kept = await reserve()
  const returned = await reserve()
  await note(budgets.look(name, one))
  await note(budgets.spend(name, one))
  await note(budgets.spend(name, other))
  await returned!.giveBack()
  await note(budgets.look(name, one))
  await note(budgets.spend(name, one))
  await note(budgets.spend(name, one))
  await kept!.keep()
  for (let at = 0; at < 3; at++) await note(budgets.spend(name, one))
  await note(budgets.look(name, other))
  return results
}

describe.each(names)('%s', (name) => {
  test('gives the same results with and without Redis', async () => {
    const windows = [
      [3, 3600],
      [5, 7200],
    ] as const
    const expected = await arrivals(open(redis, windows), name)
    expect(await arrivals(open(withoutRedis, windows), name)).toEqual(expected)
    // The arrivals reach the limit, and the reservations count and are returned.
    expect(expected.filter((result) => result.startsWith('refused for seconds'))).toHaveLength(3)
    expect(expected.filter((result) => result.startsWith('refused for 1 h'))).toHaveLength(3)
  })
})

test.each([
  ['api', 'in this process'],
  ['sign_in', 'in the database'],
] as const)('admits %s again after the same window with and without Redis (%s)', async (name, _where) => {
  const waited = async (cache: Cache): Promise<number> => {
    const budgets = open(cache, [[2, 1]])
    const who = crypto.randomUUID()
    // By the system clock, as the windows are: its milliseconds differ from those of the monotonic clock.
    const since = Date.now()
    expect(await resultOf(budgets.spend(name, who))).toMatch(/^allowed .*r=1/)
    const answered = performance.now()
    await resultOf(budgets.spend(name, who))
    await eventually('another request is admitted', async () => (await resultOf(budgets.spend(name, who))).startsWith('allowed'))
    expect(Date.now() - since).toBeGreaterThanOrEqual(1000)
    return performance.now() - answered
  }
  for (const cache of [redis, withoutRedis]) expect(await waited(cache)).toBeLessThan(5000)
})
