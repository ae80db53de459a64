import { Logger, runMigrations, runTaskList, type WorkerPool } from 'graphile-worker'
import { sql } from 'kysely'
import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import { minutes, seconds, stopwatch } from '../clock.ts'
import type { Log } from '../log.ts'
import { openPool, type Postgres, type Tx } from '../postgres/postgres.ts'
import type { Telemetry } from '../telemetry.ts'
import { catalogue, sweeps, type JobName, type Payload, type SweepName } from './catalogue.ts'
import { claim, leaseHolders, LeaseLost, releaseLeases, type Lease } from './leases.sql.ts'

/** Puts a job into the queue when, and only when, this transaction commits. */
export const enqueue = async <N extends JobName>(tx: Tx, name: N, payload: Payload<N>): Promise<void> => {
  await sql`select enqueue_job(${name}, ${JSON.stringify(catalogue[name].parse(payload))}::jsonb)`.execute(tx.q)
}

export type JobHandlers = { readonly [N in JobName]: (payload: Payload<N>) => Promise<void> }
export type SweepHandlers = { readonly [N in SweepName]: (lease: Lease) => Promise<void> }

export interface Worker {
  /** Finishes what is under way and takes nothing new. */
  stop(): Promise<void>
}

/** Reads for the metrics how long the oldest runnable job has waited. */
export const jobAge = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query<{ age: number }>(
    `select coalesce(extract(epoch from now() - min(run_at)), 0)::float8 as age from graphile_worker._private_jobs where is_available and run_at <= now()`,
  )
  return rows[0]?.age ?? 0
}

const sweepEvery = 1 * seconds
const reapEvery = 1 * seconds
/** A worker that has just started has taken its life lock after this long. */
const newborn = 2 * seconds

/**
 * Runs jobs and sweeps. The worker's life is a lock on a connection of its own: when the process dies the lock goes
 * with it, and any other worker frees what it had taken, within seconds.
 */
export const startWorker = async (options: {
  url: Secret
  postgres: Postgres
  jobs: JobHandlers
  sweeps: SweepHandlers
  telemetry: Telemetry
  log: Log
  concurrency?: number
}): Promise<Worker> => {
  const { log, postgres, telemetry } = options
  const concurrency = options.concurrency ?? 8
  const queue = openPool(options.url, 'bursar_jobs', { max: concurrency + 2, log, settings: { statement_timeout: 30_000 } })
  const life = new pg.Client({
    connectionString: options.url.reveal(),
    application_name: 'bursar_worker_life',
    options: '-c role=bursar_jobs -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=2',
  })
  life.on('error', (error) => {
    // Without its life lock this worker counts as dead, and others redo its work: it must not go on.
    log.error('worker_life_lost', { error })
    process.exitCode = 1
    process.kill(process.pid, 'SIGTERM')
  })
  await life.connect()

  const taskList = Object.fromEntries(
    (Object.keys(catalogue) as JobName[]).map((name) => [
      name,
      async (payload: unknown, { job }: { job: { id: string; attempts: number } }) => {
        const elapsed = stopwatch()
        try {
          await (options.jobs[name] as (payload: unknown) => Promise<void>)(catalogue[name].parse(payload))
          telemetry.job(name, 'done', elapsed())
        } catch (error) {
          telemetry.job(name, 'failed', elapsed())
          log.warn('job_failed', { job: name, job_id: job.id, attempt: job.attempts, error })
          throw error
        }
      },
    ]),
  )
  const pool: WorkerPool = runTaskList(
    {
      concurrency,
      noHandleSignals: true,
      pollInterval: 1 * seconds,
      logger: silentLogger(log),
      minResetLockedInterval: 10 * minutes,
      maxResetLockedInterval: 20 * minutes,
    },
    taskList,
    queue,
  )
  const me = pool.id
  await life.query(`select pg_advisory_lock(hashtextextended($1, 0))`, [me])
  log.info('worker_started', { worker: me })

  const stopping = new AbortController()
  const loops = [
    repeat(stopping.signal, reapEvery, async () => reap(me, queue, life, postgres, log)),
    ...(Object.keys(sweeps) as SweepName[]).map((name) =>
      repeat(stopping.signal, sweepEvery, async () => {
        for (;;) {
          const leases = await claim(postgres.transact, sweeps[name].table, { holder: me, limit: sweeps[name].batch, lease_ms: sweeps[name].lease_ms })
          for (const lease of leases) await sweepOne(options.sweeps[name], name, lease, log, telemetry)
          if (leases.length < sweeps[name].batch || stopping.signal.aborted) return
        }
      }),
    ),
  ]
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
      await pool.gracefulShutdown()
      life.removeAllListeners('error')
      life.on('error', () => {})
      await life.end()
      await queue.end()
      log.info('worker_stopped', { worker: me })
    },
  }

  function repeat(signal: AbortSignal, every: number, work: () => Promise<void>): Promise<void> {
    return (async () => {
      while (!signal.aborted) {
        try {
          await work()
        } catch (error) {
          if (!signal.aborted) log.warn('sweep_failed', { error })
        }
        await pause(every, signal)
      }
    })()
  }
}

const sweepOne = async (handler: (lease: Lease) => Promise<void>, name: SweepName, lease: Lease, log: Log, telemetry: Telemetry) => {
  const elapsed = stopwatch()
  try {
    await handler(lease)
    telemetry.job(name, 'done', elapsed())
  } catch (error) {
    telemetry.job(name, error instanceof LeaseLost ? 'lost' : 'failed', elapsed())
    log.warn(error instanceof LeaseLost ? 'lease_lost' : 'sweep_failed', { job: name, error })
  }
}

/** Frees the jobs and leases of workers whose life lock is gone. */
const reap = async (me: string, queue: pg.Pool, life: pg.Client, postgres: Postgres, log: Log): Promise<void> => {
  const { rows } = await queue.query<{ locked_by: string }>(
    `select distinct locked_by from graphile_worker._private_jobs where locked_by is not null and locked_at < now() - $1::float8 * interval '1 millisecond'`,
    [newborn],
  )
  const holders = new Set([...rows.map((row) => row.locked_by), ...(await leaseHolders(postgres.db))])
  for (const holder of holders) {
    if (holder === me) continue
    const got = await life.query<{ dead: boolean }>(`select pg_try_advisory_lock(hashtextextended($1, 0)) as dead`, [holder])
    if (!got.rows[0]?.dead) continue
    try {
      await queue.query(`select graphile_worker.force_unlock_workers(array[$1])`, [holder])
      await postgres.transact((tx) => releaseLeases(tx, [holder]))
      log.warn('worker_reaped', { worker: holder })
    } finally {
      await life.query(`select pg_advisory_unlock(hashtextextended($1, 0))`, [holder])
    }
  }
}

/** Brings the queue's own tables up to date, under the role that owns them. */
export const migrateQueue = async (url: Secret, log: Log): Promise<void> => {
  const pgPool = openPool(url, 'bursar_jobs', { max: 2, log })
  try {
    await runMigrations({ pgPool, logger: silentLogger(log) })
  } finally {
    await pgPool.end()
  }
}

const silentLogger = (log: Log) =>
  new Logger(() => (level, message) => {
    if (level === 'error') log.error('job_queue', { reason: message })
  })

const pause = (milliseconds: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, milliseconds)
    signal.addEventListener('abort', done)
  })
