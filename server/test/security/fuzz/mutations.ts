import type { Operation } from '@bursar/contract'
import type { Chance } from '../../simulation/years/stories.ts'
import type { Draft } from './drafts.ts'
import { branchFor, sample, schemaOf, type Resolve, type Sampler, type Schema } from './schemas.ts'
import { hostileValue, texts } from './values.ts'

type Fields = Record<string, unknown>
const isRecord = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Sets a field as an own property, also if its name is `__proto__`. */
const put = (into: Fields, name: string, value: unknown) => Object.defineProperty(into, name, { value, enumerable: true, configurable: true, writable: true })

const strangeNames = ['__proto__', 'constructor', 'prototype', 'toString', '', ' ', 'a\0b', '\ud800', 'unknown_field', 'x'.repeat(5000), '$ref', '0', 'length']

/** Changes one place of a value that has this schema. Walks down by chance. Returns the changed value and the place. */
const mutate = (given: Schema, value: unknown, sampler: Sampler, place: string): { value: unknown; place: string } => {
  const { resolve, chance } = sampler
  const schema = branchFor(resolve(given), value, resolve, chance)
  const deeper = chance.below(5) > 0
  if (schema.type === 'object' && (isRecord(value) || value === undefined)) {
    const record: Fields = { ...value }
    const names = [...new Set([...Object.keys(schema.properties ?? {}), ...Object.keys(record)])]
    const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {}
    if (deeper && names.length > 0) {
      const name = chance.pick(names)
      const inner = resolve(schema.properties?.[name] ?? rest)
      const whole = record[name] ?? sample(inner, sampler, name)
      const done = mutate(inner, whole, sampler, `${place}.${name}`)
      put(record, name, done.value)
      return { value: record, place: done.place }
    }
    const way = chance.below(names.length > 0 ? 5 : 4)
    if (way <= 1) {
      const name = chance.pick(strangeNames)
      put(record, name, chance.pick([1, 'x', null, {}, [], { a: { b: 1 } }]))
      return { value: record, place: `${place} + key ${name.slice(0, 20)}` }
    }
    if (way === 2 && typeof schema.additionalProperties === 'object') {
      const count = (schema.maxProperties ?? 50) + chance.below(2)
      for (let at = 0; at < count; at++) record[`key_${at}`] = sample(rest, sampler)
      return { value: record, place: `${place} with ${count} keys` }
    }
    if (way === 4) {
      const gone = chance.pick(names)
      delete record[gone]
      return { value: record, place: `${place} without ${gone}` }
    }
  }
  if (schema.type === 'array' && Array.isArray(value)) {
    const items = schema.items ?? {}
    if (deeper && value.length > 0) {
      const at = chance.below(value.length)
      const done = mutate(items, value[at], sampler, `${place}[${at}]`)
      return { value: value.with(at, done.value), place: done.place }
    }
    const first: unknown = value[0] ?? sample(items, sampler)
    const most = schema.maxItems ?? 100
    const counts = [0, (schema.minItems ?? 1) - 1, 1, 2, most, most + 1, 1001]
    const count = Math.max(0, Math.min(chance.pick(counts), 10_001))
    const same = chance.below(2) === 0
    return { value: Array.from({ length: count }, () => (same ? first : sample(items, sampler))), place: `${place} with ${count} elements` }
  }
  return { value: hostileValue(schema, value, chance), place }
}

/** Writes a value into a query string. */
const inText = (value: unknown): string =>
  typeof value === 'string'
    ? value
    : value === undefined
      ? ''
      : typeof value === 'object' && value !== null && 'text' in value
        ? String(value.text)
        : (JSON.stringify(value) ?? '')

const declaredNames = (operation: Operation, part: 'params' | 'query'): [string, Schema, Resolve][] => {
  const declared = schemaOf(operation, part)
  return declared ? Object.entries(declared.schema.properties ?? {}).map(([name, schema]) => [name, declared.resolve(schema), declared.resolve]) : []
}

const mutatePath = (operation: Operation, draft: Draft, chance: Chance): string => {
  const names = Object.keys(draft.params)
  const name = chance.pick(names)
  const [, schema = {}, resolve = (one: Schema) => one] = declaredNames(operation, 'params').find(([known]) => known === name) ?? []
  const value = draft.params[name]!
  draft.params[name] =
    chance.below(3) === 0
      ? chance.pick([`${value}/`, `${value}%`, `${value} `, value.toUpperCase(), `${value}?`, '..', '.', 'x'.repeat(501)])
      : inText(hostileValue(branchFor(schema, value, resolve, chance), value, chance))
  // A path of more than 16 KiB is refused with the headers, before the operation is known.
  draft.params[name] = draft.params[name].slice(0, chance.below(20) === 0 ? 17_000 : 2000)
  return `path ${name}`
}

