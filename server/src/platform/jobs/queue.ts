import { Logger, runMigrations, runTaskList, type WorkerEvents, type WorkerPool } from 'graphile-worker'
import { EventEmitter } from 'node:events'
import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import { minutes, seconds, stopwatch, type Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { pause } from '../pause.ts'
import { outageOf, untilAvailable } from '../postgres/outage.ts'
import { openPool, type Postgres } from '../postgres/postgres.ts'
import { eventsChannel } from '../outbox/outbox.sql.ts'
import { catalogue, daemons, periodicTasks, sweeps, type DaemonName, type JobName, type Payload, type PeriodicTaskName, type SweepName } from './catalogue.ts'
import { RunLater } from './later.ts'
import { enterLife, findDueTables, leaseHolders, releaseLeases } from './leases.sql.ts'
import { concurrency, openSlots } from './slots.ts'
import { openClaimer, type Sweeping } from './sweeping.ts'

export type JobHandlers = { readonly [N in JobName]: (payload: Payload<N>) => Promise<void> }
export type PeriodicTaskHandlers = { readonly [N in PeriodicTaskName]: () => Promise<void> }

/** The information that a daemon gets about its worker. */
export interface DaemonLife {
  /** The name under which the daemon takes leases. Other workers release these leases if this worker dies. */
  readonly holder: string
  /** Aborted when the daemon must stop. The daemon then finishes work in progress, takes no new work, and returns. */
  readonly signal: AbortSignal
  /** Calls the listener with the organization of every event that is committed from now on. Notifications may be missed. */
  readonly onEvent: (listener: (organization_id: string) => void) => void
  /** Calls the listener after the leases of a dead worker were released. */
  readonly onFreed: (listener: () => void) => void
}
export type DaemonHandlers = { readonly [N in DaemonName]: (life: DaemonLife) => Promise<void> }

export interface Worker {
  /** Stops the worker. It finishes work in progress and takes no new work. */
  stop(): Promise<void>
  /** The reason why no job can run now, for the readiness check. Undefined while the worker runs. */
  problem(): string | undefined
}

/** Returns the seconds that the oldest runnable job has waited, for metrics. */
export const jobAge = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query<{ age: number }>(
    `select coalesce(extract(epoch from now() - min(run_at)), 0)::float8 as age from graphile_worker._private_jobs where is_available and run_at <= now()`,
  )
  return rows[0]?.age ?? 0
}

const sweepEvery = 1 * seconds
const reapEvery = 1 * seconds
const tidyEvery = 1 * minutes
/** Time in milliseconds that a new worker has to acquire its liveness lock. Jobs that were locked more recently are not freed. */
const newborn = 2 * seconds

export interface WorkerOptions extends Sweeping {
  readonly url: Secret
  readonly timeout_ms: number
  readonly clock: Clock
  readonly jobs: JobHandlers
  readonly periodicTasks: PeriodicTaskHandlers
  readonly daemons: DaemonHandlers
}

/** Maximum time in milliseconds to shut down a worker run that has lost its database. The next run begins after that. */
const lastWords = 10 * seconds

/**
 * Runs jobs, sweeps and periodic tasks until stopped. If the worker loses its database, this run of the worker ends.
 * The next run begins once the database is available again. Only the first start can fail.
 */
export const startWorker = async (options: WorkerOptions): Promise<Worker> => {
  const { log } = options
  const stopping = new AbortController()
  let life: Life | undefined = await live(options)
  let reason = 'starting'
  const watching = (async () => {
    for (;;) {
      await Promise.race([life.lost, aborted(stopping.signal)])
      if (stopping.signal.aborted) return
      log.error('worker_lost', { worker: life.id })
      const lost = life
      life = undefined
      reason = 'its database connection was lost'
      await lost.end('lost')
      try {
        life = await untilAvailable(() => live(options), {
          role: 'bursar_jobs',
          log,
          signal: stopping.signal,
          onWait: (known) => (reason = `the database cannot be reached: ${known}`),
          // A worker that was running waits after any error, because ending the process would not repair the database.
          reasonOf: (error) => outageOf(error) ?? 'it answers with an error',
        })
      } catch {
        return
      }
    }
  })()
  return {
    stop: async () => {
      stopping.abort()
      await watching
      await life?.end('stopped')
    },
    problem: () => (life ? undefined : `the worker does not run: ${reason}`),
  }
}

