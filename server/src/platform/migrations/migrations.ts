import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { bursar } from '../../kernel/command-name.ts'
import { newId } from '../../kernel/ids.ts'
import type { Environment, Secret } from '../../kernel/secrets.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { migrateQueue } from '../jobs/queue.ts'
import { parserOf, roles, runTransaction, type Db, type Tables, type Transact, type Tx } from '../postgres/postgres.ts'

export interface Migration {
  readonly version: string
  readonly text: string
  readonly checksum: string
}

const folder = new URL('../../../migrations/', import.meta.url)

let known: Migration[] | undefined

/** Returns the numbered migration files, in order. An applied file must never change; its checksum detects changes. */
export const migrations = (): Migration[] => (known ??= readMigrations())

const readMigrations = (): Migration[] =>
  readdirSync(folder)
    .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
    .toSorted()
    .map((name) => {
      const text = readFileSync(new URL(name, folder), 'utf8')
      return { version: name.replace(/\.sql$/, ''), text, checksum: hash('sha256', text) }
    })

/** A database that this software cannot serve: wrong environment, or missing, unknown or changed migrations. */
export class DatabaseRefused extends Error {}

/**
 * Migrates the database to this version of the software, and stamps a new one with its environment. `login` is the
 * login of the serving processes. The login is granted the serving roles and nothing else. Idempotent.
 */
export const migrate = async (
  url: Secret,
  environment: Environment,
  { clock, log, login, told }: { clock: Clock; log: Log; login?: Secret; told?: (done: number, of: number) => void },
): Promise<string[]> => {
  const client = new pg.Client({ connectionString: url.reveal(), application_name: 'bursar_migrate' })
  await client.connect()
  try {
    // Locks the whole run, because two processes that start at the same time must not migrate concurrently.
    await client.query(`select pg_advisory_lock(hashtextextended('bursar.migrate', 0))`)
    await makeRoles(client)
    await client.query(readFileSync(new URL('schemas.sql', folder), 'utf8'))
    const user = login && decodeURIComponent(new URL(login.reveal()).username)
    if (user && user !== client.user) await allow(client, user)
    // The role that owns the job queue may create its schema, but only during this step.
    const database = client.escapeIdentifier(client.database!)
    await client.query(`grant create on database ${database} to bursar_jobs`)
    try {
      await migrateQueue(url, log)
    } finally {
      await client.query(`revoke create on database ${database} from bursar_jobs`)
    }
    await client.query('create table if not exists schema_migrations (version text primary key, checksum text not null, applied_at timestamptz not null)')
    await client.query('grant select on schema_migrations to bursar_api, bursar_worker')
    const all = migrations()
    const { rows } = await client.query<{ version: string; checksum: string }>('select version, checksum from schema_migrations')
    const problems = compare(all, rows).filter((problem) => !problem.startsWith('not applied'))
    if (problems.length > 0) throw new DatabaseRefused(problems.join('; '))
    const applied: string[] = []
    const missing = all.filter(({ version }) => !rows.some((row) => row.version === version))
    for (const migration of missing) {
      told?.(applied.length, missing.length)
      await client.query('begin')
      await client.query(migration.text)
      await client.query('insert into schema_migrations values ($1, $2, $3)', [migration.version, migration.checksum, clock.wall()])
      await client.query('commit')
      applied.push(migration.version)
      log.info('migration_applied', { version: migration.version })
    }
    // A database with data but without a stamp comes from an interrupted restore. Its charges since the backup are
    // unknown, so it is refused.
    const filled = await client.query('select 1 where not exists (select from deployment) and exists (select from organizations)')
    if (filled.rows.length > 0)
      throw new DatabaseRefused('this database has data but no environment, because a restore was interrupted. Drop it, and restore into an empty one')
    await client.query('insert into deployment (id, environment, stamped_at) values ($1, $2, $3) on conflict do nothing', [
      newId(clock.wall()),
      environment,
      clock.wall(),
    ])
    const stamp = await client.query<{ environment: string }>('select environment from deployment')
    if (stamp.rows[0]?.environment !== environment) throw new DatabaseRefused(foreign(stamp.rows[0]?.environment, environment))
    return applied
  } finally {
    await client.end()
  }
}

