import { Logger, runMigrations, runTaskList, type WorkerPool } from 'graphile-worker'
import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import { minutes, seconds, stopwatch } from '../clock.ts'
import type { Log } from '../log.ts'
import { openPool, type Postgres } from '../postgres/postgres.ts'
import type { Telemetry } from '../telemetry.ts'
import { eventsChannel } from '../outbox/outbox.sql.ts'
import { catalogue, chores, engines, sweeps, type ChoreName, type EngineName, type JobName, type Payload, type SweepName } from './catalogue.ts'
import { claim, enterLife, leaseHolders, LeaseLost, releaseLeases, type Lease } from './leases.sql.ts'

export type JobHandlers = { readonly [N in JobName]: (payload: Payload<N>) => Promise<void> }
export type ChoreHandlers = { readonly [N in ChoreName]: () => Promise<void> }
export type SweepHandlers = { readonly [N in SweepName]: (lease: Lease) => Promise<void> }

/** What an engine is told about the worker that runs it. */
export interface EngineLife {
  /** Under which name it takes leases: others free them when this worker dies. */
  readonly holder: string
  /** Stops: finish what is under way, take nothing new, and return. */
  readonly signal: AbortSignal
  /** Calls back with the organization of every event that is committed from now on. Some may be missed. */
  readonly onEvent: (listener: (organization_id: string) => void) => void
  /** Calls back when the leases of a worker that died have been freed. */
  readonly onFreed: (listener: () => void) => void
}
export type EngineHandlers = { readonly [N in EngineName]: (life: EngineLife) => Promise<void> }

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

const concurrency = 8
const sweepEvery = 1 * seconds
const reapEvery = 250
/** A worker that has just started has taken its life lock after this long. */
const newborn = 2 * seconds

export interface WorkerOptions {
  readonly url: Secret
  readonly patience_ms: number
  readonly postgres: Postgres
  readonly jobs: JobHandlers
  readonly sweeps: SweepHandlers
  readonly chores: ChoreHandlers
  readonly engines: EngineHandlers
  readonly telemetry: Telemetry
  readonly log: Log
}

/**
 * Runs jobs, sweeps and chores, for as long as it is not stopped: a worker that loses its database is let go, and a new
 * one begins as soon as there is one again.
 */
export const startWorker = async (options: WorkerOptions): Promise<Worker> => {
  const { log } = options
  const stopping = new AbortController()
  let life = await live(options)
  const watching = (async () => {
    for (;;) {
      await Promise.race([life.lost, aborted(stopping.signal)])
      if (stopping.signal.aborted) return
      log.error('worker_lost', { worker: life.id })
      await life.end()
      while (!stopping.signal.aborted)
        try {
          life = await live(options)
          break
        } catch (error) {
          log.warn('worker_cannot_start', { error })
          await pause(1 * seconds, stopping.signal)
        }
    }
  })()
  return {
    stop: async () => {
      stopping.abort()
      await watching
      await life.end()
    },
  }
}

interface Life {
  readonly id: string
  /** Settles when this worker can no longer be trusted to hold what it has taken. */
  readonly lost: Promise<void>
  end(): Promise<void>
}

/**
 * One life of a worker. It is a lock on a connection of its own: when the process dies the lock goes with it, and any
 * other worker frees what it had taken, within seconds.
 */
const live = async (options: WorkerOptions): Promise<Life> => {
  const { log, postgres, telemetry } = options
  const queue = openPool(options.url, 'bursar_jobs', {
    max: concurrency + 2,
    log,
    patience_ms: options.patience_ms,
    settings: { statement_timeout: 30_000, lock_timeout: 30_000 },
  })
  const lifeline = new pg.Client({
    connectionString: options.url.reveal(),
    application_name: 'bursar_worker_life',
    options: '-c role=bursar_jobs -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=2',
    keepAlive: true,
    connectionTimeoutMillis: options.patience_ms,
    query_timeout: options.patience_ms,
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
      // Completions are awaited: one that fails ends the pool, where it would otherwise end the process.
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
  const end = async () => {
    stopping.abort()
    await Promise.all(loops)
    await Promise.all(finishing.map((finish) => finish()))
    await Promise.resolve(pool.gracefulShutdown()).catch(() => {})
    // What is left is given back at once; where that fails, another worker will see to it.
    await postgres.transact((tx) => releaseLeases(tx, [me])).catch(() => {})
    await lifeline.end().catch(() => {})
    await queue.end().catch(() => {})
    log.info('worker_stopped', { worker: me })
  }
  try {
    await lifeline.query(`select pg_advisory_lock(hashtextextended($1, 0))`, [me])
    await lifeline.query(`listen ${eventsChannel}`)
    await postgres.transact((tx) => enterLife(tx, me))
  } catch (error) {
    await end()
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
  for (const name of Object.keys(sweeps) as SweepName[]) {
    const { table, at_once, lease_ms } = sweeps[name]
    const running = new Set<Promise<void>>()
    repeat(sweepEvery, async () => {
      for (let more = true; more && !stopping.signal.aborted;) {
        // A quarter of the places being free is worth a claim: what takes long holds up its own place only.
        while (running.size > (at_once * 3) / 4) await Promise.race(running)
        const limit = at_once - running.size
        const leases = await claim(postgres.transact, table, { holder: me, limit, lease_ms })
        for (const lease of leases) {
          const one = sweepOne(options.sweeps[name], name, lease, log, telemetry).finally(() => void running.delete(one))
          running.add(one)
        }
        more = leases.length === limit
      }
    })
    finishing.push(() => Promise.all(running))
  }
  for (const name of Object.keys(chores) as ChoreName[]) repeat(chores[name].every_ms, () => options.chores[name]())
  const listeners: ((organization_id: string) => void)[] = []
  lifeline.on('notification', ({ payload }) => listeners.forEach((listener) => listener(payload ?? '')))
  const engineLife: EngineLife = {
    holder: me,
    signal: stopping.signal,
    onEvent: (listener) => void listeners.push(listener),
    onFreed: (listener) => void freed.push(listener),
  }
  for (const name of Object.keys(engines) as EngineName[]) loops.push(options.engines[name](engineLife))
  return { id: me, lost, end }
}

/** Whether the lock that stands for this worker's life is still held, by the connection that took it. */
const holdsLife = async (lifeline: pg.Client): Promise<boolean> => {
  const { rows } = await lifeline.query(`select 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted`)
  return rows.length > 0
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

/** Frees the jobs and leases of workers whose life lock is gone. True: there was one. */
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
      await postgres.transact((tx) => releaseLeases(tx, [holder]))
      log.warn('worker_reaped', { worker: holder })
      reaped = true
    } finally {
      await lifeline.query(`select pg_advisory_unlock(hashtextextended($1, 0))`, [holder])
    }
  }
  return reaped
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

const aborted = (signal: AbortSignal) => new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
