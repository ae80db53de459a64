import {
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createDiscount,
  createMeter,
  createProduct,
  createRefund,
  deleteCustomer,
  getMeterQuantities,
  getUsageEvent,
  ingestEvents,
  listEventNames,
  listEventTypes,
  listOrders,
  listUsageEvents,
  SystemEvent,
  systemEventLabels,
  updateBenefit,
  updateCustomer,
  updateProductBenefits,
  type Scope,
  type SubscriptionUpdate,
} from '@bursar/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openMetered } from '../../../../test/harness/metered.ts'
import { day, openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { regularWork } from '../../../main/wire.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { moveBalance } from '../../billing/ledger/ledger.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
let metered: ReturnType<typeof openMetered>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
  metered = openMetered(world, deployment, plans)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

type Shop = Awaited<ReturnType<World['shop']>>
type Api = Shop['api']
const seconds = 1000

/** Lists all system events of a shop, oldest first. */
const listed = async (api: Api, query: object = {}): Promise<SystemEvent[]> =>
  (await api.call(listUsageEvents, { query: { source: ['system'], limit: 100, sorting: 'timestamp', ...query } })).items as unknown as SystemEvent[]

const found = new Map<string, SystemEvent>()

/** Opens a reader that returns the system events since its last call, by name. Compares the metadata of each with its schema. */
const reader = (api: Api) => {
  const seen = new Set<string>()
  return async () => {
    const fresh = (await listed(api)).filter(({ id }) => !seen.has(id))
    for (const event of fresh) {
      seen.add(event.id)
      found.set(event.name, event)
      const schema = SystemEvent.options.find(({ shape }) => shape.name.value === event.name)!
      // The schema drops unknown fields, so the comparison finds them.
      expect(schema.shape.metadata.parse(event.metadata)).toEqual(event.metadata)
      expect(event).toMatchObject({ source: 'system', label: systemEventLabels.get(event.name), parent_id: null, child_count: 0 })
    }
    return {
      names: fresh
        .map(({ name }) => name)
        .toSorted()
        .join(' '),
      of: <N extends SystemEvent['name']>(name: N) => fresh.find((event) => event.name === name) as Extract<SystemEvent, { name: N }>,
    }
  }
}

const names = (...all: readonly SystemEvent['name'][]) => all.toSorted().join(' ')
const owner = <T extends object>(statement: string, values: unknown[] = []) =>
  world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)
const hear = async () => {
  await regularWork.find(({ name }) => name === 'billing.hear')!.run(deployment.deps)
  await deployment.work()
}
const changed = async (plan: Plan, body: SubscriptionUpdate) => {
  await plan.change(body)
  await deployment.work()
}
const renewed = async (plan: Plan) => {
  await plans.until(await plan.end())
  await plans.until(world.clock.business())
  await deployment.work()
}
const seats = (price_per_seat: number) => ({
  prices: [
    { amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { seat_tier_type: 'volume', tiers: [{ min_seats: 1, max_seats: null, price_per_seat }] } },
  ],
})
/** Sells a product of 29.00 once, with this card. */
const sold = async (shop: Shop, card: string) => {
  const { id } = await shop.api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } as never,
  })
  const checkout = await shop.api.call(createCheckout, { body: { products: [id] } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_email: 'ada@people.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: card },
  })
  await deployment.work()
  return (await shop.api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0]!
}

