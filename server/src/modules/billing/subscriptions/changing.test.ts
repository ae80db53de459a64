import {
  addPortalPaymentMethod,
  createCustomer,
  createCustomerSession,
  createDiscount,
  createProduct,
  createSubscription,
  getOrder,
  getSubscription,
  listSubscriptions,
  revokeSubscription,
  updateOrganization,
  updateProduct,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { june, openSubscribers, type Subscribers } from '../../../../test/harness/subscribers.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

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

type Shop = Awaited<ReturnType<World['shop']>>
type Answer = { status: number; body: unknown }
const errorOf = (answer: Answer) => `${answer.status} ${(answer.body as { error: string }).error}`
const locs = (answer: Answer) =>
  answer.status === 422 ? (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.')) : [`${answer.status}`]
const absentId = () => newId(world.clock.wall())

const fixed = (price_amount: number, price_currency = 'usd') => ({ amount_type: 'fixed' as const, price_amount, price_currency: price_currency as 'usd' })
const seated = (price_per_seat: number, { min = 1, max = 100 } = {}) => ({
  amount_type: 'seat_based' as const,
  price_currency: 'usd' as const,
  seat_tiers: { seat_tier_type: 'volume' as const, tiers: [{ min_seats: min, max_seats: max, price_per_seat }] },
})
type Prices = (ReturnType<typeof fixed> | ReturnType<typeof seated> | Record<string, unknown>)[]
const plan = (shop: Shop, prices: Prices, more: Record<string, unknown> = {}) =>
  shop.api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices, ...more } as never })

/** A customer in the middle of a monthly period of a 10.00 plan. A 30.00 plan is also for sale. */
const open = async (wish: Parameters<Subscribers['subscribe']>[2] = {}, basicPrices: Prices = [fixed(1000)], more: Record<string, unknown> = {}) => {
  const shop = await world.shop()
  const basic = await plan(shop, basicPrices, { name: 'Basic', ...more })
  const grand = await plan(shop, [fixed(3000)], { name: 'Grand' })
  const anna = await people.subscribe(shop, basic.id, wish)
  const change = (body: Record<string, unknown>, client = shop.api) => client.send(updateSubscription, { params: anna.params, body })
  return {
    ...shop,
    ...anna,
    shop,
    basic,
    grand,
    change,
    /** Updates the subscription and returns it. Throws if the update is refused. */
    changed: async (body: Record<string, unknown>) => {
      const answer = await change(body)
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
      return answer.body
    },
    set: (column: string, value: unknown) => people.query(`update subscriptions set ${column} = $2 where id = $1`, [anna.id, value]),
    allowReset: () =>
      people.query(`update organizations set feature_settings = feature_settings || '{"reset_proration_behavior_enabled": true}' where id = $1`, [
        shop.organization.id,
      ]),
  }
}
const figuresOf = ({ status, billing_reason, total_amount, due_amount, items }: { items: { amount: number; label: string }[] } & Record<string, unknown>) => ({
  status,
  billing_reason,
  total_amount,
  due_amount,
  items: items.map(({ amount, label }) => [amount, label]),
})

// ── creating ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('creates a free subscription without a checkout and returns it by get, list and events [S1-12]', async () => {
  const shop = await world.shop()
  const { api, events } = shop
  const free = await plan(shop, [fixed(0)])
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test', external_id: 'a-1' } })
  const made = await api.call(createSubscription, { body: { product_id: free.id, customer_id: anna.id, metadata: { from: 'api' } } })
  expect(made).toMatchObject({
    status: 'active',
    amount: 0,
    currency: 'usd',
    seats: null,
    checkout_id: null,
    metadata: { from: 'api' },
    customer: { id: anna.id },
  })
  expect(await api.call(getSubscription, { params: { id: made.id } })).toEqual(made)
  expect((await api.call(listSubscriptions, {})).items).toEqual([made])
  const told = await events('subscription.created', 'subscription.active', 'subscription.updated', 'order.created')
  expect(told.map(({ type }) => type)).toEqual(['subscription.created', 'subscription.active', 'subscription.updated'])
  for (const { data } of told) expect(data).toEqual(JSON.parse(JSON.stringify(made)))
  const other = await api.call(createSubscription, { body: { product_id: free.id, external_customer_id: 'a-1' } })
  expect([other.customer_id, other.metadata]).toEqual([anna.id, {}])
})

test('creates a free seat plan with its minimum of seats, and a custom-price plan with an amount of 0', async () => {
  const shop = await world.shop()
  const anna = await shop.api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const team = await plan(shop, [seated(0, { min: 3 })])
  expect(await shop.api.call(createSubscription, { body: { product_id: team.id, customer_id: anna.id } })).toMatchObject({ seats: 3, amount: 0 })
  const gift = await plan(shop, [{ amount_type: 'custom', minimum_amount: 0, preset_amount: 0 }])
  expect(await shop.api.call(createSubscription, { body: { product_id: gift.id, customer_id: anna.id } })).toMatchObject({ seats: null, amount: 0 })
})

test('rejects products that are paid, archived, one-time or unknown, and unknown customers', async () => {
  const shop = await world.shop()
  const { api } = shop
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const stranger = await world.shop()
  const foreign = await plan(stranger, [fixed(0)])
  const archived = await plan(shop, [fixed(0)])
  await api.call(updateProduct, { params: { id: archived.id }, body: { is_archived: true } })
  const free = await plan(shop, [fixed(0)])
  const once = await plan(shop, [fixed(0)], { recurring_interval: null })
  const paid = await plan(shop, [fixed(1000)])
  const seats = await plan(shop, [seated(500)])
  const theirs = await stranger.api.call(createCustomer, { body: { email: 'bert@people.test', external_id: 'b-1' } })
  const cases: [Record<string, unknown>, string][] = [
    [{ product_id: paid.id, customer_id: anna.id }, 'body.product_id'],
    [{ product_id: seats.id, customer_id: anna.id }, 'body.product_id'],
    [{ product_id: archived.id, customer_id: anna.id }, 'body.product_id'],
    [{ product_id: once.id, customer_id: anna.id }, 'body.product_id'],
    [{ product_id: foreign.id, customer_id: anna.id }, 'body.product_id'],
    [{ product_id: absentId(), customer_id: anna.id }, 'body.product_id'],
    [{ product_id: free.id, customer_id: absentId() }, 'body.customer_id'],
    [{ product_id: free.id, customer_id: theirs.id }, 'body.customer_id'],
    [{ product_id: free.id, external_customer_id: 'b-1' }, 'body.external_customer_id'],
    [{ product_id: 'nonsense', customer_id: anna.id }, 'body.product_id'],
  ]
  for (const [body, where] of cases) expect([body, locs(await api.send(createSubscription, { body: body as never }))]).toEqual([body, [where]])
  expect((await api.call(listSubscriptions, {})).items).toEqual([])
})

