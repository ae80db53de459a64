import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { setImmediate } from 'node:timers/promises'
import { defaultVersion } from '@bursar/contract'
import type { ReferenceArea, ReferenceCaller, ReferenceEntry, ReferenceField, ReferenceOperation } from '@bursar/views'
import { curlOf, pretty, typescriptOf } from './reference-examples.ts'

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
  readonly required?: readonly string[]
  readonly description?: string
}
type Content = Readonly<Record<string, { readonly schema: Schema; readonly example?: unknown }>>
interface Described {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly security: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters: readonly {
    readonly name: string
    readonly in: string
    readonly required: boolean
    readonly description: string
    readonly schema: Schema
    readonly example?: unknown
  }[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** Nested records are shown down to this depth. The example shows the rest. */
const depths = { body: 3, answer: 2 }

const { resolve } = createRequire(import.meta.url)
/** The part of an id that names its area. The portal has many operations, so its areas have two parts. */
const areaOf = (id: string): string =>
  id
    .split(':')
    .slice(0, id.startsWith('customer_portal:') ? 2 : 1)
    .join(':')
const slugOf = (area: string): string => area.replaceAll(':', '-')
const nameOf = (area: string): string => {
  const text = area.replaceAll(/[_-]/g, ' ').replace(':', ': ')
  return text[0]!.toUpperCase() + text.slice(1)
}

/** Reads the types and the fields of schemas. */
const openSchemas = (schemas: Document['components']['schemas']) => {
  const follow = (schema: Schema): Schema => (schema.$ref === undefined ? schema : follow(schemas[schema.$ref.split('/').at(-1)!]!))
  const variantsOf = (schema: Schema): readonly Schema[] => (schema.anyOf ?? schema.oneOf ?? [schema]).filter(({ type }) => type !== 'null')

  const typeOf = (schema: Schema): string => {
    const inner = follow(schema)
    const variants = inner.anyOf ?? inner.oneOf
    if (variants) return [...new Set(variants.map(typeOf))].join(' or ')
    if (inner.const !== undefined) return JSON.stringify(inner.const)
    if (inner.enum) return inner.enum.length > 12 ? `${inner.enum.slice(0, 12).join(', ')} or others` : inner.enum.join(', ')
    if (Array.isArray(inner.type)) return inner.type.map((type: string) => typeOf({ ...inner, type })).join(' or ')
    if (inner.type === 'array') return `list of ${inner.items ? typeOf(inner.items) : 'values'}`
    if (inner.type === 'string') return inner.format ?? 'text'
    if (inner.type === 'object') return schema.$ref?.split('/').at(-1) ?? 'record'
    return inner.type?.toString() ?? 'any value'
  }

  const fieldsOf = (schema: Schema, depth: number): readonly ReferenceField[] => {
    const inner = follow(schema)
    if (inner.type === 'array' && inner.items) return fieldsOf(inner.items, depth)
    const variants = variantsOf(inner)
    if (variants.length > 1) {
      const records = variants.filter((variant) => follow(variant).properties !== undefined)
      if (depth === 0 || records.length === 0) return []
      return records.map((variant) => ({ name: typeOf(variant), type: 'variant', required: false, description: '', fields: fieldsOf(variant, depth - 1) }))
    }
    if (variants[0] !== undefined && variants[0] !== inner) return fieldsOf(variants[0], depth)
    return Object.entries(inner.properties ?? {}).map(([name, field]) => ({
      name,
      type: typeOf(field),
      required: inner.required?.includes(name) ?? false,
      description: field.description ?? '',
      fields: depth <= 1 ? [] : fieldsOf(field, depth - 1),
    }))
  }
  return { typeOf, fieldsOf }
}

const callersOf = ({ security }: Described): readonly ReferenceCaller[] => {
  const names = security.flatMap((one) => (Object.keys(one).length === 0 ? ['anyone'] : Object.keys(one)))
  return names.length === 0 ? ['anyone'] : (names as ReferenceCaller[])
}

/** Builds the reference from the OpenAPI document. Yields between the areas, so that other requests do not wait. */
const build = async (origin: string) => {
  const { paths, components } = JSON.parse(await readFile(resolve(`@bursar/contract/documents/${defaultVersion}.json`), 'utf8')) as Document
  const { typeOf, fieldsOf } = openSchemas(components.schemas)
  const grouped = Map.groupBy(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => ({ path, method: method.toUpperCase(), described })),
    ),
    ({ described }) => areaOf(described.operationId),
  )
  const areas: ReferenceArea[] = []
  const details = new Map<string, Buffer>()
  for (const [area, found] of [...grouped].toSorted(([one], [other]) => (one < other ? -1 : 1))) {
    const operations = found.map(({ path, method, described }): ReferenceOperation => {
      const answers = Object.entries(described.responses)
      const [status, answer] = answers.findLast(([code]) => code < '400' && described.responses[code]!.content !== undefined) ?? answers[0]!
      const content = Object.values(answer.content ?? {})[0]
      const callers = callersOf(described)
      const call = { described, method, path, origin, caller: callers[0] }
      const errors = answers.filter(([code]) => code >= '400')
      return {
        id: described.operationId,
        anchor: slugOf(described.operationId),
        method,
        path,
        summary: described.summary,
        description: described.description ?? null,
        callers,
        scopes: [...new Set(described.security.flatMap((one) => Object.values(one).flat()))],
        parameters: described.parameters.map(({ name, in: where, required, description, schema }) => ({
          name,
          where,
          type: typeOf(schema),
          required,
          description,
          fields: [],
        })),
        body: Object.values(described.requestBody?.content ?? {}).flatMap(({ schema }) => fieldsOf(schema, depths.body)),
        answer: {
          status,
          description: answer.description,
          fields: content ? fieldsOf(content.schema, depths.answer) : [],
          example: content?.example === undefined ? null : pretty(content.example),
        },
        errors: errors.map(([code, { description, content: media }]) => {
          const schemas = Object.values(media ?? {}).flatMap(({ schema }) => schema.anyOf ?? [schema])
          return { status: code, description, names: schemas.flatMap(({ $ref }) => ($ref === undefined ? [] : [$ref.split('/').at(-1)!])) }
        }),
        curl: curlOf(call),
        typescript: typescriptOf(call),
      }
    })
    const entries = operations.map(({ id, anchor, method, path, summary }): ReferenceEntry => ({ id, anchor, method, path, summary }))
    areas.push({ name: nameOf(area), slug: slugOf(area), operations: entries })
    // Kept as bytes, because the parsed form of all areas would take ten times the memory.
    details.set(slugOf(area), Buffer.from(JSON.stringify(operations)))
    await setImmediate()
  }
  return { areas, details }
}

/** Returns the reference of this deployment. It is built with the first request, because most processes never show it. */
export const openReference = (origin: string) => {
  let building: ReturnType<typeof build> | undefined
  const load = (): ReturnType<typeof build> => {
    building ??= build(origin).catch((error: unknown) => {
      building = undefined
      throw error
    })
    return building
  }
  return {
    areas: async (): Promise<readonly ReferenceArea[]> => (await load()).areas,
    area: async (slug: string): Promise<{ readonly area: string; readonly operations: readonly ReferenceOperation[] } | undefined> => {
      const { areas, details } = await load()
      const found = areas.find((one) => one.slug === slug)
      return found && { area: found.name, operations: JSON.parse(details.get(slug)!.toString()) as ReferenceOperation[] }
    },
  }
}
