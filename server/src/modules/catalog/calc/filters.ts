import type { Filter, FilterClause } from '@bursar/contract'
import { compareDecimals, readDecimal, spellDecimal } from '../../../kernel/decimals.ts'

/** The fields of an event that filters and aggregations read. */
export interface Counted {
  readonly name: string
  readonly source: string
  readonly timestamp: Date
  readonly metadata: Readonly<Record<string, unknown>>
}

/** A number of an event, as it was sent. A double would round numbers of more than 15 digits. */
export interface ExactNumber {
  readonly rawJSON: string
}

export type Scalar = string | number | boolean | ExactNumber

/**
 * Returns true if an event matches the filter. `filters.sql.ts` implements the same rules, so that displayed and billed
 * quantities cannot differ. The type of the property in the event decides how to compare. Text is compared as text,
 * numbers only with numbers, booleans only with booleans. An absent property never matches, with any operator.
 */
export const matches = (filter: Filter | FilterClause, event: Counted): boolean => {
  if (!('clauses' in filter)) return holds(filter, event)
  if (filter.clauses.length === 0) return true
  return filter.conjunction === 'and' ? filter.clauses.every((one) => matches(one, event)) : filter.clauses.some((one) => matches(one, event))
}

/**
 * Returns where a clause reads its property: from a field of the event, or from the event's metadata. Metadata is read by
 * the whole name first, then by the path that the dots in the name describe, such as `_cost.amount`.
 */
export const placeOf = (property: string): { own: 'name' | 'source' | 'timestamp' } | { key: string; path: readonly string[] } => {
  if (property === 'name' || property === 'source' || property === 'timestamp') return { own: property }
  const key = property.replace(/^metadata\./, '')
  return { key, path: key.split('.') }
}

/** Returns the value of a property: text, a number or a boolean. Other values count as absent. */
export const valueAt = (property: string, event: Counted): Scalar | undefined => {
  const place = placeOf(property)
  if ('own' in place) return place.own === 'timestamp' ? Math.floor(event.timestamp.getTime() / 1000) : event[place.own]
  const found = Object.hasOwn(event.metadata, place.key) ? event.metadata[place.key] : walk(event.metadata, place.path)
  if (typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean') return found
  return isExactNumber(found) ? found : undefined
}

const walk = (from: unknown, path: readonly string[]): unknown => {
  let at = from
  for (const name of path) {
    if (typeof at !== 'object' || at === null || Array.isArray(at) || isExactNumber(at) || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}

/** Returns true for a number that keeps its text. Only `JSON.rawJSON` makes such objects, so metadata cannot imitate one. */
export const isExactNumber = (value: unknown): value is ExactNumber => JSON.isRawJSON(value)

export const isNumber = (value: Scalar): value is number | ExactNumber => typeof value === 'number' || typeof value === 'object'

const holds = ({ property, operator, value }: FilterClause, event: Counted): boolean => {
  const found = valueAt(property, event)
  if (found === undefined) return false
  if (operator === 'like' || operator === 'not_like') return textOf(found).includes(textOf(value)) === (operator === 'like')
  const order = compare(found, value)
  if (order === undefined) return false
  switch (operator) {
    case 'eq':
      return order === 0
    case 'ne':
      return order !== 0
    case 'gt':
      return order > 0
    case 'gte':
      return order >= 0
    case 'lt':
      return order < 0
    case 'lte':
      return order <= 0
  }
}

/** Compares two values. Returns undefined if they are not comparable. */
const compare = (found: Scalar, value: FilterClause['value']): number | undefined => {
  // Compares by code point, like PostgreSQL with the C collation. JavaScript compares strings by UTF-16 code unit.
  if (typeof found === 'string') return Buffer.compare(Buffer.from(found), Buffer.from(textOf(value)))
  if (typeof found === 'object') return typeof value === 'number' ? compareDecimals(decimalOf(found), decimalOf(value)) : undefined
  if (typeof found !== typeof value) return undefined
  return Number(found) - Number(value)
}

export const decimalOf = (value: number | ExactNumber) => readDecimal(typeof value === 'number' ? String(value) : value.rawJSON)

/** Returns a value as text. Numbers have no exponent, as in PostgreSQL. */
export const textOf = (value: Scalar): string => (isNumber(value) ? spellDecimal(decimalOf(value)) : String(value))