test('notes the purchase, the renewals and the end of a metered plan with benefits', async () => {
  const plan = await plans.open({ meter: { aggregation: { func: 'sum', property: 'units' }, unit_amount: '10' } })
  const { api, customer, product, id: subscription_id } = plan
  const fresh = reader(api)
  const bought = await fresh()
  expect(bought.names).toBe(
    names('customer.created', 'customer.updated', 'checkout.created', 'subscription.created', 'order.paid', 'balance.order', 'meter.reset'),
  )
  const [order] = await plan.orders()
  expect(bought.of('order.paid')).toMatchObject({
    customer_id: customer.id,
    customer: { id: customer.id },
    metadata: { order_id: order!.id, amount: 2900, net_amount: order!.net_amount, billing_type: 'recurring', subscription_id },
  })
  expect(bought.of('balance.order').metadata).toMatchObject({ order_id: order!.id, amount: 2900, tax_amount: 0, presentment_amount: 2900, tax_country: 'DE' })
  expect(bought.of('customer.created').metadata).toEqual({
    customer_id: customer.id,
    customer_email: customer.email,
    customer_name: null,
    customer_external_id: null,
  })
  expect(bought.of('subscription.created').metadata).toMatchObject({ subscription_id, product_id: product.id, amount: 2900, recurring_interval: 'month' })
  expect(bought.of('meter.reset').metadata).toEqual({ meter_id: plan.meter_id })

  const note = await api.call(createBenefit, { body: { type: 'custom', description: 'Note', properties: { note: 'Psst' } } })
  const units = { units: 100, rollover: true, meter_id: plan.meter_id! }
  const credit = await api.call(createBenefit, { body: { type: 'meter_credit', description: 'Units', properties: units } })
  await api.call(updateProductBenefits, { params: { id: product.id }, body: { benefits: [note.id, credit.id] } })
  await deployment.work()
  const given = await fresh()
  expect(given.names).toBe(names('benefit.granted', 'benefit.granted', 'meter.credited'))
  expect(given.of('meter.credited')).toMatchObject({ customer_id: customer.id, metadata: { meter_id: plan.meter_id, units: 100, rollover: true } })
  await api.call(updateBenefit, { params: { id: note.id }, body: { type: 'custom', properties: { note: 'Louder' } } as never })
  await deployment.work()
  const updated = await fresh()
  expect(updated.names).toBe('benefit.updated')
  expect(updated.of('benefit.updated').metadata).toMatchObject({ benefit_id: note.id, benefit_type: 'custom' })

  const end = await plan.end()
  await metered.renewed(plan)
  await deployment.work()
  const cycle = await fresh()
  expect(cycle.names).toBe(names('subscription.cycled', 'order.paid', 'balance.order', 'meter.reset', 'meter.credited', 'benefit.cycled', 'benefit.cycled'))
  expect(cycle.of('subscription.cycled')).toMatchObject({ timestamp: end.toISOString(), metadata: { subscription_id, amount: 2900 } })

  // The whole order is paid by credit.
  await world.transact((tx) =>
    moveBalance(inWallTime(tx), { organization_id: plan.organization.id, id: newId(new Date()), customer_id: customer.id, currency: 'usd', amount: 5000 }),
  )
  await metered.renewed(plan)
  await deployment.work()
  const paid = await fresh()
  expect(paid.names).toBe(
    names('subscription.cycled', 'order.paid', 'balance.credit_order', 'meter.reset', 'meter.credited', 'benefit.cycled', 'benefit.cycled'),
  )
  expect(paid.of('order.paid').metadata).toMatchObject({ applied_balance_amount: -2900 })
  await changed(plan, { revoke: true })
  expect((await fresh()).names).toBe(names('subscription.canceled', 'subscription.revoked', 'benefit.revoked', 'benefit.revoked'))
})

