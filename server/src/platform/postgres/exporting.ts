import { Transform, pipeline } from 'node:stream'
import { InvalidRequest, ServiceUnavailable, TooManyRequests } from '@bursar/contract'
import type pg from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import { hours, minutes } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Export } from './exports.sql.ts'

/** A file that is being made: how many records it will hold, and its bytes, of which the first are there already. */
export interface Exported {
  readonly total: number
  readonly body: Transform
}
export type RunExport = (what: Export) => Promise<Exported>

export interface Exporting {
  /** Makes a file for a reader; `gone` says when they have left, however far it has come. */
  readonly run: (what: Export, gone: AbortSignal) => Promise<Exported>
  /** Breaks off whatever is under way, and begins nothing more: whoever was reading sees that the end is missing. */
  readonly stop: () => void
}

/** How many exports of one organization run at a time, over all processes. */
const atOnce = 2
/** Nobody holds a snapshot for longer than this, nor at all for whoever takes nothing for as long as that. */
const longest = 1 * hours
const patience = 5 * minutes

/**
 * How a connection is set that exports: it may take its time, but looks every now and then whether we are still there;
 * and it goes along the index that has the lines in their order, row by row. Sorting would be faster on the whole, but
 * nothing would leave before everything is sorted, on disk, and several processors would be taken from everybody else.
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
 * Streams what a COPY writes, in one snapshot that can change nothing. Nothing is answered before the first bytes are
 * here, so that whatever is wrong is told as such; what goes wrong later ends the stream with an error and never with a
 * clean end. Whoever goes away ends the query: its connection is cut, which the server notices at once.
 */
export const openExporting = (pool: pg.Pool, most: number, log: Log): Exporting => {
  const breaks = new Set<(reason: Error) => void>()
  let stopped = false

  const run: Exporting['run'] = async (what, gone) => {
    if (stopped) throw new ServiceUnavailable(undefined, { 'retry-after': '1' })
    if (pool.totalCount >= most && pool.idleCount === 0)
      throw new ServiceUnavailable('As many exports as can be made at a time are under way. Try again shortly.', { 'retry-after': '15' })
    const client = await pool.connect()
    const body = withLineEnds()
    // Whoever is to hear of it does; an error that nobody hears would end the process.
    body.on('error', () => undefined)
    let held = true
    /** Ends the query with its connection: the server sees that nobody listens and stops, whatever it was doing. */
    const breakOff = (reason: Error): void => {
      body.destroy(reason)
      // What was given back may be somebody else's by now.
      if (held) (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
    }
    const giveBack = (error?: Error): void => {
      held = false
      client.release(error)
    }
    const left = () => breakOff(new Error('the reader of an export has left'))
    let seen = -1
    const watching = setInterval(() => {
      if (body.readableLength > 0 && seen === body.passed + body.readableLength) breakOff(new Error('nobody takes what an export writes'))
      seen = body.passed + body.readableLength
    }, patience).unref()
    const ending = setTimeout(() => breakOff(new Error('an export took too long to be read')), longest).unref()
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
      if (stopped) breakOff(new Error('the process is ending'))
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
      for (const breakOff of breaks) breakOff(new Error('the process is ending'))
    },
  }
}

const prepare = async (client: pg.PoolClient, { asked, timezone, organizations }: Export): Promise<void> => {
  const { rows } = await client
    .query<{ free: boolean | null }>(
      // Held until the transaction ends, however it ends.
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
    throw new TooManyRequests(`Two exports of this organization are under way: wait until one has ended, and send this again.`, { 'retry-after': '5' })
}

/** The first bytes are there, or everything went well without any. */
const begun = (body: Transform): Promise<void> =>
  new Promise((resolve, reject) => {
    body.once('readable', () => {
      body.off('error', reject)
      resolve()
    })
    body.once('error', reject)
  })

/** Ends every line with CR and LF, and leaves alone the line ends that belong to a quoted cell. */
const withLineEnds = (): Transform & { passed: number } => {
  let [first, quoted] = [true, false]
  const lines: Transform & { passed: number } = Object.assign(
    new Transform({
      highWaterMark: 256 * 1024,
      transform: (chunk: Buffer, _, done) => {
        lines.passed += chunk.length
        // One character for each byte: what is inside a character of several bytes is never a quote or a line end.
        let text = chunk.toString('latin1')
        // A file that begins with these two letters is another format to some spreadsheets.
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
