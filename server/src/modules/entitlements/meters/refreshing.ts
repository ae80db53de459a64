import { within, type TenantScope } from '../../../kernel/actors.ts'
import { later, minutes, seconds, stopwatch } from '../../../platform/clock.ts'
import { checkLease, extendLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { tookTooLong } from '../../../platform/postgres/outage.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { holdPhase } from '../../organizations/index.ts'
import { loadConsumed, valuesAtOnce, weighConsumed } from '../../usage/index.ts'
import { saveUnits } from './customer-meters.sql.ts'
import { announceThresholds, chargedRanges } from './thresholds.ts'
import { findWatchedMeter, type WatchedMeter } from './thresholds.sql.ts'

/** Time after which a lease is extended while many values are counted. It is much shorter than the lease. */
const extendAfter = 10 * seconds
const lease_ms = 30 * seconds
/** Shortest time until many values are counted again, and the time after a count that took too long. */
const shortestRest = 1 * minutes
const restAfterFailure = 10 * minutes
/** The rest is this many times longer than the count. So one customer meter never occupies a worker. */
const restFactor = 10

/** A customer meter with more unique values than one statement may count, and what the number of its values depends on. */
interface LargeMeter {
  readonly watched: WatchedMeter
  readonly scope: TenantScope
  /** The ranges and the numbers of events in them. If they are equal later, the quantities have not changed. */
  readonly basis: string
}

/** The usage of a customer meter: since its start, and in the ranges that its cap depends on. */
interface Quantities {
  readonly consumed: string
  readonly charged: readonly string[]
}

/** Workers that count many values. A worker counts those of one customer meter at a time. */
const counting = new WeakSet<Deps['transact']>()

/**
 * Stores the units of a customer meter after its usage or its credits changed. Lists sort by these values. Announces the thresholds that
 * were reached. The lease keeps the row locked, so that an older value never replaces a newer one, and each threshold is announced once.
 * Many unique values are counted without the lock, because merges and sales need the row.
 */
export const refreshCustomerMeter = async (deps: Deps, lease: Lease, most = valuesAtOnce): Promise<void> => {
  const large = await deps.transact((tx) => refreshNow(tx, lease, most))
  if (!large) return
  if (counting.has(deps.transact)) return deps.transact((tx) => postpone(tx, lease, shortestRest))
  counting.add(deps.transact)
  try {
    await refreshLarge(deps, lease, large, most)
  } finally {
    counting.delete(deps.transact)
  }
}

/** Refreshes the row in one transaction. Returns it instead if it has too many values for one. */
const refreshNow = async (tx: Tx, lease: Lease, most: number): Promise<LargeMeter | undefined> => {
  const found = await holdWatched(tx, lease)
  if (found) {
    const { watched, scope } = found
    const numbers = await weigh(tx, found)
    if (Math.max(...numbers) > most) return { watched, scope, basis: basisOf(watched, numbers) }
    await save(tx, lease, watched, await load(tx, found))
  }
  await releaseLease(tx, lease, null)
  return undefined
}

/** Counts the values in parts, and stores the number if nothing has changed meanwhile. Otherwise the row is due again after a rest. */
const refreshLarge = async (deps: Deps, lease: Lease, large: LargeMeter, most: number): Promise<void> => {
  const elapsed = stopwatch()
  let extended = 0
  const between = async () => {
    if (elapsed() - extended < extendAfter) return
    await deps.transact((tx) => extendLease(tx, lease, lease_ms))
    extended = elapsed()
  }
  try {
    const quantities = await load(deps.db, large, { most, between })
    await deps.transact(async (tx) => {
      const found = await holdWatched(tx, lease)
      const isCurrent = found !== undefined && basisOf(found.watched, await weigh(tx, found)) === large.basis
      // The number of a moment ago is stored also if usage goes on. It is closer than the number before it.
      if (found && sameRanges(found.watched, large.watched)) await save(tx, lease, found.watched, quantities)
      if (isCurrent || !found) await releaseLease(tx, lease, null)
      else await postpone(tx, lease, Math.max(shortestRest, restFactor * elapsed()))
    })
  } catch (error) {
    if (!tookTooLong(error)) throw error
    deps.platform.log.warn('customer_meter_postponed', { organization_id: lease.organization_id, error })
    await deps.transact((tx) => postpone(tx, lease, restAfterFailure))
  }
}

const postpone = async (tx: Tx, lease: Lease, rest: number): Promise<void> => {
  await checkLease(tx, lease)
  await releaseLease(tx, lease, later(tx.clock.wall(), rest))
}

/** Locks the leased row, after the phase of the organization, and loads it. */
const holdWatched = async (tx: Tx, lease: Lease): Promise<{ readonly watched: WatchedMeter; readonly scope: TenantScope } | undefined> => {
  const scope = within(lease.organization_id, 'machine', await holdPhase(tx, lease.organization_id))
  await checkLease(tx, lease)
  const watched = await findWatchedMeter(tx, scope, lease.id)
  return watched && { watched, scope }
}

type Found = Pick<LargeMeter, 'watched' | 'scope'>

/** The range whose usage the customer meter shows. */
const shownRange = ({ organization_id, customer_id, meter, since }: WatchedMeter) => ({ organization_id, customer_id, meter, since, until: null })

const load = async (db: Db, { watched, scope }: Found, options: Parameters<typeof loadConsumed>[3] = {}): Promise<Quantities> => {
  const [consumed] = await loadConsumed(db, scope, [shownRange(watched)], options)
  return { consumed: consumed!, charged: await loadConsumed(db, scope, chargedRanges(watched), { ...options, billed: true }) }
}

const weigh = async (tx: Tx, { watched, scope }: Found): Promise<number[]> => [
  ...(await weighConsumed(tx, scope, [shownRange(watched)])),
  ...(await weighConsumed(tx, scope, chargedRanges(watched), { billed: true })),
]

const rangesOf = (watched: WatchedMeter): string =>
  JSON.stringify(
    [shownRange(watched), ...chargedRanges(watched)].map(({ meter: { filter, aggregation }, since, until }) => [filter, aggregation, since, until]),
  )
const sameRanges = (one: WatchedMeter, other: WatchedMeter): boolean => rangesOf(one) === rangesOf(other)
const basisOf = (watched: WatchedMeter, numbers: readonly number[]): string => `${rangesOf(watched)} ${numbers.join()}`

const save = async (tx: Tx, lease: Lease, watched: WatchedMeter, { consumed, charged }: Quantities): Promise<void> => {
  await saveUnits(tx, lease, consumed, watched.credited_units)
  await announceThresholds(tx, watched, consumed, charged)
}
