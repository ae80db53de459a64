import { statfs } from 'node:fs/promises'
import { bursar } from '../kernel/command-name.ts'
import { openMail } from '../gateways/mail/mail.ts'
import { openEventStore } from '../gateways/event-store/open.ts'
import { openStorage } from '../gateways/storage/open.ts'
import { newId } from '../kernel/ids.ts'
import { Sealer } from '../kernel/secrets.ts'
import { openKeys } from '../modules/identity/index.ts'
import { seconds, type Clock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { dueAge } from '../platform/jobs/leases.sql.ts'
import { jobAge } from '../platform/jobs/queue.ts'
import { openLog } from '../platform/log.ts'
import { outboxAge } from '../platform/outbox/outbox.sql.ts'
import { countWorkers, peppersInUse, readServer, sellersWithoutAccount, type ServerFacts } from '../platform/postgres/health.sql.ts'
import { heldSince, readStamp, unfit } from '../platform/migrations/migrations.ts'
import { openPool, openPostgres, type Postgres } from '../platform/postgres/postgres.ts'
import { openRedis } from '../platform/redis.ts'
import { checkDkim, checkDmarc, checkSpf } from './doctor-mail.ts'

/** A problem that a check found. `repair` replaces the suggested repair of the check if this problem needs another one. */
export class Wrong extends Error {
  readonly repair: string | undefined
  constructor(problem: string, repair?: string) {
    super(problem)
    this.repair = repair
  }
}

/** Results of earlier checks that later checks use. */
export interface Visit {
  readonly variables: NodeJS.ProcessEnv
  readonly clock: Clock
  config: Config
  server: ServerFacts
  postgres: Postgres
  deployment_id: string
}

interface Check {
  readonly name: string
  /** Checks that must succeed before this one can run. */
  readonly needs: readonly string[]
  readonly only?: 'production'
  readonly look: (visit: Visit) => Promise<string>
  /** The repair that is suggested, unless the problem has a more specific one. */
  readonly repair: string
}

const log = openLog('silent')

/**
 * Maximum difference between the clocks of this machine and of the database. Leases last only seconds, so they break
 * with a larger difference.
 */
const toleratedSkew = 2 * seconds

/** Seconds that due work may wait before its check fails. */
const toleratedWait = 300

/** Connections that a process needs besides its pool: exports, the job queue, the sandbox's payment processor and heartbeats. */
const besidesThePool = 24

const gibibyte = 1024 ** 3

/** True if a disk is almost full. The threshold is 5 % of its size, but at least 1 GiB and at most 10 GiB. */
export const isTight = ({ free, size }: { free: number; size: number }): boolean => free < Math.min(Math.max(gibibyte, size / 20), 10 * gibibyte)

export const checks: readonly Check[] = [
  {
    name: 'configuration',
    needs: [],
    repair: `correct the settings named above: docs/configuration.md. Or start a sandbox with its own settings: ${bursar} dev`,
    look: async (visit) => {
      visit.config = readConfig(visit.variables)
      return visit.config.environment
    },
  },
  {
    name: 'keys',
    needs: ['configuration'],
    repair: 'create new ones with: openssl rand -base64 32',
    look: async ({ config }) => {
      // Checks only the first key of each list, because it encrypts or hashes new values. The other keys only read
      // stored values, which cannot be read with replaced keys.
      const [pepper, sealing] = [config.peppers[0].key, config.sealing_keys[0].key]
      const repair = 'put a new key first, with a new number, and keep the old key after it: openssl rand -base64 32'
      if (pepper.equals(sealing)) throw new Wrong('BURSAR_PEPPERS and BURSAR_SEALING_KEYS begin with the same key', repair)
      // Thirty-two random bytes have about thirty distinct values. A key with fewer than sixteen is therefore not random.
      if (config.environment === 'production' && [pepper, sealing].some((key) => new Set(key).size < 16))
        throw new Wrong('the first key of BURSAR_PEPPERS or BURSAR_SEALING_KEYS is not random', repair)
      return `${config.peppers.length} peppers, ${config.sealing_keys.length} sealing keys`
    },
  },
  {
    name: 'address',
    needs: ['configuration'],
    repair: 'set BURSAR_PUBLIC_URL to where people reach this deployment',
    look: async ({ config: { public_url } }) => {
      if (public_url.protocol !== 'https:' && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(public_url.hostname))
        throw new Wrong(
          'this deployment is reached over http: sign-in codes and cookies are sent unencrypted',
          'put a proxy with TLS in front of it, and set BURSAR_PUBLIC_URL to its https address: docs/guides/self-host.md',
        )
      return public_url.origin
    },
  },
  {
    name: 'proxies',
    needs: ['configuration'],
    only: 'production',
    repair: 'set BURSAR_TRUSTED_PROXIES',
    look: async ({ config }) => {
      if (config.trusted_proxies.length === 0)
        throw new Wrong(
          'the proxy that terminates TLS is not configured: all clients seem to have one address and share its rate limits',
          'set BURSAR_TRUSTED_PROXIES to the addresses of your proxies, for example 10.0.0.0/8',
        )
      return config.trusted_proxies.join(', ')
    },
  },
  {
    name: 'database',
    needs: ['configuration'],
    repair: `check that PostgreSQL runs and that BURSAR_DATABASE_URL is right. To create a missing database, run: ${bursar} migrate --create`,
    look: async (visit) => {
      visit.server = await readServer(visit.config.database_url, visit.config.database_timeout_ms)
      const major = Math.floor(visit.server.version / 10_000)
      if (major < 15) throw new Wrong(`PostgreSQL ${major} is too old`, 'upgrade the server to PostgreSQL 15 or later')
      return `PostgreSQL ${major}`
    },
  },
  {
    name: 'clock',
    needs: ['database'],
    repair: 'synchronize the clocks of both machines by NTP',
    look: async (visit) => {
      const before = visit.clock.wall().getTime()
      const { now } = await readServer(visit.config.database_url, visit.config.database_timeout_ms)
      const after = visit.clock.wall().getTime()
      // The database read its clock between `before` and `after`. The clocks differ only if its time is outside that range.
      const skew = Math.max(0, before - now.getTime(), now.getTime() - after)
      if (skew > toleratedSkew)
        throw new Wrong(
          `the clocks of this machine and of the database differ by ${(skew / 1000).toFixed(1)} s`,
          'synchronize the clocks of both machines by NTP, for example: timedatectl set-ntp true',
        )
      return `within ${(skew / 1000).toFixed(1)} s of the database`
    },
  },
  {
    name: 'connections',
    needs: ['database'],
    repair: 'raise max_connections of PostgreSQL, or lower BURSAR_DATABASE_CONNECTIONS',
    look: async ({ config, server }) => {
      const wanted = config.database_connections + besidesThePool
      if (wanted > server.max_connections)
        throw new Wrong(
          `one process may open ${wanted} connections, but the database allows ${server.max_connections} in total`,
          `set BURSAR_DATABASE_CONNECTIONS to at most ${Math.max(2, server.max_connections - besidesThePool)}, or raise max_connections of PostgreSQL`,
        )
      return `${server.used_connections} of ${server.max_connections} in use`
    },
  },
  {
    name: 'login',
    needs: ['database'],
    repair: `run: ${bursar} migrate`,
    look: async ({ config, server }) => {
      if (server.missing_roles.length > 0)
        throw new Wrong(
          `${server.login} lacks the roles ${server.missing_roles.join(', ')}`,
          `grant the roles, as the owner of the database, with: ${bursar} migrate`,
        )
      if (config.environment === 'production' && server.powerful)
        throw new Wrong(
          `${server.login} owns the tables, or can become their owner`,
          `use a separate login in BURSAR_DATABASE_URL, put the owner into BURSAR_DATABASE_OWNER_URL, and run: ${bursar} migrate`,
        )
      return server.login
    },
  },
  {
    name: 'migrations',
    needs: ['login'],
    repair: `run: ${bursar} migrate`,
    look: async (visit) => {
      if (!visit.server.migrated) throw new Wrong('the database is empty')
      visit.postgres = openPostgres(visit.config.database_url, 'bursar_worker', {
        max: 4,
        clock: visit.clock,
        log,
        timeout_ms: visit.config.database_timeout_ms,
      })
      const problems = await unfit(visit.postgres.db)
      if (problems.length > 0)
        throw new Wrong(
          `the schema of the database does not match this version: ${problems.join('; ')}`,
          problems.every((problem) => problem.startsWith('not applied'))
            ? 'run: bursar upgrade --to <folder for a backup>'
            : 'run the version of the software that migrated the database, or a later one',
        )
      return 'the schema matches this version'
    },
  },
  {
    name: 'environment',
    needs: ['migrations'],
    repair: `run: ${bursar} migrate`,
    look: async (visit) => {
      const stamp = await readStamp(visit.postgres.db)
      if (stamp?.environment !== visit.config.environment)
        throw new Wrong(
          `the database belongs to ${stamp?.environment ?? 'no environment'}, but the settings say ${visit.config.environment}`,
          'set BURSAR_ENV to the environment of the database, or BURSAR_DATABASE_URL to another database',
        )
      visit.deployment_id = stamp.id
      return `deployment ${stamp.id}`
    },
  },
  {
    name: 'restored',
    needs: ['environment'],
    repair: `run: ${bursar} restore --release`,
    look: async ({ postgres }) => {
      const stamp = await readStamp(postgres.db)
      if (stamp!.held_at !== null)
        throw new Wrong(heldSince(stamp!.restored_to), `stop every process on the old database, then run: ${bursar} restore --release`)
      return stamp!.restored_to === null ? 'never' : `to ${stamp!.restored_to.toISOString()}, and released`
    },
  },
  {
    name: 'processor',
    needs: ['environment'],
    only: 'production',
    repair: 'connect a Stripe account for each of these organizations: docs/guides/stripe.md',
    look: async ({ postgres }) => {
      const unpaid = await sellersWithoutAccount(postgres.db)
      if (unpaid.length > 0)
        throw new Wrong(`${unpaid.length} organizations sell, but have no payment account: ${unpaid.slice(0, 5).join(', ')}${unpaid.length > 5 ? ', …' : ''}`)
      return 'every organization that sells has a payment account'
    },
  },
  {
    name: 'secrets',
    needs: ['environment'],
    repair: 'put the keys that encrypted the secrets back into BURSAR_SEALING_KEYS and BURSAR_PEPPERS',
    look: async ({ config, postgres }) => {
      const lost = (await peppersInUse(postgres.db)).filter((version) => !config.peppers.some((one) => one.version === version))
      if (lost.length > 0)
        throw new Wrong(
          `credentials were stored with pepper ${lost.join(', ')}, which is not configured`,
          'put that key back into BURSAR_PEPPERS, after the newest',
        )
      try {
        await openKeys(postgres.db, { sealer: new Sealer(config.sealing_keys) })
      } catch {
        throw new Wrong('stored secrets cannot be decrypted with BURSAR_SEALING_KEYS', 'put the key that encrypted them back into BURSAR_SEALING_KEYS')
      }
      return 'can be decrypted'
    },
  },
  {
    name: 'redis',
    needs: ['environment'],
    repair: 'check that Redis runs and that BURSAR_REDIS_URL is right',
    look: async ({ config, deployment_id }) => {
      if (!config.redis_url) return 'not configured: rate limits are counted in the memory of each process'
      const redis = openRedis(config.redis_url, deployment_id, log, config.redis_timeout_ms)
      try {
        await redis.settled
        const kept = await redis.attempt(async (client) => {
          await client.set('doctor', '1', 'EX', 10)
          return client.get('doctor')
        })
        if (kept !== '1')
          throw new Wrong('Redis does not answer, or does not store data', 'check that Redis runs and accepts writes, and that BURSAR_REDIS_URL is right')
        return 'answers'
      } finally {
        redis.close()
      }
    },
  },
  {
    name: 'event store',
    needs: ['environment'],
    repair:
      'check that ClickHouse runs, that BURSAR_CLICKHOUSE_URL is right, and that its user may create tables. Several servers need a common ZooKeeper or Keeper',
    look: async ({ config }) => {
      const store = await openEventStore(config)
      if (!store) return 'not configured: PostgreSQL answers all questions about usage'
      try {
        const versions: string[] = []
        for (const server of store.servers) {
          const { rows } = await server.ask('select version()', config.database_timeout_ms)
          versions.push(String(rows[0]![0]))
          // Only a server with a ZooKeeper or Keeper has this table.
          if (store.servers.length > 1) await server.ask(`select count() from system.zookeeper where path = '/'`, config.database_timeout_ms)
        }
        return `ClickHouse ${versions.join(' and ')}`
      } finally {
        await store.close()
      }
    },
  },
  {
    name: 'storage',
    needs: ['environment'],
    repair: 'check that BURSAR_STORAGE_DIR is writable, or that the key of BURSAR_S3_ACCESS_KEY_ID has the permissions in docs/configuration.md',
    look: async ({ config, clock, deployment_id }) => {
      if (!config.storage) return 'not configured: operations on files answer 503'
      const storage = await openStorage(config, { clock, deployment_id })
      try {
        for (const bucket of [storage.private, storage.public]) {
          const key = `doctor/${newId(clock.wall())}`
          const upload_id = await bucket.beginUpload({ key, content_type: 'text/plain', metadata: {}, checksums: false })
          await bucket.abortUpload({ key, upload_id })
          await bucket.head(key)
          await bucket.delete(key)
        }
        return 'folder' in config.storage ? 'a folder' : `${config.storage.bucket} and ${config.storage.public_bucket}`
      } finally {
        storage.close()
      }
    },
  },
  {
    name: 'disk',
    needs: ['storage'],
    repair: 'free disk space at BURSAR_STORAGE_DIR, or move the files to a larger disk or to S3: docs/configuration.md',
    look: async ({ config: { storage } }) => {
      if (!storage || !('folder' in storage)) return 'no local files'
      const { bavail, blocks, bsize } = await statfs(storage.folder)
      const room = { free: bavail * bsize, size: blocks * bsize }
      const says = `${(room.free / gibibyte).toFixed(1)} GiB free (${Math.floor((100 * room.free) / room.size)} %) for files`
      if (isTight(room)) throw new Wrong(`only ${says}`)
      return says
    },
  },
  {
    name: 'mail',
    needs: ['configuration'],
    repair: 'check that the server of BURSAR_SMTP_URL answers and accepts its login, or that BURSAR_MAIL_DIR is writable',
    look: async ({ config, clock }) => {
      const mail = openMail(config.mail, clock)
      try {
        await mail.check()
      } finally {
        mail.close()
      }
      return config.mail.smtp_url ? 'the server answers' : 'written to a folder, for development'
    },
  },
  ...(
    [
      ['spf', checkSpf],
      ['dkim', checkDkim],
      ['dmarc', checkDmarc],
    ] as const
  ).map(([name, check]) => ({
    name,
    needs: ['environment'],
    repair: 'add the DNS records that mails need: docs/guides/self-host.md',
    look: async ({ config, postgres }: Visit) => {
      const { says, problem } = await check(config, postgres.db)
      if (problem) throw new Wrong(problem.says, problem.repair)
      return says
    },
  })),
  {
    name: 'worker',
    // Workers do not run on a database that is on hold after a restore.
    needs: ['restored'],
    repair: `start one with: ${bursar} serve --roles worker`,
    look: async ({ postgres }) => {
      const count = await countWorkers(postgres.db)
      if (count === 0) throw new Wrong('no worker is running: no renewals, webhooks or mails are processed')
      return `${count} running`
    },
  },
  {
    name: 'backlog',
    // Workers do not run on a database that is on hold after a restore.
    needs: ['restored'],
    repair: `search the log of the workers for job_failed and sweep_failed; start more with: ${bursar} serve --roles worker`,
    look: async ({ config, postgres, clock }) => {
      const queue = openPool(config.database_url, 'bursar_jobs', { max: 1, log, timeout_ms: config.database_timeout_ms })
      try {
        const now = clock.wall()
        const ages = { jobs: await jobAge(queue), events: await outboxAge(postgres.db, now), ...(await dueAge(postgres.db, now)) }
        const late = Object.entries(ages).filter(([, age]) => age > toleratedWait)
        if (late.length > 0) throw new Wrong(`work is late: ${late.map(([of, age]) => `${of} for ${Math.round(age)} s`).join(', ')}`)
        return 'no work is late'
      } finally {
        await queue.end()
      }
    },
  },
]
