import {
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createMeter,
  createUsageReservation,
  getUsageReservation,
  ingestEvents,
  listCustomerMeters,
  releaseUsageReservation,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Died, openDeployment, openLife } from '../harness/crashes.ts'
import { counted } from '../harness/pace.ts'
import { openWorld, type World } from '../harness/world.ts'

const rounds = counted('RESERVATION_ROUNDS', 8, 3)

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const times = <T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, at) => work(at)))
const credits = 20

/** Reserves units. On a slow machine, a request that waits too long for the others gets 429, and is sent again. */
const ask = async (by: Client, body: { customer_id: string; meter_id: string; units: number; key: string }) => {
  for (;;) {
    const answer = await by.send(createUsageReservation, { body })
    if (answer.status !== 429) return answer
  }
}

const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  const filter = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: 'call' }] }
  const meter = await api.call(createMeter, { body: { name: 'Calls', filter, aggregation: { func: 'sum', property: 'units' } } })
  const benefit = await api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Units', properties: { meter_id: meter.id, units: credits, rollover: false } },
  })
  /** A customer with 20 units. */
  const customer = async (name: string) => {
    const { id } = await api.call(createCustomer, { body: { email: `${name}@people.test` } })
    await api.call(createBenefitGrant, { body: { customer_id: id, benefit_id: benefit.id } })
    const reserve = (key: string, units = 1, by: Client = api) => ask(by, { customer_id: id, meter_id: meter.id, units, key: `${name} ${key}` })
    const settle = (reservation_id: string, units: number) =>
      api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: id, metadata: { units, _reservation: reservation_id } }] } })
    const balance = async () => (await api.call(listCustomerMeters, { query: { customer_id: id } })).items[0]!.balance
    return { id, reserve, settle, balance }
  }
  /**
   * Clients of people with different sets of organizations. The process lets one request of each set write at a time, so their
   * requests reach the database together.
   */
  const callers = await times(5, async (at) => {
    const person = await world.person()
    await world.join(organization.id, person.id, 'admin')
    for (let more = 0; more < at; more++) await world.join((await world.organization()).id, person.id, 'admin')
    return world.client({ token: (await person.token()).secret })
  })
  return { ...shop, meter, customer, callers }
}

const idOf = ({ body }: { readonly body: unknown }) => (body as { id: string }).id
const made = (answers: readonly { readonly status: number }[]) => answers.filter(({ status }) => status === 201).length

test('[S1-13] never reserves a unit too many for fifty callers, while others settle and release', { timeout: 1_800_000 }, async () => {
  const { api, customer, callers } = await open()
  for (let round = 0; round < rounds; round++) {
    const { reserve, settle, balance } = await customer(`round-${round}`)
    const leases = await times(10, async (at) => idOf(await reserve(`held-${at}`)))
    const release = (id: string) => api.call(releaseUsageReservation, { params: { id } })
    // 10 units are free. Three leases are released, and five are settled, two of them with half their units. So 14 become free.
    const usage = [0.5, 0.5, 1, 1, 1]
    const [answers] = await Promise.all([
      times(50, (at) => reserve(`last-${at}`, 1, callers[at % callers.length])),
      times(3, (at) => release(leases[at]!)),
      times(5, (at) => settle(leases[3 + at]!, usage[at]!)),
    ])
    expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true)
    expect(made(answers)).toBeGreaterThanOrEqual(10)
    // No unit is lost either: the rest of the 14 can be reserved.
    const rest = await times(20, (at) => reserve(`rest-${at}`, 1, callers[at % callers.length]))
    expect(made(answers) + made(rest)).toBe(14)
    expect(await balance()).toBe(16)
    expect((await reserve('none', 0.001)).body).toMatchObject({ error: 'NotEnoughUnits', balance: 16, free_units: 0, reserved_units: 16 })
    // Expired units return.
    world.clock.advance(300_000)
    const again = await times(30, (at) => reserve(`again-${at}`, 1, callers[at % callers.length]))
    expect(made(again)).toBe(16)
  }
})

test('returns one reservation to fifty callers with the same key', { timeout: 600_000 }, async () => {
  const { customer, callers } = await open()
  const { reserve } = await customer('same')
  for (let round = 0; round < rounds; round++) {
    const answers = await times(50, (at) => reserve(`key-${round}`, 0.01, callers[at % callers.length]))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
    expect(new Set(answers.map(idOf)).size).toBe(1)
  }
})

test('gives a key to one of two customers', async () => {
  const { api, meter, customer, callers } = await open()
  const two = [await customer('one'), await customer('other')]
  const answers = await times(20, (at) => ask(callers[at % callers.length]!, { customer_id: two[at % 2]!.id, meter_id: meter.id, units: 1, key: 'job' }))
  expect(made(answers)).toBe(10)
  expect(new Set(answers.filter(({ status }) => status === 201).map(idOf)).size).toBe(1)
  expect(answers.find(({ status }) => status !== 201)).toMatchObject({ status: 409, body: { error: 'ReservationKeyUsed' } })
  expect(await api.call(getUsageReservation, { params: { id: idOf(answers.find(({ status }) => status === 201)!) } })).toMatchObject({ key: 'job' })
})

for (const side of ['before', 'after'] as const)
  test(`holds the units once if the process ends ${side} the commit, and the caller tries again`, async () => {
    const { customer, meter, organization } = await open()
    const { id, reserve } = await customer('crash')
    const deployment = await openDeployment(world, openLife({ point: 1, side }))
    try {
      const dying = deployment.client((await organization.token()).secret.reveal())
      const ask = dying.send(createUsageReservation, { body: { customer_id: id, meter_id: meter.id, units: 15, key: 'crash job' } })
      const answer = await ask.catch((error: unknown) => ({ status: error instanceof Died ? 500 : 503 }))
      expect(answer.status).toBeGreaterThanOrEqual(500)
    } finally {
      await deployment.close()
    }
    // After the commit, the reservation holds 15 units, and the worker that asked for it is gone.
    expect((await reserve('other', 6)).status).toBe(side === 'after' ? 409 : 201)
    if (side === 'before') return
    const again = await reserve('job', 15)
    expect(again).toMatchObject({ status: 201, body: { status: 'live', units: 15 } })
    expect((await reserve('third', 5)).status).toBe(201)
    world.clock.advance(300_000)
    expect((await reserve('fourth', credits)).status).toBe(201)
  })
