import {
  correctEvents,
  createMetricDashboard,
  createRefund,
  deleteMetricDashboard,
  everyMetric,
  exportMetrics,
  getMetricDashboard,
  getMetrics,
  getMetricsLimits,
  ingestEvents,
  listMetricDashboards,
  listMetricFacts,
  listUsageEvents,
  updateMetricDashboard,
  type MetricSlug,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { day, openPlans } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { later } from '../../../platform/clock.ts'
import { foldMetrics } from '../folding/folding.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const query = <T extends object>(text: string, values: readonly unknown[] = []) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
const dayOf = (at: Date) => at.toISOString().slice(0, 10)
const today = () => dayOf(world.clock.business())
const on = (api: Client, date: string, more: Record<string, unknown> = {}) =>
  api.call(getMetrics, { query: { start_date: date, end_date: date, interval: 'day', ...more } as never })
const totalsOn = async (api: Client, date: string, ...metrics: MetricSlug[]) => (await on(api, date, { metrics })).totals

test('follows a sale from the checkout to its refund, and keeps the values of past days', async () => {
  const { api, change, sell, orders, product, customer } = await plans.open()
  const first = today()
  const states = [
    'active_subscriptions',
    'committed_subscriptions',
    'monthly_recurring_revenue',
    'annual_recurring_revenue',
    'average_revenue_per_user',
  ] as const
  expect(await totalsOn(api, first, ...states)).toEqual({
    active_subscriptions: 1,
    committed_subscriptions: 1,
    monthly_recurring_revenue: 2900,
    annual_recurring_revenue: 34_800,
    average_revenue_per_user: 2900,
  })
  expect(
    await totalsOn(
      api,
      first,
      'orders',
      'revenue',
      'new_subscriptions',
      'new_subscriptions_revenue',
      'checkouts',
      'succeeded_checkouts',
      'checkouts_conversion',
    ),
  ).toEqual({
    orders: 1,
    revenue: 2900,
    new_subscriptions: 1,
    new_subscriptions_revenue: 2900,
    checkouts: 1,
    succeeded_checkouts: 1,
    checkouts_conversion: 1,
  })

  await plans.until(later(world.clock.business(), 2 * day))
  const second = today()
  await change({ cancel_at_period_end: true, customer_cancellation_reason: 'too_expensive' })
  expect(await totalsOn(api, second, 'committed_subscriptions', 'canceled_subscriptions', 'canceled_subscriptions_too_expensive', 'churn_rate')).toEqual({
    committed_subscriptions: 0,
    canceled_subscriptions: 1,
    canceled_subscriptions_too_expensive: 1,
    churn_rate: 0,
  })
  await plans.until(later(world.clock.business(), 1 * day))
  await change({ cancel_at_period_end: false })
  expect(await totalsOn(api, today(), 'committed_subscriptions', 'canceled_subscriptions')).toEqual({ committed_subscriptions: 1, canceled_subscriptions: -1 })
  expect(await totalsOn(api, second, 'committed_subscriptions', 'canceled_subscriptions')).toEqual({ committed_subscriptions: 0, canceled_subscriptions: 1 })

  const dearer = await sell(6000)
  await change({ product_id: dearer.id, proration_behavior: 'next_period' })
  const [bought] = await orders()
  await api.call(createRefund, { body: { order_id: bought!.id, reason: 'other', amount: 900 } as never })
  await deployment.work()
  expect(await totalsOn(api, today(), 'net_revenue', 'net_cumulative_revenue', 'monthly_recurring_revenue')).toEqual({
    net_revenue: -900,
    net_cumulative_revenue: 2000,
    monthly_recurring_revenue: 2900,
  })
  await plans.until(later(world.clock.business(), 40 * day))
  expect(await totalsOn(api, today(), 'monthly_recurring_revenue', 'cumulative_revenue')).toEqual({ monthly_recurring_revenue: 6000, cumulative_revenue: 8900 })
  const whole = await api.call(getMetrics, {
    query: { start_date: first, end_date: today(), interval: 'month', metrics: ['renewed_subscriptions', 'renewed_subscriptions_revenue', 'revenue'] } as never,
  })
  expect(whole.totals).toEqual({ renewed_subscriptions: 1, renewed_subscriptions_revenue: 6000, revenue: 8900 })
  expect(whole.periods.reduce((sum, { revenue }) => sum + revenue!, 0)).toBe(8900)
  expect(await totalsOn(api, first, ...states)).toMatchObject({ active_subscriptions: 1, monthly_recurring_revenue: 2900 })

  await foldMetrics(deployment.deps)
  const { items, value, pagination } = await api.call(listMetricFacts, {
    params: { slug: 'net_cumulative_revenue' },
    query: { timestamp: world.clock.business().toISOString(), interval: 'month', limit: 2 } as never,
  })
  expect({ value, count: pagination.total_count, kinds: items.map(({ resource, value: part }) => [resource, part]) }).toEqual({
    value: 8000,
    count: 3,
    kinds: [
      ['order', 2900],
      ['refund', -900],
    ],
  })
  expect(items[0]).toMatchObject({ resource_id: bought!.id, customer_id: customer.id, product_id: product.id })
  // A filter by the other product sees only its part.
  expect((await on(api, today(), { metrics: ['cumulative_revenue', 'active_subscriptions'], product_id: [product.id] })).totals).toEqual({
    cumulative_revenue: 2900,
    active_subscriptions: 0,
  })
})

test('the price for a month is that after discounts and without a tax that it includes', async () => {
  const { api, organization, row, product } = await plans.open({ discount: { type: 'percentage', duration: 'forever', basis_points: 2500 } })
  expect(await totalsOn(api, today(), 'monthly_recurring_revenue')).toEqual({ monthly_recurring_revenue: 2175 })
  const { customer_id, id } = await row()
  await query(`update subscriptions set tax_behavior = 'inclusive', recurring_interval = 'year', amount = 14280, period_discount_id = null where id = $1`, [id])
  await query(
    `insert into orders (organization_id, id, created_at, status, billing_reason, currency, tax_behavior, subtotal_amount, discount_amount, net_amount, tax_amount, total_amount,
       applied_balance_amount, due_amount, carried_amount, customer_id, product_id, subscription_id, description, metadata, custom_field_data)
     values ($1, $2, $3, 'pending', 'subscription_cycle', 'usd', 'inclusive', 14280, 0, 12000, 2280, 14280, 0, 14280, 0, $4, $5, $6, 'Plan', '{}', '{}')`,
    [organization.id, newId(world.clock.wall()), world.clock.business(), customer_id, product.id, id],
  )
  expect(await totalsOn(api, today(), 'monthly_recurring_revenue')).toEqual({ monthly_recurring_revenue: 1000 })
})

test('the sales and usage of another seller are counted nowhere', async () => {
  const { api: stranger } = await world.shop()
  const { api, customer } = await plans.open()
  await api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: customer.id, metadata: { _cost: { amount: 1, currency: 'usd' } } }] } })
  const names = ['revenue', 'active_subscriptions', 'average_revenue_per_user', 'costs', 'active_user_by_event'] as const
  expect(await totalsOn(stranger, today(), ...names)).toEqual(Object.fromEntries(names.map((name) => [name, 0])))
  const query = { timestamp: world.clock.business().toISOString(), interval: 'day' } as never
  for (const slug of ['revenue', 'active_subscriptions', 'costs'] as const)
    expect((await stranger.call(listMetricFacts, { params: { slug }, query })).items).toEqual([])
})

