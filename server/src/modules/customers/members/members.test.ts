import {
  createCustomer,
  createExternalMember,
  createFlatMember,
  createMember,
  deleteCustomer,
  deleteExternalMember,
  deleteFlatExternalMember,
  deleteFlatMember,
  deleteMember,
  getExternalMember,
  getFlatExternalMember,
  getFlatMember,
  getMember,
  listCustomerMembers,
  listExternalCustomerMembers,
  listMembers,
  updateCustomer,
  updateExternalMember,
  updateFlatExternalMember,
  updateFlatMember,
  updateMember,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const team = async () => {
  const shop = await world.shop()
  const customer = await shop.api.call(createCustomer, { body: { type: 'team', email: 'pay@people.test', name: 'Works', external_id: 'works' } })
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: customer.id } })).items
  const add = (email: string, more: object = {}) => shop.api.call(createMember, { params: { id: customer.id }, body: { email, ...more } })
  return { ...shop, customer, owner: owner!, add }
}

test('a new customer has an owner, and further members can be created, found and listed [S1-10] [S2-03] [S6-05]', async () => {
  const { api, customer, owner, events, add } = await team()
  expect(owner).toMatchObject({
    customer_id: customer.id,
    email: 'pay@people.test',
    name: 'Works',
    role: 'owner',
    external_id: 'works',
    external_member_id: 'works',
  })
  const made = await add('uma@people.test', { name: 'Uma', external_id: 'u-1', role: 'billing_manager' })
  expect(made).toMatchObject({ customer_id: customer.id, email: 'uma@people.test', role: 'billing_manager', external_id: 'u-1', external_member_id: 'u-1' })
  expect(await api.call(getMember, { params: { id: customer.id, member_id: made.id } })).toEqual(made)
  expect(await api.call(getExternalMember, { params: { external_id: 'works', member_external_id: 'u-1' } })).toEqual(made)
  const second = await api.call(createExternalMember, { params: { external_id: 'works' }, body: { email: 'vic@people.test' } })
  expect(second.role).toBe('member')
  const ids = (page: { items: { id: string }[] }) => page.items.map(({ id }) => id)
  expect(ids(await api.call(listMembers, {}))).toEqual([second.id, made.id, owner.id])
  expect(ids(await api.call(listMembers, { query: { customer_id: customer.id, role: 'member' } }))).toEqual([second.id])
  expect(ids(await api.call(listMembers, { query: { external_customer_id: 'works', sorting: 'created_at' } }))).toEqual([owner.id, made.id, second.id])
  expect(ids(await api.call(listMembers, { query: { external_customer_id: 'other' } }))).toEqual([])
  expect(ids(await api.call(listExternalCustomerMembers, { params: { external_id: 'works' }, query: { role: 'owner' } }))).toEqual([owner.id])
  expect((await api.sendRaw(listMembers, { query: { customer_id: 'x' } })).status).toBe(422)
  expect((await events('member.created')).map(({ data }) => data)).toEqual([owner, made, second])
})

test('adding a member with an existing address returns the existing member and emits no second event', async () => {
  const { api, customer, add, events } = await team()
  const first = await add('one@people.test', { name: 'One' })
  expect(await add('ONE@people.test', { name: 'Other', role: 'billing_manager' })).toEqual(first)
  expect(await events('member.created')).toHaveLength(2)
  const taken = await api.sendRaw(createMember, { params: { id: customer.id }, body: { email: 'two@people.test', external_id: 'works' } })
  expect(taken).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'external_id'] }] } })
  expect((await api.sendRaw(createMember, { params: { id: customer.id }, body: { email: 'three@people.test', role: 'owner' } })).status).toBe(422)
})

test('only a team can have members besides its owner', async () => {
  const { api } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'solo@people.test' } })
  const params = { id: customer.id }
  expect(await api.send(createMember, { params, body: { email: 'friend@people.test' } })).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  expect(await api.call(createMember, { params, body: { email: 'solo@people.test' } })).toMatchObject({ role: 'owner' })
  await api.call(updateCustomer, { params, body: { type: 'team' } })
  expect((await api.send(createMember, { params, body: { email: 'friend@people.test' } })).status).toBe(201)
})

test('every change of a member emits one event, and a transfer of ownership also emits one for the previous owner [S6-06]', async () => {
  const { api, customer, owner, add, events } = await team()
  const heir = await add('heir@people.test', { external_id: 'heir' })
  const change = (member_id: string, body: object) => api.sendRaw(updateMember, { params: { id: customer.id, member_id }, body })
  const told = async () => (await events('member.updated')).map(({ data }) => [data.id, data.role, data.name])
  expect(await change(heir.id, { name: 'Heir' })).toMatchObject({ status: 200, body: { name: 'Heir' } })
  expect(await change(heir.id, { name: 'Heir', email: null, role: null })).toMatchObject({ status: 200, body: { name: 'Heir', email: 'heir@people.test' } })
  expect(await told()).toEqual([[heir.id, 'member', 'Heir']])
  expect(await change(heir.id, { role: 'owner' })).toMatchObject({ status: 200, body: { role: 'owner' } })
  expect((await told()).slice(1)).toEqual([
    [owner.id, 'billing_manager', 'Works'],
    [heir.id, 'owner', 'Heir'],
  ])
  expect(await change(heir.id, { role: 'member' })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'role'] }] } })
  expect(await change(heir.id, { email: 'PAY@people.test' })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'email'] }] } })
  expect(await change(heir.id, { name: null, email: 'Heir@people.test' })).toMatchObject({ status: 200, body: { name: null, email: 'Heir@people.test' } })
  const external = { external_id: 'works', member_external_id: 'heir' }
  expect(await api.call(updateExternalMember, { params: external, body: { name: 'Again' } })).toMatchObject({ name: 'Again' })
})

