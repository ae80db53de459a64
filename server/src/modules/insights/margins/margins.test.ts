import { createCustomer, getMetrics, ingestEvents, listCustomerMargins, type CustomerMargin } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openMetricHistory, seededNumbers } from '../../../../test/harness/metric-history.ts'
import { counted } from '../../../../test/harness/pace.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

const query = <T extends object>(text: string, values: readonly unknown[] = []) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
const today = () => world.clock.wall().toISOString().slice(0, 10)
const list = (api: Client, more: object = {}) => api.call(listCustomerMargins, { query: { start_date: today(), end_date: today(), ...more } })
const costing = (amount: string) => ({ _cost: { amount, currency: 'usd' as const } })

const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const customer = async (name: string) => ({
    ...(await api.call(createCustomer, { body: { email: `${name}@people.test`, external_id: name } })),
    organization_id: organization.id,
  })
  const use = (of: object, ...amounts: string[]) =>
    api.call(ingestEvents, { body: { events: amounts.map((amount) => ({ name: 'call', ...of, metadata: costing(amount) })) as never } })
  return { ...shop, customer, use, ada: await customer('ada'), bob: await customer('bob') }
}

test('[S1-13] lists revenue, cost and margin of each customer, the lowest margin first, with exact decimals', async () => {
  const { api, organization, use, ada, bob, customer } = await open()
  await customer('idle')
  await sales.order(ada, { net_amount: 1000, tax_amount: 190 })
  await sales.order(bob, { net_amount: 500 })
  await use({ customer_id: ada.id }, '0.1', '0.2', '999.5')
  await use({ customer_id: bob.id }, '500.000000000001')
  await use({ external_customer_id: 'unknown' }, '7')
  const answer = await list(api)
  const row = (customer_id: string | null, external_customer_id: string, revenue: number, cost: string, margin: string, margin_percentage: number | null) => ({
    organization_id: organization.id,
    customer_id,
    external_customer_id,
    revenue,
    cost,
    margin,
    margin_percentage,
  })
  const rows = [
    row(null, 'unknown', 0, '7', '-7', null),
    row(bob.id, 'bob', 500, '500.000000000001', '-0.000000000001', -0.000000000001 / 500),
    row(ada.id, 'ada', 1000, '999.8', '0.2', 0.0002),
  ]
  expect(answer).toMatchObject({
    items: rows,
    pagination: { total_count: 3, max_page: 1 },
    start: `${today()}T00:00:00.000Z`,
    timezone: 'UTC',
    totals: { revenue: 1500, cost: '1506.800000000001', margin: '-6.800000000001' },
    currency: 'usd',
    amounts_left_out: 0,
  })
  expect((await list(api, { margin_below: '0' })).items).toEqual(rows.slice(0, 2))
  expect((await list(api, { margin_below: '-0.000000000001' })).items).toEqual(rows.slice(0, 1))
  expect((await list(api, { sorting: '-revenue' })).items.map(({ external_customer_id }) => external_customer_id)).toEqual(['ada', 'bob', 'unknown'])
  expect((await list(api, { sorting: 'cost' })).items.map(({ external_customer_id }) => external_customer_id)).toEqual(['unknown', 'bob', 'ada'])
  expect((await list(api, { customer_id: bob.id })).totals).toEqual({ revenue: 500, cost: '500.000000000001', margin: '-0.000000000001' })
  const second = await list(api, { limit: 2, page: 2 })
  expect(second).toMatchObject({ items: rows.slice(2), pagination: { total_count: 3, max_page: 2 }, totals: answer.totals })
  // A page behind the last one is empty, and has the same totals.
  expect(await list(api, { limit: 2, page: 9 })).toMatchObject({ items: [], pagination: { total_count: 3 }, totals: answer.totals })
})

test('leaves out and counts amounts in other currencies', async () => {
  const { api, organization, use, ada } = await open()
  await sales.order(ada, { net_amount: 1000 })
  await sales.order(ada, { net_amount: 700, currency: 'eur' })
  await use({ customer_id: ada.id }, '10')
  expect(await list(api)).toMatchObject({ items: [{ revenue: 1000, cost: '10' }], currency: 'usd', amounts_left_out: 1 })
  await query(`update organizations set default_presentment_currency = 'eur' where id = $1`, [organization.id])
  // Costs are in dollars.
  expect(await list(api)).toMatchObject({ items: [{ revenue: 700, cost: '0', margin: '700' }], currency: 'eur', amounts_left_out: 2 })
})

