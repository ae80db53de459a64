import { Redis } from 'ioredis'
import type { Secret } from '../kernel/secrets.ts'
import type { Log } from './log.ts'

export interface Cache {
  /** Null when Redis is away: callers go on without it. */
  attempt<T>(work: (redis: Redis) => Promise<T>): Promise<T | null>
  readonly available: () => boolean
  readonly close: () => void
}

/**
 * Redis remembers nothing that matters: it may vanish at any time, and every use says what happens then. Keys begin
 * with the deployment's own id, so that two deployments on one server never meet.
 */
export const openRedis = (url: Secret, deployment_id: string, log: Log): Cache => {
  const redis = new Redis(url.reveal(), {
    keyPrefix: `bursar:${deployment_id}:`,
    commandTimeout: 50,
    connectTimeout: 1000,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    lazyConnect: false,
    retryStrategy: (times) => Math.min(times * 50, 1000),
  })
  let away = false
  redis.on('error', (error: Error) => {
    if (!away) log.warn('redis_away', { error })
    away = true
  })
  redis.on('ready', () => {
    if (away) log.info('redis_back')
    away = false
  })
  return {
    attempt: async (work) => {
      if (redis.status !== 'ready') return null
      try {
        return await work(redis)
      } catch {
        return null
      }
    },
    available: () => redis.status === 'ready',
    close: () => redis.disconnect(),
  }
}
