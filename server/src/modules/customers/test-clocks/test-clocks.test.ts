import {
  advanceTestClock,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createDiscount,
  createMember,
  createProduct,
  createRefund,
  createTestClock,
  deleteCustomer,
  getCheckout,
  getClientCheckout,
  getCustomer,
  getTestClock,
  listOrders,
  listPayments,
  listRefunds,
  listSubscriptions,
  listTestClocks,
  updateClientCheckout,
  updateCustomer,
  updateOrder,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readBooks } from '../../../../test/harness/books.ts'
import { openTravels } from '../../../../test/harness/clocks.ts'
import { Died, openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, hours, later } from '../../../platform/clock.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let travel: ReturnType<typeof openTravels>['travel']
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  travel = openTravels(world, deployment).travel
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Answer = { status: number; body: unknown }
const errorOf = ({ status, body }: Answer) => `${status} ${(body as { error: string }).error}`
const locs = ({ body }: Answer) => (body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc.join('.'))
const plus = (from: string, milliseconds: number) => later(new Date(from), milliseconds).toISOString()
const ascending = (dates: readonly string[]) => dates.toSorted((a, b) => (a < b ? -1 : 1))

let serial = 0
const start = '2026-01-31T10:00:00.000Z'

/** A shop with a monthly plan, and customers on test clocks who buy it. */
const open = async (more: Record<string, unknown> = {}) => {
  const shop = await world.shop()
  const { api } = shop
  const plan = await api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }], ...more } as never,
  })
  const clock = (now = start, name?: string) => api.call(createTestClock, { body: { now, name } })
  const customer = (test_clock_id: string | null) => api.call(createCustomer, { body: { email: `anna-${serial++}@people.test`, test_clock_id } })
  const checkout = (customer_id: string, given: Record<string, unknown> = {}) =>
    api.call(createCheckout, { body: { products: [plan.id], customer_id, ...given } })
  const confirm = (client_secret: string, confirmation_token_id = 'tok_visa', given: Record<string, unknown> = {}) =>
    deployment.client().send(confirmClientCheckout, {
      params: { client_secret },
      body: { confirmation_token_id, customer_billing_address: { country: 'DE' }, ...given } as never,
    })
  const buy = async (customer_id: string, card = 'tok_visa', given: Record<string, unknown> = {}) => {
    const made = await checkout(customer_id, given)
    expect((await confirm(made.client_secret, card)).status).toBe(200)
    await deployment.work()
    return made
  }
  return {
    ...shop,
    plan,
    clock,
    customer,
    checkout,
    confirm,
    buy,
    ordersOf: async (customer_id: string) => (await api.call(listOrders, { query: { customer_id: [customer_id], limit: 100 } })).items,
    paymentsOf: async (customer_id: string) => (await api.call(listPayments, { query: { customer_id: [customer_id], limit: 100 } })).items,
    subscriptionOf: async (customer_id: string) => (await api.call(listSubscriptions, { query: { customer_id: [customer_id] } })).items[0]!,
    /** Returns the events about a customer with their timestamps. */
    toldOf: async (customer_id: string) => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ kind: string; said: string; wall_at: Date }>(
          `select kind, payload->>'timestamp' as said, wall_at from events where organization_id = $1 and customer_id = $2 order by position`,
          [shop.organization.id, customer_id],
        ),
      )
      return rows
    },
  }
}

/** Renewal dates of a subscription that is anchored on the 31st at 10:00. */
const monthly = [
  '2026-02-28',
  '2026-03-31',
  '2026-04-30',
  '2026-05-31',
  '2026-06-30',
  '2026-07-31',
  '2026-08-31',
  '2026-09-30',
  '2026-10-31',
  '2026-11-30',
  '2026-12-31',
  '2027-01-31',
].map((day) => `${day}T10:00:00.000Z`)

