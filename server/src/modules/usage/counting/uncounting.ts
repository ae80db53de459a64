import { setImmediate } from 'node:timers/promises'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { inParts } from '../calc/parts.ts'
import type { QuarterTally } from '../calc/quarters.ts'
import { appendQuarters } from './counting.sql.ts'
import { QuarterCounter, type CountedEvent } from './quarter-counter.ts'
import { dropUniques, recountQuarters, type CorrectedMeter } from './uncounting.sql.ts'

/** An event that a correction subtracts, with the number of its batch. */
export interface UncountedEvent extends CountedEvent {
  readonly batch_number: string
}

/** True if the meter has counted the event: by the ingest of the event, or by the backfill. */
const hasCounted = ({ is_counted, before_batch, after_event }: CorrectedMeter, { id, batch_number }: UncountedEvent): boolean =>
  is_counted || BigInt(batch_number) >= BigInt(before_batch) || (after_event !== null && id <= after_event)

const negated = (number: string): string => (number === '0' ? number : number.startsWith('-') ? number.slice(1) : `-${number}`)

/** Returns the total that subtracts another one. */
const subtraction = (tally: QuarterTally): QuarterTally => ({ ...tally, count: -tally.count, total: negated(tally.total), low: null, high: null })

/** Returns a total of 0 for the same quarter hour. */
const nothing = (tally: QuarterTally): QuarterTally => ({ ...tally, count: 0, total: '0', low: null, high: null })

/**
 * Subtracts corrected events from all meters that have counted them, in the transaction that called `metersToCorrect` and marked the
 * events. Counts, sums and averages get negative totals. The extremes of a quarter hour cannot be subtracted, so maxima and
 * minima are counted again from its events. An event that the backfill has not reached gets a total of 0. A settlement may have read
 * it from the events, and the merge of this total marks its period.
 */
export const uncount = async (tx: Tx, organization_id: string, meters: readonly CorrectedMeter[], events: readonly UncountedEvent[]): Promise<void> => {
  const subtractions: QuarterTally[] = []
  for (const meter of meters) {
    const counter = new QuarterCounter([meter])
    const waiting = new QuarterCounter([meter])
    for (const event of events) (hasCounted(meter, event) ? counter : waiting).add(event)
    const tallies = counter.rows()
    subtractions.push(...waiting.rows().map(nothing))
    await setImmediate()
    if (tallies.length === 0) continue
    const { aggregation } = meter
    if (aggregation.func === 'max' || aggregation.func === 'min') {
      const quarters = tallies.map(({ subject_id, starts_at }) => ({ subject_id, starts_at }))
      await recountQuarters(tx, organization_id, meter, quarters)
      continue
    }
    subtractions.push(...tallies.map(subtraction))
    if (aggregation.func === 'unique') {
      const ids = events.map(({ id }) => id)
      await dropUniques(tx, organization_id, meter, aggregation.property, ids)
    }
  }
  for (const part of inParts(subtractions)) await appendQuarters(tx, organization_id, part)
}
