import { sql, type RawBuilder } from 'kysely'
import type { Tx } from './postgres/postgres.ts'

/** What stands in a column once the person is forgotten: nothing, an empty record, an address that reaches nobody – or what stood there, where the law asks for it. */
export type Forgotten = 'nothing' | 'empty' | 'address' | 'kept'

/** The columns of a table that tell who somebody is. */
export interface PersonalTable {
  /** The column with the id of the customer whose person this is; absent where the person is no customer. */
  readonly of?: string
  /** A second such column, where a row is about whoever pays and whoever has it: it is forgotten with either of them. */
  readonly also?: string
  /** The row does not say it, but one that it names in this column does: there stand the columns above. */
  readonly through?: { readonly column: string; readonly table: string }
  /** Columns with the person's address, or the seller's own name for them, in rows that do not say whose they are: they become the person's. */
  readonly by?: { readonly address: string; readonly external_id: string }
  readonly columns: Readonly<Record<string, Forgotten>>
}

/** Every table with something about people in it, as the areas declare it; and the columns that hold secrets. */
export interface Discretion {
  readonly personal: Readonly<Record<string, PersonalTable>>
  readonly secret: Readonly<Record<string, readonly string[]>>
}

const replacements: Record<Exclude<Forgotten, 'kept'>, (column: RawBuilder<unknown>) => RawBuilder<unknown>> = {
  nothing: () => sql`null`,
  // Made up only in the place of something.
  empty: (column) => sql`case when ${column} is null then ${column} else '{}' end`,
  address: (column) => sql`case when ${column} is null then null else 'forgotten-' || id || '@anonymized.invalid' end`,
}

/** A customer and its people, by everything that names them. */
export interface Person {
  readonly organization_id: string
  readonly customer_id: string
  /** In lower case. */
  readonly addresses: readonly string[]
  readonly external_ids: readonly string[]
}

/** The rows of a table that are about this customer. */
const about = ({ of, also, through }: PersonalTable, organization_id: string, customer_id: string): RawBuilder<unknown> => {
  const theirs = also === undefined ? sql`${sql.ref(of!)} = ${customer_id}` : sql`(${sql.ref(of!)} = ${customer_id} or ${sql.ref(also)} = ${customer_id})`
  return through === undefined
    ? theirs
    : sql`${sql.ref(through.column)} in (select id from ${sql.table(through.table)} where organization_id = ${organization_id} and ${theirs})`
}

/** What is written over the columns of a table that tell who somebody is. */
export const forgotten = (columns: PersonalTable['columns']): RawBuilder<unknown>[] =>
  Object.entries(columns).flatMap(([column, how]) => (how === 'kept' ? [] : [sql`${sql.ref(column)} = ${replacements[how](sql.ref(column))}`]))

/** Writes over everything that any area has declared to be about this customer and its people. */
export const forgetPerson = async (tx: Tx, { personal }: Discretion, { organization_id, customer_id, addresses, external_ids }: Person): Promise<void> => {
  for (const [table, declared] of Object.entries(personal)) {
    const { of, by, columns } = declared
    if (of === undefined) continue
    if (by !== undefined)
      await sql`
        update ${sql.table(table)} set ${sql.ref(of)} = ${customer_id}
        where organization_id = ${organization_id} and ${sql.ref(of)} is null 
          and (lower(${sql.ref(by.address)}) = any(${addresses}) or ${sql.ref(by.external_id)} = any(${external_ids}))`.execute(tx.q)
    const changes = forgotten(columns)
    if (changes.length === 0) continue
    await sql`update ${sql.table(table)} set ${sql.join(changes)} where organization_id = ${organization_id} and ${about(declared, organization_id, customer_id)}`.execute(
      tx.q,
    )
  }
}

/** The ids of everything that any area keeps about this customer, by table: what was said about them was said about the person. */
export const traces = ({ personal }: Discretion, organization_id: string, customer_id: string): RawBuilder<unknown> =>
  sql.join(
    Object.entries(personal).flatMap(([table, declared]) =>
      declared.of === undefined
        ? []
        : [sql`select id from ${sql.table(table)} where organization_id = ${organization_id} and ${about(declared, organization_id, customer_id)}`],
    ),
    sql` union all `,
  )