test('creates, lists, reads and advances test clocks, only forward and one advance at a time', async () => {
  const { api, clock } = await open()
  const before = world.clock.wall()
  const present = await api.call(createTestClock, { body: {} })
  expect(Date.parse(present.now)).toBeGreaterThanOrEqual(before.getTime())
  expect(present).toMatchObject({ name: null, target: null, status: 'ready', customers_count: 0, modified_at: null })
  const made = await clock(start, 'A year')
  expect(made).toMatchObject({ name: 'A year', now: start, status: 'ready' })
  expect((await api.call(listTestClocks, { query: { sorting: ['name'] } })).items.map(({ id }) => id)).toEqual([present.id, made.id])
  const params = { id: made.id }
  for (const to of [start, plus(start, -1), '9500-01-01T00:00:00.000Z'])
    expect(locs(await api.send(advanceTestClock, { params, body: { to } }))).toEqual(['body.to'])
  expect(locs(await api.send(advanceTestClock, { params, body: { by_seconds: 0 } }))).toEqual(['body.by_seconds'])
  expect(locs(await api.send(createTestClock, { body: { now: '1969-12-31T23:59:59.000Z' } }))).toEqual(['body.now'])
  const sent = await api.call(advanceTestClock, { params, body: { by_seconds: 86_400 } })
  expect(sent).toMatchObject({ now: start, target: plus(start, 1 * days), status: 'advancing' })
  expect(errorOf(await api.send(advanceTestClock, { params, body: { to: plus(start, 2 * days) } }))).toBe('409 ClockAlreadyAdvancing')
  await deployment.sweep()
  // No work was due, so the clock advanced in one step.
  expect(await api.call(getTestClock, { params })).toMatchObject({ now: plus(start, 1 * days), target: null, status: 'ready' })
})

test('hides test clocks from other sellers, and lets only roles that may manage customers advance them', async () => {
  const { api, clock, organization } = await open()
  const { id } = await clock()
  const stranger = await world.shop()
  const absent = newId(world.clock.wall())
  for (const [operation, body] of [
    [getTestClock, undefined],
    [advanceTestClock, { by_seconds: 1 }],
  ] as const) {
    const theirs = await stranger.api.send(operation, { params: { id }, body })
    expect(theirs.status).toBe(404)
    expect(theirs.body).toEqual((await stranger.api.send(operation, { params: { id: absent }, body })).body)
  }
  expect((await stranger.api.call(listTestClocks, {})).items).toEqual([])
  const reader = world.client({ token: (await organization.token(['customers:read'])).secret })
  expect((await reader.call(getTestClock, { params: { id } })).id).toBe(id)
  expect(errorOf(await reader.send(advanceTestClock, { params: { id }, body: { by_seconds: 1 } }))).toBe('403 insufficient_scope')
  const clerk = await world.person()
  await world.join(organization.id, clerk.id, 'finance')
  const theirs = world.client({ token: (await clerk.token()).secret })
  expect(errorOf(await theirs.send(advanceTestClock, { params: { id }, body: { by_seconds: 1 } }))).toBe('403 NotPermitted')
  expect(errorOf(await theirs.send(createTestClock, { body: { organization_id: organization.id } }))).toBe('403 NotPermitted')
  expect(await api.call(getTestClock, { params: { id } })).toMatchObject({ status: 'ready', now: start })
})

test('rejects test clocks in production', async () => {
  const production = await openWorld({ environment: 'production' })
  try {
    const { api } = await production.shop()
    const id = newId(production.clock.wall())
    const answers = [
      await api.send(listTestClocks, {}),
      await api.send(createTestClock, { body: {} }),
      await api.send(getTestClock, { params: { id } }),
      await api.send(advanceTestClock, { params: { id }, body: { by_seconds: 1 } }),
    ]
    expect(answers.map(errorOf)).toEqual(Array(4).fill('403 SandboxOnly'))
    expect(locs(await api.send(createCustomer, { body: { email: 'anna@people.test', test_clock_id: id } }))).toEqual(['body.test_clock_id'])
  } finally {
    await production.close()
  }
})

