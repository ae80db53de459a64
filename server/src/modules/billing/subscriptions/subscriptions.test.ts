import {
  createCustomer,
  createDiscount,
  createMeter,
  createProduct,
  deleteCustomer,
  deleteDiscount,
  getProduct,
  getSubscription,
  listSubscriptions,
  updateProduct,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { changeSubscription, lockSubscription } from '../records/subscriptions.sql.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

const at = (text: string) => new Date(`2026-${text}T00:00:00Z`)

/** A shop with two plans, two customers and a discount. */
const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const plan = (name: string, price_amount: number) =>
    api.call(createProduct, { body: { name, recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount }] } })
  return {
    ...shop,
    basic: await plan('Basic', 1000),
    grand: await plan('Grand', 5000),
    anna: await api.call(createCustomer, { body: { email: 'anna@people.test', external_id: 'a-1' } }),
    bert: await api.call(createCustomer, { body: { email: 'bert@people.test', external_id: 'b-1' } }),
    tenth: await api.call(createDiscount, { body: { name: 'A tenth', type: 'percentage', duration: 'forever', basis_points: 1000 } }),
  }
}

test('shows the customer, the product and the prices at which it was bought, even after these were changed or deleted', async () => {
  const { api, anna, tenth, organization } = await open()
  const meter = await api.call(createMeter, {
    body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } },
  })
  const product = await api.call(createProduct, {
    body: {
      name: 'Plan',
      recurring_interval: 'month',
      prices: [
        { amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '2.5' },
        { amount_type: 'fixed', price_amount: 1000 },
      ],
    },
  })
  const [fixed, metered] = product.prices
  // A price that was created for a single checkout.
  const adHoc = newId(world.clock.wall())
  const checkout_id = await sales.checkout(product)
  await world.database.owner((owner) =>
    owner.query(
      `insert into product_prices (organization_id, id, product_id, position, created_at, source, amount_type, price_currency, is_archived, price_amount, checkout_id)
       values ($1, $2, $3, 9, $4, 'ad_hoc', 'fixed', 'usd', false, 700, $5)`,
      [organization.id, adHoc, product.id, world.clock.wall(), checkout_id],
    ),
  )
  const given = { discount_id: tenth.id, checkout_id, seats: 3, metadata: { source: 'ad' }, custom_field_data: { size: 'L', since: null } }
  const { id } = await sales.subscription(anna, product, [metered!.id, fixed!.id, adHoc], given)
  await api.call(updateProduct, { params: { id: product.id }, body: { is_archived: true, prices: [{ amount_type: 'fixed', price_amount: 2000 }] } })
  await api.call(deleteDiscount, { params: { id: tenth.id } })
  await api.call(deleteCustomer, { params: { id: anna.id } })

  const seen = await api.call(getSubscription, { params: { id } })
  expect(seen).toMatchObject({ ...given, status: 'active', amount: 1000, currency: 'usd', customer_id: anna.id, product_id: product.id, pending_update: null })
  expect(seen.customer).toMatchObject({ id: anna.id, email: 'anna@people.test', type: 'individual' })
  expect(seen.customer.deleted_at).not.toBeNull()
  expect(seen.customer.avatar_url).toMatch(/^data:image/)
  expect(seen.product).toMatchObject({ id: product.id, is_archived: true, prices: [{ price_amount: 2000 }] })
  expect(seen.discount).toMatchObject({ id: tenth.id, basis_points: 1000, duration: 'forever' })
  expect(seen.discount).not.toHaveProperty('products')
  expect(seen.prices.map((price) => [price.id, price.source, price.is_archived])).toEqual([
    [fixed!.id, 'catalog', true],
    [adHoc, 'ad_hoc', false],
    [metered!.id, 'catalog', true],
  ])
  expect(seen.meters).toMatchObject([{ meter_id: meter.id, consumed_units: 0, credited_units: 0, amount: 0, meter: { name: 'Calls' } }])
  // A price that was created for a single checkout is not part of the product's catalog prices.
  expect((await api.call(getProduct, { params: { id: product.id } })).prices).toHaveLength(1)
  expect((await api.call(listSubscriptions, {})).items).toEqual([seen])
})

