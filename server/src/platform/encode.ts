import { wireSchema } from '@bursar/contract/openapi'
import type { z } from 'zod'
import { isRawNumber } from '../kernel/exact-json.ts'

type Node = { [key: string]: unknown }
type Writer = (value: unknown) => string
interface Scope {
  readonly defs: Record<string, Node>
  readonly made: Map<string, Writer>
  /**
   * The redacted secrets: the JSON of each value and of its placeholder, in the order of the text. Undefined if secrets
   * are not redacted.
   */
  readonly taken?: { json: string; placeholder: string }[]
}

const writers = new WeakMap<z.ZodType, Writer>()
const redactors = new WeakMap<z.ZodType, { readonly write: Writer; readonly taken: NonNullable<Scope['taken']> }>()

/**
 * Encodes a value as JSON by its schema. Fields that the schema does not declare are dropped. Throws `Unencodable` for
 * a value that is missing, null, of another type or outside an enum. Values are never coerced.
 */
export const encode = (schema: z.ZodType, value: unknown): string => {
  let writer = writers.get(schema)
  if (!writer) {
    const wire = wireSchema(schema)
    writer = compile(wire, { defs: (wire.$defs ?? {}) as Record<string, Node>, made: new Map() })
    writers.set(schema, writer)
  }
  return writer(value)
}

/** A secret that was cut out of a text: position and length of its placeholder, and the JSON of the value. */
export type Cut = readonly [at: number, length: number, json: string]

/** Marks the position of a secret while the text is written. JSON never contains this character unescaped. */
const mark = '\u0001'

/** Encodes a value as JSON by its schema, with a placeholder for each field that is marked as secret. */
export const encodeRedacted = (schema: z.ZodType, value: unknown): { text: string; cuts: Cut[] } => {
  let redactor = redactors.get(schema)
  if (!redactor) {
    const wire = wireSchema(schema)
    const taken: NonNullable<Scope['taken']> = []
    redactor = { write: compile(wire, { defs: (wire.$defs ?? {}) as Record<string, Node>, made: new Map(), taken }), taken }
    redactors.set(schema, redactor)
  }
  const { write, taken } = redactor
  taken.length = 0
  const [first = '', ...rest] = write(value).split(mark)
  let text = first
  const cuts = rest.map((part, at): Cut => {
    const { json, placeholder } = taken[at]!
    const cut: Cut = [text.length, placeholder.length, json]
    text += placeholder + part
    return cut
  })
  taken.length = 0
  return { text, cuts }
}

/** Replaces the placeholders with their secrets. */
export const restore = (text: string, cuts: readonly Cut[]): string => {
  let whole = ''
  let from = 0
  for (const [at, length, json] of cuts) {
    whole += text.slice(from, at) + json
    from = at + length
  }
  return whole + text.slice(from)
}

/** Returns the placeholder for a secret: a URL for a secret URL, otherwise a constant text. */
const placeholderFor = (shape: unknown, value: unknown): string =>
  shape === 'address' && URL.canParse(String(value)) ? new URL('/redacted', String(value)).href : 'redacted'

/**
 * The value does not fit the contract. That is a server error, never an error of the caller. Each level adds its field
 * name to the path while the error propagates.
 */
export class Unencodable extends Error {
  readonly #wanted: string
  readonly #path: string[] = []
  constructor(wanted: string) {
    super()
    this.#wanted = wanted
  }
  within(name: string): this {
    this.#path.unshift(name)
    this.message = `the answer does not match the contract at ${this.#path.join('.')}: expected ${this.#wanted}`
    return this
  }
}

const refuse = (wanted: string): never => {
  throw new Unencodable(wanted)
}

const compile = ({ 'x-secret': shape, ...node }: Node, scope: Scope): Writer => {
  const write = compilePlain(node, scope)
  const { taken } = scope
  if (shape === undefined || !taken) return write
  return (value) => {
    const json = write(value)
    if (value === null) return json
    taken.push({ json, placeholder: JSON.stringify(placeholderFor(shape, value)) })
    return mark
  }
}

/** Compiles a writer once per schema. One pass over the value validates and writes it. */
const compilePlain = (node: Node, scope: Scope): Writer => {
  if (typeof node.$ref === 'string') return named(node.$ref.replace('#/$defs/', ''), scope)
  if (Array.isArray(node.type))
    return union(
      node.type.map((type: unknown) => ({ ...node, type })),
      scope,
    )
  const branches = (node.anyOf ?? node.oneOf) as Node[] | undefined
  if (branches) return union(branches, scope)
  if ('const' in node) {
    const text = JSON.stringify(node.const)
    return (value) => (value === node.const ? text : refuse(text))
  }
  if (Array.isArray(node.enum)) {
    const texts = new Map(node.enum.map((one: unknown) => [one, JSON.stringify(one)]))
    return (value) => texts.get(value) ?? refuse('a declared value')
  }
  switch (node.type) {
    case 'null':
      return (value) => (value === null ? 'null' : refuse('null'))
    case 'string':
      return node.format === 'date-time' ? writeTime : (value) => (typeof value === 'string' ? JSON.stringify(value) : refuse('text'))
    case 'boolean':
      return (value) => (typeof value === 'boolean' ? String(value) : refuse('true or false'))
    case 'integer':
      return (value) => (Number.isSafeInteger(value) ? String(value) : refuse('a whole number'))
    case 'number':
      return (value) => (Number.isFinite(value) ? String(value) : isRawNumber(value) ? value.rawJSON : refuse('a number'))
    case 'array':
      if (Array.isArray(node.prefixItems)) return tuple((node.prefixItems as Node[]).map((item) => compile(item, scope)))
      return list(compile((node.items as Node | undefined) ?? {}, scope))
    case 'object':
      return record(node, scope)
    default:
      return (value) => JSON.stringify(value) ?? refuse('a value')
  }
}

