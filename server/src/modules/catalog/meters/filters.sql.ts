import type { Filter, FilterClause } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { placeOf, textOf } from '../calc/filters.ts'

/** Implements the rules of `calc/filters.ts` in SQL, for rows with the columns name, source, timestamp and metadata. */
export const filterSql = (filter: Filter | FilterClause): RawBuilder<boolean> => {
  if (!('clauses' in filter)) return clauseSql(filter)
  if (filter.clauses.length === 0) return sql`true`
  return sql`(${sql.join(filter.clauses.map(filterSql), filter.conjunction === 'and' ? sql` and ` : sql` or `)})`
}

const signs = { eq: '=', ne: '<>', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const

const clauseSql = ({ property, operator, value }: FilterClause): RawBuilder<boolean> => {
  const place = placeOf(property)
  const text = (found: RawBuilder<unknown>): RawBuilder<boolean> => {
    if (operator === 'like') return sql`position(${textOf(value)}::text in ${found}) > 0`
    if (operator === 'not_like') return sql`position(${textOf(value)}::text in ${found}) = 0`
    return sql`${found} collate "C" ${sql.raw(signs[operator])} ${textOf(value)}::text collate "C"`
  }
  const number = (found: RawBuilder<unknown>): RawBuilder<boolean> => {
    if (operator === 'like' || operator === 'not_like') return text(sql`(${found})::text`)
    return typeof value === 'number' ? sql`${found} ${sql.raw(signs[operator])} ${value}::numeric` : sql`false`
  }
  if ('own' in place) return place.own === 'timestamp' ? number(sql`floor(extract(epoch from timestamp))::bigint`) : text(sql.ref(place.own))
  const found = sql`metadata -> ${place.key}::text`
  const flag =
    typeof value === 'boolean' && operator !== 'like' && operator !== 'not_like' ? sql`(${found})::boolean ${sql.raw(signs[operator])} ${value}` : undefined
  return sql`case jsonb_typeof(${found})
    when 'string' then ${text(sql`(metadata ->> ${place.key}::text)`)}
    when 'number' then ${operator === 'like' || operator === 'not_like' ? text(sql`(metadata ->> ${place.key}::text)`) : number(sql`(${found})::numeric`)}
    when 'boolean' then ${operator === 'like' || operator === 'not_like' ? text(sql`(metadata ->> ${place.key}::text)`) : (flag ?? sql`false`)}
    else false end`
}
