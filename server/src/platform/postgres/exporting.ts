import { Transform, pipeline } from 'node:stream'
import { accountLimits, InvalidRequest, ServiceUnavailable, TooManyRequests } from '@bursar/contract'
import type pg from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import { hours, minutes } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Export } from './exports.sql.ts'

/** An export in progress: its number of records, and its byte stream, whose first bytes are available. */
export interface Exported {
  readonly total: number
  readonly body: Transform
}
export type RunExport = (what: Export) => Promise<Exported>

export interface Exporting {
  /** Starts an export. `gone` is aborted when the reader disconnects. */
  readonly run: (what: Export, gone: AbortSignal) => Promise<Exported>
  /** Aborts all exports and starts no more. The readers' streams fail instead of ending regularly. */
  readonly stop: () => void
}

/** Maximum number of concurrent exports of one organization, over all processes. */
const atOnce = accountLimits.exports_at_once_per_organization
/** The maximum duration of an export, and the maximum time for which its reader may make no progress. */
const longest = 1 * hours
const timeout = 5 * minutes

/**
 * Settings of an export connection. Statements have no timeout, but the server checks regularly whether the client is
 * still connected. The planner is forced to read rows in index order. Sorting would be faster overall, but the first
 * byte would wait until all rows are sorted on disk. Parallel workers would take processors from other queries.
 */
export const exportSettings = {
  statement_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  client_connection_check_interval: 250,
  jit: 'off',
  max_parallel_workers_per_gather: 0,
  enable_sort: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
}

/**
 * Streams the output of a COPY in one read-only snapshot. The response starts only with the first bytes, so that earlier
 * errors are reported as such. Later errors end the stream with an error, never with a regular end. If the reader
 * disconnects, the connection is closed, and the server stops the query at once.
 */
export const openExporting = (pool: pg.Pool, most: number, log: Log): Exporting => {
  const breaks = new Set<(reason: Error) => void>()
  let stopped = false

  const run: Exporting['run'] = async (what, gone) => {
    if (stopped) throw new ServiceUnavailable(undefined, { 'retry-after': '1' })
    if (pool.totalCount >= most && pool.idleCount === 0)
      throw new ServiceUnavailable('The maximum number of exports is in progress. Try again shortly.', { 'retry-after': '15' })
    const client = await pool.connect()
    const body = withLineEnds()
    // This listener does nothing, because others handle the error. An error event without any listener would end the process.
    body.on('error', () => undefined)
    let held = true
    /** Closes the connection, so that the server notices and stops the query. */
    const breakOff = (reason: Error): void => {
      body.destroy(reason)
      // Closes the connection only while this export holds it. After its return to the pool, the connection may be in use elsewhere.
      if (held) (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
    }
    const giveBack = (error?: Error): void => {
      held = false
      client.release(error)
    }
    const left = () => breakOff(new Error('the reader of the export disconnected'))
    let seen = -1
    const watching = setInterval(() => {
      if (body.readableLength > 0 && seen === body.passed + body.readableLength) breakOff(new Error('the reader of the export stopped reading'))
      seen = body.passed + body.readableLength
    }, timeout).unref()
    const ending = setTimeout(() => breakOff(new Error('reading the export took too long')), longest).unref()
    breaks.add(breakOff)
    gone.addEventListener('abort', left)
    body.once('close', () => {
      clearInterval(watching)
      clearTimeout(ending)
      breaks.delete(breakOff)
      gone.removeEventListener('abort', left)
    })
    let copying = false
    const finish = (how: 'commit' | 'rollback'): void => void client.query(how).then(() => giveBack(), giveBack)
    try {
      if (gone.aborted) left()
      if (stopped) breakOff(new Error('the process is shutting down'))
      await client.query('begin isolation level repeatable read read only')
      await prepare(client, what)
      const { rows } = await client.query<{ total: number }>(what.count)
      copying = true
      pipeline(client.query(copyTo(what.copy, { highWaterMark: 256 * 1024 })), body, (error) => {
        if (!error) return finish('commit')
        if (!gone.aborted) log.warn('export_broken', { error })
        breakOff(error)
        giveBack(error)
      })
      await begun(body)
      return { total: rows[0]!.total, body }
    } catch (error) {
      if (!copying) finish('rollback')
      body.destroy()
      throw error
    }
  }
  return {
    run,
    stop: () => {
      stopped = true
      for (const breakOff of breaks) breakOff(new Error('the process is shutting down'))
    },
  }
}

const prepare = async (client: pg.PoolClient, { asked, timezone, organizations }: Export): Promise<void> => {
  const { rows } = await client
    .query<{ free: boolean | null }>(
      // Takes one of the organization's export slots. The advisory locks are released when the transaction ends.
      `select bool_and(
        ${Array.from({ length: atOnce }, (_, at) => `pg_try_advisory_xact_lock(hashtextextended('export ' || organization || ' ${at}', 0))`).join(' or ')}
      ) as free, set_config('bursar.export', $2, true), set_config('timezone', $3, true) from unnest($1::text[]) organization`,
      [organizations, JSON.stringify(asked), timezone],
    )
    .catch((error: unknown) => {
      if ((error as { code?: string }).code !== '22023') throw error
      throw new InvalidRequest({ loc: ['query', 'timezone'], msg: 'The database does not know this time zone.', type: 'value_error', input: timezone })
    })
  if (rows[0]!.free === false)
    throw new TooManyRequests(`Two exports of this organization are in progress. Wait until one has ended, and try again.`, { 'retry-after': '5' })
}

/** Resolves when the first bytes are available, or when the export is empty. */
const begun = (body: Transform): Promise<void> =>
  new Promise((resolve, reject) => {
    body.once('readable', () => {
      body.off('error', reject)
      resolve()
    })
    body.once('error', reject)
  })

/** Ends every line with CR and LF, but not the line breaks within quoted cells. */
const withLineEnds = (): Transform & { passed: number } => {
  let [first, quoted] = [true, false]
  const lines: Transform & { passed: number } = Object.assign(
    new Transform({
      highWaterMark: 256 * 1024,
      transform: (chunk: Buffer, _, done) => {
        lines.passed += chunk.length
        // latin1 maps each byte to one character. Bytes of multi-byte characters are never a quote or a line break.
        let text = chunk.toString('latin1')
        // Some spreadsheets take a file that begins with "ID" for the SYLK format.
        if (first) text = text.replace(/^ID(?=[,\n])/, '"ID"')
        first = false
        const parts = text.split('"')
        for (let at = 0; at < parts.length; at++) {
          if (at > 0) quoted = !quoted
          if (!quoted) parts[at] = parts[at]!.replaceAll('\n', '\r\n')
        }
        done(null, Buffer.from(parts.join('"'), 'latin1'))
      },
    }),
    { passed: 0 },
  )
  return lines
}
