import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import { seconds, type Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { exportSettings, openExporting, type Exporting } from './exporting.ts'

/** Every table, declared by the `.sql.ts` file that keeps it. */
// oxlint-disable-next-line typescript/no-empty-object-type -- filled by declaration merging
export interface Tables {}

/** Read access: a statement that would write is refused by the database. */
export interface Db {
  readonly q: Kysely<Tables>
}

/** A transaction, handed to whoever may write. Never optional, never global. */
export interface Tx extends Db {
  readonly q: Transaction<Tables>
  readonly clock: Clock
}

declare const locked: unique symbol
/** A row that this transaction holds a lock on: it cannot change under the rule that reads it. */
export type Locked<T> = T & { readonly [locked]: true }

export type Transact = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>

/** Those who serve; migrations/roles.sql makes them. */
export const roles = ['bursar_api', 'bursar_worker', 'bursar_jobs', 'bursar_processor'] as const
export type Role = (typeof roles)[number]

export interface Postgres {
  readonly db: Db
  readonly transact: Transact
  readonly exporting: Exporting
  /** Connections in use and waiting, for the metrics. */
  readonly use: () => { total: number; idle: number; waiting: number }
  readonly close: () => Promise<void>
}

/** How many exports one process makes at a time. */
const exportsAtOnce = 8

/** How long somebody waits for a connection or for a lock, unless it is said; a statement and a pause in a transaction may take a little longer. */
const usualPatience = 5 * seconds

/** One pool of connections that act under one role and can do no more than that role. */
export const openPool = (
  url: Secret,
  role: Role,
  options: { max: number; log: Log; patience_ms?: number; readOnly?: boolean; settings?: Record<string, string | number> },
): pg.Pool => {
  const patience_ms = options.patience_ms ?? usualPatience
  const settings = {
    role,
    search_path: 'public',
    timezone: 'UTC',
    lock_timeout: patience_ms,
    statement_timeout: 3 * patience_ms,
    idle_in_transaction_session_timeout: 4 * patience_ms,
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
    connectionTimeoutMillis: patience_ms,
    idleTimeoutMillis: 30_000,
    types: { getTypeParser: parserOf },
  })
  const lost = (error: Error) => options.log.warn('database_connection_lost', { error })
  pool.on('error', lost)
  pool.on('connect', (client) => void client.on('error', lost))
  return pool
}

export const openPostgres = (url: Secret, role: Role, options: { max: number; clock: Clock; log: Log; patience_ms?: number }): Postgres => {
  const { log, patience_ms = usualPatience } = options
  const readers = Math.max(1, Math.floor(options.max / 2))
  const reading = openPool(url, role, { max: readers, log, patience_ms, readOnly: true })
  const writing = openPool(url, role, { max: Math.max(1, options.max - readers), log, patience_ms })
  // Of their own, opened when somebody exports: a slow reader takes no connection from anybody else.
  const copying = openPool(url, role, { max: exportsAtOnce, log, patience_ms, readOnly: true, settings: exportSettings })
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: reading }) })
  const write = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: writing }) })
  return {
    db: { q: read },
    transact: async (work) => {
      for (let attempt = 1; ; attempt++)
        try {
          return await write.transaction().execute((q) => work({ q, clock: options.clock }))
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

/** Reads everything as it is at one moment, however many statements that takes. */
export const inSnapshot = <T>(db: Db, work: (db: Db) => Promise<T>): Promise<T> =>
  db.q
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute((q) => work({ q }))

/** Deadlock or serialization failure: the whole transaction was undone and can be tried again. */
const isRaceLost = (error: unknown) => ['40001', '40P01'].includes((error as { code?: string }).code ?? '')

/** Whether the database refused a row because another one already stands there. */
export const isTwin = (error: unknown, constraint: string): boolean => {
  const refusal = error as { code?: string; constraint?: string }
  return refusal.code === '23505' && refusal.constraint === constraint
}

/** Whether the database refused to remove a row because another one refers to it. */
export const isReferred = (error: unknown): boolean => (error as { code?: string }).code === '23503'

const passing = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', '57P01', '57P02', '57P03', '57014', '55P03', '53300', '53200', '08006', '08001']

/** The database is unreachable, overloaded, or gave up waiting: a retry may succeed. */
export const isUnavailable = (error: unknown): boolean => {
  const { severity, code = '' } = error as { severity?: string; code?: string }
  return (
    severity === 'FATAL' ||
    passing.includes(code) ||
    (error instanceof Error && /timeout exceeded when trying to connect|Connection terminated|is not queryable/.test(error.message))
  )
}

const parseWhole = (text: string): number => {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError('a stored whole number is beyond what can be computed with exactly')
  return value
}

const int8: number = pg.types.builtins.INT8

/** Whole numbers of 64 bits arrive as numbers, or not at all; everything else as the driver has it. */
// oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the driver's own numbers, handed straight back to it
const parserOf = ((oid: number, format?: 'text') => (oid === int8 ? parseWhole : pg.types.getTypeParser(oid, format))) as typeof pg.types.getTypeParser
