import type { World } from '../../server/test/harness/world.ts'
import type { Counts } from './counting.ts'
import { median } from './measuring.ts'
import type { Outcome } from './results.ts'

/** CPU time in milliseconds and number of statements that one side has used so far. */
export interface Used {
  readonly process: number
  readonly database: number
  readonly counts: Counts
}

/**
 * The cost of one renewal: CPU time in milliseconds, and statements and transactions by role. The costs of the worker
 * include the work that follows a renewal, such as processor events and changed customer states.
 */
export interface Cost {
  readonly per_second: number
  readonly process_ms: number
  readonly database_ms: number
  readonly statements: Readonly<Record<string, number>>
  readonly transactions: Readonly<Record<string, number>>
}

export const costOf = (per_second: number, before: Used, after: Used, renewals: number): Cost => {
  const each = (what: 'statements' | 'transactions') =>
    Object.fromEntries(Object.entries(after.counts).map(([role, count]) => [role, (count[what] - (before.counts[role]?.[what] ?? 0)) / renewals]))
  return {
    per_second,
    process_ms: (after.process - before.process) / renewals,
    database_ms: (after.database - before.database) / renewals,
    statements: each('statements'),
    transactions: each('transactions'),
  }
}

/** Returns the number of rows of every table, without events that follow a renewal later. */
export const countRows = (world: World): Promise<Record<string, number>> =>
  world.database.owner(async (owner) => {
    const { rows } = await owner.query<{ name: string; count: number }>(
      `select c.oid::regclass::text as name, (xpath('/row/c/text()', query_to_xml(format('select count(*) as c from %s %s', c.oid::regclass,
         case when c.oid = 'events'::regclass then $$where kind <> 'customer.state_changed'$$ end), false, true, '')))[1]::text::int as count
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind in ('r', 'p') and not c.relispartition and n.nspname in ('public', 'test_processor')
         -- A trigger adds a counter row for each statement, and not for each renewal.
         and c.oid <> 'collection_deltas'::regclass`,
    )
    return Object.fromEntries(rows.map(({ name, count }) => [name, count]))
  })

/** Returns the number of rows that were added for each renewal, by table. Rows of fewer than half of the renewals are not of them. */
export const added = (before: Record<string, number>, after: Record<string, number>, renewals: number): Record<string, number> =>
  Object.fromEntries(
    Object.entries(after)
      .map(([table, count]): [string, number] => [table, Math.round((count - (before[table] ?? 0)) / renewals)])
      .filter(([, count]) => count !== 0),
  )

/** Throws if the loop wrote other rows than the worker. Prints the tables that only the worker wrote, for work that follows a renewal. */
export const compareRows = (ours: Record<string, number>, theirs: Record<string, number>) => {
  const differing = Object.keys(theirs).filter((table) => theirs[table] !== ours[table])
  if (differing.length > 0)
    throw new Error(`the plain loop adds other rows: ${differing.map((table) => `${table} ${theirs[table]} instead of ${ours[table] ?? 0}`).join(', ')}`)
  const only = Object.keys(ours).filter((table) => theirs[table] === undefined)
  if (only.length > 0) console.log(`  rows that only the worker adds: ${only.map((table) => `${table} ${ours[table]}`).join(', ')}`)
}

export const figuresOf = (rate: string, who: string, costs: readonly Cost[]): Outcome['figures'] => {
  const middle = (pick: (cost: Cost) => number) => median(costs.map(pick))
  const of = (what: string, value: number, unit: string) => ({ what: `${who}, ${what} per renewal`, value, unit })
  const roles = { bursar_worker: 'product', bursar_processor: 'test processor', bursar_jobs: 'job queue' }
  return [
    { what: rate, value: middle(({ per_second }) => per_second), unit: '/s' },
    of(
      'CPU of the process',
      middle(({ process_ms }) => process_ms),
      ' ms',
    ),
    of(
      'CPU of the database',
      middle(({ database_ms }) => database_ms),
      ' ms',
    ),
    of(
      'transactions of the product',
      middle(({ transactions }) => transactions.bursar_worker ?? 0),
      '',
    ),
    ...Object.entries(roles)
      .filter(([role]) => costs.some(({ statements }) => (statements[role] ?? 0) > 0))
      .map(([role, whose]) =>
        of(
          `statements of the ${whose}`,
          middle(({ statements }) => statements[role] ?? 0),
          '',
        ),
      ),
  ]
}
