import {
  createBenefit,
  createCustomer,
  createMember,
  createMeter,
  createProduct,
  createTestClock,
  deleteCustomer,
  getCustomerState,
  getCustomerStateToken,
  getExternalCustomerState,
  getExternalCustomerStateToken,
  listMembers,
  revokeSeat,
  updateCustomer,
  updateMember,
  type CustomerState,
} from '@bursar/contract'
import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openTravels } from '../../../../test/harness/clocks.ts'
import { openDeployment, openLife, type End } from '../../../../test/harness/crashes.ts'
import { launch } from '../../../../test/harness/process.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openTeams } from '../../../../test/harness/teams.ts'
import { eventually, exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import { touchState } from '../../customers/index.ts'
import { rotateKeys } from '../../identity/index.ts'
import { requireCustomerState } from './state.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  sales = openSales(world)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Shop = Awaited<ReturnType<World['shop']>>
type Owned = { id: string; organization_id: string }

const query = <T extends object>(text: string, values: readonly unknown[] = []) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)

/** Inserts a grant row directly, without the code that gives grants. */
const give = async (customer: Owned, benefit: Owned, given: Record<string, unknown> = {}): Promise<string> => {
  world.clock.advance(1)
  const now = world.clock.business()
  const row: Record<string, unknown> = {
    organization_id: customer.organization_id,
    id: newId(now),
    created_at: now,
    benefit_id: benefit.id,
    buyer_customer_id: customer.id,
    is_manual: !('subscription_id' in given || 'order_id' in given),
    is_withheld: false,
    is_wanted: true,
    granted_at: now,
    properties: '{}',
    attempts: 0,
    ...given,
  }
  const columns = Object.keys(row)
  await query(`insert into benefit_grants (${columns.join()}) values (${columns.map((_, at) => `$${at + 1}`).join()})`, Object.values(row))
  return row.id as string
}

const seat = async (customer: Owned, subscription_id: string, given: Record<string, unknown>): Promise<string> => {
  const now = world.clock.business()
  const row: Record<string, unknown> = {
    organization_id: customer.organization_id,
    id: newId(now),
    created_at: now,
    subscription_id,
    status: 'claimed',
    buyer_customer_id: customer.id,
    email: 'mia@people.test',
    claimed_at: now,
    metadata: '{}',
    ...given,
  }
  const columns = Object.keys(row)
  await query(`insert into seats (${columns.join()}) values (${columns.map((_, at) => `$${at + 1}`).join()})`, Object.values(row))
  return row.id as string
}

const flag = ({ api }: Shop, key = 'beta') =>
  api.call(createBenefit, { body: { type: 'feature_flag', description: `Flag ${key}`, properties: {}, metadata: { key } } })
const plan = ({ api }: Shop) =>
  api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] } as never,
  })
const ownerOf = async ({ api }: Shop, customer: Owned) => (await api.call(listMembers, { query: { customer_id: customer.id, role: 'owner' } })).items[0]!
const person = ({ api }: Shop, external_id?: string) =>
  api.call(createCustomer, { body: { email: `ada-${newId(world.clock.wall())}@people.test`, ...(external_id === undefined ? {} : { external_id }) } })

/** Waits until the debounce interval has passed, then emits all due state events. */
const tellAll = async () => {
  world.clock.advance(1001)
  await deployment.sweep('entitlements.tell_state')
}
const told = async (shop: Shop, { id }: Owned) =>
  (await shop.events('customer.state_changed')).map(({ data }) => data as unknown as CustomerState).filter((state) => state.id === id)

