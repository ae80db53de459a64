import { setImmediate } from 'node:timers/promises'
import { BadRequest, InvalidRequest, requestLimits } from '@bursar/contract'
import { cpuTime, seconds, stopwatch } from '../../../platform/clock.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { inParts, perStatement } from '../calc/parts.ts'
import type { CountingMeter } from '../calc/quarters.ts'
import { sizeOfFilter } from '../../catalog/index.ts'
import { QuarterCounter, type CountedEvent } from './quarter-counter.ts'
import { appendQuarters, appendUniques, countStored, dropVoidQuarters, findBackfill, saveBackfill, uniqueMetersOf } from './counting.sql.ts'

/** Number of clauses that are compared with events before other requests get a turn. */
const perTurn = 10_000
/** Totals of one customer that one statement appends at most. */
const largestPart = 4 * perStatement
/** Milliseconds of computing after which a batch is refused. The work for other requests and for the database does not count. */
const countingTime = requestLimits.counting_seconds * seconds

/** The limits of counting a batch. */
export interface CountingLimits {
  /** True if the client has closed the connection, so that no answer is needed. */
  readonly isGone?: (() => boolean) | undefined
  readonly longest?: number
}

const tooSlow = (longest: number) =>
  new InvalidRequest({
    loc: ['body', 'events'],
    msg: `Counting the events of this request on the meters of the organization took more than ${longest / seconds} seconds, so nothing was stored. Send fewer events at once, or archive meters that are no longer used.`,
    type: 'value_error',
  })

/** Values of meters with `unique` that one statement appends at most. An organization has at most 100 meters. */
const valuesAtOnce = 100_000

/**
 * Counts the new events of a batch on all meters, in the transaction of the ingest that called `metersToCount`. Counts the
 * events of each customer together, in the sequence of the customers, so that the totals of a batch with many customers can be appended in
 * parts. A trigger opens the customer meters of each part in the same sequence, so two batches cannot deadlock. `customers` contains the
 * customers of subjects that are linked.
 */
export const countQuarters = async (
  tx: Tx,
  organization_id: string,
  meters: readonly CountingMeter[],
  events: readonly CountedEvent[],
  customers: ReadonlyMap<string, string>,
  limits: CountingLimits = {},
): Promise<void> => {
  if (meters.length === 0) return
  const counter = new QuarterCounter(meters)
  const slice = Math.ceil(perTurn / meters.reduce((sum, { filter }) => sum + sizeOfFilter(filter), 0))
  const { isGone, longest = countingTime } = limits
  let since = cpuTime()
  let spent = 0
  const ownerOf = ({ subject_id }: CountedEvent): string => customers.get(subject_id) ?? subject_id
  let owner: string | undefined
  for (const [at, event] of inSequence(events, ownerOf).entries()) {
    if (at > 0 && at % slice === 0) {
      spent += cpuTime() - since
      if (spent > longest) throw tooSlow(longest)
      if (isGone?.()) throw new BadRequest('The client closed the connection while its events were counted. Nothing was stored.')
      await setImmediate()
      since = cpuTime()
    }
    // The totals of a customer stay together, unless they are far too many for a statement.
    if (counter.size >= (ownerOf(event) === owner ? largestPart : perStatement)) {
      spent += cpuTime() - since
      await appendQuarters(tx, organization_id, counter.take())
      since = cpuTime()
    }
    owner = ownerOf(event)
    counter.add(event)
  }
  await appendQuarters(tx, organization_id, counter.rows())
}

/** Sorts events by their customers, and then by their subjects. */
const inSequence = (events: readonly CountedEvent[], ownerOf: (event: CountedEvent) => string): CountedEvent[] => {
  const keys = new Map<string, string>()
  for (const event of events) if (!keys.has(event.subject_id)) keys.set(event.subject_id, `${ownerOf(event)} ${event.subject_id}`)
  const order = new Map([...keys].toSorted(([, a], [, b]) => (a < b ? -1 : 1)).map(([subject_id], at) => [subject_id, at]))
  return events.toSorted((a, b) => order.get(a.subject_id)! - order.get(b.subject_id)!)
}

/** Appends the values of a batch on all meters with `unique`. The database reads the values from the inserted events. */
export const countUniques = async (tx: Tx, organization_id: string, meters: readonly CountingMeter[], events: readonly CountedEvent[]): Promise<void> => {
  const unique = uniqueMetersOf(meters)
  if (unique.length === 0) return
  const ids = events.map(({ id }) => id)
  for (const part of inParts(ids, Math.floor(valuesAtOnce / unique.length))) await appendUniques(tx, organization_id, unique, part)
}

/** Number of events or totals that one transaction of the backfill processes. */
const chunk = 5000
/** Time after which a backfill leaves the worker to other meters. It is much shorter than the lease. */
const timeSlice = 20 * seconds

/**
 * Counts events that were stored before a meter was made, in chunks. The totals and the position of a chunk are committed
 * together under the lease, so each event is counted once. After a time slice, the row is due again.
 */
export const backfillMeter = async ({ transact }: Deps, lease: Lease): Promise<void> => {
  const elapsed = stopwatch()
  for (;;) {
    const isLast = elapsed() >= timeSlice
    const isEnd = await transact((tx) => backfillChunk(tx, lease, isLast))
    if (isEnd || isLast) return
  }
}

/** Counts one chunk. Releases the lease after the last chunk of all, and after the last chunk under this lease. */
const backfillChunk = async (tx: Tx, lease: Lease, isLast: boolean): Promise<boolean> => {
  await checkLease(tx, lease)
  const meter = await findBackfill(tx, lease)
  const isDropping = meter !== undefined && (await dropVoidQuarters(tx, lease.organization_id, meter, chunk))
  const counts = meter !== undefined && !isDropping && !meter.is_stopped
  const last = counts ? await countStored(tx, lease.organization_id, meter, chunk) : undefined
  if (counts) await saveBackfill(tx, lease, last)
  const isEnd = !isDropping && last === undefined
  if (isEnd || isLast) await releaseLease(tx, lease, isEnd ? null : tx.clock.wall())
  return isEnd
}
