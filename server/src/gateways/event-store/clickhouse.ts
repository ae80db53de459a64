import { Readable } from 'node:stream'
import { ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client'
import type { Config } from '../../platform/config.ts'
import { minutes, seconds } from '../../platform/clock.ts'
import { EventStoreSilent, EventStoreTableMissing, EventStoreUnavailable, type EventServer } from './event-store.ts'

/** Longest time of a statement that changes the store. A chunk of the copy takes far less. */
const statementTimeout = 20 * seconds
/** Longest time of a question. Most callers wait for a far shorter time. */
const longestQuestion = 10 * minutes

/** Time in which the server tells that it has given up a question. */
const answerMargin = 0.5 * seconds

/** The codes of ClickHouse for an unknown table and an unknown database. */
const missing = ['60', '81']

/** The code of an error that the server answered. Servers of 2018 send it only in the text, which the client does not parse. */
const codeOf = (error: Error): string | undefined => (error instanceof ClickHouseError ? error.code : /^Code: (\d+),/.exec(error.message)?.[1])

/** Opens a client of a ClickHouse server. It connects with the first statement. */
export const openClickHouse = (url: Config['event_store_urls'][number]): EventServer => {
  const { protocol, host, pathname } = new URL(url.reveal())
  const client = createClient({
    url: url.reveal(),
    request_timeout: longestQuestion,
    application: 'bursar',
    // The caller logs failures.
    log: { level: ClickHouseLogLevel.OFF },
  })
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      const message = error instanceof Error ? error.message.slice(0, 500) : 'The request failed.'
      const code = error instanceof Error ? codeOf(error) : undefined
      if (code === undefined) throw new EventStoreSilent(message, { cause: error })
      throw missing.includes(code) ? new EventStoreTableMissing(message, { cause: error }) : new EventStoreUnavailable(message, { cause: error })
    }
  }
  return {
    address: `${protocol}//${host}${pathname}`,
    run: (statement) => attempt(async () => void (await client.command({ query: statement, abort_signal: AbortSignal.timeout(statementTimeout) }))),
    wait: (statement, name, timeout_ms) =>
      attempt(async () => void (await client.command({ query: statement, query_id: name, abort_signal: AbortSignal.timeout(timeout_ms) }))),
    insert: (table, rows, name) =>
      attempt(
        async () =>
          void (await client.insert({
            table,
            values: Readable.from(rows, { objectMode: true }),
            format: 'JSONEachRow',
            query_id: name,
            abort_signal: AbortSignal.timeout(statementTimeout),
            // Replicas would ignore rows that were inserted before, even if they were deleted since.
            clickhouse_settings: { insert_deduplicate: 0 },
          })),
      ),
    ask: (question, timeout_ms) =>
      attempt(async () => {
        const result = await client.query({
          query: question,
          format: 'JSONCompact',
          abort_signal: AbortSignal.timeout(timeout_ms),
          // The server stops before the timeout. Otherwise abandoned questions would slow down the others.
          clickhouse_settings: { max_execution_time: Math.max(1, Math.floor((timeout_ms - answerMargin) / seconds)) },
        })
        const { data, totals } = await result.json<unknown[]>()
        return { rows: data, totals }
      }),
    close: () => client.close(),
  }
}
