import { advanceTestClock, getTestClock, type TestClock } from '@bursar/contract'
import type { z } from 'zod'
import type { Client } from '@bursar/contract/client'
import { newId } from '../../src/kernel/ids.ts'
import { dueWork } from '../../src/main/wire.ts'
import { later, seconds } from '../../src/platform/clock.ts'
import { LeaseLost, type Lease } from '../../src/platform/jobs/leases.sql.ts'
import type { openDeployment } from './crashes.ts'
import type { World } from './world.ts'

type Deployment = Awaited<ReturnType<typeof openDeployment>>

/** A test clock as the API returns it. */
type Shown = z.input<typeof TestClock>

const run = dueWork.find(({ name }) => name === 'clocks.travel')!.run

/**
 * Advances test clocks as a worker would, and runs the work that falls due on each. Any number of test clocks can
 * advance in parallel. If a test clock waits for an external service, the wall clock is advanced by 31 seconds.
 */
export const openTravels = (world: World, deployment: Deployment) => {
  const { deps } = deployment
  let turn: Promise<unknown> = Promise.resolve()
  /** Runs one callback at a time, because parallel runs would take the same jobs. */
  const alone = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = turn.then(work)
    turn = mine.catch(() => undefined)
    return mine
  }

  const lead = async ({ organization_id, id }: Shown): Promise<void> => {
    const token = newId(world.clock.wall())
    const wall = world.clock.wall()
    const taken = await deps.transact((tx) =>
      tx.q
        .updateTable('test_clocks')
        .set({ due_at: wall, lease_until: later(wall, 60 * seconds), lease_token: token, lease_holder: 'traveller' })
        .where('organization_id', '=', organization_id)
        .where('id', '=', id)
        .where('target_at', 'is not', null)
        .where((or) => or.or([or('lease_until', 'is', null), or('lease_until', '<=', wall)]))
        .executeTakeFirst(),
    )
    if (taken.numUpdatedRows === 0n) return
    const lease: Lease = { table: 'test_clocks', organization_id, id, token, holder: 'traveller' }
    await run(deps, lease).catch((error: unknown) => {
      if (!(error instanceof LeaseLost)) throw error
    })
  }

  /** Advances a test clock to a time. Resolves when all work that fell due on the way is done. */
  const travel = async (api: Client, clock_id: string, to: string): Promise<Shown> => {
    let seen = await api.call(advanceTestClock, { params: { id: clock_id }, body: { to } })
    for (let standing = 0; standing < 50;) {
      await lead(seen)
      await alone(() => deployment.work())
      const before = seen.now
      seen = await api.call(getTestClock, { params: { id: clock_id } })
      if (seen.status === 'ready') return seen
      if (seen.now > before) {
        standing = 0
        continue
      }
      // Retries once, because the test clock may have waited for a job. If it still waits, the cause is an external service.
      if (standing++ === 0) continue
      world.clock.advance(31 * seconds)
      await alone(() => deployment.sweep())
    }
    throw new Error(`the clock stands still at ${seen.now}`)
  }
  return { travel }
}
