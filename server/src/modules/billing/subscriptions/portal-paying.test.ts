import {
  cancelPortalSubscription,
  createCustomer,
  createCustomerSession,
  createProduct,
  createSubscription,
  listCustomerMembers,
  previewPortalSubscription,
  updatePortalSubscription,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { june, openSubscribers, type Subscribers } from '../../../../test/harness/subscribers.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let people: Subscribers
beforeAll(async () => {
  world = await openWorld()
  people = await openSubscribers(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const fixed = (price_amount: number) => ({ amount_type: 'fixed', price_amount, price_currency: 'usd' })
const seated = { amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: 10, price_per_seat: 1000 }] } }
type Behavior = 'prorate' | 'invoice' | 'next_period'

/** A seller with a default proration behavior, and a customer in the portal with a Basic or a seat subscription. */
const open = async (behavior: Behavior = 'prorate', wish: Parameters<Subscribers['subscribe']>[2] = {}, more: Record<string, unknown> = {}) => {
  const shop = await world.shop()
  const { api, organization } = shop
  await people.query(
    `update organizations set customer_portal_settings = customer_portal_settings || $2::jsonb, subscription_settings = subscription_settings || $3::jsonb where id = $1`,
    [
      organization.id,
      JSON.stringify({ subscription: { update_plan: true, update_seats: true, pause: true } }),
      JSON.stringify({ proration_behavior: behavior }),
    ],
  )
  const plan = (name: string, prices: object[], given: Record<string, unknown> = {}) =>
    api.call(createProduct, { body: { name, recurring_interval: 'month', visibility: 'public', prices, ...given } as never })
  const basic = await plan('Basic', [wish.seats === undefined ? fixed(1000) : seated], more)
  const grand = await plan('Grand', [fixed(3000)])
  const anna = await people.subscribe(shop, basic.id, wish)
  const [owner] = (await api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const { token } = await api.call(createCustomerSession, { body: { customer_id: anna.customer.id, member_id: owner!.id } })
  const portal = world.client({ token })
  return {
    ...shop,
    ...anna,
    basic,
    grand,
    plan,
    portal,
    change: (body: object) => portal.send(updatePortalSubscription, { params: anna.params, body }),
    preview: (body: object) => portal.send(previewPortalSubscription, { params: anna.params, body }),
    dropCard: async () => {
      await people.query('update customers set default_payment_method_id = null where id = $1', [anna.customer.id])
      await people.query('update subscriptions set payment_method_id = null where customer_id = $1', [anna.customer.id])
    },
  }
}

test('charges a higher plan at once even if the seller’s default is prorate', async () => {
  const { change, preview, grand, charged, orders, everything, told } = await open()
  expect((await preview({ product_id: grand.id })).body).toMatchObject({ amount: 3000, now: { charge_amount: 1000 }, next: { charge_amount: 3000 } })
  expect((await change({ product_id: grand.id })).body).toMatchObject({ product_id: grand.id, amount: 3000, current_period_end: june.end.toISOString() })
  expect(await charged()).toEqual([1000])
  expect(await orders()).toMatchObject([{ billing_reason: 'subscription_update', status: 'paid', total_amount: 1000 }])
  expect(await everything()).toMatchObject([{ entries: null, updates: null }])
  expect(await told()).toEqual(['order.created', 'order.updated', 'order.paid', 'subscription.updated'])
})

test('charges added seats at once and credits removed seats with the next order', async () => {
  const { change, charged, orders, travel } = await open('prorate', { seats: 2 })
  expect((await change({ seats: 4 })).body).toMatchObject({ seats: 4, amount: 4000 })
  expect(await charged()).toEqual([1000])
  expect((await change({ seats: 3 })).body).toMatchObject({ seats: 3, amount: 3000 })
  expect(await orders()).toHaveLength(1)
  await travel(june.end)
  expect(await charged()).toEqual([1000, 2500])
})

for (const behavior of ['prorate', 'invoice', 'next_period'] as const)
  test(`refuses a higher plan and more seats without a payment method, and changes nothing: ${behavior}`, async () => {
    const { change, preview, plan, dropCard, everything, told, orders, portal, params } = await open(behavior, { seats: 2 })
    const higher = await plan('Higher', [{ ...seated, seat_tiers: { tiers: [{ min_seats: 1, max_seats: 10, price_per_seat: 2000 }] } }])
    const lower = await plan('Lower', [{ ...seated, seat_tiers: { tiers: [{ min_seats: 1, max_seats: 10, price_per_seat: 500 }] } }])
    await dropCard()
    const before = await everything()
    for (const body of [{ product_id: higher.id }, { seats: 3 }]) {
      expect(errorOf(await change(body))).toBe('409 PaymentMethodRequired')
      expect(errorOf(await preview(body))).toBe('409 PaymentMethodRequired')
    }
    expect([await everything(), await told(), await orders()]).toEqual([before, [], []])
    // A lower price and a cancellation need no payment method.
    expect((await change({ product_id: lower.id })).status).toBe(200)
    expect(await portal.call(cancelPortalSubscription, { params })).toMatchObject({ cancel_at_period_end: true })
  })

test('requires a payment method to change a free subscription to a paid one', async () => {
  const { api, plan, grand } = await open()
  const free = await plan('Free', [fixed(0)])
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  const { id } = await api.call(createSubscription, { body: { product_id: free.id, customer_id: bert.id } })
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: bert.id } })).token })
  const answer = await portal.send(updatePortalSubscription, { params: { id }, body: { product_id: grand.id } })
  expect(errorOf(answer)).toBe('409 PaymentMethodRequired')
  expect(errorOf(await portal.send(previewPortalSubscription, { params: { id }, body: { product_id: grand.id } }))).toBe('409 PaymentMethodRequired')
  expect(await people.query('select product_id, amount::int from subscriptions where id = $1', [id])).toEqual([{ product_id: free.id, amount: 0 }])
})

