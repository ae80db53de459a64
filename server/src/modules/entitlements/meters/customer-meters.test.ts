import {
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createCustomerSession,
  createMember,
  createMeter,
  createProduct,
  getCustomerMeter,
  getCustomerState,
  getMeterQuantities,
  getPortalMeter,
  getPortalSubscription,
  getSubscription,
  ingestEvents,
  listCustomerMeters,
  listPortalMeters,
  listSubscriptions,
  revokeBenefitGrant,
  updateMeter,
  type Aggregation,
  type CustomerState,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { mergeUsage } from '../../usage/index.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  sales = openSales(world)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const sum: Aggregation = { func: 'sum', property: 'units' }

const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const meter = (name: string, aggregation: Aggregation = sum) =>
    api.call(createMeter, { body: { name, filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: name }] }, aggregation } })
  const calls = await meter('calls')
  const ada = await api.call(createCustomer, { body: { email: 'ada@people.test', name: 'Ada', external_id: 'ada' } })
  const bob = await api.call(createCustomer, { body: { email: 'bob@people.test', name: 'Bob', external_id: 'bob' } })
  const use = (external_customer_id: string, units: number, given: object = {}) =>
    api.call(ingestEvents, { body: { events: [{ name: 'calls', external_customer_id, metadata: { units }, ...given }] } })
  const credit = async (customer_id: string, units: number, meter_id = calls.id) => {
    const benefit = await api.call(createBenefit, { body: { type: 'meter_credit', description: 'Units', properties: { meter_id, units, rollover: false } } })
    return api.call(createBenefitGrant, { body: { customer_id, benefit_id: benefit.id } })
  }
  const list = async (query: object = {}) => (await api.call(listCustomerMeters, { query: { sorting: 'created_at', ...query } })).items
  /** Merges usage and stores the units by which lists are sorted. */
  const settle = async () => {
    await mergeUsage(deployment.deps)
    await deployment.sweep('usage.backfill_meters', 'entitlements.refresh_meters')
  }
  return { ...shop, meter, calls, ada, bob, use, credit, list, settle }
}

const period = () => {
  const now = world.clock.wall().getTime()
  return { current_period_start: new Date(now - 3_600_000), current_period_end: new Date(now + 3_600_000) }
}

test('[S1-13] shows the balance with all usage in the first read after an ingest, before and after totals are merged', async () => {
  const { api, calls, ada, use, credit, list, settle } = await open()
  expect(await list()).toEqual([])
  await use('ada', 2.5)
  const [first] = await list()
  expect(first).toMatchObject({ customer_id: ada.id, meter_id: calls.id, consumed_units: 2.5, credited_units: 0, balance: -2.5 })
  expect(first!.customer).toMatchObject({ id: ada.id, name: 'Ada' })
  expect(first!.meter).toEqual(calls)
  await credit(ada.id, 10)
  await use('ada', 0.1)
  await use('ada', 0.2)
  const expected = { consumed_units: 2.8, credited_units: 10, balance: 7.2 }
  expect(await api.call(getCustomerMeter, { params: { id: first!.id } })).toMatchObject(expected)
  expect((await api.call(getCustomerState, { params: { id: ada.id } })).active_meters).toEqual([
    {
      id: first!.id,
      created_at: first!.created_at,
      modified_at: first!.modified_at,
      meter_id: calls.id,
      ...expected,
      reserved_units: 0,
      as_of: expect.any(String) as string,
    },
  ])
  await settle()
  await settle()
  expect(await list()).toMatchObject([{ id: first!.id, ...expected, modified_at: expect.any(String) as string }])
})

