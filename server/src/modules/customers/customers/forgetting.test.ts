import { execFileSync } from 'node:child_process'
import {
  createMember,
  createProduct,
  createRefund,
  createCustomer,
  confirmClientCheckout,
  createCheckout,
  createCustomerSession,
  createWebhookEndpoint,
  deleteCustomer,
  deleteExternalCustomer,
  getCustomer,
  listCustomers,
  listOrders,
  requestPortalCode,
  requestEmailUpdate,
  updateCustomer,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeams } from '../../../../test/harness/teams.ts'
import { openSink, type Sink } from '../../../../test/harness/sink.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { discretion } from '../../../main/wire.ts'

let world: World
let sink: Sink
beforeAll(async () => {
  sink = await openSink()
  world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
})
afterAll(async () => {
  await world.close()
  sink.close()
})

/** Returns all data in the database as text. */
const dump = () =>
  execFileSync('pg_dump', ['--data-only', '--inserts', world.database.owner_url], { encoding: 'utf8', maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'] })

const settled = () =>
  eventually('every job has run and every event has a sequence number', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query(`select from graphile_worker._private_jobs union all select from events where sequence is null limit 1`),
    )
    return rows.length === 0
  })

test('an anonymized person is nowhere in the database: customers, members, events, webhook responses, stored answers, sign-in codes, audit log', async () => {
  const { api, organization } = await world.shop()
  // A webhook receiver that echoes the payload.
  sink.answer('/echo', (answer, received) => void answer.writeHead(200).end(received.body))
  await api.call(createWebhookEndpoint, {
    body: { url: sink.url('/echo'), format: 'raw', events: ['customer.created', 'customer.updated', 'customer.deleted', 'member.created', 'member.deleted'] },
  })
  const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'first' })
  const body = {
    type: 'team' as const,
    email: 'zelda.marchetti@people.test',
    name: 'Zelda Marchetti',
    external_id: 'crm-90817',
    billing_address: { country: 'DE' as const, line1: 'Rosenweg 11', city: 'Wuppertal', postal_code: '42103' },
    tax_id: 'DE136695976',
    metadata: { nickname: 'Zelmar' },
    owner: { email: 'owner.quist@people.test', name: 'Olga Quist', external_id: 'own-5561' },
  }
  const made = await keyed.call(createCustomer, { body })
  const member = await api.call(createMember, { params: { id: made.id }, body: { email: 'mira.voss@people.test', name: 'Mira Voss', external_id: 'mem-4477' } })
  await api.call(updateCustomer, { params: { id: made.id }, body: { name: 'Zelda Marchetti the Second' } })
  await api.send(requestPortalCode, { body: { organization_id: organization.id, email: 'mira.voss@people.test' } })
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: made.id, member_id: member.id } })).token })
  await portal.send(requestEmailUpdate, { body: { email: 'zelda.new@people.test' } })
  await settled()
  await eventually('the receiver got four webhooks', async () => sink.of('/echo').length >= 4)
  // Short names count only as whole words, because random keys contain them by chance.
  const personal =
    /zelda\.marchetti|Zelda|Marchetti|crm-90817|Rosenweg|Wuppertal|136695976|Zelmar|owner\.quist|\bOlga\b|own-5561|mira\.voss|\bMira\b|mem-4477|zelda\.new/i
  expect(dump()).toMatch(personal)

  expect((await api.send(deleteCustomer, { params: { id: made.id }, query: { anonymize: 'true' } })).status).toBe(204)
  await settled()
  await eventually('the customer.deleted webhook was delivered', async () => sink.of('/echo').some((one) => one.body.includes('customer.deleted')))
  await settled()
  const found = dump()
    .split('\n')
    .filter((line) => personal.test(line))
    .map((line) => line.slice(0, 200))
  expect(found).toEqual([])

  // The event rows stay, and the last event contains no personal data.
  const left = await world.database.owner((owner) =>
    owner.query<{ kind: string; payload: unknown }>('select kind, payload from events where organization_id = $1 order by position', [organization.id]),
  )
  expect(left.rows.filter(({ payload }) => payload === null).map(({ kind }) => kind)).toContain('customer.created')
  const last = left.rows.find(({ kind }) => kind === 'customer.deleted')!.payload as { data: { id: string; email: string } }
  expect(last.data).toMatchObject({ id: made.id, email: `forgotten-${made.id}@anonymized.invalid` })
  expect((await api.send(getCustomer, { params: { id: made.id } })).status).toBe(404)
  expect((await api.call(listCustomers, {})).items).toEqual([])
  // The idempotency key is kept, so repeating the create request creates no customer.
  expect(await keyed.send(createCustomer, { body })).toMatchObject({ status: 409, body: { error: 'AnswerForgotten' } })
})