test('a customer on a test clock and all its records and events use the time of that clock', async () => {
  const { api, clock, toldOf } = await open()
  const { id: test_clock_id } = await clock()
  const stranger = await open()
  for (const foreign of [(await stranger.clock()).id, newId(world.clock.wall())])
    expect(locs(await api.send(createCustomer, { body: { email: 'foreign@people.test', test_clock_id: foreign } }))).toEqual(['body.test_clock_id'])
  const team = await api.call(createCustomer, { body: { type: 'team', owner: { email: 'boss@people.test' }, test_clock_id } })
  expect(team.created_at).toEqual(start)
  const wall = await api.call(createCustomer, { body: { email: 'wall@people.test' } })
  await travel(api, test_clock_id, plus(start, 1 * days))
  const changed = await api.call(updateCustomer, { params: { id: team.id }, body: { name: 'Works' } })
  expect(changed.modified_at).toEqual(plus(start, 1 * days))
  const member = await api.call(createMember, { params: { id: team.id }, body: { email: 'new@people.test', role: 'member' } })
  expect(member.created_at).toEqual(plus(start, 1 * days))
  expect((await api.call(getTestClock, { params: { id: test_clock_id } })).customers_count).toBe(1)
  await api.call(deleteCustomer, { params: { id: team.id } })
  expect((await api.call(getTestClock, { params: { id: test_clock_id } })).customers_count).toBe(0)
  const [first, second] = [start, plus(start, 1 * days)]
  expect((await toldOf(team.id)).map(({ kind, said }) => `${kind} ${said}`)).toEqual([
    `customer.created ${first}`,
    `member.created ${first}`,
    `customer.updated ${second}`,
    `member.created ${second}`,
    `member.deleted ${second}`,
    `member.deleted ${second}`,
    `customer.deleted ${second}`,
  ])
  const seen = await api.call(getCustomer, { params: { id: wall.id } })
  expect(Math.abs(Date.parse(seen.created_at) - world.clock.wall().getTime())).toBeLessThan(1 * hours)
})

test('advancing a test clock by a year makes twelve renewals, each dated at its due time, in under a minute of wall-clock time', async () => {
  const { api, clock, customer, buy, ordersOf, paymentsOf, subscriptionOf, toldOf, organization } = await open()
  const { id } = await clock()
  const anna = await customer(id)
  const wallBefore = world.clock.wall().getTime()
  const began = performance.now()
  await buy(anna.id)
  expect(await subscriptionOf(anna.id)).toMatchObject({ started_at: start, current_period_start: start, current_period_end: monthly[0]! })
  const arrived = await travel(api, id, '2027-01-31T10:00:00.000Z')
  expect(arrived).toMatchObject({ now: '2027-01-31T10:00:00.000Z', target: null, status: 'ready' })
  // The wall clock of the test runs in real time, so the duration of the test is subtracted.
  expect(world.clock.wall().getTime() - wallBefore - (performance.now() - began)).toBeLessThan(60_000)
  const orders = await ordersOf(anna.id)
  expect(ascending(orders.map(({ created_at }) => created_at))).toEqual([start, ...monthly])
  expect(new Set(orders.map(({ status }) => status))).toEqual(new Set(['paid']))
  const payments = await paymentsOf(anna.id)
  expect(ascending(payments.map(({ created_at }) => created_at))).toEqual([start, ...monthly])
  expect((await readBooks(world, organization.id)).charges.map(({ amount }) => amount)).toEqual(Array(13).fill(2900))
  const told = await toldOf(anna.id)
  expect(told.filter(({ kind }) => kind === 'order.paid').map(({ said }) => said)).toEqual([start, ...monthly])
  expect(told.filter(({ kind }) => kind === 'subscription.cycled').map(({ said }) => said)).toEqual(monthly)
  // `wall_at` is the real time of the write.
  for (const { wall_at } of told) expect(wall_at.getTime()).toBeGreaterThanOrEqual(wallBefore - 60_000)
  expect(await subscriptionOf(anna.id)).toMatchObject({ status: 'active', current_period_end: '2027-02-28T10:00:00.000Z' })
})

test('test clocks affect neither each other nor customers on the wall clock', async () => {
  const { api, clock, customer, buy, ordersOf, subscriptionOf } = await open()
  const still = await clock()
  const [resting, wall] = [await customer(still.id), await customer(null)]
  await buy(resting.id)
  await buy(wall.id)
  const people = []
  for (let months = 1; months <= 6; months++) {
    const { id } = await clock()
    const { id: customer_id } = await customer(id)
    await buy(customer_id)
    people.push({ id, customer_id, months })
  }
  await Promise.all(people.map(({ id, months }) => travel(api, id, plus(monthly[months - 1]!, 1 * hours))))
  for (const { customer_id, months } of people)
    expect(ascending((await ordersOf(customer_id)).map(({ created_at }) => created_at))).toEqual([start, ...monthly.slice(0, months)])
  await deployment.sweep()
  expect(await ordersOf(resting.id)).toHaveLength(1)
  expect(await ordersOf(wall.id)).toHaveLength(1)
  expect(Date.parse((await subscriptionOf(wall.id)).started_at!)).toBeGreaterThan(later(world.clock.wall(), -1 * hours).getTime())
  // The wall clock is far beyond the period, but this customer's clock stands still.
  world.clock.advance(60 * days)
  await deployment.sweep()
  expect(await ordersOf(resting.id)).toHaveLength(1)
  expect(await ordersOf(wall.id)).toHaveLength(2)
})

