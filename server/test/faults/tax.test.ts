import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createDiscount,
  createOrder,
  createProduct,
  getCheckout,
  getOrder,
  ingestEvents,
  listOrders,
  previewSubscription,
  updateClientCheckout,
  updateCustomer,
  updateOrder,
  updateTaxSettings,
} from '@bursar/contract'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { TaxUnavailable } from '../../src/gateways/tax/tax.ts'
import { quoteGroup, taxableLines } from '../../src/modules/billing/taxes/taxes.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { day, openPlans, type Plan } from '../harness/plans.ts'
import { openTaxStandIn, type TaxStandIn } from '../harness/tax-service.ts'
import { eventually, openClock, openWorld, type World } from '../harness/world.ts'

let world: World
let service: TaxStandIn
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  const clock = openClock()
  service = await openTaxStandIn(clock)
  world = await openWorld({ clock, settings: service.settings })
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
})
beforeEach(() => plans.retire())
afterEach(() => {
  service.behave()
  service.release()
})
afterAll(async () => {
  await deployment.close()
  await world.close()
  await service.close()
})

const owner = <T extends object>(statement: string, values: unknown[] = []) =>
  world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`
const newYork = { country: 'US', state: 'NY', city: 'New York', postal_code: '10001', line1: '1 Main Street' } as const
const stored = { country: 'US', state: 'NY', city: 'New York', postal_code: '10001', line1: '1 Main Street', line2: null }

/** A seller whose taxes the service quotes, and a product of 100.00. */
const open = async () => {
  const shop = await world.shop()
  await shop.api.call(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  const { id } = await shop.api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 10_000, price_currency: 'usd' }] },
  })
  return { ...shop, product_id: id, checkout: (more: object = {}) => shop.api.call(createCheckout, { body: { products: [id], ...more } }) }
}
/** A subscription of 29.00 a month, whose renewals are taxed by the service. */
const subscribe = async (): Promise<Plan> => {
  const plan = await plans.open()
  await plan.api.call(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  return plan
}
const quoteOf = async (order_id: string) =>
  (
    await owner<{ service_quote_id: string; address: { country: string }; lines: unknown; count: number }>(
      `select q.service_quote_id, q.address, q.lines, (select count(*)::int from order_taxes t join order_items i on i.id = t.order_item_id where i.order_id = o.id) as count
       from orders o join tax_quotes q on q.organization_id = o.organization_id and q.id = o.tax_quote_id where o.id = $1`,
      [order_id],
    )
  )[0]!
const taxesOf = (order_id: string) =>
  owner<{ jurisdiction: string; rate: number; tax_amount: number; basis_amount: number }>(
    `select jurisdiction, rate, t.tax_amount::int, basis_amount::int from order_taxes t join order_items i on i.id = t.order_item_id where i.order_id = $1 order by 1`,
    [order_id],
  )
/**
 * Asserts that no process of the product has an open transaction. A process without a transaction holds no row lock.
 * Background work may have one for a moment. A transaction of the waiting request would stay open as long as the service hangs.
 */
const expectNoTransaction = () =>
  eventually(
    'no process has an open transaction',
    async () =>
      (await owner(`select 1 from pg_stat_activity where datname = current_database() and application_name like 'bursar_%' and xact_start is not null`))
        .length === 0,
    2000,
  )
const untilHanging = () => eventually('the service hangs', async () => service.hanging() > 0)
const asked = () => service.questions().length

test('asks for the discounted lines and the full address, and stores the answer per line and jurisdiction with the order', async () => {
  const { api, checkout } = await open()
  const discount_id = (await api.call(createDiscount, { body: { name: 'Less', type: 'percentage', basis_points: 1000, duration: 'once' } as never })).id
  const { id, client_secret } = await checkout({ discount_id })
  const body = { customer_email: 'ada@people.test', customer_billing_address: newYork, confirmation_token_id: 'tok_visa' }
  await world.client().call(confirmClientCheckout, { params: { client_secret }, body })
  await deployment.work()
  const question = service.questions().at(-1)!
  expect(question).toMatchObject({
    currency: 'usd',
    behavior: 'exclusive',
    address: stored,
    tax_id: null,
    lines: [{ reference: '1', amount: 9000, tax_code: 'general_electronically_supplied_services' }],
  })
  const [order] = (await api.call(listOrders, { query: { checkout_id: [id] } })).items
  expect(order).toMatchObject({ status: 'paid', net_amount: 9000, tax_amount: 765, total_amount: 9765 })
  expect(await taxesOf(order!.id)).toEqual([
    { jurisdiction: 'US-NY', rate: 40_000, tax_amount: 360, basis_amount: 9000 },
    { jurisdiction: 'US-NY-NYC', rate: 45_000, tax_amount: 405, basis_amount: 9000 },
  ])
  const quote = await quoteOf(order!.id)
  expect(quote.address).toEqual(stored)
  expect(service.books.quotes.get(quote.service_quote_id)).toEqual(question)
})

test('asks once for an unchanged checkout, and again if the address, the tax id, the amount or the expiry changes', async () => {
  const { api, checkout } = await open()
  const { id, client_secret } = await checkout()
  const before = asked()
  const update = (body: object) => world.client().call(updateClientCheckout, { params: { client_secret }, body })
  const steps: [object, number, number][] = [
    [{ customer_name: 'Ada' }, 0, 0],
    [{ customer_billing_address: { country: 'DE' } }, 1, 1597],
    [{ customer_name: 'Ada L.' }, 1, 1597],
    [{ customer_billing_address: { country: 'FR' } }, 2, 1667],
    [{ customer_billing_address: { country: 'DE', city: 'Berlin' } }, 3, 1597],
    [{ is_business_customer: true, customer_tax_id: 'DE136695976' }, 4, 0],
    [{ is_business_customer: false }, 5, 1597],
    [{ customer_billing_address: newYork }, 6, 850],
    [{ customer_billing_address: { ...newYork, city: 'Albany' } }, 7, 400],
  ]
  for (const [body, times, tax_amount] of steps) {
    const shown = await update(body)
    expect([body, asked() - before, shown.tax_amount ?? 0]).toEqual([body, times, tax_amount])
  }
  // A quote is not used after its expiry.
  world.clock.advance(3_600_000)
  await update({ customer_name: 'Ada' })
  expect(asked() - before).toBe(8)
  // If the amount changes, the old quote no longer applies, and the tax is unknown until the next update.
  expect((await api.call(getCheckout, { params: { id } })).tax_amount).toBe(400)
})

test('holds no lock and no transaction while the service is slow: other changes of the same checkout go through', async () => {
  const { checkout } = await open()
  const { client_secret } = await checkout()
  const update = (body: object) => world.client().call(updateClientCheckout, { params: { client_secret }, body })
  service.misbehave(() => 'hang')
  const slow = update({ customer_billing_address: { country: 'DE' } })
  await untilHanging()
  await expectNoTransaction()
  expect(await update({ customer_name: 'Ada' })).toMatchObject({ customer_name: 'Ada', tax_amount: null })
  service.behave()
  service.release()
  // The slow request continues with the current checkout.
  expect(await slow).toMatchObject({ customer_name: 'Ada', tax_amount: 1597 })
})

test('asks again if the address changes between the quote and the sale', async () => {
  const plan = await subscribe()
  plans.moveTo(await plan.end())
  service.misbehave(() => 'hang')
  const before = asked()
  const renewal = plans.pass()
  await untilHanging()
  await expectNoTransaction()
  // The customer and the subscription can be changed meanwhile.
  service.behave()
  await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { billing_address: { country: 'FR' } } })
  await plan.change({ cancel_at_period_end: true })
  await plan.change({ cancel_at_period_end: false })
  service.release()
  await renewal
  const order = (await plan.orders()).at(-1)!
  expect(order).toMatchObject({ status: 'paid', total_amount: 2900, tax_amount: 483 })
  expect(await taxesOf(order.id)).toEqual([{ jurisdiction: 'FR', rate: 200_000, tax_amount: 483, basis_amount: 2900 }])
  const { address, service_quote_id } = await quoteOf(order.id)
  expect([address.country, service.books.quotes.get(service_quote_id)!.address.country]).toEqual(['FR', 'FR'])
  expect(
    service
      .questions()
      .slice(before)
      .map((one) => one.address.country),
  ).toEqual(['DE', 'FR'])
})

test.each([
  ['fails', () => 'fail' as const],
  ['closes the connection', () => 'lose_answer' as const],
  ['answers nonsense', () => () => ({ tax: 'none' })],
  [
    'answers with too much tax',
    () => (answer: { lines: object[] }) => ({
      ...answer,
      lines: answer.lines.map((line) => ({ ...line, taxes: [{ jurisdiction: 'DE', rate: 190_000, tax_amount: 2900, reason: 'standard_rated' }] })),
    }),
  ],
])('bills nothing without tax if the service %s, and renews when it answers again', async (_, fault) => {
  const plan = await subscribe()
  plans.moveTo(await plan.end())
  service.misbehave(fault)
  await expect(plans.pass()).rejects.toThrow(TaxUnavailable)
  await deployment.work()
  expect([(await plan.orders()).length, await plan.charged()]).toEqual([1, [2900]])
  service.behave()
  // The lease of the failed renewal ends, and the next sweep takes it again.
  world.clock.advance(61_000)
  await plans.pass()
  expect((await plan.orders()).map(({ tax_amount }) => tax_amount)).toEqual([0, 463])
  expect(await plan.charged()).toEqual([2900, 2900])
})

test('quotes the tax of usage, and asks again for usage that arrives while the service is asked', async () => {
  const plan = await plans.open({ meter: { aggregation: { func: 'sum', property: 'units' }, unit_amount: '100' } })
  await plan.api.call(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  const at = world.clock.business().toISOString()
  const use = (units: number) =>
    plan.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: plan.customer.id, timestamp: at, metadata: { units } }] } })
  await use(10)
  plans.moveTo(await plan.end())
  service.misbehave(() => 'hang')
  const renewal = plans.pass()
  await untilHanging()
  await expectNoTransaction()
  service.behave()
  await use(2)
  service.release()
  await renewal
  const order = (await plan.orders()).at(-1)!
  expect(order.items.map(({ amount }) => amount)).toEqual([2900, 1200])
  const taxes = new Map((await taxesOf(order.id)).map(({ basis_amount, tax_amount }) => [basis_amount, tax_amount]))
  expect(taxes).toEqual(
    new Map([
      [2900, 463],
      [1200, 192],
    ]),
  )
})

test('a revocation ends the subscription while the service fails, and the last order bills the usage with its tax', async () => {
  const plan = await plans.open({ meter: { aggregation: { func: 'sum', property: 'units' }, unit_amount: '100' } })
  await plan.api.call(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  const event = { name: 'call', customer_id: plan.customer.id, timestamp: world.clock.business().toISOString(), metadata: { units: 10 } }
  await plan.api.call(ingestEvents, { body: { events: [event] } })
  service.misbehave(() => 'fail')
  await plan.change({ revoke: true } as never)
  expect([(await plan.seen()).status, (await plan.orders()).length]).toEqual(['canceled', 1])
  service.behave()
  await plans.until(new Date(world.clock.business().getTime() + 36 * day))
  expect((await plan.orders()).at(-1)).toMatchObject({ status: 'paid', subtotal_amount: 1000, tax_amount: 160 })
})

test('uses one quote per order if the service answers twice', async () => {
  const several = await Promise.all([subscribe(), subscribe(), subscribe()])
  for (const [at, plan] of several.entries())
    await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { billing_address: { country: (['DE', 'FR', 'CH'] as const)[at]! } } })
  plans.moveTo(new Date(Math.max(...(await Promise.all(several.map((plan) => plan.end()))).map(Number))))
  service.misbehave(() => 'answer_twice')
  for (let tries = 0; tries < 10; tries++) {
    await plans.pass().catch((error: unknown) => expect(error).toBeInstanceOf(TaxUnavailable))
    world.clock.advance(61_000)
  }
  const orders = await Promise.all(several.map((plan) => plan.orders()))
  expect(orders.map((list) => list.map(({ tax_amount }) => tax_amount))).toEqual([
    [0, 463],
    [0, 483],
    [0, 217],
  ])
  for (const [, order] of orders) expect(await quoteOf(order!.id)).toMatchObject({ count: 1, service_quote_id: expect.stringMatching(/^quote_[0-9a-f-]{36}$/) })
})

test('gives each of two concurrent sales its own quote', async () => {
  const { api, product_id } = await open()
  const { id: customer_id } = await api.call(createCustomer, { body: { email: 'ada@people.test', billing_address: { country: 'DE' } } })
  const drafts = await Promise.all([1, 2, 3].map(() => api.call(createOrder, { body: { customer_id, product_id } })))
  expect(drafts.map(({ tax_amount }) => tax_amount)).toEqual([1597, 1597, 1597])
  expect(new Set(await Promise.all(drafts.map(async ({ id }) => (await quoteOf(id)).service_quote_id))).size).toBe(3)
})

test('answers 503 to a request that needs tax while the service fails, and shows the tax of a checkout as unknown', async () => {
  const { api, product_id, checkout } = await open()
  const { id: customer_id } = await api.call(createCustomer, { body: { email: 'ada@people.test', billing_address: { country: 'DE' } } })
  service.misbehave(() => 'fail')
  const refused = await api.send(createOrder, { body: { customer_id, product_id } })
  expect([errorOf(refused), refused.headers.get('retry-after')]).toEqual(['503 ServiceUnavailable', '5'])
  expect((await api.call(listOrders, { query: {} })).items).toEqual([])
  const { id, client_secret, tax_amount } = await checkout({ customer_billing_address: { country: 'DE' } })
  expect(tax_amount).toBeNull()
  const body = { customer_email: 'ada@people.test', confirmation_token_id: 'tok_visa' }
  expect(await world.client().send(confirmClientCheckout, { params: { client_secret }, body })).toMatchObject({ status: 422 })
  service.behave()
  // The same requests succeed when the service answers again.
  const { id: order_id } = await api.call(createOrder, { body: { customer_id, product_id } })
  expect(await api.call(getOrder, { params: { id: order_id } })).toMatchObject({ tax_amount: 1597 })
  expect(await world.client().send(confirmClientCheckout, { params: { client_secret }, body })).toMatchObject({ status: 200, body: { tax_amount: 1597 } })
  expect((await api.call(getCheckout, { params: { id } })).tax_amount).toBe(1597)
})

test('quotes a proration whose amount changes every second', async () => {
  const plan = await plans.open({ price: 50_000_000 })
  await plan.api.call(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  const bigger = await plan.sell(99_000_000)
  const before = asked()
  service.misbehave(() => {
    world.clock.advance(1000)
    return undefined
  })
  await plan.change({ product_id: bigger.id, proration_behavior: 'invoice' } as never)
  await deployment.work()
  const order = (await plan.orders()).at(-1)!
  expect([order.status, order.tax_amount > 0]).toEqual(['paid', true])
  expect(asked() - before).toBeLessThanOrEqual(2)
})

test('asks for a preview outside its transaction, and stores nothing', async () => {
  const plan = await subscribe()
  const bigger = await plan.sell(5900)
  service.misbehave(() => 'hang')
  const preview = plan.api.call(previewSubscription, { params: plan.params, body: { product_id: bigger.id, proration_behavior: 'invoice' } })
  await untilHanging()
  await expectNoTransaction()
  service.behave()
  service.release()
  const { now, next } = await preview
  expect([now!.tax_amount > 0, next!.tax_amount]).toEqual([true, 942])
  expect(await plan.orders()).toHaveLength(1)
  expect(await owner('select 1 from tax_quotes where organization_id = $1', [plan.organization.id])).toEqual([])
})

test('asks for the taxes of several sales in one round, and runs the transaction twice', async () => {
  const { organization } = await open()
  const before = asked()
  let runs = 0
  const quotes = await deployment.deps.transact((tx) => {
    runs++
    return quoteGroup(
      tx,
      Array.from({ length: 20 }, (_, at) => ({
        organization_id: organization.id,
        subject: `subscription ${at % 10}`,
        currency: 'eur',
        lines: taxableLines([{ amount: 1000, discount_amount: 0 }]),
        address: { country: 'DE', state: null },
        tax_id: null,
        behavior_option: 'location' as const,
      })),
    )
  })
  expect([runs, quotes.length, asked() - before]).toEqual([2, 20, 10])
})

test('renews a group with a quote for each order, and does not bill the subscription whose tax the service cannot tell', async () => {
  const plan = await subscribe()
  const others: string[] = []
  for (const n of [1, 2, 3]) {
    const { id: customer_id } = await plan.api.call(createCustomer, { body: { email: `buyer-${n}-${plan.organization.slug}@people.test` } })
    others.push(await plan.buy('tok_visa', { customer_id }))
  }
  const ids = [plan.id, ...others]
  const last = ids.at(-1)!
  const [{ end }] = (await owner<{ end: Date }>('select max(current_period_end) as end from subscriptions where id = any($1)', [ids])) as [{ end: Date }]
  plans.moveTo(end)
  const before = asked()
  service.misbehave(({ body }) => (body.subject === `subscription ${last}` ? 'fail' : undefined))
  await expect(deployment.sweep()).rejects.toThrow(TaxUnavailable)
  const renewed = await owner<{ id: string; subscription_id: string; status: string }>(
    `select id, subscription_id, status from orders where organization_id = $1 and billing_reason = 'subscription_cycle'`,
    [plan.organization.id],
  )
  expect(new Map(renewed.map(({ subscription_id, status }) => [subscription_id, status]))).toEqual(new Map(ids.slice(0, -1).map((id) => [id, 'paid'])))
  // The group asks about all four, and then the failed subscription asks alone.
  expect(asked() - before).toBe(5)
  const quotes = await Promise.all(renewed.map(({ id }) => quoteOf(id)))
  expect(quotes.map(({ count }) => count)).toEqual([1, 1, 1])
  expect(new Set(quotes.map(({ service_quote_id }) => service_quote_id)).size).toBe(3)
  for (const { id } of renewed) expect(await taxesOf(id)).toEqual([{ jurisdiction: 'DE', rate: 190_000, tax_amount: 463, basis_amount: 2900 }])
  await deployment.work()
  expect(renewed.map(({ id }) => service.books.confirmed.has(id))).toEqual([true, true, true])
})

test('refuses to change the city and the postal code of an order, because the tax was computed from them', async () => {
  const { api, product_id } = await open()
  const { id: customer_id } = await api.call(createCustomer, { body: { email: 'ada@people.test', billing_address: newYork } })
  const { id } = await api.call(createOrder, { body: { customer_id, product_id } })
  const correct = (billing_address: object) => api.sendRaw(updateOrder, { params: { id }, body: { billing_address } })
  const refused = await correct({ ...newYork, city: 'Albany', postal_code: '12207' })
  expect((refused.body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc.at(-1))).toEqual(['city', 'postal_code'])
  expect((await correct({ ...newYork, line1: '2 Main Street' })).status).toBe(200)
  expect((await quoteOf(id)).address as object).toEqual(stored)
})

test('never changes the tax of an order: no role may, and the owner of the tables is refused too', async () => {
  const { api, product_id } = await open()
  const { id: customer_id } = await api.call(createCustomer, { body: { email: 'ada@people.test', billing_address: { country: 'DE' } } })
  const { id } = await api.call(createOrder, { body: { customer_id, product_id } })
  for (const change of [
    `update tax_quotes set service_quote_id = 'another'`,
    'delete from tax_quotes',
    'update order_taxes set tax_amount = 0',
    'delete from order_taxes',
    'truncate order_taxes',
    `update orders set tax_quote_id = null where id = '${id}'`,
  ])
    await expect(owner(change)).rejects.toThrow(/the taxes of an order never change/)
  for (const transact of [world.transact, deployment.deps.transact]) {
    await expect(transact((tx) => tx.q.updateTable('tax_quotes').set({ fingerprint: '' }).execute())).rejects.toThrow(/permission denied/)
    await expect(transact((tx) => tx.q.deleteFrom('order_taxes').execute())).rejects.toThrow(/permission denied/)
  }
  expect(await quoteOf(id)).toMatchObject({ count: 1 })
})
