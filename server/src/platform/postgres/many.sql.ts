import { sql, type RawBuilder } from 'kysely'

type Row = Readonly<Record<string, unknown>>

const columnsOf = (rows: readonly object[]) => Object.keys(rows[0]!)

/**
 * Returns the statement that inserts rows with the same columns. All rows are one JSON parameter, so the text of the
 * statement does not depend on their number and can be prepared.
 */
export const insertRows = (table: string, rows: readonly object[]): RawBuilder<unknown> => {
  const columns = sql.join(columnsOf(rows).map((column) => sql.ref(column)))
  return sql`insert into ${sql.table(table)} (${columns}) select ${columns} from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::json)`
}

/**
 * Returns the statement that updates rows of one organization by their ids. All rows must have the same columns. The
 * caller has locked them.
 */
export const updateRows = (table: string, organization_id: string, rows: readonly (Row & { readonly id: string })[]): RawBuilder<unknown> => {
  const changes = columnsOf(rows).filter((column) => column !== 'id')
  return sql`
    update ${sql.table(table)} as t set ${sql.join(changes.map((column) => sql`${sql.ref(column)} = ${sql.ref(`v.${column}`)}`))}
    from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::json) as v
    where t.organization_id = ${organization_id} and t.id = v.id`
}