test('creates one subscription for two requests with the same idempotency key', async () => {
  const shop = await world.shop()
  const free = await plan(shop, [fixed(0)])
  const anna = await shop.api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const keyed = world.client({ token: (await shop.organization.token()).secret }, { 'idempotency-key': 'once' })
  const body = { product_id: free.id, customer_id: anna.id }
  expect(await keyed.call(createSubscription, { body })).toEqual(await keyed.call(createSubscription, { body }))
  expect((await shop.api.call(listSubscriptions, {})).pagination.total_count).toBe(1)
  expect(await shop.events('subscription.created')).toHaveLength(1)
})

// ── access and request shapes ─────────────────────────────────────────────────────────────────────────────────────────

test('changes nothing without a token, without the scope, or for another organization', async () => {
  const { change, organization, params, basic, customer, everything } = await open()
  const before = await everything()
  const reader = world.client({ token: (await organization.token(['subscriptions:read'])).secret })
  const stranger = (await world.shop()).api
  const making = { product_id: basic.id, customer_id: customer.id }
  for (const [client, status] of [
    [world.client(), 401],
    [reader, 403],
  ] as const) {
    expect((await change({ metadata: {} }, client)).status).toBe(status)
    expect((await client.send(revokeSubscription, { params })).status).toBe(status)
    expect((await client.send(createSubscription, { body: making })).status).toBe(status)
  }
  const absent = await stranger.send(updateSubscription, { params: { id: absentId() }, body: { metadata: {} } })
  expect(await change({ metadata: {} }, stranger)).toMatchObject({ status: 404, body: absent.body })
  expect(await stranger.send(revokeSubscription, { params })).toMatchObject({ status: 404, body: absent.body })
  expect(await everything()).toEqual(before)
})

test('rejects requests that mix two kinds of change or contain unknown or invalid fields', async () => {
  const { change, everything, told, grand } = await open()
  const before = await everything()
  const shapes: Record<string, unknown>[] = [
    { product_id: grand.id },
    { seats: 2 },
    { current_billing_period_end: '2026-08-01T00:00:00Z' },
    { cancel_at_period_end: true },
    { revoke: true },
    { pause_at_period_end: true },
    { resume: true },
    { pending_update: null },
  ]
  for (const [at, shape] of shapes.entries()) {
    expect((await change({ ...shape, surprise: 1 })).status).toBe(422)
    expect((await change({ ...shape, ...shapes[(at + 1) % shapes.length] })).status).toBe(422)
  }
  const wrong: Record<string, unknown>[] = [
    { seats: 0 },
    { seats: 1.5 },
    { revoke: false },
    { resume: false },
    { pending_update: {} },
    { cancel_at_period_end: true, customer_cancellation_reason: 'bored' },
    { trial_end: 'soon' },
    { product_id: grand.id, proration_behavior: 'whenever' },
  ]
  for (const body of wrong) expect([body, (await change(body)).status]).toEqual([body, 422])
  expect(await everything()).toEqual(before)
  expect(await told()).toEqual([])
})

// ── proration ─────────────────────────────────────────────────────────────────────────────────────────────────────────

