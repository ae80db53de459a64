import { z } from 'zod'
import {
  emptyIsAbsent,
  filter,
  flagInText,
  integerInText,
  merchant,
  momentInText,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  pageSize,
  resource,
  ResourceNotFound,
  stamps,
  text,
  timestamp,
  uuid,
} from '../kit/index.ts'

/** The event types of the 2026-04 contract, including those not emitted yet, so that endpoints can subscribe to every type from the start. */
export const contractKinds = [
  'checkout.created',
  'checkout.updated',
  'checkout.expired',
  'customer.created',
  'customer.updated',
  'customer.deleted',
  'customer.state_changed',
  'customer_seat.assigned',
  'customer_seat.claimed',
  'customer_seat.revoked',
  'member.created',
  'member.updated',
  'member.deleted',
  'order.created',
  'order.updated',
  'order.paid',
  'order.refunded',
  'subscription.created',
  'subscription.updated',
  'subscription.active',
  'subscription.canceled',
  'subscription.uncanceled',
  'subscription.cycled',
  'subscription.revoked',
  'subscription.past_due',
  'subscription.paused',
  'subscription.resumed',
  'refund.created',
  'refund.updated',
  'product.created',
  'product.updated',
  'discount.created',
  'discount.updated',
  'discount.deleted',
  'benefit.created',
  'benefit.updated',
  'benefit_grant.created',
  'benefit_grant.cycled',
  'benefit_grant.updated',
  'benefit_grant.revoked',
  'organization.updated',
] as const

/** The event types that only Bursar has. Older clients refuse types that they do not know. So name them to receive them. */
export const ownKinds = ['usage.threshold_reached'] as const

/** All event types that an endpoint can subscribe to. */
export const webhookKinds = [...contractKinds, ...ownKinds] as const

export const WebhookEventType = named('WebhookEventType', z.enum(webhookKinds))
export type WebhookEventType = z.output<typeof WebhookEventType>
export const WebhookFormat = named('WebhookFormat', z.enum(['raw', 'discord', 'slack']))
export type WebhookFormat = z.output<typeof WebhookFormat>

export const WebhookEndpoint = resource('WebhookEndpoint', {
  ...stamps,
  id: uuid(),
  url: z.string(),
  name: z.string().nullable(),
  format: WebhookFormat,
  secret: z.string().describe('Complete when it is created or revealed; otherwise only its first and last characters.'),
  organization_id: uuid(),
  events: z.array(WebhookEventType),
  enabled: z.boolean().describe('While false, events are kept. They are sent after the endpoint is enabled again.'),
  api_version: z.string().describe('The API version of the events for this endpoint.'),
  strict: z.boolean().describe('True: an event waits until all earlier events of the same customer are delivered.'),
  migration_events: z.boolean().describe('True: also sends events for members that the member migration creates or removes.'),
  paused_reason: z
    .enum(['by_hand', 'failing', 'gone'])
    .nullable()
    .describe('Why the endpoint is disabled: by hand, after three days of failures, or because it answered 410.'),
  failing_since: timestamp().nullable().describe('Since when no event has been accepted.'),
  previous_secret_until: timestamp().nullable().describe('Until when events are also signed with the previous secret.'),
})
export type WebhookEndpoint = z.output<typeof WebhookEndpoint>

const address = () => z.string().trim().min(1).max(2083)
const kinds = () =>
  z
    .array(WebhookEventType)
    .max(webhookKinds.length)
    .transform((list) => [...new Set(list)])

export const WebhookEndpointCreate = resource('WebhookEndpointCreate', {
  url: address(),
  name: text(0, 256).nullish(),
  format: WebhookFormat,
  events: kinds(),
  strict: z.boolean().default(false),
  migration_events: z.boolean().nullish(),
  organization_id: uuid().nullish(),
})
export const WebhookEndpointUpdate = resource('WebhookEndpointUpdate', {
  url: address().nullish(),
  name: text(0, 256).nullish(),
  format: WebhookFormat.nullish(),
  events: kinds().nullish(),
  strict: z.boolean().nullish(),
  migration_events: z.boolean().nullish(),
  enabled: z.boolean().nullish(),
})

export const WebhookEvent = resource('WebhookEvent', {
  ...stamps,
  id: uuid(),
  last_http_code: z.int().nullable(),
  succeeded: z.boolean().nullable().describe('Null while the delivery is in progress.'),
  skipped: z.boolean().describe('True if the endpoint no longer wanted the event when it was due.'),
  payload: z.string().nullable().describe('The exact body; null once it has been archived.'),
  type: WebhookEventType,
  customer_id: uuid().nullable().describe('The customer that the event is about; null if it is about none.'),
  is_archived: z.boolean(),
})

