import { addPortalMember, createCustomer, createCustomerSession, createMember, listCustomerMembers, updateMember, updatePortalMember } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'

const rounds = counted('ROUNDS', 40, 10)

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const times = <T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, at) => work(at)))

test('creates one customer from fifty parallel create requests with the same e-mail address', { timeout: 300_000 }, async () => {
  const { api, organization, events } = await world.shop()
  for (let round = 0; round < rounds; round++) {
    const answers = await times(50, (at) => api.send(createCustomer, { body: { email: `${at % 2 ? 'Same' : 'same'}-${round}@people.test` } }))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(49)
  }
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ customers: string; members: string; owners: string; counted: string }>(
      `select (select count(*) from customers where organization_id = $1) as customers, (select count(*) from members where organization_id = $1) as members,
         (select count(*) from members where organization_id = $1 and role = 'owner') as owners,
         (select sum(delta) from collection_deltas where organization_id = $1 and collection = 'customers') as counted`,
      [organization.id],
    ),
  )
  expect(rows[0]).toEqual({ customers: `${rounds}`, members: `${rounds}`, owners: `${rounds}`, counted: `${rounds}` })
  expect(await events('customer.created')).toHaveLength(rounds)
  expect(await events('member.created')).toHaveLength(rounds)
})

test('leaves one owner after two parallel ownership transfers, and emits each change once', { timeout: 300_000 }, async () => {
  const { api, events } = await world.shop()
  for (let round = 0; round < rounds; round++) {
    const customer = await api.call(createCustomer, { body: { type: 'team', email: `team-${round}@people.test` } })
    const params = { id: customer.id }
    const heirs = await times(2, (at) => api.call(createMember, { params, body: { email: `heir-${at}@people.test` } }))
    const before = (await events('member.updated')).length
    const answers = await times(2, (at) => api.send(updateMember, { params: { ...params, member_id: heirs[at]!.id }, body: { role: 'owner' } }))
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    const members = (await api.call(listCustomerMembers, { params })).items
    expect(members.map(({ role }) => role).toSorted()).toEqual(['billing_manager', 'billing_manager', 'owner'])
    // Two transfers change two members each: the old and the new owner.
    const told = (await events('member.updated')).slice(before)
    expect(told).toHaveLength(4)
    for (const { id, role } of members) expect(told.findLast(({ data }) => data.id === id)!.data.role).toBe(role)
  }
})

test('transfers ownership once if an owner hands the team to two people in parallel', { timeout: 300_000 }, async () => {
  const { api } = await world.shop()
  for (let round = 0; round < rounds; round++) {
    const customer = await api.call(createCustomer, { body: { type: 'team', email: `team-${round}@people.test` } })
    const [owner] = (await api.call(listCustomerMembers, { params: { id: customer.id } })).items
    const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: owner!.id } })).token })
    const heirs = await times(2, (at) => portal.call(addPortalMember, { body: { email: `heir-${at}@people.test` } }))
    const answers = await times(2, (at) => portal.send(updatePortalMember, { params: { id: heirs[at]!.id }, body: { role: 'owner' } }))
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 403])
  }
})
