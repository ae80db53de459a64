import type { Filter, FilterClause } from '@bursar/contract'
import { compareDecimals, type Decimal } from '../../../kernel/decimals.ts'
import { decimalOf, isNumber, placeOf, textOf, valueIn, type Counted, type Place, type Scalar } from './filters.ts'

/** True if an event matches a filter. */
export type Predicate = (event: Counted) => boolean

/** Reads one property of events. Keeps the value of the last event, because many clauses read the same property of it. */
class Property {
  readonly #place: Place
  #event: Counted | undefined
  #value: Scalar | undefined
  #text: string | undefined
  #decimal: Decimal | undefined

  constructor(place: Place) {
    this.#place = place
  }

  of(event: Counted): Scalar | undefined {
    if (event !== this.#event) {
      this.#event = event
      this.#value = valueIn(this.#place, event)
      this.#text = undefined
      this.#decimal = undefined
    }
    return this.#value
  }

  /** The value of the last event as text. */
  text(): string {
    return (this.#text ??= textOf(this.#value!))
  }

  /** The number of the last event. */
  decimal(): Decimal {
    const value = this.#value!
    return (this.#decimal ??= decimalOf(isNumber(value) ? value : Number(value)))
  }
}

/** The properties that filters read, by name. Filters that are compared with the same events share them. */
export class Properties {
  readonly #all = new Map<string, Property>()

  get(name: string): Property {
    const found = this.#all.get(name) ?? new Property(placeOf(name))
    this.#all.set(name, found)
    return found
  }

  valueOf(name: string, event: Counted): Scalar | undefined {
    return this.get(name).of(event)
  }
}

/**
 * Returns true if an event matches the filter. `filters.sql.ts` implements the same rules, so that displayed and billed
 * quantities cannot differ. The type of the property in the event decides how to compare. Text is compared as text,
 * numbers only with numbers, booleans only with booleans. An absent property never matches, with any operator.
 */
export const matches = (filter: Filter | FilterClause, event: Counted): boolean => compileFilter(filter)(event)

/** Prepares a filter for many events. Looks up properties and reads values once, and compares cheap clauses first. */
export const compileFilter = (filter: Filter | FilterClause, properties = new Properties()): Predicate => {
  if (!('clauses' in filter)) return compileClause(filter, properties)
  if (filter.clauses.length === 0) return () => true
  const all = filter.clauses.toSorted((a, b) => costOf(a) - costOf(b)).map((one) => compileFilter(one, properties))
  return filter.conjunction === 'and' ? (event) => all.every((one) => one(event)) : (event) => all.some((one) => one(event))
}

/** The rank of a clause by its cost. An event has its name and source at hand. */
const costOf = (one: Filter | FilterClause): number => {
  if ('clauses' in one) return 3
  if (one.property !== 'name' && one.property !== 'source') return 2
  return one.operator === 'eq' ? 0 : 1
}

/** The results of a comparison that an operator accepts, by the order of both values. */
const accepts: Readonly<Record<Exclude<FilterClause['operator'], 'like' | 'not_like'>, (order: number) => boolean>> = {
  eq: (order) => order === 0,
  ne: (order) => order !== 0,
  gt: (order) => order > 0,
  gte: (order) => order >= 0,
  lt: (order) => order < 0,
  lte: (order) => order <= 0,
}

const compileClause = ({ property: name, operator, value }: FilterClause, properties: Properties): Predicate => {
  const property = properties.get(name)
  const text = textOf(value)
  if (operator === 'like' || operator === 'not_like')
    return (event) => property.of(event) !== undefined && property.text().includes(text) === (operator === 'like')
  const accepted = accepts[operator]
  const number = typeof value === 'number' ? decimalOf(value) : undefined
  // Texts that are only compared for equality need no order.
  const compareText = operator === 'eq' || operator === 'ne' ? (found: string) => (found === text ? 0 : 1) : (found: string) => compareCodePoints(found, text)
  return (event) => {
    const found = property.of(event)
    if (found === undefined) return false
    if (typeof found === 'string') return accepted(compareText(found))
    if (typeof found === 'object') return number !== undefined && accepted(compareDecimals(property.decimal(), number))
    return typeof found === typeof value && accepted(Number(found) - Number(value))
  }
}

/** Moves surrogates, which JavaScript uses for code points above U+FFFF, behind all other code units. */
const rankOf = (unit: number): number => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit)

/** Compares by code point, like PostgreSQL with the C collation. JavaScript compares texts by UTF-16 code unit. */
const compareCodePoints = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const [one, other] = [a.charCodeAt(at), b.charCodeAt(at)]
    if (one !== other) return rankOf(one) - rankOf(other)
  }
  return a.length - b.length
}

/** Returns the number of clauses and nested filters of a filter. */
export const sizeOfFilter = (filter: Filter | FilterClause): number =>
  'clauses' in filter ? filter.clauses.reduce((sum, clause) => sum + sizeOfFilter(clause), 1) : 1