/**
 * Grants the missing serving roles to the login. An owner without CREATEROLE cannot grant roles, so an administrator
 * must grant them before.
 */
const allow = async (client: pg.Client, login: string): Promise<void> => {
  const { rows } = await client.query<{ role: string }>(`select role from unnest($1::text[]) role where not pg_has_role($2::name, role, 'member')`, [
    roles,
    login,
  ])
  if (rows.length > 0) await client.query(`grant ${rows.map(({ role }) => role).join(', ')} to ${client.escapeIdentifier(login)}`)
}

/** Creates the missing serving roles. Roles belong to the PostgreSQL server, so a backup of one database does not contain them. */
export const makeRoles = (client: pg.Client) => client.query(readFileSync(new URL('roles.sql', folder), 'utf8'))

declare module '../postgres/postgres.ts' {
  interface Tables {
    deployment: {
      singleton: boolean
      id: string
      environment: Environment
      stamped_at: Date
      sign_up_open: boolean
      organization_creation_open: boolean
      restored_to: Date | null
      held_at: Date | null
    }
    schema_migrations: { version: string; checksum: string; applied_at: Date }
  }
}

/** Lists the reasons why this software cannot serve this database. Empty if there are none. */
export const unfit = async (db: Db): Promise<string[]> =>
  compare(migrations(), await db.q.selectFrom('schema_migrations').select(['version', 'checksum']).execute())

const compare = (known: readonly Migration[], applied: readonly { version: string; checksum: string }[]): string[] => [
  ...known.filter(({ version }) => !applied.some((row) => row.version === version)).map(({ version }) => `not applied: ${version}`),
  ...applied.filter(({ version }) => !known.some((one) => one.version === version)).map(({ version }) => `unknown to this version of the software: ${version}`),
  ...known
    .filter((one) => applied.some((row) => row.version === one.version && row.checksum !== one.checksum))
    .map(({ version }) => `changed after it was applied: ${version}`),
]

export const foreign = (stamped: string | undefined, environment: string) =>
  `this database belongs to ${stamped ?? 'no environment'}, but this process runs as ${environment}. Use another database, or correct BURSAR_ENV`

/** Reads the stamp of the database. Rejects a database of the other environment, and a restored database that is on hold. */
export const checkStamp = async (db: Db, environment: Environment): Promise<{ deployment_id: string }> => {
  const stamp = await readStamp(db)
  if (stamp?.environment !== environment) throw new DatabaseRefused(foreign(stamp?.environment, environment))
  if (stamp.held_at !== null)
    throw new DatabaseRefused(`${heldSince(stamp.restored_to)}. Stop every process on the old database, then run: ${bursar} restore --release`)
  return { deployment_id: stamp.id }
}

/** Reads the stamp. Selects `*`, because naming a column would fail if an older version of the database lacks it. */
export const readStamp = async (db: Db) => {
  const stamp = await db.q.selectFrom('deployment').selectAll().executeTakeFirst()
  return stamp && { ...stamp, restored_to: stamp.restored_to ?? null, held_at: stamp.held_at ?? null }
}

export const heldSince = (moment: Date | null): string =>
  `this database was restored to ${moment?.toISOString() ?? 'an earlier moment'}, and is held until later charges are checked`

/** In production, rejects a login that owns the tables or is a superuser. Such a login could bypass the privileges of the serving roles. */
export const checkLogin = async (db: Db, environment: Environment): Promise<void> => {
  if (environment !== 'production') return
  const { rows } = await sql<{ powerful: boolean }>`
    select rolsuper or pg_has_role(session_user, (select relowner from pg_class where oid = 'deployment'::regclass), 'member') as powerful
    from pg_roles where rolname = session_user`.execute(db.q)
  if (rows[0]?.powerful !== false)
    throw new DatabaseRefused(
      `in production the login of BURSAR_DATABASE_URL must not own the tables. Use a separate login, put the owner into BURSAR_DATABASE_OWNER_URL, and run ${bursar} migrate`,
    )
}