interface Life {
  readonly id: string
  /** Resolves when this worker can no longer rely on its locks and leases. */
  readonly lost: Promise<void>
  /** Ends this run of the worker. The wait after a lost connection has a timeout, because the connection may never answer. */
  end(how: 'stopped' | 'lost'): Promise<void>
}

/**
 * Starts one run of a worker. It holds an advisory lock, the liveness lock, on a connection of its own. If the process
 * dies, PostgreSQL releases the lock. Another worker then frees the jobs and leases within seconds.
 */
const live = async (options: WorkerOptions): Promise<Life> => {
  const { log, postgres, telemetry } = options
  const queue = openPool(options.url, 'bursar_jobs', {
    max: concurrency + 2,
    log,
    timeout_ms: options.timeout_ms,
    settings: { statement_timeout: 30_000, lock_timeout: 30_000 },
  })
  const lifeline = new pg.Client({
    connectionString: options.url.reveal(),
    application_name: 'bursar_worker_life',
    options: '-c role=bursar_jobs -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=2',
    keepAlive: true,
    connectionTimeoutMillis: options.timeout_ms,
    query_timeout: options.timeout_ms,
  })
  const { promise: lost, resolve: lose } = Promise.withResolvers<void>()
  lifeline.on('error', (error) => {
    log.warn('worker_lifeline_broken', { error })
    lose()
  })
  try {
    await lifeline.connect()
  } catch (error) {
    await queue.end()
    throw error
  }

  const taskList = Object.fromEntries(
    (Object.keys(catalogue) as JobName[]).map((name) => [
      name,
      async (payload: unknown, { job }: { job: { id: string; attempts: number } }) => {
        const elapsed = stopwatch()
        try {
          await (options.jobs[name] as (payload: unknown) => Promise<void>)(catalogue[name].payload.parse(payload))
          telemetry.job(name, 'done', elapsed())
        } catch (error) {
          if (error instanceof RunLater) {
            telemetry.job(name, 'done', elapsed())
            log.debug('job_postponed', { job: name, job_id: job.id, attempt: job.attempts, error })
            throw error
          }
          telemetry.job(name, 'failed', elapsed())
          log.warn('job_failed', { job: name, job_id: job.id, attempt: job.attempts, error })
          throw error
        }
      },
    ]),
  )
  const slots = openSlots()
  const happenings: WorkerEvents = new EventEmitter()
  happenings.on('job:start', ({ job }) => slots.fetched(job))
  happenings.on('worker:getJob:empty', slots.missed)
  happenings.on('worker:getJob:error', slots.missed)
  happenings.on('job:complete', ({ job }) => slots.done(job))
  const pool: WorkerPool = runTaskList(
    {
      concurrency,
      forbiddenFlags: slots.begin,
      events: happenings,
      noHandleSignals: true,
      pollInterval: 1 * seconds,
      logger: silentLogger(log),
      minResetLockedInterval: 10 * minutes,
      maxResetLockedInterval: 20 * minutes,
      // Disables batching, so that the completion of each job is awaited. A failed completion then ends the worker pool
      // instead of the process.
      preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    },
    taskList,
    queue,
  )
  pool.promise.then(lose, lose)
  const me = pool.id
  const stopping = new AbortController()
  const loops: Promise<void>[] = []
  const finishing: (() => Promise<unknown>)[] = []
  const finish = async () => {
    await Promise.all(loops)
    await Promise.all(finishing.map((finish) => finish()))
    await Promise.resolve(pool.gracefulShutdown()).catch(() => {})
    // Releases the remaining leases at once. If that fails, another worker releases them after the liveness lock is released.
    await postgres.transact((tx) => releaseLeases(tx, [me])).catch(() => {})
    await lifeline.end().catch(() => {})
    await queue.end().catch(() => {})
    log.info('worker_stopped', { worker: me })
  }
  const end = async (how: 'stopped' | 'lost') => {
    stopping.abort()
    const done = new AbortController()
    const finished = finish().finally(() => done.abort())
    if (how === 'stopped') return finished
    finished.catch((error: unknown) => log.warn('worker_not_finished', { worker: me, error }))
    // The queue's shutdown may wait for lost connections, so it is abandoned after a timeout. Other workers free the
    // jobs and leases of this worker, because its liveness lock is released.
    await pause(lastWords, done.signal)
    if (!done.signal.aborted) log.warn('worker_abandoned', { worker: me })
  }
  try {
    await lifeline.query(`select pg_advisory_lock(hashtextextended($1, 0))`, [me])
    await lifeline.query(`listen ${eventsChannel}`)
    await postgres.transact((tx) => enterLife(tx, me))
  } catch (error) {
    await end('lost')
    throw error
  }
  log.info('worker_started', { worker: me })

  const freed: (() => void)[] = []
  const repeat = (every: number, work: () => Promise<void>) =>
    loops.push(
      (async () => {
        while (!stopping.signal.aborted) {
          try {
            await work()
          } catch (error) {
            if (!stopping.signal.aborted) log.warn('sweep_failed', { error })
          }
          await pause(every, stopping.signal)
        }
      })(),
    )
  repeat(reapEvery, async () => {
    if (!(await holdsLife(lifeline))) return lose()
    if (await reap(me, queue, lifeline, postgres, log)) freed.forEach((listener) => listener())
  })
  repeat(tidyEvery, () => dropReplaced(queue))
  const names = Object.keys(sweeps) as SweepName[]
  const claimers = new Map(names.map((name) => [name, openClaimer(options, name, me, stopping.signal)]))
  finishing.push(() => Promise.all([...claimers.values()].map((claimer) => claimer.finish())))
  // An idle worker sends one statement for all its sweeps. Only sweeps with due rows claim some.
  repeat(sweepEvery, async () => {
    const due = await findDueTables(postgres.db, options.clock.wall())
    for (const name of names) if (due.has(sweeps[name].table)) claimers.get(name)!.start()
  })
  for (const name of Object.keys(periodicTasks) as PeriodicTaskName[]) repeat(periodicTasks[name].every_ms, () => options.periodicTasks[name]())
  const listeners: ((organization_id: string) => void)[] = []
  lifeline.on('notification', ({ payload }) => listeners.forEach((listener) => listener(payload ?? '')))
  const daemonLife: DaemonLife = {
    holder: me,
    signal: stopping.signal,
    onEvent: (listener) => void listeners.push(listener),
    onFreed: (listener) => void freed.push(listener),
  }
  for (const name of Object.keys(daemons) as DaemonName[]) loops.push(options.daemons[name](daemonLife))
  return { id: me, lost, end }
}

