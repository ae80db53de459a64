import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../../test/harness/world.ts'
import { newId } from '../../kernel/ids.ts'
import { jobClasses, type Payload } from './catalogue.ts'
import { enqueue } from './enqueue.sql.ts'
import { dropReplaced } from './queue.ts'
import { flagsOf, openSlots } from './slots.ts'
import { walk } from './walk.ts'

let world: World
let worker: pg.Client

beforeAll(async () => {
  world = await openWorld()
  worker = new pg.Client({ connectionString: world.database.owner_url })
  await worker.connect()
})
afterAll(async () => {
  await worker.end()
  await world.close()
})
beforeEach(async () => {
  await worker.query('delete from graphile_worker._private_jobs')
})

const id = () => newId(world.clock.wall())

interface Job {
  id: string
  key: string | null
  payload: Payload<'entitlements.product_changed'>
  locked: boolean
  run_at: Date
}
const jobs = async (): Promise<Job[]> =>
  (await worker.query<Job>('select id, key, payload, locked_at is not null as locked, run_at from graphile_worker._private_jobs order by id')).rows
/** Locks a job like a worker that has taken it. */
const take = (job: string) => worker.query(`update graphile_worker._private_jobs set locked_at = now(), locked_by = 'test', attempts = 1 where id = $1`, [job])

