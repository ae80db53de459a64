import { inWallTime } from '../../platform/clocks.sql.ts'
import { readFileSync } from 'node:fs'
import {
  createCheckout,
  createProduct,
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  listEvents,
  listWebhookDeliveries,
  previewWebhookEvent,
  redeliverWebhookEvent,
  secret,
  updateWebhookEndpoint,
  webhook,
} from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { openSink, type Received, type Sink } from '../../../test/harness/sink.ts'
import { eventually, openWorld, type World } from '../../../test/harness/world.ts'
import { newId } from '../../kernel/ids.ts'
import { newToken } from '../../kernel/secrets.ts'
import { encodeRedacted, restore } from '../../platform/encode.ts'
import { emit } from '../../platform/outbox/outbox.sql.ts'
import { maintainEvents } from './events/events.ts'

let world: World
let sink: Sink
beforeAll(async () => {
  sink = await openSink()
  world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true', BURSAR_WEBHOOK_SCHEDULE: '0.1,0.1' } })
})
afterAll(async () => {
  await world.close()
  sink.close()
})

const day = 86_400_000
let paths = 0
/** Creates a shop with one product. Returns functions that create checkouts, and endpoints for `checkout.created` at the test receiver. */
const open = async () => {
  const { api, organization } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 900, price_currency: 'usd' }] } })
  return {
    api,
    checkout: () => api.call(createCheckout, { body: { products: [product.id], metadata: { note: 'redacted "redacted" \u00e9' } } }),
    endpoint: async () => {
      const path = `/secrets/${paths++}`
      return { path, ...(await api.call(createWebhookEndpoint, { body: { url: sink.url(path), format: 'raw', events: ['checkout.created'] } })) }
    },
    /** Returns the row of the shop's only event. */
    event: async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ id: string; payload: string; secrets_sealed: string | null; sequence: string | null }>(
          `select id, payload::text, secrets_sealed, sequence from events where organization_id = $1 and kind = 'checkout.created'`,
          [organization.id],
        ),
      )
      return rows[0]!
    },
    deliveries: async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ status: string }>('select status from webhook_deliveries where organization_id = $1 order by created_at, id', [organization.id]),
      )
      return rows.map(({ status }) => status)
    },
  }
}
type Shop = Awaited<ReturnType<typeof open>>

interface Shown {
  readonly client_secret: string
  readonly url: string
  readonly success_url: string
}
const shownIn = (body: string): Shown => {
  const { client_secret, url, success_url } = (JSON.parse(body) as { data: Shown }).data
  return { client_secret, url, success_url }
}
const whole = ({ client_secret, url, success_url }: Shown): Shown => ({ client_secret, url, success_url })
const redacted: Shown = { client_secret: 'redacted', url: 'https://bursar.test/redacted', success_url: 'https://bursar.test/redacted' }

/** Expects that both official client libraries verify and parse the body. */
const parses = async ({ body, headers }: Received, key: string) => {
  expect(validateEvent(body, headers, key)).toMatchObject({ type: 'checkout.created' })
  expect(await currentWebhooks.validateEvent(body, headers, key)).toMatchObject({ type: 'checkout.created' })
}
const unsealed = (shop: Shop) => eventually('the sealed secrets of the event are deleted', async () => (await shop.event()).secrets_sealed === null)

test('sends the client secret and URL of a checkout in a delivery, but placeholders in the log, the preview and a replay', async () => {
  const shop = await open()
  const endpoint = await shop.endpoint()
  const made = await shop.checkout()
  const [first] = await sink.until(endpoint.path, 1)
  expect(shownIn(first!.body)).toEqual(whole(made))
  await parses(first!, endpoint.secret)
  await unsealed(shop)
  const { id, payload } = await shop.event()
  expect(payload).not.toContain(made.client_secret.slice(-20))
  const logged = (await shop.api.call(listEvents, { query: { type: ['checkout.created'] } })).items[0]!
  expect(shownIn(logged.payload!)).toEqual(redacted)
  const { sent } = await shop.api.call(previewWebhookEvent, { params: { id } })
  expect(shownIn(JSON.stringify(sent))).toEqual(redacted)
  const attempts = await eventually('the delivery attempt is listed', async () => {
    const { items } = await shop.api.call(listWebhookDeliveries, { query: { endpoint_id: endpoint.id } })
    return items.length > 0 && items
  })
  expect(shownIn(attempts[0]!.webhook_event.payload!)).toEqual(redacted)
  await shop.api.call(redeliverWebhookEvent, { params: { id } })
  const [, again] = await sink.until(endpoint.path, 2)
  expect([again!.headers['webhook-id'], again!.body]).toEqual([first!.headers['webhook-id'], payload])
  expect(shownIn(again!.body)).toEqual(redacted)
  await parses(again!, endpoint.secret)
})

test('sends the secrets of an event with every retry, deletes them after the last one, and replays the event with placeholders', async () => {
  const shop = await open()
  const endpoint = await shop.endpoint()
  sink.answer(endpoint.path, 503)
  const made = await shop.checkout()
  const tries = await sink.until(endpoint.path, 3)
  expect(tries.map(({ body }) => shownIn(body))).toEqual([whole(made), whole(made), whole(made)])
  await unsealed(shop)
  expect(await shop.deliveries()).toEqual(['parked'])
  sink.answer(endpoint.path, 200)
  await shop.api.call(redeliverWebhookEvent, { params: { id: (await shop.event()).id } })
  const last = (await sink.until(endpoint.path, 4)).at(-1)!
  expect(shownIn(last.body)).toEqual(redacted)
  await parses(last, endpoint.secret)
})