/** Creates the database that the URL names, if it does not exist. Returns true if it was created. */
export const createDatabase = (url: Secret): Promise<boolean> =>
  besides(url, async (client, name) => {
    const { rows } = await client.query('select 1 from pg_database where datname = $1', [name])
    if (rows.length === 0) await client.query(`create database ${client.escapeIdentifier(name)}`)
    return rows.length === 0
  })

/** Connects to the maintenance database of the server, so that the named database need not exist. */
const besides = async <T>(url: Secret, work: (client: pg.Client, name: string) => Promise<T>): Promise<T> => {
  const name = decodeURIComponent(new URL(url.reveal()).pathname.slice(1))
  const maintenance = new URL(url.reveal())
  maintenance.pathname = '/postgres'
  const client = new pg.Client({ connectionString: maintenance.href })
  await client.connect()
  try {
    return await work(client, name)
  } finally {
    await client.end()
  }
}

/** Returns the content of a database: a Bursar deployment, other data, or `empty` if it has no tables or missing. */
export const contentOf = async (url: Secret): Promise<{ deployment_id: string } | 'empty' | 'other data'> => {
  const client = new pg.Client({ connectionString: url.reveal() })
  try {
    await client.connect()
    const { rows } = await client.query<{ ours: boolean; tables: boolean }>(
      `select to_regclass('public.deployment') is not null and to_regclass('public.schema_migrations') is not null as ours,
         exists (select from pg_tables where schemaname not in ('pg_catalog', 'information_schema')) as tables`,
    )
    if (!rows[0]!.ours) return rows[0]!.tables ? 'other data' : 'empty'
    const stamp = await client.query<{ id: string }>('select id from public.deployment')
    return stamp.rows[0] ? { deployment_id: stamp.rows[0].id } : 'empty'
  } catch (error) {
    if ((error as { code?: string }).code === '3D000') return 'empty'
    throw error
  } finally {
    await client.end()
  }
}

/** Drops the database that the URL names, with all its data. */
export const dropDatabase = (url: Secret): Promise<void> =>
  besides(url, async (client, name) => {
    await client.query(`drop database if exists ${client.escapeIdentifier(name)} with (force)`)
  })

/** Changes a setting of the whole deployment, as the owner of the database. The serving roles lack the privilege. */
export const setSwitch = async (
  url: Secret,
  environment: Environment,
  column: 'sign_up_open' | 'organization_creation_open',
  open: boolean,
  { clock, record }: { clock: Clock; record: (tx: Tx) => Promise<void> },
): Promise<void> => {
  await withOwner(url, environment, clock, ({ transact }) =>
    transact(async (tx) => {
      await tx.q
        .updateTable('deployment')
        .set({ [column]: open })
        .execute()
      await record(tx)
    }),
  )
}

/** Runs work as the owner of the database, after checking its stamp. For commands that the serving roles may not run. */
export const withOwner = async <T>(
  url: Secret,
  environment: Environment,
  clock: Clock,
  work: (deps: { db: Db; transact: Transact }) => Promise<T>,
): Promise<T> => {
  const owner = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url.reveal(), max: 2, types: { getTypeParser: parserOf } }) }),
  })
  try {
    const db = { q: owner }
    const stamp = await readStamp(db)
    if (stamp?.environment !== environment) throw new DatabaseRefused(foreign(stamp?.environment, environment))
    return await work({ db, transact: (change) => runTransaction(owner, clock, change) })
  } finally {
    await owner.destroy()
  }
}

/** Reads the settings of the deployment that the operator controls. */
export const readSwitches = (db: Db) => db.q.selectFrom('deployment').select(['sign_up_open', 'organization_creation_open']).executeTakeFirstOrThrow()

/** Probes the database with one statement. Fails with the driver's error if it is unavailable. */
export const probe = async (db: Db): Promise<void> => {
  await sql`select 1`.execute(db.q)
}

/** Rejects a database that is not at this version of the software. */
export const checkFit = async (db: Db): Promise<void> => {
  const problems = await unfit(db)
  if (problems.length > 0) throw new DatabaseRefused(`The schema of the database does not match this version (${problems.join('; ')}). Run: ${bursar} migrate`)
}