test('an anonymized buyer remains in the database only on the order and its credit note, as the law requires', async () => {
  const { api, organization } = await world.shop()
  const product = await api.call(createProduct, {
    body: { name: 'Field guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] },
  })
  const buyer = {
    customer_email: 'gwen.hollis@people.test',
    customer_name: 'Gwen Hollis',
    customer_billing_address: { country: 'DE' as const, line1: 'Ulmenallee 5', city: 'Kleve', postal_code: '47533' },
  }
  const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'a-checkout' })
  const checkout = await keyed.call(createCheckout, { body: { products: [product.id], external_customer_id: 'crm-66102', ...buyer } })
  // The buyer also typed the address into a checkout that was never confirmed and has no customer.
  await api.call(createCheckout, { body: { products: [product.id], ...buyer } })
  const params = { client_secret: checkout.client_secret }
  const confirm = (card: string) => world.client().send(confirmClientCheckout, { params, body: { confirmation_token_id: card } })
  expect((await confirm('tok_do_not_honor')).status).toBe(400)
  // A background job may have locked the checkout after the first attempt, so the confirmation is retried.
  await eventually('the checkout is confirmed', async () => (await confirm('tok_visa')).status === 200)
  const order = await eventually('the order exists', async () => (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0])
  const comment = 'Ms Hollis rang up'
  await keyed.send(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 100 } }).catch(() => undefined)
  await api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 100, comment } })
  await settled()
  expect((await api.send(deleteCustomer, { params: { id: order.customer_id }, query: { anonymize: 'true' } })).status).toBe(204)
  await settled()
  const found = dump()
    .split('\n')
    .filter((line) => /gwen|hollis|ulmenallee|kleve|crm-66102/i.test(line))
  // The two remaining rows are the order and the credit note of its refund.
  expect(new Set(found.map((line) => /^INSERT INTO public\.(\w+) /.exec(line)?.[1]))).toEqual(new Set(['documents', 'orders']))
  expect(found).toHaveLength(2)
  for (const line of found) expect(line).not.toMatch(/gwen\.hollis|crm-66102/)
})

test('anonymizing a team also anonymizes its seat holders, even in later events about their seats', async () => {
  const teams = await openTeams(world)
  const team = await teams.buy({ email: 'boss.quill@people.test' })
  const held = await teams.assign(team, { email: 'hetty.lorne@people.test', metadata: { nickname: 'Lornie' } })
  await teams.claim(held)
  await teams.assign(team, { email: 'ivo.brandt@people.test' })
  await settled()
  const personal = /quill|hetty|lorne|lornie|brandt/i
  expect(dump()).toMatch(personal)
  expect((await team.api.send(deleteCustomer, { params: { id: team.customer_id }, query: { anonymize: 'true' } })).status).toBe(204)
  await settled()
  const found = dump()
    .split('\n')
    .filter((line) => personal.test(line))
    .map((line) => line.slice(0, 200))
  expect(found).toEqual([])
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ email: string }>(
      `select payload->'data'->>'customer_email' as email from events where kind = 'customer_seat.revoked' and organization_id = $1`,
      [team.organization.id],
    ),
  )
  expect(rows.map(({ email }) => email.replace(/-[0-9a-f-]+@/, '@'))).toEqual(['forgotten@anonymized.invalid', 'forgotten@anonymized.invalid'])
})

test('before phase 2, anonymizing a customer that holds a seat clears that seat and no other', async () => {
  const teams = await openTeams(world)
  const team = await teams.buy({ phase: 'phase1' })
  const held = await teams.assign(team, { email: 'jory.vane@people.test', metadata: { nickname: 'Vanny' } })
  const other = await teams.assign(team, { email: 'kept@people.test' })
  await settled()
  expect((await team.api.send(deleteCustomer, { params: { id: held.customer_id! }, query: { anonymize: 'true' } })).status).toBe(204)
  await settled()
  const seats = (await team.seats()).items
  expect(seats.map(({ id, status, email, seat_metadata }) => [id, status, email, seat_metadata])).toEqual([
    [held.id, 'revoked', `forgotten-${held.id}@anonymized.invalid`, {}],
    [other.id, 'pending', 'kept@people.test', {}],
  ])
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string; empty: boolean }>(
      `select resource_id as id, payload is null as empty from events where kind = 'customer_seat.assigned' and resource_id = any($1)`,
      [[held.id, other.id]],
    ),
  )
  expect(Object.fromEntries(rows.map(({ id, empty }) => [id, empty]))).toEqual({ [held.id]: true, [other.id]: false })
})