test('counts the costs of a seat holder for the buyer, for the time of the seat', async () => {
  const { api, organization, use, ada, bob, phase } = await open()
  const hour = 3_600_000
  const now = world.clock.wall().getTime()
  const at = (hours: number) => ({ customer_id: bob.id, timestamp: new Date(now - hours * hour).toISOString() })
  await use(at(30), '1')
  await use(at(3), '20')
  await query(
    `insert into usage_holdings (organization_id, holder_id, buyer_id, since, until) values ($1, $2, $3, '-infinity', date_bin('15 minutes', $4, '2000-01-01Z'))`,
    [organization.id, bob.id, ada.id, new Date(now - 2 * hour)],
  )
  await use(at(1), '300')
  const range = { start_date: new Date(now - 48 * hour).toISOString().slice(0, 10) }
  const costs = async () => new Map((await list(api, range)).items.map(({ customer_id, cost }) => [customer_id, cost]))
  await phase('before')
  expect(await costs()).toEqual(new Map([[bob.id, '321']]))
  await phase('phase2')
  expect(await costs()).toEqual(
    new Map([
      [bob.id, '300'],
      [ada.id, '21'],
    ]),
  )
})

test('agrees with the metrics of each customer: zones, changes of the clock and refunds', { timeout: 600_000 }, async () => {
  const { api, organization } = await world.shop()
  const numbers = seededNumbers(41)
  const history = await openMetricHistory(query, organization.id, numbers, 12)
  await history.run(new Date('2024-01-01T00:00:00Z'), new Date('2025-06-01T00:00:00Z'), 200)
  const from = Date.parse('2024-01-01T00:00:00Z')
  await api.call(ingestEvents, {
    body: {
      events: Array.from({ length: 300 }, () => ({
        name: 'call',
        customer_id: numbers.pick(history.people),
        timestamp: new Date(from + numbers.below(500 * 86_400_000)).toISOString(),
        metadata: costing(`${numbers.below(90_000)}.${String(numbers.below(1e9)).padStart(12, '0')}`),
      })),
    },
  })
  const zones = ['UTC', 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe']
  let found = 0
  for (let at = 0; at < counted('QUESTIONS', 12, 5); at++) {
    const first = from + numbers.below(400) * 86_400_000
    const day = (moment: number) => new Date(moment).toISOString().slice(0, 10)
    const range = { start_date: day(first), end_date: day(first + numbers.below(300) * 86_400_000), timezone: numbers.pick(zones) }
    const { items } = await api.call(listCustomerMargins, { query: { ...range, limit: 100 } })
    const byId = new Map(items.map((item): [string | null, CustomerMarginOnWire] => [item.customer_id, item]))
    for (const id of history.people.slice(0, 4)) {
      const metrics = ['net_revenue', 'costs'] as const
      const { totals } = await api.call(getMetrics, { query: { ...range, interval: 'month', customer_id: id, metrics } as never })
      const row = byId.get(id)
      expect(row?.revenue ?? 0).toBe(totals.net_revenue)
      expect(Number(row?.cost ?? 0)).toBeCloseTo(totals.costs!, 9)
      found += row ? 1 : 0
    }
  }
  expect(found).toBeGreaterThan(10)
})

test('rejects bad ranges and amounts, missing credentials and a wrong scope, and shows nothing of other sellers', async () => {
  const { api, organization, use, ada } = await open()
  await use({ customer_id: ada.id }, '10')
  const call = { query: { start_date: today(), end_date: today() } as never }
  for (const wrong of [
    { margin_below: 'none' },
    { margin_below: '1e3' },
    { start_date: '2022-12-31' },
    { end_date: '2020-01-01' },
    { start_date: '2024-01-01' },
    { timezone: 'Nowhere' },
  ])
    expect((await api.send(listCustomerMargins, { query: { start_date: today(), end_date: today(), ...wrong } })).status).toBe(422)
  expect((await world.client().send(listCustomerMargins, call)).status).toBe(401)
  const reader = world.client({ token: (await organization.token(['orders:read'])).secret })
  expect((await reader.send(listCustomerMargins, call)).status).toBe(403)
  const stranger = await world.shop()
  expect(await list(stranger.api, { customer_id: ada.id })).toMatchObject({ items: [], totals: { revenue: 0, cost: '0', margin: '0' } })
  expect(await list(stranger.api, { customer_id: newId(world.clock.wall()) })).toMatchObject({ items: [] })
})

type CustomerMarginOnWire = Pick<CustomerMargin, 'revenue' | 'cost'>