test('changes nothing if the card is declined, and applies the change when a slow payment succeeds', async () => {
  const declined = await open('prorate', { card: 'tok_declined_later' })
  const before = await declined.everything()
  expect(errorOf(await declined.change({ product_id: declined.grand.id }))).toBe('402 PaymentFailed')
  expect(await declined.everything()).toEqual(before)
  const { change, grand, find } = await open('prorate', { card: 'tok_processing' })
  expect(errorOf(await change({ product_id: grand.id }))).toBe('409 SubscriptionLocked')
  expect((await find()).amount).toBe(1000)
  world.clock.advance(61_000)
  await people.deployment.sweep()
  await people.deployment.work()
  expect(await find()).toMatchObject({ product_id: grand.id, amount: 3000 })
})

test('starts dunning if the payment method was deleted before a higher plan begins with the next period', async () => {
  const { change, grand, dropCard, travel, find, orders } = await open('next_period')
  expect((await change({ product_id: grand.id })).body).toMatchObject({ amount: 1000, pending_update: { product_id: grand.id } })
  await dropCard()
  await travel(june.end)
  // The new plan is past due from its start, and its order is retried.
  expect(await find()).toMatchObject({ product_id: grand.id, status: 'past_due' })
  expect(await orders()).toMatchObject([{ status: 'pending', total_amount: 3000, next_payment_attempt_at: '2026-07-03T00:00:00.000Z' }])
  for (const day of ['03', '08', '15', '22', '23']) await travel(`2026-07-${day}T00:00:00Z`)
  expect([(await find()).status, (await orders())[0]!.status]).toEqual(['canceled', 'void'])
})

test('needs no payment method if the seller requests the change with prorate', async () => {
  const { api, params, grand, dropCard, orders, find } = await open()
  await dropCard()
  await api.call(updateSubscription, { params, body: { product_id: grand.id, proration_behavior: 'prorate' } })
  expect([(await find()).amount, await orders()]).toEqual([3000, []])
})

const trial = { trial_interval: 'day', trial_interval_count: 30 }

test('needs no payment method for a higher plan or more seats during a trial', async () => {
  const seats = await open('prorate', { seats: 2 }, trial)
  await seats.dropCard()
  expect((await seats.change({ seats: 5 })).body).toMatchObject({ status: 'trialing', seats: 5 })
  const { plan, change, dropCard, orders, travel, find } = await open('prorate', {}, trial)
  const longer = await plan('Longer', [fixed(3000)], trial)
  await dropCard()
  expect((await change({ product_id: longer.id })).body).toMatchObject({ status: 'trialing', product_id: longer.id, amount: 3000 })
  expect(await orders()).toEqual([])
  // The end of the trial bills the new plan. Without a payment method the subscription is past due at once.
  await travel(june.end)
  expect([(await find()).status, (await orders()).map(({ status }) => status)]).toEqual(['past_due', ['pending']])
})

test('charges a change that ends the trial at once and requires a payment method', async () => {
  const { change, preview, grand, dropCard, everything, orders, clock, find } = await open('prorate', {}, trial)
  const [{ default_payment_method_id: card }] = (await people.query<{ default_payment_method_id: string | null }>(
    'select default_payment_method_id from customers c join subscriptions s on s.customer_id = c.id where s.clock_id = $1',
    [clock.id],
  )) as [{ default_payment_method_id: string | null }]
  await dropCard()
  const before = await everything()
  expect(errorOf(await change({ product_id: grand.id }))).toBe('409 PaymentMethodRequired')
  expect(errorOf(await preview({ product_id: grand.id }))).toBe('409 PaymentMethodRequired')
  expect(await everything()).toEqual(before)
  await people.query('update customers set default_payment_method_id = $2 where clock_id = $1', [clock.id, card])
  expect((await change({ product_id: grand.id })).body).toMatchObject({ status: 'active', product_id: grand.id, trial_end: june.now.toISOString() })
  await people.settle(clock)
  expect([(await orders()).map(({ status, total_amount }) => [status, total_amount]), (await find()).status]).toEqual([[['paid', 3000]], 'active'])
})
