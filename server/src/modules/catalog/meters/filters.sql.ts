import type { Filter, FilterClause } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { placeOf, textOf } from '../calc/filters.ts'

/** Implements the rules of `calc/filters.ts` in SQL, for rows with the columns name, source, timestamp and metadata. */
export const filterSql = (filter: Filter | FilterClause): RawBuilder<boolean> => {
  if (!('clauses' in filter)) return clauseSql(filter)
  if (filter.clauses.length === 0) return sql`true`
  return sql`(${sql.join(filter.clauses.map(filterSql), filter.conjunction === 'and' ? sql` and ` : sql` or `)})`
}

/**
 * Returns the JSON value of a property. Metadata is read by the whole name first, then by the path in the name. A path has
 * one value in the statement, however long it is. A strict path finds nothing in a list or a scalar, unlike `#>`, which takes a number as
 * the position in a list.
 */
export const valueSql = (property: string): RawBuilder<unknown> => {
  const place = placeOf(property)
  if ('own' in place) return place.own === 'timestamp' ? sql`to_jsonb(floor(extract(epoch from timestamp))::bigint)` : sql`to_jsonb(${sql.ref(place.own)})`
  const whole = sql`metadata -> ${place.key}::text`
  if (place.path.length === 1) return sql`(${whole})`
  return sql`coalesce(${whole}, jsonb_path_query_first(metadata, ${jsonPath(place.path)}::jsonpath, '{}', true))`
}

/** A path through objects in the language of JSON paths. Its texts are quoted as in JSON. */
const jsonPath = (names: readonly string[]): string => `strict $${names.map((name) => `.${JSON.stringify(name)}`).join('')}`

const signs = { eq: '=', ne: '<>', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const

const clauseSql = ({ property, operator, value }: FilterClause): RawBuilder<boolean> => {
  const place = placeOf(property)
  const text = (found: RawBuilder<unknown>): RawBuilder<boolean> => {
    if (operator === 'like') return sql`position(${textOf(value)}::text in ${found}) > 0`
    if (operator === 'not_like') return sql`position(${textOf(value)}::text in ${found}) = 0`
    // Equality is the same in every collation. Without `collate`, an index on the name can be used.
    if (operator === 'eq' || operator === 'ne') return sql`${found} ${sql.raw(signs[operator])} ${textOf(value)}::text`
    return sql`${found} collate "C" ${sql.raw(signs[operator])} ${textOf(value)}::text collate "C"`
  }
  const number = (found: RawBuilder<unknown>): RawBuilder<boolean> => {
    if (operator === 'like' || operator === 'not_like') return text(sql`(${found})::text`)
    return typeof value === 'number' ? sql`${found} ${sql.raw(signs[operator])} ${value}::numeric` : sql`false`
  }
  if ('own' in place) return place.own === 'timestamp' ? number(sql`floor(extract(epoch from timestamp))::bigint`) : text(sql.ref(place.own))
  const found = valueSql(property)
  // The value as text without quotes. An empty path means the value itself.
  const spelled = sql`(${found} #>> '{}')`
  const isLike = operator === 'like' || operator === 'not_like'
  const flag = typeof value === 'boolean' && !isLike ? sql`(${found})::boolean ${sql.raw(signs[operator])} ${value}` : undefined
  return sql`case jsonb_typeof(${found})
    when 'string' then ${text(spelled)}
    when 'number' then ${isLike ? text(spelled) : number(sql`(${found})::numeric`)}
    when 'boolean' then ${isLike ? text(spelled) : (flag ?? sql`false`)}
    else false end`
}