test('a checkout of a customer on a test clock expires by that clock, not by the wall clock', async () => {
  const { api, clock, customer, checkout, confirm, toldOf } = await open()
  const { id } = await clock()
  const anna = await customer(id)
  const made = await checkout(anna.id)
  expect(made).toMatchObject({ created_at: start, expires_at: plus(start, 1 * days) })
  const params = { client_secret: made.client_secret }
  world.clock.advance(3 * days)
  await deployment.sweep()
  expect((await api.call(getCheckout, { params: { id: made.id } })).status).toBe('open')
  expect((await world.client().call(getClientCheckout, { params })).status).toBe('open')
  // After a failed payment, the checkout still uses the test clock.
  expect(errorOf(await confirm(made.client_secret, 'tok_insufficient_funds'))).toBe('400 PaymentError')
  await deployment.work()
  await travel(api, id, plus(start, 23 * hours))
  const filled = await world.client().call(updateClientCheckout, { params, body: { customer_name: 'Anna' } })
  expect(filled.modified_at).toEqual(plus(start, 23 * hours))
  await travel(api, id, plus(start, 2 * days))
  expect((await api.call(getCheckout, { params: { id: made.id } })).status).toBe('expired')
  expect((await toldOf(anna.id)).at(-1)).toMatchObject({ kind: 'checkout.expired', said: plus(start, 1 * days) })
  expect(errorOf(await confirm(made.client_secret))).toBe('410 ExpiredCheckoutError')
})

test('trials and discounts of a customer on a test clock end by that clock', async () => {
  const { api, clock, customer, buy, ordersOf, subscriptionOf, checkout } = await open({ trial_interval: 'day', trial_interval_count: 10 })
  const { id } = await clock()
  const early = await api.call(createDiscount, {
    body: { name: 'Early', type: 'percentage', basis_points: 5000, duration: 'forever', ends_at: plus(start, 5 * days) } as never,
  })
  const anna = await customer(id)
  expect((await checkout(anna.id)).trial_end).toEqual(plus(start, 10 * days))
  await buy(anna.id, 'tok_visa', { discount_id: early.id })
  expect(await subscriptionOf(anna.id)).toMatchObject({ status: 'trialing', trial_start: start, trial_end: plus(start, 10 * days) })
  await travel(api, id, plus(start, 11 * days))
  const [renewal] = (await ordersOf(anna.id)).filter(({ billing_reason }) => billing_reason === 'subscription_cycle')
  expect(renewal).toMatchObject({ created_at: plus(start, 10 * days), net_amount: 1450, status: 'paid' })
  // On the wall clock the discount ended long ago. On this clock it ended six days ago.
  const late = await customer(id)
  const refused = await api.send(createCheckout, {
    body: { products: [(await subscriptionOf(anna.id)).product_id], customer_id: late.id, discount_id: early.id },
  })
  expect(locs(refused)).toEqual(['body.discount_id'])
})

test('refunds and updates of an order are dated by the buyer’s test clock', async () => {
  const { api, clock, customer, buy, ordersOf, toldOf } = await open()
  const { id } = await clock()
  const anna = await customer(id)
  await buy(anna.id)
  const moment = plus(start, 3 * days)
  await travel(api, id, moment)
  const [order] = await ordersOf(anna.id)
  expect((await api.call(updateOrder, { params: { id: order!.id }, body: { billing_name: 'Anna' } })).modified_at).toEqual(moment)
  const refund = await api.call(createRefund, { body: { order_id: order!.id, reason: 'other', amount: 100 } })
  expect(refund).toMatchObject({ created_at: moment, modified_at: moment, status: 'succeeded' })
  expect((await api.call(listRefunds, { query: { customer_id: [anna.id] } })).items).toHaveLength(1)
  const told = (await toldOf(anna.id)).filter(({ kind }) => kind.startsWith('refund.') || kind === 'order.refunded')
  expect(told.map(({ said }) => said)).toEqual(Array(3).fill(moment))
})