/** True if the connection still holds the liveness lock of this worker. */
const holdsLife = async (lifeline: pg.Client): Promise<boolean> => {
  const { rows } = await lifeline.query(`select 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted`)
  return rows.length > 0
}

const keyed = (Object.keys(catalogue) as JobName[]).filter((name) => catalogue[name].keyed)

/**
 * Deletes jobs that a later job of the same container has replaced, and that failed or lost their worker. They have lost
 * their key and are never tried again.
 */
export const dropReplaced = async (queue: Pick<pg.Pool, 'query'>): Promise<void> => {
  await queue.query(
    `delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t
     where t.id = j.task_id and t.identifier = any($1::text[]) and j.key is null and j.flags is not null and j.locked_at is null and j.attempts >= j.max_attempts`,
    [keyed],
  )
}

/** Frees the jobs and leases of dead workers, whose liveness locks are released. Returns true if it found a dead worker. */
const reap = async (me: string, queue: pg.Pool, lifeline: pg.Client, postgres: Postgres, log: Log): Promise<boolean> => {
  let reaped = false
  const { rows } = await queue.query<{ locked_by: string }>(
    `select distinct locked_by from graphile_worker._private_jobs where locked_by is not null and locked_at < now() - $1::float8 * interval '1 millisecond'`,
    [newborn],
  )
  const holders = new Set([...rows.map((row) => row.locked_by), ...(await leaseHolders(postgres.db))])
  for (const holder of holders) {
    if (holder === me) continue
    const got = await lifeline.query<{ dead: boolean }>(`select pg_try_advisory_lock(hashtextextended($1, 0)) as dead`, [holder])
    if (!got.rows[0]?.dead) continue
    try {
      await queue.query(`select graphile_worker.force_unlock_workers(array[$1])`, [holder])
      await dropReplaced(queue)
      await postgres.transact((tx) => releaseLeases(tx, [holder]))
      log.warn('worker_reaped', { worker: holder })
      reaped = true
    } finally {
      await lifeline.query(`select pg_advisory_unlock(hashtextextended($1, 0))`, [holder])
    }
  }
  return reaped
}

/** Migrates the tables of the queue, under the role that owns them. */
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

/** Resolves when the signal is aborted. Checks `aborted` first, because a signal that is already aborted fires no event. */
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
