import { wireSchema } from '@bursar/contract/openapi'
import build from 'fast-json-stringify'
import type { z } from 'zod'

type Encoder = (value: unknown) => string
type Node = { [key: string]: unknown }

const encoders = new WeakMap<z.ZodType, Encoder>()

/** Turns a value into the JSON of its schema. What the schema does not declare does not leave; what it requires must be there. */
export const encode = (schema: z.ZodType, value: unknown): string => {
  let encoder = encoders.get(schema)
  if (!encoder) {
    encoder = build(simplify(wireSchema(schema)) as never) as Encoder
    encoders.set(schema, encoder)
  }
  return encoder(value)
}

/** "This or null" as a nullable type, which is written without trying the branches; bounds and formats of texts play no part in writing. */
const simplify = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(simplify)
  if (typeof node !== 'object' || node === null) return node
  const { anyOf, ...rest } = node as Node & { anyOf?: Node[] }
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
