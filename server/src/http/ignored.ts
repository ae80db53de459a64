import type { Operation } from '@bursar/contract'
import { wireSchema } from '@bursar/contract/openapi'
import { nearest } from '../kernel/nearest.ts'

type Node = { readonly [key: string]: unknown }

/** Limits for one request: the number of names in the header, its bytes, the number of checked fields, and the length of a name. */
const bounds = { names: 10, bytes: 500, steps: 2000, name: 64 }

/**
 * Lists the query parameters and body fields that an operation does not know, as value of the header Bursar-Ignored.
 * Example: `query.limitt (limit?), body.nmae (name?)`. The contract permits unknown names, so they are no error. Without
 * the header a misspelling has no visible effect. Free-form records have no unknown names. The header never contains a
 * value.
 */
export const ignoredNames = (operation: Operation, { query, body }: { readonly query: unknown; readonly body: unknown }): string | undefined => {
  const schemas = compiled.get(operation) ?? compile(operation)
  compiled.set(operation, schemas)
  const found: string[] = []
  const walk: Walk = { found, steps: bounds.steps, variants: schemas.variants }
  // Ignores the query of a redirect, because the redirect may pass the whole query on to its target.
  if (operation.status !== 302) visit([schemas.query], query, 'query', walk)
  if (operation.body) visit([schemas.body], body, 'body', walk)
  return found.length === 0 ? undefined : join(found)
}

/** One variant of a union schema, compiled for fast lookups of field names. */
interface Variant {
  readonly fields: ReadonlyMap<string, Node>
  /** Fields with a constant value. They distinguish the variants of a union. */
  readonly constants: readonly (readonly [string, unknown])[]
  /** The schema of all fields that are not declared, if the record is free-form. */
  readonly others: Node | undefined
  readonly items: Node | undefined
  /** True if the schema declares no fields and accepts any. */
  readonly open: boolean
}
interface Compiled {
  readonly query: Node
  readonly body: Node
  readonly variants: (node: Node) => readonly Variant[]
}
interface Walk {
  readonly found: string[]
  readonly variants: Compiled['variants']
  steps: number
}

/** Compiled on the first request of an operation, so that later requests only look up names. */
const compiled = new WeakMap<Operation, Compiled>()
const compile = (operation: Operation): Compiled => {
  const query = operation.query ? wireSchema(operation.query) : { type: 'object', properties: {} }
  const body = operation.body ? wireSchema(operation.body) : {}
  const defs = { ...(query.$defs as object | undefined), ...(body.$defs as object | undefined) } as Readonly<Record<string, Node>>
  const known = new WeakMap<Node, readonly Variant[]>()
  const variants = (node: Node): readonly Variant[] => {
    const list = known.get(node) ?? alternatives(node, defs).map(variantOf)
    known.set(node, list)
    return list
  }
  return { query, body, variants }
}

const alternatives = (node: Node, defs: Readonly<Record<string, Node>>, depth = 0): Node[] => {
  if (depth > 16) return []
  if (typeof node.$ref === 'string') return alternatives(defs[node.$ref.replace('#/$defs/', '')] ?? {}, defs, depth + 1)
  const parts = (node.anyOf ?? node.oneOf ?? node.allOf) as Node[] | undefined
  return parts ? parts.flatMap((part) => alternatives(part, defs, depth + 1)) : [node]
}

const variantOf = (node: Node): Variant => {
  const fields = Object.entries((node.properties ?? {}) as Record<string, Node>)
  const { additionalProperties: others, items } = node
  return {
    fields: new Map(fields),
    constants: fields.flatMap(([name, field]) => ('const' in field ? [[name, field.const] as const] : [])),
    others: others === true ? {} : typeof others === 'object' ? (others as Node) : undefined,
    items: items as Node | undefined,
    open: !['type', 'properties', 'items', 'enum', 'const'].some((key) => key in node),
  }
}

const visit = (nodes: readonly Node[], value: unknown, path: string, walk: Walk): void => {
  if (typeof value !== 'object' || value === null) return
  const variants = nodes.flatMap((node) => walk.variants(node)).filter((variant) => fits(variant, value as Record<string, unknown>))
  if (Array.isArray(value)) {
    const items = variants.flatMap(({ items: one }): Node[] => (one ? [one] : []))
    for (let at = 0; items.length > 0 && at < value.length && more(walk); at++) visit(items, value[at], `${path}[${at}]`, walk)
    return
  }
  const records = variants.filter(({ fields, others }) => fields.size > 0 || others !== undefined)
  if (variants.some(({ open }) => open) || (records.length === 0 && path !== 'query')) return
  for (const name of Object.keys(value)) {
    if (!more(walk)) return
    const item = (value as Record<string, unknown>)[name]
    const isKnown = records.some(({ fields, others }) => others !== undefined || fields.has(name))
    if (!isKnown)
      walk.found.push(
        `${path}.${plain(name)}${hint(
          name,
          records.flatMap(({ fields }) => [...fields.keys()]).filter((known) => !Object.hasOwn(value, known)),
        )}`,
      )
    else if (typeof item === 'object' && item !== null) {
      const schemas = records.flatMap(({ fields, others }): Node[] => {
        const one = fields.get(name) ?? others
        return one ? [one] : []
      })
      visit(schemas, item, `${path}.${plain(name)}`, walk)
    }
  }
}

const more = (walk: Walk): boolean => walk.steps-- > 0 && walk.found.length <= bounds.names

const fits = ({ constants }: Variant, value: Record<string, unknown>): boolean =>
  constants.every(([name, constant]) => !Object.hasOwn(value, name) || value[name] === constant)

const hint = (name: string, known: readonly string[]): string => {
  const meant = nearest(name, known)
  return meant === undefined ? '' : ` (${meant}?)`
}

/** Replaces the characters that a header cannot hold or that have a meaning in this header. */
const plain = (name: string): string => (name.length > bounds.name ? `${name.slice(0, bounds.name)}...` : name).replace(/[^A-Za-z0-9_.$:@/+-]/g, '_')

const join = (found: readonly string[]): string => {
  let text = ''
  for (const [at, name] of found.entries()) {
    const next = text === '' ? name : `${text}, ${name}`
    if (at >= bounds.names || next.length > bounds.bytes - 5) return text === '' ? `${name.slice(0, bounds.bytes - 3)}...` : `${text}, ...`
    text = next
  }
  return text
}
