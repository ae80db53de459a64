import { InvalidRequest, requestLimits, type Invalid, type Operation } from '@bursar/contract'
import type { z } from 'zod'
import { nearest } from '../kernel/nearest.ts'
import { refuseSizes } from './sizes.ts'
import { leavesOf, noteVariants, usualMessage, type Issue, type Union } from './unions.ts'

const limits = {
  elements: requestLimits.list_elements,
  keys: requestLimits.record_keys,
  problems: requestLimits.reported_problems,
}

/** Reads a JSON body. Rejects invalid or abusive JSON, and names the position of the error. */
export const readJson = (bytes: Buffer): unknown => {
  if (bytes.length === 0) return undefined
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new InvalidRequest({ loc: ['body'], msg: 'The body is not UTF-8.', type: 'value_error' })
  }
  if (text.trim() === '') return undefined
  refuseSizes(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const at = Number(/position (\d+)/.exec((error as Error).message)?.[1] ?? text.length)
    throw new InvalidRequest({ loc: ['body', at], msg: `The body is not valid JSON. The error is at character ${at}.`, type: 'json_invalid' })
  }
  const problems: Invalid[] = []
  inspect(value, ['body'], problems)
  if (problems.length > 0) throw new InvalidRequest(problems)
  return value
}

/** Checks that PostgreSQL can store the texts unchanged, and that lists and records do not exceed their maximum size. */
export const inspect = (value: unknown, loc: (string | number)[], problems: Invalid[]): void => {
  if (problems.length >= limits.problems) return
  if (typeof value === 'string') {
    if (value.includes('\0')) problems.push({ loc, msg: 'Text must not contain the NUL character.', type: 'value_error' })
    else if (!value.isWellFormed()) problems.push({ loc, msg: 'Text must be well-formed Unicode. Received an unpaired surrogate.', type: 'value_error' })
  } else if (Array.isArray(value)) {
    if (value.length > limits.elements)
      problems.push({ loc, msg: `A list has at most ${limits.elements} elements. Received ${value.length}.`, type: 'too_long' })
    else value.forEach((item, at) => inspect(item, [...loc, at], problems))
  } else if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
    if (entries.length > limits.keys) problems.push({ loc, msg: `A record has at most ${limits.keys} keys. Received ${entries.length}.`, type: 'too_long' })
    else for (const [key, item] of entries) if (inspectKey(key, loc, problems)) inspect(item, [...loc, key], problems)
  }
}

const inspectKey = (key: string, loc: (string | number)[], problems: Invalid[]) => {
  if (!key.includes('\0') && key.isWellFormed()) return true
  problems.push({ loc, msg: 'A key must be well-formed text without the NUL character.', type: 'value_error' })
  return false
}

/** The router parses the query before any of our stages. Errors are recorded under this symbol and reported by `parse`. */
const malformed = Symbol('malformed')

/** Parses a query string. A repeated key becomes a list, and `name[key]` a record of such lists. No other syntax is supported. */
export const readQuery = (text: string): Record<string, unknown> => {
  const query = Object.create(null) as Record<string, unknown>
  for (const [name, value] of new URLSearchParams(text)) {
    const [, record, key] = /^([^[\]]+)\[([^\]]*)\]$/.exec(name) ?? []
    if (record === undefined && /[[\]]/.test(name)) (query as { [malformed]?: string })[malformed] = name
    if (record === undefined || key === undefined) add(query, name, value)
    else if (query[record] === undefined || isRecord(query[record])) add((query[record] ??= Object.create(null)) as Record<string, unknown>, key, value)
  }
  return query
}

