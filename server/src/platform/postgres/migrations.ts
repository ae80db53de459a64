import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { sql } from 'kysely'
import pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import type { Environment, Secret } from '../../kernel/secrets.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { migrateQueue } from '../jobs/queue.ts'
import { roles, type Db } from './postgres.ts'

export interface Migration {
  readonly version: string
  readonly text: string
  readonly checksum: string
}

const folder = new URL('../../../migrations/', import.meta.url)

let known: Migration[] | undefined

/** The numbered files, in order. A file never changes once it has been applied anywhere: the checksum says so. */
export const migrations = (): Migration[] => (known ??= readMigrations())

const readMigrations = (): Migration[] =>
  readdirSync(folder)
    .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
    .toSorted()
    .map((name) => {
      const text = readFileSync(new URL(name, folder), 'utf8')
      return { version: name.replace(/\.sql$/, ''), text, checksum: hash('sha256', text) }
    })

/** A database that cannot be served from: wrong environment, or migrations missing, unknown or altered. */
export class DatabaseRefused extends Error {}

/**
 * Brings the database to this version of the software, and stamps a new one with its environment. `login` is whom the
 * serving processes connect as: it may take their roles, and nothing else. Running it again changes nothing.
 */
export const migrate = async (url: Secret, environment: Environment, { clock, log, login }: { clock: Clock; log: Log; login?: Secret }): Promise<string[]> => {
  const client = new pg.Client({ connectionString: url.reveal(), application_name: 'bursar_migrate' })
  await client.connect()
  try {
    // Protects the whole run: two deployments that start at once must not migrate side by side.
    await client.query(`select pg_advisory_lock(hashtextextended('bursar.migrate', 0))`)
    await makeRoles(client)
    await client.query(readFileSync(new URL('schemas.sql', folder), 'utf8'))
    const user = login && decodeURIComponent(new URL(login.reveal()).username)
    if (user && user !== client.user) await client.query(`grant ${roles.join(', ')} to ${client.escapeIdentifier(user)}`)
    // The queue's owner may make its schema, and only now.
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
    for (const migration of all.filter(({ version }) => !rows.some((row) => row.version === version))) {
      await client.query('begin')
      await client.query(migration.text)
      await client.query('insert into schema_migrations values ($1, $2, $3)', [migration.version, migration.checksum, clock.wall()])
      await client.query('commit')
      applied.push(migration.version)
      log.info('migration_applied', { version: migration.version })
    }
    // Filled and never stamped: a restore that did not come to its end. Nobody knows what was charged since.
    const filled = await client.query('select 1 where not exists (select from deployment) and exists (select from organizations)')
    if (filled.rows.length > 0)
      throw new DatabaseRefused('this database was filled and never stamped: a restore did not come to its end. Drop it, and restore into an empty one')
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

/** Makes the roles that serve, where they are missing: they belong to the whole server, and no backup of a database holds them. */
export const makeRoles = (client: pg.Client) => client.query(readFileSync(new URL('roles.sql', folder), 'utf8'))

declare module './postgres.ts' {
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

/** What keeps this software from serving this database; nothing when they fit. */
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
  `this database belongs to ${stamped ?? 'nobody'}, and this process runs as ${environment}: they share nothing`

/** Reads the stamp of the database and refuses one that belongs to the other environment, or that is held after it was restored. */
export const checkStamp = async (db: Db, environment: Environment): Promise<{ deployment_id: string }> => {
  const stamp = await readStamp(db)
  if (stamp?.environment !== environment) throw new DatabaseRefused(foreign(stamp?.environment, environment))
  if (stamp.held_at !== null) throw new DatabaseRefused(`${heldSince(stamp.restored_to)}. Stop whatever ran on the old one, then run: bursar restore --release`)
  return { deployment_id: stamp.id }
}

/** The stamp as it stands. All of its columns: a database that is not at this version yet lacks some. */
export const readStamp = async (db: Db) => {
  const stamp = await db.q.selectFrom('deployment').selectAll().executeTakeFirst()
  return stamp && { ...stamp, restored_to: stamp.restored_to ?? null, held_at: stamp.held_at ?? null }
}

export const heldSince = (moment: Date | null): string =>
  `this database was restored to ${moment?.toISOString() ?? 'an earlier moment'}, and is held until it is known what was charged after that`

/** In production, refuses to serve as somebody who could do everything: what the roles withhold must stay withheld. */
export const checkLogin = async (db: Db, environment: Environment): Promise<void> => {
  if (environment !== 'production') return
  const { rows } = await sql<{ powerful: boolean }>`
    select rolsuper or pg_has_role(session_user, (select relowner from pg_class where oid = 'deployment'::regclass), 'member') as powerful
    from pg_roles where rolname = session_user`.execute(db.q)
  if (rows[0]?.powerful !== false)
    throw new DatabaseRefused(
      'in production the login of BURSAR_DATABASE_URL must not own the tables: give it a login of its own, put the owner into BURSAR_DATABASE_OWNER_URL, and run bursar migrate',
    )
}

/** Creates the database that the address names, where it is missing. True when it was. */
export const createDatabase = (url: Secret): Promise<boolean> =>
  besides(url, async (client, name) => {
    const { rows } = await client.query('select 1 from pg_database where datname = $1', [name])
    if (rows.length === 0) await client.query(`create database ${client.escapeIdentifier(name)}`)
    return rows.length === 0
  })

/** Works on a database from outside, where it need not exist. */
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

/** What lives in a database: a deployment of ours, something else, or nobody – also where there is no such database. */
export const inhabitant = async (url: Secret): Promise<{ deployment_id: string } | 'nobody' | 'somebody else'> => {
  const client = new pg.Client({ connectionString: url.reveal() })
  try {
    await client.connect()
    const { rows } = await client.query<{ ours: boolean; tables: boolean }>(
      `select to_regclass('public.deployment') is not null and to_regclass('public.schema_migrations') is not null as ours,
         exists (select from pg_tables where schemaname not in ('pg_catalog', 'information_schema')) as tables`,
    )
    if (!rows[0]!.ours) return rows[0]!.tables ? 'somebody else' : 'nobody'
    const stamp = await client.query<{ id: string }>('select id from public.deployment')
    return stamp.rows[0] ? { deployment_id: stamp.rows[0].id } : 'nobody'
  } catch (error) {
    if ((error as { code?: string }).code === '3D000') return 'nobody'
    throw error
  } finally {
    await client.end()
  }
}

/** Drops the database that the address names, with everything in it. */
export const dropDatabase = (url: Secret): Promise<void> =>
  besides(url, async (client, name) => {
    await client.query(`drop database if exists ${client.escapeIdentifier(name)} with (force)`)
  })

/** Opens or closes a door of the whole deployment. Done as the owner of the database: the serving roles cannot. */
export const setSwitch = async (url: Secret, environment: Environment, column: 'sign_up_open' | 'organization_creation_open', open: boolean): Promise<void> => {
  const client = new pg.Client({ connectionString: url.reveal() })
  await client.connect()
  try {
    const { rows } = await client.query<{ environment: string }>('select environment from deployment')
    if (rows[0]?.environment !== environment) throw new DatabaseRefused(foreign(rows[0]?.environment, environment))
    await client.query(`update deployment set ${client.escapeIdentifier(column)} = $1`, [open])
  } finally {
    await client.end()
  }
}

/** The deployment's switches, set by the operator. */
export const readSwitches = (db: Db) => db.q.selectFrom('deployment').select(['sign_up_open', 'organization_creation_open']).executeTakeFirstOrThrow()

export const reachable = async (db: Db): Promise<boolean> => {
  try {
    await sql`select 1`.execute(db.q)
    return true
  } catch {
    return false
  }
}
