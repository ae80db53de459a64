import {
  addPortalMember,
  createCustomer,
  createCustomerSession,
  createDiscount,
  createProduct,
  createWebhookEndpoint,
  deleteCustomer,
  listAuditLog,
  listCustomerMembers,
  updateCustomer,
  updateOrganization,
  updateProduct,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { launch } from '../../../../test/harness/process.ts'
import { listHeads, verifyChain } from '../../../platform/audit/audit.sql.ts'
import { openVisitor } from '../../../../test/harness/visitor.ts'
import { counted } from '../../../../test/harness/pace.ts'

/** Number of concurrent writes. Set `BURSAR_TEST_WRITES=10000` for the long version. */
const writes = counted('WRITES', 1500, 300)

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

type Shop = Awaited<ReturnType<World['shop']>>

/** Waits until all audit entries are in the hash chain. */
const chained = () =>
  eventually('every audit log entry has a sequence number', async () => {
    const { rows } = await world.database.owner((owner) => owner.query('select from audit_log where sequence is null limit 1'))
    return rows.length === 0
  })
const entriesOf = async ({ api }: Shop, query: Record<string, string[]> = {}) => {
  await chained()
  return (await api.call(listAuditLog, { query })).items
}

test('an audit entry records actor, credential, request and changes, with personal values only as digests', async () => {
  const shop = await world.shop()
  const token = await shop.organization.token()
  const api = world.client({ token: token.secret })
  const made = await api.send(createCustomer, { body: { email: 'ada@people.test', name: 'Ada Byron', external_id: 'ext-77' } })
  const { id } = made.body as { id: string }
  await api.call(updateCustomer, { params: { id }, body: { name: 'Ada King', locale: 'fr' } })
  await api.call(updateCustomer, { params: { id }, body: { name: 'Ada Byron' } })
  const [third, second, first] = await entriesOf(shop)
  expect(first).toMatchObject({
    sequence: 1,
    organization_id: shop.organization.id,
    operation: 'customers:create',
    request_id: made.headers.get('x-request-id'),
    resource_id: id,
    actor: { kind: 'organization', id: shop.organization.id, credential_id: token.id, client_id: null },
    complete: true,
  })
  expect(first!.changes.map(({ resource, action }) => [resource, action])).toEqual([
    ['customers', 'created'],
    ['members', 'created'],
  ])
  expect(second!.changes).toEqual([
    {
      resource: 'customers',
      id,
      action: 'updated',
      fields: { name: { before: expect.stringMatching(/^digest:1:[0-9a-f]{32}$/), after: expect.any(String) }, locale: { before: null, after: 'fr' } },
    },
  ])
  // Equal values have equal digests within one organization, but different digests in another organization.
  expect(third!.changes[0]!.fields.name!.after).toBe(first!.changes[0]!.fields.name!.after)
  const elsewhere = await world.shop()
  await elsewhere.api.call(createCustomer, { body: { email: 'ada@people.test', name: 'Ada Byron' } })
  expect((await entriesOf(elsewhere))[0]!.changes[0]!.fields.name!.after).not.toBe(first!.changes[0]!.fields.name!.after)
  expect(JSON.stringify(await entriesOf(shop))).not.toMatch(/people\.test|Ada|ext-77/)
})

test('an audit entry omits secrets, even sealed ones', async () => {
  const shop = await world.shop()
  const endpoint = await shop.api.call(createWebhookEndpoint, { body: { url: 'https://example.com/hook', format: 'raw', events: ['customer.created'] } })
  const [entry] = await entriesOf(shop)
  expect(entry!.changes[0]).toMatchObject({ resource: 'webhook_endpoints', action: 'created', fields: { url: { after: 'https://example.com/hook' } } })
  expect(Object.keys(entry!.changes[0]!.fields).filter((name) => /sealed|hint/.test(name))).toEqual([])
  expect(JSON.stringify(entry)).not.toContain(endpoint.secret.slice(-5))
})

test('names the actor of API, portal and settings-page requests, and records no rejected or replayed request', async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const person = await world.person()
  await world.join(organization.id, person.id, 'admin')
  const session = world.client({ cookie: await person.cookie() })
  await session.call(updateOrganization, { params: { id: organization.id }, body: { name: 'Renamed' } })
  const team = await api.call(createCustomer, { body: { type: 'team', email: 'team@people.test', owner: { email: 'boss@people.test' } } })
  const [owner] = (await api.call(listCustomerMembers, { params: { id: team.id } })).items
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: team.id, member_id: owner!.id } })).token })
  await portal.call(addPortalMember, { body: { email: 'new@people.test' } })
  const entries = await entriesOf(shop)
  expect(entries.find(({ operation }) => operation === 'organizations:update')).toMatchObject({
    actor: { kind: 'user', id: person.id },
    changes: [{ resource: 'organizations', fields: { name: { after: 'Renamed' } } }],
  })
  expect(entries.find(({ operation }) => operation === 'customer_portal:members:add_member')).toMatchObject({ actor: { kind: 'member', id: owner!.id } })

  const visitor = openVisitor(world, await person.cookie())
  const path = `/settings/organizations/${organization.id}/tokens`
  const csrf = visitor.field((await visitor.get(path)).answer.text, 'csrf')
  expect((await visitor.post(path, { csrf, comment: 'by hand', preset: 'read_orders', days: '30' })).answer.status).toBe(200)
  const [page] = await entriesOf(shop)
  expect(page).toMatchObject({
    operation: 'POST /settings/organizations/:id/tokens',
    actor: { kind: 'user', id: person.id },
    changes: [{ resource: 'organization_access_tokens', action: 'created', fields: { comment: { after: 'by hand' } } }],
  })

  const before = (await entriesOf(shop)).length
  expect((await api.sendRaw(createCustomer, { body: { email: 'no address' } })).status).toBe(422)
  const once = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'once' })
  for (let time = 0; time < 3; time++) await once.call(createCustomer, { body: { email: 'once@people.test' } })
  expect((await entriesOf(shop)).length).toBe(before + 1)
})

