import { createWebhookEndpoint } from '@bursar/contract'
import type { KyselyPlugin } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { within } from '../../src/kernel/actors.ts'
import { Secret, randomText } from '../../src/kernel/secrets.ts'
import type { Deps } from '../../src/modules/handlers.ts'
import { startMigration, switchOn, undo } from '../../src/modules/migration/members/migrating.ts'
import { findMigration } from '../../src/modules/migration/members/migrations.sql.ts'
import { work } from '../../src/modules/migration/members/working.ts'
import { claim } from '../../src/platform/jobs/leases.sql.ts'
import { openLog } from '../../src/platform/log.ts'
import { openPostgres, type Transact } from '../../src/platform/postgres/postgres.ts'
import { asOwner, loginOf } from '../harness/database.ts'
import { Died, type End } from '../harness/crashes.ts'
import { golden, importBundle, seeded } from '../harness/golden.ts'
import { saidOf, summaryOf, type Summary } from '../harness/legacy.ts'
import { openWorld, type World } from '../harness/world.ts'
import { paced } from '../harness/pace.ts'

/** Number of crash points at statements, chosen at random. `all`: before and after every statement. Commits are always crash points. */
const asked = process.env.BURSAR_TEST_POINTS ?? String(paced(60, 15))
const batch = 80

let world: World
let organization_id: string
beforeAll(async () => {
  world = await openWorld()
  const { organization, api } = await importBundle(world, golden({ size: asked === 'all' ? 1 : 0.5 }))
  organization_id = organization.id
  // This endpoint subscribes to events of the migration. Each event must be emitted once, even after a crash.
  await api.call(createWebhookEndpoint, {
    body: { url: 'https://hooks.example/members', format: 'raw', events: ['member.created', 'member.deleted', 'customer.deleted'], migration_events: true },
  })
  // PostgreSQL clones a database only if it has no connections, so the API is closed.
  await world.database.owner((owner) => owner.query('analyze'))
  await world.api.close()
})
afterAll(async () => {
  await world.mail.close()
  await world.database.drop()
})

/** Simulates a process that ends at a chosen statement or commit, counted from its start. After that point every statement throws. */
const openLife = (end: (End & { readonly at: 'statement' | 'commit' }) | null) => {
  const count = { statement: 0, commit: 0 }
  let dead = false
  const die = (): never => {
    dead = true
    throw new Died()
  }
  const meets = (at: 'statement' | 'commit', side: End['side']) => end?.at === at && end.side === side && end.point === count[at]
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (dead) throw new Died()
      count.statement++
      if (meets('statement', 'before')) die()
      return node
    },
    transformResult: async ({ result }) => {
      if (meets('statement', 'after')) die()
      return result
    },
  }
  const around =
    (transact: Transact): Transact =>
    async (effect) => {
      if (dead) throw new Died()
      const done = await transact(async (tx) => {
        const made = await effect({ ...tx, q: tx.q.withPlugin(plugin) })
        count.commit++
        if (meets('commit', 'before')) die()
        return made
      })
      if (meets('commit', 'after')) die()
      return done
    }
  return { count, around }
}

interface Outcome {
  readonly there: Summary
  readonly said: readonly string[]
  readonly back: Summary
  readonly saidThen: readonly string[]
  readonly count: { readonly statement: number; readonly commit: number }
}

