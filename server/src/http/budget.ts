import { ServiceUnavailable, TooManyRequests, type BudgetName } from '@bursar/contract'
import type { Actor } from '../kernel/actors.ts'
import type { Environment } from '../kernel/secrets.ts'
import type { Clock } from '../platform/clock.ts'
import type { Config } from '../platform/config.ts'
import type { Transact } from '../platform/postgres/postgres.ts'
import type { Cache } from '../platform/redis.ts'
import type { Telemetry } from '../platform/telemetry.ts'
import { spendInDatabase, type Window } from './budget.sql.ts'

type Name = BudgetName | 'failed_authentications'

interface Budget {
  readonly windows: readonly Window[]
  /** Stops somebody from guessing: never waved through, whatever is away. Charged to the address. */
  readonly guess: boolean
}

/** Every number there is. No more than `limit` requests in any stretch of so many seconds. */
export const budgetsOf = (environment: Environment): Record<Name, Budget> => ({
  api: { windows: [{ limit: environment === 'sandbox' ? 100 : 500, seconds: 60 }], guess: false },
  license_keys: { windows: [{ limit: 3, seconds: 1 }], guess: true },
  sign_in: {
    windows: [
      { limit: 6, seconds: 60 },
      { limit: 30, seconds: 3600 },
    ],
    guess: true,
  },
  registration: {
    windows: [
      { limit: 10, seconds: 60 },
      { limit: 50, seconds: 3600 },
    ],
    guess: true,
  },
  // Whoever tries stolen cards tries many: each confirmation asks the processor.
  checkout_confirm: {
    windows: [
      { limit: 6, seconds: 60 },
      { limit: 20, seconds: 3600 },
    ],
    guess: true,
  },
  // Each visit leaves a checkout behind; and a whole office may follow the same link.
  checkout_link: {
    windows: [
      { limit: 60, seconds: 60 },
      { limit: 600, seconds: 3600 },
    ],
    guess: true,
  },
  failed_authentications: { windows: [{ limit: 60, seconds: 60 }], guess: true },
})

export interface Standing {
  readonly allowed: boolean
  readonly remaining: number
  /** Until one more may enter, when none may now; otherwise until the oldest leaves. */
  readonly wait_ms: number
}

/**
 * Each window is a list of the moments of the last `limit` admitted requests, newest first. One more may enter when
 * the list is not full or its last moment has left the window: exact, and the same work for any limit. A refusal
 * spends nothing. Redis's own clock is the only one.
 */
const script = `
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local wait, remaining, reset = 0, 2147483647, 0
for i, key in ipairs(KEYS) do
  local limit, window = tonumber(ARGV[i * 2 - 1]), tonumber(ARGV[i * 2])
  local oldest = tonumber(redis.call('LINDEX', key, -1))
  while oldest and now - oldest >= window do
    redis.call('RPOP', key)
    oldest = tonumber(redis.call('LINDEX', key, -1))
  end
  local used = oldest and redis.call('LLEN', key) or 0
  if used >= limit then wait = math.max(wait, oldest + window - now) end
  remaining = math.min(remaining, limit - used)
  reset = math.max(reset, (oldest or now) + window - now)
end
if wait > 0 then return {0, 0, wait} end
if ARGV[#KEYS * 2 + 1] == 'look' then return {1, remaining, reset} end
for i, key in ipairs(KEYS) do
  redis.call('LPUSH', key, string.format('%d', now))
  redis.call('PEXPIRE', key, math.ceil(tonumber(ARGV[i * 2]) / 1000))
end
return {1, remaining - 1, reset}`

export interface Budgets {
  /** Charges one request. Refuses it when its budget is spent; hands back the headers that tell how it stands. */
  spend(name: Name, who: string): Promise<Record<string, string>>
  /** Refuses when the budget is spent, and charges nothing: for what is charged only once it has failed. */
  look(name: Name, who: string): Promise<void>
}

