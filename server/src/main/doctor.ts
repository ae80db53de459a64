import { statfs } from 'node:fs/promises'
import { openMail } from '../gateways/mail/mail.ts'
import { openStorage } from '../gateways/storage/open.ts'
import { newId } from '../kernel/ids.ts'
import { Sealer } from '../kernel/secrets.ts'
import { openKeys } from '../modules/identity/index.ts'
import { seconds, systemClock, type Clock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { dueAge } from '../platform/jobs/leases.sql.ts'
import { jobAge } from '../platform/jobs/queue.ts'
import { openLog } from '../platform/log.ts'
import { outboxAge } from '../platform/outbox/outbox.sql.ts'
import { countWorkers, peppersInUse, readServer, sellersWithoutAccount, type ServerFacts } from '../platform/postgres/health.sql.ts'
import { heldSince, readStamp, unfit } from '../platform/postgres/migrations.ts'
import { openPool, openPostgres, type Postgres } from '../platform/postgres/postgres.ts'
import { openRedis } from '../platform/redis.ts'

/** Something is not as it should be: what, and what to do about it, where that is not what the check says anyway. */
class Wrong extends Error {
  readonly repair: string | undefined
  constructor(problem: string, repair?: string) {
    super(problem)
    this.repair = repair
  }
}

/** What one check finds out, others build on. */
interface Visit {
  readonly variables: NodeJS.ProcessEnv
  readonly clock: Clock
  config: Config
  server: ServerFacts
  postgres: Postgres
  deployment_id: string
}

interface Check {
  readonly name: string
  /** Checks without whose success this one says nothing. */
  readonly needs: readonly string[]
  readonly only?: 'production'
  readonly look: (visit: Visit) => Promise<string>
  /** What helps, unless what is wrong says otherwise. */
  readonly repair: string
}

export interface Finding {
  readonly name: string
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly says: string
  readonly repair?: string
}

const log = openLog('silent')
/** Tokens and links live for minutes, leases for seconds: what differs by more than this is not to be trusted with them. */
const toleratedSkew = 2 * seconds
/** Seconds that something may wait before whoever should do it is not getting on. */
const toleratedWait = 300
/** Beside its pool a process keeps some for exports, the queue, the sandbox's processor, and its life. */
const besidesThePool = 24

const gibibyte = 1024 ** 3
/** A disk that will be full before somebody has looked: less than a twentieth is free, but on a small one 1 GiB, and on a large one 10. */
export const isTight = ({ free, size }: { free: number; size: number }): boolean => free < Math.min(Math.max(gibibyte, size / 20), 10 * gibibyte)

const checks: readonly Check[] = [
  {
    name: 'configuration',
    needs: [],
    repair: 'correct the settings named above: docs/configuration.md',
    look: async (visit) => {
      visit.config = readConfig(visit.variables)
      return visit.config.environment
    },
  },
  {
    name: 'keys',
    needs: ['configuration'],
    repair: 'make new ones with: openssl rand -base64 32',
    look: async ({ config }) => {
      // Those in front are what is written with; the others only read what is there, and have to stay.
      const [pepper, sealing] = [config.peppers[0].key, config.sealing_keys[0].key]
      const repair = 'put a new one in front, with a new number, and keep the old one behind it: openssl rand -base64 32'
      if (pepper.equals(sealing)) throw new Wrong('BURSAR_PEPPERS and BURSAR_SEALING_KEYS begin with the same key', repair)
      // Thirty-two bytes by chance have about thirty different ones; fewer than sixteen, never.
      if (config.environment === 'production' && [pepper, sealing].some((key) => new Set(key).size < 16))
        throw new Wrong('the first key of BURSAR_PEPPERS or BURSAR_SEALING_KEYS was not made by chance', repair)
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
          'people reach this deployment over http: whoever listens reads their codes and cookies',
          'put a proxy with TLS before it, and set BURSAR_PUBLIC_URL to its https address: docs/guides/self-host.md',
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
          'the proxy that ends TLS is not known: everybody seems to come from one address, and shares its limits',
          'set BURSAR_TRUSTED_PROXIES to the addresses of your proxies, for example 10.0.0.0/8',
        )
      return config.trusted_proxies.join(', ')
    },
  },
  {
    name: 'database',
    needs: ['configuration'],
    repair: 'see that PostgreSQL runs and that BURSAR_DATABASE_URL is right; a database that is missing is made by: bursar migrate --create',
    look: async (visit) => {
      visit.server = await readServer(visit.config.database_url, visit.config.database_patience_ms)
      const major = Math.floor(visit.server.version / 10_000)
      if (major < 15) throw new Wrong(`PostgreSQL ${major} is too old`, 'upgrade the server to PostgreSQL 15 or later')
      return `PostgreSQL ${major}`
    },
  },
  {
    name: 'clock',
    needs: ['database'],
    repair: 'let both machines keep time by NTP',
    look: async (visit) => {
      const before = visit.clock.wall().getTime()
      const { now } = await readServer(visit.config.database_url, visit.config.database_patience_ms)
      const after = visit.clock.wall().getTime()
      // The answer was given at some moment in between.
      const skew = Math.max(0, before - now.getTime(), now.getTime() - after)
      if (skew > toleratedSkew)
        throw new Wrong(
          `the clocks of this machine and of the database differ by ${(skew / 1000).toFixed(1)} s`,
          'let both machines keep time by NTP, for example: timedatectl set-ntp true',
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
          `one process may want ${wanted} connections, and the database has ${server.max_connections} for all`,
          `set BURSAR_DATABASE_CONNECTIONS to at most ${Math.max(2, server.max_connections - besidesThePool)}, or raise max_connections of PostgreSQL`,
        )
      return `${server.used_connections} of ${server.max_connections} in use`
    },
  },
  {
    name: 'login',
    needs: ['database'],
    repair: 'run: bursar migrate',
    look: async ({ config, server }) => {
      if (server.missing_roles.length > 0)
        throw new Wrong(
          `${server.login} may not act as ${server.missing_roles.join(', ')}`,
          'grant the roles, as the owner of the database, with: bursar migrate',
        )
      if (config.environment === 'production' && server.powerful)
        throw new Wrong(
          `${server.login} owns the tables, or could`,
          'give BURSAR_DATABASE_URL a login of its own, put the owner into BURSAR_DATABASE_OWNER_URL, and run: bursar migrate',
        )
      return server.login
    },
  },
  {
    name: 'migrations',
    needs: ['login'],
    repair: 'run: bursar migrate',
    look: async (visit) => {
      if (!visit.server.migrated) throw new Wrong('the database is empty')
      visit.postgres = openPostgres(visit.config.database_url, 'bursar_worker', {
        max: 4,
        clock: visit.clock,
        log,
        patience_ms: visit.config.database_patience_ms,
      })
      const problems = await unfit(visit.postgres.db)
      if (problems.length > 0)
        throw new Wrong(
          `the database is not at this version: ${problems.join('; ')}`,
          problems.every((problem) => problem.startsWith('not applied'))
            ? 'run: bursar upgrade --to <folder for a backup>'
            : 'run the version of the software that migrated it, or a later one',
        )
      return 'at this version'
    },
  },
  {
    name: 'environment',
    needs: ['migrations'],
    repair: 'run: bursar migrate',
    look: async (visit) => {
      const stamp = await readStamp(visit.postgres.db)
      if (stamp?.environment !== visit.config.environment)
        throw new Wrong(
          `the database belongs to ${stamp?.environment ?? 'nobody'}, and the settings say ${visit.config.environment}`,
          'set BURSAR_ENV to what the database is, or BURSAR_DATABASE_URL to a database of its own',
        )
      visit.deployment_id = stamp.id
      return `deployment ${stamp.id}`
    },
  },
  {
    name: 'restored',
    needs: ['environment'],
    repair: 'run: bursar restore --release',
    look: async ({ postgres }) => {
      const stamp = await readStamp(postgres.db)
      if (stamp!.held_at !== null) throw new Wrong(heldSince(stamp!.restored_to), 'stop whatever ran on the old database, then run: bursar restore --release')
      return stamp!.restored_to === null ? 'never' : `to ${stamp!.restored_to.toISOString()}, and released`
    },
  },
  {
    name: 'processor',
    needs: ['environment'],
    only: 'production',
    repair: 'let each of them connect its account at Stripe: docs/guides/stripe.md',
    look: async ({ postgres }) => {
      const unpaid = await sellersWithoutAccount(postgres.db)
      if (unpaid.length > 0)
        throw new Wrong(`${unpaid.length} organizations sell and cannot be paid: ${unpaid.slice(0, 5).join(', ')}${unpaid.length > 5 ? ', …' : ''}`)
      return 'whoever sells can be paid'
    },
  },
  {
    name: 'secrets',
    needs: ['environment'],
    repair: 'put the keys that were in use when they were stored back into BURSAR_SEALING_KEYS and BURSAR_PEPPERS',
    look: async ({ config, postgres }) => {
      const lost = (await peppersInUse(postgres.db)).filter((version) => !config.peppers.some((one) => one.version === version))
      if (lost.length > 0)
        throw new Wrong(
          `credentials were stored under pepper ${lost.join(', ')}, which is not configured`,
          'put that key back into BURSAR_PEPPERS, behind the newest',
        )
      try {
        await openKeys(postgres.db, { sealer: new Sealer(config.sealing_keys) })
      } catch {
        throw new Wrong(
          'what was sealed cannot be opened with BURSAR_SEALING_KEYS',
          'put the key that was in use when it was stored back into BURSAR_SEALING_KEYS',
        )
      }
      return 'can be opened'
    },
  },
  {
    name: 'redis',
    needs: ['environment'],
    repair: 'see that Redis runs and that BURSAR_REDIS_URL is right',
    look: async ({ config, deployment_id }) => {
      if (!config.redis_url) return 'not configured: limits are counted in the memory of one process'
      const redis = openRedis(config.redis_url, deployment_id, log, config.redis_patience_ms)
      try {
        await redis.settled
        const kept = await redis.attempt(async (client) => {
          await client.set('doctor', '1', 'EX', 10)
          return client.get('doctor')
        })
        if (kept !== '1')
          throw new Wrong(
            'Redis does not answer, or does not keep what it is given',
            'see that Redis runs and takes writes, and that BURSAR_REDIS_URL is right',
          )
        return 'answers'
      } finally {
        redis.close()
      }
    },
  },
  {
    name: 'storage',
    needs: ['environment'],
    repair: 'see that BURSAR_STORAGE_DIR can be written to, or that the key of BURSAR_S3_ACCESS_KEY_ID has the rights that docs/configuration.md lists',
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
    repair: 'make room where BURSAR_STORAGE_DIR lies, or move the files to a larger disk or a store: docs/configuration.md',
    look: async ({ config: { storage } }) => {
      if (!storage || !('folder' in storage)) return 'no files here'
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
    repair: 'see that the server of BURSAR_SMTP_URL answers and takes its login, or that BURSAR_MAIL_DIR can be written to',
    look: async ({ config, clock }) => {
      const mail = openMail(config.mail, clock)
      try {
        await mail.check()
      } finally {
        mail.close()
      }
      return config.mail.smtp_url ? 'the server answers' : 'into a folder, for development'
    },
  },
  {
    name: 'worker',
    // Nobody works on what is held.
    needs: ['restored'],
    repair: 'start one with: bursar serve --roles worker',
    look: async ({ postgres }) => {
      const count = await countWorkers(postgres.db)
      if (count === 0) throw new Wrong('no worker is running: nothing is renewed, delivered or mailed')
      return `${count} running`
    },
  },
  {
    name: 'backlog',
    // Nobody works on what is held.
    needs: ['restored'],
    repair: 'look at the log of the workers for job_failed and sweep_failed; start more with: bursar serve --roles worker',
    look: async ({ config, postgres, clock }) => {
      const queue = openPool(config.database_url, 'bursar_jobs', { max: 1, log, patience_ms: config.database_patience_ms })
      try {
        const now = clock.wall()
        const ages = { jobs: await jobAge(queue), events: await outboxAge(postgres.db, now), ...(await dueAge(postgres.db, now)) }
        const late = Object.entries(ages).filter(([, age]) => age > toleratedWait)
        if (late.length > 0) throw new Wrong(`work has been waiting for long: ${late.map(([of, age]) => `${of} for ${Math.round(age)} s`).join(', ')}`)
        return 'nothing waits for long'
      } finally {
        await queue.end()
      }
    },
  },
]

/** Looks at everything that a deployment needs, one thing after the other, and changes nothing. What cannot be looked at because something before it failed is skipped. */
export const examine = async (variables: NodeJS.ProcessEnv, clock: Clock = systemClock): Promise<Finding[]> => {
  const visit = { variables, clock } as Visit
  const findings: Finding[] = []
  const failed = new Set<string>()
  try {
    for (const { name, needs, only, look, repair } of checks) {
      if (needs.some((need) => failed.has(need))) {
        failed.add(name)
        findings.push({ name, state: 'skipped', says: `not looked at: ${needs.find((need) => failed.has(need))} comes first` })
        continue
      }
      if (only !== undefined && visit.config.environment !== only) continue
      try {
        findings.push({ name, state: 'ok', says: await look(visit) })
      } catch (error) {
        failed.add(name)
        const says = error instanceof Error ? error.message.replace(/\s+/g, ' ').trim() || error.constructor.name : String(error)
        findings.push({ name, state: 'failed', says, repair: (error instanceof Wrong ? error.repair : undefined) ?? repair })
      }
    }
  } finally {
    await (visit as Partial<Visit>).postgres?.close()
  }
  return findings
}

export const doctor = async (values: { json?: boolean | undefined }): Promise<void> => {
  const findings = await examine(process.env)
  const failed = findings.filter(({ state }) => state === 'failed')
  const mark = { ok: 'ok     ', failed: 'FAILED ', skipped: 'skipped' }
  const lines = findings.map(
    ({ name, state, says, repair }) => `${mark[state]} ${name.padEnd(13)} ${says}${repair === undefined ? '' : `\n        repair:       ${repair}`}`,
  )
  const end = failed.length === 0 ? `all ${findings.length} are well` : `${failed.length} of ${findings.length} failed`
  process.stdout.write(values.json ? `${JSON.stringify({ ok: failed.length === 0, checks: findings })}\n` : `${[...lines, '', end].join('\n')}\n`)
  if (failed.length > 0) process.exitCode = 1
}
