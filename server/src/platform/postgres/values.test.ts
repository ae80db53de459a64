import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../test/harness/world.ts'
import { isUnavailable } from './outage.ts'
import { groupByValues, TooManyValues } from './values.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const numbers = (count: number) => sql`select count(*)::int as count from (values ${sql.join(Array.from({ length: count }, (_, at) => sql`(${at}::int)`))}) v`

test('refuses a statement with more values than the protocol can count, and does not take it for an outage', async () => {
  const { db } = world.api.postgres
  expect((await numbers(65_535).execute(db.q)).rows).toEqual([{ count: 65_535 }])
  const refused = await numbers(65_536)
    .execute(db.q)
    .catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(TooManyValues)
  expect(isUnavailable(refused)).toBe(false)
  await expect(world.transact((tx) => numbers(65_536).execute(tx.q))).rejects.toBeInstanceOf(TooManyValues)
  expect((await numbers(2).execute(db.q)).rows).toEqual([{ count: 2 }])
})

test('groups parts of a statement by their values, and keeps their sequence', () => {
  const { db } = world.api.postgres
  const partOf = (count: number) => numbers(count)
  expect(groupByValues(db, [], partOf, 10)).toEqual([])
  expect(groupByValues(db, [4, 6, 1, 30, 2], partOf, 10)).toEqual([[4, 6], [1], [30], [2]])
})