const mutateQuery = (operation: Operation, draft: Draft, chance: Chance, ids: Sampler['ids']): string => {
  const declared = declaredNames(operation, 'query')
  const [name, schema, resolve] = declared.length > 0 && chance.below(8) > 0 ? chance.pick(declared) : (['unknown', {}, (one: Schema) => one] as const)
  const present = draft.query.find(([known]) => known === name)?.[1]
  const value = present ?? inText(sample(schema, { resolve, chance, ids }, name))
  const others = draft.query.filter(([known]) => known !== name)
  const branch = branchFor(schema, undefined, resolve, chance)
  const hostile = () => inText(hostileValue(branch.items ? branchFor(resolve(branch.items), undefined, resolve, chance) : branch, value, chance)).slice(0, 6000)
  const ways: [string, () => [string, string][]][] = [
    ['hostile', () => [[name, hostile()]]],
    ['hostile', () => [[name, hostile()]]],
    ['hostile', () => [[name, hostile()]]],
    ['missing', () => []],
    ['empty', () => [[name, '']]],
    [
      'twice',
      () => [
        [name, value],
        [name, value],
      ],
    ],
    [
      'twice, differing',
      () => [
        [name, value],
        [name, hostile()],
      ],
    ],
    ['101 times', () => Array.from({ length: 101 }, (): [string, string] => [name, value.slice(0, 60)])],
    ['1200 times', () => Array.from({ length: 1200 }, (): [string, string] => [name, '1'])],
    ['as a record', () => [[`${name}[${chance.pick(['a', '', '__proto__', 'constructor', '0'])}]`, value]]],
    ['as a list', () => [[`${name}[]`, value]]],
    ['as a deep record', () => [[`${name}[a][b]`, value]]],
    [
      'both forms',
      () => [
        [name, value],
        [`${name}[a]`, value],
      ],
    ],
    ['other case', () => [[name.toUpperCase(), value]]],
    ['strange name', () => [[chance.pick(strangeNames).slice(0, 500), value]]],
  ]
  const [way, make] = chance.pick(ways)
  draft.query = [...others, ...make()]
  return `query ${name} ${way}`
}

const strangeHeaders: readonly ((chance: Chance) => Record<string, string | string[]>)[] = [
  (chance) => ({ 'idempotency-key': chance.pick(['', ' ', 'k', 'x'.repeat(255), 'x'.repeat(256), 'é', '\u0001'.replace('\u0001', '"'), '__proto__']) }),
  () => ({ 'idempotency-key': ['a', 'b'] }),
  (chance) => ({ 'bursar-version': chance.pick(['2026-04', '1999-01', '', '__proto__', 'x'.repeat(2000)]) }),
  (chance) => ({ 'polar-version': chance.pick(['2026-04', 'latest', '']) }),
  (chance) => ({ 'bursar-organization': chance.pick(['', 'x', '00000000-0000-0000-0000-000000000000', '__proto__', 'x'.repeat(3000)]) }),
  (chance) => ({ 'bursar-member-phase': chance.pick(['2', '1', '', '2,2']) }),
  (chance) => ({ accept: chance.pick(['text/html', 'application/xml', '*/*;q=0', 'x'.repeat(2000), '']) }),
  (chance) => ({ 'accept-language': chance.pick(['de', 'xx-YY-zz', '*', 'x'.repeat(3000), 'de;q=NaN']) }),
  (chance) => ({ origin: chance.pick(['null', 'https://evil.example', '', 'x'.repeat(2000)]) }),
  (chance) => ({ 'if-none-match': chance.pick(['*', '""', 'x'.repeat(2000)]) }),
  (chance) => ({ range: chance.pick(['bytes=0-', 'bytes=5-1', 'x']) }),
  (chance) => ({ 'x-forwarded-for': chance.pick(['1.2.3.4', '::1', 'x'.repeat(2000), "' or 1=1"]) }),
  (chance) => ({ 'user-agent': chance.pick(['', 'x'.repeat(5000), 'é']) }),
  (chance) => ({ cookie: chance.pick(['', '=', ';;;', 'a=b; '.repeat(300), '__Host-bursar_session=x', 'x'.repeat(5000)]) }),
  (chance) => ({ traceparent: chance.pick(['00-x-y-01', 'x'.repeat(3000)]) }),
]

/** Changes one part of a valid request in place. Returns which one. */
export const mutateDraft = (operation: Operation, draft: Draft, chance: Chance, ids: Sampler['ids']): string => {
  const body = schemaOf(operation, 'body')
  const parts = [
    ...(Object.keys(draft.params).length > 0 ? ['path', 'path'] : []),
    ...(schemaOf(operation, 'query') ? ['query', 'query', 'query', 'query'] : ['query']),
    ...(body ? Array.from({ length: 10 }, () => 'body') : []),
    'headers',
  ]
  switch (chance.pick(parts)) {
    case 'path':
      return mutatePath(operation, draft, chance)
    case 'query':
      return mutateQuery(operation, draft, chance, ids)
    case 'headers': {
      const headers = chance.pick(strangeHeaders)(chance)
      Object.assign(draft.headers, headers)
      return `header ${Object.keys(headers).join()}`
    }
    default: {
      const done = mutate(body!.schema, draft.body, { resolve: body!.resolve, chance, ids }, 'body')
      draft.body = done.value
      return done.place
    }
  }
}

/** Adds optional parts that the schema accepts, so that mutations of later requests are not the only ones that use them. */
export const enrich = (operation: Operation, draft: Draft, chance: Chance, ids: Sampler['ids']): string => {
  const body = schemaOf(operation, 'body')
  const added: string[] = []
  if (body && isRecord(draft.body) && chance.below(4) > 0) {
    const schema = branchFor(body.schema, draft.body, body.resolve, chance)
    for (const [name, property] of Object.entries(schema.properties ?? {}))
      if (chance.below(Math.max(2, Math.ceil(Object.keys(schema.properties ?? {}).length / 2))) === 0) {
        put(draft.body, name, sample(property, { resolve: body.resolve, chance, ids }, name))
        added.push(name)
      }
  }
  for (const [name, schema, resolve] of declaredNames(operation, 'query'))
    if (chance.below(4) === 0) {
      const value = sample(schema, { resolve, chance, ids }, name)
      draft.query = [
        ...draft.query.filter(([known]) => known !== name),
        ...[value]
          .flat()
          .slice(0, 5)
          .map((one): [string, string] => [name, inText(one)]),
      ]
      added.push(`?${name}`)
    }
  return `with ${added.join(', ')}`
}

export const strangeText = (chance: Chance): string => chance.pick(texts)()
