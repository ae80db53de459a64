import {
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createCustomerSession,
  createMember,
  createMeter,
  createProduct,
  getPortalUsage,
  ingestEvents,
  listPortalMeters,
  listPortalSubscriptions,
  type Aggregation,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
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

const day = 86_400_000
const now = new Date('2026-06-16T00:00:00Z')
const june = { current_period_start: new Date('2026-06-01T00:00:00Z'), current_period_end: new Date('2026-07-01T00:00:00Z') }

/** Opens a customer whose test clock shows the middle of June, with a meter that sums units. */
const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const meter = (name: string, aggregation: Aggregation = { func: 'sum', property: 'units' }) =>
    api.call(createMeter, { body: { name, filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: name }] }, aggregation } })
  const calls = await meter('calls')
  const ada = await api.call(createCustomer, { body: { email: 'ada@people.test', name: 'Ada', external_id: 'ada' } })
  await world.database.owner(async (owner) => {
    const id = newId(world.clock.wall())
    await owner.query('insert into test_clocks (organization_id, id, created_at, now_at) values ($1, $2, $3, $3)', [organization.id, id, now])
    await owner.query('update customers set clock_id = $2 where id = $1', [ada.id, id])
  })
  const use = (units: number, timestamp: Date, name = 'calls', external_customer_id = 'ada') =>
    api.call(ingestEvents, { body: { events: [{ name, external_customer_id, timestamp: timestamp.toISOString(), metadata: { units } }] } })
  const subscribe = async (prices: object[], given: object = {}) => {
    const product = await api.call(createProduct, { body: { name: 'By use', recurring_interval: 'month', prices: prices as never } })
    return sales.subscription(
      ada,
      product,
      product.prices.map(({ id }) => id),
      { ...june, ...given },
    )
  }
  const session = async (body: object) => world.client({ token: (await api.call(createCustomerSession, { body })).token })
  return { ...shop, meter, calls, ada, use, subscribe, session, portal: await session({ customer_id: ada.id }) }
}

test('shows units, cost and projected cost of the period, equal to the other operations of the portal', async () => {
  const { portal, calls, use, subscribe } = await open()
  const { id: subscription_id } = await subscribe([{ amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '2.5', cap_amount: 400 }])
  await use(1000, new Date(june.current_period_start.getTime() - 1))
  await use(100, june.current_period_start)
  await use(20, now)
  const { meters, at, timezone } = await portal.call(getPortalUsage, {})
  expect([at, timezone]).toEqual([now.toISOString(), 'UTC'])
  expect(meters).toMatchObject([
    {
      id: calls.id,
      name: 'calls',
      unit: 'scalar',
      aggregation: 'sum',
      since: '2026-06-01T00:00:00.000Z',
      consumed_units: 120,
      credited_units: 0,
      balance: -120,
    },
  ])
  // Half of the period has passed: 240 units at 2.5 cents are 600 cents, but at most 400.
  expect(meters[0]!.charges).toMatchObject([
    { subscription_id, product_name: 'By use', unit_amount: '2.5', cap_amount: 400, interval: 'month', interval_count: 1, consumed_units: 120, amount: 300 },
  ])
  expect(meters[0]!.charges[0]).toMatchObject({ projected_units: 240, projected_amount: 400, currency: 'usd', credited_units: 0 })
  const [listed] = (await portal.call(listPortalMeters, {})).items
  expect(listed).toMatchObject({ consumed_units: 120, balance: -120 })
  const [subscription] = (await portal.call(listPortalSubscriptions, {})).items
  expect(subscription!.meters).toMatchObject([{ consumed_units: 120, amount: 300 }])
})

test('shows no cost during a trial, and that of each subscription with a price on the meter', async () => {
  const { portal, calls, use, subscribe } = await open()
  const price = (unit_amount: string) => [{ amount_type: 'metered_unit', meter_id: calls.id, unit_amount }]
  const trial = { status: 'trialing', trial_start: june.current_period_start, trial_end: june.current_period_end }
  await subscribe(price('3'), trial)
  await subscribe(price('5'), { status: 'past_due' })
  await subscribe(price('7'), { status: 'canceled', ended_at: now })
  await use(10, now)
  const [meter, ...others] = (await portal.call(getPortalUsage, { query: { days: 0 } })).meters
  expect(others).toEqual([])
  expect(
    meter!.charges.map(({ unit_amount, is_trial, consumed_units, amount, projected_amount }) => [
      unit_amount,
      is_trial,
      consumed_units,
      amount,
      projected_amount,
    ]),
  ).toEqual([
    ['3', true, 10, 0, 0],
    ['5', false, 10, 50, 100],
  ])
})