const add = (into: Record<string, unknown>, key: string, value: string) => {
  const before = into[key]
  if (isRecord(before)) return
  if (before === undefined) into[key] = value
  else if (!Array.isArray(before)) into[key] = [before, value]
  else if (before.length <= 1000) before.push(value)
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

export interface Input {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

/** Validates the whole input against the operation, and reports the first errors together, with the number of the others. */
export const parse = (operation: Operation, input: Input): { params: unknown; query: unknown; body: unknown } => {
  const problems: Invalid[] = []
  let leftOut = 0
  const check = (schema: z.ZodType | undefined, value: unknown, source: 'path' | 'query' | 'body') => {
    if (!schema) return undefined
    if (source !== 'body') inspect(value, [source], problems)
    const name = source === 'query' ? (value as { [malformed]?: string })[malformed] : undefined
    if (name !== undefined) problems.push({ loc: ['query', name], msg: 'Write name[key]=value, with one key in brackets.', type: 'value_error' })
    const result = schema.safeParse(value, { reportInput: true, error: noteVariants })
    if (result.success) return result.data
    for (const [issue, loc] of leavesOf(result.error.issues, [source]))
      if (problems.length >= limits.problems) leftOut++
      else addOnce(problems, describe(issue, loc))
    return undefined
  }
  const parsed = {
    params: check(operation.params, input.params, 'path'),
    query: check(operation.query, input.query, 'query'),
    body: check(operation.body, input.body, 'body'),
  }
  if (problems.length > 0) throw new InvalidRequest(problems, leftOut)
  return parsed
}

/** Adds a problem, unless an earlier one says the same. Two rules of a schema can share a message. */
const addOnce = (problems: Invalid[], problem: Invalid): void => {
  const isSame = ({ msg, loc }: Invalid) => msg === problem.msg && loc.join('.') === problem.loc.join('.')
  if (!problems.some(isSame)) problems.push(problem)
}

/** Describes a validation error with the expected and the received value. Error types and messages are those that existing clients know. */
const describe = (issue: Issue, loc: (string | number)[]): Invalid => {
  const query = loc[0] === 'query'
  switch (issue.code) {
    case 'invalid_union': {
      if (!issue.discriminator) return issue.message === usualMessage ? describeUnion(issue, loc) : one(issue, loc, 'value_error', issue.message)
      const tag = (issue.input as Record<string, unknown> | undefined)?.[issue.discriminator]
      const { options = [] } = issue as { options?: readonly unknown[] }
      const kinds = options.filter((kind) => kind !== undefined).map(String)
      return one(
        issue,
        loc,
        tag === undefined ? 'union_tag_not_found' : 'union_tag_invalid',
        `${tag === undefined ? 'Required:' : 'Expected'} one of: ${kinds.join(', ')}.${meant(tag, kinds)}`,
        { discriminator: issue.discriminator, expected_tags: kinds.join(', ') },
      )
    }
    case 'invalid_type':
      if (issue.input === undefined) {
        const { instead = [] } = issue as { instead?: readonly string[] }
        const wanted = instead.length === 0 ? (article[issue.expected] ?? issue.expected) : [loc.at(-1), ...instead].join(' or ')
        return one(issue, loc, 'missing', `Required: ${wanted}.`)
      }
      return one(
        issue,
        loc,
        typeNames[issue.expected]?.[query ? 1 : 0] ?? `${issue.expected}_type`,
        `Expected ${article[issue.expected] ?? issue.expected}, received ${kindOf(issue.input)}.`,
      )
    case 'too_small':
    case 'too_big': {
      const small = issue.code === 'too_small'
      const bound = Number(small ? issue.minimum : issue.maximum)
      if (issue.origin === 'string' || issue.origin === 'array') {
        const units = issue.origin === 'string' ? 'characters' : 'elements'
        const type = issue.origin === 'string' ? (small ? 'string_too_short' : 'string_too_long') : small ? 'too_short' : 'too_long'
        return one(issue, loc, type, `Expected ${small ? 'at least' : 'at most'} ${bound} ${units}.`, { [small ? 'min_length' : 'max_length']: bound })
      }
      const type = `${small ? 'greater' : 'less'}_than${issue.inclusive ? '_equal' : ''}`
      return one(issue, loc, type, `Expected ${small ? (issue.inclusive ? 'at least' : 'more than') : issue.inclusive ? 'at most' : 'less than'} ${bound}.`, {
        [`${small ? 'g' : 'l'}${issue.inclusive ? 'e' : 't'}`]: bound,
      })
    }
    case 'invalid_format':
      return one(
        issue,
        loc,
        formatTypes[issue.format] ?? 'value_error',
        issue.format === 'regex' ? issue.message : `Expected ${formatNames[issue.format] ?? `the format ${issue.format}`}.`,
      )
    case 'invalid_value': {
      const values = issue.values.map(String)
      const shown = values.length > 24 ? `${values.slice(0, 24).join(', ')} … (${values.length} values)` : values.join(', ')
      if (issue.input === undefined) return one(issue, loc, 'missing', `Required: ${values.length === 1 ? shown : `one of: ${shown}`}.`, { expected: shown })
      return one(
        issue,
        loc,
        issue.values.length === 1 ? 'literal_error' : 'enum',
        `Expected ${values.length === 1 ? shown : `one of: ${shown}`}.${meant(issue.input, values)}`,
        {
          expected: shown,
        },
      )
    }
    default:
      return one(issue, loc, 'value_error', issue.message)
  }
}

/** Describes a union of which several variants may be meant. Names what each of them expects, once. */
const describeUnion = (issue: Union, loc: (string | number)[]): Invalid => {
  const types = new Set(issue.errors.flatMap((errors) => errors.map((inner) => describe(inner, loc).type)))
  const [type] = types.size === 1 ? types : ['value_error']
  const missing = issue.errors.map((errors) => errors.map(({ path }) => path.join('.')).join(', '))
  if (missing.every((names) => names !== '') && types.isSubsetOf(missingTypes)) return one(issue, loc, 'missing', `Required: ${either(missing, '; or ')}.`)
  const wanted = issue.errors.map((errors) => (errors.length === 1 ? expectationOf(errors[0]!) : undefined)).filter((text) => text !== undefined)
  if (wanted.length < issue.errors.length) return one(issue, loc, type!, 'Matches none of the accepted forms.')
  // A whole number is a number too.
  const names = either(wanted.filter((text) => text !== article.int || !wanted.includes(article.number!)))
  if (issue.input === undefined) return one(issue, loc, 'missing', `Required: ${names}.`)
  const isOtherKind = issue.errors.every(([inner]) => inner!.code === 'invalid_type')
  return one(issue, loc, type!, `Expected ${names}${isOtherKind ? `, received ${kindOf(issue.input)}` : ''}.`)
}
const missingTypes = new Set(['missing', 'union_tag_not_found'])

/** Joins different texts: `a, b or c`. */
const either = (texts: readonly string[], last = ' or '): string => {
  const different = [...new Set(texts)]
  return [different.slice(0, -1).join(', '), ...different.slice(-1)].filter((text) => text !== '').join(last)
}

/** Returns the expected kind of value, without the received one. Undefined if only the message of the schema names it. */
const expectationOf = (issue: Issue): string | undefined => {
  if (issue.code === 'invalid_type') return article[issue.expected] ?? issue.expected
  if (issue.code === 'invalid_value') return either(issue.values.map(String))
  return issue.code === 'invalid_format' ? formatNames[issue.format] : undefined
}

/** Suggests the known value that is most similar to the input. */
const meant = (input: unknown, known: readonly string[]): string => {
  const name = typeof input === 'string' ? nearest(input, known) : undefined
  return name === undefined ? '' : ` Did you mean ${name}?`
}

const one = (issue: Issue, loc: (string | number)[], type: string, msg: string, ctx?: Record<string, unknown>): Invalid => ({
  loc,
  msg,
  type,
  ...(issue.input === undefined ? {} : { input: received(issue.input) }),
  ...(ctx ? { ctx } : {}),
})

/** Returns the received value for an error: long text is cut, and a large list or record is named only. */
const received = (input: unknown): unknown => {
  if (typeof input === 'string') return input.length > 500 ? `${input.slice(0, 500)}…`.toWellFormed() : input
  if (typeof input !== 'object' || input === null) return input
  return isLarge(input) ? kindOf(input) : input
}

/** True if a value has more than 100 parts or 1,000 characters of text. Stops counting there, because a body may be large. */
const isLarge = (input: object): boolean => {
  let [parts, characters] = [0, 0]
  const visit = (value: unknown): boolean => {
    if (typeof value === 'string') characters += value.length
    if (++parts > 100 || characters > 1000) return true
    if (typeof value !== 'object' || value === null) return false
    if (Array.isArray(value)) return value.some(visit)
    for (const key in value) {
      characters += key.length
      if (visit((value as Record<string, unknown>)[key])) return true
    }
    return false
  }
  return visit(input)
}

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'a record' : typeof value === 'string' ? 'text' : `a ${typeof value}`

const article: Record<string, string> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a record',
  record: 'a record',
}
const typeNames: Record<string, readonly [string, string] | undefined> = {
  string: ['string_type', 'string_type'],
  number: ['int_type', 'int_parsing'],
  int: ['int_type', 'int_parsing'],
  boolean: ['bool_type', 'bool_parsing'],
  array: ['list_type', 'list_type'],
  object: ['model_attributes_type', 'model_attributes_type'],
}
const formatTypes: Record<string, string> = { uuid: 'uuid_parsing', datetime: 'datetime_parsing', url: 'url_parsing', regex: 'string_pattern_mismatch' }
const formatNames: Record<string, string> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  url: 'an http or https address',
  datetime: 'a date and time with offset, ISO 8601',
}
