import { stopwatch } from '../clock.ts'
import type { Log } from '../log.ts'
import { isUnavailable, tookTooLong } from '../postgres/outage.ts'
import type { Postgres } from '../postgres/postgres.ts'
import type { Telemetry } from '../telemetry.ts'
import { groups, sweeps, type GroupName, type SweepName } from './catalogue.ts'
import { claim, groupLeases, LeaseLost, pauseRow, type Lease } from './leases.sql.ts'

export type SweepHandlers = { readonly [N in SweepName]: (lease: Lease) => Promise<void> }
/** The handlers of sweeps in groups. Each returns one promise for each lease. */
export type GroupHandlers = { readonly [N in GroupName]: (leases: readonly Lease[]) => readonly Promise<void>[] }

/** The dependencies of the sweeps of a worker. */
export interface Sweeping {
  readonly postgres: Postgres
  readonly sweeps: SweepHandlers
  readonly groups: GroupHandlers
  readonly telemetry: Telemetry
  readonly log: Log
}

/** Returns the claimer of a sweep. It claims rows until none is left, and starts their work. It runs at most once at a time. */
export const openClaimer = (options: Sweeping, name: SweepName, holder: string, stopped: AbortSignal) => {
  const { log, postgres } = options
  const { table, lease_ms } = sweeps[name]
  const { at_once, step, start } = startersOf(options, name)
  const running = new Set<Promise<void>>()
  const claimAll = async () => {
    for (let more = true; more && !stopped.aborted;) {
      // Claims more rows once enough of the concurrent slots are free. A slow row therefore occupies only its own slot.
      while (running.size > at_once - step) await Promise.race(running)
      const limit = at_once - running.size
      const leases = await claim(postgres.transact, table, { holder, limit, lease_ms })
      for (const { lease, work } of start(leases)) {
        const one = sweepOne(options, name, lease, work).finally(() => void running.delete(one))
        running.add(one)
      }
      more = leases.length === limit
    }
  }
  let claiming: Promise<void> | undefined
  return {
    start: (): void => {
      claiming ??= claimAll()
        .catch((error: unknown) => {
          if (!stopped.aborted) log.warn('sweep_failed', { job: name, error })
        })
        .finally(() => void (claiming = undefined))
    },
    /** Waits until all claimed rows are done. */
    finish: async (): Promise<void> => {
      await claiming
      await Promise.all(running)
    },
  }
}

/** A claimed row and its work. */
interface Started {
  readonly lease: Lease
  readonly work: Promise<void>
}

interface Starters {
  /** Maximum number of rows that run concurrently. */
  readonly at_once: number
  /** Number of free slots from which on more rows are claimed. */
  readonly step: number
  /** Starts the work on the claimed rows. */
  readonly start: (leases: readonly Lease[]) => readonly Started[]
}

/** Returns how a sweep starts its rows: each alone, or in groups of one organization. */
const startersOf = (options: Sweeping, name: SweepName): Starters => {
  if (isGrouped(name)) {
    const { at_once, size } = groups[name]
    const startGroup = (group: readonly Lease[]): Started[] => options.groups[name](group).map((work, at) => ({ lease: group[at]!, work }))
    return { at_once, step: size, start: (leases) => groupLeases(leases, size).flatMap(startGroup) }
  }
  const { at_once } = sweeps[name]
  return { at_once, step: at_once / 4, start: (leases) => leases.map((lease) => ({ lease, work: options.sweeps[name](lease) })) }
}

const isGrouped = (name: SweepName): name is GroupName => name in groups

const sweepOne = async ({ postgres, log, telemetry }: Sweeping, name: SweepName, lease: Lease, work: Promise<void>) => {
  const elapsed = stopwatch()
  try {
    await work
    telemetry.job(name, 'done', elapsed())
  } catch (error) {
    telemetry.job(name, error instanceof LeaseLost ? 'lost' : 'failed', elapsed())
    log.warn(error instanceof LeaseLost ? 'lease_lost' : 'sweep_failed', { job: name, error })
    // After an outage, all rows continue when their leases expire.
    if (error instanceof LeaseLost || (isUnavailable(error) && !tookTooLong(error))) return
    await pauseRow(postgres.transact, lease, sweeps[name].lease_ms).catch((failed: unknown) => {
      // The row continues when its lease expires.
      log.warn('sweep_failed', { job: name, error: failed })
    })
  }
}