test('keeps the secrets of an event sealed for a disabled endpoint, and sends placeholders to an endpoint that already received them', async () => {
  const shop = await open()
  const [served, off] = [await shop.endpoint(), await shop.endpoint()]
  const set = (enabled: boolean) => shop.api.call(updateWebhookEndpoint, { params: { id: off.id }, body: { enabled } })
  await set(false)
  const made = await shop.checkout()
  expect(shownIn((await sink.until(served.path, 1))[0]!.body)).toEqual(whole(made))
  await eventually('one delivery is delivered and the other is parked', async () => (await shop.deliveries()).toSorted().join() === 'delivered,parked')
  const { id, secrets_sealed } = await shop.event()
  expect(secrets_sealed).toMatch(/^1:/)
  expect(Buffer.from(secrets_sealed!.slice(2), 'base64').toString('latin1')).not.toContain(made.client_secret.slice(-20))
  await shop.api.call(redeliverWebhookEvent, { params: { id } })
  expect(shownIn((await sink.until(served.path, 2))[1]!.body)).toEqual(redacted)
  await set(true)
  expect(shownIn((await sink.until(off.path, 1))[0]!.body)).toEqual(whole(made))
  await unsealed(shop)
})

test('deletes the secrets of an event that no endpoint wants, or whose endpoint was deleted or has been disabled for a month', async () => {
  const deps = { ...world.api, transact: world.transactAsWorker, db: world.api.postgres.db } as never
  const unwanted = await open()
  await unwanted.checkout()
  await eventually('the event has a sequence number', async () => (await unwanted.event()).sequence !== null)
  expect((await unwanted.event()).secrets_sealed).toBeNull()
  const waiting = async () => {
    const shop = await open()
    const endpoint = await shop.endpoint()
    await shop.api.call(updateWebhookEndpoint, { params: { id: endpoint.id }, body: { enabled: false } })
    await shop.checkout()
    await eventually('the delivery is parked', async () => (await shop.deliveries()).join() === 'parked')
    return { shop, params: { id: endpoint.id } }
  }
  const [deleted, forgotten] = [await waiting(), await waiting()]
  await deleted.shop.api.call(deleteWebhookEndpoint, { params: deleted.params })
  await maintainEvents(deps)
  expect((await deleted.shop.event()).secrets_sealed).toBeNull()
  expect((await forgotten.shop.event()).secrets_sealed).not.toBeNull()
  world.clock.advance(30 * day)
  await maintainEvents(deps)
  expect((await forgotten.shop.event()).secrets_sealed).toBeNull()
})

test('removes the secrets from the stored answer of a receiver that echoes the body', async () => {
  const shop = await open()
  const endpoint = await shop.endpoint()
  sink.answer(endpoint.path, (answer, { body }) => void answer.writeHead(200).end(JSON.stringify(shownIn(body))))
  const made = await shop.checkout()
  await unsealed(shop)
  const { items } = await shop.api.call(listWebhookDeliveries, { query: { endpoint_id: endpoint.id } })
  expect(items[0]!.response).toContain('"client_secret":"redacted"')
  expect(items[0]!.response).not.toContain(made.client_secret.slice(-20))
})

test('replaces payload fields marked as secret at any depth, and restores the payload byte for byte', () => {
  const Thing = z.object({ name: z.string(), keys: z.array(z.object({ key: secret('text', z.string()).nullable(), at: secret('address', z.string()) })) })
  const value = {
    name: 'redacted',
    keys: [
      { key: 'a"b\\', at: 'https://x.test/k?1' },
      { key: null, at: 'no address' },
    ],
  }
  const { text, cuts } = encodeRedacted(Thing, value)
  expect(text).toBe('{"name":"redacted","keys":[{"key":"redacted","at":"https://x.test/redacted"},{"key":null,"at":"redacted"}]}')
  expect(restore(text, cuts)).toBe(JSON.stringify(value))
})

test('refuses to emit an event with a secret if there is no sealer', async () => {
  const told = webhook('checkout.created', z.object({ token: secret('text', z.string()) }), 'A test.')
  const organization_id = (await world.organization()).id
  const subject = { organization_id, resource_id: newId(world.clock.wall()) }
  await expect(world.transact((tx) => emit(inWallTime(tx), told, subject, { token: 'it' }))).rejects.toThrow('checkout.created contains a secret')
})

test('the database migration redacts payloads and answers that were stored in plain text', async () => {
  const shop = await open()
  const made = await shop.checkout()
  const text = readFileSync(new URL('../../../migrations/0034_sealed_event_secrets.sql', import.meta.url), 'utf8')
  const updates = text.slice(text.indexOf('update events'))
  const token = newToken('checkout', 'sandbox').reveal()
  await world.database.owner(async (owner) => {
    const body = JSON.stringify({ type: 'checkout.created', data: { id: made.id, client_secret: token, url: `https://bursar.test/checkout/${token}` } })
    await owner.query(`update events set payload = $2::json where resource_id = $1`, [made.id, body])
    await owner.query(
      `insert into webhook_attempts (organization_id, id, created_at, endpoint_id, event_id, event_at, kind, succeeded, http_code, response, duration_ms)
       select organization_id, id, wall_at, id, id, wall_at, kind, true, 200, $2, 1 from events where resource_id = $1`,
      [made.id, `received ${token}`],
    )
    await owner.query(updates)
    const { rows } = await owner.query('select a.response from webhook_attempts a join events e on e.id = a.event_id where e.resource_id = $1', [made.id])
    expect(rows).toEqual([{ response: 'received redacted' }])
  })
  expect((await shop.event()).payload).toBe(
    JSON.stringify({ type: 'checkout.created', data: { id: made.id, client_secret: 'redacted', url: 'https://bursar.test/checkout/redacted' } }),
  )
})
