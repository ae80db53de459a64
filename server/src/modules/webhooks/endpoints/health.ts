import type { WebhookDeliveryStatus, WebhookEndpointHealth, WebhookEventType } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { days, later, type WallClock } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { requireWebhookEndpoint } from './endpoints.ts'
import { findBacklog, listStates, summariseAttempts } from './health.sql.ts'

interface HealthQuery {
  readonly days: number
  readonly status?: WebhookDeliveryStatus | undefined
  readonly before?: number | undefined
  readonly limit: number
}

/** Returns the health of an endpoint: its attempts of the last days, its backlog, and the state of its latest events. */
export const readHealth = async (db: Db, clock: WallClock, scope: TenantScope, id: string, query: HealthQuery): Promise<WebhookEndpointHealth> => {
  const endpoint = await requireWebhookEndpoint(db, scope, id)
  const since = later(clock.wall(), -query.days * days)
  const { figures, complete } = await summariseAttempts(db, endpoint, since)
  const backlog = await findBacklog(db, endpoint)
  const { items, next_before } = await listStates(db, endpoint, { ...query, limit: Math.min(query.limit, 100) })
  const [all, ...byDay] = figures
  return {
    endpoint_id: endpoint.id,
    since,
    attempts: {
      total: all?.total ?? 0,
      succeeded: all?.succeeded ?? 0,
      success_rate: all && all.total > 0 ? all.succeeded / all.total : null,
      latency_p50_ms: all?.p50 ?? null,
      latency_p95_ms: all?.p95 ?? null,
      complete,
    },
    days: byDay.map(({ day, total, succeeded, p95 }) => ({ day: day!, total, succeeded, latency_p95_ms: p95 })),
    ...backlog,
    events: items.map((item) => ({ ...item, type: item.type as WebhookEventType })),
    next_before,
  }
}
