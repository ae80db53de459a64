import type { Aggregation, Filter, FilterClause } from '@bursar/contract'
import { literal } from '../../../gateways/event-store/event-store.ts'
import { readDecimal, spellDecimal } from '../../../kernel/decimals.ts'
import { placeOf, textOf } from '../../catalog/index.ts'
import type { Uncopied } from './copies.sql.ts'
import { digits, isComputable, kinds } from '../calc/copied-rows.ts'
import { tablesOf } from './store.sql.ts'

/** The store cannot answer this question as PostgreSQL does, so PostgreSQL answers it. */
export class NotAskable extends Error {}

const list = (values: readonly string[]): string => `(${values.map(literal).join(', ')})`
const among = (column: string, values: readonly string[]): string => (values.length === 0 ? '0' : `${column} in ${list(values)}`)
const notAmong = (column: string, values: readonly string[]): string[] => (values.length === 0 ? [] : [`${column} not in ${list(values)}`])
const all = (conditions: readonly string[]): string => (conditions.length === 0 ? '1' : conditions.map((one) => `(${one})`).join(' and '))

/** A number as a decimal of the store. */
const decimal = (spelled: string): string => {
  if (!isComputable(spelled)) throw new NotAskable()
  return `toDecimal128(${literal(spelled)}, ${digits.fraction})`
}
const decimalOf = (value: number): string => decimal(spellDecimal(readDecimal(String(value))))

/** The columns of a property. Its position is 0 if the event does not have it, and all columns are then empty. */
const columnsOf = (key: string) => {
  const at = `indexOf(keys, ${literal(key)})`
  return { kind: `kinds[${at}]`, text: `texts[${at}]`, number: `numbers[${at}]` }
}

/** The time of an event in whole seconds. */
const second = 'toInt64(floor(at / 1000))'

