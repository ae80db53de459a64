import {
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createProduct,
  createWebhookEndpoint,
  getLicenseKey,
  listBenefitGrants,
  searchOrganization,
  SearchKind,
  type SearchHit,
} from '@bursar/contract'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { openSales } from '../../../../test/harness/sales.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { termsOf } from './search.ts'
import { findHits } from './search.sql.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const shown = (hits: readonly z.input<typeof SearchHit>[]) => hits.map(({ kind, matched, title }) => `${kind} by ${matched}: ${title}`)

const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const ada = await api.call(createCustomer, { body: { email: 'Ada@lovelace.test', name: 'Ada Lovelace', external_id: 'CRM-17' } })
  await api.call(createCustomer, { body: { email: 'adam@people.test', name: 'Bob' } })
  await api.call(createCustomer, { body: { email: 'zoe@people.test', name: '100%_sure' } })
  const product = await api.call(createProduct, {
    body: { name: 'Advanced Guide', prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }] },
  })
  const order = await openSales(world).order({ id: ada.id, organization_id: organization.id }, { invoice_number: 'INV-2026-0007' })
  const search = async (query: string, more: Record<string, string> = {}, by = api) =>
    (await by.call(searchOrganization, { query: { query, organization_id: organization.id, ...more } })).items
  return { ...shop, ada, product, order, search }
}

test('finds customers by the beginning of a name or an address, orders by number, products by name, and anything by id', async () => {
  const { ada, order, product, search } = await open()
  expect(shown(await search('ada'))).toEqual(['customer by email: Ada Lovelace', 'customer by email: Bob'])
  expect(shown(await search('ADA@LOVE'))).toEqual(['customer by email: Ada Lovelace'])
  expect(shown(await search('Ada Lo'))).toEqual(['customer by name: Ada Lovelace'])
  expect(shown(await search('CRM-17'))).toEqual(['customer by external_id: Ada Lovelace'])
  expect(await search('lovelace')).toEqual([])
  // Characters with a meaning in patterns are found as they are.
  expect(shown(await search('100%_'))).toEqual(['customer by name: 100%_sure'])
  expect(await search('%')).toEqual([])
  expect(await search('inv-2026-0007')).toMatchObject([
    { kind: 'order', id: order.id, title: 'INV-2026-0007', detail: 'paid · Ada@lovelace.test', customer_id: ada.id, matched: 'invoice_number' },
  ])
  expect(shown(await search('advanced'))).toEqual(['product by name: Advanced Guide'])
  for (const [id, kind] of [
    [ada.id, 'customer'],
    [order.id, 'order'],
    [product.id.toUpperCase(), 'product'],
  ] as const)
    expect(await search(id)).toMatchObject([{ kind, id: id.toLowerCase(), matched: 'id' }])
  expect(await search('ada', { kind: 'order' })).toEqual([])
  expect(await search('a', { limit: '1' })).toHaveLength(2)
})

test('finds a license key by the whole key or its displayed end, and never shows it', async () => {
  const { api, ada, search } = await open()
  const benefit = await api.call(createBenefit, { body: { type: 'license_keys', description: 'Key', properties: { prefix: 'GUIDE' } } as never })
  await api.call(createBenefitGrant, { body: { customer_id: ada.id, benefit_id: benefit.id } })
  const grant = await eventually('the key exists', async () => {
    const [found] = (await api.call(listBenefitGrants, {})).items
    return found?.is_granted && found
  })
  const { license_key_id } = grant.properties as { license_key_id: string }
  const { key, display_key } = await api.call(getLicenseKey, { params: { id: license_key_id } })
  const hit = { kind: 'license_key', id: license_key_id, title: display_key, detail: 'granted', customer_id: ada.id }
  expect(await search(key)).toMatchObject([{ ...hit, matched: 'key' }])
  expect(await search(display_key)).toMatchObject([{ ...hit, matched: 'key_end' }])
  expect(await search(key.slice(-6).toLowerCase())).toMatchObject([{ ...hit, matched: 'key_end' }])
  expect(JSON.stringify(await search(key))).not.toContain(key)
  expect(await search(`${key}X`)).toEqual([])
  expect(await search(key.slice(0, -7))).toEqual([])
})

test('finds only the kinds that the role and the token may read, and nothing of another organization', async () => {
  const { api, organization, ada, order, search } = await open()
  const endpoint = await api.call(createWebhookEndpoint, { body: { url: 'https://example.com/hooks', format: 'raw', events: ['order.paid'] } })
  expect(await search(endpoint.id)).toMatchObject([{ kind: 'webhook_endpoint' }])
  const person = await world.person()
  await world.join(organization.id, person.id, 'finance')
  const finance = world.client({ cookie: await person.cookie() })
  expect(await search(endpoint.id, {}, finance)).toEqual([])
  expect(await search(order.id, {}, finance)).toMatchObject([{ kind: 'order' }])
  const narrow = world.client({ token: (await organization.token(['organizations:read', 'orders:read'])).secret })
  expect(await search(ada.id, {}, narrow)).toEqual([])
  expect(await search(order.id, {}, narrow)).toMatchObject([{ kind: 'order' }])
  const other = await open()
  expect(await other.search(ada.id)).toEqual([])
  expect((await other.search('ada')).map(({ id }) => id)).not.toContain(ada.id)
  expect((await other.api.send(searchOrganization, { query: { query: 'ada', organization_id: organization.id } })).status).toBe(422)
  expect((await world.client().send(searchOrganization, { query: { query: 'ada' } })).status).toBe(401)
  const without = world.client({ token: (await organization.token(['orders:read'])).secret })
  expect((await without.send(searchOrganization, { query: { query: 'ada' } })).status).toBe(403)
  expect((await api.sendRaw(searchOrganization, { query: { query: '  ' } })).status).toBe(422)
})

test('looks up every meaning of a query by an index, also among 50,000 customers', async () => {
  const { organization } = await open()
  await world.database.owner(async (owner) => {
    await owner.query(
      `insert into customers (organization_id, id, created_at, email, email_verified, name, external_id, metadata, type)
       select $1, gen_random_uuid(), now(), 'person' || n || '@crowd.test', false, 'Person ' || n, 'crowd-' || n, '{}', 'individual' from generate_series(1, 50000) n`,
      [organization.id],
    )
    await owner.query('analyze customers')
  })
  const scope = within(organization.id, 'machine', 'before')
  const terms = termsOf('person1', world.platform.hasher)
  const elapsed = performance.now()
  const hits = await findHits(world.api.postgres.db, scope, organization.id, SearchKind.options, terms, 5)
  expect(hits).toHaveLength(5)
  expect(performance.now() - elapsed).toBeLessThan(5_000)
  const plans = await Promise.all(
    [
      sql`lower(email) like 'person1%' order by lower(email) using ~<~ limit 5`,
      sql`lower(name) like 'person 1%' and name is not null order by lower(name) using ~<~ limit 5`,
    ].map(async (where) => {
      const { rows } = await sql<{ 'QUERY PLAN': string }>`
          explain select id from customers where organization_id = ${sql.lit(organization.id)}::uuid and deleted_at is null and ${where}`.execute(
        world.api.postgres.db.q,
      )
      return rows.map((row) => row['QUERY PLAN']).join('\n')
    }),
  )
  expect(plans[0]).toContain('customers_address')
  expect(plans[1]).toContain('customers_name')
  for (const plan of plans) expect(plan).not.toContain('Sort')
})
