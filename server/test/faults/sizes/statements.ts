import { createRequire } from 'node:module'
import pg from 'pg'

/** A statement as sent to the database, with its values. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** The work of a statement, as counted by the database while it ran. */
export interface Work {
  /** Table rows and index entries that were read, used or not. */
  readonly looked: number
  /** The largest number of rows in one sort. */
  readonly sorted: number
  /** Blocks of eight kilobytes that were visited. Only this number shows a full index scan. The counts of rows do not. */
  readonly blocks: number
  /** Tables that were read by a full scan. */
  readonly swept: readonly string[]
  /** Every table that was read. */
  readonly tables: readonly string[]
  /** True if the statement only counts. Such a statement has to read every row that it counts. */
  readonly counts: boolean
  /** A short form of the plan, for debugging. */
  readonly summary: string
}

/** Records every statement that this process sends while the work runs. The API must run in this process, without other load. */
export const statementsOf = async <T>(work: () => Promise<T>): Promise<{ answer: T; statements: Statement[] }> => {
  const statements: Statement[] = []
  // oxlint-disable-next-line typescript/unbound-method -- put back as it was
  const original = pg.Client.prototype.query
  const noting = function (this: pg.Client, ...args: unknown[]) {
    const [first, second] = args
    const text = typeof first === 'string' ? first : (first as { text?: string } | undefined)?.text
    const values = Array.isArray(second) ? (second as unknown[]) : ((first as { values?: unknown[] }).values ?? [])
    if (text !== undefined) statements.push({ text, values })
    return (original as (...all: unknown[]) => unknown).apply(this, args)
  }
  pg.Client.prototype.query = noting as typeof original
  try {
    return { answer: await work(), statements }
  } finally {
    pg.Client.prototype.query = original
  }
}

/** Opens a server whose intervals never run, so that no background task sends statements during a recording. */
export const withoutIntervals = async <T>(open: () => Promise<T>): Promise<T> => {
  const original = globalThis.setInterval
  globalThis.setInterval = () => original(() => undefined, 2 ** 31 - 1)
  try {
    return await open()
  } finally {
    globalThis.setInterval = original
  }
}

/** True if a statement only reads and can be run again. */
export const reads = ({ text }: Statement): boolean => /^\s*(select|with|\()/i.test(text) && !/\bfor (no key )?(update|share)\b/i.test(text)

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Node[]
}

/**
 * Runs a statement again, as a prepared statement, and returns the work that the database counted. Without `prepare`,
 * `explain` would plan with the values of this request, and the API runs a plan that fits all values.
 */
export const workOf = async (client: pg.Client, { text, values }: Statement): Promise<Work> => {
  await client.query(`prepare measured as ${text}`)
  const inputs = values.length === 0 ? '' : `(${values.map((value) => literal(client, value)).join(', ')})`
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Node }] }>(
    `explain (analyze, buffers, timing off, summary off, format json) execute measured${inputs}`,
  )
  await client.query('deallocate measured')
  const root = rows[0]!['QUERY PLAN'][0].Plan
  const nodes = below(root)
  const scans = nodes.filter((node) => node['Relation Name'] !== undefined || node['Node Type'] === 'Bitmap Index Scan')
  return {
    looked: scans.reduce((sum, node) => sum + lookedAt(node), 0),
    sorted: nodes.filter((node) => node['Node Type'].endsWith('Sort')).reduce((most, { Plans }) => Math.max(most, handed(Plans![0]!)), 0),
    blocks: root['Shared Hit Blocks'] + root['Shared Read Blocks'],
    swept: scans.filter((node) => node['Node Type'].endsWith('Seq Scan') && lookedAt(node) > 0).map((node) => node['Relation Name']!),
    tables: [...new Set(scans.flatMap((node) => node['Relation Name'] ?? []))],
    counts: /^\s*select (\$1::uuid as tenant, )?(\(\s*select )?(count|coalesce\(sum)\(/.test(text),
    summary: scans
      .filter((node) => lookedAt(node) > 0)
      .map((node) => `${node['Node Type']} ${node['Index Name'] ?? node['Relation Name']} ${lookedAt(node)}`)
      .join(', '),
  }
}

const { prepareValue } = createRequire(import.meta.url)('pg/lib/utils') as { prepareValue: (value: unknown) => string | null }
const literal = (client: pg.Client, value: unknown): string => {
  const text = prepareValue(value)
  return text === null ? 'null' : client.escapeLiteral(text)
}

const below = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(below)]
/** Returns the rows that a node produced over all its loops. PostgreSQL reports the mean per loop. */
const handed = (node: Node) => Math.round(node['Actual Rows'] * node['Actual Loops'])
const lookedAt = (node: Node) =>
  Math.round((node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)) * node['Actual Loops'])
