import { Redis } from 'ioredis'
import type { Secret } from '../kernel/secrets.ts'
import { stopwatch } from './clock.ts'
import type { Log } from './log.ts'

export interface Cache {
  /** Runs work on Redis. Returns null if Redis is unavailable, and the caller continues without Redis. */
  attempt<T>(work: (redis: Redis) => Promise<T>): Promise<T | null>
  /** Defines a script. The returned function runs it atomically. */
  script(name: string, lua: string): (keys: readonly string[], values: readonly (string | number)[]) => Promise<unknown>
  /** Resolves when the first connection to Redis has succeeded or failed. */
  readonly settled: Promise<void>
  readonly available: () => boolean
  readonly close: () => void
}

/**
 * After this many consecutive failures, Redis is not used for `rest` milliseconds. Without this, a hanging Redis would
 * slow down every request.
 */
const enough = 3
const rest = 500

/** A cache that is never available, for a sandbox without Redis. */
export const withoutRedis: Cache = {
  attempt: async () => null,
  script: () => async () => null,
  settled: Promise.resolve(),
  available: () => false,
  close: () => {},
}

/**
 * Connects to Redis. Redis stores nothing that must not be lost. It may become unavailable at any time, and every
 * caller handles that. Keys begin with the deployment's id, so that deployments can share a server.
 */
export const openRedis = (url: Secret, deployment_id: string, log: Log, timeout_ms: number): Cache => {
  const redis = new Redis(url.reveal(), {
    keyPrefix: `bursar:${deployment_id}:`,
    commandTimeout: timeout_ms,
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