/** One attempt to deliver an event. */
export const WebhookDelivery = resource('WebhookDelivery', {
  ...stamps,
  id: uuid(),
  succeeded: z.boolean(),
  http_code: z.int().nullable(),
  response: z.string().nullable().describe('The beginning of the answer, or the error.'),
  endpoint_id: uuid(),
  event_id: uuid().describe('The `webhook-id` of the delivery.'),
  duration_ms: z.int(),
  webhook_event: WebhookEvent,
})

/** An event of the event log, as it was when it occurred. */
export const LoggedEvent = resource('LoggedEvent', {
  id: uuid().describe('The `webhook-id` of its deliveries.'),
  sequence: z.int().describe('The number of the event within the organization, without gaps.'),
  type: WebhookEventType,
  organization_id: uuid(),
  resource_id: uuid(),
  customer_id: uuid().nullable(),
  api_version: z.string(),
  occurred_at: timestamp().describe('When the event occurred for the customer.'),
  recorded_at: timestamp().describe('When the event was recorded.'),
  payload: z.string().nullable().describe('The exact body that is delivered; null once it has been archived.'),
})
export type LoggedEvent = z.output<typeof LoggedEvent>

const read = merchant(['webhooks:read', 'webhooks:write'])
const write = merchant('webhooks:write')
const byId = z.object({ id: uuid() })

export const listWebhookEndpoints = operation({
  id: 'webhooks:list_webhook_endpoints',
  method: 'GET',
  path: '/v1/webhooks/endpoints',
  summary: 'List webhook endpoints',
  access: read,
  costs: 'none',
  query: z.object({ organization_id: filter(uuid()), ...pageQuery }),
  returns: page('WebhookEndpointPage', WebhookEndpoint),
  fails: [],
})

export const createWebhookEndpoint = operation({
  id: 'webhooks:create_webhook_endpoint',
  method: 'POST',
  path: '/v1/webhooks/endpoints',
  summary: 'Create a webhook endpoint',
  description: 'Events are sent by https to public addresses only. The complete secret is in this answer, and can be revealed later.',
  access: write,
  costs: 'none',
  body: WebhookEndpointCreate,
  returns: WebhookEndpoint,
  status: 201,
  reveals: true,
  fails: [NotPermitted],
})

