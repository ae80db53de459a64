import {
  InvalidRequest,
  ResourceNotFound,
  TooManyRequests,
  type LoggedEvent,
  type Parsed,
  type replayWebhookEndpoint,
  type WebhookDelivery,
  type WebhookReplay,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, later, seconds, stopwatch } from '../../../platform/clock.ts'
import { underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { lastSequence, wake } from '../../../platform/outbox/outbox.sql.ts'
import { waitersPerOrganization, type Waiter } from '../../../platform/outbox/waiters.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { chooseOne, permit } from '../../organizations/index.ts'
import { fillLanes, redeliver as send } from '../records/deliveries.sql.ts'
import { dropSealed } from '../records/sealed.sql.ts'
import { requireWebhookEndpoint as findEndpoint } from '../endpoints/endpoints.ts'
import { lockEndpointOf } from '../endpoints/endpoints.sql.ts'
import {
  advanceReplay,
  archivePayloads,
  countReplayable,
  ensureParts,
  findEvent,
  findReplay,
  insertReplay,
  listEvents,
  queueReplay,
  type AttemptRow,
  type EventQuery,
} from './events.sql.ts'

const keptFor = 90 * days
/** Maximum time that sealed secrets are kept for a disabled endpoint. */
const sealedFor = 30 * days
/** Number of events that a replay queues per batch, and the pause after each batch. */
const pace = { events: 500, every: 1 * seconds }

/** Presents one attempt with its event. */
export const presentAttempt = (row: AttemptRow): z.output<typeof WebhookDelivery> => ({
  id: row.id,
  created_at: row.created_at,
  modified_at: null,
  succeeded: row.succeeded,
  http_code: row.http_code,
  response: row.response,
  endpoint_id: row.endpoint_id,
  event_id: row.event_id,
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
    customer_id: row.customer_id,
    is_archived: row.payload === null,
  },
})

/**
 * Reads the event log in the order of the event numbers. With `wait`, waits until a matching event exists or `wait`
 * seconds have passed. Rejects the request if it must wait and four requests of the organization already wait.
 */
export const readLog = async (
  db: Db,
  scope: TenantScope,
  query: EventQuery & { organization_id: readonly string[]; wait: number },
  joinWaiters: (organization_id: string) => Waiter | undefined,
): Promise<{ items: LoggedEvent[]; last_sequence: number; head_sequence: number }> => {
  const organization_id = chooseOne(scope, query.organization_id)
  permit(scope, organization_id, 'organization:manage')
  const elapsed = stopwatch()
  let { after } = query
  let waiter: Waiter | undefined
  let mayWait = true
  try {
    for (;;) {
      // Read the last event number before the events. The query then sees every event up to that number.
      const last = await lastSequence(db, organization_id)
      const items = await listEvents(db, organization_id, { ...query, after })
      // The next iteration skips events up to this number, because they were already searched.
      after = Math.max(after, last)
      if (items.length > 0 || !mayWait || elapsed() >= query.wait * seconds) {
        const whole = items.length < Math.min(query.limit, 100)
        return { items, head_sequence: last, last_sequence: whole ? Math.max(last, query.after, items.at(-1)?.sequence ?? 0) : items.at(-1)!.sequence }
      }
      if (waiter) mayWait = await waiter.wait(query.wait * seconds - elapsed())
      else {
        // Looks again after it has joined, because an event may have been numbered in between.
        waiter = joinWaiters(organization_id)
        if (!waiter) throw tooManyWaiters()
      }
    }
  } finally {
    waiter?.leave()
  }
}

const tooManyWaiters = () =>
  new TooManyRequests(
    `${waitersPerOrganization} requests already wait for events of this organization. At most ${waitersPerOrganization} may wait at the same time. End one of them, or send wait=0.`,
    { 'retry-after': '5' },
  )

/** Sends an event again, under the same id, to every endpoint that has a delivery of it. A delivery that has ended contains placeholders instead of secrets. */
export const redeliver = async (tx: Tx, scope: TenantScope, id: string): Promise<number> => {
  const event = await findEvent(tx, scope, id)
  if (!event) throw new ResourceNotFound()
  permit(scope, event.organization_id, 'organization:manage')
  if (event.archived)
    throw new InvalidRequest({
      loc: ['path', 'id'],
      msg: 'The body of this event was deleted after 90 days, so it cannot be sent again.',
      type: 'value_error',
      input: id,
    })
  await wake(tx, event.organization_id)
  return send(tx, event.organization_id, id, tx.clock.wall())
}