describe('one job per container', () => {
  const change = (product: { organization_id: string; product_id: string }) => world.transact((tx) => enqueue(tx, 'entitlements.product_changed', product))

  test('enqueues one job for repeated changes of one product, at the place of the first', async () => {
    const product = { organization_id: id(), product_id: id() }
    await change(product)
    const [first] = await jobs()
    for (let times = 0; times < 20; times++) await change(product)
    await change({ ...product, product_id: id() })
    const [same, other, ...more] = await jobs()
    expect([same!.id, same!.run_at]).toEqual([first!.id, first!.run_at])
    expect(other!.key).not.toBe(same!.key)
    expect(more).toEqual([])
  })

  test('enqueues another job for a change that arrives while the job of the product runs', async () => {
    const product = { organization_id: id(), product_id: id() }
    await change(product)
    const [first] = await jobs()
    await take(first!.id)
    await change(product)
    await change(product)
    expect((await jobs()).map(({ locked }) => locked)).toEqual([true, false])
  })

  test('enqueues another job if a worker takes the waiting job at the moment of the change', async () => {
    const product = { organization_id: id(), product_id: id() }
    await change(product)
    const [first] = await jobs()
    await worker.query('begin')
    await take(first!.id)
    const { rows: self } = await worker.query<{ pid: number }>('select pg_backend_pid() as pid')
    const changed = change(product)
    await eventually('the change waits for the worker', async () => {
      const { rows } = await world.database.owner((owner) => owner.query('select from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [self[0]!.pid]))
      return rows.length > 0
    })
    await worker.query('commit')
    await changed
    expect((await jobs()).map(({ locked }) => locked)).toEqual([true, false])
  })

  test('deletes a replaced job whose worker died, and keeps the job that replaced it and jobs that failed for good', async () => {
    const product = { organization_id: id(), product_id: id() }
    await change({ organization_id: id(), product_id: id() })
    await worker.query('update graphile_worker._private_jobs set attempts = max_attempts')
    await change(product)
    const [failed, first] = await jobs()
    await take(first!.id)
    await change(product)
    await dropReplaced(worker)
    expect(await jobs()).toHaveLength(3)
    await worker.query('update graphile_worker._private_jobs set locked_at = null, locked_by = null')
    await dropReplaced(worker)
    expect((await jobs()).map((job) => [job.id === failed!.id, job.id === first!.id, job.key !== null])).toEqual([
      [true, false, true],
      [false, false, true],
    ])
  })

  test('retries a failed job at once when its product changes again', async () => {
    const product = { organization_id: id(), product_id: id() }
    await change(product)
    await worker.query(`update graphile_worker._private_jobs set attempts = 5, last_error = 'x', run_at = now() + interval '1 hour'`)
    await change(product)
    const [job, ...more] = await jobs()
    expect(job!.run_at.getTime()).toBeLessThanOrEqual(Date.now() + 1000)
    expect(more).toEqual([])
  })
})

describe('walks in slices', () => {
  const rows = Array.from({ length: 10 }, (_, at) => `${at}0000000-0000-4000-8000-000000000000`)
  /** Reads batches of two rows, and notes each visit with the version of the product that it saw. */
  const openWalk = () => {
    const product = { organization_id: id(), product_id: id() }
    const seen = new Map<string, number>()
    let version = 1
    const step = async (after: string | null) => {
      const batch = rows.filter((row) => after === null || row > after).slice(0, 2)
      for (const row of batch) seen.set(row, version)
      return batch.length === 2 ? batch[1]! : null
    }
    const change = async () => {
      version++
      await world.transact((tx) => enqueue(tx, 'entitlements.product_changed', product))
    }
    /** Runs the next waiting job, one batch per slice. `meanwhile` runs after the batch, before the job continues. */
    const runNext = async (meanwhile?: () => Promise<void>): Promise<boolean> => {
      const [job] = await jobs()
      if (!job) return false
      await take(job.id)
      const stepAndMore = async (after: string | null) => {
        const last = await step(after)
        await meanwhile?.()
        return last
      }
      await walk(world.transact, 'entitlements.product_changed', job.payload, stepAndMore, () => true)
      await worker.query('delete from graphile_worker._private_jobs where id = $1', [job.id])
      return true
    }
    const versions = () => rows.map((row) => seen.get(row))
    return { change, runNext, versions }
  }

  test('visits every row once, and holds one job at any time', async () => {
    const { change, runNext, versions } = openWalk()
    await change()
    let slices = 0
    while (await runNext()) {
      slices++
      expect((await jobs()).length).toBeLessThanOrEqual(1)
    }
    expect(versions()).toEqual(rows.map(() => 2))
    expect(slices).toBe(6)
  })

  test('visits every row after a change that arrives during the walk, and none of its jobs is lost', async () => {
    const { change, runNext, versions } = openWalk()
    await change()
    await runNext()
    await runNext(change)
    // One job remains: it continues after the fourth row, and ends with the fourth row.
    expect((await jobs()).map(({ payload: { after, until } }) => [after, until])).toEqual([[rows[3], rows[3]]])
    let slices = 0
    while (await runNext()) slices++
    expect(versions()).toEqual(rows.map(() => 3))
    expect(slices).toBe(6)
  })

  test('reaches the last row although the product changes during every slice', async () => {
    const { change, runNext, versions } = openWalk()
    await change()
    for (let slice = 0; slice < 6; slice++) await runNext(change)
    expect(versions()).not.toContain(undefined)
    while (await runNext());
    expect(versions()).toEqual(rows.map(() => 8))
  })
})

describe('slots of one worker', () => {
  const jobOf = (jobClass: keyof typeof jobClasses, organization_id?: string) => ({
    flags: Object.fromEntries(flagsOf(jobClass, { organization_id }).map((flag) => [flag, true])),
  })
  const start = async (slots: ReturnType<typeof openSlots>, job: ReturnType<typeof jobOf>): Promise<boolean> => {
    const full = await slots.begin()
    const may = !Object.keys(job.flags).some((flag) => full.includes(flag))
    if (may) slots.fetched(job)
    else slots.missed()
    return may
  }

  test.each(['urgent', 'ordinary', 'bulk'] as const)('limits the %s jobs of one organization, and leaves slots to others', async (jobClass) => {
    const slots = openSlots()
    let started = 0
    while (await start(slots, jobOf(jobClass, 'a'))) started++
    expect(started).toBe(jobClasses[jobClass].per_organization)
    expect(await start(slots, jobOf(jobClass, 'b'))).toBe(true)
    slots.done(jobOf(jobClass, 'a'))
    expect(await start(slots, jobOf(jobClass, 'a'))).toBe(true)
    expect(await start(slots, jobOf(jobClass, 'a'))).toBe(false)
  })

  test('keeps slots free for more urgent classes', async () => {
    const slots = openSlots()
    const fill = async (jobClass: keyof typeof jobClasses) => {
      let started = 0
      while (await start(slots, jobOf(jobClass, `organization ${started}`))) started++
      return started
    }
    expect(await fill('bulk')).toBe(3)
    expect(await fill('ordinary')).toBe(3)
    expect(await fill('urgent')).toBe(2)
  })

  test('lets one fetch at a time choose, so that two fetches cannot take the last slot of an organization', async () => {
    const slots = openSlots()
    const started = await Promise.all(Array.from({ length: 8 }, () => start(slots, jobOf('bulk', 'a'))))
    expect(started.filter(Boolean)).toHaveLength(jobClasses.bulk.per_organization)
  })
})

test('an idle worker claims nothing, and looks for the due rows of all sweeps with one statement', async () => {
  const sent: { role: string | undefined; text: string }[] = []
  // oxlint-disable-next-line typescript/unbound-method -- put back as it was
  const original = pg.Client.prototype.query
  pg.Client.prototype.query = function (this: pg.Client & { connectionParameters: { application_name?: string } }, ...args: unknown[]) {
    const text = typeof args[0] === 'string' ? args[0] : (args[0] as { text?: string }).text
    sent.push({ role: this.connectionParameters.application_name, text: text ?? '' })
    return (original as (...all: unknown[]) => unknown).apply(this, args)
  } as typeof original
  const own = await openWorld({ worker: true })
  try {
    const looks = () => sent.filter(({ text }) => text.includes(`select 'subscriptions' as name where exists`)).length
    // The first looks are left out, because the periodic tasks run when the worker starts.
    await eventually('the worker has looked twice', async () => looks() >= 2)
    sent.length = 0
    const began = performance.now()
    await eventually('the worker has looked eight times more', async () => looks() >= 8)
    const seconds = (performance.now() - began) / 1000
    const ours = sent.filter(({ role }) => role === 'bursar_worker').map(({ text }) => text)
    expect(ours.filter((text) => /^\s*with due as materialized\b/.test(text))).toEqual([])
    process.stdout.write(`statements of an idle worker per second: ${ours.length / seconds}\n`)
    expect(ours.length / seconds).toBeLessThanOrEqual(10)
  } finally {
    pg.Client.prototype.query = original
    await own.close()
  }
})