export const openBudgets = (options: { config: Config; cache: Cache; transact: Transact; clock: Clock; telemetry: Telemetry }): Budgets => {
  const { config, cache, transact, clock, telemetry } = options
  const table = Object.fromEntries(
    Object.entries(budgetsOf(config.environment)).map(([name, budget]) => [
      name,
      { ...budget, windows: config.budgets[name]?.map(([limit, seconds]) => ({ limit, seconds })) ?? budget.windows },
    ]),
  ) as Record<Name, Budget>
  const run = cache.script('bursar_spend', script)
  const local = openLocalWindows(clock)
  let without = 0
  telemetry.gauge('bursar_budget_without_redis', 'Requests that were charged while Redis was away.', async () => without)

  const standing = async (name: Name, who: string, look = false): Promise<Standing> => {
    const { windows, guess } = table[name]
    const keys = windows.map(({ seconds }) => `budget:${name}:${seconds}:${who}`)
    const answer = (await run(keys, [...windows.flatMap(({ limit, seconds }) => [limit, Math.round(seconds * 1_000_000)]), ...(look ? ['look'] : [])])) as
      | [number, number, number]
      | null
    if (answer) return { allowed: answer[0] === 1, remaining: answer[1], wait_ms: answer[2] / 1000 }
    without++
    // Without Redis ordinary requests go on under a count of this process's own; guesses are counted in the database, or not allowed.
    if (!guess) return local(keys, windows)
    try {
      return { remaining: 0, ...(await spendInDatabase(transact, `${name}:${who}`, windows, look)) }
    } catch {
      throw new ServiceUnavailable(undefined, { 'retry-after': '1' })
    }
  }

  const refusable = (name: Name, { allowed, remaining, wait_ms }: Standing) => {
    const wait = Math.max(1, Math.ceil(wait_ms / 1000))
    const headers = {
      'ratelimit-policy': table[name].windows.map(({ limit, seconds }) => `"${name}";q=${limit};w=${seconds}`).join(', '),
      ratelimit: `"${name}";r=${remaining};t=${wait}`,
    }
    if (!allowed) throw new TooManyRequests(`The rate budget is spent: wait ${wait} s.`, { ...headers, 'retry-after': String(wait) })
    return headers
  }
  return {
    spend: async (name, who) => refusable(name, await standing(name, who)),
    look: async (name, who) => {
      refusable(name, await standing(name, who, true))
    },
  }
}

/** The same windows in this process's memory: exact for one process, forgotten with it, and bounded in size. */
const openLocalWindows = (clock: Clock) => {
  const moments = new Map<string, number[]>()
  return (keys: readonly string[], windows: readonly Window[]): Standing => {
    const now = clock.wall().getTime()
    const lists = keys.map((key, at) => (moments.get(key) ?? []).filter((moment) => now - moment < windows[at]!.seconds * 1000))
    const waits = lists.map((list, at) => (list.length >= windows[at]!.limit ? list[list.length - windows[at]!.limit]! + windows[at]!.seconds * 1000 - now : 0))
    const wait_ms = Math.max(...waits)
    if (wait_ms > 0) return { allowed: false, remaining: 0, wait_ms }
    keys.forEach((key, at) => {
      moments.delete(key)
      moments.set(key, [...lists[at]!, now])
    })
    while (moments.size > 10_000) moments.delete(moments.keys().next().value!)
    return {
      allowed: true,
      remaining: Math.min(...lists.map((list, at) => windows[at]!.limit - list.length - 1)),
      wait_ms: Math.max(...lists.map((list, at) => (list[0] ?? now) + windows[at]!.seconds * 1000 - now)),
    }
  }
}

/** Whom a request is charged to: all tokens of an organization share its budget, all of a person's share theirs, all that an app holds share the app's, all of a customer's people share its. */
export const chargedTo = (actor: Actor, address: string): string => {
  switch (actor.kind) {
    case 'organization':
      return `organization:${actor.organization_id}`
    case 'user':
      return actor.client_id === null ? `user:${actor.user_id}` : `client:${actor.client_id}`
    case 'portal':
      return `customer:${actor.customer_id}`
    case 'anonymous':
      return `address:${networkOf(address)}`
  }
}

/** An IPv6 client has a whole network of addresses to itself: they count as one. */
export const networkOf = (address: string): string => {
  const v4 = /^(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (v4) return v4
  const [head = '', tail] = address.split('::')
  const left = head.split(':').filter((part) => part !== '')
  const right = tail === undefined ? [] : tail.split(':').filter((part) => part !== '')
  const groups = tail === undefined ? left : [...left, ...Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0'), ...right]
  return `${groups
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}
