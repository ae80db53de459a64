import { createHash } from 'node:crypto'
import { spawn } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { z } from 'zod'
import { bursar } from '../../kernel/command-name.ts'
import type { Environment, Secret } from '../../kernel/secrets.ts'
import type { Clock } from '../clock.ts'
import { DatabaseRefused, makeRoles, migrations } from '../migrations/migrations.ts'

/**
 * The manifest of a backup. It names the deployment, and a restored database is compared with it. A backup without a
 * manifest is incomplete.
 */
const Manifest = z.object({
  format: z.literal(1),
  made_at: z.iso.datetime(),
  /** The database's time just before the snapshot. The backup has everything that was committed by then. */
  snapshot_at: z.iso.datetime(),
  environment: z.enum(['sandbox', 'production']),
  deployment: z.looseObject({ id: z.uuid(), environment: z.enum(['sandbox', 'production']) }),
  migrations: z.array(z.object({ version: z.string(), checksum: z.string() })).min(1),
  server_version: z.int(),
  owner: z.string(),
  rows: z.record(z.string(), z.int()),
  /** Sums of the ledger by account and currency. */
  ledger: z.record(z.string(), z.string()),
  last_event_position: z.int(),
  dump: z.object({ bytes: z.int(), sha256: z.string() }),
  /** Where the deployment stores files. The backup includes the files only if this is a folder. */
  storage: z
    .union([
      z.object({ kind: z.literal('folder'), files: z.int(), bytes: z.int() }),
      z.object({ kind: z.literal('store'), bucket: z.string(), public_bucket: z.string(), root: z.string() }),
    ])
    .nullable(),
})
export type Manifest = z.infer<typeof Manifest>

const dumpName = 'database.dump'
const manifestName = 'manifest.json'
export const filesName = 'files'

export interface BackupTools {
  readonly clock: Clock
  /** The `PATH` in which `pg_dump` and `pg_restore` are looked up. */
  readonly path: string
  /** Called with the number of processed tables and the number of all tables. */
  readonly told: (done: number, all: number) => void
}

/**
 * Dumps a snapshot of the whole database into a folder, while the service keeps writing. The manifest data is read in
 * the same snapshot. The caller writes the manifest last; a folder without one is not a backup.
 */
export const dump = async (url: Secret, folder: string, deps: BackupTools): Promise<Omit<Manifest, 'storage'>> => {
  await mkdir(folder, { recursive: true })
  if ((await readdir(folder)).length > 0) throw new DatabaseRefused(`${folder} is not empty. A backup needs a new or empty folder`)
  // Also restricts the mode of an existing folder, because the backup contains all personal data.
  await chmod(folder, 0o700)
  const client = await connect(url)
  try {
    const server_version = await checkProgram(client, 'pg_dump', deps)
    await client.query('begin isolation level repeatable read read only')
    const { rows: moment } = await client.query<{ snapshot: string; at: Date }>(
      `select pg_export_snapshot() as snapshot, date_trunc('milliseconds', now()) as at`,
    )
    const { snapshot, at } = moment[0]!
    const tables = await tablesOf(client)
    let seen = 0
    const file = join(folder, dumpName)
    const [facts] = await Promise.all([
      readFacts(client, tables),
      run('pg_dump', ['--format=custom', '--verbose', `--snapshot=${snapshot}`, `--file=${file}`], { url, path: deps.path }, (line) => {
        if (line.includes('dumping contents of table')) deps.told(Math.min(++seen, tables.length), tables.length)
      }),
    ])
    await client.query('commit')
    const [stamp] = facts.deployment
    if (!stamp) throw new DatabaseRefused(`this database was never migrated, so there is nothing to back up. Run: ${bursar} migrate`)
    return {
      format: 1,
      made_at: deps.clock.wall().toISOString(),
      snapshot_at: at.toISOString(),
      environment: stamp.environment,
      deployment: stamp,
      migrations: facts.migrations,
      server_version,
      owner: facts.owner,
      rows: facts.rows,
      ledger: facts.ledger,
      last_event_position: facts.last_event_position,
      dump: { bytes: (await stat(file)).size, sha256: await digest(file) },
    }
  } finally {
    await client.end()
  }
}