test('counts the usage of the period of a subscription, and shows its amount to the payer and to the seller', async () => {
  const { api, meter, calls, ada, use, list } = await open()
  const uploads = await meter('uploads', { func: 'unique', property: 'file' })
  const product = await api.call(createProduct, {
    body: {
      name: 'By use',
      recurring_interval: 'month',
      prices: [
        { amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '0.5' },
        { amount_type: 'metered_unit', meter_id: uploads.id, unit_amount: '100', cap_amount: 150 },
      ],
    },
  })
  const current = period()
  const { id } = await sales.subscription(
    ada,
    product,
    product.prices.map((price) => price.id),
    current,
  )
  const at = (shift: number) => ({ timestamp: new Date(current.current_period_start.getTime() + shift).toISOString() })
  await use('ada', 1000, at(-1))
  await use('ada', 3, at(0))
  await use('ada', 0.25, at(60_000))
  await use('bob', 50, at(60_000))
  const file = (name: string) => ({ name: 'uploads', external_customer_id: 'ada', metadata: { file: name } })
  await api.call(ingestEvents, { body: { events: [file('a'), file('b'), file('a')] } })
  await api.call(ingestEvents, { body: { events: [file('b')] } })
  const meters = [
    { meter_id: calls.id, consumed_units: 3.25, credited_units: 0, amount: 2 },
    { meter_id: uploads.id, consumed_units: 2, credited_units: 0, amount: 150 },
  ]
  const byMeter = <T extends { meter_id: string }>(items: readonly T[]) =>
    items.toSorted((a, b) => (a.meter_id === calls.id ? -1 : b.meter_id === calls.id ? 1 : 0))
  expect(byMeter((await api.call(getSubscription, { params: { id } })).meters)).toMatchObject(meters)
  expect(byMeter((await api.call(listSubscriptions, {})).items[0]!.meters)).toMatchObject(meters)
  const state = await api.call(getCustomerState, { params: { id: ada.id } })
  expect(byMeter(state.active_subscriptions[0]!.meters)).toMatchObject(meters)
  expect(byMeter(state.active_meters)).toMatchObject([
    { meter_id: calls.id, consumed_units: 3.25, balance: -3.25 },
    { meter_id: uploads.id, consumed_units: 2, balance: -2 },
  ])
  // Without a subscription, all usage counts.
  expect(await list({ customer_id: ada.id, meter_id: calls.id })).toMatchObject([{ consumed_units: 3.25 }])
  expect(await list({ external_customer_id: 'bob' })).toMatchObject([{ consumed_units: 50 }])
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: ada.id } })).token })
  expect(byMeter((await portal.call(getPortalSubscription, { params: { id } })).meters)).toMatchObject(meters)
})

test('lists by customer, meter and organization, hides archived meters unless they are named, and sorts by units and names', async () => {
  const { api, organization, meter, calls, ada, bob, use, credit, list, settle } = await open()
  const other = await meter('archive me')
  await use('ada', 5)
  await use('bob', 7)
  await use('ada', 1, { name: 'archive me' })
  await credit(bob.id, 100)
  await settle()
  const names = async (query: object) => (await list(query)).map(({ customer, meter: { name } }) => `${customer.name} ${name}`)
  expect((await names({})).toSorted()).toEqual(['Ada archive me', 'Ada calls', 'Bob calls'])
  expect(await names({ customer_id: bob.id })).toEqual(['Bob calls'])
  expect(await names({ external_customer_id: ['ada'], meter_id: calls.id })).toEqual(['Ada calls'])
  expect(await names({ external_customer_id: ['nobody'] })).toEqual([])
  expect(await names({ organization_id: organization.id, meter_id: calls.id, sorting: '-consumed_units' })).toEqual(['Bob calls', 'Ada calls'])
  expect(await names({ meter_id: calls.id, sorting: 'balance' })).toEqual(['Ada calls', 'Bob calls'])
  expect(await names({ meter_id: calls.id, sorting: '-credited_units' })).toEqual(['Bob calls', 'Ada calls'])
  for (const sorting of ['customer_name', 'created_at']) expect(await names({ meter_id: calls.id, sorting })).toEqual(['Ada calls', 'Bob calls'])
  expect(await names({ sorting: ['-meter_name', '-customer_name'] })).toEqual(['Bob calls', 'Ada calls', 'Ada archive me'])
  for (const sorting of ['modified_at', 'customer_id', 'meter_id']) expect(await names({ sorting })).toHaveLength(3)
  const first = await api.call(listCustomerMeters, { query: { sorting: '-consumed_units', limit: '2' } })
  expect(first.pagination).toMatchObject({ total_count: 3, max_page: 2 })
  const rest = await api.call(listCustomerMeters, { query: { sorting: '-consumed_units', limit: '2', cursor: first.pagination.next_cursor! } })
  expect(rest.items.map(({ consumed_units }) => consumed_units)).toEqual([1])
  await api.call(updateMeter, { params: { id: other.id }, body: { is_archived: true } })
  expect(await names({ customer_id: ada.id })).toEqual(['Ada calls'])
  expect(await names({ meter_id: other.id })).toEqual(['Ada archive me'])
})