test('prorate: bills the difference for the rest of the period with the next order', async () => {
  const { changed, grand, orders, told, charged, travel } = await open()
  expect(await changed({ product_id: grand.id, proration_behavior: 'prorate' })).toMatchObject({
    product_id: grand.id,
    amount: 3000,
    current_period_end: june.end.toISOString(),
    prices: [{ id: grand.prices[0]!.id }],
  })
  expect(await orders()).toEqual([])
  expect(await told()).toEqual(['subscription.updated'])
  await travel(june.end)
  expect((await orders()).map(figuresOf)).toEqual([
    {
      status: 'paid',
      billing_reason: 'subscription_cycle',
      total_amount: 4000,
      due_amount: 4000,
      items: [
        [3000, 'Grand'],
        [-500, 'Remaining time on Basic'],
        [1500, 'Grand'],
      ],
    },
  ])
  expect(await charged()).toEqual([4000])
  expect(await told()).toEqual(['subscription.updated', 'subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
})

test('uses the proration behavior of the request, or else the default of the organization', async () => {
  const { api, organization, changed, grand, basic, orders } = await open()
  const settings = organization.subscription_settings
  await api.call(updateOrganization, { params: { id: organization.id }, body: { subscription_settings: { ...settings, proration_behavior: 'invoice' } } })
  await changed({ product_id: grand.id })
  expect((await orders()).map(({ billing_reason, total_amount }) => [billing_reason, total_amount])).toEqual([['subscription_update', 1000]])
  await changed({ product_id: basic.id, proration_behavior: 'prorate' })
  expect(await orders()).toHaveLength(1)
})

test('invoice: charges the difference at once and applies the change when it is paid', async () => {
  const { changed, grand, orders, told, charged, everything, travel } = await open()
  expect(await changed({ product_id: grand.id, proration_behavior: 'invoice' })).toMatchObject({ product_id: grand.id, amount: 3000, pending_update: null })
  expect((await orders()).map(figuresOf)).toEqual([
    {
      status: 'paid',
      billing_reason: 'subscription_update',
      total_amount: 1000,
      due_amount: 1000,
      items: [
        [-500, 'Remaining time on Basic'],
        [1500, 'Grand'],
      ],
    },
  ])
  expect(await charged()).toEqual([1000])
  expect(await told()).toEqual(['order.created', 'order.updated', 'order.paid', 'subscription.updated'])
  expect(await everything()).toMatchObject([{ updates: null, entries: null }])
  await travel(june.end)
  expect(await charged()).toEqual([1000, 3000])
})

test('invoice: a declined card changes nothing and voids the order', async () => {
  const { change, changed, grand, basic, orders, told, charged, everything, api, set } = await open({ card: 'tok_declined_later' })
  await changed({ product_id: grand.id, proration_behavior: 'next_period' })
  await set('metadata', JSON.stringify({ a: 1 }))
  const half = await api.call(createDiscount, { body: { name: 'Half', type: 'percentage', duration: 'forever', basis_points: 5000, max_redemptions: 1 } })
  const huge = await api.call(createProduct, { body: { name: 'Huge', recurring_interval: 'month', prices: [fixed(9000)] } })
  const before = await everything()
  const answer = await change({ product_id: huge.id, proration_behavior: 'invoice', metadata: { b: 2 }, discount_id: half.id })
  expect(answer).toMatchObject({ status: 402, body: { error: 'PaymentFailed', detail: 'The card has insufficient funds. Nothing was changed.' } })
  expect(await everything()).toEqual(before)
  expect(await charged()).toEqual([])
  const [order] = await orders()
  expect(order).toMatchObject({ status: 'void', invoice_number: expect.stringMatching(/-000\d$/) as string, total_amount: 4000 })
  expect(await told()).toEqual(['subscription.updated', 'order.created', 'order.updated'])
  // The redemption of the discount was released.
  expect(await people.query('select redemptions_count from discounts where id = $1', [half.id])).toEqual([{ redemptions_count: 0 }])
  expect((await change({ discount_id: half.id })).status).toBe(200)
  expect((await api.call(getSubscription, { params: { id: order!.subscription_id! } })).product_id).toBe(basic.id)
})

test('invoice: a customer without a payment method gets an error, and no order is created', async () => {
  const { change, grand, customer, orders, told, everything } = await open()
  await people.query('update customers set default_payment_method_id = null where id = $1', [customer.id])
  await people.query('update subscriptions set payment_method_id = null where customer_id = $1', [customer.id])
  const before = await everything()
  expect(errorOf(await change({ product_id: grand.id, proration_behavior: 'invoice' }))).toBe('402 PaymentFailed')
  expect(await everything()).toEqual(before)
  expect([await orders(), await told()]).toEqual([[], []])
})

test('applies product, metadata and discount together after the payment, with one event', async () => {
  const { changed, grand, api, told, basic } = await open()
  const bound = await api.call(createDiscount, {
    body: { name: 'Half of Grand', type: 'percentage', duration: 'forever', basis_points: 5000, products: [grand.id] },
  })
  expect(await changed({ product_id: grand.id, proration_behavior: 'invoice', metadata: { b: 2 }, discount_id: bound.id })).toMatchObject({
    product_id: grand.id,
    metadata: { b: 2 },
    discount_id: bound.id,
  })
  expect((await told()).filter((kind) => kind === 'subscription.updated')).toHaveLength(1)
  // A discount that is limited to one product is removed when the product changes.
  expect(await changed({ product_id: basic.id, proration_behavior: 'prorate' })).toMatchObject({ product_id: basic.id, discount_id: null })
})

test('emits one event for a change of product, metadata and discount, and none if nothing changes', async () => {
  const { changed, grand, told, api } = await open()
  const tenth = await api.call(createDiscount, { body: { name: 'Tenth', type: 'percentage', duration: 'forever', basis_points: 1000 } })
  await changed({ product_id: grand.id, proration_behavior: 'prorate', metadata: { a: 1 }, discount_id: tenth.id })
  expect(await told()).toEqual(['subscription.updated'])
  await changed({ metadata: { a: 2 }, discount_id: null, product_id: grand.id })
  expect(await told()).toEqual(['subscription.updated', 'subscription.updated'])
  // No value differs, so no event is emitted.
  await changed({ metadata: { a: 2 }, discount_id: null, product_id: grand.id })
  await changed({})
  expect(await told()).toHaveLength(2)
})

test('applies the discount of the current period to credit and charge, and its removal only from the next period on', async () => {
  const shop = await world.shop()
  const half = await shop.api.call(createDiscount, { body: { name: 'Half', type: 'percentage', duration: 'forever', basis_points: 5000 } })
  const basic = await plan(shop, [fixed(1000)], { name: 'Basic' })
  const grand = await plan(shop, [fixed(3000)], { name: 'Grand' })
  const anna = await people.subscribe(shop, basic.id, { discount_id: half.id })
  await shop.api.call(updateSubscription, { params: anna.params, body: { product_id: grand.id, proration_behavior: 'invoice', discount_id: null } })
  // Credit: half a month of 10.00 at half price, 2.50. Charge: half a month of 30.00 at half price, 7.50.
  expect((await anna.orders()).map(({ total_amount, items }) => [total_amount, ...items.map(({ amount }) => amount)])).toEqual([[500, -250, 750]])
  expect((await anna.find()).discount_id).toBeNull()
  await anna.travel(june.end)
  expect(await anna.charged()).toEqual([500, 3000])
})

test('next_period: stores the change, charges nothing now, and applies it when the period ends, even if that end is moved', async () => {
  const { changed, grand, basic, orders, told, charged, travel, find, everything } = await open()
  const seen = await changed({ product_id: grand.id, proration_behavior: 'next_period' })
  expect(seen).toMatchObject({ product_id: basic.id, amount: 1000, pending_update: { product_id: grand.id, seats: null, applies_at: june.end.toISOString() } })
  expect(await everything()).toMatchObject([{ entries: null }])
  expect((await changed({ current_billing_period_end: '2026-06-20T12:00:00Z' })).pending_update).toMatchObject({ applies_at: '2026-06-20T12:00:00.000Z' })
  expect(await told()).toEqual(['subscription.updated', 'subscription.updated'])
  await travel('2026-06-20T12:00:00Z')
  expect(await find()).toMatchObject({
    product_id: grand.id,
    amount: 3000,
    pending_update: null,
    current_period_start: '2026-06-20T12:00:00.000Z',
    current_period_end: '2026-07-20T12:00:00.000Z',
  })
  expect((await orders()).map(({ total_amount }) => total_amount)).toEqual([3000])
  expect(await charged()).toEqual([3000])
  expect((await told()).slice(2)).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
})

test('credits the discounted price even if the discount was removed in the meantime', async () => {
  const shop = await world.shop()
  const half = await shop.api.call(createDiscount, { body: { name: 'Half', type: 'percentage', duration: 'forever', basis_points: 5000 } })
  const basic = await plan(shop, [fixed(1000)], { name: 'Basic' })
  const grand = await plan(shop, [fixed(3000)], { name: 'Grand' })
  const anna = await people.subscribe(shop, grand.id, { discount_id: half.id })
  await shop.api.call(updateSubscription, { params: anna.params, body: { discount_id: null } })
  await shop.api.call(updateSubscription, { params: anna.params, body: { product_id: basic.id, proration_behavior: 'invoice' } })
  // Half a month of 30.00 and of 10.00, each at half price. The current period keeps the discount that it was billed with.
  const [order] = await anna.orders()
  expect(order).toMatchObject({ status: 'paid', total_amount: -500 })
})

test('removes a discount that is limited to another product when a pending change applies', async () => {
  const shop = await world.shop()
  const basic = await plan(shop, [fixed(1000)], { name: 'Basic' })
  const grand = await plan(shop, [fixed(3000)], { name: 'Grand' })
  const half = await shop.api.call(createDiscount, {
    body: { name: 'Half', type: 'percentage', duration: 'forever', basis_points: 5000, products: [basic.id] },
  })
  const anna = await people.subscribe(shop, basic.id, { discount_id: half.id })
  await shop.api.call(updateSubscription, { params: anna.params, body: { product_id: grand.id, proration_behavior: 'next_period' } })
  await anna.travel(june.end)
  expect(await anna.find()).toMatchObject({ product_id: grand.id, discount_id: null })
  expect(await anna.charged()).toEqual([3000])
})

test('cancels the pending change when the current product is requested, or with pending_update null', async () => {
  const { changed, grand, basic, told, change } = await open()
  await changed({ product_id: grand.id, proration_behavior: 'next_period' })
  expect((await changed({ product_id: basic.id })).pending_update).toBeNull()
  expect(await told()).toEqual(['subscription.updated', 'subscription.updated'])
  await changed({ product_id: basic.id })
  expect(await told()).toHaveLength(2)
  await changed({ product_id: grand.id, proration_behavior: 'next_period' })
  expect((await changed({ pending_update: null })).pending_update).toBeNull()
  expect(await told()).toHaveLength(4)
  expect(locs(await change({ pending_update: null }))).toEqual(['body.pending_update'])
})

test('starts and charges a new period at once when the interval changes, also with prorate', async () => {
  for (const proration_behavior of ['prorate', 'invoice']) {
    const { shop, changed, orders, charged, find } = await open()
    const year = await plan(shop, [fixed(10_000)], { name: 'Year', recurring_interval: 'year' })
    await changed({ product_id: year.id, proration_behavior })
    expect(await find()).toMatchObject({
      recurring_interval: 'year',
      amount: 10_000,
      current_period_start: june.now.toISOString(),
      current_period_end: '2027-06-16T00:00:00.000Z',
    })
    expect((await orders()).map(figuresOf)).toEqual([
      {
        status: 'paid',
        billing_reason: 'subscription_update',
        total_amount: 9500,
        due_amount: 9500,
        items: [
          [-500, 'Remaining time on Basic'],
          [10_000, 'Year'],
        ],
      },
    ])
    expect(await charged()).toEqual([9500])
  }
})

test('does not repeat a one-time discount when the period restarts, but keeps one that lasts forever', async () => {
  for (const [duration, total] of [
    ['once', 10_000 - 250],
    ['forever', 5000 - 250],
  ] as const) {
    const shop = await world.shop()
    const half = await shop.api.call(createDiscount, { body: { name: 'Half', type: 'percentage', duration, basis_points: 5000 } as never })
    const basic = await plan(shop, [fixed(1000)])
    const year = await plan(shop, [fixed(10_000)], { recurring_interval: 'year' })
    const anna = await people.subscribe(shop, basic.id, { discount_id: half.id })
    const after = await shop.api.call(updateSubscription, { params: anna.params, body: { product_id: year.id } })
    expect([duration, after.discount_id, await anna.charged()]).toEqual([duration, duration === 'once' ? null : half.id, [total]])
  }
})

test('reset: requires the feature, charges the full new price, credits nothing, and restarts the period', async () => {
  const { change, changed, grand, orders, allowReset, find } = await open()
  expect(locs(await change({ product_id: grand.id, proration_behavior: 'reset' }))).toEqual(['body.proration_behavior'])
  await allowReset()
  await changed({ product_id: grand.id, proration_behavior: 'reset' })
  expect((await orders()).map(({ total_amount, billing_reason }) => [total_amount, billing_reason])).toEqual([[3000, 'subscription_update']])
  expect(await find()).toMatchObject({ current_period_start: june.now.toISOString(), current_period_end: '2026-07-16T00:00:00.000Z' })
})

test('credits a downgrade with a paid order of negative total, and the next order uses the credit', async () => {
  const { shop, changed, orders, told, charged, balance, travel } = await open({}, [fixed(3000)])
  const small = await plan(shop, [fixed(1000)], { name: 'Small' })
  await changed({ product_id: small.id, proration_behavior: 'invoice' })
  const [credit] = await orders()
  expect(figuresOf(credit!)).toEqual({
    status: 'paid',
    billing_reason: 'subscription_update',
    total_amount: -1000,
    due_amount: 0,
    items: [
      [-1500, 'Remaining time on Basic'],
      [500, 'Small'],
    ],
  })
  expect(credit!.invoice_number).not.toBeNull()
  expect([await balance(), await charged()]).toEqual([[1000], []])
  expect(await told()).toEqual(['order.created', 'order.updated', 'order.paid', 'subscription.updated'])
  await travel(june.end)
  expect(await orders()).toMatchObject([{}, { total_amount: 1000, applied_balance_amount: -1000, due_amount: 0, status: 'paid' }])
  expect([await balance(), await charged()]).toEqual([[0], []])
})

test('charges nothing extra for a change that is reverted at the same moment', async () => {
  const { changed, grand, basic, travel, charged } = await open()
  await changed({ product_id: grand.id, proration_behavior: 'prorate' })
  await changed({ product_id: basic.id, proration_behavior: 'prorate' })
  await travel(june.end)
  expect(await charged()).toEqual([1000])
})

// ── seats ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

test('prorates added and removed seats and enforces the minimum and maximum of the price', async () => {
  const { change, changed, orders, charged, balance, told } = await open({ seats: 4 }, [seated(1000, { min: 2, max: 10 })])
  expect(await changed({ seats: 6, proration_behavior: 'invoice' })).toMatchObject({ seats: 6, amount: 6000 })
  expect((await orders()).map((one) => ({ ...figuresOf(one), seats: one.seats }))).toEqual([
    { status: 'paid', billing_reason: 'subscription_update', total_amount: 1000, due_amount: 1000, items: [[1000, 'Basic (6 seats)']], seats: 6 },
  ])
  await changed({ seats: 2, proration_behavior: 'invoice' })
  expect([await charged(), await balance()]).toEqual([[1000], [2000]])
  expect((await told()).filter((kind) => kind.startsWith('subscription'))).toEqual(['subscription.updated', 'subscription.updated'])
  expect(errorOf(await change({ seats: 1 }))).toBe('400 BelowMinimumSeats')
  expect(errorOf(await change({ seats: 11 }))).toBe('400 AboveMaximumSeats')
  expect(locs(await change({ seats: 3, proration_behavior: 'reset' }))).toEqual(['body.proration_behavior'])
})

test('keeps the number of seats if the payment is declined', async () => {
  const { change, everything, orders, charged } = await open({ seats: 4, card: 'tok_declined_later' }, [seated(1000)])
  const before = await everything()
  expect(errorOf(await change({ seats: 8, proration_behavior: 'invoice' }))).toBe('402 PaymentFailed')
  expect(await everything()).toEqual(before)
  expect([(await orders()).map(({ status }) => status), await charged()]).toEqual([['void'], []])
})

test('keeps pending seats together with a pending product; requesting the current seats cancels only the pending seats', async () => {
  const { shop, change, changed, travel, charged, find } = await open({ seats: 4 }, [seated(1000)])
  const other = await plan(shop, [seated(2000, { max: 10 })], { name: 'Other' })
  await changed({ product_id: other.id, proration_behavior: 'next_period' })
  expect((await changed({ seats: 9, proration_behavior: 'next_period' })).pending_update).toMatchObject({ product_id: other.id, seats: 9 })
  // The pending product must sell the pending number of seats.
  expect(locs(await change({ seats: 11, proration_behavior: 'next_period' }))).toEqual(['body.seats'])
  expect((await changed({ seats: 4 })).pending_update).toMatchObject({ product_id: other.id, seats: null })
  await changed({ seats: 7, proration_behavior: 'next_period' })
  expect((await changed({ seats: 5, proration_behavior: 'prorate' })).pending_update).toMatchObject({ product_id: other.id, seats: null })
  await travel(june.end)
  expect(await find()).toMatchObject({ product_id: other.id, seats: 5, amount: 10_000, pending_update: null })
  expect(await charged()).toEqual([10_500])
})

test('drops a pending product that does not sell the current number of seats, and bills the period', async () => {
  const { shop, changed, travel, find, charged } = await open({ seats: 4 }, [seated(1000)])
  const small = await plan(shop, [seated(2000, { max: 5 })], { name: 'Small' })
  await changed({ product_id: small.id, proration_behavior: 'next_period' })
  await changed({ seats: 6, proration_behavior: 'prorate' })
  await travel(june.end)
  expect(await find()).toMatchObject({ seats: 6, amount: 6000, pending_update: null })
  expect(await charged()).toEqual([7000])
})

test('rejects a change of seats for a subscription without seats', async () => {
  const { change } = await open()
  expect(errorOf(await change({ seats: 2 }))).toBe('400 NotASeatBasedSubscription')
})

// ── the new product ───────────────────────────────────────────────────────────────────────────────────────────────────

test('rejects a new product that is unknown, archived, one-time or custom-priced, or that cannot have as many seats as the subscription', async () => {
  const { shop, change, everything, api, told } = await open()
  const stranger = await world.shop()
  const archived = await plan(shop, [fixed(100)])
  await api.call(updateProduct, { params: { id: archived.id }, body: { is_archived: true } })
  const wrong: Record<string, string> = {
    absent: absentId(),
    foreign: (await plan(stranger, [fixed(100)])).id,
    archived: archived.id,
    once: (await plan(shop, [fixed(100)], { recurring_interval: null })).id,
    custom: (await plan(shop, [{ amount_type: 'custom', minimum_amount: 100 }])).id,
  }
  const before = await everything()
  for (const [what, product_id] of Object.entries(wrong)) expect([what, locs(await change({ product_id }))]).toEqual([what, ['body.product_id']])
  const team = await plan(shop, [seated(1000, { min: 3 })])
  expect(locs(await change({ product_id: team.id, proration_behavior: 'next_period' }))).toEqual(['body.proration_behavior'])
  expect(await everything()).toEqual(before)
  expect(await told()).toEqual([])
  expect((await change({ product_id: team.id, proration_behavior: 'prorate' })).body).toMatchObject({ seats: 3, amount: 3000 })
  const single = await plan(shop, [fixed(100)])
  expect(locs(await change({ product_id: single.id }))).toEqual(['body.product_id'])
  const pair = await plan(shop, [seated(1000, { min: 1, max: 2 })])
  expect(locs(await change({ product_id: pair.id }))).toEqual(['body.product_id'])
})

test('rejects a product without a price in the currency of the subscription', async () => {
  const { change, set, grand } = await open()
  await set('currency', 'eur')
  expect(locs(await change({ product_id: grand.id }))).toEqual(['body.product_id'])
})

// ── trials ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const trial = { trial_interval: 'day', trial_interval_count: 30 }

test('ends a trial now: starts and charges the first period, without a subscription.active event', async () => {
  const { changed, orders, told, charged, settle } = { ...(await open({}, [fixed(1000)], trial)), settle: people.settle }
  const after = await changed({ trial_end: 'now' })
  expect(after).toMatchObject({
    status: 'active',
    trial_end: june.now.toISOString(),
    current_period_start: june.now.toISOString(),
    current_period_end: '2026-07-16T00:00:00.000Z',
  })
  expect((await orders()).map(({ status, billing_reason, total_amount }) => [status, billing_reason, total_amount])).toEqual([
    ['pending', 'subscription_cycle', 1000],
  ])
  const [{ clock_id }] = (await people.query<{ clock_id: string }>('select clock_id from subscriptions where id = $1', [after.id])) as [{ clock_id: string }]
  await settle({ organization_id: after.product.organization_id, id: clock_id })
  // This is the first charge of the card, because the trial was free. `charged` skips the first charge, so it returns an empty list.
  expect((await orders()).map(({ status }) => status)).toEqual(['paid'])
  expect(await told()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created', 'order.updated', 'order.paid'])
  expect(await charged()).toEqual([])
})

test('moves or starts a trial only if the new end is in the future and after the paid period', async () => {
  const { change, changed, told, travel, find } = await open({}, [fixed(1000)], trial)
  expect(await changed({ trial_end: '2026-07-10T00:00:00Z' })).toMatchObject({
    status: 'trialing',
    trial_end: '2026-07-10T00:00:00.000Z',
    current_period_end: '2026-07-10T00:00:00.000Z',
  })
  expect(locs(await change({ trial_end: '2026-06-15T00:00:00Z' }))).toEqual(['body.trial_end'])
  expect(await told()).toEqual(['subscription.updated'])
  await travel('2026-07-10T00:00:00Z')
  expect(await find()).toMatchObject({ status: 'active', current_period_end: '2026-08-10T00:00:00.000Z' })
  expect(locs(await change({ trial_end: 'now' }))).toEqual(['body.trial_end'])
  expect(locs(await change({ trial_end: '2026-08-10T00:00:00Z' }))).toEqual(['body.trial_end'])
  expect(await changed({ trial_end: '2026-08-12T00:00:00Z' })).toMatchObject({
    status: 'trialing',
    current_period_start: '2026-07-10T00:00:00.000Z',
    current_period_end: '2026-08-12T00:00:00.000Z',
  })
})

test('rejects a trial for a subscription that is past due or paused', async () => {
  const { change, set } = await open()
  for (const status of ['past_due', 'paused']) {
    await set('status', status)
    expect([status, errorOf(await change({ trial_end: '2026-09-01T00:00:00Z' }))]).toEqual([status, '403 InactiveSubscription'])
  }
})

test('changes product and seats during a trial without a charge', async () => {
  const { shop, changed, told, orders, find, travel } = await open({ seats: 4 }, [seated(1000)], trial)
  const longer = await plan(shop, [seated(2000)], { name: 'Longer', trial_interval: 'day', trial_interval_count: 40 })
  await changed({ seats: 5, proration_behavior: 'invoice' })
  expect(await changed({ product_id: longer.id, proration_behavior: 'next_period' })).toMatchObject({
    status: 'trialing',
    product_id: longer.id,
    amount: 10_000,
    trial_end: '2026-07-11T00:00:00.000Z',
    current_period_end: '2026-07-11T00:00:00.000Z',
  })
  expect([await told(), await orders()]).toEqual([['subscription.updated', 'subscription.updated'], []])
  const none = await plan(shop, [seated(3000)], { name: 'None' })
  expect(await changed({ product_id: none.id })).toMatchObject({ status: 'active', product_id: none.id, trial_end: june.now.toISOString() })
  expect((await orders()).map(({ total_amount }) => total_amount)).toEqual([15_000])
  expect((await told()).slice(2)).toEqual(['subscription.updated', 'subscription.cycled', 'order.created'])
  await travel('2026-06-17T00:00:00Z')
  expect(await find()).toMatchObject({ status: 'active', current_period_end: '2026-07-16T00:00:00.000Z' })
})

test('applies a new product and the end of the trial as one change, and charges the new product', async () => {
  const { grand, changed, told, orders } = await open({}, [fixed(1000)], trial)
  expect(await changed({ product_id: grand.id, trial_end: 'now', metadata: { a: 1 } })).toMatchObject({
    status: 'active',
    product_id: grand.id,
    metadata: { a: 1 },
  })
  expect((await orders()).map(({ total_amount }) => total_amount)).toEqual([3000])
  expect(await told()).toEqual(['subscription.updated', 'subscription.cycled', 'order.created'])
  const other = await open()
  expect(await other.changed({ product_id: other.grand.id, trial_end: '2026-08-01T00:00:00Z' })).toMatchObject({
    status: 'trialing',
    product_id: other.grand.id,
    trial_end: '2026-08-01T00:00:00.000Z',
    current_period_end: '2026-08-01T00:00:00.000Z',
  })
  expect([await other.told(), await other.orders()]).toEqual([['subscription.updated'], []])
})

// ── discounts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

test('adds a discount from the next period for its duration, and removes it', async () => {
  const { api, changed, travel, charged, find } = await open()
  const half = await api.call(createDiscount, {
    body: { name: 'Half', type: 'percentage', duration: 'repeating', duration_in_months: 2, basis_points: 5000 },
  })
  expect(await changed({ discount_id: half.id })).toMatchObject({ discount_id: half.id, discount: { id: half.id } })
  for (const month of ['07', '08', '09']) await travel(`2026-${month}-01T00:00:00Z`)
  expect(await charged()).toEqual([500, 500, 1000])
  expect((await find()).discount_id).toBeNull()
  const tenth = await api.call(createDiscount, { body: { name: 'Tenth', type: 'percentage', duration: 'forever', basis_points: 1000 } })
  await changed({ discount_id: tenth.id })
  await travel('2026-10-01T00:00:00Z')
  expect((await changed({ discount_id: null })).discount).toBeNull()
  await travel('2026-11-01T00:00:00Z')
  expect(await charged()).toEqual([500, 500, 1000, 900, 1000])
})

test('rejects a discount that is used up, not started, unknown, or limited to another product', async () => {
  const { api, change, grand, told, everything, shop, basic } = await open()
  const make = (more: Record<string, unknown>) =>
    api.call(createDiscount, { body: { name: 'Some', type: 'percentage', duration: 'once', basis_points: 1000, ...more } as never })
  const used = await make({ max_redemptions: 1 })
  await people.subscribe(shop, basic.id, { discount_id: used.id })
  const wrong: Record<string, string> = {
    absent: absentId(),
    foreign: (await (await world.shop()).api.call(createDiscount, { body: { name: 'Some', type: 'percentage', duration: 'once', basis_points: 1000 } })).id,
    used: used.id,
    bound: (await make({ products: [grand.id] })).id,
    later: (await make({ starts_at: '2040-01-01T00:00:00Z' })).id,
  }
  const before = await everything()
  for (const [what, discount_id] of Object.entries(wrong)) expect([what, locs(await change({ discount_id }))]).toEqual([what, ['body.discount_id']])
  expect([await told(), await everything()]).toEqual([[], before])
})

// ── periods ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('moves the end of the current period, and later periods follow the new date', async () => {
  const { change, changed, travel, find, charged, told, set } = await open()
  expect(locs(await change({ current_billing_period_end: june.now.toISOString() }))).toEqual(['body.current_billing_period_end'])
  await changed({ current_billing_period_end: '2026-08-31T00:00:00Z' })
  expect(await told()).toEqual(['subscription.updated'])
  await travel('2026-08-30T00:00:00Z')
  expect(await charged()).toEqual([])
  await travel('2026-08-31T00:00:00Z')
  expect((await find()).current_period_end).toBe('2026-09-30T00:00:00.000Z')
  await travel('2026-09-30T00:00:00Z')
  expect((await find()).current_period_end).toBe('2026-10-31T00:00:00.000Z')
  expect(await charged()).toEqual([1000, 1000])
  await set('status', 'past_due')
  expect(errorOf(await change({ current_billing_period_end: '2027-01-01T00:00:00Z' }))).toBe('403 InactiveSubscription')
})

test('moves the end of a trial together with the end of its period', async () => {
  const { changed } = await open({}, [fixed(1000)], trial)
  const moment = '2026-06-20T00:00:00.000Z'
  expect(await changed({ current_billing_period_end: moment })).toMatchObject({ status: 'trialing', trial_end: moment, current_period_end: moment })
})

// ── ending ────────────────────────────────────────────────────────────────────────────────────────────────────────────

test('cancels at the end of the period, allows uncancel before it, and emits each event once', async () => {
  const { change, changed, told, travel, find, charged, grand } = await open()
  const farewell = { customer_cancellation_reason: 'too_expensive', customer_cancellation_comment: 'Dear.' }
  expect(await changed({ cancel_at_period_end: true, ...farewell })).toMatchObject({
    status: 'active',
    cancel_at_period_end: true,
    canceled_at: june.now.toISOString(),
    ends_at: june.end.toISOString(),
    ended_at: null,
    ...farewell,
  })
  for (const body of [
    { cancel_at_period_end: true },
    { product_id: grand.id },
    { trial_end: '2026-09-01T00:00:00Z' },
    { current_billing_period_end: '2026-09-01T00:00:00Z' },
    { seats: 2 },
  ])
    expect([body, errorOf(await change(body))]).toEqual([body, '403 AlreadyCanceledSubscription'])
  expect(errorOf(await change({ pause_at_period_end: true }))).toBe('409 CannotPauseSubscription')
  expect(await changed({ cancel_at_period_end: false })).toMatchObject({
    cancel_at_period_end: false,
    canceled_at: null,
    ends_at: null,
    customer_cancellation_reason: null,
    customer_cancellation_comment: null,
  })
  expect(errorOf(await change({ cancel_at_period_end: false }))).toBe('400 SubscriptionNotScheduledToCancel')
  await changed({ cancel_at_period_end: true })
  await travel(june.end)
  expect(await find()).toMatchObject({ status: 'canceled', ended_at: june.end.toISOString(), ends_at: june.end.toISOString() })
  expect(await charged()).toEqual([])
  expect(errorOf(await change({ cancel_at_period_end: false }))).toBe('410 SubscriptionEnded')
  expect(errorOf(await change({ cancel_at_period_end: true }))).toBe('403 AlreadyCanceledSubscription')
  expect(await told()).toEqual([
    'subscription.updated',
    'subscription.canceled',
    'subscription.updated',
    'subscription.uncanceled',
    'subscription.updated',
    'subscription.canceled',
    'subscription.updated',
    'subscription.revoked',
  ])
})

test('bills the open proration of a canceled subscription when it ends', async () => {
  const { changed, grand, travel, charged, told } = await open()
  await changed({ product_id: grand.id, proration_behavior: 'prorate' })
  await changed({ cancel_at_period_end: true })
  await travel(june.end)
  expect(await charged()).toEqual([1000])
  expect((await told()).slice(3)).toEqual(['subscription.updated', 'subscription.revoked', 'order.created', 'order.updated', 'order.paid'])
})

test('revokes a subscription at once by either endpoint, and drops its pending change', async () => {
  const doors: ((opened: Awaited<ReturnType<typeof open>>) => Promise<Answer>)[] = [
    ({ api, params }) => api.send(revokeSubscription, { params }),
    ({ change }) => change({ revoke: true, customer_cancellation_reason: 'unused' }),
  ]
  for (const [at, enter] of doors.entries()) {
    const opened = await open()
    const { changed, change, grand, told, find, api, params, travel, charged } = opened
    await changed({ product_id: grand.id, proration_behavior: 'next_period' })
    expect(await enter(opened)).toMatchObject({
      status: 200,
      body: {
        status: 'canceled',
        canceled_at: june.now.toISOString(),
        ends_at: june.now.toISOString(),
        ended_at: june.now.toISOString(),
        cancel_at_period_end: false,
        customer_cancellation_reason: at === 0 ? null : 'unused',
        pending_update: null,
      },
    })
    expect((await told()).slice(1)).toEqual(['subscription.updated', 'subscription.canceled', 'subscription.revoked'])
    expect(errorOf(await api.send(revokeSubscription, { params }))).toBe('403 AlreadyCanceledSubscription')
    expect(errorOf(await change({ product_id: grand.id }))).toBe('403 AlreadyCanceledSubscription')
    expect(locs(await change({ pending_update: null }))).toEqual(['body.pending_update'])
    await travel('2026-08-01T00:00:00Z')
    expect([await charged(), (await find()).status]).toEqual([[], 'canceled'])
  }
})

test('does not emit subscription.canceled again for a canceled subscription that is revoked', async () => {
  const { changed, api, params, told } = await open()
  await changed({ cancel_at_period_end: true, customer_cancellation_reason: 'other' })
  expect(await api.call(revokeSubscription, { params })).toMatchObject({ status: 'canceled', customer_cancellation_reason: 'other' })
  expect((await told()).slice(2)).toEqual(['subscription.updated', 'subscription.revoked'])
})

test('credits the open proration of a revoked subscription, but nothing for an unpaid period', async () => {
  const paid = await open({}, [fixed(3000)])
  const small = await plan(paid.shop, [fixed(1000)], { name: 'Small' })
  await paid.changed({ product_id: small.id, proration_behavior: 'prorate' })
  await paid.api.call(revokeSubscription, { params: paid.params })
  expect((await paid.orders()).map(({ status, total_amount }) => [status, total_amount])).toEqual([['paid', -1000]])
  expect(await paid.balance()).toEqual([1000])

  const { shop, change, changed, api, params, balance, orders } = await open({}, [fixed(3000)], trial)
  const tiny = await plan(shop, [fixed(1000)], { name: 'Tiny' })
  await changed({ trial_end: 'now' })
  // The period is not paid, so no credit is given for it.
  expect(errorOf(await change({ product_id: tiny.id, proration_behavior: 'prorate' }))).toBe('409 SubscriptionLocked')
  await changed({ product_id: tiny.id, proration_behavior: 'next_period' })
  await api.call(revokeSubscription, { params })
  expect((await orders()).map(({ status, total_amount }) => [status, total_amount])).toEqual([['void', 3000]])
  expect((await balance()).filter((amount) => amount !== 0)).toEqual([])
})

test('voids the pending orders of a revoked subscription', async () => {
  const { api, params, travel, orders, told, everything } = await open({ card: 'tok_declined_later' })
  await travel(june.end)
  expect((await orders()).map(({ status }) => status)).toEqual(['pending'])
  await api.call(revokeSubscription, { params })
  expect((await orders()).map(({ status }) => status)).toEqual(['void'])
  expect(await told()).toEqual([
    'subscription.updated',
    'subscription.cycled',
    'order.created',
    'subscription.updated',
    'subscription.past_due',
    'subscription.updated',
    'subscription.canceled',
    'subscription.revoked',
    'order.updated',
  ])
  expect(await everything()).toMatchObject([{ ledger: { processor: 1000, revenue: -1000 } }])
})

// ── pauses ────────────────────────────────────────────────────────────────────────────────────────────────────────────

test('pauses at the end of the period, and resuming starts and charges a new period', async () => {
  const { change, changed, travel, find, charged, told, grand } = await open()
  expect(errorOf(await change({ pause_at_period_end: false }))).toBe('409 NoScheduledPause')
  expect(errorOf(await change({ resume: true }))).toBe('409 NotPausedSubscription')
  expect(locs(await change({ pause_at_period_end: true, resumes_at: june.end.toISOString() }))).toEqual(['body.resumes_at'])
  expect(await changed({ pause_at_period_end: true })).toMatchObject({ status: 'active', pause_at_period_end: true, resumes_at: null })
  expect(errorOf(await change({ pause_at_period_end: true }))).toBe('409 CannotPauseSubscription')
  expect(await changed({ pause_at_period_end: false })).toMatchObject({ pause_at_period_end: false })
  await changed({ pause_at_period_end: true })
  await travel('2026-07-05T00:00:00Z')
  expect(await find()).toMatchObject({ status: 'paused', paused_at: june.end.toISOString(), pause_at_period_end: false })
  expect(await charged()).toEqual([])
  expect(errorOf(await change({ cancel_at_period_end: true }))).toBe('403 InactiveSubscription')
  expect(errorOf(await change({ product_id: grand.id }))).toBe('403 NotBillableSubscription')
  expect(errorOf(await change({ pause_at_period_end: true }))).toBe('409 CannotPauseSubscription')
  expect(await changed({ resume: true })).toMatchObject({
    status: 'active',
    paused_at: null,
    current_period_start: '2026-07-05T00:00:00.000Z',
    current_period_end: '2026-08-05T00:00:00.000Z',
  })
  await travel('2026-07-05T00:00:01Z')
  expect(await charged()).toEqual([1000])
  expect((await told()).slice(3)).toEqual([
    'subscription.updated',
    'subscription.paused',
    'subscription.updated',
    'subscription.active',
    'subscription.resumed',
    'subscription.cycled',
    'order.created',
    'order.updated',
    'order.paid',
  ])
})

test('ends a pause at resumes_at, and canceling removes a scheduled pause', async () => {
  const { changed, travel, find, charged } = await open()
  await changed({ pause_at_period_end: true, resumes_at: '2026-07-20T00:00:00Z' })
  expect(await changed({ cancel_at_period_end: true })).toMatchObject({ pause_at_period_end: false, resumes_at: null })
  await changed({ cancel_at_period_end: false })
  await changed({ pause_at_period_end: true, resumes_at: '2026-07-20T00:00:00Z' })
  await travel('2026-07-19T00:00:00Z')
  expect(await find()).toMatchObject({ status: 'paused', resumes_at: '2026-07-20T00:00:00.000Z' })
  await travel('2026-07-20T00:00:00Z')
  expect(await find()).toMatchObject({ status: 'active', resumes_at: null, paused_at: null, current_period_end: '2026-08-20T00:00:00.000Z' })
  expect(await charged()).toEqual([1000])
})

test('revokes a paused subscription, refuses to pause one on trial or past due, and refuses seats while paused', async () => {
  const { change, api, params, set } = await open({ seats: 2 }, [seated(500)])
  for (const status of ['trialing', 'past_due']) {
    await set('status', status)
    expect([status, errorOf(await change({ pause_at_period_end: true }))]).toEqual([status, '409 CannotPauseSubscription'])
  }
  await set('status', 'paused')
  expect(errorOf(await change({ seats: 3 }))).toBe('403 InactiveSubscription')
  expect(await api.call(revokeSubscription, { params })).toMatchObject({ status: 'canceled' })
})

// ── concurrency ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('charges once for each applied change when four requests race', async () => {
  const { shop, change, grand, charged, find, orders } = await open()
  const huge = await plan(shop, [fixed(9000)], { name: 'Huge' })
  const answers = await Promise.all([grand, grand, huge, grand].map(({ id }) => change({ product_id: id, proration_behavior: 'invoice' })))
  // Each request applies its change, finds its change already made, or is refused while another payment is in progress.
  for (const answer of answers) if (answer.status !== 200) expect(errorOf(answer)).toBe('409 SubscriptionLocked')
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
  const taken = await charged()
  const paid = (await orders()).filter(({ status, due_amount }) => status === 'paid' && due_amount > 0).map(({ due_amount }) => due_amount)
  expect(taken.toSorted((a, b) => a - b)).toEqual(paid.toSorted((a, b) => a - b))
  expect((await orders()).filter(({ status }) => status === 'pending')).toEqual([])
  expect([grand.id, huge.id]).toContain((await find()).product_id)
})

