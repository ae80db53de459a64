import type { Aggregation } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { averageDigits, type Tally } from '../calc/aggregations.ts'
import { valueSql } from './filters.sql.ts'

/** The number at the property, or null. Only `case` guarantees that the type check runs before the cast. A cast of text to a number would fail. */
const numberSql = (property: string): RawBuilder<unknown> => {
  const found = valueSql(property)
  return sql`case when jsonb_typeof(${found}) = 'number' then (${found})::numeric end`
}

/** SQL condition: the aggregation uses the event. Numeric functions ignore events whose property is not a number. */
export const countedSql = (aggregation: Aggregation): RawBuilder<boolean> => {
  if (aggregation.func === 'count') return sql<boolean>`true`
  const kinds = aggregation.func === 'unique' ? sql`('string', 'number', 'boolean')` : sql`('number')`
  return sql<boolean>`coalesce(jsonb_typeof(${valueSql(aggregation.property)}) in ${kinds}, false)`
}

/** The value that `unique` counts, or null. */
const uniqueValueSql = (property: string): RawBuilder<unknown> => {
  const found = valueSql(property)
  return sql`case when jsonb_typeof(${found}) in ('string', 'number', 'boolean') then ${found} end`
}

/** The hash of the value that `unique` counts, or null. Equal values have equal hashes, and different values different ones. */
export const uniqueHashSql = (property: string): RawBuilder<unknown> => sql`usage_hash(${uniqueValueSql(property)})`

/** Implements `contributionOf` and `mergeTallies` of `calc/aggregations.ts` in SQL: the columns of a tally over many events. */
export const tallySql = (aggregation: Aggregation): Record<keyof Tally, RawBuilder<unknown>> => {
  const uncounted = { total: sql`0::numeric`, low: sql`null::numeric`, high: sql`null::numeric` }
  if (aggregation.func === 'count') return { count: sql`count(*)`, ...uncounted }
  if (aggregation.func === 'unique') return { count: sql`count(${uniqueValueSql(aggregation.property)})`, ...uncounted }
  const number = numberSql(aggregation.property)
  return { count: sql`count(${number})`, total: sql`coalesce(sum(${number}), 0)`, low: sql`min(${number})`, high: sql`max(${number})` }
}

/** Implements `quantityOf` of `calc/aggregations.ts` in SQL, over the columns of a merged tally. Returns a number. */
export const quantitySql = (func: Exclude<Aggregation['func'], 'unique'>, { count, total, low, high }: Record<keyof Tally, RawBuilder<unknown>>) => {
  switch (func) {
    case 'count':
      return sql<string>`${count}::numeric`
    case 'sum':
      return sql<string>`coalesce(${total}, 0)`
    case 'max':
      return sql<string>`coalesce(${high}, 0)`
    case 'min':
      return sql<string>`coalesce(${low}, 0)`
    case 'avg': {
      const shift = sql.raw(`1${'0'.repeat(averageDigits)}`)
      // Multiplies by the inverse. For a division, PostgreSQL would choose the number of decimal places itself.
      const back = sql.raw(`0.${'0'.repeat(averageDigits - 1)}1`)
      return sql<string>`coalesce(div(2 * ${total} * ${shift} + sign(${total}) * ${count}, nullif(2 * ${count}, 0)) * ${back}, 0)`
    }
  }
}

/** Aggregates events in the database by the rules of `calc/aggregations.ts`. The aggregate returns decimal text. */
export const aggregateSql = (aggregation: Aggregation): RawBuilder<string> =>
  aggregation.func === 'unique'
    ? sql`count(distinct ${uniqueHashSql(aggregation.property)})::text`
    : sql`trim_scale(${quantitySql(aggregation.func, tallySql(aggregation))})::text`
