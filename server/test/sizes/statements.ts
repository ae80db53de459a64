import pg from 'pg'

/** A statement as it went to the database, with its values. */
export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** What a statement had to do, as the database itself counted while it ran. */
export interface Work {
  /** Rows of tables and entries of indexes that were looked at, whether or not they were of use. */
  readonly looked: number
  /** The most rows that went into one sort. */
  readonly sorted: number
  /** Blocks of eight kilobytes that were visited: an index that is read from end to end shows here, and in no count of rows. */
  readonly blocks: number
  /** Tables that were read from end to end. */
  readonly swept: readonly string[]
  /** Every table that was read. */
  readonly tables: readonly string[]
  /** Whether it only counts: what it counts, it has to look at. */
  readonly counts: boolean
  /** The plan in a few words, for whoever has to mend it. */
  readonly summary: string
}

/** Notes every statement that this process sends while the work goes on. The API must run in this process, and nothing beside it. */
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

/** Whether a statement only reads, and can be run again. */
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

/** Runs a statement once more, and has the database count what it does. */
export const workOf = async (client: pg.Client, { text, values }: Statement): Promise<Work> => {
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Node }] }>(`explain (analyze, buffers, timing off, summary off, format json) ${text}`, [
    ...values,
  ])
  const root = rows[0]!['QUERY PLAN'][0].Plan
  const nodes = below(root)
  const scans = nodes.filter((node) => node['Relation Name'] !== undefined || node['Node Type'] === 'Bitmap Index Scan')
  return {
    looked: scans.reduce((sum, node) => sum + lookedAt(node), 0),
    sorted: nodes.filter((node) => node['Node Type'].endsWith('Sort')).reduce((most, { Plans }) => Math.max(most, handed(Plans![0]!)), 0),
    blocks: root['Shared Hit Blocks'] + root['Shared Read Blocks'],
    swept: scans.filter((node) => node['Node Type'].endsWith('Seq Scan') && lookedAt(node) > 0).map((node) => node['Relation Name']!),
    tables: [...new Set(scans.flatMap((node) => node['Relation Name'] ?? []))],
    counts: /^\s*select (\$1::uuid as tenant, )?(count|coalesce\(sum)\(/.test(text),
    summary: scans
      .filter((node) => lookedAt(node) > 0)
      .map((node) => `${node['Node Type']} ${node['Index Name'] ?? node['Relation Name']} ${lookedAt(node)}`)
      .join(', '),
  }
}

const below = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(below)]
/** Rows that came out of a node, over all the times it ran. The database tells the mean of them. */
const handed = (node: Node) => Math.round(node['Actual Rows'] * node['Actual Loops'])
const lookedAt = (node: Node) =>
  Math.round((node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)) * node['Actual Loops'])
