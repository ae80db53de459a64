import { isDeepStrictEqual } from 'node:util'
import * as contract from '@bursar/contract'
import { currencies, exponentsOf } from '@bursar/contract'
import { document } from '@bursar/contract/openapi'
import type { Plugin } from 'vite'

interface Declared {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly status?: number
  readonly access: { readonly kind: string }
}

const isOperation = (value: unknown): value is Declared =>
  typeof value === 'object' && value !== null && 'method' in value && 'path' in value && 'access' in value

const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every((one) => typeof one === 'string')

/**
 * The value of one export of the contract in the browser. An operation keeps only what a request needs, and an enum only
 * its values, so that the browser never loads zod. Undefined if the browser has no use for the export.
 */
const valueOf = (value: unknown): string | undefined => {
  if (isOperation(value)) {
    const { id, method, path, status, access } = value
    return access.kind === 'merchant' || access.kind === 'session'
      ? JSON.stringify({ id, method, path, ...(status === undefined ? {} : { status }) })
      : undefined
  }
  if (isTexts(value)) return JSON.stringify(value)
  if (typeof value === 'object' && value !== null && 'options' in value && isTexts(value.options)) return JSON.stringify({ options: value.options })
  return undefined
}

/** The decimal places of currencies as data, with the usual places of all currencies that are not listed. */
const exponents = (): string => {
  const usual = exponentsOf('usd')
  const others = currencies.filter((currency) => !isDeepStrictEqual(exponentsOf(currency), usual)).map((currency) => [currency, exponentsOf(currency)])
  return `const places = ${JSON.stringify(Object.fromEntries(others))}\nexport const exponentsOf = (currency) => places[currency] ?? ${JSON.stringify(usual)}`
}

const stubs = (): string =>
  [
    ...Object.entries(contract).flatMap(([name, value]) => {
      const text = valueOf(value)
      return text === undefined ? [] : [`export const ${name} = ${text}`]
    }),
    exponents(),
  ].join('\n')

type Schema = { readonly [key: string]: unknown }
const nullable = ({ anyOf }: Schema): Schema | undefined =>
  Array.isArray(anyOf) && anyOf.length === 2 && anyOf.some((one: Schema) => one.type === 'null') ? anyOf.find((one: Schema) => one.type !== 'null') : undefined

/** Describes the plain fields of a request schema: type, limits and choices. Lists and records are left to the form. */
const descriptorOf = (name: string): string => {
  const components = (document(contract.defaultVersion) as { components: { schemas: Record<string, Schema> } }).components.schemas
  const resolve = (schema: Schema): Schema => {
    const given = nullable(schema) ?? schema
    return typeof given.$ref === 'string' ? resolve(components[given.$ref.split('/').at(-1)!]!) : given
  }
  const schema = components[name]
  if (schema === undefined) throw new Error(`The contract has no schema ${name}, which a form of the dashboard names.`)
  const required = (schema.required ?? []) as string[]
  const fields = Object.entries(schema.properties as Record<string, Schema>).flatMap(([field, given]) => {
    const { type, format, enum: choices, minLength, maxLength, minimum, maximum } = resolve(given)
    if (!['string', 'integer', 'number', 'boolean'].includes(String(type))) return []
    const facts = { type, format, choices, minLength, maxLength, minimum, maximum, required: required.includes(field) && nullable(given) === undefined }
    return [[field, facts]]
  })
  return `export default ${JSON.stringify(Object.fromEntries(fields))}`
}

/** An export of the contract that is plain data, as a module of its own. Only the screens that need it load it. */
const dataOf = (name: string): string => {
  const value = (contract as Readonly<Record<string, unknown>>)[name]
  if (value === undefined) throw new Error(`The contract exports no ${name}, which a screen of the dashboard needs.`)
  return `export default ${JSON.stringify(value)}`
}

const contractId = '\0contract'
const formPrefix = 'form:'
const dataPrefix = 'contract-data:'

/**
 * Replaces the contract by what the browser needs of it: `@bursar/contract` becomes stubs of the operations that a
 * dashboard session may call, `form:<schema>` the fields of a request, and `contract-data:<name>` plain data.
 */
export const contractPlugin = (): Plugin => ({
  name: 'bursar-contract',
  enforce: 'pre',
  resolveId: (source) => (source === '@bursar/contract' ? contractId : source.startsWith(formPrefix) || source.startsWith(dataPrefix) ? `\0${source}` : null),
  load: (id) => {
    if (id === contractId) return { code: stubs(), moduleSideEffects: false }
    if (id.startsWith(`\0${formPrefix}`)) return { code: descriptorOf(id.slice(formPrefix.length + 1)), moduleSideEffects: false }
    if (id.startsWith(`\0${dataPrefix}`)) return { code: dataOf(id.slice(dataPrefix.length + 1)), moduleSideEffects: false }
    return null
  },
})
