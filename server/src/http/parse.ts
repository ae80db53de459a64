import { InvalidRequest, type Invalid, type Operation } from '@bursar/contract'
import type { z } from 'zod'

export const limits = { depth: 32, elements: 10_000, keys: 10_000 }

/** Reads a JSON body. Bytes that are no JSON, or JSON no honest client sends, are refused with the place where it shows. */
export const readJson = (bytes: Buffer): unknown => {
  if (bytes.length === 0) return undefined
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new InvalidRequest({ loc: ['body'], msg: 'The body is not UTF-8.', type: 'value_error' })
  }
  if (text.trim() === '') return undefined
  refuseDepth(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const at = Number(/position (\d+)/.exec((error as Error).message)?.[1] ?? text.length)
    throw new InvalidRequest({ loc: ['body', at], msg: `The body is not JSON: it breaks at character ${at}.`, type: 'json_invalid' })
  }
  const problems: Invalid[] = []
  inspect(value, ['body'], problems)
  if (problems.length > 0) throw new InvalidRequest(problems)
  return value
}

/** Counts brackets outside texts before anything is built from them. */
const refuseDepth = (bytes: Buffer) => {
  let depth = 0
  let quoted = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (quoted) {
      if (byte === 0x5c) at++
      else if (byte === 0x22) quoted = false
    } else if (byte === 0x22) quoted = true
    else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > limits.depth)
        throw new InvalidRequest({ loc: ['body', at], msg: `The body is nested deeper than ${limits.depth} levels.`, type: 'recursion_loop' })
    } else if (byte === 0x7d || byte === 0x5d) depth--
  }
}

/** Texts must be storable as they are; lists and records must be of a size somebody meant. */
const inspect = (value: unknown, loc: (string | number)[], problems: Invalid[]): void => {
  if (problems.length >= 20) return
  if (typeof value === 'string') {
    if (value.includes('\0')) problems.push({ loc, msg: 'Text must not contain the NUL character.', type: 'value_error' })
    else if (!value.isWellFormed()) problems.push({ loc, msg: 'Text must be well-formed Unicode: this one has half of a surrogate pair.', type: 'value_error' })
  } else if (Array.isArray(value)) {
    if (value.length > limits.elements)
      problems.push({ loc, msg: `A list may have ${limits.elements} elements at most; this one has ${value.length}.`, type: 'too_long' })
    else value.forEach((item, at) => inspect(item, [...loc, at], problems))
  } else if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
    if (entries.length > limits.keys) problems.push({ loc, msg: `A record may have ${limits.keys} keys at most.`, type: 'too_long' })
    else for (const [key, item] of entries) if (inspectKey(key, loc, problems)) inspect(item, [...loc, key], problems)
  }
}

const inspectKey = (key: string, loc: (string | number)[], problems: Invalid[]) => {
  if (!key.includes('\0') && key.isWellFormed()) return true
  problems.push({ loc, msg: 'A key must be well-formed text without the NUL character.', type: 'value_error' })
  return false
}

/** The router reads the query before any of our stages: what is wrong with it is noted there, and said when it is parsed. */
const malformed = Symbol('malformed')

/** A repeated key becomes a list, `name[key]` a record of such; nothing else is read into a query. */
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
  into[key] = before === undefined ? value : Array.isArray(before) ? [...(before as unknown[]), value].slice(0, 1001) : [before, value]
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