test('shows a team customer as a team once the organization uses the member model', async () => {
  const { api, anna, basic, phase } = await open()
  const { id } = await sales.subscription(anna, basic, [])
  await world.database.owner((owner) => owner.query('update customers set becomes_team = true where id = $1', [anna.id]))
  await phase('phase1')
  expect((await api.call(getSubscription, { params: { id } })).customer.type).toBe('individual')
  await phase('phase2')
  expect((await api.call(getSubscription, { params: { id } })).customer.type).toBe('team')
})

test('lists subscriptions by every filter, alone and combined, and by every sorting', async () => {
  const { api, anna, bert, basic, grand, tenth, organization } = await open()
  const one = await sales.subscription(anna, basic, [basic.prices[0]!.id], { started_at: at('01-01'), discount_id: tenth.id, metadata: { tier: 'x', n: 1 } })
  const two = await sales.subscription(bert, grand, [], {
    status: 'canceled',
    amount: 5000,
    started_at: at('02-01'),
    canceled_at: at('02-10'),
    ends_at: at('02-20'),
    ended_at: at('02-20'),
    customer_cancellation_reason: 'too_expensive',
    metadata: { tier: 'y' },
    current_period_end: at('05-01'),
  })
  const three = await sales.subscription(bert, basic, [], {
    status: 'trialing',
    amount: 2000,
    started_at: at('03-01'),
    cancel_at_period_end: true,
    canceled_at: at('03-05'),
    ends_at: at('04-01'),
    current_period_end: at('06-01'),
  })
  const four = await sales.subscription(anna, grand, [], { status: 'incomplete', amount: 1, started_at: null, created_at: at('01-15') })
  const names = new Map([one, two, three, four].map(({ id }, index) => [id, index + 1]))
  const list = async (query: object) => {
    const { items, pagination } = await api.call(listSubscriptions, { query })
    expect(pagination.total_count).toBe(items.length)
    return items.map(({ id }) => names.get(id))
  }
  expect(await list({})).toEqual([3, 2, 4, 1])
  expect(await list({ organization_id: organization.id })).toHaveLength(4)
  expect(await list({ organization_id: newId(world.clock.wall()) })).toEqual([])
  expect(await list({ product_id: basic.id })).toEqual([3, 1])
  expect(await list({ product_id: [basic.id, grand.id] })).toHaveLength(4)
  expect(await list({ customer_id: anna.id })).toEqual([4, 1])
  expect(await list({ external_customer_id: ['b-1', 'nobody'] })).toEqual([3, 2])
  expect(await list({ external_customer_id: 'nobody' })).toEqual([])
  expect(await list({ discount_id: tenth.id })).toEqual([1])
  expect(await list({ active: 'true' })).toEqual([3, 1])
  expect(await list({ active: 'false' })).toEqual([2, 4])
  expect(await list({ status: ['canceled', 'trialing'] })).toEqual([3, 2])
  expect(await list({ cancel_at_period_end: 'true' })).toEqual([3])
  expect(await list({ customer_cancellation_reason: 'too_expensive' })).toEqual([2])
  expect(await list({ canceled_at_after: at('03-05').toISOString() })).toEqual([3])
  expect(await list({ canceled_at_before: at('03-04').toISOString() })).toEqual([2])
  expect(await list({ started_after: at('02-01').toISOString(), started_before: at('03-01').toISOString() })).toEqual([3, 2])
  expect(await list({ 'metadata[tier]': ['x', 'y'] })).toEqual([2, 1])
  expect(await list({ 'metadata[tier]': 'x', 'metadata[n]': '1' })).toEqual([1])
  expect(await list({ product_id: basic.id, customer_id: bert.id, active: 'true' })).toEqual([3])

  expect(await list({ sorting: ['customer', '-amount'] })).toEqual([1, 4, 2, 3])
  expect(await list({ sorting: ['status'] })).toEqual([1, 2, 4, 3])
  expect(await list({ sorting: ['started_at'] })).toEqual([1, 4, 2, 3])
  expect(await list({ sorting: ['-current_period_end', 'started_at'] })).toEqual([3, 2, 1, 4])
  expect((await list({ sorting: ['ended_at', 'started_at'] }))[0]).toBe(2)
  expect((await list({ sorting: ['ends_at', 'started_at'] })).slice(0, 2)).toEqual([2, 3])
  expect(await list({ sorting: ['-amount'] })).toEqual([2, 3, 1, 4])
  expect(await list({ sorting: ['product', 'amount'] })).toEqual([1, 3, 4, 2])
  expect((await list({ sorting: ['-discount'] }))[0]).toBe(1)
  expect((await api.sendRaw(listSubscriptions, { query: { sorting: 'color' } })).status).toBe(422)
  expect((await api.sendRaw(listSubscriptions, { query: { status: 'odd' } })).status).toBe(422)

  // Pagination also covers rows whose `ends_at` is null.
  const seen: (number | undefined)[] = []
  for (let cursor: string | null | undefined = undefined; cursor !== null;) {
    const page: Awaited<ReturnType<typeof api.call<typeof listSubscriptions>>> = await api.call(listSubscriptions, {
      query: { limit: '1', sorting: 'ends_at', ...(cursor ? { cursor } : {}) },
    })
    seen.push(...page.items.map(({ id }) => names.get(id)))
    cursor = page.pagination.next_cursor
  }
  expect(new Set(seen)).toEqual(new Set([1, 2, 3, 4]))
  expect(seen).toHaveLength(4)
})

