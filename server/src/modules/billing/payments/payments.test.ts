import { createCustomer, createProduct, getPayment, listPayments } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

const open = async () => {
  const shop = await world.shop()
  return {
    ...shop,
    anna: await shop.api.call(createCustomer, { body: { email: 'Anna@people.test' } }),
    bert: await shop.api.call(createCustomer, { body: { email: 'bert@people.test' } }),
    product: await shop.api.call(createProduct, { body: { name: 'Plan', prices: [{ amount_type: 'fixed', price_amount: 1000 }] } }),
  }
}

test("returns every attempt with its result and without the processor's internal data", async () => {
  const { api, anna } = await open()
  const order = await sales.order(anna)
  const card = await sales.payment(anna, {
    order_id: order.id,
    method: 'card',
    method_metadata: { brand: 'visa', last4: '4242' },
    intent_id: 'pi_1',
  })
  const declined = await sales.payment(anna, { status: 'failed', method: 'ideal', decline_reason: 'do_not_honor', decline_message: 'The bank said no.' })
  const pending = await sales.payment(anna, { status: 'pending' })
  expect(await api.call(getPayment, { params: { id: card.id } })).toEqual({
    id: card.id,
    created_at: card.created_at.toISOString(),
    modified_at: null,
    organization_id: anna.organization_id,
    processor: 'stripe',
    processor_metadata: {},
    status: 'succeeded',
    amount: 1000,
    currency: 'usd',
    trigger: 'purchase',
    method: 'card',
    method_metadata: { brand: 'visa', last4: '4242' },
    decline_reason: null,
    decline_message: null,
    checkout_id: null,
    order_id: order.id,
  })
  const failed = await api.call(getPayment, { params: { id: declined.id } })
  expect(failed).toMatchObject({ status: 'failed', method: 'ideal', decline_reason: 'do_not_honor', decline_message: 'The bank said no.' })
  expect(failed).not.toHaveProperty('method_metadata')
  expect(await api.call(getPayment, { params: { id: pending.id } })).toMatchObject({ status: 'pending', method: 'unknown' })
})

test('applies every filter and sorting, and does not list the setup of a card', async () => {
  const { api, anna, bert, product, organization } = await open()
  const order = await sales.order(anna)
  const checkout_id = await sales.checkout(product)
  const one = await sales.payment(anna, { order_id: order.id, method: 'card', method_metadata: { brand: 'visa', last4: '4242' }, amount: 300 })
  const two = await sales.payment(bert, { checkout_id, status: 'failed', method: 'ideal', amount: 200 })
  const three = await sales.payment(bert, { status: 'pending', amount: 100 })
  const setup = await sales.payment(anna, { kind: 'setup', amount: 0 })
  const names = new Map([one, two, three].map(({ id }, index) => [id, index + 1]))
  const list = async (query: object) => {
    const { items, pagination } = await api.call(listPayments, { query })
    expect(pagination.total_count).toBe(items.length)
    return items.map(({ id }) => names.get(id))
  }
  expect(await list({})).toEqual([3, 2, 1])
  expect(await list({ organization_id: organization.id })).toHaveLength(3)
  expect(await list({ checkout_id })).toEqual([2])
  expect(await list({ order_id: [order.id, newId(world.clock.wall())] })).toEqual([1])
  expect(await list({ customer_id: bert.id })).toEqual([3, 2])
  expect(await list({ status: ['pending', 'failed'] })).toEqual([3, 2])
  expect(await list({ method: 'card' })).toEqual([1])
  expect(await list({ method: 'unknown' })).toEqual([3])
  expect(await list({ customer_email: 'anna@PEOPLE.test' })).toEqual([1])
  expect(await list({ customer_email: 'nobody@people.test' })).toEqual([])
  expect(await list({ sorting: 'created_at' })).toEqual([1, 2, 3])
  expect(await list({ sorting: 'amount' })).toEqual([3, 2, 1])
  expect(await list({ sorting: '-status' })).toEqual([1, 3, 2])
  expect(await list({ sorting: 'method' })).toEqual([1, 2, 3])
  expect((await api.send(getPayment, { params: { id: setup.id } })).status).toBe(404)
})

test('returns nothing to another organization, and 403 to a token without the scope', async () => {
  const { anna, organization } = await open()
  const { id } = await sales.payment(anna)
  const other = await open()
  expect((await other.api.send(getPayment, { params: { id } })).status).toBe(404)
  expect((await other.api.call(listPayments, {})).items).toEqual([])
  const narrow = world.client({ token: (await organization.token(['orders:read'])).secret })
  expect((await narrow.send(getPayment, { params: { id } })).status).toBe(403)
  expect((await narrow.send(listPayments, {})).status).toBe(403)
})
