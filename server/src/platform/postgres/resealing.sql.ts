import { sql } from 'kysely'
import type { SealedColumn } from '../sealed.ts'
import type { Db, Tx } from './postgres.ts'

/** A sealed value with the primary key of its row, as text. */
export interface SealedValue {
  readonly key: Readonly<Record<string, string>>
  readonly sealed: string
}

const names = ({ key }: SealedColumn) => Object.keys(key)
const listed = (column: SealedColumn) => sql.join(names(column).map((name) => sql.ref(name)))
const outdated = ({ column }: SealedColumn, current: number) =>
  sql`${sql.ref(column)} is not null and split_part(${sql.ref(column)}, ':', 1) <> ${String(current)}`

/** Counts the values of a column that are sealed under another key than the current one. */
export const countOutdated = async (db: Db, column: SealedColumn, current: number): Promise<number> => {
  const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(column.table)} where ${outdated(column, current)}`.execute(db.q)
  return rows[0]!.count
}

/** Returns the next outdated values in the order of the primary key, after a given row. */
export const nextOutdated = async (
  db: Db,
  column: SealedColumn,
  current: number,
  after: SealedValue['key'] | undefined,
  most: number,
): Promise<SealedValue[]> => {
  const beyond = after ? sql`and (${listed(column)}) > (${sql.join(names(column).map((name) => sql`${after[name]}::${sql.raw(column.key[name]!)}`))})` : sql``
  const { rows } = await sql<{ key: SealedValue['key']; sealed: string }>`
    select json_build_object(${sql.join(names(column).flatMap((name) => [sql.lit(name), sql`${sql.ref(name)}::text`]))}) as key, ${sql.ref(column.column)} as sealed
    from ${sql.table(column.table)} where ${outdated(column, current)} ${beyond}
    order by ${listed(column)} limit ${most}`.execute(db.q)
  return rows
}

/** Replaces values that have not changed since they were read. A value that changed meanwhile is newer and stays. Returns the number of replaced values. */
export const replaceSealed = async (tx: Tx, column: SealedColumn, values: readonly (SealedValue & { readonly resealed: string })[]): Promise<number> => {
  const keys = names(column)
  const given = keys.map((name) => sql`${values.map(({ key }) => key[name]!)}::${sql.raw(column.key[name]!)}[]`)
  const { numAffectedRows = 0n } = await sql`
    update ${sql.table(column.table)} as t set ${sql.ref(column.column)} = v.resealed
    from unnest(${sql.join([...given, sql`${values.map(({ sealed }) => sealed)}::text[]`, sql`${values.map(({ resealed }) => resealed)}::text[]`])})
      as v (${sql.join(keys.map((name) => sql.ref(name)))}, sealed, resealed)
    where ${sql.join(
      keys.map((name) => sql`t.${sql.ref(name)} = v.${sql.ref(name)}`),
      sql` and `,
    )} and t.${sql.ref(column.column)} = v.sealed`.execute(tx.q)
  return Number(numAffectedRows)
}
