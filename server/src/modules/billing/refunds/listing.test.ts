import { inWallTime } from '../../../platform/clocks.sql.ts'
import { createCustomer, createProduct, listRefunds } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { changeRefund, lockRefund } from '../records/refunds.sql.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

test('lists refunds by every filter and sorting, without the seller’s comment, and none of other organizations', async () => {
  const { api, organization } = await world.shop()
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test', external_id: 'a-1' } })
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  const plan = await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000 }] } })
  const subscription = await sales.subscription(bert, plan, [])
  const [bought, renewed] = [await sales.order(anna), await sales.order(bert, { subscription_id: subscription.id })]
  const [paid, paidAgain] = [await sales.payment(anna, { order_id: bought.id }), await sales.payment(bert, { order_id: renewed.id })]
  const one = await sales.refund(bought, paid, { amount: 300, tax_amount: 57, comment: 'between us', metadata: { ticket: 7 } })
  const two = await sales.refund(bought, paid, { amount: 100, status: 'failed' })
  const three = await sales.refund(renewed, paidAgain, { amount: 200, status: 'pending' })
  const names = new Map([one, two, three].map(({ id }, index) => [id, index + 1]))
  const list = async (query: object) => {
    const { items, pagination } = await api.call(listRefunds, { query })
    expect(pagination.total_count).toBe(items.length)
    return items.map(({ id }) => names.get(id))
  }
  expect(await list({})).toEqual([3, 2, 1])
  expect(await list({ id: [one.id, three.id] })).toEqual([3, 1])
  expect(await list({ organization_id: organization.id })).toHaveLength(3)
  expect(await list({ order_id: bought.id })).toEqual([2, 1])
  expect(await list({ subscription_id: subscription.id })).toEqual([3])
  expect(await list({ customer_id: bert.id })).toEqual([3])
  expect(await list({ external_customer_id: 'a-1' })).toEqual([2, 1])
  expect(await list({ succeeded: 'true' })).toEqual([1])
  expect(await list({ succeeded: 'false' })).toEqual([3, 2])
  expect(await list({ sorting: 'amount' })).toEqual([2, 3, 1])
  expect(await list({ sorting: 'created_at' })).toEqual([1, 2, 3])
  const [shown] = (await api.call(listRefunds, { query: { id: one.id } })).items
  expect(shown).toEqual({
    id: one.id,
    created_at: one.created_at.toISOString(),
    modified_at: null,
    metadata: { ticket: 7 },
    status: 'succeeded',
    reason: 'customer_request',
    amount: 300,
    tax_amount: 57,
    currency: 'usd',
    organization_id: organization.id,
    order_id: bought.id,
    subscription_id: null,
    customer_id: anna.id,
    revoke_benefits: false,
    dispute: null,
  })
  expect((await (await world.shop()).api.call(listRefunds, {})).items).toEqual([])
  const narrow = world.client({ token: (await organization.token(['orders:read'])).secret })
  expect((await narrow.send(listRefunds, {})).status).toBe(403)

  await world.transact(async (tx) => {
    const held = (await lockRefund(tx, within(organization.id, 'machine', 'phase2'), three.id))!
    await changeRefund(inWallTime(tx), held, { status: 'succeeded', metadata: { settled: true } })
  })
  expect(await list({ succeeded: 'true' })).toEqual([3, 1])
})
