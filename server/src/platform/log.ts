import { pino, type DestinationStream } from 'pino'
import { tokenPatterns } from '../kernel/secrets.ts'

/** Everything a log line may say. A field that is not listed here cannot be logged. `route` is the template, never the address: addresses carry secrets. */
const words = [
  'request_id',
  'operation',
  'method',
  'route',
  'organization_id',
  'user_id',
  'payment_id',
  'account_id',
  'refund_id',
  'dispute_id',
  'subscription_id',
  'credential',
  'job',
  'job_id',
  'worker',
  'table',
  'version',
  'environment',
  'address',
  'reason',
] as const
const numbers = ['status', 'duration_ms', 'attempt', 'count'] as const

export type Fields = { [name in (typeof words)[number]]?: string } & { [name in (typeof numbers)[number]]?: number } & { error?: unknown }

export interface Log {
  debug(event: string, fields?: Fields): void
  info(event: string, fields?: Fields): void
  warn(event: string, fields?: Fields): void
  error(event: string, fields?: Fields): void
}

const allowed = new Set<string>([...words, ...numbers, 'error'])

/** JSON lines with an allow-list of fields. Errors are reduced to name, code, frames and a scrubbed message. */
export const openLog = (level: string, destination?: DestinationStream): Log => {
  const out = pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
    destination ?? pino.destination({ fd: 1, sync: false }),
  )
  const write =
    (at: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: Fields = {}) => {
      const kept = Object.fromEntries(
        Object.entries(fields)
          .filter(([name, value]) => allowed.has(name) && value !== undefined)
          .map(([name, value]) => [name, name === 'error' ? describeError(value) : name === 'reason' ? scrub(String(value)) : value]),
      )
      out[at](kept, event)
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

const describeError = (error: unknown): unknown => {
  if (!(error instanceof Error)) return { name: typeof error }
  const code = (error as { code?: unknown }).code
  const frames = (error.stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .map((line) => line.trim())
  return {
    name: error.name,
    ...(typeof code === 'string' ? { code } : {}),
    message: scrub(error.message),
    frames,
    ...(error.cause ? { cause: describeError(error.cause) } : {}),
  }
}

const secrets = new RegExp(tokenPatterns.map(({ pattern }) => pattern).join('|'), 'g')
const mailbox = /[^\s@"'<>()]+@[^\s@"'<>()]+/g

/** Takes tokens, mail addresses and connection strings out of text that somebody else wrote. */
export const scrub = (text: string): string =>
  text
    .replace(/\b[a-z]+:\/\/\S+/g, '[url]')
    .replace(secrets, '[redacted]')
    .replace(mailbox, '[address]')
    .slice(0, 2000)
