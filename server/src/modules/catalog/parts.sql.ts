import { sql, type RawBuilder } from 'kysely'

/** Selects rows as one JSON list, in the order of the query. The list is empty if there are no rows. */
export const jsonList = <Row>(query: RawBuilder<unknown>) => sql<Row[]>`array_to_json(array(select row_to_json(l) from (${query}) l))`
