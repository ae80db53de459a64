import {
  createCustomer,
  createCustomerSession,
  createExternalMember,
  deleteCustomer,
  deleteExternalCustomer,
  deleteExternalMember,
  getCustomer,
  getExternalCustomer,
  getExternalMember,
  getFlatExternalMember,
  getOrganization,
  listCustomers,
  listExternalCustomerMembers,
  listExternalPaymentMethods,
  listMembers,
  listPaymentMethods,
  updateCustomer,
  updateExternalCustomer,
  updateExternalMember,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newId } from '../../../kernel/ids.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const address = { country: 'DE' as const, city: 'Berlin', postal_code: '10115', line1: 'Invalidenstraße 1' }

test('creates, finds, updates and deletes individual and team customers [S1-15] [S2-01]', async () => {
  const { api, organization, events } = await world.shop()
  const person = await api.call(createCustomer, {
    body: {
      email: 'Ada@people.test',
      name: ' Ada ',
      external_id: 'ada-1',
      billing_address: address,
      tax_id: 'de 136.695.976',
      locale: 'de',
      metadata: { plan: 'pro' },
    },
  })
  expect(person).toMatchObject({
    type: 'individual',
    email: 'Ada@people.test',
    email_verified: false,
    name: 'Ada',
    billing_name: 'Ada',
    external_id: 'ada-1',
    billing_address: { ...address, line2: null, state: null },
    tax_id: ['DE136695976', 'eu_vat'],
    organization_id: organization.id,
    deleted_at: null,
  })
  expect(decodeURIComponent(person.avatar_url!)).toMatch(/^data:image\/svg\+xml,<svg [^<]+<rect [^<]+<text [^>]+>A<\/text><\/svg>$/)
  const team = await api.call(createCustomer, { body: { type: 'team', name: 'Works', owner: { email: 'boss@people.test' }, external_id: ' ' } })
  expect(team).toMatchObject({ type: 'team', email: null, external_id: null })
  expect(await api.call(getCustomer, { params: { id: person.id } })).toEqual(person)
  expect(await api.call(getExternalCustomer, { params: { external_id: 'ada-1' } })).toEqual(person)
  const changed = await api.call(updateCustomer, { params: { id: person.id }, body: { name: 'Ada L.', tax_id: null, metadata: { plan: 'free' } } })
  expect(changed).toMatchObject({ name: 'Ada L.', billing_name: 'Ada L.', tax_id: null, metadata: { plan: 'free' }, email: 'Ada@people.test' })
  expect(await api.call(updateExternalCustomer, { params: { external_id: 'ada-1' }, body: { locale: 'en-GB' } })).toMatchObject({ locale: 'en-GB' })
  expect((await api.call(listCustomers, {})).items.map(({ id }) => id)).toEqual([team.id, person.id])
  expect((await api.send(deleteCustomer, { params: { id: team.id } })).status).toBe(204)
  expect((await api.send(deleteExternalCustomer, { params: { external_id: 'ada-1' } })).status).toBe(204)
  for (const params of [{ id: team.id }, { id: person.id }]) expect((await api.send(getCustomer, { params })).status).toBe(404)
  expect((await api.send(getExternalCustomer, { params: { external_id: 'ada-1' } })).status).toBe(404)
  expect(await api.call(listCustomers, {})).toMatchObject({ items: [], pagination: { total_count: 0 } })
  expect((await events('customer.created', 'customer.updated', 'customer.deleted')).map(({ type, data }) => [type, data.id])).toEqual([
    ['customer.created', person.id],
    ['customer.created', team.id],
    ['customer.updated', person.id],
    ['customer.updated', person.id],
    ['customer.deleted', team.id],
    ['customer.deleted', person.id],
  ])
})

test('email addresses (case-insensitive) and external ids of customers are unique, and free again after a deletion', async () => {
  const { api } = await world.shop()
  const first = await api.call(createCustomer, { body: { email: 'One@people.test', external_id: 'one' } })
  const twin = await api.sendRaw(createCustomer, { body: { email: 'oNE@people.test', external_id: 'one' } })
  expect(twin).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'email'] }, { loc: ['body', 'external_id'] }] } })
  const other = await api.call(createCustomer, { body: { email: 'other@people.test' } })
  expect((await api.send(updateCustomer, { params: { id: other.id }, body: { email: 'ONE@people.test' } })).status).toBe(422)
  expect((await api.send(updateCustomer, { params: { id: other.id }, body: { external_id: 'one' } })).status).toBe(422)
  expect((await api.send(updateCustomer, { params: { id: first.id }, body: { email: 'one@people.test' } })).status).toBe(200)
  await api.call(deleteCustomer, { params: { id: first.id } })
  expect((await api.send(createCustomer, { body: { email: 'one@people.test', external_id: 'one' } })).status).toBe(201)
  expect((await (await world.shop()).api.send(createCustomer, { body: { email: 'one@people.test', external_id: 'one' } })).status).toBe(201)
})