test('costs are exact, follow corrections, and name the customers of an interval once', async () => {
  const { api } = await world.shop()
  const at = `${today()}T00:00:00Z`
  const send = (external_customer_id: string, amount: string) =>
    api.call(ingestEvents, { body: { events: [{ name: 'call', timestamp: at, external_customer_id, metadata: { _cost: { amount, currency: 'usd' } } }] } })
  for (const amount of ['0.1', '0.2', '0.000000000001']) await send('ada', amount)
  await send('bob', '1')
  const names = ['costs', 'active_user_by_event', 'cost_per_user', 'cashflow', 'gross_margin'] as const
  const expected = { costs: 1.300000000001, active_user_by_event: 2, cost_per_user: 0.6500000000005, cashflow: -1.300000000001, gross_margin: -1.300000000001 }
  expect(await totalsOn(api, today(), ...names)).toEqual(expected)
  await foldMetrics(deployment.deps)
  expect(await totalsOn(api, today(), ...names)).toEqual(expected)
  const facts = (slug: MetricSlug) => api.call(listMetricFacts, { params: { slug }, query: { timestamp: at, interval: 'day' } as never })
  expect((await facts('costs')).items.map(({ resource, value }) => [resource, value])).toContainEqual(['usage_event', 1])
  expect(await facts('active_user_by_event')).toMatchObject({ value: 2, pagination: { total_count: 2 } })
  const { items } = await api.call(listUsageEvents, { query: { external_customer_id: ['bob'], source: ['user'] } })
  await api.call(correctEvents, { body: { corrections: [{ action: 'void', event_id: items[0]!.id, reason: 'Sent by mistake.' }] } })
  expect(await totalsOn(api, today(), 'costs', 'active_user_by_event')).toEqual({ costs: 0.300000000001, active_user_by_event: 1 })
})