/** Returns the writer of a named schema. A recursive schema gets a reference to the writer that is being compiled. */
const named = (name: string, scope: Scope): Writer => {
  const known = scope.made.get(name)
  if (known) return known
  let ready: Writer | undefined = undefined
  scope.made.set(name, (value) => ready!(value))
  ready = compile(scope.defs[name]!, scope)
  scope.made.set(name, ready)
  return ready
}

const writeTime: Writer = (value) => {
  if (typeof value === 'string') return JSON.stringify(value)
  return value instanceof Date && !Number.isNaN(value.getTime()) ? `"${value.toISOString()}"` : refuse('a time')
}

const list =
  (item: Writer): Writer =>
  (value) => {
    if (!Array.isArray(value)) return refuse('a list')
    let text = '['
    for (let index = 0; index < value.length; index++) text += (index === 0 ? '' : ',') + item(value[index])
    return `${text}]`
  }

const tuple =
  (items: readonly Writer[]): Writer =>
  (value) =>
    Array.isArray(value) && value.length === items.length ? `[${items.map((item, at) => item(value[at])).join()}]` : refuse(`a list of ${items.length}`)

const record = (node: Node, scope: Scope): Writer => {
  const required = new Set(node.required as string[] | undefined)
  const fields = Object.entries((node.properties ?? {}) as Record<string, Node>).map(([name, field]) => ({
    name,
    label: `${JSON.stringify(name)}:`,
    write: compile(field, scope),
    needed: required.has(name),
  }))
  const others = typeof node.additionalProperties === 'object' ? compile(node.additionalProperties as Node, scope) : undefined
  const names = new Set(fields.map(({ name }) => name))
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse('a record')
    let text = ''
    let current = ''
    try {
      for (const { name, label, write, needed } of fields) {
        current = name
        const field = (value as Node)[name]
        if (field !== undefined) text += (text === '' ? '' : ',') + label + write(field)
        else if (needed) refuse('a value')
      }
      if (others)
        for (const [name, field] of Object.entries(value)) {
          if (names.has(name)) continue
          current = name
          text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${others(field)}`
        }
    } catch (error) {
      throw error instanceof Unencodable ? error.within(current) : error
    }
    return `{${text}}`
  }
}

interface Branch {
  readonly write: Writer
  /** The fields with a constant value that identify this branch of the union. */
  readonly marks: readonly (readonly [string, unknown])[]
  readonly type: unknown
  readonly choices: readonly (readonly [string, readonly unknown[]])[]
  readonly required: readonly string[]
}

/** Builds the writer of a union. It selects one branch by the constant fields of the value, and only this branch validates the value. */
const union = (nodes: readonly Node[], scope: Scope): Writer => {
  const [only, another] = nodes.filter(({ type }) => type !== 'null')
  if (only && !another) {
    // Most unions are one form or null.
    const write = compile(only, scope)
    return nodes.length === 1 ? write : (value) => (value === null ? 'null' : write(value))
  }
  const branches = nodes.flatMap((node) => branchesOf(node, scope))
  const records = branches.filter(({ type }) => type === 'object')
  const fitting = (value: unknown): Branch | undefined => {
    if (value === null) return branches.find(({ type }) => type === 'null')
    if (typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date)) {
      if (isRawNumber(value)) return branches.find(({ type }) => type === 'number')
      return records.find((branch) => fits(branch, value as Node)) ?? records.find(({ marks }) => marks.every(([name, mark]) => (value as Node)[name] === mark))
    }
    const types = Array.isArray(value)
      ? ['array']
      : typeof value === 'number'
        ? Number.isSafeInteger(value)
          ? ['integer', 'number']
          : ['number']
        : typeof value === 'boolean'
          ? ['boolean']
          : ['string']
    return branches.find(({ type }) => types.includes(type as string))
  }
  return (value) => fitting(value)?.write(value) ?? refuse('one of the declared forms')
}

/**
 * True if a value belongs to this branch of a union. Its constant fields must match, enum fields need a declared value,
 * and no required field may be missing.
 */
const fits = ({ marks, choices, required }: Branch, value: Node): boolean =>
  marks.every(([name, mark]) => value[name] === mark) &&
  choices.every(([name, known]) => value[name] === undefined || known.includes(value[name])) &&
  required.every((name) => value[name] !== undefined)

const branchesOf = (node: Node, scope: Scope): Branch[] => {
  const plain = typeof node.$ref === 'string' ? scope.defs[node.$ref.replace('#/$defs/', '')]! : node
  const inner = (plain.anyOf ?? plain.oneOf) as Node[] | undefined
  if (inner) return inner.flatMap((one) => branchesOf(one, scope))
  const marks = Object.entries((plain.properties ?? {}) as Record<string, Node>).flatMap(([name, field]) =>
    'const' in field ? [[name, field.const] as const] : [],
  )
  const choices = Object.entries((plain.properties ?? {}) as Record<string, Node>).flatMap(([name, field]) =>
    Array.isArray(field.enum) ? [[name, field.enum as readonly unknown[]] as const] : [],
  )
  const required = (plain.required ?? []) as readonly string[]
  const type = plain.type ?? ('const' in plain ? typeof plain.const : Array.isArray(plain.enum) ? 'string' : undefined)
  return [{ write: compile(node, scope), marks, choices, required, type }]
}