test('anonymizes a customer by id, by external id and after its deletion, frees its address, and answers 404 to other sellers', async () => {
  const { api } = await world.shop()
  const stranger = await world.shop()
  const query = { anonymize: 'true' as const }
  const made = await api.call(createCustomer, { body: { email: 'again@people.test', external_id: 'again' } })
  expect((await stranger.api.send(deleteCustomer, { params: { id: made.id }, query })).status).toBe(404)
  await api.call(deleteCustomer, { params: { id: made.id } })
  expect((await stranger.api.send(deleteCustomer, { params: { id: made.id }, query })).status).toBe(404)
  expect((await api.send(deleteCustomer, { params: { id: made.id }, query })).status).toBe(204)
  expect((await api.send(deleteCustomer, { params: { id: made.id }, query })).status).toBe(204)
  expect((await api.send(deleteCustomer, { params: { id: made.id } })).status).toBe(404)
  const second = await api.call(createCustomer, { body: { email: 'again@people.test', external_id: 'again' } })
  expect((await api.send(deleteExternalCustomer, { params: { external_id: 'again' }, query })).status).toBe(204)
  await settled()
  const { rows } = await world.database.owner((owner) => owner.query('select email from customers where id = any($1)', [[made.id, second.id]]))
  expect(rows.map(({ email }) => email as string).every((email) => email.endsWith('@anonymized.invalid'))).toBe(true)
})

test('every column whose name suggests personal data or secrets is declared as personal, secret or neither', async () => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ table_name: string; column_name: string }>(
      `select table_name, column_name from information_schema.columns c join pg_class p on p.relname = c.table_name and p.relnamespace = 'public'::regnamespace
       where table_schema = 'public' and not p.relispartition and column_name ~ '(email|name|address|external_id|tax_id|phone|metadata|sealed|secret)'`,
    ),
  )
  const undeclared = rows
    .filter(({ table_name, column_name }) => !discretion.personal[table_name]?.columns[column_name] && !discretion.secret[table_name]?.includes(column_name))
    .map(({ table_name, column_name }) => `${table_name}.${column_name}`)
    .filter((name) => !aboutNobody.has(name))
  expect(undeclared).toEqual([])
})

/** Columns whose names sound personal, but which describe things, settings or internal state. */
const aboutNobody = new Set([
  'event_types.name',
  'system_events.name',
  // The personal part is in a column of its own.
  'system_events.metadata',
  'usage_events.name',
  'usage_name_counts.name',
  // The seller's ids of events, not of people.
  'usage_events.external_id',
  'usage_keys.external_id',
  // Meters read the metadata of events, so it stays. The guide asks sellers to put no personal data into it.
  'usage_events.metadata',
  'checkout_links.metadata',
  'checkout_links.require_billing_address',
  'checkouts.customer_tax_id_status',
  'checkouts.payment_method_type',
  'checkouts.require_billing_address',
  'checkouts.secret_until',
  'webhook_deliveries.carries_secrets',
  // The next two columns contain keyed hashes, not addresses.
  'discount_redemptions.email_key',
  'trial_redemptions.email_key',
  'benefits.metadata',
  'custom_fields.metadata',
  'custom_fields.name',
  'files.name',
  'customers.email_verified',
  'discounts.metadata',
  'discounts.name',
  'meters.metadata',
  'meters.name',
  'test_clocks.name',
  'idempotency_keys.sealed',
  'licence_signing_keys.sealed',
  'member_migrations.sealed_at',
  'metric_dashboards.name',
  'oauth_clients.client_name',
  'organizations.customer_email_settings',
  'organizations.name',
  'payments.method_metadata',
  'product_prices.metadata',
  'products.metadata',
  'products.name',
  'schema_migrations.name',
  'signing_keys.sealed',
  'users.email_verified',
  'webhook_endpoints.name',
  'webhook_endpoints.previous_secret_until',
])
