import { z } from 'zod'
import { integerInText, NotPermitted, operation, resource, session, uuid } from '../kit/index.ts'
import { WebhookEventType } from '../webhooks/webhooks.ts'

/** A hint that a resource changed. It names the resource and contains none of its data. */
export const LiveHint = resource('LiveHint', {
  sequence: z.int().describe('The number of the event. Also the `id` of the message.'),
  kind: WebhookEventType,
  resource: z.string().describe('The part of `kind` before the dot, such as `order`.'),
  resource_id: uuid(),
  customer_id: uuid().nullable(),
})
export type LiveHint = z.output<typeof LiveHint>

/**
 * The messages of a stream by their `event` field. `ready` opens the stream. `hint` contains a LiveHint. After `reset`, the
 * client must load everything again, because too many hints were missed. `end` announces that the server closes the stream.
 */
export const liveMessages = ['ready', 'hint', 'reset', 'end'] as const
export type LiveMessage = (typeof liveMessages)[number]

/** Why the server closes a stream: it stops, the time of the stream is over, or the rights of the person changed. */
export const liveEnds = ['draining', 'time_over', 'rights_changed'] as const
export type LiveEnd = (typeof liveEnds)[number]

export const streamLive = operation({
  id: 'live:stream',
  method: 'GET',
  path: '/v1/live',
  summary: 'Follow changes in an organization',
  description:
    'Server-sent events. A message `hint` has a `LiveHint` as its data and the event number as its id. Only hints of resources that the person may read are sent. A browser that reconnects sends `Last-Event-ID`, and gets the missed hints first. If more than 1,000 hints were missed, `reset` is sent instead. `end` says why the server closes the stream: `draining`, `time_over` or `rights_changed`. A client that reads too slowly is disconnected without a message, and loses nothing if it reconnects. At most 12 streams of a session and 500 of an organization may be open at the same time.',
  access: session('organizations:read'),
  costs: 'polls',
  media: 'text/event-stream',
  query: z.object({
    organization_id: uuid(),
    wait: integerInText(z.int().min(0).max(3600)).default(3600).describe('Seconds after which the stream ends. With 0, it ends after the missed hints.'),
    last_event_id: integerInText(z.int().min(0)).optional().describe('Like the header `Last-Event-ID`, which takes precedence.'),
  }),
  returns: z.string().describe('A stream of messages: `event`, `id` and `data` as defined for server-sent events.'),
  fails: [NotPermitted],
})
