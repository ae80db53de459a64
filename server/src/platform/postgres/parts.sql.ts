import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql, type RawBuilder } from 'kysely'
import { organizationIds, type TenantScope } from '../../kernel/actors.ts'

/** Returns the right side of the condition `organization_id = …`, which matches every organization in scope. */
export const inScope = (scope: TenantScope) => oneOf(organizationIds(scope))

/**
 * Returns the right side of the condition `id = …`, which matches every given id. A single id has a text of its own: the
 * database expects ten rows from an array of unknown length, and would plan the statement again for each request.
 */
export const oneOf = (ids: readonly string[]) => (ids.length === 1 ? sql<string>`${ids[0]}::uuid` : sql<string>`any(${ids}::uuid[])`)

/** Writes a JSON value as text, because the driver would turn a list into a PostgreSQL array. */
export const json = (value: unknown) => sql<never>`${JSON.stringify(value)}::jsonb`

/** Returns the LIKE pattern for a text that contains another. Escapes special characters. */
export const containing = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`

/**
 * True if a column has one of these values. A single value is compared with `=`: only then can an index on this column
 * and the sort key return rows in order.
 */
export const isOneOf = (column: string | RawBuilder<unknown>, values: readonly string[], type: 'uuid' | 'text' = 'uuid'): RawBuilder<boolean> => {
  const [value, ...others] = new Set(values)
  const left = typeof column === 'string' ? sql.ref(column) : column
  const kind = sql.raw(type)
  return value === undefined || others.length > 0 ? sql<boolean>`${left} = any(${values}::${kind}[])` : sql<boolean>`${left} = ${value}::${kind}`
}

/** Returns `isOneOf` as a list of filters. The list is empty if no values are given, so that all rows match. */
export const anyOf = (...[column, values = [], type]: [Parameters<typeof isOneOf>[0], (readonly string[])?, ('uuid' | 'text')?]): RawBuilder<unknown>[] =>
  values.length === 0 ? [] : [isOneOf(column, values, type)]

/**
 * Returns the conditions of a metadata filter. Different keys are combined with AND, values of one key with OR. A value
 * such as `1` or `true` matches text, numbers and booleans. The conditions use JSON containment, so that an index can
 * be used. That index excludes rows without metadata.
 */
export const metadataHas = (metadata: Readonly<Record<string, readonly string[]>> = {}): RawBuilder<unknown>[] =>
  Object.entries(metadata).map(([key, values]) => {
    const pairs = values.flatMap((value) => [JSON.stringify(value), ...(/^(true|false|-?(0|[1-9]\d*)(\.\d*[1-9])?)$/.test(value) ? [value] : [])])
    return sql`(metadata <> '{}' and metadata @> any(${pairs.map((value) => `{${JSON.stringify(key)}:${value}}`)}::jsonb[]))`
  })

const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

/** Compiles a part of a statement that is always the same. Requests then need not compile it again. It must contain no values. */
export const constant = <T>(part: RawBuilder<T>): RawBuilder<T> => {
  const { sql: text, parameters } = part.compile(compiler)
  if (parameters.length > 0) throw new Error(`this part of a statement contains values: ${text}`)
  return sql.raw(text)
}
