import type { ServerResponse } from 'node:http'
import { createCustomer, createWebhookEndpoint } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fairStopwatch } from '../../../test/harness/fair.ts'
import { openSink, type Sink } from '../../../test/harness/sink.ts'
import { eventually, openWorld, type World } from '../../../test/harness/world.ts'
import { openSendingSlots } from './deliveries/sending-slots.ts'
import type { Claimed, Outcome } from './records/deliveries.sql.ts'

describe('deliveries of two organizations', () => {
  let world: World
  let sink: Sink
  const concurrency = 32
  beforeAll(async () => {
    sink = await openSink()
    world = await openWorld({
      worker: true,
      settings: { BURSAR_EGRESS_LOOPBACK: 'true', BURSAR_WEBHOOK_TIMEOUT_MS: '60000', BURSAR_WEBHOOK_CONCURRENCY: String(concurrency) },
    })
  })
  afterAll(async () => {
    sink.close()
    await world.close()
  })

  test('sends the event of one organization at once while all endpoints of another one hang', async () => {
    const slow = await world.shop()
    const held: ServerResponse[] = []
    const endpoints = 12
    for (let at = 0; at < endpoints; at++) {
      sink.answer(`/slow/${at}`, (answer) => void held.push(answer))
      await slow.api.call(createWebhookEndpoint, { body: { url: sink.url(`/slow/${at}`), format: 'raw', events: ['customer.created'] } })
    }
    for (let at = 0; at < 8; at++) await slow.api.call(createCustomer, { body: { email: `slow-${at}@people.test` } })
    await eventually('all deliveries of the slow organization exist', async () => {
      const { rows } = await world.database.owner((owner) => owner.query('select from webhook_deliveries where organization_id = $1', [slow.organization.id]))
      return rows.length === endpoints * 8
    })
    await eventually('the slow organization uses its slots', async () => held.length >= concurrency / 4)

    const quick = await world.shop()
    await quick.api.call(createWebhookEndpoint, { body: { url: sink.url('/quick'), format: 'raw', events: ['customer.created'] } })
    const since = fairStopwatch()
    await quick.api.call(createCustomer, { body: { email: 'quick@people.test' } })
    await sink.until('/quick', 1, 15_000)
    expect(since()).toBeLessThan(3_000)
    expect(held).toHaveLength(concurrency / 4)

    // Every delivery of the slow organization is sent once its endpoints answer, each exactly once.
    for (let at = 0; at < endpoints; at++) sink.answer(`/slow/${at}`, 200)
    for (const answer of held) answer.writeHead(200).end()
    for (let at = 0; at < endpoints; at++) await sink.until(`/slow/${at}`, 8, 30_000)
    await eventually('all are delivered', async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query(`select from webhook_deliveries where organization_id = $1 and status <> 'delivered'`, [slow.organization.id]),
      )
      return rows.length === 0
    })
    for (let at = 0; at < endpoints; at++) expect(new Set(sink.of(`/slow/${at}`).map(({ headers }) => headers['webhook-id'])).size).toBe(8)
    expect(sink.received.filter(({ path }) => path.startsWith('/slow/'))).toHaveLength(endpoints * 8)
  })
})

describe('slots of one worker', () => {
  const claim = (organization_id: string, endpoint_id: string, count: number): Claimed[] =>
    Array.from({ length: count }, () => ({ organization_id, endpoint_id, room: 32 }) as Claimed)
  const outcome = (claimed: Claimed, status: 'delivered' | 'waiting', duration_ms: number): Outcome => ({
    claimed,
    status,
    due_at: null,
    attempt: { id: '', at: new Date(0), http_code: 200, response: '', duration_ms },
  })
  type Slots = ReturnType<typeof openSendingSlots>
  /** Starts the waiting deliveries of an organization until it has no room. */
  const startAll = (slots: Slots, organization_id: string): Claimed[] => {
    const started: Claimed[] = []
    for (let next = slots.next(organization_id); next; next = slots.next(organization_id)) started.push(next)
    return started
  }
  const take = (slots: Slots, claimed: readonly Claimed[]): Claimed[] => {
    slots.take(claimed)
    return startAll(slots, claimed[0]!.organization_id)
  }
  const run = (slots: Slots, times: number, status: 'delivered' | 'waiting', duration_ms: number) => {
    for (let at = 0; at < times; at++) for (const one of take(slots, claim('a', 'a1', 1))) slots.free(one, outcome(one, status, duration_ms))
  }
  const countOf = (started: readonly Claimed[], endpoint_id: string) => started.filter((one) => one.endpoint_id === endpoint_id).length

  test('limits an organization to a quarter, over all its endpoints, and starts its waiting deliveries in turn', () => {
    const slots = openSendingSlots(64)
    const started = take(slots, [...claim('a', 'a1', 12), ...claim('a', 'a2', 12)])
    expect([countOf(started, 'a1'), countOf(started, 'a2')]).toEqual([8, 8])
    expect(take(slots, claim('b', 'b1', 20))).toHaveLength(16)
    expect(slots.next('a')).toBeUndefined()
    slots.free(started[0]!, outcome(started[0]!, 'delivered', 5))
    expect(slots.next('a')?.endpoint_id).toBe('a1')
    expect(slots.next('a')).toBeUndefined()
  })

  test('gives a slow endpoint no more slots than a fast one of the same organization', () => {
    const slots = openSendingSlots(64)
    const started = take(slots, [...claim('a', 'slow', 30), ...claim('a', 'fast', 30)])
    expect(countOf(started, 'slow')).toBe(8)
    // No request to the slow endpoint ends.
    let fast = started.filter((one) => one.endpoint_id === 'fast')
    for (let round = 0; round < 20; round++) {
      for (const one of fast) slots.free(one, outcome(one, 'delivered', 5))
      fast = take(slots, claim('a', 'fast', 8))
      expect([countOf(fast, 'slow'), countOf(fast, 'fast')]).toEqual([0, 8])
    }
  })

  test.each([
    ['always takes seconds', 'delivered', 2500],
    ['always fails', 'waiting', 5],
  ] as const)('sends two requests at a time to an endpoint that %s, until it answers in time', (_, status, duration_ms) => {
    const slots = openSendingSlots(256)
    run(slots, 7, status, duration_ms)
    expect(slots.limits().taken.get('a1') ?? 0).toBe(0)
    run(slots, 1, status, duration_ms)
    expect(slots.limits().taken.get('a1')).toBe(28)
    const started = take(slots, claim('a', 'a1', 10))
    expect(started).toHaveLength(2)
    slots.free(started[0]!, outcome(started[0]!, 'delivered', 5))
    expect(startAll(slots, 'a')).toHaveLength(8)
  })
})
