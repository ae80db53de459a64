import { correctEvents, getUsageEvent, ingestEvents, listUsageEvents, type UserEvent } from '@bursar/contract'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { statementsOf } from '../../../../test/faults/sizes/statements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { deepenEvents, mergeChildren } from './children.ts'
import { linkChildren } from './parents.sql.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

type Api = Awaited<ReturnType<World['shop']>>['api']

const event = (external_id: string, parent_id?: string) => ({ name: external_id, external_customer_id: 'c', external_id, ...(parent_id ? { parent_id } : {}) })
const send = (api: Api, ...events: object[]) => api.call(ingestEvents, { body: { events: events as never } })
const listed = async (api: Api, query: object = {}) =>
  (await api.call(listUsageEvents, { query: { limit: 100, source: ['user'], ...query } })).items as unknown as UserEvent[]

test('counts the children of an event without reading them, also after a merge and a correction', async () => {
  const { api, organization } = await world.shop()
  const children = async () => (await api.call(getUsageEvent, { params: { id: root!.id } })).child_count
  await send(api, event('early', 'root'), event('void-early', 'root'))
  await api.call(correctEvents, { body: { corrections: [{ action: 'void', event_id: 'void-early', reason: 'Test' }] } })
  await send(api, event('root'))
  const [root] = await listed(api, { name: 'root' })
  expect(await children()).toBe(1)
  for (const batch of ['a', 'b']) await send(api, event(`${batch}1`, 'root'), event(`${batch}2`, 'root'), event(`${batch}3`, `${batch}1`))
  expect(await children()).toBe(5)
  const stored = async () =>
    (
      await world.database.owner((owner) =>
        owner.query<{ children: string }>('select children from usage_child_counts where organization_id = $1 and parent_id = $2', [organization.id, root!.id]),
      )
    ).rows.map((row) => Number(row.children))
  await mergeChildren(deployment.deps)
  expect([await children(), await stored()]).toEqual([5, [5]])
  await api.call(correctEvents, { body: { corrections: [{ action: 'void', event_id: 'b2', reason: 'Test' }] } })
  expect(await children()).toBe(4)
  await mergeChildren(deployment.deps)
  expect([await children(), await stored()]).toEqual([4, [4]])
  const { statements } = await statementsOf(() => listed(api))
  const loading = statements.filter(({ text }) => text.includes('child_count'))
  expect(loading).toHaveLength(1)
  expect(loading[0]!.text.match(/from usage_events/g)).toHaveLength(1)
})

test('the depth of many descendants of a late ancestor is corrected in slices, and is right in the end', async () => {
  const { api, organization } = await world.shop()
  // X waits for P, and P for G. Below X are 6 children with 4 grandchildren each.
  const children = Array.from({ length: 6 }, (_, at) => event(`c${at}`, 'x'))
  const grandchildren = Array.from({ length: 24 }, (_, at) => event(`g${at}`, `c${at % 6}`))
  await send(api, event('x', 'p'), event('alone', 'p'), ...children, ...grandchildren)
  const linked = (name: string, most: number) =>
    world.transact(async (tx) => {
      const { rows } = await sql<{ id: string }>`select id from usage_events where organization_id = ${organization.id} and name = ${name}`.execute(tx.q)
      return linkChildren(tx, organization.id, [{ external_id: name, id: rows[0]!.id }], most)
    })
  const depths = async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ name: string; depths: number[] }>(
        `select left(name, 1) as name, array_agg(distinct depth::int order by depth::int) as depths from usage_events where organization_id = $1 group by 1`,
        [organization.id],
      ),
    )
    return Object.fromEntries(rows.map((row) => [row.name, row.depths]))
  }
  // The parent arrives as if it had another external id. So the test links it with a smaller bound than a request.
  await world.database.owner((owner) => owner.query(`update usage_events set awaited_parent = awaited_parent || '-late' where awaited_parent is not null`))
  await send(api, event('p', 'g'))
  const rename = (name: string) =>
    world.database.owner((owner) =>
      owner.query(`update usage_events set awaited_parent = $2 where organization_id = $1 and awaited_parent = $2 || '-late'`, [organization.id, name]),
    )
  await rename('p')
  expect(await linked('p', 10)).toBeUndefined()
  // The request has corrected the children of P only.
  expect(await depths()).toEqual({ p: [0], x: [1], a: [1], c: [1], g: [2] })
  await deepenEvents(deployment.deps, 2)
  expect(await depths()).toEqual({ p: [0], x: [1], a: [1], c: [2], g: [3] })
  // A child that arrives later has the right depth at once.
  await send(api, event('c9', 'x'))
  expect((await depths()).c).toEqual([2])
  const { statements } = await statementsOf(() => deepenEvents(deployment.deps))
  expect(statements).toHaveLength(1)
})

test('a request refuses a late ancestor if too many are above its descendants, also in a large tree', async () => {
  const { api } = await world.shop()
  const chain = Array.from({ length: 100 }, (_, at) => event(`e${at}`, at === 0 ? 'late' : `e${at - 1}`))
  await send(api, ...chain)
  const { status } = await api.sendRaw(ingestEvents, { body: { events: [event('late', 'top')] } })
  expect(status).toBe(200)
  expect((await api.sendRaw(ingestEvents, { body: { events: [event('top')] } })).status).toBe(422)
})

test('the number of children is exact after concurrent requests, corrections and merges', async () => {
  const { api } = await world.shop()
  await send(api, event('root'))
  const [root] = await listed(api)
  const lane = async (name: string) => {
    for (let round = 0; round < 6; round++) {
      await send(api, event(`${name}-${round}-a`, 'root'), event(`${name}-${round}-b`, 'root'))
      await api.call(correctEvents, { body: { corrections: [{ action: 'void', event_id: `${name}-${round}-a`, reason: 'Test' }] } })
    }
  }
  const merge = async () => {
    for (let round = 0; round < 12; round++) await mergeChildren(deployment.deps)
  }
  await Promise.all([lane('one'), lane('two'), lane('three'), merge()])
  const children = async () => (await api.call(getUsageEvent, { params: { id: root!.id } })).child_count
  expect(await children()).toBe(18)
  await mergeChildren(deployment.deps)
  expect(await children()).toBe(18)
})