export const writeManifest = (folder: string, manifest: Manifest): Promise<void> =>
  writeFile(join(folder, manifestName), `${JSON.stringify(Manifest.parse(manifest), null, 2)}\n`, { mode: 0o600, flag: 'wx' })

/** Reads the manifest of a backup, and verifies the checksum of its dump. */
export const readManifest = async (folder: string): Promise<Manifest> => {
  const text = await readFile(join(folder, manifestName), 'utf8').catch(() => {
    throw new DatabaseRefused(`${folder} is not a complete backup: it has no ${manifestName}`)
  })
  const manifest = Manifest.safeParse(JSON.parse(text))
  if (!manifest.success)
    throw new DatabaseRefused(`${join(folder, manifestName)} was written by another version. Restore with the version that made the backup`)
  if ((await digest(join(folder, dumpName))) !== manifest.data.dump.sha256)
    throw new DatabaseRefused(`${join(folder, dumpName)} is damaged: its checksum differs from the manifest. Use another backup`)
  return manifest.data
}

/**
 * Restores a backup into an empty database and verifies the database against the manifest. The restored database is on
 * hold: no process serves it before `unhold`. The stamp is restored last, because no process serves a database without
 * a stamp. `first` must succeed before the database is changed.
 */
export const restoreBackup = async (
  url: Secret,
  folder: string,
  environment: Environment,
  { first, ...deps }: BackupTools & { readonly first: (manifest: Manifest) => Promise<void> },
): Promise<Manifest> => {
  const manifest = await readManifest(folder)
  if (manifest.environment !== environment)
    throw new DatabaseRefused(`this is a backup of ${manifest.environment}, but this process runs as ${environment}. Restore it into the same environment`)
  const known = migrations()
  const newer = manifest.migrations.find(({ version, checksum }) => !known.some((one) => one.version === version && one.checksum === checksum))
  if (newer)
    throw new DatabaseRefused(`the backup was made by another version of the software, which has the migration ${newer.version}. Restore it with that version`)
  const client = await connect(url)
  try {
    await checkProgram(client, 'pg_restore', deps)
    await checkTarget(client, manifest)
    await first(manifest)
    await makeRoles(client)
    // pg_restore needs these rights to restore the queue's schema and one function under their owner. The rights are revoked afterwards.
    const database = client.escapeIdentifier(client.database!)
    await client.query(`grant create on database ${database} to bursar_jobs; grant create on schema public to bursar_jobs`)
    try {
      await restoreDump(url, join(folder, dumpName), Object.keys(manifest.rows).length, deps)
    } finally {
      await client.query(`revoke create on database ${database} from bursar_jobs; revoke create on schema public from bursar_jobs`)
    }
    await client.query('begin isolation level repeatable read')
    // Backups of older versions lack these columns, so they are added. The restored database is then on hold too.
    await client.query('alter table deployment add column if not exists restored_to timestamptz(3), add column if not exists held_at timestamptz(3)')
    await client.query(
      `insert into deployment select (jsonb_populate_record(null::deployment, $1::jsonb || jsonb_build_object('restored_to', $2::timestamptz, 'held_at', $3::timestamptz))).*`,
      [JSON.stringify(manifest.deployment), manifest.snapshot_at, deps.clock.wall()],
    )
    const different = await compare(client, manifest)
    if (different.length > 0) throw new DatabaseRefused(`the restored data differs from the backup, so the database stays unusable: ${different.join('; ')}`)
    await client.query('commit')
    await client.query('analyze')
    return manifest
  } finally {
    await client.end()
  }
}