test('a purchase with a typed email address uses the test clock of the customer with that address', async () => {
  const { api, clock, customer, plan, confirm, subscriptionOf, ordersOf } = await open()
  const { id } = await clock()
  const anna = await customer(id)
  const made = await api.call(createCheckout, { body: { products: [plan.id] } })
  expect((await confirm(made.client_secret, 'tok_visa', { customer_email: anna.email })).status).toBe(200)
  await deployment.work()
  expect(await subscriptionOf(anna.id)).toMatchObject({ started_at: start, current_period_end: monthly[0]! })
  expect((await ordersOf(anna.id))[0]!.created_at).toEqual(start)
})

test('a test clock does not advance while a purchase is not fulfilled or a payment is pending', async () => {
  const { api, clock, customer, checkout, confirm, ordersOf, subscriptionOf } = await open()
  const { id } = await clock()
  const anna = await customer(id)
  const made = await checkout(anna.id)
  expect((await confirm(made.client_secret)).status).toBe(200)
  // The checkout is paid, but its job has not fulfilled it yet.
  await api.call(advanceTestClock, { params: { id }, body: { to: monthly[0]! } })
  await deployment.sweep()
  expect(await api.call(getTestClock, { params: { id } })).toMatchObject({ now: start, status: 'advancing' })
  await deployment.work()
  expect(await subscriptionOf(anna.id)).toMatchObject({ started_at: start })
  world.clock.advance(1000)
  await deployment.sweep()
  expect(await api.call(getTestClock, { params: { id } })).toMatchObject({ now: monthly[0]!, status: 'ready' })
  // With this card, every payment is pending for a minute, and the test clock waits for each of them.
  const slow = await customer((await clock()).id)
  const { clock_id } = (await world.database.owner((owner) => owner.query<{ clock_id: string }>('select clock_id from customers where id = $1', [slow.id])))
    .rows[0]!
  const wish = await checkout(slow.id)
  expect((await confirm(wish.client_secret, 'tok_processing')).status).toBe(200)
  await travel(api, clock_id, monthly[1]!)
  const orders = await ordersOf(slow.id)
  expect(ascending(orders.map(({ created_at }) => created_at))).toEqual([start, ...monthly.slice(0, 2)])
  expect(orders.map(({ status }) => status)).toEqual(Array(3).fill('paid'))
  expect(orders.map(({ modified_at, created_at }) => modified_at ?? created_at)).toEqual(orders.map(({ created_at }) => created_at))
})

test('if a worker crashes at any point of an advance, another worker continues without lost or duplicate effects', async () => {
  const { api, clock, customer, buy, ordersOf, paymentsOf, organization } = await open()
  const set = async () => {
    const { id } = await clock()
    const anna = await customer(id)
    await buy(anna.id)
    return { id, anna }
  }
  const journey = async (life: ReturnType<typeof openLife>, id: string) => {
    const mortal = await openDeployment(world, life)
    try {
      await api.call(advanceTestClock, { params: { id }, body: { to: monthly[1]! } })
      await mortal.sweep()
      await mortal.work()
    } finally {
      await mortal.close()
    }
  }
  const whole = openLife(null)
  const first = await set()
  await journey(whole, first.id)
  expect((await api.call(getTestClock, { params: { id: first.id } })).status).toBe('ready')
  let people = 1
  for (let point = 2; point < whole.effects.length; point += 6)
    for (const side of ['before', 'after'] as const) {
      const { id, anna } = await set()
      people++
      const life = openLife({ point, side })
      await journey(life, id).catch((error: unknown) => {
        if (!(error instanceof Died)) throw error
      })
      expect(life.isDead()).toBe(true)
      for (let turn = 0; turn < 20 && (await api.call(getTestClock, { params: { id } })).status !== 'ready'; turn++) {
        world.clock.advance(61_000)
        await deployment.sweep()
        await deployment.work()
      }
      const where = `${whole.effects[point - 1]} ${point} ${side}`
      expect(await api.call(getTestClock, { params: { id } }), where).toMatchObject({ now: monthly[1]!, status: 'ready' })
      const orders = await ordersOf(anna.id)
      expect(ascending(orders.map(({ created_at }) => created_at)), where).toEqual([start, ...monthly.slice(0, 2)])
      expect(
        orders.map(({ status }) => status),
        where,
      ).toEqual(Array(3).fill('paid'))
      expect(ascending((await paymentsOf(anna.id)).map(({ created_at }) => created_at)), where).toEqual([start, ...monthly.slice(0, 2)])
    }
  expect((await readBooks(world, organization.id)).charges).toHaveLength(people * 3)
})
