import { pino, type DestinationStream } from 'pino'
import { tokenPatterns } from '../kernel/secrets.ts'

/**
 * The fields that a log line may have. Other fields cannot be logged. `route` is the template and never the URL,
 * because URLs contain secrets.
 */
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
  'mail',
  'mail_id',
  'worker',
  'role',
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

/** Opens a log of JSON lines with an allow-list of fields. Errors are reduced to name, code, stack frames and a scrubbed message. */
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
/** Maximum length of a text that is searched for secrets. Longer texts are cut, so that the search takes little time. */
const longest = 8000

/** Removes tokens, e-mail addresses and URLs from text that was not written by our own code, such as error messages. */
export const scrub = (text: string): string =>
  shorten(text)
    .replace(/\b[a-z]+:\/\/\S+/g, '[url]')
    .replace(secrets, '[redacted]')
    .replace(/[^\s"'<>()]+/g, (word) => (isAddress(word) ? '[address]' : word))
    .slice(0, 2000)

const isAddress = (word: string): boolean => {
  const at = word.indexOf('@', 1)
  return at > 0 && at < word.length - 1
}

/** Cuts a long text at a space. A cut inside a word could leave a part of a secret that no pattern matches. */
const shorten = (text: string): string => {
  if (text.length <= longest) return text
  let end = longest
  while (end > 0 && !/\s/.test(text[end - 1]!)) end--
  return text.slice(0, end)
}
