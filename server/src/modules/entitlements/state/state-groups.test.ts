import { createCustomer, createTestClock, type CustomerState } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife, type Life } from '../../../../test/harness/crashes.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { claim, LeaseLost, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { emitCustomerStates } from './state.ts'

let world: World
let life: Life
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  life = openLife(null)
  deployment = await openDeployment(world, life)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Shop = Awaited<ReturnType<World['shop']>>

const owner = <T extends object>(statement: string, values: unknown[] = []) =>
  world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)

const customers = async ({ api }: Shop, count: number, body: Record<string, unknown> = {}): Promise<string[]> => {
  const ids: string[] = []
  for (let n = 0; n < count; n++) ids.push((await api.call(createCustomer, { body: { email: `p${n}-${newId(world.clock.wall())}@people.test`, ...body } })).id)
  return ids
}

/** Waits until the debounce interval has passed, then leases all due states. */
const leased = async (): Promise<Lease[]> => {
  world.clock.advance(1001)
  return claim(deployment.deps.transact, 'customer_states', { holder: 'test', limit: 50, lease_ms: sweeps['entitlements.tell_state'].lease_ms })
}

const outcomes = async (rows: readonly Promise<void>[]) =>
  (await Promise.allSettled(rows)).map((row) => (row.status === 'fulfilled' ? 'done' : row.reason instanceof LeaseLost ? 'lost' : String(row.reason)))

const told = async (shop: Shop) => (await shop.events('customer.state_changed')).map(({ data }) => (data as unknown as CustomerState).id)

const due = (ids: readonly string[]) => owner<{ id: string }>('select id from customer_states where id = any($1) and due_at is not null', [ids])

test('emits the states of several customers in one transaction', async () => {
  const shop = await world.shop()
  const ids = await customers(shop, 5)
  const leases = await leased()
  const before = life.effects.length
  expect(await outcomes(emitCustomerStates(deployment.deps, leases))).toEqual(ids.map(() => 'done'))
  expect(life.effects.slice(before)).toEqual(['commit'])
  expect((await told(shop)).toSorted()).toEqual(ids.toSorted())
  expect(await due(ids)).toEqual([])
})

test('emits the state of a customer with a test clock alone, at the time of that clock', async () => {
  const shop = await world.shop()
  const now_at = new Date('2031-01-01T00:00:00Z')
  const clock = await shop.api.call(createTestClock, { body: { now: now_at.toISOString() } })
  const [plain] = await customers(shop, 1)
  const [timed] = await customers(shop, 1, { test_clock_id: clock.id })
  const leases = await leased()
  const before = life.effects.length
  expect(await outcomes(emitCustomerStates(deployment.deps, leases))).toEqual(['done', 'done'])
  expect(life.effects.slice(before)).toEqual(['commit', 'commit'])
  const rows = await owner<{ resource_id: string; business_at: Date }>(
    `select resource_id, business_at from events where organization_id = $1 and kind = 'customer.state_changed'`,
    [shop.organization.id],
  )
  const times = new Map(rows.map(({ resource_id, business_at }) => [resource_id, business_at]))
  expect([times.size, times.get(timed!)]).toEqual([2, now_at])
  expect(times.get(plain!)!.getTime()).toBeLessThan(now_at.getTime())
})

test('emits nothing for a customer whose lease is lost, and emits the others', async () => {
  const shop = await world.shop()
  const ids = await customers(shop, 4)
  const leases = await leased()
  const [taken, expired, ...others] = leases
  await owner('update customer_states set lease_token = $2 where id = $1', [taken!.id, newId(world.clock.wall())])
  await owner('update customer_states set lease_until = $2 where id = $1', [expired!.id, world.clock.wall()])
  expect(await outcomes(emitCustomerStates(deployment.deps, leases))).toEqual(['lost', 'lost', 'done', 'done'])
  expect((await told(shop)).toSorted()).toEqual(others.map(({ id }) => id).toSorted())
  expect((await due(ids)).map(({ id }) => id).toSorted()).toEqual([taken!.id, expired!.id].toSorted())
  await owner('update customer_states set due_at = null where organization_id = $1', [shop.organization.id])
})

test('emits each state alone if the transaction of the group fails', async () => {
  const shop = await world.shop()
  await customers(shop, 3)
  const leases = await leased()
  const bad = leases[1]!.id
  await owner(`create function refuse_state() returns trigger language plpgsql as $$ begin raise 'no state of %', new.resource_id; end $$`)
  await owner(
    `create trigger refuse_state before insert on events for each row when (new.resource_id = '${bad}' and new.kind = 'customer.state_changed') execute function refuse_state()`,
  )
  try {
    expect(await outcomes(emitCustomerStates(deployment.deps, leases))).toEqual(['done', `error: no state of ${bad}`, 'done'])
  } finally {
    await owner('drop function refuse_state cascade')
  }
  expect((await told(shop)).toSorted()).toEqual([leases[0]!.id, leases[2]!.id].toSorted())
  expect((await due([bad])).map(({ id }) => id)).toEqual([bad])
})
