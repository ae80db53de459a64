import { chance } from '../../kernel/secrets.ts'
import { seconds, stopwatch } from '../clock.ts'
import type { Log } from '../log.ts'
import { pause } from '../pause.ts'
import type { Role } from './postgres.ts'

const reasons: readonly { readonly codes: RegExp; readonly reason: string }[] = [
  { codes: /^(ECONNREFUSED|ECONNRESET|EPIPE)$/, reason: 'it refuses connections' },
  { codes: /^57P03$/, reason: 'it is starting, stopping or recovering' },
  { codes: /^(57P01|57P02|57P05|08(?!P01)...)$/, reason: 'it closed the connection' },
  { codes: /^53300$/, reason: 'it has too many connections already' },
  { codes: /^53...$/, reason: 'it is out of memory or disk space' },
  { codes: /^(ETIMEDOUT|57014|55P03)$/, reason: 'it does not answer in time' },
  { codes: /^(EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN)$/, reason: 'there is no route to its host' },
  // The host name of a stopped container cannot be resolved. An unknown host name can therefore be an outage.
  { codes: /^(ENOTFOUND|EAI_AGAIN)$/, reason: 'the name of its host cannot be resolved' },
]

/** Describes why the database is unavailable. Undefined if waiting would not help: a wrong password, a missing database or an invalid statement. */
export const outageOf = (error: unknown): string | undefined => {
  if (!(error instanceof Error)) return undefined
  const { code = '', severity, syscall } = error as { code?: string; severity?: string; syscall?: string }
  const known = reasons.find(({ codes }) => codes.test(code))
  if (known) return known.reason
  // The Unix socket of a stopped PostgreSQL server does not exist.
  if (code === 'ENOENT' && syscall === 'connect') return 'it refuses connections'
  // A connection pooler ends sessions with this code. PostgreSQL itself refuses an invalid message with it, and a retry would send the same message.
  if (code === '08P01' && severity === 'FATAL') return 'it closed the connection'
  if (code === '55000' && severity === 'FATAL') return 'it accepts no connections at the moment'
  if (/timeout exceeded when trying to connect|connection timeout|timeout expired|Query read timeout/.test(error.message)) return 'it does not answer in time'
  if (/Connection terminated|is not queryable/.test(error.message)) return 'it closed the connection'
  return undefined
}

/**
 * True if a retry of the statement may succeed: the database is unavailable, or it ended the session. A failed login
 * counts too, because this process has logged in successfully before.
 */
export const isUnavailable = (error: unknown): boolean => outageOf(error) !== undefined || (error as { severity?: string }).severity === 'FATAL'

/** True if a statement or its wait for a lock took too long. The same work in smaller transactions may succeed. */
export const tookTooLong = (error: unknown): boolean => ['55P03', '57014'].includes((error as { code?: string }).code ?? '')

const leftByQueue = /^This batcher has been released|^Release called on client which has already been released/

/**
 * True if an unhandled rejection comes from a broken database connection inside a library. Our code cannot catch it
 * there. graphile-worker causes such rejections when it shuts down without a database. Other workers free its jobs when
 * the worker's liveness lock is released.
 */
export const isDriverError = (error: unknown): boolean =>
  error instanceof Error && (leftByQueue.test(error.message) || (outageOf(error) !== undefined && /[\\/](pg|pg-pool|pg-protocol)[\\/]/.test(error.stack ?? '')))

/** Thrown by a wait for the database when the process must stop. */
export class WaitStopped extends Error {
  constructor() {
    super('stopped while waiting for the database')
  }
}

const firstWait = 100
const longestWait = 5 * seconds
const sayAgainAfter = 30 * seconds

/**
 * Returns the wait before the next attempt. The wait doubles up to five seconds, with jitter, so that processes do not
 * reconnect all at once.
 */
const backoff = (attempt: number): number => Math.min(longestWait, firstWait * 2 ** (attempt - 1)) * (0.5 + chance() / 2)

export interface WaitOptions {
  readonly role: Role
  readonly log: Log
  readonly signal: AbortSignal
  /** Called before each wait, with the reason for the outage. */
  readonly onWait?: (reason: string) => void
  /** Returns the reason to wait after an error. If it returns undefined, the error is thrown and the wait ends. */
  readonly reasonOf?: (error: unknown) => string | undefined
}

/**
 * Repeats `work` until the database is available. Logs the reason of an outage when it changes and every 30 seconds,
 * and logs the end of the outage. Throws any other error at once.
 */
export const untilAvailable = async <T>(work: () => Promise<T>, { role, log, signal, onWait, reasonOf = outageOf }: WaitOptions): Promise<T> => {
  const elapsed = stopwatch()
  let said: { reason: string; at: number } | undefined
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) throw new WaitStopped()
    try {
      const result = await work()
      if (said) log.info('database_available', { role, attempt, duration_ms: Math.round(elapsed()) })
      return result
    } catch (error) {
      const reason = reasonOf(error)
      if (reason === undefined) throw error
      onWait?.(reason)
      if (said?.reason !== reason || elapsed() - said.at >= sayAgainAfter) {
        log.warn('database_unavailable', { role, reason, attempt, duration_ms: Math.round(elapsed()), error })
        said = { reason, at: elapsed() }
      }
      await pause(backoff(attempt), signal)
    }
  }
}

/** Watches the database during an outage, and logs the outage and its end. */
export interface Watch {
  /** Called when a connection breaks. Starts the watch. */
  readonly suspect: () => void
  readonly close: () => Promise<void>
}

/** Opens a watch. After a call of `suspect`, it probes the database until the database answers. */
export const openWatch = (probe: () => Promise<unknown>, role: Role, log: Log): Watch => {
  const closing = new AbortController()
  let watching: Promise<void> | undefined
  const look = async (): Promise<void> => {
    try {
      await untilAvailable(probe, {
        role,
        log,
        signal: closing.signal,
        reasonOf: (error) => outageOf(error) ?? 'it answers with an error',
      })
    } catch {
      // An error after `close` is ignored, because the watch was closed while it waited.
    }
    watching = undefined
  }
  return {
    suspect: () => {
      if (!closing.signal.aborted) watching ??= look()
    },
    close: async () => {
      closing.abort()
      await watching
    },
  }
}
