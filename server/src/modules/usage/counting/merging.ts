import { later, minutes } from '../../../platform/clock.ts'
import { tookTooLong } from '../../../platform/postgres/outage.ts'
import type { Deps } from '../../handlers.ts'
import {
  afterOrganization,
  findUnmerged,
  hasUnmerged,
  mergeQuarters,
  mergeUniques,
  type Merge,
  type MergedTable,
  type MergePart,
  type MeterKey,
} from './merging.sql.ts'

const merges: Record<MergedTable, Merge> = { usage_quarters: mergeQuarters, usage_uniques: mergeUniques }

/** Sizes of one merge: the usual one first, then smaller ones after a timeout. The last size contains one meter, and so one organization. */
const sizes = [
  { meters: 100, rows: 10_000 },
  { meters: 10, rows: 1000 },
  { meters: 1, rows: 100 },
] as const satisfies Pick<MergePart, 'meters' | 'rows'>[]

/** Time for which an organization is left out after its smallest merge took too long. */
const pause = 1 * minutes

/** How far the merges of a worker have come. */
interface Progress {
  after: MeterKey | undefined
  /** Index in `sizes`. It grows after a timeout, until the organization that causes timeouts is known. */
  size: number
  /** Organizations that are left out, and until when. */
  readonly postponed: Map<string, Date>
}

const progressOf = new WeakMap<Deps, Record<MergedTable, Progress>>()
const newProgress = (): Progress => ({ after: undefined, size: 0, postponed: new Map() })

/**
 * Merges the rows that ingest has appended since the last run. Totals come first, because they mark late usage for billing. Each round
 * begins after the last meter of the round before, also across runs, and gives each meter an equal share. So neither an organization nor a
 * meter with constant load delays the others.
 */
export const mergeUsage = async (deps: Deps): Promise<void> => {
  const progress = progressOf.get(deps) ?? { usage_quarters: newProgress(), usage_uniques: newProgress() }
  progressOf.set(deps, progress)
  for (const table of ['usage_quarters', 'usage_uniques'] as const) await mergeTable(deps, table, progress[table])
}

const mergeTable = async (deps: Deps, table: MergedTable, progress: Progress): Promise<void> => {
  if (!(await hasUnmerged(deps.db, table))) return
  // Each round is a short transaction. The bound keeps the task from running without an end under constant load.
  for (let round = 0; round < 50; round++) {
    const now = deps.platform.clock.wall()
    for (const [organization_id, until] of progress.postponed) if (until <= now) progress.postponed.delete(organization_id)
    const part: MergePart = { ...sizes[progress.size]!, after: progress.after, postponed: [...progress.postponed.keys()] }
    let merged: Awaited<ReturnType<Merge>>
    try {
      merged = await deps.transact((tx) => merges[table](tx, part))
    } catch (error) {
      if (!tookTooLong(error)) throw error
      if (progress.size < sizes.length - 1) progress.size++
      else await postpone(deps, table, progress, part, error)
      continue
    }
    if (merged === 'busy' || (merged === undefined && part.after === undefined)) return
    progress.after = merged
    if (merged === undefined) progress.size = 0
  }
}

/** Leaves out the next organization for some time, so that the others are merged. */
const postpone = async (deps: Deps, table: MergedTable, progress: Progress, part: MergePart, error: unknown): Promise<void> => {
  const next = await findUnmerged(deps.db, table, part)
  progress.size = 0
  progress.after = next && afterOrganization(next.organization_id)
  if (!next) return
  const { organization_id } = next
  progress.postponed.set(organization_id, later(deps.platform.clock.wall(), pause))
  deps.platform.log.error('usage_merge_postponed', { organization_id, table, error })
}
