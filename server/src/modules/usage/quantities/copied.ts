import type { Meter } from '@bursar/contract'
import { readDecimal, writeDecimal } from '../../../kernel/decimals.ts'
import { parseRaw } from '../../../kernel/exact-json.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { contributionOf, emptyTally, mergeTallies, quantityOf, uniqueValueOf, type Counted, type Tally } from '../../catalog/index.ts'
import { fromCopy, type CopyReader } from '../copies/asking.ts'
import { loadMissing, type MissingEvent } from '../copies/copies.sql.ts'
import { kinds } from '../calc/copied-rows.ts'
import { selectTallies, selectUnique, type Selection, type UniqueValue } from '../copies/questions.sql.ts'
import { countedConditions, type Answer, type Question } from './quantities.sql.ts'

/** Aggregates events in the copy. Returns undefined if PostgreSQL has to answer. */
export const quantitiesFromCopy = async (db: Db, reader: CopyReader, meter: Meter, question: Question): Promise<Answer | undefined> => {
  const { aggregation } = meter
  // Otherwise the totals of quarter hours in PostgreSQL answer at once.
  const isLong = aggregation.func === 'unique' || Object.keys(question.metadata ?? {}).length > 0
  if (!isLong || question.combine || question.subjects) return undefined
  const selection: Selection = {
    organization_ids: [meter.organization_id],
    from: question.start.getTime(),
    before: question.end.getTime(),
    subjects: [],
    filters: [meter.filter],
    counted: aggregation,
    metadata: question.metadata,
  }
  const starts = question.starts.map((at) => at.getTime())
  if (starts.length === 0) return { quantities: new Map(), total: '0' }
  const bucketOf = (at: number): number => starts.findLastIndex((start) => start <= at)
  return fromCopy(db, reader, selection, async (uncopied, ask) => {
    const missing = await loadMissing(db, uncopied, countedConditions(meter, question))
    if (aggregation.func === 'unique') {
      const values = new Map<string, Set<string>>()
      for (const event of missing) {
        const key = String(starts[bucketOf(event.timestamp.getTime())])
        const value = uniqueValueOf(aggregation.property, countable(event))!
        values.set(key, (values.get(key) ?? new Set()).add(value))
        values.set('', (values.get('') ?? new Set()).add(value))
      }
      const known = [...(values.get('') ?? [])].map(uniqueFrom)
      const { rows, totals } = await ask(selectUnique(uncopied, selection, aggregation.property, starts, known))
      const counts = new Map(
        [...rows, ...(totals ? [['', ...totals.slice(1)]] : [])].map(([start, count, seen]) => [
          String(start),
          { count: Number(count), seen: (seen as string[]).map(valueFromStore) },
        ]),
      )
      /** Values in the copy, and those of missing events that are not among them. An interval may have seen values of another. */
      const sum = (key: string): number => {
        const { count, seen } = counts.get(key) ?? { count: 0, seen: [] }
        const own = values.get(key) ?? new Set()
        return count + own.size - seen.filter((value) => own.has(value)).length
      }
      const quantities = starts.flatMap((start, at) => (sum(String(start)) > 0 ? [[at, String(sum(String(start)))] as const] : []))
      return { quantities: new Map(quantities), total: String(sum('')) }
    }
    const tallies = new Map<number, Tally>()
    const add = (at: number, tally: Tally) => tallies.set(at, mergeTallies(tallies.get(at) ?? emptyTally, tally))
    for (const [start, count, total, low, high] of (await ask(selectTallies(uncopied, selection, aggregation, starts))).rows)
      add(starts.indexOf(Number(start)), {
        count: Number(count),
        total: readDecimal(String(total)),
        low: readDecimal(String(low)),
        high: readDecimal(String(high)),
      })
    for (const event of missing) add(bucketOf(event.timestamp.getTime()), contributionOf(aggregation, countable(event))!)
    const { func } = aggregation
    return {
      quantities: new Map([...tallies].map(([at, tally]) => [at, quantityOf(func, tally)])),
      total: quantityOf(func, [...tallies.values()].reduce(mergeTallies, emptyTally)),
    }
  })
}

const countable = ({ name, source, timestamp, metadata }: MissingEvent): Counted => ({
  name,
  source,
  timestamp,
  metadata: parseRaw(metadata) as Counted['metadata'],
})

/** Writes a value of the store as `uniqueValueOf` does. */
const valueFromStore = (found: string): string => {
  const [kind, text] = [Number(found[0]), found.slice(1)]
  if (kind === kinds.number) return `number ${writeDecimal(readDecimal(text))}`
  return `${kind === kinds.text ? 'string' : 'boolean'} ${text}`
}

/** Reads the text of `uniqueValueOf`. */
const uniqueFrom = (value: string): UniqueValue => {
  const space = value.indexOf(' ')
  return { kind: value.slice(0, space) as UniqueValue['kind'], text: value.slice(space + 1) }
}
