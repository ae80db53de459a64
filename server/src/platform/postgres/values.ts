import type { QueryExecutorProvider, RawBuilder } from 'kysely'
import type pg from 'pg'

/** Maximum number of values of one statement. The protocol counts them in 16 bits. */
const mostValues = 65_535

/** A statement has more values than the protocol can count. This is an error of this program, and no outage: a retry fails too. */
export class TooManyValues extends Error {
  constructor(count: number) {
    super(`The statement has ${count} values, and at most ${mostValues} are possible. Send lists as one array, or divide the statement.`)
  }
}

type Query = (...args: unknown[]) => unknown

/**
 * Makes a connection refuse statements with too many values before they are sent. The driver would send a wrong count, and
 * PostgreSQL would report a violation of the protocol.
 */
export const limitValues = (client: pg.ClientBase): void => {
  // Looks up the method of the driver for each statement, because tests and instrumentation replace it later.
  const send = Object.hasOwn(client, 'query')
    ? (client.query.bind(client) as Query)
    : (...args: unknown[]) => (Object.getPrototypeOf(client) as { query: Query }).query.apply(client, args)
  const query: Query = (...args) => {
    const values = Array.isArray(args[1]) ? args[1] : (args[0] as { values?: unknown } | undefined)?.values
    if (Array.isArray(values) && values.length > mostValues) throw new TooManyValues(values.length)
    return send(...args)
  }
  client.query = query as typeof client.query
}

/**
 * Values that the parts of one statement have at most. The planner takes seconds for more. The filters of an organization with
 * the largest number of clauses stay below it.
 */
const valuesOfParts = 25_000

/** Divides items into groups, in their sequence. The parts of a statement for one group have at most `most` values together, unless a single part has more. */
export const groupByValues = <T>(
  db: { readonly q: QueryExecutorProvider },
  items: readonly T[],
  partOf: (item: T) => RawBuilder<unknown>,
  most = valuesOfParts,
): T[][] => {
  const groups: T[][] = []
  let sum = Infinity
  for (const item of items) {
    const count = partOf(item).compile(db.q).parameters.length
    if (sum + count > most) {
      groups.push([])
      sum = 0
    }
    groups.at(-1)!.push(item)
    sum += count
  }
  return groups
}
