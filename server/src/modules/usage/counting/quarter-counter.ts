import { writeDecimal } from '../../../kernel/decimals.ts'
import { compileFilter, contributionOf, mergeTallies, Properties, type Counted, type Predicate, type Tally } from '../../catalog/index.ts'
import { quarterOf, type CountingMeter, type QuarterTally } from '../calc/quarters.ts'

export interface CountedEvent extends Counted {
  readonly id: string
  readonly subject_id: string
}

/** A meter whose filter is compiled. */
type CompiledMeter = CountingMeter & { readonly matches: Predicate }

/** Adds up the events of a batch: one row for each meter, subject and quarter hour. */
export class QuarterCounter {
  readonly #properties = new Properties()
  readonly #valueOf = (name: string, event: Counted) => this.#properties.valueOf(name, event)
  readonly #meters: readonly CompiledMeter[]
  #tallies = new Map<string, { readonly key: Pick<QuarterTally, 'meter_id' | 'version' | 'subject_id' | 'starts_at'>; tally: Tally }>()

  constructor(meters: readonly CountingMeter[]) {
    this.#meters = meters.map((meter) => ({ ...meter, matches: compileFilter(meter.filter, this.#properties) }))
  }

  /** The number of rows. */
  get size(): number {
    return this.#tallies.size
  }

  add(event: CountedEvent): void {
    for (const { id: meter_id, version, matches, aggregation } of this.#meters) {
      const adds = matches(event) ? contributionOf(aggregation, event, this.#valueOf) : null
      if (!adds) continue
      const { subject_id } = event
      const starts_at = quarterOf(event.timestamp)
      const name = `${meter_id} ${subject_id} ${starts_at}`
      const known = this.#tallies.get(name)
      if (known) known.tally = mergeTallies(known.tally, adds)
      else this.#tallies.set(name, { key: { meter_id, version, subject_id, starts_at: new Date(starts_at) }, tally: adds })
    }
  }

  /** Returns the rows in the sequence of their keys, and begins with none again. */
  take(): QuarterTally[] {
    const rows = this.rows()
    this.#tallies = new Map()
    return rows
  }

  /** Returns the rows in the sequence of their keys. */
  rows(): QuarterTally[] {
    return [...this.#tallies]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, { key, tally }]) => ({
        ...key,
        count: tally.count,
        total: writeDecimal(tally.total),
        low: tally.low && writeDecimal(tally.low),
        high: tally.high && writeDecimal(tally.high),
      }))
  }
}