test('notes the changes of a subscription with their old and new values', async () => {
  const plan = await plans.open({ plan: seats(1000) })
  const { id: subscription_id } = plan
  const fresh = reader(plan.api)
  await fresh()
  const before = await plan.seen()
  await changed(plan, { seats: 4, proration_behavior: 'invoice' })
  const more = await fresh()
  expect(more.names).toBe(names('subscription.updated', 'subscription.seats_updated', 'order.paid', 'balance.order'))
  expect(more.of('subscription.seats_updated').metadata).toEqual({
    subscription_id,
    old_seats: before.seats,
    new_seats: 4,
    proration_behavior: 'invoice',
  })
  expect(more.of('subscription.updated').metadata).toEqual({ subscription_id, seats: 4, proration_behavior: 'invoice' })
  const grand = await plan.sell(0, seats(2000))
  await changed(plan, { product_id: grand.id, proration_behavior: 'prorate' })
  const switched = await fresh()
  expect(switched.names).toBe(names('subscription.updated', 'subscription.product_updated'))
  expect(switched.of('subscription.product_updated').metadata).toEqual({ subscription_id, old_product_id: plan.product.id, new_product_id: grand.id })

  await changed(plan, { seats: 6, proration_behavior: 'next_period' })
  expect((await fresh()).names).toBe('')
  await changed(plan, { pending_update: null })
  const cleared = await fresh()
  expect(cleared.names).toBe('subscription.update_cleared')
  expect(cleared.of('subscription.update_cleared').metadata).toEqual({ subscription_id })
  // A scheduled change that is applied is not cleared.
  await changed(plan, { seats: 5, proration_behavior: 'next_period' })
  await renewed(plan)
  const applied = await fresh()
  expect(applied.names).toBe(names('subscription.cycled', 'subscription.updated', 'subscription.seats_updated', 'order.paid', 'balance.order'))
  expect(applied.of('subscription.seats_updated').metadata).toMatchObject({ old_seats: 4, new_seats: 5, proration_behavior: 'next_period' })

  const end = await plan.end()
  const later = new Date(end.getTime() + 5 * day)
  await changed(plan, { current_billing_period_end: later.toISOString() } as unknown as SubscriptionUpdate)
  const moved = await fresh()
  expect(moved.names).toBe(names('subscription.updated', 'subscription.billing_period_updated'))
  expect(moved.of('subscription.billing_period_updated').metadata).toEqual({
    subscription_id,
    old_period_end: end.toISOString(),
    new_period_end: later.toISOString(),
  })
  const less = await plan.api.call(createDiscount, { body: { name: 'Less', type: 'percentage', basis_points: 1000, duration: 'forever' } as never })
  await changed(plan, { discount_id: less.id })
  expect((await fresh()).of('subscription.updated').metadata).toEqual({ subscription_id, discount_id: less.id })
  await changed(plan, { discount_id: null })
  expect((await fresh()).of('subscription.updated').metadata).toEqual({ subscription_id, discount_id: null })

  await changed(plan, { cancel_at_period_end: true, customer_cancellation_reason: 'too_expensive', customer_cancellation_comment: 'Ada is poor' })
  const canceled = await fresh()
  expect(canceled.names).toBe('subscription.canceled')
  expect(canceled.of('subscription.canceled').metadata).toMatchObject({
    subscription_id,
    cancel_at_period_end: true,
    customer_cancellation_reason: 'too_expensive',
    customer_cancellation_comment: 'Ada is poor',
    ends_at: later.toISOString(),
  })
  await changed(plan, { cancel_at_period_end: false })
  expect((await fresh()).names).toBe('subscription.uncanceled')
  await changed(plan, { pause_at_period_end: true })
  expect((await fresh()).names).toBe('')
  await renewed(plan)
  expect((await fresh()).names).toBe('subscription.paused')
  await changed(plan, { resume: true })
  await plans.until(new Date(world.clock.business().getTime() + 60 * seconds))
  await deployment.work()
  expect((await fresh()).names).toBe(names('subscription.resumed', 'subscription.cycled', 'order.paid', 'balance.order'))
})

test('notes failed payments, the recovery, and orders that are voided', async () => {
  const plan = await plans.open({ card: 'tok_recovers_later' })
  const fresh = reader(plan.api)
  await fresh()
  await renewed(plan)
  expect((await fresh()).names).toBe(names('subscription.cycled', 'subscription.past_due'))
  await plans.until(new Date(world.clock.business().getTime() + 10 * day))
  await deployment.work()
  expect((await fresh()).names).toBe(names('order.paid', 'balance.order', 'subscription.reactivated'))

  const lost = await plans.open({ card: 'tok_declined_later' })
  const left = reader(lost.api)
  await left()
  await renewed(lost)
  await plans.until(new Date(world.clock.business().getTime() + 29 * day))
  await deployment.work()
  const over = await left()
  expect(over.names).toBe(names('subscription.cycled', 'subscription.past_due', 'subscription.canceled', 'subscription.revoked', 'order.voided'))
  const [, order] = await lost.orders()
  expect(over.of('order.voided').metadata).toEqual({ order_id: order!.id, amount: 2900, currency: 'usd' })

  // No operation reopens a void order or an ended subscription. The triggers note it anyway.
  await owner(`update orders set status = 'pending' where id = $1`, [order!.id])
  await owner(`update subscriptions set status = 'active', ended_at = null where id = $1`, [lost.id])
  expect((await left()).names).toBe(names('order.unvoided', 'subscription.reinstated'))
})

