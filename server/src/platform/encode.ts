import { wireSchema } from '@bursar/contract/openapi'
import type { z } from 'zod'

type Node = { [key: string]: unknown }
type Writer = (value: unknown) => string
interface Scope {
  readonly defs: Record<string, Node>
  readonly made: Map<string, Writer>
}

const writers = new WeakMap<z.ZodType, Writer>()

/**
 * Turns a value into the JSON of its schema. What the schema does not declare does not leave; a value that does not fit
 * it – missing, null, of another type, outside an enum – is refused rather than bent into shape.
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

/** The value does not fit what the contract declares: our mistake, never the caller's. The place is put together on the way out. */
export class Unencodable extends Error {
  readonly #wanted: string
  readonly #path: string[] = []
  constructor(wanted: string) {
    super()
    this.#wanted = wanted
  }
  within(name: string): this {
    this.#path.unshift(name)
    this.message = `the answer does not fit the contract at ${this.#path.join('.')}: wanted ${this.#wanted}`
    return this
  }
}

const refuse = (wanted: string): never => {
  throw new Unencodable(wanted)
}

/** A writer, made once per schema from closures: one walk over the value checks it and writes it. */
const compile = (node: Node, scope: Scope): Writer => {
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
      return (value) => (Number.isFinite(value) ? String(value) : refuse('a number'))
    case 'array':
      if (Array.isArray(node.prefixItems)) return tuple((node.prefixItems as Node[]).map((item) => compile(item, scope)))
      return list(compile((node.items as Node | undefined) ?? {}, scope))
    case 'object':
      return record(node, scope)
    default:
      return (value) => JSON.stringify(value) ?? refuse('a value')
  }
}

/** A schema may contain itself: whoever asks while it is being made gets a door to it. */
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
  /** The fields that tell this kind of record from the others. */
  readonly marks: readonly (readonly [string, unknown])[]
  readonly type: unknown
  readonly choices: readonly (readonly [string, readonly unknown[]])[]
  readonly required: readonly string[]
}

/** The branch is chosen by what marks it, and then answers for the whole value: nothing is tried and thrown away. */
const union = (nodes: readonly Node[], scope: Scope): Writer => {
  const branches = nodes.flatMap((node) => branchesOf(node, scope))
  const records = branches.filter(({ type }) => type === 'object')
  const fitting = (value: unknown): Branch | undefined => {
    if (value === null) return branches.find(({ type }) => type === 'null')
    if (typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date))
      return records.find((branch) => fits(branch, value as Node)) ?? records.find(({ marks }) => marks.every(([name, mark]) => (value as Node)[name] === mark))
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

/** Its fixed fields are as declared, its choices among the declared ones, and nothing that it needs is absent. */
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
