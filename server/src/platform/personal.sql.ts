import { sql, type RawBuilder } from 'kysely'
import type { Tx } from './postgres/postgres.ts'

/** What stands in a column once the person is forgotten: nothing, an empty record, or an address that reaches nobody. */
export type Forgotten = 'nothing' | 'empty' | 'address'

/** The columns of a table that tell who somebody is. */
export interface PersonalTable {
  /** The column with the id of the customer whose person this is; absent where the person is no customer. */
  readonly of?: string
  readonly columns: Readonly<Record<string, Forgotten>>
}

/** Every table with something about people in it, as the areas declare it; and the columns that hold secrets. */
export interface Discretion {
  readonly personal: Readonly<Record<string, PersonalTable>>
  readonly secret: Readonly<Record<string, readonly string[]>>
}

const replacements: Record<Forgotten, (column: RawBuilder<unknown>) => RawBuilder<unknown>> = {
  nothing: () => sql`null`,
  empty: () => sql`'{}'`,
  // Made up only in the place of one.
  address: (column) => sql`case when ${column} is null then null else 'forgotten-' || id || '@anonymized.invalid' end`,
}

/** Writes over everything that any area has declared to be about this customer and its people. */
export const forgetPerson = async (tx: Tx, { personal }: Discretion, organization_id: string, customer_id: string): Promise<void> => {
  for (const [table, { of, columns }] of Object.entries(personal)) {
    if (of === undefined) continue
    const changes = Object.entries(columns).map(([column, how]) => sql`${sql.ref(column)} = ${replacements[how](sql.ref(column))}`)
    await sql`update ${sql.table(table)} set ${sql.join(changes)} where organization_id = ${organization_id} and ${sql.ref(of)} = ${customer_id}`.execute(tx.q)
  }
}