test('notes refunds and disputes as the money moves', async () => {
  const shop = await world.shop()
  const fresh = reader(shop.api)
  const order = await sold(shop, 'tok_refund_fails_later')
  expect((await fresh()).names).toBe(names('checkout.created', 'customer.created', 'customer.updated', 'order.paid', 'balance.order'))
  await shop.api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
  const back = await fresh()
  expect(back.names).toBe(names('order.refunded', 'balance.refund'))
  expect(back.of('order.refunded').metadata).toEqual({ order_id: order.id, refunded_amount: 1000, currency: 'usd' })
  expect(back.of('balance.refund').metadata).toMatchObject({ order_id: order.id, amount: 1000, order_created_at: order.created_at })
  world.clock.advance(61 * seconds)
  for (const _ of [1, 2]) await hear()
  expect((await fresh()).names).toBe('balance.refund_reversal')

  const other = await world.shop()
  const disputes = reader(other.api)
  await sold(other, 'tok_dispute_won')
  await disputes()
  await hear()
  const withheld = await disputes()
  expect(withheld.names).toBe('balance.dispute')
  expect(withheld.of('balance.dispute').metadata).toMatchObject({ amount: 2900, currency: 'usd' })
  world.clock.advance(61 * seconds)
  for (const _ of [1, 2]) await hear()
  expect((await disputes()).names).toBe('balance.dispute_reversal')
})

test('notes a customer, and erases what was noted about the person', async () => {
  const shop = await world.shop()
  const fresh = reader(shop.api)
  const { id } = await shop.api.call(createCustomer, { body: { email: 'eve@people.test', external_id: 'eve' } })
  await shop.api.call(updateCustomer, {
    params: { id },
    body: { name: 'Eve', metadata: { team: 'red' }, billing_address: { country: 'DE', city: 'Ulm' } } as never,
  })
  const told = await fresh()
  expect(told.names).toBe(names('customer.created', 'customer.updated'))
  expect(told.of('customer.updated').metadata).toMatchObject({
    customer_name: 'Eve',
    customer_external_id: 'eve',
    updated_fields: { name: 'Eve', metadata: { team: 'red' }, billing_address: { country: 'DE', city: 'Ulm' } },
  })
  expect(await listed(shop.api, { query: 'people.test' })).toHaveLength(2)
  await shop.api.call(deleteCustomer, { params: { id }, query: { anonymize: true } })
  await deployment.work()
  const rest = await listed(shop.api)
  expect(
    rest
      .map(({ name }) => name)
      .toSorted()
      .join(' '),
  ).toBe(names('customer.created', 'customer.deleted', 'customer.updated'))
  const nobody = { customer_id: id, customer_email: null, customer_name: null, customer_external_id: null }
  for (const { name, metadata } of rest) expect(metadata).toEqual(name === 'customer.updated' ? { ...nobody, updated_fields: {} } : nobody)
  await fresh()
  expect(await owner('select from system_events where organization_id = $1 and personal is not null', [shop.organization.id])).toEqual([])
})

test('each kind was noted at least once by the flows above', () => {
  expect([...systemEventLabels.keys()].filter((name) => !found.has(name))).toEqual([])
})

/** A shop with two events of a seller and three of the system. */
const mixed = async () => {
  const shop = await world.shop()
  const { api } = shop
  const first = await api.call(createCustomer, { body: { email: 'first@people.test', external_id: 'first' } })
  const second = await api.call(createCustomer, { body: { email: 'second@people.test', external_id: 'second' } })
  await api.call(updateCustomer, { params: { id: first.id }, body: { name: 'First' } })
  const timestamp = '2026-01-01T00:00:00.000Z'
  await api.call(ingestEvents, {
    body: {
      events: [
        { name: 'call', customer_id: first.id, metadata: { customer_id: first.id }, timestamp },
        { name: 'order.paid', external_customer_id: 'second', metadata: {}, timestamp },
      ],
    },
  })
  return { ...shop, first, second }
}