/** Ends the hold on a restored database, so that processes may serve it. */
export const unhold = async (url: Secret, deployment_id: string): Promise<void> => {
  const client = await connect(url)
  try {
    // Ends the hold only for the deployment whose charges were checked.
    const { rowCount } = await client.query('update deployment set held_at = null where id = $1 and held_at is not null', [deployment_id])
    if (rowCount !== 1) throw new DatabaseRefused('the URLs of owner and server point to different databases, or another process has released the database')
  } finally {
    await client.end()
  }
}

const connect = async (url: Secret): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url.reveal(), application_name: 'bursar_backup', options: '-c timezone=UTC -c search_path=public' })
  await client.connect()
  return client
}

const tablesOf = async (client: pg.Client): Promise<string[]> => {
  const { rows } = await client.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_%' order by 1`,
  )
  return rows.map(({ name }) => name)
}

/** Reads the manifest data in the snapshot of this connection. */
const readFacts = async (client: pg.Client, tables: readonly string[]) => {
  const rows: Record<string, number> = {}
  for (const table of tables) rows[table] = Number((await client.query<{ count: string }>(`select count(*) from ${table}`)).rows[0]!.count)
  const sums = await client.query<{ account: string; amount: string }>(
    `select account || ' ' || currency as account, sum(amount)::text as amount from ledger_entries group by 1 order by 1`,
  )
  const events = await client.query<{ position: string }>('select coalesce(max(position), 0) as position from events')
  const owner = await client.query<{ owner: string }>(`select pg_get_userbyid(relowner) as owner from pg_class where oid = 'deployment'::regclass`)
  return {
    rows,
    ledger: Object.fromEntries(sums.rows.map(({ account, amount }) => [account, amount])),
    last_event_position: Number(events.rows[0]!.position),
    owner: owner.rows[0]!.owner,
    migrations: (await client.query<Manifest['migrations'][number]>('select version, checksum from schema_migrations order by 1')).rows,
    deployment: (await client.query<{ row: Manifest['deployment'] }>('select to_jsonb(d) as row from deployment d')).rows.map(({ row }) => row),
  }
}

/** Lists the differences between a restored database and its manifest, and inconsistencies within the database. Empty if there are none. */
const compare = async (client: pg.Client, manifest: Manifest): Promise<string[]> => {
  const facts = await readFacts(client, Object.keys(manifest.rows))
  const { rows: unbalanced } = await client.query<{ count: string }>(
    `select count(*) from (select from ledger_entries group by organization_id, transaction_id, currency having sum(amount) <> 0) t`,
  )
  const { rows: unchecked } = await client.query<{ name: string }>(`select conname as name from pg_constraint where not convalidated`)
  return [
    ...Object.entries(manifest.rows)
      .filter(([table, count]) => facts.rows[table] !== count)
      .map(([table, count]) => `${table} has ${facts.rows[table]} rows instead of ${count}`),
    ...[...new Set([...Object.keys(manifest.ledger), ...Object.keys(facts.ledger)])]
      .filter((account) => manifest.ledger[account] !== facts.ledger[account])
      .map((account) => `the ledger account ${account} has ${facts.ledger[account] ?? 'nothing'} instead of ${manifest.ledger[account] ?? 'nothing'}`),
    ...(unbalanced[0]!.count === '0' ? [] : [`${unbalanced[0]!.count} ledger transactions do not sum to zero`]),
    ...unchecked.map(({ name }) => `the constraint ${name} is not validated`),
  ]
}

/**
 * Rejects a target database that is not empty. The login must be the owner of the backed-up tables, or a superuser on a
 * server where that owner exists.
 */
const checkTarget = async (client: pg.Client, { owner }: Manifest): Promise<void> => {
  const tables = await tablesOf(client)
  if (tables.length > 0)
    throw new DatabaseRefused(`a backup is restored into an empty database, but this one has ${tables.length} tables. Name a new one, with --create`)
  const { rows } = await client.query<{ me: string; able: boolean }>(
    `select current_user as me, rolsuper and exists (select from pg_roles where rolname = $1) as able from pg_roles where rolname = current_user`,
    [owner],
  )
  if (rows[0]!.me !== owner && !rows[0]!.able)
    throw new DatabaseRefused(`the tables of this backup belong to ${owner}. Create that login on this server, and restore as ${owner}`)
}