test('the portal shows meters of live subscriptions and of granted credits to payers, and refuses plain members [S4-31]', async () => {
  const { api, calls, ada, use, credit } = await open()
  const team = await api.call(createCustomer, {
    body: { type: 'team', email: 'team@people.test', external_id: 'team', owner: { email: 'owner@people.test' } } as never,
  })
  const plain = await api.call(createMember, { params: { id: team.id }, body: { email: 'plain@people.test' } })
  const manager = await api.call(createMember, { params: { id: team.id }, body: { email: 'manager@people.test', role: 'billing_manager' } })
  const session = async (body: object) => world.client({ token: (await api.call(createCustomerSession, { body })).token })
  const portal = await session({ customer_id: team.id, member_id: manager.id })
  await use('team', 3)
  await use('ada', 9)
  // Usage alone is not shown, because the customer does not pay for it.
  expect((await portal.call(listPortalMeters, {})).items).toEqual([])
  const grant = await credit(team.id, 10)
  const { items, pagination } = await portal.call(listPortalMeters, { query: { query: 'call', sorting: '-balance' } })
  expect(items).toMatchObject([{ customer_id: team.id, meter_id: calls.id, consumed_units: 3, credited_units: 10, balance: 7 }])
  expect(items[0]!.meter).toEqual({ id: calls.id, created_at: calls.created_at, modified_at: calls.modified_at, name: calls.name })
  expect(items[0]).not.toHaveProperty('customer')
  expect(pagination.total_count).toBe(1)
  const params = { id: items[0]!.id }
  expect(await portal.call(getPortalMeter, { params })).toEqual(items[0])
  for (const query of [{ meter_id: newId(world.clock.wall()) }, { query: 'storage' }])
    expect((await portal.call(listPortalMeters, { query })).items).toEqual([])

  const member = await session({ customer_id: team.id, member_id: plain.id })
  expect(await member.send(listPortalMeters, {})).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  expect(await member.send(getPortalMeter, { params })).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  const stranger = await session({ customer_id: ada.id })
  expect((await stranger.send(getPortalMeter, { params })).status).toBe(404)
  expect((await stranger.call(listPortalMeters, {})).items).toEqual([])

  await api.call(revokeBenefitGrant, { params: { grant_id: grant.id } })
  expect((await portal.call(listPortalMeters, {})).items).toEqual([])
  expect((await portal.send(getPortalMeter, { params })).status).toBe(404)
})

test('state events of several customers contain the usage of each of them', async () => {
  const { ada, bob, use, credit, events, meter } = await open()
  const other = await meter('others')
  await credit(ada.id, 10)
  await credit(ada.id, 5, other.id)
  await credit(bob.id, 20)
  await use('ada', 1)
  await use('ada', 2, { name: 'others' })
  await use('bob', 4)
  world.clock.advance(1001)
  await deployment.sweep('entitlements.tell_state')
  const states = (await events('customer.state_changed')).map(({ data }) => data as unknown as CustomerState)
  const balances = (id: string) => states.findLast((state) => state.id === id)!.active_meters.map(({ balance }) => balance)
  expect(balances(ada.id)).toEqual([9, 3])
  expect(balances(bob.id)).toEqual([16])
})

test('shows the largest number if the usage exceeds it', async () => {
  const { calls, ada, use, list } = await open()
  await use('ada', 1)
  await world.database.owner((owner) => owner.query(`update usage_quarters set total = '1e400' where meter_id = $1`, [calls.id]))
  await world.database.owner((owner) => owner.query(`update usage_meters set counted_at = now() where id = $1`, [calls.id]))
  expect(await list({ customer_id: ada.id })).toMatchObject([{ consumed_units: Number.MAX_VALUE, balance: -Number.MAX_VALUE }])
})