test('the customer state lists active subscriptions, active grants and credited meters, by id and by external id', async () => {
  const shop = await world.shop()
  const { api } = shop
  const customer = await person(shop, 'ada')
  const owner = await ownerOf(shop, customer)
  const params = { id: customer.id }
  expect(await api.call(getCustomerState, { params })).toEqual({
    ...customer,
    active_subscriptions: [],
    granted_benefits: [],
    active_meters: [],
    is_complete: true,
  })

  const meter = await api.call(createMeter, {
    body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } as never,
  })
  const metered = await api.call(createProduct, {
    body: {
      name: 'By the call',
      recurring_interval: 'month',
      prices: [{ amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '10', price_currency: 'usd' }],
    } as never,
  })
  const active = await sales.subscription(customer, metered, [metered.prices[0]!.id], { metadata: { from: 'here' } })
  const trialing = await sales.subscription(customer, metered, [], { status: 'trialing', trial_start: world.clock.wall(), trial_end: world.clock.wall() })
  for (const status of ['past_due', 'canceled', 'unpaid', 'paused', 'incomplete'] as const) await sales.subscription(customer, metered, [], { status })

  const flagged = await flag(shop)
  const noted = await api.call(createBenefit, { body: { type: 'custom', description: 'A note', properties: { note: 'Hello' } } })
  const credit = await api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Calls', properties: { meter_id: meter.id, units: 100, rollover: false } },
  })
  const manual = await give(customer, flagged)
  const bought = await give(customer, credit, {
    subscription_id: active.id,
    cycled_for: '2026-04-01',
    properties: JSON.stringify({ last_credited_units: 100 }),
  })
  // Excluded from the state: not yet granted, revoked, being revoked, and withheld.
  await give(customer, noted, { granted_at: null, error: JSON.stringify({ message: 'no', type: 'X', timestamp: 'x' }) })
  await give(customer, noted, { subscription_id: active.id, granted_at: null, revoked_at: world.clock.wall(), is_wanted: false })
  await give(customer, flagged, { subscription_id: active.id, is_wanted: false })
  await give(customer, flagged, { subscription_id: trialing.id, is_wanted: false, is_withheld: true })
  // Credits expire with their period, unless they roll over.
  for (const [grant_id, units, rollover, period] of [
    [bought, 100, false, '2026-03-01'],
    [bought, 150, false, '2026-04-01'],
    [manual, 7, true, '2026-03-01'],
    [manual, 8, true, '2026-04-01'],
  ])
    await query(
      `insert into meter_credits (organization_id, id, created_at, grant_id, meter_id, customer_id, units, rollover, period_start) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
      [customer.organization_id, newId(world.clock.wall()), world.clock.wall(), grant_id, meter.id, customer.id, units, rollover, period],
    )

  const state = await api.call(getCustomerState, { params })
  expect(state).toMatchObject({ id: customer.id, email: customer.email, external_id: 'ada', is_complete: true })
  expect(state.active_subscriptions).toEqual([
    expect.objectContaining({
      id: active.id,
      status: 'active',
      product_id: metered.id,
      metadata: { from: 'here' },
      meters: [expect.objectContaining({ id: metered.prices[0]!.id, meter_id: meter.id, consumed_units: 0, credited_units: 150, amount: 0 })],
    }),
    expect.objectContaining({ id: trialing.id, status: 'trialing', meters: [] }),
  ])
  expect(state.granted_benefits).toEqual([
    {
      id: manual,
      created_at: expect.anything() as Date,
      modified_at: null,
      granted_at: expect.anything() as Date,
      benefit_id: flagged.id,
      benefit_type: 'feature_flag',
      benefit_metadata: { key: 'beta' },
      member_id: owner.id,
      properties: {},
    },
    expect.objectContaining({ id: bought, benefit_type: 'meter_credit', member_id: owner.id, properties: { last_credited_units: 100 } }),
  ])
  expect(state.active_meters).toEqual([expect.objectContaining({ meter_id: meter.id, credited_units: 165, consumed_units: 0, balance: 165 })])
  const active_meters = state.active_meters.map((one) => ({ ...one, as_of: expect.any(String) as string }))
  expect(await api.call(getExternalCustomerState, { params: { external_id: 'ada' } })).toEqual({ ...state, active_meters })
})

test('shows each benefit of a team with its member, and before phase 2 with the customer that holds the seat', async () => {
  const shop = await world.shop()
  const { api, phase } = shop
  const team = await api.call(createCustomer, { body: { type: 'team', email: 'team@people.test', owner: { email: 'olga@people.test' } } })
  const owner = await ownerOf(shop, team)
  const [mia, ben] = [
    await api.call(createMember, { params: { id: team.id }, body: { email: 'mia@people.test' } }),
    await api.call(createMember, { params: { id: team.id }, body: { email: 'ben@people.test' } }),
  ]
  const holder = await person(shop)
  const product = await plan(shop)
  const subscription = await sales.subscription(team, product, [product.prices[0]!.id], { seats: 5 })
  const benefit = await flag(shop)
  const through = { subscription_id: subscription.id }
  const direct = await give(team, benefit)
  // One seat has a holder customer, as before the member model. The other has only a member.
  const early = { member_id: mia.id, holder_customer_id: holder.id }
  const held = await give(team, benefit, { ...through, ...early, seat_id: await seat(team, subscription.id, early) })
  const plain = await give(team, benefit, { ...through, member_id: ben.id, seat_id: await seat(team, subscription.id, { member_id: ben.id }) })
  // A revoked grant is excluded, although other members have theirs.
  await give(team, await flag(shop, 'gone'), { ...through, member_id: ben.id, is_wanted: false, granted_at: null, revoked_at: world.clock.wall() })
  const has = async ({ id }: Owned, member_id?: string) =>
    (await api.call(getCustomerState, { params: { id }, query: { member_id } })).granted_benefits.map((grant) => [grant.id, grant.member_id])

  for (const early of ['before', 'phase1'] as const) {
    await phase(early)
    expect(await has(team)).toEqual([
      [direct, owner.id],
      [plain, ben.id],
    ])
    expect(await has(holder)).toEqual([[held, mia.id]])
  }
  await phase('phase2')
  expect(await has(team)).toEqual([
    [direct, owner.id],
    [held, mia.id],
    [plain, ben.id],
  ])
  expect(await has(holder)).toEqual([])
  // Reads the state of a single member.
  expect(await has(team, mia.id)).toEqual([[held, mia.id]])
  expect(await has(team, owner.id)).toEqual([[direct, owner.id]])
  expect(await has(team, newId(world.clock.wall()))).toEqual([])

  // An ownership transfer moves the customer's own grants to the new owner and emits the state.
  await api.call(updateMember, { params: { id: team.id, member_id: ben.id }, body: { role: 'owner' } })
  await tellAll()
  expect((await told(shop, team)).at(-1)!.granted_benefits.map(({ id, member_id }) => [id, member_id])).toEqual([
    [direct, ben.id],
    [held, mia.id],
    [plain, ben.id],
  ])
  expect((await has(team, ben.id)).map(([id]) => id)).toEqual([direct, plain])

  // In phase 2 a customer that only held seats no longer exists, so no state is emitted for it.
  await query('update customers set pure_holder = true where id = $1', [holder.id])
  const before = (await told(shop, holder)).length
  const touch = () => world.transact((tx) => touchState(tx, { organization_id: holder.organization_id, customer_id: holder.id }))
  await touch()
  await tellAll()
  expect((await told(shop, holder)).length).toBe(before)
  expect((await api.send(getCustomerState, { params: { id: holder.id } })).status).toBe(404)
  await phase('phase1')
  await touch()
  await tellAll()
  expect((await told(shop, holder)).slice(before).map(({ granted_benefits }) => granted_benefits.map(({ id }) => id))).toEqual([[held]])
})

test('meter credits count for the customer that the grant is shown with, only in their period, and reassigning a seat adds none', async () => {
  const shop = await world.shop()
  const { api } = shop
  const teams = await openTeams(world, deployment)
  const { travel } = openTravels(world, deployment)
  const credit = async (name: string, units: number, rollover: boolean) => {
    const meter = await api.call(createMeter, { body: { name, filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
    const benefit = await api.call(createBenefit, { body: { type: 'meter_credit', description: name, properties: { units, rollover, meter_id: meter.id } } })
    return { meter_id: meter.id, id: benefit.id }
  }
  const [lapsing, kept] = [await credit('Calls', 100, false), await credit('Storage', 7, true)]
  const clock = await api.call(createTestClock, { body: { now: '2026-06-01T00:00:00.000Z' } })
  const buyer = await api.call(createCustomer, { body: { email: 'works@people.test', test_clock_id: clock.id } })
  const team = await teams.buy({ shop, phase: 'phase1', seats: 2, benefits: [lapsing.id, kept.id], customer_id: buyer.id })
  const units = async (id: string) => {
    const { active_meters } = await api.call(getCustomerState, { params: { id } })
    return [lapsing, kept].map(({ meter_id }) => active_meters.find((one) => one.meter_id === meter_id)?.credited_units ?? 0)
  }
  const seated = async (email: string) => {
    const pending = await teams.assign(team, { email })
    await teams.claim(pending)
    return pending
  }
  const mia = await seated('mia-units@people.test')
  expect([await units(mia.customer_id!), await units(buyer.id)]).toEqual([
    [100, 7],
    [0, 0],
  ])
  await shop.phase('phase2')
  expect(await units(buyer.id)).toEqual([100, 7])
  // The seat is reassigned in phase 1 and in phase 2.
  await shop.phase('phase1')
  await api.call(revokeSeat, { params: { seat_id: mia.id } })
  const ben = await seated('ben-units@people.test')
  expect([await units(mia.customer_id!), await units(ben.customer_id!)]).toEqual([
    [0, 0],
    [100, 7],
  ])
  await shop.phase('phase2')
  expect(await units(buyer.id)).toEqual([100, 7])
  await api.call(revokeSeat, { params: { seat_id: ben.id } })
  await seated('cid-units@people.test')
  expect(await units(buyer.id)).toEqual([100, 7])
  await travel(api, clock.id, '2026-07-01T12:00:00Z')
  expect(await units(buyer.id)).toEqual([100, 14])
})

test('hides the state of other sellers’ customers, and rejects an external id that is ambiguous', async () => {
  const [ours, theirs] = [await world.shop(), await world.shop()]
  const customer = await person(theirs, 'shared')
  const absent = newId(world.clock.wall())
  for (const [one, two] of [
    [getCustomerState, getExternalCustomerState],
    [getCustomerStateToken, getExternalCustomerStateToken],
  ] as const) {
    const stranger = await ours.api.send(one, { params: { id: customer.id } })
    expect([stranger.status, stranger.body]).toEqual([404, (await ours.api.send(one, { params: { id: absent } })).body])
    expect((await ours.api.send(two, { params: { external_id: 'shared' } })).status).toBe(404)
  }
  const both = await world.person()
  for (const { organization } of [ours, theirs]) await world.join(organization.id, both.id, 'admin')
  await person(ours, 'shared')
  const api = world.client({ token: (await both.token()).secret })
  for (const operation of [getExternalCustomerState, getExternalCustomerStateToken])
    expect(await api.send(operation, { params: { external_id: 'shared' } })).toMatchObject({ status: 409, body: { error: 'AmbiguousExternalCustomerID' } })
  expect((await world.client().send(getCustomerState, { params: { id: customer.id } })).status).toBe(401)
  const blind = world.client({ token: (await theirs.organization.token(['orders:read'])).secret })
  expect((await blind.send(getCustomerStateToken, { params: { id: customer.id } })).status).toBe(403)
})

test('a hundred changes of a customer within the debounce interval emit one event with the final state', async () => {
  const shop = await world.shop()
  const customer = await person(shop)
  const benefit = await flag(shop)
  const params = { id: customer.id }
  await tellAll()
  expect((await told(shop, customer)).length).toBe(1)
  const change = async (n: number) => {
    if (n % 2 === 0) return shop.api.call(updateCustomer, { params, body: { metadata: { n } } })
    await give(customer, benefit, { order_id: (await sales.order(customer)).id })
    return world.transact((tx) => touchState(tx, { organization_id: customer.organization_id, customer_id: customer.id }))
  }
  // No event is emitted before the debounce interval has passed. The interval does not pass while the test clock is stopped.
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  await change(0)
  await deployment.sweep('entitlements.tell_state')
  expect((await told(shop, customer)).length).toBe(1)
  world.clock.release()
  await Promise.all(Array.from({ length: 100 }, (_, n) => change(n)))
  await tellAll()
  await tellAll()
  const events = await told(shop, customer)
  expect(events.length).toBe(2)
  const state = await shop.api.call(getCustomerState, { params })
  expect(state.granted_benefits.length).toBe(50)
  expect(events[1]).toEqual(state)
})

test('the last state event equals the final state, even if the customer changes while events are emitted', async () => {
  const shop = await world.shop()
  const customer = await person(shop)
  const params = { id: customer.id }
  for (let round = 0; round < 20; round++) {
    const before = (await told(shop, customer)).length
    const turn = { over: false }
    const changes = Promise.all(
      Array.from({ length: 5 }, async (_, n) => {
        await shop.api.call(updateCustomer, { params, body: { metadata: { round, n } } })
      }),
    ).finally(() => (turn.over = true))
    while (!turn.over) await tellAll()
    await changes
    await tellAll()
    const events = (await told(shop, customer)).slice(before)
    expect(events.length).toBeGreaterThan(0)
    expect(events.length).toBeLessThanOrEqual(6)
    expect(events.at(-1)).toEqual(await shop.api.call(getCustomerState, { params }))
  }
})

test('a change during the emission of a state event causes another event', async () => {
  const shop = await world.shop()
  const customer = await person(shop)
  const params = { id: customer.id }
  await tellAll()
  await shop.api.call(updateCustomer, { params, body: { name: 'First' } })
  const blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
  try {
    // The worker has read the customer and is blocked before it reads the rest of the state.
    await blocker.query('begin; lock table meter_credits in access exclusive mode')
    const telling = tellAll()
    const waiting = (role: string) =>
      eventually(`a connection of ${role} waits for a lock`, async () => {
        const rows = await query(`select 1 from pg_stat_activity where datname = current_database() and application_name = $1 and wait_event_type = 'Lock'`, [
          role,
        ])
        return rows.length > 0
      })
    await waiting('bursar_worker')
    const changing = shop.api.call(updateCustomer, { params, body: { name: 'Second' } })
    await waiting('bursar_api')
    await blocker.query('rollback')
    await Promise.all([telling, changing])
  } finally {
    await blocker.end()
  }
  await tellAll()
  expect((await told(shop, customer)).map(({ name }) => name)).toEqual([null, 'First', 'Second'])
})

test('after a worker crashes at any commit, the next worker emits the state event once', async () => {
  const ends: End[] = [1, 2].flatMap((point) => (['before', 'after'] as const).map((side) => ({ point, side })))
  for (const end of ends) {
    const shop = await world.shop()
    const customer = await person(shop)
    await tellAll()
    await shop.api.call(updateCustomer, { params: { id: customer.id }, body: { name: 'After' } })
    world.clock.advance(1001)
    const life = openLife(end)
    const doomed = await openDeployment(world, life)
    await doomed.sweep('entitlements.tell_state').catch(() => undefined)
    expect([life.effects.slice(0, end.point), life.isDead()]).toEqual([Array(end.point).fill('commit'), true])
    await doomed.close()
    // Waits until the lease of the crashed worker has expired.
    world.clock.advance(31 * seconds)
    await tellAll()
    expect([end, (await told(shop, customer)).map(({ name }) => name)]).toEqual([end, [null, 'After']])
  }
})

test('after a worker is killed while emitting a state event, another worker emits the event within seconds, once', async () => {
  const own = await openWorld()
  const blocker = new pg.Client({ connectionString: own.database.owner_url })
  await blocker.connect()
  const worker = async () => {
    const program = launch(['serve', '--roles', 'worker'], own.environmentVariables)
    await program.line('worker_started')
    return program
  }
  const programs: Awaited<ReturnType<typeof worker>>[] = []
  try {
    const shop = await own.shop()
    const customer = await shop.api.call(createCustomer, { body: { email: 'ada@people.test' } })
    await blocker.query('begin; lock table meter_credits in access exclusive mode')
    programs.push(await worker())
    await eventually('the worker waits for the lock on meter_credits', async () => {
      const { rows } = await own.database.owner((owner) =>
        owner.query(
          `select 1 from pg_locks l join pg_stat_activity a using (pid) where not l.granted and l.relation = 'meter_credits'::regclass and a.application_name = 'bursar_worker'`,
        ),
      )
      return rows.length > 0
    })
    programs[0]!.signal('SIGKILL')
    await programs[0]!.exited
    await blocker.query('rollback')
    programs.push(await worker())
    await eventually('customer.state_changed was emitted', async () => (await shop.events('customer.state_changed')).length > 0)
    // The state event is not scheduled again.
    const { rows } = await own.database.owner((owner) => owner.query('select 1 from customer_states where due_at is not null'))
    expect(rows).toEqual([])
    expect((await shop.events('customer.state_changed')).map(({ data }) => data.id)).toEqual([customer.id])
  } finally {
    for (const program of programs) {
      program.signal('SIGKILL')
      await program.exited
    }
    await blocker.end()
    await own.close()
  }
})

test('deleting a customer emits a last, empty state, which contains no personal data if the customer was anonymized', async () => {
  const shop = await world.shop()
  const [customer, forgotten] = [await person(shop), await person(shop)]
  const product = await plan(shop)
  for (const one of [customer, forgotten]) {
    await sales.subscription(one, product, [product.prices[0]!.id])
    await give(one, await flag(shop))
  }
  await tellAll()
  await shop.api.send(deleteCustomer, { params: { id: customer.id } })
  await shop.api.send(deleteCustomer, { params: { id: forgotten.id }, query: { anonymize: 'true' } })
  // The jobs have not revoked the grants of the deleted customers yet.
  await tellAll()
  const nothing = { active_subscriptions: [], granted_benefits: [], active_meters: [], is_complete: true }
  const events = await told(shop, customer)
  expect(events.map(({ granted_benefits }) => granted_benefits.length)).toEqual([1, 0])
  expect(events[1]).toMatchObject({ email: customer.email, deleted_at: expect.any(String) as string, ...nothing })
  const last = (await told(shop, forgotten)).at(-1)
  expect(last).toMatchObject({ deleted_at: expect.any(String) as string, ...nothing })
  expect(JSON.stringify(last)).not.toContain(forgotten.email)
  expect((await shop.api.send(getCustomerState, { params: { id: customer.id } })).status).toBe(404)
  expect((await shop.api.send(getCustomerStateToken, { params: { id: customer.id } })).status).toBe(404)
})

test('a state event has the time of the customer’s test clock', async () => {
  const shop = await world.shop()
  const clock = await shop.api.call(createTestClock, { body: { now: '2031-05-01T00:00:00Z' } })
  await shop.api.call(createCustomer, { body: { email: 'late@people.test', test_clock_id: clock.id } })
  await tellAll()
  const [event] = await shop.events('customer.state_changed')
  expect(event).toMatchObject({ timestamp: '2031-05-01T00:00:00.000Z', data: { email: 'late@people.test' } })
})

test('reads the state of a team of any size with the same number of statements, and marks a truncated state as incomplete', async () => {
  const shop = await world.shop()
  const customer = await person(shop)
  const product = await plan(shop)
  await sales.subscription(customer, product, [product.prices[0]!.id])
  const direct = await give(customer, await flag(shop))
  let statements = 0
  const db = { q: world.api.postgres.db.q.withPlugin({ transformQuery: ({ node }) => (statements++, node), transformResult: async ({ result }) => result }) }
  const scope = within(customer.organization_id, 'machine', 'phase2')
  /** Returns the number of benefits in an answer and in an event, their completeness, and the number of statements. */
  const measure = async () => {
    statements = 0
    await requireCustomerState(db, scope, world.clock.wall(), { id: customer.id })
    const state = await shop.api.call(getCustomerState, { params: { id: customer.id } })
    await world.transact((tx) => touchState(tx, { organization_id: customer.organization_id, customer_id: customer.id }))
    await tellAll()
    const event = (await told(shop, customer)).at(-1)!
    // The customer's own grants are never truncated.
    expect([state.granted_benefits[0]!.id, event.granted_benefits[0]!.id]).toEqual([direct, direct])
    const sizes = [state, event].map(({ granted_benefits, is_complete }) => [granted_benefits.length, is_complete])
    return { statements, answer: sizes[0], event: sizes[1] }
  }
  expect(await measure()).toEqual({ statements: 1, answer: [1, true], event: [1, true] })

  const benefits = [await flag(shop, 'one'), ...(await Promise.all(Array.from({ length: 9 }, (_, n) => flag(shop, `more-${n}`))))].map(({ id }) => id)
  const grow = async (seats: number): Promise<string> => {
    // Disables the audit triggers, which work row by row, to speed up the bulk insert.
    const noting = (how: 'enable' | 'disable') =>
      query(`alter table members ${how} trigger note_changes; alter table benefit_grants ${how} trigger note_changes`)
    await noting('disable')
    const [one] = await query<{ member_id: string }>(
      `with people as (
         insert into members (organization_id, id, customer_id, created_at, email, role)
         select $1, gen_random_uuid(), $2, $3, gen_random_uuid() || '@people.test', 'member' from generate_series(1, $5::int) returning id
       )
       insert into benefit_grants (organization_id, id, created_at, benefit_id, buyer_customer_id, member_id, is_manual, is_withheld, is_wanted, granted_at, properties, attempts)
       select $1, gen_random_uuid(), $3, benefit, $2, id, true, false, true, $3, '{}', 0 from people, unnest($4::uuid[]) benefit returning member_id`,
      [customer.organization_id, customer.id, new Date('2020-01-01'), benefits, seats],
    )
    await noting('enable')
    return one!.member_id
  }
  await grow(100)
  expect(await measure()).toEqual({ statements: 1, answer: [1001, true], event: [1000, false] })
  const somebody = await grow(900)
  expect(await measure()).toEqual({ statements: 1, answer: [10_000, false], event: [1000, false] })
  // The state of one member is small and complete.
  const theirs = await shop.api.call(getCustomerState, { params: { id: customer.id }, query: { member_id: somebody } })
  expect([theirs.granted_benefits.length, theirs.is_complete]).toEqual([10, true])
})

test('a signed state is verified offline: with published keys, for one seller, for five minutes, across a key rotation', async () => {
  const own = await openWorld()
  try {
    const shop = await own.shop()
    const customer = await shop.api.call(createCustomer, { body: { email: 'ada@people.test', external_id: 'ada' } })
    const params = { id: customer.id }
    const published = async () => createLocalJWKSet(JSON.parse((await exchange(own.port, 'GET', '/.well-known/jwks.json')).text) as JSONWebKeySet)
    const { issuer } = JSON.parse((await exchange(own.port, 'GET', '/.well-known/openid-configuration')).text) as { issuer: string }
    const check = (token: string, keys: Awaited<ReturnType<typeof published>>, { audience = shop.organization.id, ahead = 0 } = {}) =>
      jwtVerify<{ state: CustomerState }>(token, keys, {
        issuer,
        audience,
        typ: 'customer-state+jwt',
        algorithms: ['RS256'],
        currentDate: new Date(own.clock.wall().getTime() + ahead),
      })

    const before = await published()
    const { token, expires_at } = await shop.api.call(getCustomerStateToken, { params })
    const { payload, protectedHeader } = await check(token, before)
    expect(payload.sub).toBe(customer.id)
    expect(payload.state).toEqual(await shop.api.call(getCustomerState, { params }))
    expect([payload.exp! - payload.iat!, payload.exp]).toEqual([300, new Date(expires_at).getTime() / 1000])
    expect(Math.abs(payload.iat! - own.clock.wall().getTime() / 1000)).toBeLessThan(10)

    await expect(check(token, before, { ahead: 5 * minutes + seconds })).rejects.toThrow('"exp" claim timestamp check failed')
    await expect(check(token, before, { audience: (await own.organization()).id })).rejects.toThrow('unexpected "aud" claim value')
    const [head, , signature] = token.split('.')
    const forged = Buffer.from(JSON.stringify({ ...payload, sub: newId(own.clock.wall()) })).toString('base64url')
    await expect(check(`${head}.${forged}.${signature}`, before)).rejects.toThrow('signature verification failed')

    // Keys fetched before the rotation include the next signing key. Keys fetched after it include the previous one.
    own.clock.advance(6 * minutes)
    const last = await shop.api.call(getCustomerStateToken, { params })
    expect(await own.transact((tx) => rotateKeys(tx, own.platform))).toBe('rotated')
    await own.api.oauth.refreshKeys()
    const next = await shop.api.call(getExternalCustomerStateToken, { params: { external_id: 'ada' } })
    const after = await published()
    expect((await check(last.token, after)).protectedHeader.kid).toBe(protectedHeader.kid)
    expect((await check(next.token, before)).protectedHeader.kid).not.toBe(protectedHeader.kid)
    expect((await check(next.token, after)).payload.state.external_id).toBe('ada')
  } finally {
    await own.close()
  }
})