export interface Input {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

/** Checks everything that was sent against the operation, and reports all that is wrong at once. */
export const parse = (operation: Operation, input: Input): { params: unknown; query: unknown; body: unknown } => {
  const problems: Invalid[] = []
  const check = (schema: z.ZodType | undefined, value: unknown, source: 'path' | 'query' | 'body') => {
    if (!schema) return undefined
    if (source !== 'body') inspect(value, [source], problems)
    const name = source === 'query' ? (value as { [malformed]?: string })[malformed] : undefined
    if (name !== undefined) problems.push({ loc: ['query', name], msg: 'Write name[key]=value, with one key in brackets.', type: 'value_error' })
    const result = schema.safeParse(value, { reportInput: true })
    if (result.success) return result.data
    problems.push(...result.error.issues.flatMap((issue) => describe(issue, [source])))
    return undefined
  }
  const parsed = {
    params: check(operation.params, input.params, 'path'),
    query: check(operation.query, input.query, 'query'),
    body: check(operation.body, input.body, 'body'),
  }
  if (problems.length > 0) throw new InvalidRequest(problems)
  return parsed
}

type Issue = z.core.$ZodIssue

/** Says what was expected and what came, in the vocabulary that existing clients of this contract know. */
const describe = (issue: Issue, at: (string | number)[]): Invalid[] => {
  const loc = [...at, ...issue.path.map((part) => (typeof part === 'number' ? part : String(part)))]
  if (issue.code === 'invalid_union') {
    if (issue.discriminator) {
      const tag = (issue.input as Record<string, unknown> | undefined)?.[issue.discriminator]
      return [
        one(issue, loc, tag === undefined ? 'union_tag_not_found' : 'union_tag_invalid', `The field ${issue.discriminator} must name one of the known kinds.`),
      ]
    }
    const branches = issue.errors.map((errors) => errors.flatMap((inner) => describe(inner, loc)))
    return branches.length > 0 ? branches.flat() : [one(issue, loc, 'value_error', 'Matches none of the accepted forms.')]
  }
  const query = at[0] === 'query'
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return [one(issue, loc, 'missing', `Required: ${article[issue.expected] ?? issue.expected}.`)]
      return [
        one(
          issue,
          loc,
          typeNames[issue.expected]?.[query ? 1 : 0] ?? `${issue.expected}_type`,
          `Expected ${article[issue.expected] ?? issue.expected}, received ${kindOf(issue.input)}.`,
        ),
      ]
    case 'too_small':
    case 'too_big': {
      const small = issue.code === 'too_small'
      const bound = Number(small ? issue.minimum : issue.maximum)
      if (issue.origin === 'string' || issue.origin === 'array') {
        const units = issue.origin === 'string' ? 'characters' : 'elements'
        const type = issue.origin === 'string' ? (small ? 'string_too_short' : 'string_too_long') : small ? 'too_short' : 'too_long'
        return [one(issue, loc, type, `Expected ${small ? 'at least' : 'at most'} ${bound} ${units}.`, { [small ? 'min_length' : 'max_length']: bound })]
      }
      const type = `${small ? 'greater' : 'less'}_than${issue.inclusive ? '_equal' : ''}`
      return [
        one(issue, loc, type, `Expected ${small ? (issue.inclusive ? 'at least' : 'more than') : issue.inclusive ? 'at most' : 'less than'} ${bound}.`, {
          [`${small ? 'g' : 'l'}${issue.inclusive ? 'e' : 't'}`]: bound,
        }),
      ]
    }
    case 'invalid_format':
      return [
        one(
          issue,
          loc,
          formatTypes[issue.format] ?? 'value_error',
          issue.format === 'regex' ? issue.message : `Expected ${formatNames[issue.format] ?? `the format ${issue.format}`}.`,
        ),
      ]
    case 'invalid_value': {
      const values = issue.values.map(String)
      const shown = values.length > 24 ? `${values.slice(0, 24).join(', ')} … (${values.length} values)` : values.join(', ')
      return [
        one(issue, loc, issue.values.length === 1 ? 'literal_error' : 'enum', `Expected ${values.length === 1 ? shown : `one of: ${shown}`}.`, {
          expected: shown,
        }),
      ]
    }
    default:
      return [one(issue, loc, 'value_error', issue.message)]
  }
}

const one = (issue: Issue, loc: (string | number)[], type: string, msg: string, ctx?: Record<string, unknown>): Invalid => ({
  loc,
  msg,
  type,
  ...(issue.input === undefined ? {} : { input: shorten(issue.input) }),
  ...(ctx ? { ctx } : {}),
})

/** What came is shown back, but no more of it than helps. */
const shorten = (input: unknown): unknown => {
  if (typeof input === 'string' && input.length > 500) return `${input.slice(0, 500)}…`
  if (typeof input === 'object' && input !== null && JSON.stringify(input).length > 2000) return kindOf(input)
  return input
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