export const getWebhookEndpoint = operation({
  id: 'webhooks:get_webhook_endpoint',
  method: 'GET',
  path: '/v1/webhooks/endpoints/{id}',
  summary: 'Get a webhook endpoint',
  access: read,
  costs: 'none',
  params: byId,
  returns: WebhookEndpoint,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateWebhookEndpoint = operation({
  id: 'webhooks:update_webhook_endpoint',
  method: 'PATCH',
  path: '/v1/webhooks/endpoints/{id}',
  summary: 'Update a webhook endpoint',
  description:
    'Fields that are absent or null stay unchanged. Pending events of removed types are not sent. An endpoint that is enabled again receives the missed events in order.',
  access: write,
  costs: 'jobs',
  params: byId,
  body: WebhookEndpointUpdate,
  returns: WebhookEndpoint,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteWebhookEndpoint = operation({
  id: 'webhooks:delete_webhook_endpoint',
  method: 'DELETE',
  path: '/v1/webhooks/endpoints/{id}',
  summary: 'Delete a webhook endpoint',
  description: 'The endpoint receives no more events. Pending events are dropped.',
  access: write,
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const resetWebhookSecret = operation({
  id: 'webhooks:reset_webhook_endpoint_secret',
  method: 'PATCH',
  path: '/v1/webhooks/endpoints/{id}/secret',
  summary: 'Rotate the secret of a webhook endpoint',
  description: 'For the seconds in `overlap`, events are also signed with the previous secret.',
  access: write,
  costs: 'none',
  params: byId,
  query: z.object({ overlap: integerInText(z.int().min(0).max(604_800)).default(86_400).describe('Seconds. Defaults to a day; at most a week.') }),
  returns: WebhookEndpoint,
  reveals: true,
  fails: [NotPermitted, ResourceNotFound],
})

export const revealWebhookSecret = operation({
  id: 'webhooks:reveal_webhook_endpoint_secret',
  method: 'POST',
  path: '/v1/webhooks/endpoints/{id}/reveal',
  summary: "Show a webhook endpoint's secret",
  access: write,
  costs: 'none',
  params: byId,
  returns: WebhookEndpoint,
  reveals: true,
  fails: [NotPermitted, ResourceNotFound],
})

export const listWebhookDeliveries = operation({
  id: 'webhooks:list_webhook_deliveries',
  method: 'GET',
  path: '/v1/webhooks/deliveries',
  summary: 'List webhook deliveries',
  description: 'Every attempt, newest first.',
  access: read,
  costs: 'none',
  query: z.object({
    endpoint_id: filter(uuid()),
    event_id: filter(uuid()),
    start_timestamp: momentInText().describe('After this moment.'),
    end_timestamp: momentInText().describe('Before this moment.'),
    succeeded: flagInText(),
    query: z.string().max(256).optional().describe('Part of the id of a delivery or an event, or of the status.'),
    http_code_class: emptyIsAbsent(z.enum(['2xx', '3xx', '4xx', '5xx'])),
    event_type: filter(WebhookEventType),
    ...pageQuery,
  }),
  returns: page('WebhookDeliveryPage', WebhookDelivery),
  fails: [],
})

export const redeliverWebhookEvent = operation({
  id: 'webhooks:redeliver_webhook_event',
  method: 'POST',
  path: '/v1/webhooks/events/{id}/redeliver',
  summary: 'Deliver an event again',
  description: 'Sends the event again to every endpoint that subscribed to it: same body and id, new signature.',
  access: write,
  costs: 'jobs',
  params: byId,
  returns: resource('WebhookRedelivery', { deliveries: z.int().describe('How many endpoints will receive it.') }),
  status: 202,
  fails: [NotPermitted, ResourceNotFound],
})

const body = () => z.record(z.string(), z.unknown())
export const WebhookEventPreview = resource('WebhookEventPreview', {
  event_id: uuid(),
  sent: body().describe('The body as it is sent.'),
  phase2: body().nullable().describe('The body that is sent after the switch to members; null if nothing is sent.'),
  changed: z.array(z.string()).describe('The paths that differ, such as `data.customer_id`; empty if nothing is sent.'),
})
export type WebhookEventPreview = z.output<typeof WebhookEventPreview>

export const previewWebhookEvent = operation({
  id: 'webhooks:preview_webhook_event',
  method: 'POST',
  path: '/v1/webhooks/events/{id}/preview',
  summary: 'Preview an event after the switch to members',
  description: 'Events about seats and benefits then name the buyer. Customers that only hold seats have no events. Nothing is sent.',
  access: read,
  costs: 'none',
  params: byId,
  returns: WebhookEventPreview,
  fails: [NotPermitted, ResourceNotFound],
})

export const listEvents = operation({
  id: 'webhooks:list_events',
  method: 'GET',
  path: '/v1/webhooks/events',
  summary: 'Read the event log',
  description:
    'Events in the order of their numbers, without gaps. To poll, send the last `sequence` as `after`. With `wait`, the answer comes when there is an event, or when the time is over. At most four requests of an organization may wait at the same time. Another one gets 429; it can end one of them or send `wait=0`.',
  access: read,
  costs: 'polls',
  query: z.object({
    organization_id: filter(uuid()),
    after: integerInText(z.int().min(0)).default(0).describe('Only events with a larger number.'),
    wait: integerInText(z.int().min(0).max(30)).default(0).describe('Seconds to wait for an event.'),
    type: filter(WebhookEventType),
    resource_id: filter(uuid()),
    customer_id: filter(uuid()).describe('Only events about these customers.'),
    start_timestamp: momentInText().describe('Recorded at or after this moment.'),
    end_timestamp: momentInText().describe('Recorded before this moment.'),
    limit: pageSize(100),
  }),
  returns: resource('LoggedEvents', {
    items: z.array(LoggedEvent),
    last_sequence: z.int().describe('Send it as `after` to get the next events.'),
    head_sequence: z.int().describe('The highest number so far.'),
  }),
  fails: [NotPermitted],
})

export const WebhookReplay = resource('WebhookReplay', {
  ...stamps,
  id: uuid().nullable().describe('Null for a dry run.'),
  endpoint_id: uuid(),
  status: z.enum(['counted', 'running', 'done']),
  total: z.int().describe('Events to send again.'),
  queued: z.int().describe('Events handed to delivery so far.'),
})
export type WebhookReplay = z.output<typeof WebhookReplay>

export const replayWebhookEndpoint = operation({
  id: 'webhooks:replay_webhook_endpoint',
  method: 'POST',
  path: '/v1/webhooks/endpoints/{id}/replay',
  summary: 'Send events to an endpoint again',
  description:
    'Sends one event, all events from a number on, or all events since a time. Delivered events are skipped by default. A `dry_run` only counts them.',
  access: write,
  costs: 'jobs',
  params: byId,
  body: resource('WebhookReplayCreate', {
    event_id: uuid().nullish().describe('Only this event.'),
    from_sequence: z.int().min(1).nullish().describe('From this number on.'),
    since: z.iso
      .datetime({ offset: true })
      .transform((value) => new Date(value))
      .nullish()
      .describe('Recorded at or after this moment.'),
    include_delivered: z.boolean().default(false),
    dry_run: z.boolean().default(false),
  }),
  returns: WebhookReplay,
  status: 202,
  fails: [NotPermitted, ResourceNotFound],
})

export const getWebhookReplay = operation({
  id: 'webhooks:get_webhook_replay',
  method: 'GET',
  path: '/v1/webhooks/endpoints/{id}/replays/{replay_id}',
  summary: 'Get the progress of a replay',
  access: read,
  costs: 'none',
  params: byId.extend({ replay_id: uuid() }),
  returns: WebhookReplay,
  fails: [NotPermitted, ResourceNotFound],
})
