import type { Operation } from '@bursar/contract'
import { wireSchema } from '@bursar/contract/openapi'
import type { Chance } from '../../simulation/years/stories.ts'

/** The keywords of JSON Schema that the contract uses. */
export interface Schema {
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, Schema>>
  readonly type?: string
  readonly format?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: Schema | boolean
  readonly maxProperties?: number
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
}

export type Part = 'params' | 'query' | 'body'
/** Resolves references within one document. */
export type Resolve = (schema: Schema) => Schema

const known = new Map<string, { schema: Schema; resolve: Resolve } | undefined>()

/** Returns the JSON Schema of a part of the operation's requests. */
export const schemaOf = (operation: Operation, part: Part): { schema: Schema; resolve: Resolve } | undefined => {
  const key = `${operation.id} ${part}`
  if (!known.has(key)) {
    const declared = operation[part]
    if (!declared) known.set(key, undefined)
    else {
      const schema = wireSchema(declared) as Schema
      const resolve: Resolve = (one) => {
        if (one.$ref === undefined) return one
        const { $ref, ...rest } = one
        return { ...rest, ...resolve(schema.$defs?.[$ref.replace('#/$defs/', '')] ?? {}) }
      }
      known.set(key, { schema: resolve(schema), resolve })
    }
  }
  return known.get(key)
}

/** Returns the branches of a union, or the schema itself. */
export const branchesOf = (schema: Schema, resolve: Resolve): readonly Schema[] => {
  const union = schema.anyOf ?? schema.oneOf
  return union ? union.flatMap((branch) => branchesOf(resolve(branch), resolve)) : [schema]
}

export const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value === 'number' && Number.isInteger(value) ? 'integer' : typeof value

/** Returns the branch that fits a present value best: by type, then by constants such as a discriminator. */
export const branchFor = (schema: Schema, value: unknown, resolve: Resolve, chance: Chance): Schema => {
  const branches = branchesOf(schema, resolve)
  if (value === undefined) return chance.pick(branches)
  const fits = branches.filter(({ type }) => type === undefined || type === typeOf(value) || (type === 'number' && typeof value === 'number'))
  const record = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  const tagged = fits.filter(({ properties = {} }) =>
    Object.entries(properties).every(([name, property]) => resolve(property).const === undefined || record[name] === resolve(property).const),
  )
  return chance.pick(tagged.length > 0 ? tagged : fits.length > 0 ? fits : branches)
}

/** Makes a UUID of version 4 that depends on the seed only. */
export const uuidOf = (chance: Chance): string => {
  const digits = (count: number) => Array.from({ length: count }, () => chance.below(16).toString(16)).join('')
  return `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-${digits(12)}`
}

const words = ['Ada', 'Größe', 'two words', 'x', 'éclair', '日本', 'de', 'usd', 'created_at', '-created_at']

/** Where sample values come from. `ids` are existing resources by the name of the field that refers to them. */
export interface Sampler {
  readonly resolve: Resolve
  readonly chance: Chance
  readonly ids: Readonly<Record<string, string>>
}

/** Makes a value that the schema accepts in most cases. Optional fields are present by chance. */
export const sample = (given: Schema, sampler: Sampler, name = '', depth = 0): unknown => {
  const { resolve, chance, ids } = sampler
  const schema = chance.pick(branchesOf(resolve(given), resolve))
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return chance.pick(schema.enum)
  switch (schema.type) {
    case 'string':
      return sampleText(schema, chance, ids[name] ?? ids[`${name.replace(/s$/, '')}_id`])
    case 'integer':
    case 'number': {
      const low = schema.minimum ?? (schema.exclusiveMinimum === undefined ? -1000 : schema.exclusiveMinimum + 1)
      const high = Math.min(schema.maximum ?? (schema.exclusiveMaximum === undefined ? low + 5000 : schema.exclusiveMaximum - 1), low + 100_000)
      return chance.pick([low, high, chance.between(Math.ceil(low), Math.floor(high))])
    }
    case 'boolean':
      return chance.below(2) === 0
    case 'array': {
      const count = Math.min(schema.maxItems ?? 3, Math.max(schema.minItems ?? 0, depth > 4 ? 0 : chance.below(3)))
      return Array.from({ length: count }, () => sample(schema.items ?? {}, sampler, name, depth + 1))
    }
    case 'object': {
      const made: Record<string, unknown> = {}
      for (const [field, property] of Object.entries(schema.properties ?? {}))
        if (schema.required?.includes(field) || (depth < 4 && chance.below(4) === 0)) made[field] = sample(property, sampler, field, depth + 1)
      const { additionalProperties } = schema
      if (typeof additionalProperties === 'object' && depth < 4)
        for (let at = chance.below(3); at > 0; at--) made[`key_${chance.below(100)}`] = sample(additionalProperties, sampler, name, depth + 1)
      return made
    }
    case 'null':
      return null
    default:
      return chance.pick([null, true, 7, 'any', [], {}])
  }
}

const sampleText = ({ format, minLength = 0, maxLength = 60, pattern }: Schema, chance: Chance, known: string | undefined): string => {
  if (known !== undefined && chance.below(4) > 0) return known
  if (format === 'uuid') return uuidOf(chance)
  if (format === 'email') return `fuzz-${chance.below(1e6)}@people.test`
  if (format === 'uri') return `https://shop.example/${chance.below(1000)}`
  if (format === 'date-time') return new Date(Date.UTC(2020 + chance.below(20), chance.below(12), 1 + chance.below(28))).toISOString()
  if (format === 'date') return `20${chance.between(10, 50)}-0${chance.between(1, 9)}-1${chance.below(10)}`
  const text = pattern !== undefined && pattern.startsWith('^[') ? chance.pick(['ab', 'abc', 'de', 'US', '12', 'a-b']) : chance.pick(words)
  return text.padEnd(minLength, 'x').slice(0, maxLength)
}
