import { correctEvents, ingestEvents } from '@bursar/contract'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { correct, customerOf, meterOf, metersOf, openUsage, send, start, voiding, type Usage } from '../../../../test/harness/corrections.ts'
import { eventually } from '../../../../test/harness/world.ts'
import type { Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { countStored, findBackfill, saveBackfill } from '../counting/counting.sql.ts'
import { mergeQuarters, mergeUniques } from '../counting/merging.sql.ts'
import { mergeUsage } from '../counting/merging.ts'

let usage: Usage
beforeAll(async () => {
  usage = await openUsage()
})
afterAll(() => usage.close())

const isWaiting = () =>
  eventually('a request waits', () =>
    usage.world.database.owner(
      async (owner) => (await owner.query(`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)).rows.length > 0,
    ),
  )

/** Runs work in a transaction of a worker, and leaves it open until `finish` is called. */
const holding = async (work: (tx: Tx) => Promise<unknown>) => {
  const gate = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const done = usage.deployment.deps.transact(async (tx) => {
    await work(tx)
    begun.resolve()
    await gate.promise
  })
  await Promise.race([begun.promise, done])
  return async () => {
    gate.resolve()
    await done
  }
}

test('a correction waits for a merge of the same totals', async () => {
  const shop = await usage.world.shop()
  const meters = await metersOf(shop)
  await usage.backfill()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1, 9, 4], 1000)
  const finish = await holding((tx) => mergeQuarters(tx, { after: undefined, postponed: [], meters: 100, rows: 10_000 }))
  const corrected = correct(shop, voiding('e1'))
  try {
    await isWaiting()
  } finally {
    await finish()
  }
  await corrected
  const expected = ['2', '5', '4', '1', '2.5', '2']
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(expected)
  await mergeUsage(usage.deployment.deps)
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(expected)
})

test('a merge leaves out an organization whose events are being corrected', async () => {
  const shop = await usage.world.shop()
  const meters = await metersOf(shop)
  await usage.backfill()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1, 9, 4], 1000)
  const finish = await holding((tx) => sql`select * from meters_to_correct(${shop.organization.id})`.execute(tx.q))
  try {
    await mergeUsage(usage.deployment.deps)
  } finally {
    await finish()
  }
  const merged = () =>
    usage.world.database.owner(
      async (owner) => (await owner.query('select 1 from usage_quarters where organization_id = $1 and is_merged', [shop.organization.id])).rows.length,
    )
  expect(await merged()).toBe(0)
  await mergeUsage(usage.deployment.deps)
  expect(await merged()).toBeGreaterThan(0)
  expect((await usage.consumedOf(shop, customer.id, meters))[0]).toBe('3')
})

test('a value that arrives again while its event is corrected is kept by the merge that begins before the correction ends', async () => {
  const shop = await usage.world.shop()
  const meter = await meterOf(shop, { func: 'unique', property: 'units' })
  await usage.backfill()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [7])
  await mergeUsage(usage.deployment.deps)
  const { id: organization_id } = shop.organization
  const again = { name: 'call', customer_id: customer.id, timestamp: new Date(start).toISOString(), metadata: { units: 7 } }
  const owner = (statement: string) => usage.world.database.owner((client) => client.query(statement))
  const { rows } = await usage.world.database.owner((client) =>
    client.query<{ definition: string }>(`select pg_get_functiondef('correction_lock'::regproc) as definition`),
  )
  // The correction deletes the value before the event with the same value is committed.
  const finish = await holding(async (tx) => {
    await sql`select * from meters_to_correct(${organization_id})`.execute(tx.q)
    await sql`delete from usage_uniques where organization_id = ${organization_id}`.execute(tx.q)
  })
  await shop.api.call(ingestEvents, { body: { events: [again] } })
  // The merge begins while the correction is open, and gets its lock after the correction has ended.
  await owner(rows[0]!.definition.replace(/'usage corrections '/, `pg_sleep(1)::text || 'usage corrections '`).replace(/immutable/i, 'volatile'))
  const merged = usage.deployment.deps.transact((tx) => mergeUniques(tx, { after: undefined, postponed: [], meters: 100, rows: 10_000 }))
  await new Promise((resolve) => setTimeout(resolve, 400))
  await finish()
  await merged
  await owner(rows[0]!.definition)
  expect(await usage.consumedOf(shop, customer.id, [meter])).toEqual(['1'])
  await mergeUsage(usage.deployment.deps)
  expect(await usage.consumedOf(shop, customer.id, [meter])).toEqual(['1'])
})

test('a correction waits for a chunk of the backfill, and subtracts only events that were counted', async () => {
  const shop = await usage.world.shop()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1, 9, 4, 9, 5, 9], 1000)
  const meters = await metersOf(shop)
  const { id: organization_id } = shop.organization
  const finish = await holding(async (tx) => {
    for (const { id } of meters) {
      const lease = { table: 'usage_meters', organization_id, id } as Lease
      await sql`select 1 from usage_meters where organization_id = ${organization_id} and id = ${id} for no key update`.execute(tx.q)
      const meter = (await findBackfill(tx, lease))!
      await saveBackfill(tx, lease, await countStored(tx, organization_id, meter, 3))
    }
  })
  const corrected = correct(shop, voiding('e1'), voiding('e3'), voiding('e4'))
  try {
    await isWaiting()
  } finally {
    await finish()
  }
  await corrected
  const expected = ['3', '14', '9', '1', '4.666666666667', '3']
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(expected)
  await usage.backfill()
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(expected)
  await correct(shop, voiding('e5'))
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(['2', '5', '4', '1', '2.5', '2'])
})

test('concurrent corrections of the same events count once, while events arrive and totals are merged', async () => {
  const shop = await usage.world.shop()
  const early = await metersOf(shop)
  const customer = await customerOf(shop, 'ada')
  const late: Awaited<ReturnType<typeof metersOf>> = []
  const ingest = async (lane: number) => {
    for (let round = 0; round < 6; round++)
      await shop.api.call(ingestEvents, {
        body: {
          events: [1, 2, 3, 4].map((value) => ({
            name: 'call',
            customer_id: customer.id,
            external_id: `${lane}-${round}-${value}`,
            timestamp: new Date(start).toISOString(),
            metadata: { units: value * 10 + lane },
          })),
        },
      })
  }
  const voidAll = async (lane: number) => {
    for (let round = 0; round < 6; round++)
      await eventually('the event is stored', async () => {
        const { status } = await shop.api.send(correctEvents, {
          body: { corrections: [voiding(`${lane}-${round}-4`), voiding(`${lane}-${round}-1`)] as never },
        })
        return status === 200
      })
  }
  const work = async () => {
    for (let round = 0; round < 8; round++) {
      if (round === 2) late.push(...(await metersOf(shop)))
      await usage.deployment.sweep('usage.backfill_meters')
      await mergeUsage(usage.deployment.deps)
    }
  }
  await Promise.all([ingest(0), ingest(1), voidAll(0), voidAll(0), voidAll(1), work()])
  await usage.backfill()
  // 12 batches, each with the events of 2 and 3 left.
  const expected = ['24', String(6 * (20 + 30 + 21 + 31)), '31', '20', '25.5', '4']
  expect(await usage.consumedOf(shop, customer.id, [...early, ...late])).toEqual([...expected, ...expected])
  await mergeUsage(usage.deployment.deps)
  expect(await usage.consumedOf(shop, customer.id, [...early, ...late])).toEqual([...expected, ...expected])
  const { rows } = await usage.world.database.owner((owner) =>
    owner.query<{ corrections: number }>('select count(*)::int as corrections from usage_corrections where organization_id = $1', [shop.organization.id]),
  )
  expect(rows[0]!.corrections).toBe(24)
})
