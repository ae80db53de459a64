import type { Aggregation } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { averageDigits } from '../engine/aggregations.ts'
import { placeOf } from '../engine/filters.ts'

/** The same rules as `engine/aggregations.ts`, for events that lie in the database: an aggregate that answers with decimal text. */
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
  // Asked within the case, so that text is never read as a number.
  const number = sql`case when jsonb_typeof(${json}) = 'number' then (${json})::numeric end`
  if (aggregation.func !== 'avg') return sql`coalesce(trim_scale(${sql.raw(aggregation.func)}(${number})), 0)::text`
  const shift = sql.raw(`1${'0'.repeat(averageDigits)}`)
  // Multiplied back rather than divided: a division would choose its own digits.
  const back = sql.raw(`0.${'0'.repeat(averageDigits - 1)}1`)
  return sql`coalesce(trim_scale(div(2 * sum(${number}) * ${shift} + sign(sum(${number})) * count(${number}), nullif(2 * count(${number}), 0)) * ${back}), 0)::text`
}
