import { request } from 'node:http'
import { createCustomer, listEvents } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fairStopwatch } from '../../../test/harness/fair.ts'
import { eventually, openWorld, type World } from '../../../test/harness/world.ts'
import { waitersPerOrganization } from './waiters.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const query = async <T>(text: string) => (await world.database.owner((owner) => owner.query(text))).rows as T[]
const listeners = () => query<{ pid: number }>(`select pid from pg_stat_activity where datname = current_database() and application_name = 'bursar_events'`)
/** Lists the connections of the API that run a statement or hold a transaction. */
const sessions = () =>
  query<{ query: string; xact_start: Date | null }>(
    `select query, xact_start from pg_stat_activity where datname = current_database() and application_name = 'bursar_api' and state <> 'idle'`,
  )

let serial = 0
const open = async () => {
  const shop = await world.shop()
  const head = async () => (await shop.api.call(listEvents, { query: { limit: '1' } })).head_sequence
  const poll = (after: number, wait: number, type = 'customer.created') =>
    shop.api.send(listEvents, { query: { after: String(after), wait: String(wait), type } })
  const customer = () => shop.api.call(createCustomer, { body: { email: `waited-${serial++}@people.test` } })
  const full = () =>
    eventually('four requests wait', async () => {
      const metrics = await world.base.telemetry.metrics()
      return metrics.includes(`bursar_waiting_event_requests{of=""} ${waitersPerOrganization}\n`)
    })
  return { ...shop, head, poll, customer, full }
}

test('refuses the fifth waiting request of an organization, and answers the four with the next event', async () => {
  const shop = await open()
  const after = await shop.head()
  const waiting = Array.from({ length: waitersPerOrganization }, () => shop.poll(after, 30))
  await shop.full()
  const refused = await shop.poll(after, 30)
  expect(refused.status).toBe(429)
  expect(refused.body).toMatchObject({ error: 'TooManyRequests', detail: expect.stringMatching(/4 requests already wait.*wait=0/) })
  expect(refused.headers.get('retry-after')).toBe('5')
  // Requests that need not wait are not limited, and neither are other organizations.
  expect((await shop.poll(after, 0)).status).toBe(200)
  const other = await open()
  expect((await other.poll(0, 1)).status).toBe(200)
  // Waiting requests hold no connection and run no statement.
  expect(await sessions()).toEqual([])
  expect(await listeners()).toHaveLength(1)
  const since = fairStopwatch()
  await shop.customer()
  for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject({ status: 200, body: { items: [{ type: 'customer.created' }] } })
  expect(since()).toBeLessThan(5_000)
  expect((await shop.poll(await shop.head(), 1)).status).toBe(200)
})

test('wakes the waiting requests after its connection was lost, so that no event is missed', async () => {
  const shop = await open()
  const after = await shop.head()
  const waiting = [shop.poll(after, 30), shop.poll(after, 30), shop.poll(after, 30), shop.poll(after, 30)]
  await shop.full()
  // The event is numbered without a notification, as if it had been lost with the connection.
  await world.working!.close()
  await shop.customer()
  const { id } = shop.organization
  await world.database.owner(async (owner) => {
    const { rows } = await owner.query<{ id: string }>('select id from events where organization_id = $1 and sequence is null order by position', [id])
    for (const [at, event] of rows.entries()) await owner.query('update events set sequence = $2 where id = $1', [event.id, after + at + 1])
    await owner.query('insert into event_heads values ($1, $2) on conflict (organization_id) do update set last_sequence = $2', [id, after + rows.length])
  })
  const [before] = await listeners()
  const since = fairStopwatch()
  await query(`select pg_terminate_backend(${before!.pid})`)
  for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject({ status: 200, body: { items: [{ type: 'customer.created' }] } })
  // Without the wake-up, the requests look again only when their 30 seconds are over.
  expect(since()).toBeLessThan(10_000)
  expect((await listeners()).map(({ pid }) => pid)).not.toEqual([before!.pid])
})

test('frees the place of a client that disconnects', async () => {
  const shop = await open()
  const after = await shop.head()
  const token = (await shop.organization.token()).secret.reveal()
  const left = Array.from({ length: waitersPerOrganization }, () => {
    const sent = request({
      host: '127.0.0.1',
      port: world.port,
      path: `/v1/webhooks/events?after=${after}&wait=30`,
      headers: { authorization: `Bearer ${token}` },
    })
    sent.on('error', () => {})
    sent.end()
    return sent
  })
  await shop.full()
  for (const sent of left) sent.destroy()
  await eventually('a place is free', async () => (await shop.poll(after, 1)).status === 200, 20_000)
})