const signs = { eq: '=', ne: '!=', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const

/** Implements the rules of `filterSql` for the store. */
export const filterOf = (filter: Filter | FilterClause): string => {
  if (!('clauses' in filter)) return clauseOf(filter)
  if (filter.clauses.length === 0) return '1'
  return `(${filter.clauses.map(filterOf).join(filter.conjunction === 'and' ? ' and ' : ' or ')})`
}

const clauseOf = ({ property, operator, value }: FilterClause): string => {
  const place = placeOf(property)
  const spelled = textOf(value)
  const isLike = operator === 'like' || operator === 'not_like'
  const text = (found: string): string => {
    // Every text contains the empty text.
    if (isLike && spelled === '') return operator === 'like' ? '1' : '0'
    return isLike ? `position(${found}, ${literal(spelled)}) ${operator === 'like' ? '> 0' : '= 0'}` : `${found} ${signs[operator]} ${literal(spelled)}`
  }
  if ('own' in place) {
    if (place.own !== 'timestamp') return text(place.own)
    if (isLike) return text(`toString(${second})`)
    return typeof value === 'number' ? `toDecimal128(${second}, ${digits.fraction}) ${signs[operator]} ${decimalOf(value)}` : '0'
  }
  const found = columnsOf(place.key)
  if (isLike) return `(${found.kind} in (${kinds.text}, ${kinds.number}, ${kinds.flag}) and ${text(found.text)})`
  const either = [
    `(${found.kind} = ${kinds.text} and ${text(found.text)})`,
    ...(typeof value === 'number' ? [`(${found.kind} = ${kinds.number} and ${found.number} ${signs[operator]} ${decimalOf(value)})`] : []),
    ...(typeof value === 'boolean' ? [`(${found.kind} = ${kinds.flag} and ${text(found.text)})`] : []),
  ]
  return `(${either.join(' or ')})`
}

/** Implements `countedSql` for the store: the aggregation uses the event. */
const countedOf = (aggregation: Aggregation): string => {
  if (aggregation.func === 'count') return '1'
  const place = placeOf(aggregation.property)
  // A name or a source is text, and a timestamp is a number.
  if ('own' in place) return aggregation.func === 'unique' || place.own === 'timestamp' ? '1' : '0'
  const { kind } = columnsOf(place.key)
  return aggregation.func === 'unique' ? `${kind} in (${kinds.text}, ${kinds.number}, ${kinds.flag})` : `${kind} = ${kinds.number}`
}

/** Implements `metadataHas` for the store. */
const metadataOf = (metadata: Readonly<Record<string, readonly string[]>> = {}): string[] =>
  Object.entries(metadata).map(([key, values]) => {
    // In the copy, a key with a dot may also be the path to a deeper value.
    if (key.includes('.')) throw new NotAskable()
    const { kind, text, number } = columnsOf(key)
    const either = values.flatMap((value) => [
      `(${kind} = ${kinds.text} and ${text} = ${literal(value)})`,
      ...(value === 'true' || value === 'false' ? [`(${kind} = ${kinds.flag} and ${text} = ${literal(value)})`] : []),
      ...(/^-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(value) ? [`(${kind} = ${kinds.number} and ${number} = ${decimal(value)})`] : []),
    ])
    return either.length === 0 ? '0' : either.join(' or ')
  })

export interface Selection {
  readonly organization_ids: readonly string[]
  /** Bounds of the time, in milliseconds. The range of a list contains neither of them, and that of quantities contains its start. */
  readonly after?: number | undefined
  readonly from?: number | undefined
  readonly before?: number | undefined
  readonly name?: readonly string[]
  readonly source?: readonly string[]
  /** One list of subjects for each filter of customers. */
  readonly subjects: readonly (readonly string[])[]
  readonly filters: readonly Filter[]
  readonly counted?: Aggregation | undefined
  readonly metadata?: Readonly<Record<string, readonly string[]>> | undefined
}

/** The table of the events and the conditions of a question. Leaves out what PostgreSQL adds to the answer. */
const selected = (uncopied: Uncopied, selection: Selection, besides: readonly string[] = []): string => {
  const { events, corrected } = tablesOf(uncopied.copy)
  const owners = among('organization', selection.organization_ids)
  return `${events} where ${all([
    owners,
    ...(selection.after === undefined ? [] : [`at > ${selection.after}`]),
    ...(selection.from === undefined ? [] : [`at >= ${selection.from}`]),
    ...(selection.before === undefined ? [] : [`at < ${selection.before}`]),
    ...(selection.name?.length ? [among('name', selection.name)] : []),
    ...(selection.source?.length ? [among('source', selection.source)] : []),
    ...selection.subjects.map((ids) => among('subject', ids)),
    ...selection.filters.map(filterOf),
    ...(selection.counted ? [countedOf(selection.counted)] : []),
    ...metadataOf(selection.metadata),
    ...notAmong(
      'batch',
      uncopied.batches.map(({ id }) => id),
    ),
    ...notAmong('id', uncopied.corrections),
    `id not in (select id from ${corrected} where ${owners})`,
    ...besides,
  ])}`
}

/** The number of events of the organizations and the time whose numbers have too many digits. */
export const countInexact = (uncopied: Uncopied, { organization_ids, after, from, before }: Selection): string =>
  `select count() from ${selected({ ...uncopied, batches: [], corrections: [] }, { organization_ids, after, from, before, subjects: [], filters: [] }, ['exact = 0'])}`

export const countSelected = (uncopied: Uncopied, selection: Selection): string => `select count() from ${selected(uncopied, selection)}`

/** The time and the id of an event. */
export interface Place {
  readonly at: number
  readonly id: string
}

/** Selects places in the order of time, beginning after one of them or after a number of them. */
export const selectPlaces = (
  uncopied: Uncopied,
  selection: Selection,
  { descending, beyond, skip, most }: { descending: boolean; beyond: Place | undefined; skip: number; most: number },
): string => {
  const way = descending ? 'desc' : 'asc'
  const sign = descending ? '<' : '>'
  const conditions = beyond ? [`at ${sign} ${beyond.at} or (at = ${beyond.at} and id ${sign} ${literal(beyond.id)})`] : []
  return `select toString(at), id, organization from ${selected(uncopied, selection, conditions)} order by at ${way}, id ${way} limit ${skip}, ${most}`
}

/** Selects the values that `unique` counts, by the start of their interval: their number, and those of `known` that are among them. */
export const selectUnique = (uncopied: Uncopied, selection: Selection, property: string, starts: readonly number[], known: readonly UniqueValue[]): string => {
  const value = uniqueOf(property)
  const asked = known.length === 0 ? `['']` : `[${known.map(uniqueLiteral).join(', ')}]`
  return `select toString(${startOf(starts)}) as start, uniqExact(${value}), groupUniqArrayIf(${value}, has(${asked}, ${value}))
    from ${selected(uncopied, selection)} group by start with totals`
}

/** The start of the interval that an event is in. The first start is not after any event. */
const startOf = (starts: readonly number[]): string => `arrayElement([${starts.join(', ')}], arrayCount(one -> one <= at, [${starts.join(', ')}]))`

/** A value that `unique` counts. */
export interface UniqueValue {
  readonly kind: 'string' | 'number' | 'boolean'
  readonly text: string
}

/** The text that identifies a value: its kind, and the value. Numbers of equal value have the same text. */
const uniqueOf = (property: string): string => {
  const place = placeOf(property)
  if ('own' in place) return place.own === 'timestamp' ? `concat('2', toString(toDecimal128(${second}, ${digits.fraction})))` : `concat('1', ${place.own})`
  const { kind, text, number } = columnsOf(place.key)
  return `if(${kind} = ${kinds.number}, concat('2', toString(${number})), concat(toString(${kind}), ${text}))`
}
const uniqueLiteral = ({ kind, text }: UniqueValue): string => {
  if (kind === 'number') return `concat('2', toString(${decimal(text)}))`
  return literal(`${kind === 'string' ? kinds.text : kinds.flag}${text}`)
}

/** Selects count, total, lowest and highest number by the start of their interval, as text. */
export const selectTallies = (
  uncopied: Uncopied,
  selection: Selection,
  aggregation: Exclude<Aggregation, { func: 'unique' }>,
  starts: readonly number[],
): string => {
  const number = aggregation.func === 'count' ? undefined : numberOf(aggregation.property)
  const [total, low, high] = number ? [`sum(${number})`, `min(${number})`, `max(${number})`] : [`'0'`, `'0'`, `'0'`]
  return `select toString(${startOf(starts)}) as start, toString(count()), toString(${total}), toString(${low}), toString(${high})
    from ${selected(uncopied, selection)} group by start`
}

const numberOf = (property: string): string => {
  const place = placeOf(property)
  if ('own' in place) return `toDecimal128(${second}, ${digits.fraction})`
  return columnsOf(place.key).number
}
