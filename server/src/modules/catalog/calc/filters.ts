import { readDecimal, spellDecimal } from '../../../kernel/decimals.ts'

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
 * Returns where a clause reads its property: from a field of the event, or from the event's metadata. Metadata is read by
 * the whole name first, then by the path that the dots in the name describe, such as `_cost.amount`.
 */
export const placeOf = (property: string): { own: 'name' | 'source' | 'timestamp' } | { key: string; path: readonly string[] } => {
  if (property === 'name' || property === 'source' || property === 'timestamp') return { own: property }
  const key = property.replace(/^metadata\./, '')
  return { key, path: key.split('.') }
}

export type Place = ReturnType<typeof placeOf>

/** Returns the value of a property: text, a number or a boolean. Other values count as absent. */
export const valueAt = (property: string, event: Counted): Scalar | undefined => valueIn(placeOf(property), event)

/** Returns the value at a place. */
export const valueIn = (place: Place, event: Counted): Scalar | undefined => {
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

export const decimalOf = (value: number | ExactNumber) => readDecimal(typeof value === 'number' ? String(value) : value.rawJSON)

/** Returns a value as text. Numbers have no exponent, as in PostgreSQL. */
export const textOf = (value: Scalar): string => (isNumber(value) ? spellDecimal(decimalOf(value)) : String(value))