test('an individual customer and its owner always have the same address', async () => {
  const { api, events } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'old@people.test' } })
  const [owner] = (await api.call(listCustomerMembers, { params: { id: customer.id } })).items
  expect(await api.sendRaw(updateMember, { params: { id: customer.id, member_id: owner!.id }, body: { email: 'x@people.test' } })).toMatchObject({
    status: 422,
  })
  await api.call(updateCustomer, { params: { id: customer.id }, body: { email: 'new@people.test' } })
  expect(await api.call(getMember, { params: { id: customer.id, member_id: owner!.id } })).toMatchObject({ email: 'new@people.test' })
  expect((await events('member.updated', 'customer.updated')).map(({ type, data }) => [type, data.email])).toEqual([
    ['customer.updated', 'new@people.test'],
    ['member.updated', 'new@people.test'],
  ])
})

test('removing a member emits one event, and the owner cannot be removed [S6-07]', async () => {
  const { api, customer, owner, add, events } = await team()
  const [one, two] = [await add('one@people.test', { external_id: 'one' }), await add('two@people.test')]
  expect((await api.send(deleteMember, { params: { id: customer.id, member_id: owner.id } })).status).toBe(422)
  expect((await api.send(deleteExternalMember, { params: { external_id: 'works', member_external_id: 'one' } })).status).toBe(204)
  expect((await api.send(getMember, { params: { id: customer.id, member_id: one.id } })).status).toBe(404)
  expect((await api.send(deleteMember, { params: { id: customer.id, member_id: one.id } })).status).toBe(404)
  expect((await add('one@people.test', { external_id: 'one' })).id).not.toBe(one.id)
  await api.call(deleteCustomer, { params: { id: customer.id } })
  const gone = (await events('member.deleted')).map(({ data }) => data.email)
  expect(gone).toEqual(['one@people.test', 'pay@people.test', 'two@people.test', 'one@people.test'])
  expect((await api.send(getMember, { params: { id: customer.id, member_id: two.id } })).status).toBe(404)
  expect((await api.call(listMembers, {})).items).toEqual([])
})

test('answers 404 for a member of another customer', async () => {
  const { api, customer, add } = await team()
  const member = await add('mine@people.test', { external_id: 'mine' })
  const other = await api.call(createCustomer, { body: { type: 'team', email: 'other@people.test', external_id: 'other' } })
  for (const answer of [
    await api.send(getMember, { params: { id: other.id, member_id: member.id } }),
    await api.send(updateMember, { params: { id: other.id, member_id: member.id }, body: { name: 'X' } }),
    await api.send(deleteMember, { params: { id: other.id, member_id: member.id } }),
    await api.send(getExternalMember, { params: { external_id: 'other', member_external_id: 'mine' } }),
  ])
    expect(answer).toMatchObject({ status: 404, body: { error: 'ResourceNotFound' } })
  expect((await api.call(createMember, { params: { id: other.id }, body: { email: 'mine@people.test', external_id: 'mine' } })).id).not.toBe(member.id)
  expect((await api.call(listCustomerMembers, { params: { id: customer.id } })).items).toHaveLength(2)
})

test('legacy member endpoints return the same members as the current endpoints', async () => {
  const { api, customer } = await team()
  const made = await api.call(createFlatMember, { body: { customer_id: customer.id, email: 'flat@people.test', external_id: 'flat' } })
  expect(await api.call(createFlatMember, { body: { external_customer_id: 'works', email: 'FLAT@people.test' } })).toEqual(made)
  expect(await api.call(getFlatMember, { params: { id: made.id } })).toEqual(made)
  expect(await api.call(updateFlatMember, { params: { id: made.id }, body: { name: 'Flat' } })).toMatchObject({ name: 'Flat' })
  const params = { external_id: 'flat' }
  for (const query of [{ customer_id: customer.id }, { external_customer_id: 'works' }])
    expect(await api.call(getFlatExternalMember, { params, query })).toMatchObject({ id: made.id, name: 'Flat' })
  for (const query of [{}, { customer_id: customer.id, external_customer_id: 'works' }])
    expect(await api.send(getFlatExternalMember, { params, query })).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'customer_id'] }] } })
  expect((await api.send(createFlatMember, { body: { email: 'nobody@people.test' } })).status).toBe(422)
  expect(await api.call(updateFlatExternalMember, { params, query: { customer_id: customer.id }, body: { name: null } })).toMatchObject({ name: null })
  expect((await api.send(deleteFlatExternalMember, { params, query: { customer_id: customer.id } })).status).toBe(204)
  expect((await api.send(getFlatMember, { params: { id: made.id } })).status).toBe(404)
  expect((await api.send(deleteFlatMember, { params: { id: made.id } })).status).toBe(404)
})
