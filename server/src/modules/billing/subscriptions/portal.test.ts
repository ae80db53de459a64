import {
  cancelPortalSubscription,
  createCustomer,
  createCustomerSession,
  createMember,
  createProduct,
  createSubscription,
  getOrder,
  getPortalSubscription,
  listCustomerMembers,
  listPortalSubscriptions,
  updatePortalSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { june, openSubscribers, type Subscribers } from '../../../../test/harness/subscribers.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

let world: World
let people: Subscribers
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  people = await openSubscribers(world)
  sales = openSales(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

type Answer = { status: number; body: unknown }
const errorOf = (answer: Answer) => `${answer.status} ${(answer.body as { error: string }).error}`
const locs = (answer: Answer) =>
  answer.status === 422 ? (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.')) : [`${answer.status}`]

const everythingAllowed = { update_plan: true, update_seats: true, pause: true }

/** A subscribed customer with a session in the portal of a seller with the given permissions. */
const open = async (allowed: Partial<typeof everythingAllowed> = everythingAllowed, wish: Parameters<Subscribers['subscribe']>[2] = {}) => {
  const shop = await world.shop()
  const { api, organization } = shop
  const settings = { subscription: { update_plan: false, update_seats: false, pause: false, ...allowed } }
  await people.query('update organizations set customer_portal_settings = customer_portal_settings || $2::jsonb where id = $1', [
    organization.id,
    JSON.stringify(settings),
  ])
  const plan = (name: string, prices: unknown[], more: Record<string, unknown> = {}) =>
    api.call(createProduct, { body: { name, recurring_interval: 'month', visibility: 'public', prices, ...more } as never })
  const fixed = (price_amount: number) => ({ amount_type: 'fixed', price_amount, price_currency: 'usd' })
  const seats = { amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, max_seats: 10, price_per_seat: 1000 }] } }
  const basic = await plan('Basic', [wish.seats === undefined ? fixed(1000) : seats])
  const grand = await plan('Grand', [fixed(3000)])
  const anna = await people.subscribe(shop, basic.id, wish)
  const session = async (body: { customer_id: string; member_id?: string }, extra: Record<string, string> = {}) =>
    world.client({ token: (await api.call(createCustomerSession, { body })).token }, extra)
  // A customer who bought seats is a team. The portal session belongs to the team owner.
  const [owner] = (await api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  const portal = await session({ customer_id: anna.customer.id, member_id: owner!.id })
  const change = (body: Record<string, unknown>, client = portal) => client.send(updatePortalSubscription, { params: anna.params, body })
  const dropCard = () => people.query('update customers set default_payment_method_id = null where id = $1', [anna.customer.id])
  return { ...shop, ...anna, owner: owner!, shop, plan, fixed, basic, grand, session, portal, change, dropCard }
}

test('shows the customer their subscription with product and seller, but without the seller’s private fields', async () => {
  const { portal, params, id, basic, organization } = await open()
  const seen = await portal.call(getPortalSubscription, { params })
  expect(seen).toMatchObject({
    id,
    status: 'active',
    amount: 1000,
    product: { id: basic.id, organization: { id: organization.id } },
    prices: [{ id: basic.prices[0]!.id }],
    meters: [],
    pending_update: null,
  })
  expect(seen).not.toHaveProperty('metadata')
  expect(seen).not.toHaveProperty('customer')
  expect((await portal.call(listPortalSubscriptions, {})).items).toEqual([seen])
})

test('lists subscriptions by every filter and sorting', async () => {
  const { portal, customer, grand, id } = await open()
  const other = await sales.subscription(customer, grand, [grand.prices[0]!.id], {
    status: 'canceled',
    amount: 3000,
    started_at: new Date('2026-07-01T00:00:00Z'),
    ended_at: new Date('2026-07-02T00:00:00Z'),
  })
  const found = async (query: Record<string, unknown>) =>
    (await portal.call(listPortalSubscriptions, { query })).items.map((one) => (one.id === id ? 'basic' : one.id === other.id ? 'grand' : one.id))
  expect(await found({})).toEqual(['grand', 'basic'])
  expect(await found({ active: true })).toEqual(['basic'])
  expect(await found({ active: false })).toEqual(['grand'])
  expect(await found({ product_id: [grand.id] })).toEqual(['grand'])
  expect(await found({ query: 'BAS' })).toEqual(['basic'])
  expect(await found({ query: 'nothing' })).toEqual([])
  for (const property of ['started_at', 'amount', 'status', 'product']) {
    expect([property, await found({ sorting: [property] })]).toEqual([property, ['basic', 'grand']])
    expect([property, await found({ sorting: [`-${property}`] })]).toEqual([property, ['grand', 'basic']])
  }
  expect(await found({ sorting: ['organization'] })).toHaveLength(2)
  expect((await portal.send(listPortalSubscriptions, { query: { sorting: ['customer'] } })).status).toBe(422)
  expect((await portal.call(listPortalSubscriptions, { query: { limit: 1 } })).pagination).toMatchObject({ total_count: 2, max_page: 2 })
})

test('returns 404 for subscriptions of other customers and 401 without a portal session', async () => {
  const { session, api, params, everything } = await open()
  const before = await everything()
  const bert = await session({ customer_id: (await api.call(createCustomer, { body: { email: 'bert@people.test' } })).id })
  const absent = (await bert.send(getPortalSubscription, { params: { id: newId(world.clock.wall()) } })).body
  const body = { cancel_at_period_end: true }
  for (const client of [bert, (await open()).portal]) {
    for (const answer of [
      await client.send(getPortalSubscription, { params }),
      await client.send(updatePortalSubscription, { params, body }),
      await client.send(cancelPortalSubscription, { params }),
    ])
      expect([answer.status, answer.body]).toEqual([404, absent])
    expect((await client.call(listPortalSubscriptions, {})).items.map(({ id }) => id)).not.toContain(params.id)
  }
  for (const client of [world.client(), api]) {
    expect((await client.send(listPortalSubscriptions, {})).status).toBe(401)
    expect((await client.send(getPortalSubscription, { params })).status).toBe(401)
    expect((await client.send(updatePortalSubscription, { params, body })).status).toBe(401)
    expect((await client.send(cancelPortalSubscription, { params })).status).toBe(401)
  }
  expect(await everything()).toEqual(before)
})

test('lets an owner and a billing manager see and change subscriptions, but not a plain member', async () => {
  const { api, session, basic } = await open()
  const team = await api.call(createCustomer, { body: { type: 'team', email: 'team@people.test', name: 'Works' } as never })
  const subscription = await sales.subscription(team, basic, [basic.prices[0]!.id], { current_period_end: new Date('2040-01-01T00:00:00Z') })
  const member = async (role: 'billing_manager' | 'member') =>
    (await api.call(createMember, { params: { id: team.id }, body: { email: `${role}@people.test`, role } })).id
  const [owner] = (await api.call(listCustomerMembers, { params: { id: team.id }, query: { role: 'owner' } })).items
  const params = { id: subscription.id }
  const user = await session({ customer_id: team.id, member_id: await member('member') })
  expect(errorOf(await user.send(listPortalSubscriptions, {}))).toBe('403 NotPermitted')
  expect(errorOf(await user.send(getPortalSubscription, { params }))).toBe('403 NotPermitted')
  expect(errorOf(await user.send(updatePortalSubscription, { params, body: { cancel_at_period_end: true } }))).toBe('403 NotPermitted')
  expect(errorOf(await user.send(cancelPortalSubscription, { params }))).toBe('403 NotPermitted')
  const manager = await session({ customer_id: team.id, member_id: await member('billing_manager') })
  expect((await manager.call(listPortalSubscriptions, {})).items.map(({ id }) => id)).toEqual([subscription.id])
  expect(await manager.call(cancelPortalSubscription, { params })).toMatchObject({ cancel_at_period_end: true })
  await sales.payment(team)
  await people.query('update subscriptions set amount = 0 where id = $1', [subscription.id])
  const boss = await session({ customer_id: team.id, member_id: owner!.id })
  expect(await boss.call(updatePortalSubscription, { params, body: { cancel_at_period_end: false } })).toMatchObject({ cancel_at_period_end: false })
})

test('refuses changes that the seller does not allow in the portal', async () => {
  const { change, grand, everything, told } = await open({}, { seats: 2 })
  const before = await everything()
  expect(errorOf(await change({ product_id: grand.id }))).toBe('403 UpdateSubscriptionPlanNotAllowed')
  expect(errorOf(await change({ seats: 3 }))).toBe('403 UpdateSubscriptionSeatsNotAllowed')
  for (const body of [{ pause_at_period_end: true }, { pause_at_period_end: false }, { resume: true }])
    expect(errorOf(await change(body))).toBe('403 PauseResumeNotAllowed')
  expect([await everything(), await told()]).toEqual([before, []])
})

test('refuses plan and seat changes if allow_customer_updates is off', async () => {
  const { organization, change, grand, told } = await open()
  await people.query(`update organizations set subscription_settings = subscription_settings || '{"allow_customer_updates": false}' where id = $1`, [
    organization.id,
  ])
  expect(errorOf(await change({ product_id: grand.id }))).toBe('403 UpdateSubscriptionPlanNotAllowed')
  expect(errorOf(await change({ seats: 3 }))).toBe('403 UpdateSubscriptionSeatsNotAllowed')
  expect(await told()).toEqual([])
})

test('rejects requests that mix two kinds of change or contain fields of the seller', async () => {
  const { change, grand, told } = await open()
  for (const body of [
    { product_id: grand.id, proration_behavior: 'next_period' },
    { seats: 1, cancel_at_period_end: true },
    { revoke: true },
    { cancel_at_period_end: true, metadata: {} },
    { seats: 0 },
  ])
    expect([body, (await change(body)).status]).toEqual([body, 422])
  expect(await told()).toEqual([])
})

test('changes to a public plan with the seller’s proration behavior, and rejects a private one', async () => {
  const { change, plan, fixed, grand, basic, charged, told, organization } = await open()
  const hidden = await plan('Hidden', [fixed(500)], { visibility: 'private' })
  const absent = await change({ product_id: newId(world.clock.wall()) })
  expect(locs(absent)).toEqual(['body.product_id'])
  expect(locs(await change({ product_id: hidden.id }))).toEqual(['body.product_id'])
  const settings = { ...organization.subscription_settings, proration_behavior: 'invoice' }
  await people.query('update organizations set subscription_settings = $2::jsonb where id = $1', [organization.id, JSON.stringify(settings)])
  expect((await change({ product_id: grand.id })).body).toMatchObject({ product_id: grand.id, amount: 3000 })
  expect(await charged()).toEqual([1000])
  expect(await told()).toEqual(['order.created', 'order.updated', 'order.paid', 'subscription.updated'])
  await people.query(`update organizations set subscription_settings = subscription_settings || '{"proration_behavior": "next_period"}' where id = $1`, [
    organization.id,
  ])
  expect((await change({ product_id: basic.id })).body).toMatchObject({ product_id: grand.id, pending_update: { product_id: basic.id } })
  expect((await change({ pending_update: null })).body).toMatchObject({ pending_update: null })
  // The current product can be requested even if it is private. That cancels the pending change.
  await people.query(`update products set visibility = 'private' where id = $1`, [grand.id])
  await change({ product_id: basic.id })
  expect((await change({ product_id: grand.id })).body).toMatchObject({ product_id: grand.id, pending_update: null })
})

test('returns 402 for a declined card and charges once per idempotency key', async () => {
  const bad = await open(everythingAllowed, { card: 'tok_declined_later', seats: 2 })
  const invoice = `update organizations set subscription_settings = subscription_settings || '{"proration_behavior": "invoice"}' where id = $1`
  await people.query(invoice, [bad.organization.id])
  const before = await bad.everything()
  expect(errorOf(await bad.change({ seats: 4 }))).toBe('402 PaymentFailed')
  expect(await bad.everything()).toEqual(before)
  const good = await open(everythingAllowed, { seats: 2 })
  await people.query(invoice, [good.organization.id])
  const keyed = await good.session({ customer_id: good.customer.id, member_id: good.owner.id }, { 'idempotency-key': 'once' })
  const answers = [await good.change({ seats: 4 }, keyed), await good.change({ seats: 4 }, keyed)]
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  expect(answers[1]!.body).toEqual(answers[0]!.body)
  expect([await good.charged(), (await good.find()).seats]).toEqual([[1000], 4])
  expect(errorOf(await good.change({ seats: 11 }))).toBe('400 AboveMaximumSeats')
})

test('cancels at the end of the period by either endpoint, and uncancels only with a payment method', async () => {
  const { portal, params, change, told, dropCard } = await open()
  const ending = { status: 'active', cancel_at_period_end: true, ends_at: june.end.toISOString(), ended_at: null }
  expect(await portal.call(cancelPortalSubscription, { params })).toMatchObject(ending)
  expect(errorOf(await portal.send(cancelPortalSubscription, { params }))).toBe('403 AlreadyCanceledSubscription')
  expect((await change({ cancel_at_period_end: false })).body).toMatchObject({ cancel_at_period_end: false, ends_at: null })
  expect(errorOf(await change({ cancel_at_period_end: false }))).toBe('400 SubscriptionNotScheduledToCancel')
  const farewell = { cancellation_reason: 'unused', cancellation_comment: 'Bye.' }
  expect((await change({ cancel_at_period_end: true, ...farewell })).body).toMatchObject({
    ...ending,
    customer_cancellation_reason: 'unused',
    customer_cancellation_comment: 'Bye.',
  })
  await dropCard()
  expect(errorOf(await change({ cancel_at_period_end: false }))).toBe('409 PaymentMethodRequired')
  expect(await told()).toEqual([
    'subscription.updated',
    'subscription.canceled',
    'subscription.updated',
    'subscription.uncanceled',
    'subscription.updated',
    'subscription.canceled',
  ])
})

test('pauses and resumes, and requires a payment method to resume', async () => {
  const { change, travel, dropCard, find, told, customer } = await open()
  expect((await change({ pause_at_period_end: true, resumes_at: '2026-09-01T00:00:00Z' })).body).toMatchObject({ pause_at_period_end: true })
  expect((await change({ pause_at_period_end: false })).body).toMatchObject({ pause_at_period_end: false, resumes_at: null })
  await change({ pause_at_period_end: true })
  await travel(june.end)
  expect((await find()).status).toBe('paused')
  const [{ default_payment_method_id }] = (await people.query<{ default_payment_method_id: string }>(
    'select default_payment_method_id from customers where id = $1',
    [customer.id],
  )) as [{ default_payment_method_id: string }]
  await dropCard()
  expect(errorOf(await change({ resume: true }))).toBe('409 PaymentMethodRequired')
  await people.query('update customers set default_payment_method_id = $2 where id = $1', [customer.id, default_payment_method_id])
  expect((await change({ resume: true })).body).toMatchObject({ status: 'active', current_period_start: june.end.toISOString() })
  expect((await told()).slice(3)).toEqual([
    'subscription.updated',
    'subscription.paused',
    'subscription.updated',
    'subscription.active',
    'subscription.resumed',
    'subscription.cycled',
    'order.created',
  ])
})

test('ends a paused subscription at once when it is canceled, and voids its open order', async () => {
  const { portal, params, change, travel, told, api, customer } = await open()
  await change({ pause_at_period_end: true, resumes_at: '2026-09-01T00:00:00Z' })
  await travel(june.end)
  const owed = await sales.order(customer, { status: 'pending', billing_reason: 'subscription_update', subscription_id: params.id })
  const left = await portal.call(cancelPortalSubscription, { params })
  expect(left).toMatchObject({ status: 'canceled', ended_at: june.end.toISOString(), resumes_at: null, cancel_at_period_end: false })
  expect((await told()).slice(-4)).toEqual(['subscription.updated', 'subscription.canceled', 'subscription.revoked', 'order.updated'])
  expect((await api.call(getOrder, { params: { id: owed.id } })).status).toBe('void')
  expect(errorOf(await portal.send(cancelPortalSubscription, { params }))).toBe('403 AlreadyCanceledSubscription')
  expect(errorOf(await change({ resume: true }))).toBe('409 NotPausedSubscription')
})

test('uncancels a free subscription without a payment method', async () => {
  const { api, plan, fixed, session } = await open()
  const free = await plan('Free', [fixed(0)])
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  const { id } = await api.call(createSubscription, { body: { product_id: free.id, customer_id: bert.id } })
  const portal = await session({ customer_id: bert.id })
  await portal.call(cancelPortalSubscription, { params: { id } })
  expect(await portal.call(updatePortalSubscription, { params: { id }, body: { cancel_at_period_end: false } })).toMatchObject({ cancel_at_period_end: false })
})
