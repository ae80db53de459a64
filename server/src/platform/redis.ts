import { Redis } from 'ioredis'
import type { Secret } from '../kernel/secrets.ts'
import { stopwatch } from './clock.ts'
import type { Log } from './log.ts'

export interface Cache {
  /** Null when Redis is away: callers go on without it. */
  attempt<T>(work: (redis: Redis) => Promise<T>): Promise<T | null>
  /** Teaches Redis a script; the returned function runs it, atomically. */
  script(name: string, lua: string): (keys: readonly string[], values: readonly (string | number)[]) => Promise<unknown>
  /** Settles when Redis has answered for the first time, or has failed to. */
  readonly settled: Promise<void>
  readonly available: () => boolean
  readonly close: () => void
}

/** After so many failures in a row Redis is left alone for a while: a silent one must not slow every request down. */
const enough = 3
const rest = 500

/** Redis that is always away: for a sandbox that has none. */
export const withoutRedis: Cache = {
  attempt: async () => null,
  script: () => async () => null,
  settled: Promise.resolve(),
  available: () => false,
  close: () => {},
}

/**
 * Redis remembers nothing that matters: it may vanish at any time, and every use says what happens then. Keys begin
 * with the deployment's own id, so that two deployments on one server never meet.
 */
export const openRedis = (url: Secret, deployment_id: string, log: Log, patience_ms: number): Cache => {
  const redis = new Redis(url.reveal(), {
    keyPrefix: `bursar:${deployment_id}:`,
    commandTimeout: patience_ms,
    connectTimeout: 1000,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    lazyConnect: false,
    retryStrategy: (times) => Math.min(times * 50, 1000),
  })
  let away = false
  let failures = 0
  let sinceLastFailure = stopwatch()
  redis.on('error', (error: Error) => {
    if (!away) log.warn('redis_away', { error })
    away = true
  })
  redis.on('ready', () => {
    if (away) log.info('redis_back')
    away = false
  })
  const attempt = async <T>(work: (redis: Redis) => Promise<T>): Promise<T | null> => {
    if (redis.status !== 'ready' || sinceLastFailure() < (failures >= enough ? rest : 0)) return null
    try {
      const answer = await work(redis)
      failures = 0
      return answer
    } catch {
      failures++
      sinceLastFailure = stopwatch()
      return null
    }
  }
  return {
    attempt,
    script: (name, lua) => {
      redis.defineCommand(name, { lua })
      const command = (redis as unknown as Record<string, (...values: (string | number)[]) => Promise<unknown>>)[name]!.bind(redis)
      return (keys, values) => attempt(() => command(keys.length, ...keys, ...values))
    },
    settled: new Promise((resolve) => {
      redis.once('ready', () => resolve())
      redis.once('error', () => resolve())
    }),
    available: () => redis.status === 'ready',
    close: () => redis.disconnect(),
  }
}