test('lists, pages, filters and counts both sources', async () => {
  const { api, first, second } = await mixed()
  const read = async (query: object = {}) => {
    const { items, pagination } = await api.call(listUsageEvents, { query: { sorting: 'timestamp', ...query } })
    return [
      items
        .map(({ name }) => name)
        .toSorted()
        .join(' '),
      'total_count' in pagination ? pagination.total_count : null,
    ]
  }
  expect(await read()).toEqual(['call customer.created customer.created customer.updated order.paid', 5])
  expect(await read({ source: 'user' })).toEqual(['call order.paid', 2])
  expect(await read({ source: 'system' })).toEqual(['customer.created customer.created customer.updated', 3])
  expect(await read({ source: ['user', 'system'] })).toEqual(['call customer.created customer.created customer.updated order.paid', 5])
  expect(await read({ name: ['customer.created', 'call'] })).toEqual(['call customer.created customer.created', 3])
  expect(await read({ name: 'order.paid' })).toEqual(['order.paid', 1])
  expect(await read({ customer_id: first.id })).toEqual(['call customer.created customer.updated', 3])
  expect(await read({ external_customer_id: 'second' })).toEqual(['customer.created order.paid', 2])
  expect(await read({ customer_id: second.id, source: 'system' })).toEqual(['customer.created', 1])
  expect(await read({ end_timestamp: '2026-01-02T00:00:00.000Z' })).toEqual(['call order.paid', 2])
  expect(await read({ start_timestamp: '2026-01-02T00:00:00.000Z' })).toEqual(['customer.created customer.created customer.updated', 3])
  expect(await read({ query: 'first@people' })).toEqual(['call customer.created customer.updated', 3])
  expect(await read({ query: 'system' })).toEqual(['customer.created customer.created customer.updated', 3])
  expect(await read({ depth: 0 })).toEqual(['call customer.created customer.created customer.updated order.paid', 5])
  // These filters select events of sellers.
  expect(await read({ metadata: { customer_id: first.id } })).toEqual(['call', 1])
  expect(await read({ corrected: true })).toEqual(['', 0])
  expect(await read({ parent_id: first.id })).toEqual(['', 0])
  expect(await read({ source: 'system', metadata: { customer_id: first.id } })).toEqual(['', 0])
  const walk = async (query: object) => {
    const ids: string[] = []
    for (let cursor: string | undefined; ;) {
      const { items, pagination } = await api.call(listUsageEvents, { query: { limit: 2, ...query, ...(cursor ? { cursor } : {}) } })
      ids.push(...items.map(({ id }) => id))
      cursor = ('next_cursor' in pagination && pagination.next_cursor) || undefined
      if (!cursor) return ids
    }
  }
  const all = (await api.call(listUsageEvents, { query: { limit: 100 } })).items.map(({ id }) => id)
  expect(await walk({})).toEqual(all)
  expect(await walk({ cursor_pagination: true })).toEqual(all)
  const [event] = await listed(api, { name: 'customer.updated' })
  expect(await api.call(getUsageEvent, { params: { id: event!.id } })).toEqual(event)
})

test('names and event types contain system events with their labels, also for one customer and page by page', async () => {
  const { api, first, organization } = await mixed()
  const types = await api.call(listEventTypes, { query: { sorting: 'name' } })
  expect(types.items.map(({ id, name, label, source, occurrences }) => [id === null, name, label, source, occurrences])).toEqual([
    [false, 'call', 'call', 'user', 1],
    [true, 'customer.created', 'Customer Created', 'system', 2],
    [true, 'customer.updated', 'Customer Updated', 'system', 1],
    [false, 'order.paid', 'order.paid', 'user', 1],
  ])
  expect(types.items[1]).toMatchObject({ organization_id: organization.id, created_at: null, label_property_selector: null })
  const read = async (query: object) => (await api.call(listEventTypes, { query: { sorting: 'name', ...query } })).items.map(({ name }) => name).join(' ')
  expect(await read({ source: 'system' })).toBe('customer.created customer.updated')
  expect(await read({ query: 'Updated' })).toBe('customer.updated')
  expect(await read({ customer_id: first.id })).toBe('call customer.created customer.updated')
  expect(await read({ root_events: true })).toBe('call customer.created customer.updated order.paid')
  expect(await read({ parent_id: first.id })).toBe('')
  const named = await api.call(listEventNames, { query: { sorting: 'name', limit: 2, page: 2 } })
  expect(named).toMatchObject({
    items: [{ name: 'customer.updated', label: 'Customer Updated', source: 'system', occurrences: 1 }, { name: 'order.paid' }],
    pagination: { total_count: 4 },
  })
})

test('meters never count system events', async () => {
  const { api, first } = await mixed()
  const everything = { conjunction: 'and' as const, clauses: [] }
  const named = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'like' as const, value: 'customer' }] }
  for (const [filter, counted] of [
    [everything, 2],
    [named, 0],
  ] as const) {
    const meter = await api.call(createMeter, { body: { name: 'All', filter, aggregation: { func: 'count' } } })
    const { items, pagination } = await api.call(listUsageEvents, { query: { meter_id: meter.id } })
    expect([items.length, pagination]).toMatchObject([counted, { total_count: counted }])
    expect((await api.call(listUsageEvents, { query: { filter: JSON.stringify(filter) } })).items).toHaveLength(counted)
    const range = { start_timestamp: '2025-12-01T00:00:00.000Z', end_timestamp: new Date(world.clock.business().getTime() + day).toISOString() }
    const quantities = await api.call(getMeterQuantities, { params: { id: meter.id }, query: { ...range, interval: 'month', customer_id: undefined } as never })
    expect(quantities.total).toBe(counted)
  }
  expect(await listed(api, { customer_id: first.id })).toHaveLength(2)
})

