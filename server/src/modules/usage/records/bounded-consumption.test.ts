import { correctEvents, createCustomer, createMeter, ingestEvents } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { statementsOf } from '../../../../test/faults/sizes/statements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { within } from '../../../kernel/actors.ts'
import { mergeUsage } from '../counting/merging.ts'
import { loadConsumed } from './bounded-consumption.sql.ts'
import { loadAtOnce } from './consumption.sql.ts'

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

const start = Date.UTC(2026, 0, 5, 10, 7, 30)

test('many unique values are counted in parts, and their number is that of all values together', async () => {
  const shop = await world.shop()
  const { id: organization_id } = shop.organization
  const filter = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: 'call' }] }
  const meters = [
    await shop.api.call(createMeter, { body: { name: 'Users', filter, aggregation: { func: 'unique', property: 'user' } } }),
    await shop.api.call(createMeter, { body: { name: 'Calls', filter, aggregation: { func: 'count' } } }),
  ]
  for (let round = 0; round < 5; round++) await deployment.sweep('usage.backfill_meters')
  // The events of the customer have two subjects: its external id before it existed, and the customer.
  const send = (from: number, count: number, minutes: number) =>
    shop.api.call(ingestEvents, {
      body: {
        events: Array.from({ length: count }, (_, at) => ({
          name: at % 7 === 0 ? 'other' : 'call',
          external_customer_id: 'many',
          external_id: `${from}-${minutes}-${at}`,
          timestamp: new Date(start + (minutes * 60_000 * at) / count).toISOString(),
          metadata: { user: from + at },
        })),
      },
    })
  await send(0, 300, 120)
  const customer = await shop.api.call(createCustomer, { body: { email: 'many@people.test', external_id: 'many' } })
  await send(200, 300, 90)
  await mergeUsage(deployment.deps)
  await send(100, 50, 130)
  await send(1000, 20, 5)
  await shop.api.call(correctEvents, {
    body: { corrections: ['0-120-1', '1000-5-2'].map((event_id) => ({ action: 'void' as const, event_id, reason: 'Test' })) },
  })
  const scope = within(organization_id, 'machine', 'phase2')
  const date = (minutes: number | null) => (minutes === null ? null : new Date(start + minutes * 60_000))
  const ranges = [
    [null, null],
    [0, 200],
    [3, 100.5],
    [7.5, 97.5],
    [1, 4],
    [60, null],
    [null, 60],
  ] as const
  const asked = ranges.flatMap(([since, until]) =>
    meters.map((meter) => ({ organization_id, customer_id: customer.id, meter, since: date(since), until: date(until) })),
  )
  const { transact } = deployment.deps
  const expected = await transact((tx) => loadAtOnce(tx, scope, asked))
  expect(Number(expected[0])).toBeGreaterThan(400)
  for (const most of [1_000_000, 50, 7])
    for (const billed of [true, false]) expect(await transact((tx) => loadConsumed(tx, scope, asked, { most, billed }))).toEqual(expected)

  // No statement counts more than 50 of the values.
  const { statements } = await statementsOf(() => transact((tx) => loadConsumed(tx, scope, asked.slice(0, 1), { most: 50 })))
  const counting = statements.filter(({ text }) => text.includes('q.hash between'))
  expect(counting.length).toBeGreaterThanOrEqual(10)
  expect(statements.filter(({ text }) => text.includes('count(distinct t.hash)'))).toEqual([])

  // Smaller quantities are counted together, up to the same number of values.
  const small = [...asked.slice(8, 10), ...asked.slice(8, 10), ...asked.slice(8, 10)]
  const together = await statementsOf(() => transact((tx) => loadConsumed(tx, scope, small, { most: 3 * Number(expected[9]) })))
  expect(together.answer).toEqual([expected[8], expected[9], expected[8], expected[9], expected[8], expected[9]])
  expect(together.statements.filter(({ text }) => text.includes('count(distinct t.hash)'))).toHaveLength(1)
  const apart = await statementsOf(() => transact((tx) => loadConsumed(tx, scope, small, { most: Number(expected[9]) + 5 })))
  expect(apart.answer).toEqual(together.answer)
  expect(apart.statements.filter(({ text }) => text.includes('count(distinct t.hash)')).length).toBeGreaterThan(1)
})
