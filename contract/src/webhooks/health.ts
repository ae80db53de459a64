import { z } from 'zod'
import { integerInText, merchant, named, NotPermitted, operation, pageSize, resource, ResourceNotFound, timestamp, uuid, emptyIsAbsent } from '../kit/index.ts'
import { WebhookEventType } from './webhooks.ts'

export const WebhookDeliveryStatus = named('WebhookDeliveryStatus', z.enum(['waiting', 'retrying', 'delivered', 'parked', 'skipped']))
export type WebhookDeliveryStatus = z.output<typeof WebhookDeliveryStatus>

/** An event with the state of its delivery to one endpoint. */
export const WebhookEventStatus = resource('WebhookEventStatus', {
  event_id: uuid(),
  sequence: z.int(),
  type: WebhookEventType,
  resource_id: uuid().nullable(),
  customer_id: uuid().nullable(),
  recorded_at: timestamp(),
  status: WebhookDeliveryStatus.describe(
    '`waiting`: not tried yet. `retrying`: failed at least once, and will be tried again. `parked`: kept until the endpoint is enabled or the event is sent again. `skipped`: no longer wanted when it was due.',
  ),
  attempts: z.int(),
  last_http_code: z.int().nullable(),
  next_attempt_at: timestamp().nullable(),
  modified_at: timestamp().nullable().describe('When the last attempt ended.'),
})
export type WebhookEventStatus = z.output<typeof WebhookEventStatus>

export const WebhookEndpointHealth = resource('WebhookEndpointHealth', {
  endpoint_id: uuid(),
  since: timestamp().describe('The attempts since this moment are counted.'),
  attempts: resource('WebhookAttemptFigures', {
    total: z.int(),
    succeeded: z.int(),
    success_rate: z.number().nullable().describe('Between 0 and 1; null without attempts.'),
    latency_p50_ms: z.int().nullable(),
    latency_p95_ms: z.int().nullable(),
    complete: z.boolean().describe('False if only the last 10,000 attempts were counted.'),
  }),
  days: z
    .array(
      resource('WebhookHealthDay', {
        day: z.iso.date().describe('In UTC.'),
        total: z.int(),
        succeeded: z.int(),
        latency_p95_ms: z.int().nullable(),
      }),
    )
    .describe('Days with attempts, oldest first.'),
  undelivered: z.int().describe('Events that wait for their delivery or are parked. Counted up to 10,000.'),
  oldest_undelivered_at: timestamp().nullable().describe('When the oldest of the counted events was recorded.'),
  next_attempt_at: timestamp().nullable().describe('When the next attempt is due; null if none is planned.'),
  events: z.array(WebhookEventStatus).describe('The latest events, newest first.'),
  next_before: z.int().nullable().describe('Send it as `before` for older events; null at the end.'),
})
export type WebhookEndpointHealth = z.output<typeof WebhookEndpointHealth>

export const getWebhookEndpointHealth = operation({
  id: 'webhooks:endpoint_health',
  method: 'GET',
  path: '/v1/webhooks/endpoints/{id}/health',
  summary: 'Get the health of a webhook endpoint',
  description: 'The status of each event, the rate of success and the latency of the last days, and the number of undelivered events.',
  access: merchant(['webhooks:read', 'webhooks:write']),
  costs: 'none',
  params: z.object({ id: uuid() }),
  query: z.object({
    days: integerInText(z.int().min(1).max(30)).default(7).describe('Counts the attempts of this number of days.'),
    status: emptyIsAbsent(WebhookDeliveryStatus).describe('Only events with this status.'),
    before: integerInText(z.int().min(1)).optional().describe('Only events with a smaller number.'),
    limit: pageSize(25),
  }),
  returns: WebhookEndpointHealth,
  fails: [NotPermitted, ResourceNotFound],
})
