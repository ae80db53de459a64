import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createProduct,
  createSubscription,
  getSubscription,
  listOrders,
  listSubscriptions,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

/** Opens a shop with a customer on a free plan, and a paid plan to upgrade to. */
const open = async () => {
  const shop = await world.shop()
  const { api } = shop
  const plan = (name: string, price_amount: number, recurring_interval: 'month' | null = 'month') =>
    api.call(createProduct, { body: { name, recurring_interval, prices: [{ amount_type: 'fixed', price_amount, price_currency: 'usd' }] } as never })
  const free = await plan('Free', 0)
  const pro = await plan('Pro', 2500)
  const guide = await plan('Guide', 900, null)
  const customer = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const { id } = await api.call(createSubscription, { body: { product_id: free.id, customer_id: customer.id, metadata: { since: 'spring' } } })
  const subscriptions = async () => (await api.call(listSubscriptions, { query: { customer_id: customer.id } })).items
  const pay = async (client_secret: string) => {
    await world.client().call(confirmClientCheckout, {
      params: { client_secret },
      body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
    })
    await deployment.work()
  }
  return { ...shop, free, pro, guide, customer, id, params: { id }, subscriptions, pay }
}

test('upgrades a free subscription to the purchased product without creating a second subscription, and charges once', async () => {
  const { api, organization, events, pro, customer, id, params, subscriptions, pay } = await open()
  const { client_secret, ...checkout } = await api.call(createCheckout, { body: { products: [pro.id], subscription_id: id } })
  // The request names no customer, so the checkout uses the customer of the subscription.
  expect(checkout).toMatchObject({ subscription_id: id, customer_id: customer.id })
  const before = (await events()).length
  await pay(client_secret)
  expect(await api.call(getSubscription, { params })).toMatchObject({ id, product_id: pro.id, amount: 2500, status: 'active', metadata: { since: 'spring' } })
  expect(await subscriptions()).toHaveLength(1)
  expect((await api.call(listOrders, { query: { subscription_id: [id] } })).items).toMatchObject([
    { status: 'paid', billing_reason: 'subscription_update', total_amount: 2500 },
  ])
  expect((await readBooks(world, organization.id)).charges.map(({ amount }) => amount)).toEqual([2500])
  expect((await events()).slice(before).map(({ type }) => type)).toEqual(
    expect.arrayContaining(['subscription.updated', 'order.created', 'order.updated', 'order.paid']) as string[],
  )
  expect((await events()).slice(before).map(({ type }) => type)).not.toContain('subscription.created')
})

test('creates a new subscription if the old one can no longer be upgraded when the payment succeeds', async () => {
  const { api, pro, id, params, subscriptions, pay } = await open()
  const { client_secret } = await api.call(createCheckout, { body: { products: [pro.id], subscription_id: id } })
  await api.call(updateSubscription, { params, body: { revoke: true } })
  await pay(client_secret)
  expect((await subscriptions()).map(({ product_id, status }) => [product_id, status])).toEqual(expect.arrayContaining([[pro.id, 'active']]) as unknown[])
  expect(await subscriptions()).toHaveLength(2)
})

test('rejects the second of two upgrade checkouts of one subscription before it is charged', async () => {
  const { api, organization, pro, id, subscriptions, pay } = await open()
  const [first, second] = [
    await api.call(createCheckout, { body: { products: [pro.id], subscription_id: id } }),
    await api.call(createCheckout, { body: { products: [pro.id], subscription_id: id } }),
  ]
  await pay(first.client_secret)
  const refused = await world.client().send(confirmClientCheckout, {
    params: { client_secret: second.client_secret },
    body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  expect([refused.status, (refused.body as unknown as { error: string }).error]).toEqual([403, 'AlreadyActiveSubscriptionError'])
  await deployment.work()
  expect(await subscriptions()).toHaveLength(1)
  expect((await readBooks(world, organization.id)).charges).toHaveLength(1)
})

test('upgrades only a free, active subscription of the same customer and organization, and only to a recurring product', async () => {
  const { api, pro, guide, id, params, pay } = await open()
  const other = await open()
  const refused = async (body: object) => {
    const answer = await api.send(createCheckout, { body: body as never })
    return [answer.status, (answer.body as { detail?: { loc: string[] }[] }).detail?.map(({ loc }) => loc.join('.'))]
  }
  expect(await refused({ products: [pro.id], subscription_id: other.id })).toEqual([422, ['body.subscription_id']])
  expect(await refused({ products: [guide.id], subscription_id: id })).toEqual([422, ['body.subscription_id']])
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  expect(await refused({ products: [pro.id], subscription_id: id, customer_id: bert.id })).toEqual([422, ['body.customer_id']])
  await pay((await api.call(createCheckout, { body: { products: [pro.id], subscription_id: id } })).client_secret)
  expect(await refused({ products: [pro.id], subscription_id: id })).toEqual([422, ['body.subscription_id']])
  await api.call(updateSubscription, { params, body: { revoke: true } })
  expect(await refused({ products: [pro.id], subscription_id: id })).toEqual([422, ['body.subscription_id']])
})