test('accepts every name of a time zone, and answers for days that the clock makes longer or shorter', async () => {
  const { api } = await world.shop()
  for (const timezone of Intl.supportedValuesOf('timeZone').filter((_, at) => at % 40 === 0)) await on(api, '2026-03-29', { timezone, metrics: ['orders'] })
  for (const timezone of ['Asia/Calcutta', 'US/Pacific', 'Factory', 'Asia/Katmandu'])
    expect((await on(api, '2026-01-01', { timezone, metrics: ['orders'] })).periods).toHaveLength(1)
  const hours = (date: string) => on(api, date, { timezone: 'Europe/Berlin', interval: 'hour', metrics: ['orders'] }).then(({ periods }) => periods.length)
  expect([await hours('2026-03-29'), await hours('2026-10-25'), await hours('2026-10-26')]).toEqual([23, 25, 24])
  expect((await on(api, '2026-01-01', { timezone: 'Asia/Kathmandu', metrics: ['orders'] })).periods[0]!.timestamp).toBe('2025-12-31T18:15:00.000Z')
})

test('refuses ranges, zones, metrics and currencies that it cannot answer, and names the allowed values', async () => {
  const { api, organization } = await world.shop()
  const refused = async (more: Record<string, unknown>, client = api) => {
    const answer = await client.send(getMetrics, {
      query: { start_date: '2026-01-01', end_date: '2026-01-02', interval: 'day', metrics: ['orders'], ...more } as never,
    })
    expect(answer.status).toBe(422)
    return JSON.stringify(answer.body)
  }
  expect(await refused({ start_date: '2022-12-31' })).toContain('The first day is 2023-01-01')
  expect(await refused({ end_date: '2025-12-31' })).toContain('before the start')
  expect(await refused({ end_date: '2027-01-03' })).toContain('at most 366 days')
  expect(await refused({ timezone: 'Mars/Olympus' })).toContain('IANA')
  expect(await refused({ metrics: ['profit'] })).toContain('active_subscriptions')
  const facts = await api.send(listMetricFacts, { params: { slug: 'ltv' }, query: { timestamp: '2026-01-01T00:00:00Z', interval: 'day' } as never })
  expect(facts.status).toBe(422)
  expect(JSON.stringify(facts.body)).toContain('monthly_recurring_revenue')
  // A person with two organizations of different currencies must choose one.
  const person = await world.person()
  const other = await world.organization()
  await query(`update organizations set default_presentment_currency = 'eur' where id = $1`, [other.id])
  for (const { id } of [organization, other]) await world.join(id, person.id, 'admin')
  const both = world.client({ token: (await person.token()).secret })
  expect(await refused({}, both)).toContain('eur, usd')
  expect((await on(both, '2026-01-01', { organization_id: other.id, metrics: ['orders'] })).totals).toEqual({ orders: 0 })
})

