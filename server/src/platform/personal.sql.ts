import { sql, type RawBuilder } from 'kysely'
import type { Tx } from './postgres/postgres.ts'

/**
 * The value of a column after the person is erased: null, an empty record, or an address that reaches no mailbox. `kept`
 * columns stay, because the law requires them.
 */
export type Forgotten = 'nothing' | 'empty' | 'address' | 'kept'

/** The columns of a table that contain personal data. */
export interface PersonalTable {
  /** The column with the customer's id. Absent if the table's rows are not about a customer. */
  readonly of?: string
  /** A second column with a customer's id, for rows about a payer and a holder. The row is erased if either customer is erased. */
  readonly also?: string
  /** For rows without a customer id: the column that references a row of another table, which has the customer id. */
  readonly through?: { readonly column: string; readonly table: string }
  /**
   * For rows without a customer id: columns with the e-mail address or the external id of a person. Before an erasure,
   * the rows that match the customer are assigned to it.
   */
  readonly by?: { readonly address: string; readonly external_id: string }
  readonly columns: Readonly<Record<string, Forgotten>>
}

/** All tables with personal data and all columns with secrets, as the modules declare them. */
export interface Discretion {
  readonly personal: Readonly<Record<string, PersonalTable>>
  readonly secret: Readonly<Record<string, readonly string[]>>
}

const anonymousDomain = '@anonymized.invalid'

/** True for an address that replaced the address of an erased person. */
export const isAnonymous = (address: string): boolean => address.endsWith(anonymousDomain)

const replacements: Record<Exclude<Forgotten, 'kept'>, (column: RawBuilder<unknown>) => RawBuilder<unknown>> = {
  nothing: () => sql`null`,
  // Null stays null.
  empty: (column) => sql`case when ${column} is null then ${column} else '{}' end`,
  address: (column) => sql`case when ${column} is null then null else 'forgotten-' || id || ${anonymousDomain} end`,
}

/** A customer to erase: all identifiers of the customer and of its members. */
export interface Person {
  readonly organization_id: string
  readonly customer_id: string
  /** In lower case. */
  readonly addresses: readonly string[]
  readonly external_ids: readonly string[]
}

/** Selects the rows of a table that are about this customer. */
const about = ({ of, also, through }: PersonalTable, organization_id: string, customer_id: string): RawBuilder<unknown> => {
  const theirs = also === undefined ? sql`${sql.ref(of!)} = ${customer_id}` : sql`(${sql.ref(of!)} = ${customer_id} or ${sql.ref(also)} = ${customer_id})`
  return through === undefined
    ? theirs
    : sql`${sql.ref(through.column)} in (select id from ${sql.table(through.table)} where organization_id = ${organization_id} and ${theirs})`
}

/** Returns the assignments that erase the personal columns of a table. */
export const forgotten = (columns: PersonalTable['columns']): RawBuilder<unknown>[] =>
  Object.entries(columns).flatMap(([column, how]) => (how === 'kept' ? [] : [sql`${sql.ref(column)} = ${replacements[how](sql.ref(column))}`]))

/** Erases all data that any module has declared to be about this customer and its people. */
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

/** Selects the ids of all rows that any module stores about this customer. Log entries that mention these ids are personal data too. */
export const traces = ({ personal }: Discretion, organization_id: string, customer_id: string): RawBuilder<unknown> =>
  sql.join(
    Object.entries(personal).flatMap(([table, declared]) =>
      declared.of === undefined
        ? []
        : [sql`select id from ${sql.table(table)} where organization_id = ${organization_id} and ${about(declared, organization_id, customer_id)}`],
    ),
    sql` union all `,
  )