/** Opens a clone of the database for several runs. The undo returns it to the initial state. After a wrong result, the test opens a new clone. */
const openPlace = async () => {
  const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_${randomText(8, 'abcdefghijklmnop')}`
  await world.database.release()
  await asOwner('postgres', async (owner) => {
    await owner.query(`create database ${name} template ${world.database.name}`)
    // The test ends only simulated processes, never PostgreSQL, so commits need not reach the disk.
    await owner.query(`alter database ${name} set synchronous_commit = off`)
  })
  let now = new Date('2026-11-01T00:00:00Z').getTime()
  const clock = { wall: () => new Date(now), business: () => new Date(now) }
  const log = openLog('silent')
  const url = new Secret(loginOf(name))
  const api = openPostgres(url, 'bursar_api', { max: 2, clock, log, timeout_ms: world.config.database_timeout_ms })
  const worker = openPostgres(url, 'bursar_worker', { max: 2, clock, log, timeout_ms: world.config.database_timeout_ms })
  const database = { owner: <T>(visit: Parameters<typeof asOwner<T>>[1]) => asOwner(name, visit) }
  const platform = { ...world.platform, clock, log, config: { ...world.config, member_migration: { batch, seal_days: 30 } } }
  const rowOf = () => findMigration(worker.db, organization_id)

  /** Runs the whole migration and its undo. The first process ends at the chosen point, and a second one continues. */
  const run = async (end: Parameters<typeof openLife>[0]): Promise<Outcome> => {
    const first = openLife(end)
    let life = first
    const live = async (effect: () => Promise<unknown>) => {
      try {
        await effect()
      } catch (error) {
        if (!(error instanceof Died)) throw error
        // Another process takes over when the lease of the first has expired.
        life = openLife(null)
        now += 120_000
      }
    }
    const step = (take: typeof startMigration) =>
      live(() => life.around(api.transact)((tx) => take(tx, within(organization_id, 'machine', 'before'), organization_id)))
    const sweep = () =>
      live(async () => {
        now += 2000
        const transact = life.around(worker.transact)
        const deps: Deps = { db: worker.db, transact, gateways: {} as never, platform }
        for (const lease of await claim(transact, 'member_migrations', { holder: 'test', limit: 1, lease_ms: 60_000 })) await work(deps, lease)
      })
    for (let row = await rowOf(); row?.state !== 'phase2' || row.work !== null; row = await rowOf())
      if (row && row.work !== null) await sweep()
      else if (!row || row.state === 'before') await step(startMigration)
      else if (row.state === 'phase1') await step((tx, scope, id) => switchOn(tx, scope, platform, id))
      else throw new Error(`it stands at ${row.state}`)
    const [there, said] = [await summaryOf(database, organization_id), await saidOf(database, organization_id)]
    for (let row = await rowOf(); row!.state !== 'before' || row!.work !== null; row = await rowOf()) await (row!.work !== null ? sweep() : step(undo))
    const [back, saidThen] = [await summaryOf(database, organization_id), await saidOf(database, organization_id)]
    // Deletes the events and the migration row. After the undo, nothing else remains of the migration.
    await database.owner(async (owner) => {
      await owner.query('delete from events where organization_id = $1', [organization_id])
      await owner.query('delete from member_migrations where organization_id = $1', [organization_id])
      await owner.query('vacuum seats, benefit_grants, license_keys, members, customers, member_migrations, events')
    })
    return { there, said, back, saidThen, count: first.count }
  }
  const close = async () => {
    await Promise.all([api.close(), worker.close()])
    await asOwner('postgres', (owner) => owner.query(`drop database if exists ${name} with (force)`))
  }
  return { run, close }
}

const pointsOf = ({ statement, commit }: Outcome['count']) => {
  const sides = ['before', 'after'] as const
  const every = (at: 'statement' | 'commit', most: number) => Array.from({ length: most }, (_, n) => sides.map((side) => ({ at, side, point: n + 1 }))).flat()
  const statements = every('statement', statement)
  const draw = seeded(7)
  const sampled = asked === 'all' ? statements : Array.from({ length: Number(asked) }, () => statements.splice(draw(statements.length), 1)[0]!)
  return [...every('commit', commit), ...sampled]
}

test(
  'completes the member migration and its undo with the same result after a crash at any point, and the undo restores the initial state [S3-01] [S3-02] [S3-03]',
  { timeout: 3_600_000 },
  async () => {
    const before = await summaryOf(world.database, organization_id)
    let place = await openPlace()
    const clean = await place.run(null)
    expect(clean.there.seats!.length).toBeGreaterThan(90)
    expect(clean.there.members!.length).toBeGreaterThan(60)
    expect(clean.back).toEqual(before)
    const told = clean.said.filter((said) => said.startsWith('member.created'))
    expect(new Set(told).size).toBe(told.length)
    expect(told.length).toBe(clean.there.members!.length)

    const points = pointsOf(clean.count)
    const since = performance.now()
    const different: string[] = []
    for (const point of points) {
      const outcome = await place.run(point)
      const parts = (['there', 'said', 'back', 'saidThen'] as const).filter((part) => JSON.stringify(outcome[part]) !== JSON.stringify(clean[part]))
      different.push(...parts.map((part) => `${point.side} ${point.at} ${point.point}: ${part}`))
      if (parts.length === 0) continue
      await place.close()
      place = await openPlace()
    }
    await place.close()
    process.stdout.write(
      `migration: ${points.length} ends (${clean.count.commit} commits, ${clean.count.statement} statements) · different: ${different.length} · ${Math.round((performance.now() - since) / 1000)} s\n`,
    )
    expect(different).toEqual([])
  },
)