test('says through when its data goes, and how many amounts are in another currency', async () => {
  const { api, id } = await plans.open()
  const now = world.clock.wall().getTime()
  const before = await on(api, today(), { metrics: ['revenue', 'orders'] })
  expect(Math.abs(now - 60_000 - Date.parse(before.data_through))).toBeLessThan(5000)
  await query(`update orders set status = 'pending' where subscription_id = $1`, [id])
  await query(`update orders set currency = 'eur', status = 'paid' where subscription_id = $1`, [id])
  expect(await on(api, today(), { metrics: ['revenue', 'orders'] })).toMatchObject({ totals: { orders: 1 }, amounts_left_out: 1 })
  const overdue = new Date(now - 3_600_000)
  await query('update subscriptions set due_at = $2 where id = $1', [id, overdue])
  expect((await on(api, today(), { metrics: ['revenue'] })).data_through).toBe(overdue.toISOString())
  await query('update subscriptions set due_at = null where id = $1', [id])
})

test('exports the same numbers as a file', async () => {
  const { api } = await plans.open()
  const asked = { start_date: today(), end_date: today(), interval: 'day', metrics: ['revenue', 'cashflow'] }
  const file = await api.sendRaw(exportMetrics, { query: asked })
  expect(file.headers.get('content-type')).toBe('text/csv; charset=utf-8')
  expect(file.headers.get('content-disposition')).toBe(`attachment; filename="metrics-${today()}-${today()}.csv"`)
  expect(file.body).toBe(`"Timestamp","Revenue","Cashflow"\r\n${today()}T00:00:00.000Z,2900,2900\r\n`)
})

test('the limits name the longest range of each interval', async () => {
  const { api } = await world.shop()
  expect(await api.call(getMetricsLimits, {})).toMatchObject({
    min_date: '2023-01-01',
    intervals: { hour: { max_days: 7 }, year: { min_days: 366, max_days: 3650 } },
  })
})

test('keeps dashboards of an organization, at most a hundred', async () => {
  const { api, organization } = await world.shop()
  const made = await api.call(createMetricDashboard, { body: { name: ' Money ', metrics: ['revenue', 'orders'] } })
  expect(made).toMatchObject({ name: 'Money', metrics: ['revenue', 'orders'], organization_id: organization.id, modified_at: null })
  expect(await api.call(updateMetricDashboard, { params: { id: made.id }, body: { metrics: ['costs'] } })).toMatchObject({ name: 'Money', metrics: ['costs'] })
  expect(await api.call(listMetricDashboards, { query: {} })).toHaveLength(1)
  expect((await api.send(createMetricDashboard, { body: { name: '', metrics: [] } })).status).toBe(422)
  expect((await api.send(createMetricDashboard, { body: { name: 'Many', metrics: everyMetric.slice(0, 11) } })).status).toBe(422)
  expect((await api.send(createMetricDashboard, { body: { name: 'Unknown', metrics: ['profit'] as never } })).status).toBe(422)
  const stranger = (await world.shop()).api
  expect((await stranger.send(getMetricDashboard, { params: { id: made.id } })).status).toBe(404)
  const accountant = await world.person()
  await world.join(organization.id, accountant.id, 'finance')
  const finance = world.client({ token: (await accountant.token()).secret })
  expect(await finance.send(deleteMetricDashboard, { params: { id: made.id } })).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  await query(
    `insert into metric_dashboards (organization_id, id, created_at, name, metrics) select $1, gen_random_uuid(), now(), 'One', '{}' from generate_series(1, 98)`,
    [organization.id],
  )
  const two = await Promise.all(['A', 'B'].map((name) => api.send(createMetricDashboard, { body: { name } })))
  expect(two.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 422])
  await api.call(deleteMetricDashboard, { params: { id: made.id } })
  expect((await api.send(getMetricDashboard, { params: { id: made.id } })).status).toBe(404)
})
