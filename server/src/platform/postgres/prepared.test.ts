import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../test/harness/world.ts'
import { openPostgres } from './postgres.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const open = (prepared = true) => openPostgres(world.config.database_url, 'bursar_worker', { max: 2, clock: world.clock, log: world.base.log, prepared })
type Postgres = ReturnType<typeof open>

/** Counts the prepared statements of the only reading connection. */
const countOf = async ({ db }: Postgres): Promise<number> =>
  (await sql<{ count: number }>`select count(*) as count from pg_prepared_statements where statement not like '%pg_prepared_statements%'`.execute(db.q))
    .rows[0]!.count

test('prepares a statement when its text comes for the second time, and not if prepared statements are turned off', async () => {
  for (const [prepared, wanted] of [
    [true, [0, 1, 1]],
    [false, [0, 0, 0]],
  ] as const) {
    const postgres = open(prepared)
    const mark = sql.raw(`'${prepared ? 'on' : 'off'}'`)
    const counts: number[] = []
    for (const value of [1, 2, 3]) {
      const { rows } = await sql<{ value: number }>`select ${value}::int as value, ${mark} as mark`.execute(postgres.db.q)
      expect(rows).toMatchObject([{ value }])
      counts.push(await countOf(postgres))
    }
    expect(counts).toEqual(wanted)
    await postgres.close()
  }
})

test('keeps at most 300 statements per connection, and answers the others too', async () => {
  const postgres = open()
  for (let round = 0; round < 2; round++)
    for (let at = 0; at < 320; at++) {
      const { rows } = await sql<{ value: number }>`select ${at}::int as value, ${sql.raw(String(at))} as place`.execute(postgres.db.q)
      expect(rows).toEqual([{ value: at, place: at }])
    }
  expect(await countOf(postgres)).toBe(300)
  await postgres.close()
})

test('prepares a statement again after a migration has changed its table, outside and inside a transaction', async () => {
  const postgres = open()
  await world.database.owner((owner) => owner.query('create table growing (id int); grant select on growing to bursar_worker; insert into growing values (1)'))
  const read = (q: Postgres['db']['q']) => sql`select * from growing where id = ${1}`.execute(q).then(({ rows }) => rows)
  for (let at = 0; at < 3; at++) {
    await read(postgres.db.q)
    await postgres.transact((tx) => read(tx.q))
  }
  await world.database.owner((owner) => owner.query('alter table growing add column name text'))
  let attempts = 0
  expect(await read(postgres.db.q)).toEqual([{ id: 1, name: null }])
  expect(
    await postgres.transact((tx) => {
      attempts++
      return read(tx.q)
    }),
  ).toEqual([{ id: 1, name: null }])
  expect(attempts).toBe(2)
  await postgres.close()
})