test('shows the quantity of each day by the clock of the time zone, with today last', async () => {
  const { portal, calls, use, subscribe } = await open()
  await subscribe([{ amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '1' }])
  // 18:10 UTC is 23:55 in Kathmandu, and 18:20 UTC is 00:05 on the next day.
  await use(1, new Date('2026-06-14T18:10:00Z'))
  await use(2, new Date('2026-06-14T18:20:00Z'))
  await use(4, new Date(now.getTime() - 1))
  await use(8, now)
  const daysIn = async (query: object) => (await portal.call(getPortalUsage, { query })).meters[0]!.days.map(({ timestamp, quantity }) => [timestamp, quantity])
  expect(await daysIn({ days: 3 })).toEqual([
    ['2026-06-14T00:00:00.000Z', 3],
    ['2026-06-15T00:00:00.000Z', 4],
    ['2026-06-16T00:00:00.000Z', 8],
  ])
  expect(await daysIn({ days: 2, timezone: 'Asia/Kathmandu' })).toEqual([
    ['2026-06-14T18:15:00.000Z', 2],
    ['2026-06-15T18:15:00.000Z', 12],
  ])
  expect(await daysIn({ days: 0 })).toEqual([])
  expect(await daysIn({})).toHaveLength(30)
  expect(await daysIn({ days: 90, timezone: 'America/New_York' })).toHaveLength(90)
  for (const query of [{ days: 91 }, { days: -1 }, { timezone: 'Mars/Olympus' }]) expect((await portal.send(getPortalUsage, { query })).status).toBe(422)
})

test('shows a price before its first usage, and meters with credits, but no other meters', async () => {
  const { api, portal, calls, meter, ada, use, subscribe } = await open()
  const [uploads, files, hidden] = [await meter('uploads', { func: 'max', property: 'units' }), await meter('files'), await meter('hidden')]
  expect((await portal.call(getPortalUsage, {})).meters).toEqual([])
  await subscribe([
    { amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '1' },
    { amount_type: 'metered_unit', meter_id: uploads.id, unit_amount: '10' },
  ])
  const benefit = await api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Files', properties: { meter_id: files.id, units: 50, rollover: false } },
  })
  await api.call(createBenefitGrant, { body: { customer_id: ada.id, benefit_id: benefit.id } })
  await use(60, now, 'files')
  await use(5, now, 'uploads')
  await use(9, now, 'hidden')
  const { meters } = await portal.call(getPortalUsage, { query: { days: 0 } })
  expect(Object.fromEntries(meters.map(({ name, consumed_units, balance, charges }) => [name, [consumed_units, balance, charges.length]]))).toEqual({
    calls: [0, 0, 1],
    uploads: [5, -5, 1],
    files: [60, -10, 0],
  })
  // A maximum does not grow with time.
  expect(meters.find(({ name }) => name === 'uploads')!.charges).toMatchObject([{ consumed_units: 5, amount: 50, projected_units: 5, projected_amount: 50 }])
  const one = async (meter_id: string) => (await portal.call(getPortalUsage, { query: { days: 0, meter_id: [meter_id] } })).meters.map(({ name }) => name)
  expect(await one(files.id)).toEqual(['files'])
  expect(await one(hidden.id)).toEqual([])
})

test('shows usage to owners and billing managers of this customer only, and refuses plain members [S4-31]', async () => {
  const { api, calls, use, session, subscribe, portal } = await open()
  await subscribe([{ amount_type: 'metered_unit', meter_id: calls.id, unit_amount: '1' }])
  await use(3, now)
  const team = await api.call(createCustomer, {
    body: { type: 'team', email: 'team@people.test', external_id: 'team', owner: { email: 'owner@people.test' } } as never,
  })
  const benefit = await api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Units', properties: { meter_id: calls.id, units: 10, rollover: false } },
  })
  await api.call(createBenefitGrant, { body: { customer_id: team.id, benefit_id: benefit.id } })
  await use(7, new Date(world.clock.wall().getTime() - day), 'calls', 'team')
  const as = async (role: 'member' | 'billing_manager') => {
    const member = await api.call(createMember, { params: { id: team.id }, body: { email: `${role}@people.test`, role } })
    return session({ customer_id: team.id, member_id: member.id })
  }
  expect((await (await as('billing_manager')).call(getPortalUsage, {})).meters).toMatchObject([{ consumed_units: 7, credited_units: 10, balance: 3 }])
  expect(await (await as('member')).send(getPortalUsage, {})).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  expect((await portal.call(getPortalUsage, {})).meters).toMatchObject([{ consumed_units: 3 }])
})