test('charges once when two requests for the same change race', async () => {
  const { change, grand, charged, find } = await open()
  const answers = await Promise.all([1, 2].map(() => change({ product_id: grand.id, proration_behavior: 'invoice' })))
  expect(answers.some(({ status }) => status === 200)).toBe(true)
  for (const answer of answers) if (answer.status !== 200) expect(errorOf(answer)).toBe('409 SubscriptionLocked')
  expect([await charged(), (await find()).product_id]).toEqual([[1000], grand.id])
})

test('charges once for two requests with the same idempotency key', async () => {
  const { organization, change, grand, charged, orders } = await open()
  const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'once' })
  const [first, second] = [
    await change({ product_id: grand.id, proration_behavior: 'invoice' }, keyed),
    await change({ product_id: grand.id, proration_behavior: 'invoice' }, keyed),
  ]
  expect([first.status, second.body]).toEqual([200, first.body])
  expect([await charged(), (await orders()).length]).toEqual([[1000], 1])
})

test('makes a change without a payment once for two requests with the same idempotency key', async () => {
  const { organization, change, told, find } = await open()
  const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'once' })
  const [first, second] = [await change({ metadata: { a: 1 } }, keyed), await change({ metadata: { a: 1 } }, keyed)]
  expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([200, null])
  expect([second.body, second.headers.get('idempotent-replayed')]).toEqual([first.body, 'true'])
  expect(first.body).toEqual(await find())
  expect((await told()).filter((kind) => kind.startsWith('subscription'))).toEqual(['subscription.updated'])
})

