import {
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createMeter,
  createUsageReservation,
  getCustomerState,
  getCustomerStateToken,
  getUsageReservation,
  ingestEvents,
  listCustomerMeters,
  releaseUsageReservation,
  type Aggregation,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { purgeReservations } from '../../usage/records/reservations.sql.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const open = async (credits = 10, aggregation: Aggregation = { func: 'sum', property: 'units' }) => {
  const shop = await world.shop()
  const { api } = shop
  const filter = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: 'call' }] }
  const meter = await api.call(createMeter, { body: { name: 'Calls', filter, aggregation } })
  const ada = await api.call(createCustomer, { body: { email: 'ada@people.test', external_id: 'ada' } })
  const benefit = await api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Units', properties: { meter_id: meter.id, units: credits, rollover: false } },
  })
  await api.call(createBenefitGrant, { body: { customer_id: ada.id, benefit_id: benefit.id } })
  const body = (units: number, key: string, more: object = {}) => ({ customer_id: ada.id, meter_id: meter.id, units, key, ...more })
  const reserve = (units: number, key: string, more?: object) => api.call(createUsageReservation, { body: body(units, key, more) })
  const refused = async (units: number, key: string, more?: object) => (await api.send(createUsageReservation, { body: body(units, key, more) })) as object
  const use = (units: number, metadata: object = {}, more: object = {}) =>
    api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: ada.id, metadata: { units, ...metadata }, ...more }] } })
  const read = (id: string) => api.call(getUsageReservation, { params: { id } })
  const release = (id: string) => api.call(releaseUsageReservation, { params: { id } })
  const balance = async () => (await api.call(listCustomerMeters, { query: { customer_id: ada.id } })).items[0]?.balance
  return { ...shop, meter, ada, benefit, body, reserve, refused, use, read, release, balance }
}

test('shows reserved units and the age of the balance in the customer state, and in its signed form', async () => {
  const { api, ada, reserve, use, release } = await open(10)
  await use(1)
  const lease = await reserve(4.5, 'job')
  await reserve(2, 'short', { expires_in: 1 })
  world.clock.advance(1000)
  const at = world.clock.wall()
  const expected = { consumed_units: 1, credited_units: 10, balance: 9, reserved_units: 4.5 }
  const [meter] = (await api.call(getCustomerState, { params: { id: ada.id } })).active_meters
  expect(meter).toMatchObject(expected)
  expect(Date.parse(meter!.as_of)).toBeGreaterThanOrEqual(at.getTime())
  const { token } = await api.call(getCustomerStateToken, { params: { id: ada.id } })
  const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as { iat: number; state: { active_meters: { as_of: string }[] } }
  expect(claims.state.active_meters).toMatchObject([expected])
  expect(Math.floor(Date.parse(claims.state.active_meters[0]!.as_of) / 1000)).toBe(claims.iat)
  await release(lease.id)
  expect((await api.call(getCustomerState, { params: { id: ada.id } })).active_meters).toMatchObject([{ ...expected, reserved_units: 0 }])
})

test('[S1-13] holds units, and refuses more than the balance without live reservations', async () => {
  const { reserve, refused, use, ada, meter, api } = await open(10)
  const first = await reserve(6.5, 'job-1')
  expect(first).toMatchObject({ customer_id: ada.id, meter_id: meter.id, key: 'job-1', units: 6.5, status: 'live', settled_at: null, event_id: null })
  expect(Date.parse(first.expires_at) - Date.parse(first.created_at)).toBe(300_000)
  await use(1)
  expect(await refused(2.6, 'job-2')).toMatchObject({
    status: 409,
    body: {
      error: 'NotEnoughUnits',
      asked_units: 2.6,
      free_units: 2.5,
      balance: 9,
      reserved_units: 6.5,
      detail: expect.stringContaining('2.5 are free') as string,
    },
  })
  await reserve(2.5, 'job-3')
  expect(await refused(0.000001, 'job-4')).toMatchObject({ status: 409, body: { free_units: 0 } })
  // Another customer has no credits, also by its external id.
  await api.call(createCustomer, { body: { email: 'bob@people.test', external_id: 'bob' } })
  expect(await api.send(createUsageReservation, { body: { external_customer_id: 'bob', meter_id: meter.id, units: 1, key: 'job-5' } })).toMatchObject({
    status: 409,
    body: { error: 'NotEnoughUnits', balance: 0, reserved_units: 0 },
  })
})

test('settles a reservation by the first event that names it, with the real usage', async () => {
  const { reserve, use, read, refused, balance } = await open(10)
  const lease = await reserve(8, 'job')
  await use(3, { _reservation: lease.id })
  expect(await read(lease.id)).toMatchObject({ status: 'settled', settled_at: expect.any(String) as string, event_id: expect.any(String) as string })
  expect(await balance()).toBe(7)
  const other = await reserve(7, 'job-2')
  // The event is the truth: usage is never refused, and the overrun counts.
  await use(9, { _reservation: other.id })
  expect(await balance()).toBe(-2)
  expect(await refused(1, 'job-3')).toMatchObject({ status: 409, body: { free_units: -2, balance: -2, reserved_units: 0 } })
  // Further events that name it only count.
  const { event_id } = await read(lease.id)
  await use(1, { _reservation: lease.id })
  expect(await read(lease.id)).toMatchObject({ status: 'settled', event_id })
  expect(await balance()).toBe(-3)
})

