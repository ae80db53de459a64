import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type Reach } from '../../kernel/actors.ts'

/** The right side of `organization_id = …`: any organization within reach. */
export const withinReach = (reach: Reach) => sql<string>`any(${organizationIds(reach)}::uuid[])`

/** A JSON column is written as text: the driver would turn a list into a PostgreSQL array. */
export const json = (value: unknown) => sql<never>`${JSON.stringify(value)}::jsonb`

/** The pattern of a text that contains another, whatever characters that one has. */
export const containing = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`

/**
 * Whether a column has one of these values. A single one is compared by itself: only then an index that goes on with the
 * order of a list hands out its rows in that order.
 */
export const isOneOf = (column: string | RawBuilder<unknown>, values: readonly string[], type: 'uuid' | 'text' = 'uuid'): RawBuilder<boolean> => {
  const [value, ...others] = new Set(values)
  const left = typeof column === 'string' ? sql.ref(column) : column
  const kind = sql.raw(type)
  return value === undefined || others.length > 0 ? sql<boolean>`${left} = any(${values}::${kind}[])` : sql<boolean>`${left} = ${value}::${kind}`
}

/** The same as a filter of a list: without any value it filters nothing. */
export const anyOf = (...[column, values = [], type]: [Parameters<typeof isOneOf>[0], (readonly string[])?, ('uuid' | 'text')?]): RawBuilder<unknown>[] =>
  values.length === 0 ? [] : [isOneOf(column, values, type)]

/**
 * What a filter by metadata asks of a row: different keys mean both, several values of one key mean either. Values are
 * compared as they are written: what reads like a number or a truth may be stored as one. Asked as containment, which an
 * index can answer; rows without metadata are not in it.
 */
export const metadataHas = (metadata: Readonly<Record<string, readonly string[]>> = {}): RawBuilder<unknown>[] =>
  Object.entries(metadata).map(([key, values]) => {
    const pairs = values.flatMap((value) => [JSON.stringify(value), ...(/^(true|false|-?(0|[1-9]\d*)(\.\d*[1-9])?)$/.test(value) ? [value] : [])])
    return sql`(metadata <> '{}' and metadata @> any(${pairs.map((value) => `{${JSON.stringify(key)}:${value}}`)}::jsonb[]))`
  })
