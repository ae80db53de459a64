import { sql, type RawBuilder } from 'kysely'
import { Secret, type Hasher } from '../kernel/secrets.ts'
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
   * For rows without a customer id: columns with the e-mail address, or also the external id, of a person. Before an erasure,
   * the rows that match the customer or its members are assigned to the customer. `own_external_id` is matched with the customer only.
   * `any_address` also matches the addresses from which and to which the customer's address was changed.
   */
  readonly by?: { readonly address: string; readonly external_id: string } | { readonly any_address: string } | { readonly own_external_id: string }
  /** The column with the keyed hash of an address (`hashOfAddress`), for rows whose address is encrypted. Matching rows are erased too. */
  readonly hashed?: string
  /**
   * True if the job `customers.forget` erases the rows, and not the request. A customer may have millions of them, and some may be
   * inserted while the customer is erased. All columns are erased to null. No event or stored answer contains their ids.
   */
  readonly isLate?: true
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
  /** The addresses of completed and requested changes of the customer's address. */
  readonly changed_addresses: readonly string[]
  /** The keyed hashes under which any of these addresses may be stored. */
  readonly address_hashes: readonly string[]
  readonly external_ids: readonly string[]
  /** The external id of the customer itself. */
  readonly own_external_id: string | null
}

const hashable = (organization_id: string, address: string): Secret => new Secret(`address of ${organization_id}: ${address.trim().toLowerCase()}`)

/** Returns the keyed hash of an address, by which an erasure finds encrypted data of the person in this organization. */
export const hashOfAddress = (hasher: Hasher, organization_id: string, address: string): string => hasher.hash(hashable(organization_id, address))

/** Returns the hashes under which the addresses may be stored, also under earlier peppers. */
export const hashesOfAddresses = (hasher: Hasher, organization_id: string, addresses: readonly string[]): string[] =>
  addresses.flatMap((address) => hasher.candidates(hashable(organization_id, address)))

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

const matching = (by: NonNullable<PersonalTable['by']>, { addresses, changed_addresses, external_ids, own_external_id }: Person): RawBuilder<unknown> =>
  'own_external_id' in by
    ? sql`${sql.ref(by.own_external_id)} = ${own_external_id}::text`
    : 'any_address' in by
      ? sql`lower(${sql.ref(by.any_address)}) = any(${[...addresses, ...changed_addresses]})`
      : sql`(lower(${sql.ref(by.address)}) = any(${addresses}) or ${sql.ref(by.external_id)} = any(${external_ids}))`

/** Erases all data that any module has declared to be about this customer and its people, except the rows that a job erases. */
export const forgetPerson = async (tx: Tx, { personal }: Discretion, person: Person): Promise<void> => {
  const { organization_id, customer_id } = person
  for (const [table, declared] of Object.entries(personal)) {
    const { of, by, hashed, isLate, columns } = declared
    if (of === undefined || isLate) continue
    if (by !== undefined)
      await sql`
        update ${sql.table(table)} set ${sql.ref(of)} = ${customer_id}
        where organization_id = ${organization_id} and ${sql.ref(of)} is null and ${matching(by, person)}`.execute(tx.q)
    const changes = forgotten(columns)
    if (changes.length === 0) continue
    const theirs = about(declared, organization_id, customer_id)
    const found = hashed === undefined ? theirs : sql`(${theirs} or ${sql.ref(hashed)} = any(${[...person.address_hashes]}))`
    await sql`update ${sql.table(table)} set ${sql.join(changes)} where organization_id = ${organization_id} and ${found}`.execute(tx.q)
  }
}

/** Erases up to `most` rows that the request has left to the job. Returns the number of erased rows. */
export const forgetLate = async (tx: Tx, { personal }: Discretion, organization_id: string, customer_id: string, most: number): Promise<number> => {
  let erased = 0
  for (const [table, declared] of Object.entries(personal)) {
    if (!declared.isLate || erased >= most) continue
    const isLeft = sql.join(
      Object.keys(declared.columns).map((column) => sql`${sql.ref(column)} is not null`),
      sql` or `,
    )
    const { numAffectedRows } = await sql`
      update ${sql.table(table)} set ${sql.join(forgotten(declared.columns))} where organization_id = ${organization_id} and id in (
        select id from ${sql.table(table)} where organization_id = ${organization_id} and (${isLeft}) and ${about(declared, organization_id, customer_id)}
        limit ${most - erased})`.execute(tx.q)
    erased += Number(numAffectedRows ?? 0n)
  }
  return erased
}

/** Selects the ids of all rows that any module stores about this customer. Log entries that mention these ids are personal data too. */
export const traces = ({ personal }: Discretion, organization_id: string, customer_id: string): RawBuilder<unknown> =>
  sql.join(
    Object.entries(personal).flatMap(([table, declared]) =>
      declared.of === undefined || declared.isLate
        ? []
        : [sql`select id from ${sql.table(table)} where organization_id = ${organization_id} and ${about(declared, organization_id, customer_id)}`],
    ),
    sql` union all `,
  )
