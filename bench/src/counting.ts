import pg from 'pg'

/**
 * Statements and transactions of this process on connections of one role. Beginning and ending a transaction is no
 * statement. A statement without `begin` is no transaction.
 */
export interface Count {
  statements: number
  transactions: number
}
export type Counts = Record<string, Count>

const control = /^\s*(begin|start transaction|commit|rollback|savepoint|release|set)\b/i
const counts: Counts = {}

// oxlint-disable-next-line typescript/unbound-method -- called with the client below
const original = pg.Client.prototype.query as (...args: unknown[]) => unknown
pg.Client.prototype.query = function (this: pg.Client & { connectionParameters: { application_name?: string } }, ...args: unknown[]) {
  const [first] = args
  const text = typeof first === 'string' ? first : (first as { text?: string } | undefined)?.text
  if (text !== undefined) {
    const count = (counts[this.connectionParameters.application_name ?? ''] ??= { statements: 0, transactions: 0 })
    if (!control.test(text)) count.statements++
    else if (/^\s*commit\b/i.test(text)) count.transactions++
  }
  return original.apply(this, args)
} as typeof pg.Client.prototype.query

/** Returns the counts since the start of the process. */
export const countsSoFar = (): Counts => structuredClone(counts)

// A measured process loads this file with `--import`, and prints its counts when it is asked by a signal.
let turn = 0
process.on('SIGUSR2', () => console.log(JSON.stringify({ msg: 'statements', turn: ++turn, counts })))
