import type { Aggregation } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { averageDigits } from '../calc/aggregations.ts'
import { placeOf } from '../calc/filters.ts'

/** Implements the rules of `calc/aggregations.ts` in SQL, for events in the database. The aggregate returns decimal text. */
export const aggregateSql = (aggregation: Aggregation): RawBuilder<string> => {
  if (aggregation.func === 'count') return sql`count(*)::text`
  const place = placeOf(aggregation.property)
  const json =
    'key' in place
      ? sql`metadata -> ${place.key}::text`
      : place.own === 'timestamp'
        ? sql`to_jsonb(floor(extract(epoch from timestamp))::bigint)`
        : sql`to_jsonb(${sql.ref(place.own)})`
  if (aggregation.func === 'unique') return sql`(count(distinct ${json}) filter (where jsonb_typeof(${json}) in ('string', 'number', 'boolean')))::text`
  // Only `case` guarantees that the type check runs before the cast. A cast of text to a number would fail.
  const number = sql`case when jsonb_typeof(${json}) = 'number' then (${json})::numeric end`
  if (aggregation.func !== 'avg') return sql`coalesce(trim_scale(${sql.raw(aggregation.func)}(${number})), 0)::text`
  const shift = sql.raw(`1${'0'.repeat(averageDigits)}`)
  // Multiplies by the inverse. For a division, PostgreSQL would choose the number of decimal places itself.
  const back = sql.raw(`0.${'0'.repeat(averageDigits - 1)}1`)
  return sql`coalesce(trim_scale(div(2 * sum(${number}) * ${shift} + sign(sum(${number})) * count(${number}), nullif(2 * count(${number}), 0)) * ${back}), 0)::text`
}
