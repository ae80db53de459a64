import type { Locked } from './postgres.ts'

/** A query for rows of one table that can lock them. */
interface Lockable<Row> {
  forUpdate(): { executeTakeFirst(): Promise<Row | undefined>; execute(): Promise<Row[]> }
  forNoKeyUpdate(): { executeTakeFirst(): Promise<Row | undefined>; execute(): Promise<Row[]> }
}

/**
 * The lock mode of a row. With `no key update`, other transactions may still insert rows that reference it. With
 * `update` they may not. Use `update` before deleting the row or counting the rows that reference it.
 */
type Strength = 'no key update' | 'update'

const locking = <Row>(query: Lockable<Row>, strength: Strength) => (strength === 'update' ? query.forUpdate() : query.forNoKeyUpdate())

/** Locks the row that a query finds, until the transaction ends. Undefined if there is none. */
export const lockRow = async <Row>(query: Lockable<Row>, strength: Strength = 'no key update'): Promise<Locked<Row> | undefined> => {
  const row = await locking(query, strength).executeTakeFirst()
  return row && mark(row)
}

/** Locks all rows that a query finds, in its order. Callers that lock several rows must use one order. */
export const lockRows = async <Row>(query: Lockable<Row>, strength: Strength = 'no key update'): Promise<Locked<Row>[]> =>
  (await locking(query, strength).execute()).map((row) => mark(row))

/** Runs an insert or update and returns its row, which the statement has locked. */
export const writeRow = async <Row>(statement: { executeTakeFirstOrThrow(): Promise<Row> }): Promise<Locked<Row>> =>
  mark(await statement.executeTakeFirstOrThrow())

const mark = <Row>(row: Row) => row as Locked<Row>

/**
 * Marks a row as locked for the type checker, without locking it. Use it only for rows that this transaction has
 * already locked or written.
 */
export const markLocked = <Row>(row: Row) => row as Locked<NonNullable<Row>> | Extract<Row, undefined>
