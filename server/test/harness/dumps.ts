import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { readNotes, searchForSecrets } from './secrets.ts'

interface Note {
  readonly bytes: number
  /** The column in which a secret was found, and the first characters of the secret. */
  readonly found: readonly (readonly [column: string, secret: string])[]
  readonly failed?: string
}

/**
 * Prints every row in the text form of `pg_dump --data-only`. Uses psql, because pg_dump refuses servers that are newer
 * than itself. The test that kills PostgreSQL starts such a server.
 */
const script = String.raw`
set lock_timeout = '10s';
select format('select %L', format('COPY %I.%I (%s) FROM stdin;', n.nspname, c.relname, columns)),
       format('copy %I.%I (%s) to stdout', n.nspname, c.relname, columns)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral (
  select string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
  from pg_attribute a
  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
) as listed
where c.relkind = 'r' and columns is not null and n.nspname <> 'information_schema' and n.nspname not like 'pg\_%'
order by n.nspname, c.relname \gexec
`

/**
 * Dumps a database as a backup would, and searches the dump for secrets. Findings are written to the run's folder and fail
 * the run at its end. The test itself has already passed when it drops its database.
 */
export const searchDump = async (url: string, secrets: Iterable<string>): Promise<void> => {
  if (process.env.BURSAR_TEST_SCRATCH === undefined) return
  const found = new Map<string, [string, string]>()
  const search = searchForSecrets(secrets)
  let columns: readonly string[] = []
  const look = (line: string) => {
    const [, table, list] = /^COPY (\S+) \((.*)\) FROM stdin;$/.exec(line) ?? []
    if (table !== undefined) columns = list!.split(', ').map((column) => `${table}.${column}`)
    for (const { form, secret } of search(line)) {
      const column = columns[line.slice(0, line.indexOf(form)).split('\t').length - 1] ?? 'the schema'
      found.set(`${column} ${secret}`, [column, secret])
    }
  }
  const { bytes, complaint } = await readLines('psql', ['-XqAt', '-v', 'ON_ERROR_STOP=1', url], script, look)
  // A test may have dropped its database itself.
  if (/database "[^"]*" does not exist/.test(complaint)) return
  const failed = complaint === '' ? {} : { failed: `psql: ${complaint}` }
  const note: Note = { bytes, found: [...found.values()], ...failed }
  appendFileSync(join(process.env.BURSAR_TEST_SCRATCH, `${process.pid}.dumps`), `${JSON.stringify(note)}\n`)
}

/** Returns how many secrets were found in the database dumps of a run. Lists one problem for each column that contains a secret. */
export const readDumps = (directory: string): { databases: number; bytes: number; found: number; problems: string[] } => {
  const notes = readNotes(directory, '.dumps').flatMap((text) =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Note),
  )
  const found = notes.flatMap((note) => note.found)
  const columns = Map.groupBy(found, ([column]) => column)
  return {
    databases: notes.length,
    bytes: notes.reduce((sum, { bytes }) => sum + bytes, 0),
    found: new Set(found.map(([, secret]) => secret)).size,
    problems: [
      ...[...columns].map(([column, own]) => `a secret in the dump: ${column} holds ${new Set(own.map(([, secret]) => secret)).size}, such as ${own[0]![1]}`),
      ...notes.flatMap(({ failed }) => failed ?? []),
    ],
  }
}

/** Runs a program on an input and passes its output on line by line. `complaint` holds its errors if it failed. */
const readLines = (program: string, args: readonly string[], input: string, look: (line: string) => void): Promise<{ bytes: number; complaint: string }> =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'pipe' })
    child.stdin.end(input)
    let rest: string[] = []
    let bytes = 0
    let errors = ''
    child.stdout.setEncoding('latin1')
    child.stdout.on('data', (chunk: string) => {
      bytes += chunk.length
      const lines = chunk.split('\n')
      rest.push(lines[0]!)
      if (lines.length === 1) return
      look(rest.join(''))
      for (const line of lines.slice(1, -1)) look(line)
      rest = [lines.at(-1)!]
    })
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
    child.once('error', reject)
    child.once('close', (status) => {
      look(rest.join(''))
      resolve({ bytes, complaint: status === 0 ? '' : errors || `exit ${status}` })
    })
  })
