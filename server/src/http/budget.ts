import { rateLimits, ServiceUnavailable, TooManyRequests, type BudgetName } from '@bursar/contract'
import type { Actor } from '../kernel/actors.ts'
import { networkOf } from '../kernel/networks.ts'
import type { Environment } from '../kernel/secrets.ts'
import { minutes, seconds, type Clock } from '../platform/clock.ts'
import type { Config } from '../platform/config.ts'
import type { Transact } from '../platform/postgres/postgres.ts'
import type { Cache } from '../platform/redis.ts'
import type { Telemetry } from '../platform/telemetry.ts'
import type { HandlerBudget } from '../modules/handlers.ts'
import { openLocalWindows } from './budget-local.ts'
import { openUnits } from './budget-units.ts'
import { settleInDatabase, spendInDatabase, type SpendMode, type Standing, type Window } from './budget.sql.ts'

/** All budgets: those that operations declare, and those that a handler or the request pipeline charges itself. */
type Name =
  | BudgetName
  | HandlerBudget
  | 'dashboard'
  | 'page_session'
  | 'new_page_sessions'
  | 'page_address'
  | 'failed_authentications'
  | 'received_events'
  | 'refused_events'
  | 'other_paths'
  | 'readiness'

interface Budget {
  readonly windows: readonly Window[]
  /**
   * True if the budget limits attempts to guess a secret. Without Redis such requests are counted in the database. If
   * that fails too, the request is rejected.
   */
  readonly guess: boolean
  /** True if the handler charges the budget, because the account to charge is known only after the body was read. */
  readonly late?: true
}

/** Budgets that do not protect secrets. While Redis is unavailable, this process counts them in memory. */
const lenient: readonly Name[] = [
  'api',
  'dashboard',
  'page_session',
  'new_page_sessions',
  'page_address',
  'ingested_events',
  'processor_events',
  'vat_checks',
  'vat_checks_of_sellers',
  'received_events',
  'other_paths',
  'readiness',
]

/** Returns the published rate limits of this environment. */
export const budgetsOf = (environment: Environment): Record<Name, Budget> =>
  Object.fromEntries(
    Object.entries(rateLimits).map(([name, limit]) => [
      name,
      { windows: limit[environment], guess: !lenient.includes(name as Name), ...(name === 'processor_events' ? { late: true } : {}) },
    ]),
  ) as Record<Name, Budget>

/**
 * Maximum duration of a reservation. After that time, the process that made it must have crashed, and the reservation
 * counts as a charge.
 */
const longestInFlight = 2 * minutes
/** The retry-after of a rejection while open reservations use up the limit. Most reservations are soon returned. */
const inFlightWait = 5 * seconds

/**
 * Each window is a list of the times of the last `limit` allowed requests, newest first. Another request is allowed if
 * the list is not full or its oldest time is outside the window. The check is exact, and its cost does not depend on
 * the limit. A rejected request is not charged. All times come from Redis's own clock. The last key is a sorted set of
 * the open reservations.
 */
const script = `
local held = table.remove(KEYS)
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
if wait > 0 then
  if redis.call('ZCOUNT', held, now - ${longestInFlight * 1000}, '+inf') > 0 then wait = math.min(wait, ${inFlightWait * 1000}) end
  return {0, 0, wait}
end
if ARGV[#KEYS * 2 + 1] == 'look' then return {1, remaining, reset} end
local entry = string.format('%d', now)
for i, key in ipairs(KEYS) do
  redis.call('LPUSH', key, entry)
  redis.call('PEXPIRE', key, math.ceil(tonumber(ARGV[i * 2]) / 1000))
end
if ARGV[#KEYS * 2 + 1] == 'reserve' then
  redis.call('ZADD', held, entry, entry)
  redis.call('PEXPIRE', held, ${longestInFlight})
end
return {1, remaining - 1, reset, entry}`

/** Ends one reservation. `return` removes its charge from the windows; `keep` leaves the charge in place. */
const settleScript = `
redis.call('ZREM', table.remove(KEYS), ARGV[1])
if ARGV[2] == 'return' then for _, key in ipairs(KEYS) do redis.call('LREM', key, 1, ARGV[1]) end end
return 1`

/** A charge that is kept or returned once the result of its request is known. */
export interface Reservation {
  /** Makes the charge permanent. */
  readonly keep: () => Promise<void>
  readonly giveBack: () => Promise<void>
}

export interface Charge {
  readonly name: Name
  readonly who: string
}

export interface Budgets {
  /** Charges one request. Throws if the rate limit is exceeded. Returns the rate limit headers of the response. */
  spend(name: Name, who: string): Promise<Record<string, string>>
  /** Charges several units at once, such as events. Charges none of them if they exceed the rate limit. */
  spendUnits(name: Name, who: string, units: number): Promise<Record<string, string>>
  /**
   * Charges one unit to several budgets at once. If one of them is used up, charges none. Refuses while fewer than
   * `left` units remain in any of them, so that work that begins now can go on.
   */
  spendTogether(charges: readonly Charge[], left?: number): Promise<Record<string, string>>
  /** Throws if the rate limit is exceeded, and charges nothing. Used for requests that are charged only if they fail. */
  look(name: Name, who: string): Promise<void>
  /** True if the handler charges this budget itself instead of the request pipeline. */
  isLate(name: Name): boolean
  /**
   * Charges one request until its result is known. Open reservations count, so that concurrent requests cannot exceed
   * the limit. If open reservations cause a rejection, its retry-after is short instead of the rest of the window.
   */
  reserve(name: Name, who: string): Promise<Reservation>
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
  const runSettle = cache.script('bursar_settle', settleScript)
  const local = openLocalWindows(clock)
  const countUnits = openUnits(cache, clock)
  let without = 0
  telemetry.gauge(
    'bursar_budget_without_redis',
    'Rate limit checks that Redis did not answer. They were counted in memory or in PostgreSQL, or answered with 503.',
    async () => without,
  )