type ReplayWish = Parsed<typeof replayWebhookEndpoint, 'body'>

/** Counts the events that a replay to an endpoint would send. Starts the replay unless the request is a dry run. */
export const replay = async (tx: Tx, scope: TenantScope, id: string, wish: ReplayWish): Promise<WebhookReplay> => {
  const endpoint = await findEndpoint(tx, scope, id)
  const { organization_id } = endpoint
  if ([wish.event_id, wish.from_sequence, wish.since].filter((one) => one !== null && one !== undefined).length !== 1)
    throw new InvalidRequest({ loc: ['body'], msg: 'Give exactly one of event_id, from_sequence or since.', type: 'value_error' })
  if (!endpoint.enabled && !wish.dry_run)
    throw new InvalidRequest({
      loc: ['path', 'id'],
      msg: 'This endpoint is disabled. Enable it: it then receives the missed events automatically.',
      type: 'value_error',
    })
  const [from, to] = await rangeOf(tx, organization_id, wish)
  const range = { organization_id, endpoint_id: id, from, to, since: wish.since ?? null, include_delivered: wish.include_delivered }
  const total = await countReplayable(tx, range)
  const now = tx.clock.wall()
  const counted = { created_at: now, modified_at: null, endpoint_id: id, total, queued: 0 }
  if (wish.dry_run) return { ...counted, id: null, status: 'counted' }
  const made = { ...counted, id: newId(now), organization_id }
  await insertReplay(tx, { ...made, next_sequence: from, last_sequence: to, since: range.since, include_delivered: wish.include_delivered, due_at: now })
  return { ...made, status: 'running' }
}

const rangeOf = async (tx: Tx, organization_id: string, wish: ReplayWish): Promise<[number, number]> => {
  if (!wish.event_id) return [wish.from_sequence ?? 1, await lastSequence(tx, organization_id)]
  const event = await findEvent(tx, within(organization_id, 'machine', 'phase2'), wish.event_id)
  if (event?.sequence) return [event.sequence, event.sequence]
  throw new InvalidRequest({ loc: ['body', 'event_id'], msg: 'There is no such event.', type: 'value_error', input: wish.event_id })
}

/** Returns the progress of a replay. */
export const watchReplay = async (db: Db, scope: TenantScope, id: string, replay_id: string): Promise<WebhookReplay> => {
  const endpoint = await findEndpoint(db, scope, id)
  const found = await findReplay(db, endpoint.organization_id, replay_id)
  if (!found || found.endpoint_id !== id) throw new ResourceNotFound()
  return { ...found, status: found.due_at === null ? 'done' : 'running' }
}

/** Queues the next events of a replay in order, and then pauses, so that the replay does not delay current events. */
export const stepReplay = ({ transact }: Deps, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (tx) => {
    const { organization_id, id } = lease
    const found = (await findReplay(tx, organization_id, id))!
    const endpoint = await lockEndpointOf(tx, organization_id, found.endpoint_id)
    if (!endpoint?.enabled) return null
    const now = tx.clock.wall()
    const range = { ...found, from: found.next_sequence, to: found.last_sequence }
    const { queued, last } = await fillLanes(tx, endpoint, now, () => queueReplay(tx, range, pace.events, now))
    const next = last === null ? found.last_sequence + 1 : last + 1
    await advanceReplay(tx, organization_id, id, next, queued, now)
    if (queued > 0) await wake(tx, organization_id)
    return queued < pace.events || next > found.last_sequence ? null : later(now, pace.every)
  })

/** Creates the table partitions of the next months. Drops delivered payloads after 90 days, and sealed secrets that no delivery needs. */
export const maintainEvents = async ({ transact, platform }: Deps): Promise<void> => {
  await transact((tx) => ensureParts(tx, platform.clock.wall()))
  await transact((tx) => dropSealed(tx, later(platform.clock.wall(), -sealedFor)))
  while ((await transact((tx) => archivePayloads(tx, later(platform.clock.wall(), -keptFor), 5000))) === 5000);
}
