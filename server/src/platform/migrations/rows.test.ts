import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { cloneDatabase } from '../../../test/harness/database.ts'

const root = join(import.meta.dirname, '../../../..')
const home = join(root, 'server/.scratch', `rows-${process.pid}`)

interface Column {
  readonly table: string
  readonly column: string
  readonly type: string
  readonly nullable: boolean
}

/** The TypeScript type that the driver returns for a column. The types of JSON columns are declared by hand. */
const typeOf = (type: string): string => {
  if (/^timestamp|^date$/.test(type)) return 'Date'
  if (/^(bigint|integer|smallint|double precision|real)$/.test(type)) return 'number'
  if (type === 'boolean') return 'boolean'
  if (type.startsWith('json')) return 'Json'
  if (type === 'bytea') return 'Uint8Array'
  if (type === 'ARRAY') return 'readonly unknown[]'
  return 'string'
}

/** Reads the columns of all tables from the migrated database. */
const columnsOf = async (): Promise<Column[]> => {
  const database = await cloneDatabase()
  try {
    return await database.owner(async (owner) => {
      const { rows } = await owner.query<Column>(
        `select c.table_name as "table", c.column_name as "column", c.data_type as type, c.is_nullable = 'YES' as nullable
         from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
         where c.table_schema = 'public' and t.table_type = 'BASE TABLE' order by 1, c.ordinal_position`,
      )
      return rows
    })
  } finally {
    await database.drop()
  }
}

/**
 * Generates one function call per table that compiles only if the declared row type fits the table. Returns the columns
 * that do not fit.
 */
const misfits = async (columns: readonly Column[]): Promise<string[]> => {
  mkdirSync(home, { recursive: true })
  const from = relative(home, join(root, 'server/src'))
  const tables = Map.groupBy(columns, ({ table }) => table)
  const lines = [...tables].map(
    ([table, list]) =>
      `check<'${table}', { ${list.map(({ column, type, nullable }) => `${column}: ${typeOf(type)}${nullable ? ' | null' : ''}`).join('; ')} }>('${table}', true)`,
  )
  const text = `import type { Selectable } from 'kysely'
import type {} from '${from}/main/wire.ts'
import type { Tables } from '${from}/platform/postgres/postgres.ts'

interface Json { readonly json: unique symbol }
/** The columns of T whose declared type does not fit: unknown to the database, of another type, or of another nullability. */
type Wrong<Row, Stored> = { [K in keyof Row]-?: K extends keyof Stored ? Fits<Row[K], Stored[K]> extends true ? never : K : K }[keyof Row]
type Fits<Declared, Stored> = unknown extends Declared
  ? NonNullable<Stored> extends Json ? true : false
  : [null extends Declared ? true : false] extends [null extends Stored ? true : false]
  ? [null extends Stored ? true : false] extends [null extends Declared ? true : false]
    ? NonNullable<Stored> extends Json ? true : [NonNullable<Declared>] extends [NonNullable<Stored>] ? true : false
    : false
  : false
type Verdict<T extends string, Stored> = T extends keyof Tables ? ([Wrong<Selectable<Tables[T]>, Stored>] extends [never] ? true : Wrong<Selectable<Tables[T]>, Stored>) : true
declare const check: <T extends string, Stored>(table: T, fits: Verdict<T, Stored>) => void
${lines.join('\n')}
`
  writeFileSync(join(home, 'rows.ts'), text)
  writeFileSync(join(home, 'tsconfig.json'), JSON.stringify({ extends: relative(home, join(root, 'tsconfig.json')), include: [], files: ['rows.ts'] }))
  try {
    await promisify(execFile)(join(root, 'node_modules/.bin/tsc'), ['-p', join(home, 'tsconfig.json'), '--pretty', 'false'], { cwd: dirname(home) })
    return []
  } catch (error) {
    const { stdout } = error as { stdout: string }
    return [...stdout.matchAll(/rows\.ts\((\d+),\d+\): error .*'(\S+)'\.$/gm)].map(
      ([, line, column]) => `${nameIn(text, Number(line))}.${column!.replaceAll('"', '')}`,
    )
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

const nameIn = (text: string, line: number): string => /^check<'(\w+)'/.exec(text.split('\n')[line - 1]!)?.[1] ?? `line ${line}`

test('every declared row type has the names, types and nullability of the migrated tables', async () => {
  const columns = await columnsOf()
  expect(columns.length).toBeGreaterThan(500)
  // Changes three columns of the schema without changing the row types. The comparison must report exactly these three columns.
  const altered = columns.map((one) => {
    if (one.table === 'orders' && one.column === 'billing_name') return { ...one, nullable: false }
    if (one.table === 'customers' && one.column === 'created_at') return { ...one, type: 'text' }
    return one.table === 'seats' && one.column === 'claimed_at' ? { ...one, column: 'taken_at' } : one
  })
  expect(await misfits(altered)).toEqual(['customers.created_at', 'orders.billing_name', 'seats.claimed_at'])
})
