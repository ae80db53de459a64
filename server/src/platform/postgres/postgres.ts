import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import { seconds, type Clock, type WallClock } from '../clock.ts'
import type { Log } from '../log.ts'
import { endTransaction, newEnding, type Ending } from './ending.sql.ts'
import { exportSettings, openExporting, type Exporting } from './exporting.ts'
import { isStalePlan, prepareStatements } from './prepared.ts'
import { limitValues } from './values.ts'

/** The types of all tables. Each `.sql.ts` file adds the tables that it owns. */
// oxlint-disable-next-line typescript/no-empty-object-type -- filled by declaration merging
export interface Tables {}

/** Answers of outside services, asked before a transaction began. Each area adds the answers that it needs. */
export interface Answers {
  /**
   * The wall time at which the first run of the transaction began. Further runs use it as business time. Otherwise
   * amounts that depend on the time would differ from those in the question.
   */
  readonly asked_at: Date
}

/** Read access. The database rejects statements that write. */
export interface Db {
  readonly q: Kysely<Tables>
}

/**
 * A transaction. Functions that write take a transaction as a required parameter; there is no global one. Its clock has
 * the wall time only.
 */
export interface Tx extends Db {
  readonly q: Transaction<Tables>
  readonly clock: WallClock
  /** The rows that this transaction writes just before it commits, such as events and jobs. */
  readonly ending: Ending
  /** The answers of outside services that this run of the transaction may use. */
  readonly answers?: Answers
}

/**
 * A transaction with the business time of a customer, returned by `inTimeOf`. Functions that date periods, orders or
 * entitlements require it.
 */
export interface BusinessTx extends Tx {
  readonly clock: Clock
}

declare const locked: unique symbol
/** A row that this transaction has locked, so that it cannot change while a rule reads it. */
export type Locked<T> = T & { readonly [locked]: true }

export type Transact = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>

/** The serving roles. migrations/roles.sql creates them. */
export const roles = ['bursar_api', 'bursar_worker', 'bursar_jobs', 'bursar_processor'] as const
export type Role = (typeof roles)[number]

export interface Postgres {
  readonly db: Db
  readonly transact: Transact
  readonly exporting: Exporting
  /** The number of open and idle connections and of waiting callers, for metrics. */
  readonly use: () => { total: number; idle: number; waiting: number }
  readonly close: () => Promise<void>
}

/** Maximum number of concurrent exports in one process. */
const exportsAtOnce = 8

/**
 * Default timeout for acquiring a connection or a lock. The timeouts of statements and of idle transactions are
 * multiples of this value.
 */
const defaultTimeout = 5 * seconds

/** Opens a pool of connections that act under one role and have only its privileges. */
export const openPool = (
  url: Secret,
  role: Role,
  options: {
    max: number
    log: Log
    timeout_ms?: number
    readOnly?: boolean
    prepared?: boolean
    settings?: Record<string, string | number>
    onLost?: (() => void) | undefined
  },
): pg.Pool => {
  const timeout_ms = options.timeout_ms ?? defaultTimeout
  const settings = {
    role,
    search_path: 'public',
    timezone: 'UTC',
    lock_timeout: timeout_ms,
    statement_timeout: 3 * timeout_ms,
    idle_in_transaction_session_timeout: 4 * timeout_ms,
    ...(options.readOnly ? { default_transaction_read_only: 'on' } : {}),
    ...options.settings,
  }
  const pool = new pg.Pool({
    connectionString: url.reveal(),
    application_name: role,
    max: options.max,
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
    connectionTimeoutMillis: timeout_ms,
    idleTimeoutMillis: 30_000,
    types: { getTypeParser: parserOf },
  })
  const lost = (error: Error) => {
    options.log.warn('database_connection_lost', { role, error })
    options.onLost?.()
  }
  pool.on('error', lost)
  pool.on('connect', (client) => {
    client.on('error', lost)
    if (options.prepared) prepareStatements(client)
    limitValues(client)
  })
  return pool
}

export interface PostgresOptions {
  readonly max: number
  readonly clock: Clock
  readonly log: Log
  readonly timeout_ms?: number
  /** Prepares statements that come again. Not for connection poolers that do not support it. */
  readonly prepared?: boolean
  /** Called when a connection breaks. */
  readonly onLost?: () => void
}

export const openPostgres = (url: Secret, role: Role, options: PostgresOptions): Postgres => {
  const { log, onLost, timeout_ms = defaultTimeout, prepared = false } = options
  const readers = Math.max(1, Math.floor(options.max / 2))
  const reading = openPool(url, role, { max: readers, log, timeout_ms, onLost, prepared, readOnly: true })
  const writing = openPool(url, role, { max: Math.max(1, options.max - readers), log, timeout_ms, onLost, prepared })
  // Exports have a pool of their own, so that a slow reader takes no connection from other requests.
  const copying = openPool(url, role, { max: exportsAtOnce, log, timeout_ms, readOnly: true, settings: exportSettings })
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: reading }) })
  const write = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: writing }) })
  return {
    db: { q: read },
    transact: async (work) => {
      for (let attempt = 1; ; attempt++)
        try {
          return await runTransaction(write, options.clock, work)
        } catch (error) {
          if (attempt >= 4 || !isRaceLost(error)) throw error
        }
    },
    exporting: openExporting(copying, exportsAtOnce, log),
    use: () => ({
      total: reading.totalCount + writing.totalCount + copying.totalCount,
      idle: reading.idleCount + writing.idleCount + copying.idleCount,
      waiting: reading.waitingCount + writing.waitingCount + copying.waitingCount,
    }),
    close: async () => {
      await Promise.all([read.destroy(), write.destroy(), copying.end()])
    },
  }
}

/** Runs the work in one transaction, and writes its ending before the commit. */
export const runTransaction = <T>(database: Kysely<Tables>, clock: WallClock, work: (tx: Tx) => Promise<T>): Promise<T> =>
  database.transaction().execute(async (q) => {
    const tx: Tx = { q, clock, ending: newEnding() }
    const result = await work(tx)
    await endTransaction(tx)
    return result
  })

/** Runs several queries in one snapshot, so that they see the same state of the database. */
export const inSnapshot = <T>(db: Db, work: (db: Db) => Promise<T>): Promise<T> =>
  db.q
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute((q) => work({ q }))

/** Rolls the transaction back and runs it again, because a concurrent transaction committed first. */
export class RaceLost extends Error {
  readonly code = '40001'
}

/** True for a deadlock, a serialization failure or an outdated plan. The whole transaction was rolled back and can be retried. */
const isRaceLost = (error: unknown) => ['40001', '40P01'].includes((error as { code?: string }).code ?? '') || isStalePlan(error)

/** True for a violation of this unique constraint. */
export const isUniqueViolation = (error: unknown, constraint: string): boolean => {
  const refusal = error as { code?: string; constraint?: string }
  return refusal.code === '23505' && refusal.constraint === constraint
}

/** True for a foreign key violation. */
export const isForeignKeyViolation = (error: unknown): boolean => (error as { code?: string }).code === '23503'

const parseWhole = (text: string): number => {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError('a stored integer exceeds the safe range')
  return value
}

const int8: number = pg.types.builtins.INT8

/** Parses 64-bit integers as numbers, and throws if they are not safe integers. Other types use the driver's parsers. */
// oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the driver's own numbers, handed straight back to it
export const parserOf = ((oid: number, format?: 'text') => (oid === int8 ? parseWhole : pg.types.getTypeParser(oid, format))) as typeof pg.types.getTypeParser