test('rejects changing an external id, turning a team into an individual, and removing a billing address', async () => {
  const { api, events } = await world.shop()
  const made = await api.call(createCustomer, { body: { email: 'once@people.test', billing_address: address, tax_id: 'DE136695976' } })
  const params = { id: made.id }
  expect(await api.call(updateCustomer, { params, body: { external_id: 'mine' } })).toMatchObject({ external_id: 'mine' })
  const before = (await events()).length
  expect((await api.send(updateCustomer, { params, body: { external_id: 'mine', name: null } })).status).toBe(200)
  expect((await events()).length).toBe(before)
  const refused = async (body: object, ...loc: string[]) =>
    expect(await api.sendRaw(updateCustomer, { params, body })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', ...loc] }] } })
  await refused({ external_id: 'other' }, 'external_id')
  await refused({ external_id: null }, 'external_id')
  await refused({ billing_address: null }, 'billing_address')
  await refused({ email: null }, 'email')
  await refused({ billing_address: { country: 'FR' } }, 'tax_id')
  await refused({ tax_id: 'DE136695978' }, 'tax_id')
  await refused({ billing_address: { country: 'KP' } }, 'billing_address', 'country')
  await refused({ email: 'no address' }, 'email')
  expect(await api.call(updateCustomer, { params, body: { type: 'team', email: null } })).toMatchObject({ type: 'team', email: null })
  await refused({ type: 'individual' }, 'type')
})

test('rejects a team that has neither an owner nor an address, and a tax number without a country', async () => {
  const { api } = await world.shop()
  const refused = async (body: object, ...loc: string[]) =>
    expect(await api.sendRaw(createCustomer, { body })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', ...loc] }] } })
  await refused({ type: 'team', name: 'Nobody' }, 'owner')
  await refused({ name: 'Nobody' }, 'email')
  await refused({ email: 'a@people.test', tax_id: 'DE136695976' }, 'tax_id')
  await refused({ email: 'a@people.test', owner: { email: 'b@people.test' } }, 'owner', 'email')
  await refused({ type: 'club', email: 'a@people.test' }, 'type')
})

test('filters customers by address, text, metadata and activity, and sorts them by name and email', async () => {
  const { api } = await world.shop()
  for (const [name, plan] of [
    ['Carol', 'pro'],
    ['Alice', 'free'],
    ['Bob', 'pro'],
  ] as const)
    await api.call(createCustomer, { body: { email: `${name}@people.test`, name, external_id: `ext_${name}`, metadata: { plan } } })
  const names = async (query: object) => (await api.call(listCustomers, { query })).items.map(({ name }) => name)
  expect(await names({ sorting: 'name' })).toEqual(['Alice', 'Bob', 'Carol'])
  expect(await names({ sorting: '-email' })).toEqual(['Carol', 'Bob', 'Alice'])
  expect(await names({ email: 'BOB@people.test' })).toEqual(['Bob'])
  expect(await names({ query: 'ext_a' })).toEqual(['Alice'])
  expect(await names({ query: 'e' })).toEqual(['Bob', 'Alice', 'Carol'])
  expect(await names({ metadata: { plan: 'pro' } })).toEqual(['Bob', 'Carol'])
  expect(await names({ active: 'true' })).toEqual([])
  expect(await names({ active: 'false', limit: '1', page: '2' })).toEqual(['Alice'])
  expect(await names({ active: '', email: '' })).toHaveLength(3)
})

test('an external id shared by two organizations of one person returns 409 until the request names one of them', async () => {
  const person = await world.person()
  const [first, second] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
  const token = (await person.token()).secret
  const api = world.client({ token })
  for (const { id } of [first, second]) await api.call(createCustomer, { body: { organization_id: id, email: 'both@people.test', external_id: 'both' } })
  const params = { external_id: 'both' }
  for (const answer of [
    await api.send(getExternalCustomer, { params }),
    await api.send(updateExternalCustomer, { params, body: { name: 'X' } }),
    await api.send(deleteExternalCustomer, { params }),
    await api.send(listExternalPaymentMethods, { params }),
    await api.send(listExternalCustomerMembers, { params }),
    await api.send(createExternalMember, { params, body: { email: 'x@people.test' } }),
    await api.send(getExternalMember, { params: { ...params, member_external_id: 'both' } }),
    await api.send(updateExternalMember, { params: { ...params, member_external_id: 'both' }, body: { name: 'X' } }),
    await api.send(deleteExternalMember, { params: { ...params, member_external_id: 'both' } }),
    await api.send(getFlatExternalMember, { params: { external_id: 'both' }, query: { external_customer_id: 'both' } }),
    await api.send(createCustomerSession, { body: { external_customer_id: 'both' } }),
  ])
    expect(answer).toMatchObject({ status: 409, body: { error: 'AmbiguousExternalCustomerID' } })
  const confined = world.client({ token }, { 'bursar-organization': second.id })
  expect(await confined.call(getExternalCustomer, { params })).toMatchObject({ organization_id: second.id })
  expect((await confined.send(deleteExternalCustomer, { params })).status).toBe(204)
  expect(await api.call(getExternalCustomer, { params })).toMatchObject({ organization_id: first.id })
})

test('lists the stored payment methods and marks the default one', async () => {
  const { api, organization } = await world.shop()
  const made = await api.call(createCustomer, { body: { email: 'card@people.test', external_id: 'card' } })
  const params = { id: made.id }
  expect((await api.call(listPaymentMethods, { params })).items).toEqual([])
  const id = newId(world.clock.wall())
  await world.database.owner(async (owner) => {
    await owner.query(
      `insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata) values ($1, $2, now(), $3, 'stripe', 'card', $4)`,
      [organization.id, id, made.id, { brand: 'visa', last4: '4242', exp_month: 12, exp_year: 2030, wallet: null }],
    )
    await owner.query('update customers set default_payment_method_id = $1 where id = $2', [id, made.id])
  })
  for (const answer of [await api.call(listPaymentMethods, { params }), await api.call(listExternalPaymentMethods, { params: { external_id: 'card' } })])
    expect(answer).toMatchObject({ items: [{ id, type: 'card', method_metadata: { last4: '4242' }, is_default: true }], pagination: { total_count: 1 } })
  expect((await api.call(getCustomer, { params })).default_payment_method_id).toBe(id)
})

test('a pure seat holder is shown as a customer only before phase 2, and a buyer of seats as a team only from phase 2 on', async () => {
  const { api, organization, phase } = await world.shop()
  const holder = await api.call(createCustomer, { body: { email: 'holder@people.test', external_id: 'holder' } })
  const buyer = await api.call(createCustomer, { body: { email: 'buyer@people.test' } })
  await world.database.owner(async (owner) => {
    await owner.query('update customers set pure_holder = true where id = $1', [holder.id])
    await owner.query('update customers set becomes_team = true where id = $1', [buyer.id])
  })
  const look = async () => ({
    enabled: (await api.call(getOrganization, { params: { id: organization.id } })).feature_settings!.member_model_enabled,
    holder: (await api.send(getCustomer, { params: { id: holder.id } })).status,
    external: (await api.send(getExternalCustomer, { params: { external_id: 'holder' } })).status,
    type: (await api.call(getCustomer, { params: { id: buyer.id } })).type,
    total: (await api.call(listCustomers, {})).pagination.total_count,
    filtered: (await api.call(listCustomers, { query: { query: 'people' } })).pagination.total_count,
    members: (await api.call(listMembers, {})).pagination.total_count,
  })
  for (const early of ['before', 'phase1'] as const) {
    await phase(early)
    expect(await look()).toEqual({ enabled: false, holder: 200, external: 200, type: 'individual', total: 2, filtered: 2, members: 2 })
    expect((await api.send(createCustomer, { body: { email: 'HOLDER@people.test' } })).status).toBe(422)
    expect((await world.database.owner((owner) => owner.query('select 1 from customers where organization_id = $1', [organization.id]))).rows).toHaveLength(2)
  }
  await phase('phase2')
  expect(await look()).toEqual({ enabled: true, holder: 404, external: 404, type: 'team', total: 1, filtered: 1, members: 1 })
  expect((await api.send(createCustomer, { body: { email: 'holder@people.test', external_id: 'holder' } })).status).toBe(201)
  expect(await api.call(updateCustomer, { params: { id: buyer.id }, body: { email: null } })).toMatchObject({ type: 'team', email: null })
})