test('returns 404 to other organizations and 403 without the scope, and lists all organizations of a user', async () => {
  const { api, anna, basic, organization } = await open()
  const { id } = await sales.subscription(anna, basic, [])
  const other = await open()
  await sales.subscription(other.anna, other.basic, [])
  expect((await other.api.send(getSubscription, { params: { id } })).status).toBe(404)
  expect((await other.api.send(getSubscription, { params: { id: newId(world.clock.wall()) } })).status).toBe(404)
  expect((await api.call(listSubscriptions, {})).items.map((one) => one.id)).toEqual([id])
  const narrow = world.client({ token: (await organization.token(['orders:read'])).secret })
  expect((await narrow.send(getSubscription, { params: { id } })).status).toBe(403)
  expect((await narrow.send(listSubscriptions, {})).status).toBe(403)
  expect((await world.client().send(listSubscriptions, {})).status).toBe(401)
  const person = await world.person()
  await world.join(organization.id, person.id, 'finance')
  await world.join(other.organization.id, person.id, 'member')
  const both = world.client({ token: (await person.token()).secret })
  expect((await both.call(listSubscriptions, {})).pagination.total_count).toBe(2)
  expect((await both.send(getSubscription, { params: { id } })).status).toBe(200)
})

test('serializes concurrent changes of a locked subscription', async () => {
  const { api, anna, basic, organization } = await open()
  const { id } = await sales.subscription(anna, basic, [])
  const scope = within(organization.id, 'machine', 'phase2')
  await Promise.all(
    Array.from({ length: 10 }, () =>
      world.transact(async (tx) => {
        const held = (await lockSubscription(tx, scope, id))!
        await changeSubscription(tx, held, { amount: held.amount + 1, metadata: { ...held.metadata, [`k${held.amount}`]: 1 } })
      }),
    ),
  )
  const seen = await api.call(getSubscription, { params: { id } })
  expect(seen.amount).toBe(1010)
  expect(Object.keys(seen.metadata)).toHaveLength(10)
  expect(await world.transact((tx) => lockSubscription(tx, within(newId(world.clock.wall()), 'machine', 'phase2'), id))).toBeUndefined()
})
