import {
  confirmClientCheckout,
  confirmPortalPayment,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createProduct,
  createTestClock,
  getSubscription,
  listOrders,
  listPortalOrders,
  listSubscriptions,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTravels } from '../harness/clocks.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { readBooks } from '../harness/books.ts'
import { openWorld, type World } from '../harness/world.ts'

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

test('plays a year of one subscription on a test clock: trial, payment, upgrade, expired card, dunning, recovery and cancellation', async () => {
  const { api, organization, events } = await world.shop()
  const plan = (name: string, price_amount: number, more = {}) =>
    api.call(createProduct, {
      body: { name, recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount, price_currency: 'usd' }], ...more } as never,
    })
  const basic = await plan('Basic', 1000, { trial_interval: 'day', trial_interval_count: 14 })
  const grand = await plan('Grand', 3000)

  // A customer on a test clock, with a free trial of two weeks.
  const clock = await api.call(createTestClock, { body: { name: 'A year', now: '2026-01-17T09:00:00.000Z' } })
  const { travel } = openTravels(world, deployment)
  const to = (moment: string) => travel(api, clock.id, moment)
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test', test_clock_id: clock.id } })
  const checkout = await api.call(createCheckout, { body: { products: [basic.id], customer_id: anna.id } })
  const token = { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_expires_soon' } as const
  await world.client().call(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body: token })
  await deployment.work()
  const { id } = (await api.call(listSubscriptions, { query: { customer_id: anna.id } })).items[0]!
  const params = { id }
  const seen = () => api.call(getSubscription, { params })
  const orders = async () =>
    (await api.call(listOrders, { query: { subscription_id: [id], sorting: ['created_at'] } })).items.map(
      ({ status, total_amount, created_at }) => `${created_at.slice(0, 16)} ${status} ${total_amount}`,
    )
  const charged = async () => (await readBooks(world, organization.id)).charges.map(({ amount }) => amount)
  let heard = (await events()).length
  const news = async () => {
    const all = await events()
    const fresh = all.slice(heard).map(({ type }) => type)
    heard = all.length
    return fresh.filter((type) => type.startsWith('subscription.') || type.startsWith('order.'))
  }
  expect(await seen()).toMatchObject({ status: 'trialing', trial_end: '2026-01-31T09:00:00.000Z' })
  expect(await charged()).toEqual([])

  // The trial ends, and the first month is paid.
  await to('2026-02-01T00:00:00Z')
  expect(await seen()).toMatchObject({ status: 'active', current_period_end: '2026-02-28T09:00:00.000Z' })
  expect(await charged()).toEqual([1000])
  expect(await news()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])

  // After half of the month the customer upgrades, and is charged at once.
  await to('2026-02-14T09:00:00Z')
  await api.call(updateSubscription, { params, body: { product_id: grand.id, proration_behavior: 'invoice' } })
  expect(await charged()).toEqual([1000, 1000])
  expect(await news()).toEqual(['order.created', 'order.updated', 'order.paid', 'subscription.updated'])

  // The card has expired, so the renewal is unpaid. The new period ends on the 31st, because the first period began on a 31st.
  await to('2026-03-01T00:00:00Z')
  expect(await seen()).toMatchObject({ status: 'past_due', past_due_at: '2026-02-28T09:00:00.000Z', current_period_end: '2026-03-31T09:00:00.000Z' })
  expect(await charged()).toEqual([1000, 1000])
  expect(await news()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'subscription.updated', 'subscription.past_due'])

  // An expired card is retried only on the last day. A week before that, Anna pays with another card.
  await to('2026-03-14T09:00:00Z')
  expect(await charged()).toEqual([1000, 1000])
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: anna.id } })).token })
  const owed = (await portal.call(listPortalOrders, {})).items.find(({ status }) => status === 'pending')!
  await portal.call(confirmPortalPayment, { params: { id: owed.id }, body: { confirmation_token_id: 'tok_mastercard' } })
  expect(await seen()).toMatchObject({ status: 'active', past_due_at: null })
  expect(await news()).toEqual(['order.updated', 'order.paid', 'subscription.updated', 'subscription.active'])

  // The new card pays from now on. Anna cancels in April, so no order for May follows.
  await to('2026-04-10T00:00:00Z')
  await api.call(updateSubscription, { params, body: { cancel_at_period_end: true, customer_cancellation_reason: 'unused' } })
  await to('2027-01-01T00:00:00Z')
  expect(await seen()).toMatchObject({ status: 'canceled', ended_at: '2026-04-30T09:00:00.000Z', customer_cancellation_reason: 'unused' })
  const renewal = ['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid']
  const ending = ['subscription.updated', 'subscription.canceled', 'subscription.updated', 'subscription.revoked']
  expect(await news()).toEqual([...renewal, ...ending])
  expect(await orders()).toEqual([
    '2026-01-17T09:00 paid 0',
    '2026-01-31T09:00 paid 1000',
    '2026-02-14T09:00 paid 1000',
    '2026-02-28T09:00 paid 3000',
    '2026-03-31T09:00 paid 3000',
  ])
  expect(await charged()).toEqual([1000, 1000, 3000, 3000])
})
