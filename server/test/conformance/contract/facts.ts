/**
 * Extracts facts from an OpenAPI document, to compare our document with the public contract. Facts are scopes, required
 * parameters and fields, defaults, and the keys and default of every sort order.
 */
type Json = { readonly [key: string]: unknown }

export interface Facts {
  /** One entry for each accepted credential: its scheme, then its scopes. Omits our own session cookie. */
  readonly security: readonly string[]
  /** Query parameters that are required, have a default, or set the sort order. */
  readonly query?: Readonly<Record<string, Fact>>
  readonly body?: 'required' | 'optional'
  /** Fields of the body that are required or have a default, by their path. */
  readonly fields?: Readonly<Record<string, Fact>>
}

export interface Fact {
  /** `sometimes`: required by some variants of a union and optional in others. */
  readonly required?: 'always' | 'sometimes'
  /** The default as JSON. Several defaults if the variants of a union differ. */
  readonly default?: readonly string[]
  /** Keys that the list can be sorted by. */
  readonly sorts?: readonly string[]
}

const methods = ['get', 'post', 'put', 'patch', 'delete']

/** Facts by method and path. Names of path parameters and trailing slashes do not count. */
export const factsOf = (document: Json): Record<string, Facts> => {
  const found: Record<string, Facts> = {}
  for (const [path, item] of Object.entries(document.paths as Record<string, Json>))
    for (const method of methods)
      if (item[method]) found[`${method.toUpperCase()} ${path.replace(/(?<=.)\/+$/, '').replace(/\{[^}]+\}/g, '{}')}`] = read(document, item[method] as Json)
  return found
}

const read = (document: Json, operation: Json): Facts => {
  const parameters = ((operation.parameters ?? []) as Json[]).map((one) => resolve(document, one)).filter((one) => one.in === 'query')
  const query = withFacts(
    parameters.map((one) => {
      const nodes = variantsOf(document, one.schema as Json)
      const sorts = one.name === 'sorting' ? nodes.flatMap((node) => (node.items ? enumOf(document, node.items as Json) : [])) : []
      return [
        one.name as string,
        { ...(one.required ? { required: 'always' } : {}), ...defaultOf(nodes), ...(sorts.length > 0 ? { sorts: sorts.toSorted() } : {}) },
      ]
    }),
  )
  const body = operation.requestBody ? resolve(document, operation.requestBody as Json) : undefined
  const content = Object.values((body?.content ?? {}) as Record<string, Json>)[0]
  const fields = content ? fieldsOf(document, content.schema as Json) : undefined
  return {
    security: ((operation.security ?? []) as Record<string, string[]>[])
      .map((one) => Object.entries(one).map(([scheme, scopes]) => [scheme, ...scopes.toSorted()].join(' ')))
      .flat()
      .filter((one) => !/^session\b/.test(one))
      .toSorted(),
    ...(query ? { query } : {}),
    ...(body ? { body: body.required ? 'required' : 'optional' } : {}),
    ...(fields ? { fields } : {}),
  }
}

const withFacts = (entries: readonly (readonly [string, Fact])[]): Record<string, Fact> | undefined => {
  const kept = entries.filter(([, fact]) => Object.keys(fact).length > 0)
  return kept.length > 0 ? Object.fromEntries(kept.toSorted(([a], [b]) => (a < b ? -1 : 1))) : undefined
}

/** Follows a reference. Keys beside the reference are kept. */
const resolve = (document: Json, node: Json): Json => {
  const { $ref, ...beside } = node
  if (typeof $ref !== 'string') return node
  const target = $ref
    .split('/')
    .slice(1)
    .reduce<unknown>((at, key) => (at as Json)[key.replaceAll('~1', '/').replaceAll('~0', '~')], document)
  return { ...resolve(document, target as Json), ...beside }
}

/** Returns a schema and all its variants in `anyOf`, `oneOf` and `allOf`, recursively. */
const variantsOf = (document: Json, schema: Json, depth = 0): Json[] => {
  const node = resolve(document, schema)
  const parts = ['anyOf', 'oneOf', 'allOf'].flatMap((key) => (node[key] ?? []) as Json[])
  return [node, ...(depth > 8 ? [] : parts.flatMap((part) => variantsOf(document, part, depth + 1)))]
}

const enumOf = (document: Json, schema: Json): string[] => variantsOf(document, schema).flatMap((node) => (node.enum ?? []) as string[])

/** Returns the defaults of these nodes. Ignores a default of null, which says only that the value may be absent. */
const defaultOf = (nodes: readonly Json[]): Pick<Fact, 'default'> => {
  const values = [...new Set(nodes.flatMap((node) => (node.default === undefined || node.default === null ? [] : [JSON.stringify(node.default)])))]
  return values.length > 0 ? { default: values.toSorted() } : {}
}

const fieldsOf = (document: Json, schema: Json): Record<string, Fact> | undefined => {
  const found = new Map<string, { required: Set<boolean>; nodes: Json[] }>()
  const walk = (node: Json, path: string, depth: number): void => {
    if (depth > 6) return
    for (const variant of variantsOf(document, node)) {
      const required = new Set((variant.required ?? []) as string[])
      for (const [name, field] of Object.entries((variant.properties ?? {}) as Record<string, Json>)) {
        const at = path === '' ? name : `${path}.${name}`
        const entry = found.get(at) ?? { required: new Set(), nodes: [] }
        found.set(at, entry)
        entry.required.add(required.has(name))
        entry.nodes.push(...variantsOf(document, field))
        walk(field, at, depth + 1)
      }
      if (variant.items) walk(variant.items as Json, `${path}[]`, depth + 1)
      if (typeof variant.additionalProperties === 'object') walk(variant.additionalProperties as Json, `${path}{}`, depth + 1)
    }
  }
  walk(schema, '', 0)
  return withFacts(
    [...found].map(([path, { required, nodes }]): [string, Fact] => [
      path,
      { ...(required.has(true) ? { required: required.has(false) ? 'sometimes' : 'always' } : {}), ...defaultOf(nodes) },
    ]),
  )
}

/** Puts every fact of an operation on its own line, so that two documents can be compared line by line. */
export const linesOf = (facts: Record<string, Facts>): Map<string, string> => {
  const lines = new Map<string, string>()
  for (const [operation, { security, query = {}, body, fields = {} }] of Object.entries(facts)) {
    lines.set(`${operation} security`, security.join(' | '))
    if (body) lines.set(`${operation} body`, body)
    for (const [where, part] of [
      ['query', query],
      ['body', fields],
    ] as const)
      for (const [name, fact] of Object.entries(part))
        for (const [key, value] of Object.entries(fact))
          lines.set(`${operation} ${where} ${name} ${key}`, Array.isArray(value) ? value.join(' ') : String(value))
  }
  return lines
}
