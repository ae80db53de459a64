type Json = { [key: string]: unknown }

/** Returns the description of a name in a context, and notes which keys of the catalogue are used. */
export const openCatalogue = (catalogue: Readonly<Record<string, string>>) => {
  const patterns = Object.keys(catalogue).flatMap((key) => {
    const dot = key.lastIndexOf('.')
    if (!key.includes('*')) return []
    const [context, name] = [key.slice(0, dot), key.slice(dot + 1)]
    return [
      {
        key,
        name,
        context: new RegExp(
          `^${context
            .split('*')
            .map((part) => part.replace(/[^\w]/g, String.raw`\$&`))
            .join('.*')}$`,
        ),
      },
    ]
  })
  const used = new Set<string>()
  return {
    describe: (context: string, name: string): string | undefined => {
      const exact = `${context}.${name}`
      const key = Object.hasOwn(catalogue, exact)
        ? exact
        : (patterns.find((pattern) => pattern.name === name && pattern.context.test(context))?.key ?? (Object.hasOwn(catalogue, name) ? name : undefined))
      if (key === undefined) return undefined
      used.add(key)
      return catalogue[key]
    },
    unused: (): string[] => Object.keys(catalogue).filter((key) => !used.has(key)),
  }
}
export type Catalogue = ReturnType<typeof openCatalogue>

/** Removes the description of the only variant besides null, and returns it. It describes the field, not the variant. */
const takeFromVariant = ({ anyOf }: Json): string | undefined => {
  if (!Array.isArray(anyOf)) return undefined
  const [only, another] = (anyOf as Json[]).filter(({ type }) => type !== 'null')
  if (only === undefined || another !== undefined || typeof only.description !== 'string') return undefined
  const { description } = only
  delete only.description
  return description
}

const isNullable = ({ type, anyOf }: Json): boolean =>
  [type, ...(Array.isArray(anyOf) ? (anyOf as Json[]).map((part) => part.type) : [])].flat().includes('null')

/** Adds a description to each field of a schema that has none. Collects the fields that the catalogue does not know. */
export const describeFields = (schema: unknown, context: string, catalogue: Catalogue, missing: string[]): void => {
  if (Array.isArray(schema)) {
    for (const part of schema) describeFields(part, context, catalogue, missing)
    return
  }
  if (typeof schema !== 'object' || schema === null) return
  for (const [key, value] of Object.entries(schema)) {
    if (['default', 'enum', 'const', 'examples', 'example'].includes(key)) continue
    if (key === 'properties' && typeof value === 'object' && value !== null)
      for (const [name, field] of Object.entries(value as Record<string, Json>)) {
        describeFields(field, context, catalogue, missing)
        if (field.description !== undefined) continue
        const description = takeFromVariant(field) ?? catalogue.describe(context, name)
        if (description === undefined) missing.push(`${context}.${name}`)
        else field.description = isNullable(field) ? description : description.replace(/; null [^.]*/, '')
      }
    else describeFields(value, context, catalogue, missing)
  }
}