test('settles several reservations by one request, and keeps those of duplicates and of other sellers', async () => {
  const { api, ada, reserve, read } = await open(10)
  const stranger = await open(10)
  const leases = await Promise.all([1, 2, 3].map((units) => reserve(units, `job-${units}`)))
  const foreign = await stranger.reserve(1, 'job')
  const event = (lease: { id: string }, external_id: string) => ({
    name: 'call',
    customer_id: ada.id,
    external_id,
    metadata: { units: 1, _reservation: lease.id },
  })
  await api.call(ingestEvents, { body: { events: [event(leases[2]!, 'c'), event(leases[0]!, 'a'), event(foreign, 'f')] } })
  // Its external id is known, so this event is no usage and settles nothing.
  await api.call(ingestEvents, { body: { events: [event(leases[1]!, 'a')] } })
  expect((await Promise.all(leases.map(({ id }) => read(id)))).map(({ status }) => status)).toEqual(['settled', 'live', 'settled'])
  expect(await stranger.read(foreign.id)).toMatchObject({ status: 'live' })
})

test('expires by itself, and counts usage that names an expired, a released or an unknown reservation', async () => {
  const { reserve, refused, use, read, release, balance } = await open(10)
  const lease = await reserve(10, 'job', { expires_in: 60 })
  expect(await refused(1, 'other')).toMatchObject({ status: 409 })
  world.clock.advance(60_000)
  expect(await read(lease.id)).toMatchObject({ status: 'expired', settled_at: null })
  const second = await reserve(4, 'other')
  await use(1, { _reservation: lease.id })
  expect(await read(lease.id)).toMatchObject({ status: 'settled' })
  expect(await release(second.id)).toMatchObject({ status: 'released', released_at: expect.any(String) as string })
  const released = await release(second.id)
  await use(1, { _reservation: second.id })
  expect(await read(second.id)).toEqual(released)
  await use(1, { _reservation: '00000000-0000-4000-8000-000000000000' })
  expect(await balance()).toBe(7)
})

test('returns the first reservation for the same key, and refuses the key for other units', async () => {
  const { reserve, refused, release } = await open(10)
  const first = await reserve(10, 'job')
  expect(await reserve(10, 'job')).toEqual(first)
  expect(await refused(9, 'job')).toMatchObject({ status: 409, body: { error: 'ReservationKeyUsed' } })
  await release(first.id)
  expect(await reserve(10, 'job')).toMatchObject({ id: first.id, status: 'released' })
  await reserve(10, 'job-2')
})

test('rejects meters that do not add up, unknown customers and meters, and invalid input', async () => {
  const { api, body, refused } = await open(10, { func: 'max', property: 'units' })
  expect(await refused(1, 'job')).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'meter_id'] }] } })
  const other = await open()
  expect(await api.send(createUsageReservation, { body: other.body(1, 'job') })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'meter_id'] }] },
  })
  expect(await other.refused(1, 'job', { customer_id: body(1, '').customer_id })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'customer_id'] }] },
  })
  for (const wrong of [{ units: 0 }, { units: -1 }, { expires_in: 0 }, { expires_in: 86_401 }, { key: '' }, { external_customer_id: 'ada' }])
    expect((await other.api.sendRaw(createUsageReservation, { body: other.body(1, 'job', wrong) })).status).toBe(422)
  const named = { name: 'call', customer_id: other.ada.id, metadata: { _reservation: 'none' } }
  expect((await other.api.sendRaw(ingestEvents, { body: { events: [named] } })).status).toBe(422)
})

test('rejects missing credentials, a wrong scope, a wrong role and the reservation of another seller', async () => {
  const { organization, body, reserve } = await open()
  const lease = await reserve(1, 'job')
  const call = { body: body(1, 'job-2') }
  expect((await world.client().send(createUsageReservation, call)).status).toBe(401)
  const reader = world.client({ token: (await organization.token(['customer_meters:read'])).secret })
  expect((await reader.send(createUsageReservation, call)).status).toBe(403)
  expect((await reader.send(getUsageReservation, { params: { id: lease.id } })).status).toBe(200)
  expect((await reader.send(releaseUsageReservation, { params: { id: lease.id } })).status).toBe(403)
  const person = await world.person()
  await world.join(organization.id, person.id, 'finance')
  const accountant = world.client({ token: (await person.token()).secret })
  expect(await accountant.send(createUsageReservation, call)).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })
  expect(await accountant.send(releaseUsageReservation, { params: { id: lease.id } })).toMatchObject({ status: 403 })
  const stranger = (await world.shop()).api
  expect((await stranger.send(getUsageReservation, { params: { id: lease.id } })).status).toBe(404)
  expect((await stranger.send(releaseUsageReservation, { params: { id: lease.id } })).status).toBe(404)
})

test('deletes reservations two days after their end, and not before', async () => {
  const { reserve, api } = await open()
  const lease = await reserve(1, 'job')
  const remains = async () => (await api.send(getUsageReservation, { params: { id: lease.id } })).status
  world.clock.advance(2 * 86_400_000)
  const purge = () => purgeReservations({ transact: world.transactAsWorker })
  await purge()
  expect(await remains()).toBe(200)
  world.clock.advance(300_001)
  await purge()
  expect(await remains()).toBe(404)
})
