import { z } from 'zod'
import {
  filter,
  integerInText,
  merchant,
  momentInText,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  stamps,
  text,
  timestamp,
  uuid,
} from '../kit/index.ts'

/** Every kind of event there is, or will be: one may subscribe to all of them from the start. */
export const webhookKinds = [
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
  secret: z.string().describe('Whole when it is new or revealed; otherwise its beginning and end.'),
  organization_id: uuid(),
  events: z.array(WebhookEventType),
  enabled: z.boolean().describe('Off: events are kept, and sent when it is switched on again.'),
  api_version: z.string().describe('The version in which events are written for this endpoint.'),
  strict: z.boolean().describe('Events of one customer wait for those before them, however long those take.'),
  migration_events: z.boolean().describe('Also hears of members that only the member migration makes or takes back.'),
  paused_reason: z
    .enum(['by_hand', 'failing', 'gone'])
    .nullable()
    .describe('Why it is off: by hand, after failing for three days, or because it answered 410.'),
  failing_since: timestamp().nullable().describe('Since when no event has been accepted.'),
  previous_secret_until: timestamp().nullable().describe('Until when events are signed with the secret before as well.'),
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
  succeeded: z.boolean().nullable().describe('Null while it is being tried.'),
  skipped: z.boolean().describe('Not wanted any more when its turn came.'),
  payload: z.string().nullable().describe('The exact body; null once it has been archived.'),
  type: WebhookEventType,
  is_archived: z.boolean(),
})

/** One attempt to hand over an event. */
export const WebhookDelivery = resource('WebhookDelivery', {
  ...stamps,
  id: uuid(),
  succeeded: z.boolean(),
  http_code: z.int().nullable(),
  response: z.string().nullable().describe('The beginning of the answer, or what went wrong.'),
  endpoint_id: uuid(),
  duration_ms: z.int(),
  webhook_event: WebhookEvent,
})

/** An event of the log, as it was when it happened. */
export const LoggedEvent = resource('LoggedEvent', {
  id: uuid().describe('The webhook-id under which it is delivered.'),
  sequence: z.int().describe('Its number in the organization, without gaps.'),
  type: WebhookEventType,
  organization_id: uuid(),
  resource_id: uuid(),
  customer_id: uuid().nullable(),
  api_version: z.string(),
  occurred_at: timestamp().describe('When it counts for the customer.'),
  recorded_at: timestamp().describe('When it was written.'),
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
  query: z.object({ organization_id: filter(uuid()), ...pageQuery }),
  returns: page('WebhookEndpointPage', WebhookEndpoint),
  fails: [],
})

export const createWebhookEndpoint = operation({
  id: 'webhooks:create_webhook_endpoint',
  method: 'POST',
  path: '/v1/webhooks/endpoints',
  summary: 'Create a webhook endpoint',
  description: 'Events are sent by https to a public address only. The secret is shown whole here, and by request.',
  access: write,
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
    'What is absent or null stays as it is. Kinds that are taken out are not sent any more, also where they were waiting. Switched on again, it receives what it missed, in order.',
  access: write,
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
  description: 'It receives nothing further, also of what was waiting.',
  access: write,
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const resetWebhookSecret = operation({
  id: 'webhooks:reset_webhook_endpoint_secret',
  method: 'PATCH',
  path: '/v1/webhooks/endpoints/{id}/secret',
  summary: 'Give a webhook endpoint a new secret',
  description: 'For as long as `overlap` says, events are signed with the secret before as well.',
  access: write,
  params: byId,
  query: z.object({ overlap: integerInText(z.int().min(0).max(604_800)).default(86_400).describe('Seconds; a day unless said otherwise, a week at most.') }),
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
  query: z.object({
    endpoint_id: filter(uuid()),
    start_timestamp: momentInText().describe('After this moment.'),
    end_timestamp: momentInText().describe('Before this moment.'),
    succeeded: z
      .enum(['true', 'false', ''])
      .transform((value) => (value === '' ? undefined : value === 'true'))
      .optional(),
    query: z.string().max(256).optional().describe('Part of the id of a delivery or an event, or of the status.'),
    http_code_class: z
      .enum(['2xx', '3xx', '4xx', '5xx', ''])
      .transform((value) => (value === '' ? undefined : value))
      .optional(),
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
  description: 'To every endpoint that it was meant for: the same body and id, newly signed.',
  access: write,
  params: byId,
  returns: resource('WebhookRedelivery', { deliveries: z.int().describe('How many endpoints will receive it.') }),
  status: 202,
  fails: [NotPermitted, ResourceNotFound],
})

const body = () => z.record(z.string(), z.unknown())
export const WebhookEventPreview = resource('WebhookEventPreview', {
  event_id: uuid(),
  sent: body().describe('The body as it is sent.'),
  phase2: body().nullable().describe('The body as it is sent after the switch to members; null where nothing is.'),
  changed: z.array(z.string()).describe('What differs between the two, as `data.customer_id`; empty where nothing is sent.'),
})
export type WebhookEventPreview = z.output<typeof WebhookEventPreview>

export const previewWebhookEvent = operation({
  id: 'webhooks:preview_webhook_event',
  method: 'POST',
  path: '/v1/webhooks/events/{id}/preview',
  summary: 'See an event as after the switch to members',
  description: 'Events about seats and benefits then name the buyer, and customers that only hold seats are not spoken of. Nothing is sent.',
  access: read,
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
    'In the order of their numbers, without gaps. To catch up by pulling, send the last `sequence` as `after`; with `wait`, the answer comes as soon as there is something, or when the time is over.',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    after: integerInText(z.int().min(0)).default(0).describe('Only events with a larger number.'),
    wait: integerInText(z.int().min(0).max(30)).default(0).describe('Seconds to wait for one.'),
    type: filter(WebhookEventType),
    resource_id: filter(uuid()),
    start_timestamp: momentInText().describe('Recorded at or after this moment.'),
    end_timestamp: momentInText().describe('Recorded before this moment.'),
    limit: integerInText(z.int().min(1)).default(100).describe('100 at most.'),
  }),
  returns: resource('LoggedEvents', {
    items: z.array(LoggedEvent),
    last_sequence: z.int().describe('Send it as `after` to go on.'),
    head_sequence: z.int().describe('The last number that was given so far.'),
  }),
  fails: [NotPermitted],
})

export const WebhookReplay = resource('WebhookReplay', {
  ...stamps,
  id: uuid().nullable().describe('Null where only counted.'),
  endpoint_id: uuid(),
  status: z.enum(['counted', 'running', 'done']),
  total: z.int().describe('Events to be sent again.'),
  queued: z.int().describe('Events handed to delivery so far.'),
})
export type WebhookReplay = z.output<typeof WebhookReplay>

export const replayWebhookEndpoint = operation({
  id: 'webhooks:replay_webhook_endpoint',
  method: 'POST',
  path: '/v1/webhooks/endpoints/{id}/replay',
  summary: 'Send events to an endpoint again',
  description:
    'One event, everything from a number on, or everything since a moment. What was delivered is left out unless asked for. With `dry_run`, it is only counted.',
  access: write,
  params: byId,
  body: resource('WebhookReplayCreate', {
    event_id: uuid().nullish().describe('This one alone.'),
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
  summary: 'See how far a replay has come',
  access: read,
  params: byId.extend({ replay_id: uuid() }),
  returns: WebhookReplay,
  fails: [NotPermitted, ResourceNotFound],
})