test('reading the audit log requires permission to manage the organization, covers one organization at a time, and supports filters', async () => {
  const shop = await world.shop()
  const made = await shop.api.call(createCustomer, { body: { email: 'a@people.test' } })
  await shop.api.call(deleteCustomer, { params: { id: made.id } })
  expect((await entriesOf(shop, { resource_id: [made.id] })).map(({ operation }) => operation)).toEqual(['customers:delete', 'customers:create'])
  expect((await entriesOf(shop, { operation: ['customers:delete'] })).length).toBe(1)
  expect((await shop.api.call(listAuditLog, { query: { before: '2' } })).items.map(({ sequence }) => sequence)).toEqual([1])
  const member = await world.person()
  await world.join(shop.organization.id, member.id, 'member')
  expect((await world.client({ cookie: await member.cookie() }).send(listAuditLog, {})).status).toBe(403)
  const stranger = await world.shop()
  expect(await stranger.api.send(listAuditLog, { query: { organization_id: [shop.organization.id] } })).toMatchObject({ status: 422 })
  expect((await world.client({ token: (await shop.organization.token(['customers:read'])).secret }).send(listAuditLog, {})).status).toBe(403)
})

test('neither the API role nor the worker role of the database can change, delete or renumber an audit entry', async () => {
  const shop = await world.shop()
  await shop.api.call(createCustomer, { body: { email: 'a@people.test' } })
  await chained()
  for (const transact of [world.transact, world.transactAsWorker]) {
    await expect(transact((tx) => tx.q.deleteFrom('audit_log').execute())).rejects.toThrow(/permission denied/)
    await expect(transact((tx) => tx.q.updateTable('audit_log').set({ operation: 'x' }).execute())).rejects.toThrow(/permission denied/)
  }
  await expect(world.transactAsWorker((tx) => tx.q.updateTable('audit_log').set({ hash: 'x' }).execute())).rejects.toThrow(/stays as it is/)
})

test(
  `the audit hash chain stays valid after ${writes} concurrent mixed writes, and verification finds a row changed outside the application`,
  { timeout: 300_000 },
  async () => {
    const shops = await Promise.all([world.shop(), world.shop(), world.shop()])
    let next = 0
    const turn = async (shop: Shop, n: number) => {
      const { api } = shop
      switch (n % 5) {
        case 0:
          return api.send(createProduct, { body: { name: `Product ${n}`, prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] } })
        case 1:
          return api.send(createDiscount, { body: { name: `Discount ${n}`, type: 'percentage', basis_points: 100, duration: 'once' } })
        case 2: {
          const product = await api.call(createProduct, {
            body: { name: `Product ${n}`, prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] },
          })
          return api.send(updateProduct, { params: { id: product.id }, body: { name: `Renamed ${n}` } })
        }
        default: {
          const customer = await api.call(createCustomer, { body: { email: `buyer${n}@people.test` } })
          return api.send(n % 2 ? updateCustomer : deleteCustomer, { params: { id: customer.id }, body: { name: 'Someone' } })
        }
      }
    }
    const clients = Array.from({ length: 24 }, async () => {
      while (next < writes / 1.6) {
        const n = next++
        expect((await turn(shops[n % shops.length]!, n)).status).toBeLessThan(300)
      }
    })
    await Promise.all(clients)
    await chained()
    const { db } = world.api.postgres
    const heads = await listHeads(db)
    expect(heads.reduce((sum, { sequence }) => sum + sequence, 0)).toBeGreaterThanOrEqual(writes)
    for (const head of heads) expect(await verifyChain(db, head)).toBeUndefined()
    const verify = async () => {
      const program = launch(['audit', 'verify', '--json'], world.environmentVariables)
      const code = await program.exited
      return { code, said: program.output() }
    }
    expect(await verify()).toMatchObject({ code: 0 })

    const victim = heads.find(({ organization_id }) => organization_id === shops[1].organization.id)!
    const behind = (statement: string) =>
      world.database.owner(async (owner) => {
        await owner.query(`alter table audit_log disable trigger user`)
        await owner.query(statement)
      })
    const where = (sequence: number) => `where organization_id = '${victim.organization_id}' and sequence = ${sequence}`
    const { rows } = await world.database.owner((owner) => owner.query<{ changes: string }>(`select changes::text as changes from audit_log ${where(42)}`))
    await behind(`update audit_log set changes = replace(changes::text, '"complete":true', '"complete":false')::json ${where(42)}`)
    expect(await verifyChain(db, victim)).toBe(42)
    expect(await verify()).toMatchObject({ code: 1, said: expect.stringContaining('"broken_at":42') })
    await behind(`update audit_log set changes = '${rows[0]!.changes.replaceAll("'", "''")}'::json ${where(42)}`)
    expect(await verifyChain(db, victim)).toBeUndefined()
    await behind(`update audit_log set actor_id = gen_random_uuid() ${where(7)}`)
    expect(await verifyChain(db, victim)).toBe(7)
    await behind(`delete from audit_log ${where(7)}`)
    expect(await verifyChain(db, victim)).toBe(7)
    const other = heads.find(({ organization_id }) => organization_id === shops[2].organization.id)!
    await behind(`delete from audit_log where organization_id = '${other.organization_id}' and sequence = ${other.sequence}`)
    expect(await verifyChain(db, other)).toBe(other.sequence)
  },
)