/** Restores everything except the stamp, in one transaction. If the restore fails, the database stays empty. */
const restoreDump = async (url: Secret, file: string, tables: number, { path, told }: BackupTools): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-restore-'))
  try {
    const contents = join(folder, 'contents')
    await run('pg_restore', ['--list', `--file=${contents}`, file], { url, path }, () => undefined)
    const lines = (await readFile(contents, 'utf8')).split('\n').filter((line) => !/ TABLE DATA public deployment /.test(line))
    await writeFile(contents, lines.join('\n'))
    let seen = 0
    const options = ['--exit-on-error', '--single-transaction', '--no-comments', '--verbose', `--use-list=${contents}`, `--dbname=${nameOf(url)}`]
    await run('pg_restore', [...options, file], { url, path }, (line) => {
      if (line.includes('processing data for table')) told(Math.min(++seen, tables), tables)
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Checks that the program is installed and not older than the server. An older one fails, or omits unknown objects. */
const checkProgram = async (client: pg.Client, program: 'pg_dump' | 'pg_restore', { path }: BackupTools): Promise<number> => {
  const { rows } = await client.query<{ number: number }>(`select current_setting('server_version_num')::int as number`)
  const server = Math.floor(rows[0]!.number / 10_000)
  let said = ''
  await run(program, ['--version'], { path }, (line) => (said += line))
  const version = Number(/\b(\d{1,4})(\.\d|devel|beta\d|rc\d)/.exec(said)?.[1] ?? 0)
  if (version < server)
    throw new DatabaseRefused(`${program} is of PostgreSQL ${version}, but the server is ${server}. Install the client programs of ${server}`)
  return server
}

const nameOf = (url: Secret): string => decodeURIComponent(new URL(url.reveal()).pathname.slice(1))

/** Returns the connection settings for PostgreSQL's programs as environment variables, because other users can see arguments. */
const libpq = (url: Secret): Record<string, string> => {
  const { hostname, port, username, password, searchParams } = new URL(url.reveal())
  const asked = Object.fromEntries(
    ['sslmode', 'sslrootcert', 'sslcert', 'sslkey'].flatMap((name) => (searchParams.has(name) ? [[`PG${name.toUpperCase()}`, searchParams.get(name)!]] : [])),
  )
  return {
    PGHOST: searchParams.get('host') ?? hostname.replaceAll(/[[\]]/g, ''),
    ...(port === '' ? {} : { PGPORT: port }),
    ...(username === '' ? {} : { PGUSER: decodeURIComponent(username) }),
    ...(password === '' ? {} : { PGPASSWORD: decodeURIComponent(password) }),
    PGDATABASE: nameOf(url),
    ...asked,
  }
}

/** Runs a PostgreSQL program and passes on its output by line. If it fails, the last lines are the error message. */
const run = async (program: string, args: readonly string[], { url, path }: { url?: Secret; path: string }, heard: (line: string) => void): Promise<void> => {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: path, LC_ALL: 'C', ...(url ? libpq(url) : {}) } })
  let last: string[] = []
  let rest = ''
  const take = (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n')
    rest = lines.pop()!
    for (const line of lines) heard(line)
    last = [...last, ...lines].slice(-5)
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  await new Promise<void>((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'ENOENT'
          ? new DatabaseRefused(`${program} is not installed: it comes with PostgreSQL's client programs (Debian: apt-get install postgresql-client)`)
          : error,
      ),
    )
    child.once('close', (code) => (code === 0 ? resolve() : reject(new DatabaseRefused(`${program} failed:\n${[...last, rest].join('\n').trim()}`))))
  })
}

export const digest = async (file: string): Promise<string> => {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
