import { hash } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { Sealer, Secret, type Environment } from '../../src/kernel/secrets.ts'
import { ensureKeys } from '../../src/modules/identity/keys/keys.ts'
import { openPostgres } from '../../src/platform/postgres/postgres.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openLog } from '../../src/platform/log.ts'
import { migrate, migrations } from '../../src/platform/migrations/migrations.ts'
import { randomText } from '../../src/kernel/secrets.ts'
import { searchDump } from './dumps.ts'
import { issuedInRun, issuedSecrets, issuedSoFar } from './secrets.ts'

const server = process.env.BURSAR_TEST_SERVER ?? 'postgres://postgres@127.0.0.1:5432'

export const urlOf = (database: string): string => `${server}/${database}`

/** Runs statements on a new connection as the database owner, not as a role of the server. */
export const asOwner = async <T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client({ connectionString: urlOf(database) })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Returns `asOwner` for one database with up to two pooled connections. A new connection costs more than most queries. */
const keepOwner = (database: string) => {
  let idle: pg.Client[] = []
  const connect = async () => {
    const client = new pg.Client({ connectionString: urlOf(database) })
    // Removes an idle connection from the pool when the database server closes it.
    client.on('error', () => {
      idle = idle.filter((other) => other !== client)
    })
    await client.connect()
    return client
  }
  /** Resets a connection and returns it to the pool: settings, locks and open statements are discarded. Closes it if that fails. */
  const giveBack = async (client: pg.Client) => {
    try {
      if (idle.length >= 2) throw new Error('there are enough')
      await client.query('discard all')
      idle.push(client)
    } catch {
      await client.end()
    }
  }
  return {
    owner: async <T>(work: (client: pg.Client) => Promise<T>): Promise<T> => {
      const client = idle.pop() ?? (await connect())
      try {
        return await work(client)
      } finally {
        await giveBack(client)
      }
    },
    release: async () => {
      await Promise.all(idle.splice(0).map((client) => client.end()))
    },
  }
}

/** Returns the URL with which the Bursar server connects in tests. The login in this URL owns no database object. */
export const loginOf = (database: string): string => urlOf(database).replace(/\/\/[^@/]*@?/, '//bursar_test_login@')

/** Returns the template's name. It contains a hash of everything that shapes a migrated database. */
const template = () => {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
  const queue = (JSON.parse(read('../../package.json')) as { dependencies: Record<string, string> }).dependencies['graphile-worker']
  const shape = [read('../../migrations/roles.sql'), read('../../migrations/schemas.sql'), queue, ...migrations().map(({ checksum }) => checksum)]
  return `bursar_template_${hash('sha256', shape.join('\n')).slice(0, 12)}`
}

/** Creates the migrated template database that every test file clones, unless one with the same hash exists. */
export const prepareTemplate = async (): Promise<void> => {
  const name = template()
  await asOwner('postgres', async (client) => {
    await client.query(`select pg_advisory_lock(hashtextextended('bursar.template', 0))`)
    await client.query(`do $$ begin create role bursar_test_login login; exception when duplicate_object or unique_violation then end $$`)
    // The shared test server is never killed, so commits need not reach its disk. Tests that kill a server start their own.
    if (process.env.BURSAR_TEST_SERVER === undefined) await client.query('alter role bursar_test_login set synchronous_commit to off')
    const { rows } = await client.query('select 1 from pg_database where datname = $1 and datistemplate', [name])
    if (rows.length > 0) return
    await client.query(`drop database if exists ${name}`)
    await client.query(`create database ${name}`)
    await migrate(new Secret(urlOf(name)), 'sandbox', { clock: systemClock, log: openLog('silent'), login: new Secret(loginOf(name)) })
    await seedKeys(name)
    await client.query(`alter database ${name} is_template true`)
  })
}

export const sealingKey = Buffer.alloc(32, 9)
export const pepper = Buffer.alloc(32, 7)

