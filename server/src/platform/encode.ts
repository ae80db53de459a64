import { wireSchema } from '@bursar/contract/openapi'
import build from 'fast-json-stringify'
import type { z } from 'zod'

type Node = { [key: string]: unknown }
type Check = (value: unknown, at: string) => void
type Encoder = (value: unknown) => string

const encoders = new WeakMap<z.ZodType, Encoder>()

/**
 * Turns a value into the JSON of its schema. What the schema does not declare does not leave; a value that does not fit
 * it – missing, null, of another type, outside an enum – is refused rather than bent into shape.
 */
export const encode = (schema: z.ZodType, value: unknown): string => {
  let encoder = encoders.get(schema)
  if (!encoder) {
    const wire = wireSchema(schema)
    const check = compile(wire, wire.$defs as Record<string, Node> | undefined)
    const write = build(simplify(wire) as never) as Encoder
    encoder = (given) => {
      check(given, '')
      return write(given)
    }
    encoders.set(schema, encoder)
  }
  return encoder(value)
}

/** The value does not fit what the contract declares: our mistake, never the caller's. */
export class Unencodable extends Error {}

const refuse = (at: string, wanted: string): never => {
  throw new Unencodable(`the answer does not fit the contract at ${at || 'its root'}: wanted ${wanted}`)
}

/** A check made once per schema from closures, so that the writer can trust what it is given. */
const compile = (node: Node, defs: Record<string, Node> = {}, known = new Map<string, Check>()): Check => {
  if (typeof node.$ref === 'string') {
    const name = node.$ref.replace('#/$defs/', '')
    if (!known.has(name)) {
      // A schema may contain itself: whoever asks while it is being made gets a door to it.
      const made: { check?: Check } = {}
      known.set(name, (value, at) => made.check!(value, at))
      made.check = compile(defs[name]!, defs, known)
    }
    return known.get(name)!
  }
  const branches = (Array.isArray(node.type) ? node.type.map((type: unknown) => ({ ...node, type })) : (node.anyOf ?? node.oneOf)) as Node[] | undefined
  if (branches) {
    const checks = branches.map((branch) => compile(branch, defs, known))
    return (value, at) => {
      for (const check of checks)
        try {
          return check(value, at)
        } catch (error) {
          if (!(error instanceof Unencodable)) throw error
        }
      refuse(at, 'one of the declared forms')
    }
  }
  if ('const' in node) return (value, at) => void (value === node.const || refuse(at, String(node.const)))
  if (Array.isArray(node.enum)) {
    const values = new Set(node.enum)
    return (value, at) => void (values.has(value) || refuse(at, 'a declared value'))
  }
  switch (node.type) {
    case 'null':
      return (value, at) => void (value === null || refuse(at, 'null'))
    case 'string':
      return node.format === 'date-time'
        ? (value, at) => void (typeof value === 'string' || (value instanceof Date && !Number.isNaN(value.getTime())) || refuse(at, 'a time'))
        : (value, at) => void (typeof value === 'string' || refuse(at, 'text'))
    case 'boolean':
      return (value, at) => void (typeof value === 'boolean' || refuse(at, 'true or false'))
    case 'integer':
      return (value, at) => void (Number.isSafeInteger(value) || refuse(at, 'a whole number'))
    case 'number':
      return (value, at) => void (Number.isFinite(value) || refuse(at, 'a number'))
    case 'array': {
      const item = compile((node.items as Node | undefined) ?? {}, defs, known)
      return (value, at) => {
        if (!Array.isArray(value)) return refuse(at, 'a list')
        for (let index = 0; index < value.length; index++) item(value[index], `${at}.${index}`)
      }
    }
    case 'object': {
      const required = new Set(node.required as string[] | undefined)
      const fields = Object.entries((node.properties ?? {}) as Record<string, Node>).map(
        ([name, field]) => [name, compile(field, defs, known), required.has(name)] as const,
      )
      const others = typeof node.additionalProperties === 'object' ? compile(node.additionalProperties as Node, defs, known) : undefined
      const names = new Set(fields.map(([name]) => name))
      return (value, at) => {
        if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse(at, 'a record')
        for (const [name, check, needed] of fields) {
          const field = (value as Node)[name]
          if (field !== undefined) check(field, `${at}.${name}`)
          else if (needed) refuse(`${at}.${name}`, 'a value')
        }
        if (others) for (const [name, field] of Object.entries(value)) if (!names.has(name)) others(field, `${at}.${name}`)
      }
    }
    default:
      return () => {}
  }
}

/** "This or null" as a nullable type, which is written without trying the branches; bounds of texts play no part in writing. */
const simplify = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(simplify)
  if (typeof node !== 'object' || node === null) return node
  const { anyOf, type, ...rest } = node as Node & { anyOf?: Node[] }
  if (Array.isArray(type) && type.length === 2 && type.includes('null'))
    return simplify({ ...rest, type: type.find((one) => one !== 'null') as unknown, nullable: true })
  if (anyOf?.length === 2 && anyOf.some((branch) => branch.type === 'null')) {
    const real = anyOf.find((branch) => branch.type !== 'null')!
    if (typeof real.type === 'string' && !real.$ref) return simplify({ ...rest, ...real, nullable: true })
  }
  const copy: Node = {}
  for (const [key, value] of Object.entries(node as Node)) {
    if (['pattern', 'minLength', 'maxLength', 'minimum', 'maximum', 'id', '$schema', 'default', 'description'].includes(key) && typeof value !== 'object')
      continue
    if (key === 'format' && value !== 'date-time') continue
    copy[key] =
      key === 'properties' || key === '$defs'
        ? Object.fromEntries(Object.entries(value as Node).map(([name, child]) => [name, simplify(child)]))
        : simplify(value)
  }
  return copy
}
