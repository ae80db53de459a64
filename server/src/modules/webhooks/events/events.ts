import {
  InvalidRequest,
  ResourceNotFound,
  type LoggedEvent,
  type Parsed,
  type replayWebhookEndpoint,
  type WebhookDelivery,
  type WebhookReplay,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, later, seconds, stopwatch } from '../../../platform/clock.ts'
import { underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { wake } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { chooseOne, permit } from '../../organizations/index.ts'
import { fillLanes, redeliver as send } from '../deliveries/deliveries.sql.ts'
import { find as findEndpoint } from '../endpoints/endpoints.ts'
import { lockEndpointOf } from '../endpoints/endpoints.sql.ts'
import {
  advanceReplay,
  archivePayloads,
  countReplayable,
  ensureParts,
  findEvent,
  findReplay,
  insertReplay,
  lastSequence,
  listEvents,
  queueReplay,
  type AttemptRow,
  type EventQuery,
} from './events.sql.ts'

const keptFor = 90 * days
/** How many events a replay hands over at a time, and how long it then lets them go out. */
const pace = { events: 500, every: 1 * seconds }
const lookEvery = 200

/** One attempt as the wire shows it, with the event it was about. */
export const presentAttempt = (row: AttemptRow): z.output<typeof WebhookDelivery> => ({
  id: row.id,
  created_at: row.created_at,
  modified_at: null,
  succeeded: row.succeeded,
  http_code: row.http_code,
  response: row.response,
  endpoint_id: row.endpoint_id,
  duration_ms: row.duration_ms,
  webhook_event: {
    id: row.event_id,
    created_at: row.event_at,
    modified_at: row.event_modified_at,
    last_http_code: row.last_http_code,
    succeeded: row.status === 'delivered' ? true : row.status === 'parked' ? false : null,
    skipped: row.status === 'skipped',
    payload: row.payload,
    type: row.kind as z.output<typeof WebhookDelivery>['webhook_event']['type'],
    is_archived: row.payload === null,
  },
})

/** The log in the order of its numbers; with time to wait, not before there is something to read. */
export const readLog = async (
  db: Db,
  reach: Reach,
  query: EventQuery & { organization_id: readonly string[]; wait: number },
): Promise<{ items: LoggedEvent[]; last_sequence: number; head_sequence: number }> => {
  const organization_id = chooseOne(reach, query.organization_id)
  permit(reach, organization_id, 'organization:manage')
  const elapsed = stopwatch()
  let { after } = query
  for (;;) {
    // The number first: what is counted by then is seen by the look that follows.
    const last = await lastSequence(db, organization_id)
    const items = await listEvents(db, organization_id, { ...query, after })
    // What was looked through once need not be again.
    after = Math.max(after, last)
    if (items.length > 0 || elapsed() >= query.wait * seconds) {
      const whole = items.length < Math.min(query.limit, 100)
      return { items, head_sequence: last, last_sequence: whole ? Math.max(last, query.after, items.at(-1)?.sequence ?? 0) : items.at(-1)!.sequence }
    }
    await new Promise((resolve) => setTimeout(resolve, lookEvery))
  }
}

/** An event goes out again to every endpoint that it was meant for: the same body and id. */
export const redeliver = async (tx: Tx, reach: Reach, id: string): Promise<number> => {
  const event = await findEvent(tx, reach, id)
  if (!event) throw new ResourceNotFound()
  permit(reach, event.organization_id, 'organization:manage')
  if (event.archived)
    throw new InvalidRequest({
      loc: ['path', 'id'],
      msg: 'The body of this event was dropped after 90 days: it cannot be sent again.',
      type: 'value_error',
      input: id,
    })
  await wake(tx, event.organization_id)
  return send(tx, event.organization_id, id, tx.clock.wall())
}

type ReplayWish = Parsed<typeof replayWebhookEndpoint, 'body'>

/** Counts what would be sent again, and unless that was all, sees to it. */
export const replay = async (tx: Tx, reach: Reach, id: string, wish: ReplayWish): Promise<WebhookReplay> => {
  const endpoint = await findEndpoint(tx, reach, id)
  const { organization_id } = endpoint
  if ([wish.event_id, wish.from_sequence, wish.since].filter((one) => one !== null && one !== undefined).length !== 1)
    throw new InvalidRequest({ loc: ['body'], msg: 'Say what to send again: event_id, from_sequence or since, one of them.', type: 'value_error' })
  if (!endpoint.enabled && !wish.dry_run)
    throw new InvalidRequest({
      loc: ['path', 'id'],
      msg: 'This endpoint is off. Switch it on: it then receives what it missed by itself.',
      type: 'value_error',
    })
  const [from, to] = await rangeOf(tx, organization_id, wish)
  const scope = { organization_id, endpoint_id: id, from, to, since: wish.since ?? null, include_delivered: wish.include_delivered }
  const total = await countReplayable(tx, scope)
  const now = tx.clock.wall()
  const counted = { created_at: now, modified_at: null, endpoint_id: id, total, queued: 0 }
  if (wish.dry_run) return { ...counted, id: null, status: 'counted' }
  const made = { ...counted, id: newId(now), organization_id }
  await insertReplay(tx, { ...made, next_sequence: from, last_sequence: to, since: scope.since, include_delivered: wish.include_delivered, due_at: now })
  return { ...made, status: 'running' }
}

const rangeOf = async (tx: Tx, organization_id: string, wish: ReplayWish): Promise<[number, number]> => {
  if (!wish.event_id) return [wish.from_sequence ?? 1, await lastSequence(tx, organization_id)]
  const event = await findEvent(tx, within(organization_id, 'machine', 'phase2'), wish.event_id)
  if (event?.sequence) return [event.sequence, event.sequence]
  throw new InvalidRequest({ loc: ['body', 'event_id'], msg: 'There is no such event.', type: 'value_error', input: wish.event_id })
}

/** How far a replay has come. */
export const watchReplay = async (db: Db, reach: Reach, id: string, replay_id: string): Promise<WebhookReplay> => {
  const endpoint = await findEndpoint(db, reach, id)
  const found = await findReplay(db, endpoint.organization_id, replay_id)
  if (!found || found.endpoint_id !== id) throw new ResourceNotFound()
  return { ...found, status: found.due_at === null ? 'done' : 'running' }
}

/** One step of a replay: the next events are handed over, in order; then it pauses, so that what happens now is not drowned by what happened before. */
export const stepReplay = ({ transact }: Means, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (tx) => {
    const { organization_id, id } = lease
    const found = (await findReplay(tx, organization_id, id))!
    const endpoint = await lockEndpointOf(tx, organization_id, found.endpoint_id)
    if (!endpoint?.enabled) return null
    const now = tx.clock.wall()
    const scope = { ...found, from: found.next_sequence, to: found.last_sequence }
    const { queued, last } = await fillLanes(tx, endpoint, now, () => queueReplay(tx, scope, pace.events, now))
    const next = last === null ? found.last_sequence + 1 : last + 1
    await advanceReplay(tx, organization_id, id, next, queued, now)
    if (queued > 0) await wake(tx, organization_id)
    return queued < pace.events || next > found.last_sequence ? null : later(now, pace.every)
  })

/** Makes room for what comes, and drops bodies that were delivered long ago. */
export const keep = async ({ transact, platform }: Means): Promise<void> => {
  await transact((tx) => ensureParts(tx, platform.clock.wall()))
  while ((await transact((tx) => archivePayloads(tx, later(platform.clock.wall(), -keptFor), 5000))) === 5000);
}