test('refuses other changes while the payment is processing, and applies the change when it succeeds', async () => {
  const { change, changed, grand, find, charged, told, api, params, orders } = await open({ card: 'tok_processing' })
  const pending = await change({ product_id: grand.id, proration_behavior: 'invoice', metadata: { a: 1 } })
  expect(errorOf(pending)).toBe('409 SubscriptionLocked')
  for (const body of [{ metadata: { b: 2 } }, { pause_at_period_end: true }, { seats: 2 }, { revoke: true }])
    expect(errorOf(await change(body))).toBe('409 SubscriptionLocked')
  expect(errorOf(await api.send(revokeSubscription, { params }))).toBe('409 SubscriptionLocked')
  // Another organization gets 404, because 409 would reveal that the subscription exists.
  expect(errorOf(await (await world.shop()).api.send(updateSubscription, { params, body: { metadata: { b: 2 } } }))).toBe('404 ResourceNotFound')
  // A new catalog price does not affect the change that is being paid.
  await api.call(updateProduct, { params: { id: grand.id }, body: { prices: [fixed(7000)] } })
  expect(await find()).toMatchObject({ amount: 1000, metadata: {} })
  world.clock.advance(61_000)
  await people.deployment.sweep()
  await people.deployment.work()
  expect(await find()).toMatchObject({ product_id: grand.id, amount: 3000, metadata: { a: 1 } })
  expect(await charged()).toEqual([1000])
  expect((await told()).filter((kind) => kind.startsWith('subscription'))).toEqual(['subscription.updated'])
  expect((await api.call(getOrder, { params: { id: (await orders())[0]!.id } })).status).toBe('paid')
  await changed({ metadata: { b: 2 } })
})

