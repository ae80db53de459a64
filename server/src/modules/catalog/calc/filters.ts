import type { Filter, FilterClause } from '@bursar/contract'

/** The fields of an event that filters and aggregations read. */
export interface Counted {
  readonly name: string
  readonly source: string
  readonly timestamp: Date
  readonly metadata: Readonly<Record<string, unknown>>
}

type Scalar = string | number | boolean

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

/** Returns where a clause reads its property: from a field of the event, or from a key of the event's metadata. */
export const placeOf = (property: string): { own: 'name' | 'source' | 'timestamp' } | { key: string } =>
  property === 'name' || property === 'source' || property === 'timestamp' ? { own: property } : { key: property.replace(/^metadata\./, '') }

/** Returns the value of a property: text, a number or a boolean. Other values count as absent. */
export const valueAt = (property: string, event: Counted): Scalar | undefined => {
  const place = placeOf(property)
  if ('key' in place) {
    const found = Object.hasOwn(event.metadata, place.key) ? event.metadata[place.key] : undefined
    return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean' ? found : undefined
  }
  return place.own === 'timestamp' ? Math.floor(event.timestamp.getTime() / 1000) : event[place.own]
}

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
const compare = (found: Scalar, value: Scalar): number | undefined => {
  // Compares by code point, like PostgreSQL with the C collation. JavaScript compares strings by UTF-16 code unit.
  if (typeof found === 'string') return Buffer.compare(Buffer.from(found), Buffer.from(textOf(value)))
  if (typeof found !== typeof value) return undefined
  return Number(found) - Number(value)
}

/** Returns a value as text. Numbers have no exponent, as in PostgreSQL. */
export const textOf = (value: Scalar): string => {
  if (typeof value !== 'number') return String(value)
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? []
  const shift = Number(exponent)
  if (shift === 0) return String(value)
  const digits = whole + fraction
  const point = whole.length + shift
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  return point >= digits.length ? sign + digits + '0'.repeat(point - digits.length) : `${sign}${digits.slice(0, point)}.${digits.slice(point)}`
}