/** Creates the identity signing keys in the template. They are slow to generate, so every test database shares them. */
const seedKeys = async (name: string) => {
  const log = openLog('silent')
  const postgres = openPostgres(new Secret(loginOf(name)), 'bursar_api', { max: 2, clock: systemClock, log, timeout_ms: 40_000 })
  const sealer = new Sealer([{ version: 1, key: sealingKey }])
  await postgres.transact((tx) => ensureKeys(tx, { sealer }))
  await postgres.close()
}

/** Creates a migrated, empty database. `drop` removes it. */
export const cloneDatabase = async (environment: Environment = 'sandbox') => {
  const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_${randomText(10, 'abcdefghijklmnopqrstuvwxyz')}`
  const issuedBefore = issuedSoFar()
  await asOwner('postgres', async (client) => {
    // Clones one database at a time, because the template must have no other connection.
    await client.query(`select pg_advisory_lock(hashtextextended('bursar.template', 0))`)
    await client.query(`create database ${name} template ${template()}`)
    if (process.env.BURSAR_TEST_GENERIC_PLANS) await client.query(`alter database ${name} set plan_cache_mode = force_generic_plan`)
  })
  const { owner, release } = keepOwner(name)
  // Gives the deployment its own id, so that deployments do not share keys in Redis.
  await owner((client) => client.query('update deployment set id = gen_random_uuid(), environment = $1', [environment]))
  return {
    name,
    url: loginOf(name),
    owner_url: urlOf(name),
    owner,
    /** Closes the pooled connections, for tests that need a database without connections. */
    release,
    /**
     * Analyzes tables that have grown, as autovacuum does in production. The server of the tests runs without
     * autovacuum, and PostgreSQL reads whole tables if it believes that they are empty.
     */
    analyzeGrown: () =>
      owner(async (client) => {
        const { rows } = await client.query<{ name: string }>(
          `select relid::regclass::text as name from pg_stat_user_tables where n_mod_since_analyze > 50 + 0.1 * n_live_tup`,
        )
        for (const { name: table } of rows) await client.query(`analyze ${table}`)
      }),
    drop: async () => {
      await release()
      await searchDump(urlOf(name), issuedSecrets(issuedBefore))
      if (process.env.BURSAR_TEST_RUN === undefined) return dropDatabases([name])
      // The end of the run drops the database. A file system needs several times as long to create a database if another
      // one has just been deleted, because it does not give the numbers of recently deleted files to new files.
      await asOwner('postgres', (client) => client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]))
      appendFileSync(searchedFile(process.env.BURSAR_TEST_SCRATCH!), `${name}\n`)
    },
  }
}
export type Database = Awaited<ReturnType<typeof cloneDatabase>>

/** Returns the file that names the databases of a run that have already been searched for secrets. */
const searchedFile = (scratch: string) => join(scratch, 'searched')

const dropDatabases = (names: readonly string[]) =>
  asOwner('postgres', async (client) => {
    for (const name of names) await client.query(`drop database if exists ${name} with (force)`)
  })

/** Drops the databases of a run. Searches those that their tests left behind for every secret of the run first. */
export const dropRun = async (run: string, scratch: string): Promise<void> => {
  const searched = new Set(existsSync(searchedFile(scratch)) ? readFileSync(searchedFile(scratch), 'utf8').split('\n') : [])
  const names = await asOwner('postgres', async (client) => {
    const { rows } = await client.query<{ datname: string }>('select datname from pg_database where datname like $1', [`bursar\\_t\\_${run}\\_%`])
    return rows.map(({ datname }) => datname)
  })
  for (const name of names) if (!searched.has(name)) await searchDump(urlOf(name), issuedInRun(scratch))
  // Drops several at once, because each waits for the disk.
  await Promise.all([0, 1, 2, 3].map((part) => dropDatabases(names.filter((_, at) => at % 4 === part))))
}