/** Gives Bob a seat that Ada has bought. Ada has used 4 units, and Bob 3 units an hour ago. */
const openSeat = async () => {
  const shop = await open()
  const { api, ada, bob, use, organization, list } = shop
  const now = world.clock.wall()
  await use('ada', 4)
  await use('bob', 3, { timestamp: new Date(now.getTime() - 3_600_000).toISOString() })
  const product = await api.call(createProduct, {
    body: { name: 'Seats', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000 }] },
  })
  const { id } = await sales.subscription(ada, product, [], {})
  const member_id = await world.database.owner(async (owner) => {
    const { rows } = await owner.query<{ id: string }>(`select id from members where customer_id = $1 and role = 'owner'`, [ada.id])
    await owner.query(`update customers set pure_holder = true where id = $1`, [bob.id])
    await owner.query(
      `insert into seats (organization_id, id, created_at, subscription_id, buyer_customer_id, holder_customer_id, member_id, status, email, claimed_at, metadata)
       values ($1, $2, $3, $4, $5, $6, $7, 'claimed', 'bob@people.test', $3, '{}')`,
      [organization.id, newId(now), now, id, ada.id, bob.id, rows[0]!.id],
    )
    return rows[0]!.id
  })
  const numbers = async () => (await list()).map(({ customer_id, consumed_units }) => [customer_id === ada.id ? 'ada' : 'bob', consumed_units])
  /** The quantity of the meter for a customer, and the largest quantity of a customer. */
  const quantities = async (customer_id: string) => {
    const at = world.clock.wall().getTime()
    const range = { start_timestamp: new Date(at - 86_400_000).toISOString(), end_timestamp: new Date(at + 60_000).toISOString(), interval: 'day' as const }
    const total = async (query: object) => (await api.call(getMeterQuantities, { params: { id: shop.calls.id }, query: { ...range, ...query } })).total
    return [await total({ customer_id }), await total({ customer_aggregation_function: 'max' })]
  }
  return { ...shop, member_id, numbers, quantities }
}

test('usage of a seat holder counts for the holder before phase 2, and for the buyer from phase 2 on', async () => {
  const { phase, numbers } = await openSeat()
  await phase('phase1')
  expect(await numbers()).toEqual([
    ['ada', 4],
    ['bob', 3],
  ])
  await phase('phase2')
  expect(await numbers()).toEqual([['ada', 7]])
})

test('usage of a seat holder stays with the buyer after the member was removed, and later usage does not count for the buyer', async () => {
  const { phase, numbers, quantities, member_id, ada, bob, use } = await openSeat()
  await phase('phase2')
  expect(await quantities(ada.id)).toEqual([7, 7])
  await world.database.owner((owner) => owner.query('update members set deleted_at = $2 where id = $1', [member_id, world.clock.wall()]))
  expect(await numbers()).toEqual([['ada', 7]])
  expect(await quantities(ada.id)).toEqual([7, 7])
  world.clock.advance(16 * 60_000)
  await use('bob', 5)
  expect(await numbers()).toEqual([['ada', 7]])
  expect(await quantities(ada.id)).toEqual([7, 7])
  await world.database.owner((owner) => owner.query('update customers set pure_holder = false where id = $1', [bob.id]))
  expect(await numbers()).toEqual([
    ['ada', 7],
    ['bob', 5],
  ])
  expect(await quantities(bob.id)).toEqual([5, 7])
  // Before phase 2, all usage of the holder counts for the holder.
  await phase('phase1')
  expect(await numbers()).toEqual([
    ['ada', 4],
    ['bob', 8],
  ])
})

test('usage of a seat holder stays with the buyer after the holder became a customer of its own', async () => {
  const { phase, numbers, bob, use } = await openSeat()
  await phase('phase2')
  await world.database.owner((owner) => owner.query('update customers set pure_holder = false where id = $1', [bob.id]))
  expect(await numbers()).toEqual([
    ['ada', 7],
    ['bob', 0],
  ])
  world.clock.advance(16 * 60_000)
  await use('bob', 5)
  expect(await numbers()).toEqual([
    ['ada', 7],
    ['bob', 5],
  ])
})

test('usage of a seat holder stays with the buyer after the data of the holder was erased', async () => {
  const { phase, numbers, bob } = await openSeat()
  await phase('phase2')
  await world.database.owner((owner) => owner.query('update customers set deleted_at = $2 where id = $1', [bob.id, world.clock.wall()]))
  expect(await numbers()).toEqual([['ada', 7]])
})

test('rejects missing credentials, wrong scopes and customer meters of other sellers', async () => {
  const { organization, use, list } = await open()
  await use('ada', 1)
  const { id } = (await list())[0]!
  const params = { id }
  expect((await world.client().send(getCustomerMeter, { params })).status).toBe(401)
  expect((await world.client().send(listCustomerMeters, {})).status).toBe(401)
  const reader = world.client({ token: (await organization.token(['customers:read', 'meters:read'])).secret })
  expect((await reader.send(getCustomerMeter, { params })).status).toBe(403)
  expect((await reader.send(listCustomerMeters, {})).status).toBe(403)
  const stranger = (await world.shop()).api
  expect((await stranger.send(getCustomerMeter, { params })).status).toBe(404)
  expect((await stranger.call(listCustomerMeters, { query: { customer_id: (await list())[0]!.customer_id } })).items).toEqual([])
  expect((await stranger.sendRaw(listCustomerMeters, { query: { sorting: 'units' } })).status).toBe(422)
})