test('returns the applied change to a retry with the same idempotency key after the payment was confirmed', async () => {
  const { grand, find, organization, params } = await open({ card: 'tok_processing' })
  const keyed = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': 'once' })
  const body = { product_id: grand.id, proration_behavior: 'invoice' as const }
  expect(errorOf(await keyed.send(updateSubscription, { params, body }))).toBe('409 SubscriptionLocked')
  world.clock.advance(61_000)
  // The payment sweep has settled the payment. The job that applies the change has not run yet.
  await people.deployment.sweep('billing.follow_payments')
  expect(await find()).toMatchObject({ amount: 1000 })
  const again = await keyed.send(updateSubscription, { params, body })
  expect(again.status).toBe(200)
  expect(again.body).toMatchObject({ product_id: grand.id, amount: 3000 })
  await people.deployment.work()
})

test('accepts a cancellation while the payment of a change is processing, and ends the subscription with the new, paid period', async () => {
  const { shop, change, changed, find, charged, told } = await open({ card: 'tok_processing' })
  const yearly = await plan(shop, [fixed(9000)], { name: 'Yearly', recurring_interval: 'year' })
  expect(errorOf(await change({ product_id: yearly.id, proration_behavior: 'invoice' }))).toBe('409 SubscriptionLocked')
  await changed({ cancel_at_period_end: true })
  await changed({ cancel_at_period_end: false })
  await changed({ cancel_at_period_end: true, customer_cancellation_reason: 'unused' })
  expect(await find()).toMatchObject({ cancel_at_period_end: true, ends_at: june.end.toISOString(), amount: 1000 })
  world.clock.advance(61_000)
  await people.deployment.sweep()
  await people.deployment.work()
  const after = await find()
  expect(after).toMatchObject({ product_id: yearly.id, cancel_at_period_end: true, customer_cancellation_reason: 'unused', status: 'active' })
  expect(after.ends_at).toBe(after.current_period_end)
  expect(new Date(after.current_period_end).getUTCFullYear()).toBe(june.end.getUTCFullYear() + 1)
  expect(await charged()).toHaveLength(1)
  expect((await told()).filter((kind) => kind.startsWith('subscription'))).toEqual([
    'subscription.updated',
    'subscription.canceled',
    'subscription.updated',
    'subscription.uncanceled',
    'subscription.updated',
    'subscription.canceled',
    'subscription.updated',
  ])
})

test('ends the subscription with the old period if the customer cancels and the payment of a change then fails', async () => {
  const { change, changed, grand, find, charged, orders, api, customer } = await open()
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: customer.id } })).token })
  await portal.call(addPortalPaymentMethod, {
    body: { confirmation_token_id: 'tok_processing_fails', set_default: true, return_url: 'https://shop.example' },
  })
  expect(errorOf(await change({ product_id: grand.id, proration_behavior: 'invoice' }))).toBe('409 SubscriptionLocked')
  await changed({ cancel_at_period_end: true })
  world.clock.advance(61_000)
  await people.deployment.sweep()
  await people.deployment.work()
  expect(await find()).toMatchObject({ amount: 1000, cancel_at_period_end: true, ends_at: june.end.toISOString(), status: 'active' })
  expect([await charged(), (await orders()).map(({ status }) => status)]).toEqual([[], ['void']])
})