test('another tenant, and the portal, never see system events', async () => {
  const { api, first, organization } = await mixed()
  const [event] = await listed(api)
  const stranger = await world.shop()
  expect(await listed(stranger.api)).toEqual([])
  expect((await stranger.api.send(getUsageEvent, { params: { id: event!.id } })).status).toBe(404)
  expect((await stranger.api.send(listUsageEvents, { query: { customer_id: first.id } })).body).toMatchObject({
    items: [],
    pagination: { total_count: 0 },
  })
  expect((await stranger.api.send(listUsageEvents, { query: { organization_id: organization.id } })).body).toMatchObject({ items: [] })
  expect((await stranger.api.call(listEventTypes, {})).items).toEqual([])
  expect((await stranger.api.call(listEventNames, {})).items).toEqual([])
  const plan = await plans.open()
  const portal = await plan.portal()
  const [own] = await listed(plan.api)
  expect((await portal.send(listUsageEvents, {})).status).toBe(401)
  expect((await portal.send(getUsageEvent, { params: { id: own!.id } })).status).toBe(401)
  expect((await portal.send(listEventTypes, {})).status).toBe(401)
})

test('no role inserts, changes or deletes system events, except to erase personal data', async () => {
  const shop = await world.shop()
  await shop.api.call(createCustomer, { body: { email: 'role@people.test' } })
  for (const role of ['bursar_api', 'bursar_worker'])
    for (const statement of [
      `insert into system_events (organization_id, id, timestamp, name, metadata) values (gen_random_uuid(), gen_random_uuid(), now(), 'x', '{}')`,
      `delete from system_events`,
      `update system_events set metadata = '{}'`,
      `truncate system_events`,
    ])
      await expect(
        world.database.owner(async (client) => {
          await client.query(`set role ${role}`)
          try {
            await client.query(statement)
          } finally {
            await client.query('reset role')
          }
        }),
      ).rejects.toThrow(/permission denied/)
})

test('events show and search the data of customers only for a token that may read customers', async () => {
  const { api, organization } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'ada@people.test', name: 'Ada Byron', external_id: 'ada', metadata: { tier: 'gold' } } })
  await api.call(updateCustomer, { params: { id: customer.id }, body: { name: 'Ada Lovelace', metadata: { tier: 'silver' } } })
  await api.call(ingestEvents, { body: { events: [{ name: 'call', external_customer_id: 'ada', metadata: { units: 1 } }] } })
  const personal = ['ada@people.test', 'Byron', 'Lovelace', 'silver']
  const shownTo = async (...scopes: Scope[]) => {
    const reader = world.client({ token: (await organization.token(scopes)).secret })
    const { items } = await reader.call(listUsageEvents, { query: { limit: 100 } })
    const one = await reader.call(getUsageEvent, { params: { id: items.find(({ name }) => name === 'customer.updated')!.id } })
    const search = await Promise.all(personal.map((query) => reader.call(listUsageEvents, { query: { query } })))
    return { items, text: JSON.stringify([items, one]), found: search.reduce((sum, page) => sum + page.items.length, 0) }
  }
  const full = await shownTo('events:read', 'customers:read')
  expect(personal.filter((text) => full.text.includes(text))).toEqual(personal)
  expect(full.found).toBeGreaterThan(0)
  for (const scope of ['events:read', 'events:write'] as const) {
    const { items, text, found: matches } = await shownTo(scope)
    expect(items.map(({ id, customer_id, external_customer_id }) => [id, customer_id, external_customer_id])).toEqual(
      full.items.map(({ id }) => [id, customer.id, 'ada']),
    )
    expect(personal.filter((word) => text.includes(word))).toEqual([])
    expect(matches).toBe(0)
    expect(items.find(({ name }) => name === 'call')).toMatchObject({ customer: null, metadata: { units: 1 } })
    expect(items.find(({ name }) => name === 'customer.updated')).toMatchObject({ metadata: { customer_email: null, updated_fields: {} } })
  }
})