  const unitKeysOf = (name: Name, who: string) => keysOf(name, who).map((key) => `units:${key}`)
  const keysOf = (name: Name, who: string) => table[name].windows.map(({ seconds }) => `budget:${name}:${seconds}:${who}`)
  const heldKey = (name: Name, who: string) => `budget:${name}:held:${who}`
  const standing = async (name: Name, who: string, mode: SpendMode = 'spend'): Promise<Standing> => {
    const { windows, guess } = table[name]
    const keys = keysOf(name, who)
    const limits = windows.flatMap(({ limit, seconds }) => [limit, Math.round(seconds * 1_000_000)])
    const answer = (await run([...keys, heldKey(name, who)], [...limits, mode])) as [number, number, number, string?] | null
    if (answer) return { allowed: answer[0] === 1, remaining: answer[1], wait_ms: answer[2] / 1000, ...(answer[3] === undefined ? {} : { entry: answer[3] }) }
    without++
    // Without Redis, ordinary requests are counted in this process. Requests that could guess secrets are counted in the database, or rejected.
    const inFlight = { longest_ms: longestInFlight, wait_ms: inFlightWait }
    if (!guess) return local.spend(keys, windows, mode, inFlight)
    try {
      return await spendInDatabase(transact, `${name}:${who}`, windows, mode, inFlight)
    } catch {
      throw new ServiceUnavailable(undefined, { 'retry-after': '1' })
    }
  }

  const policyOf = (name: Name) => table[name].windows.map(({ limit, seconds }) => `"${name}";q=${limit};w=${seconds}`).join(', ')
  const refusable = (name: Name, { allowed, remaining, wait_ms }: Standing, policy = policyOf(name)) => {
    const wait = Math.max(1, Math.ceil(wait_ms / 1000))
    const headers = {
      'ratelimit-policy': policy,
      ratelimit: `"${name}";r=${remaining};t=${wait}`,
    }
    if (!allowed) throw new TooManyRequests(`The rate limit is exceeded. Wait ${wait} s.`, { ...headers, 'retry-after': String(wait) })
    return headers
  }
  return {
    isLate: (name) => table[name].late === true,
    spend: async (name, who) => refusable(name, await standing(name, who)),
    spendUnits: async (name, who, units) => refusable(name, await countUnits(unitKeysOf(name, who), table[name].windows, units)),
    spendTogether: async (charges, left = 0) => {
      const keys = charges.flatMap(({ name, who }) => unitKeysOf(name, who))
      // A limit that is smaller than `left` admits the first unit nevertheless.
      const windows = charges.flatMap(({ name }) => table[name].windows.map(({ limit, seconds }) => ({ limit: Math.max(1, limit - left), seconds })))
      const policy = charges.map(({ name }) => policyOf(name)).join(', ')
      return refusable(charges[0]!.name, await countUnits(keys, windows, 1), policy)
    },
    look: async (name, who) => {
      refusable(name, await standing(name, who, 'look'))
    },
    reserve: async (name, who) => {
      const charged = await standing(name, who, 'reserve')
      refusable(name, charged)
      const settle = async (outcome: 'keep' | 'return') => {
        const { entry } = charged
        if (typeof entry === 'string') await runSettle([...keysOf(name, who), heldKey(name, who)], [entry, outcome])
        else if (typeof entry === 'number') local.settle(keysOf(name, who), entry, outcome)
        else if (entry) await settleInDatabase(transact, `${name}:${who}`, entry, outcome)
      }
      return { keep: () => settle('keep'), giveBack: () => settle('return') }
    },
  }
}

/** Returns the budget that a request counts for if its operation names none, and whose budget it is. */
export const ordinaryCharge = (actor: Actor, payer: string): Charge =>
  actor.kind === 'user' && actor.via === 'session' ? { name: 'dashboard', who: `session:${actor.credential_id}` } : { name: 'api', who: payer }

/**
 * Returns whose rate limit a request is charged to. All tokens of an organization share its rate limit. All tokens of
 * an OAuth client share the client's rate limit, and all sessions of a customer share the customer's. A personal token
 * is charged to the organization that the request names. If the request names none, the token is charged to the user's
 * only organization, else to the user. A named organization is charged only for its own users.
 */
export const chargedTo = (actor: Actor, address: string, named?: string): string => {
  switch (actor.kind) {
    case 'organization':
      return `organization:${actor.organization_id}`
    case 'user': {
      if (actor.client_id !== null) return `client:${actor.client_id}`
      if (actor.via !== 'personal') return `user:${actor.user_id}`
      const [only, another] = actor.memberships.keys()
      const payer = named ?? (another === undefined ? only : undefined)
      return payer !== undefined && actor.memberships.has(payer) ? `organization:${payer}` : `user:${actor.user_id}`
    }
    case 'portal':
      return `customer:${actor.customer_id}`
    case 'anonymous':
      return `address:${networkOf(address)}`
  }
}
