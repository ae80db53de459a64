import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { Sealer, Secret, type Environment } from '../../src/kernel/secrets.ts'
import { ensureKeys } from '../../src/modules/identity/keys/keys.ts'
import { openPostgres } from '../../src/platform/postgres/postgres.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openLog } from '../../src/platform/log.ts'
import { migrate, migrations } from '../../src/platform/postgres/migrations.ts'
import { randomText } from '../../src/kernel/secrets.ts'

const server = process.env.BURSAR_TEST_SERVER ?? 'postgres://postgres@127.0.0.1:5432'

export const urlOf = (database: string): string => `${server}/${database}`

/** Runs statements as the owner of everything, beside the roles that serve. */
export const asOwner = async <T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client({ connectionString: urlOf(database) })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** The same for one database, again and again: up to two connections are kept, as good as new, because a new one costs more than most of what is asked. */
const keepOwner = (database: string) => {
  let idle: pg.Client[] = []
  const connect = async () => {
    const client = new pg.Client({ connectionString: urlOf(database) })
    // Whoever is cut off while nobody uses it is not used again.
    client.on('error', () => {
      idle = idle.filter((other) => other !== client)
    })
    await client.connect()
    return client
  }
  /** What a visitor set, locked or left open is gone; where it cannot be, so is the connection. */
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

/** Whom the system connects as: a login that owns nothing. */
export const loginOf = (database: string): string => urlOf(database).replace(/\/\/[^@/]*@?/, '//bursar_test_login@')

/** Everything that shapes a migrated database is in its template's name. */
const template = () => {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
  const queue = (JSON.parse(read('../../package.json')) as { dependencies: Record<string, string> }).dependencies['graphile-worker']
  const shape = [read('../../migrations/roles.sql'), read('../../migrations/schemas.sql'), queue, ...migrations().map(({ checksum }) => checksum)]
  return `bursar_template_${hash('sha256', shape.join('\n')).slice(0, 12)}`
}

/** Makes the migrated database that every test file clones, unless one of this shape is there already. */
export const prepareTemplate = async (): Promise<void> => {
  const name = template()
  await asOwner('postgres', async (client) => {
    await client.query(`select pg_advisory_lock(hashtextextended('bursar.template', 0))`)
    await client.query(`do $$ begin create role bursar_test_login login; exception when duplicate_object or unique_violation then end $$`)
    // Nobody kills the server that tests share: what is committed need not be on its disk. Whoever kills one brings it.
    if (process.env.BURSAR_TEST_SERVER === undefined) await client.query('alter role bursar_test_login set synchronous_commit to off')
    const { rows } = await client.query('select 1 from pg_database where datname = $1 and datistemplate', [name])
    if (rows.length > 0) return
    await client.query(`drop database if exists ${name}`)
    await client.query(`create database ${name}`)
    await migrate(new Secret(urlOf(name)), 'sandbox', { clock: systemClock, log: openLog('silent'), login: new Secret(loginOf(name)) })
    await furnishKeys(name)
    await client.query(`alter database ${name} is_template true`)
  })
}

export const sealingKey = Buffer.alloc(32, 9)
export const pepper = Buffer.alloc(32, 7)

/** Keys that sign identities take a while to make: they are made once, and every test's database has them. */
const furnishKeys = async (name: string) => {
  const log = openLog('silent')
  const postgres = openPostgres(new Secret(loginOf(name)), 'bursar_api', { max: 2, clock: systemClock, log, patience_ms: 40_000 })
  const sealer = new Sealer([{ version: 1, key: sealingKey }])
  await postgres.transact((tx) => ensureKeys(tx, { sealer }))
  await postgres.close()
}

/** A database of its own for whoever asks: migrated, empty, and gone when they are done. */
export const cloneDatabase = async (environment: Environment = 'sandbox') => {
  const name = `bursar_t_${process.env.BURSAR_TEST_RUN ?? 'x'}_${randomText(10, 'abcdefghijklmnopqrstuvwxyz')}`
  await asOwner('postgres', async (client) => {
    // One clone at a time: the template must have no other visitor.
    await client.query(`select pg_advisory_lock(hashtextextended('bursar.template', 0))`)
    await client.query(`create database ${name} template ${template()}`)
  })
  const { owner, release } = keepOwner(name)
  // A deployment of its own: what Redis keeps for one is not another's.
  await owner((client) => client.query('update deployment set id = gen_random_uuid(), environment = $1', [environment]))
  return {
    name,
    url: loginOf(name),
    owner_url: urlOf(name),
    owner,
    /** Lets go of what is kept, for whoever wants the database to have no visitor. */
    release,
    drop: async () => {
      await release()
      await asOwner('postgres', (client) => client.query(`drop database if exists ${name} with (force)`))
    },
  }
}
export type Database = Awaited<ReturnType<typeof cloneDatabase>>

/** Drops what a run left behind. */
export const dropLeftovers = (run: string) =>
  asOwner('postgres', async (client) => {
    const { rows } = await client.query<{ datname: string }>('select datname from pg_database where datname like $1', [`bursar\\_t\\_${run}\\_%`])
    for (const { datname } of rows) await client.query(`drop database if exists ${datname} with (force)`)
  })
