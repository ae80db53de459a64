import pg from 'pg'
import type { Secret } from '../../kernel/secrets.ts'
import type { Log } from '../log.ts'
import { outageOf, untilAvailable } from './outage.ts'

export interface ListenerOptions {
  readonly url: Secret
  readonly timeout_ms: number
  readonly log: Log
  readonly channel: string
  readonly onNotification: (payload: string) => void
  /** Called when the connection listens, for the first time and after it was lost. Notifications before that were missed. */
  readonly onConnected: () => void
}

export interface Listener {
  readonly close: () => Promise<void>
}

/** Listens on a notification channel with one connection of its own. Connects again whenever the connection is lost. */
export const openListener = ({ url, timeout_ms, log, channel, onNotification, onConnected }: ListenerOptions): Listener => {
  const closing = new AbortController()
  const connect = async () => {
    const client = new pg.Client({
      connectionString: url.reveal(),
      application_name: 'bursar_events',
      options: '-c role=bursar_api',
      keepAlive: true,
      connectionTimeoutMillis: timeout_ms,
      query_timeout: timeout_ms,
    })
    const { promise: lost, resolve } = Promise.withResolvers<void>()
    client.on('error', (error) => {
      log.warn('database_connection_lost', { role: 'bursar_api', error })
      resolve()
    })
    client.on('end', () => resolve())
    client.on('notification', ({ payload }) => onNotification(payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${channel}`)
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    return { client, lost }
  }
  const listen = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      let connection
      try {
        connection = await untilAvailable(connect, {
          role: 'bursar_api',
          log,
          signal: closing.signal,
          reasonOf: (error) => outageOf(error) ?? 'it answers with an error',
        })
      } catch {
        // The listener was closed while it waited for the database.
        return
      }
      const { client, lost } = connection
      const close = () => void client.end().catch(() => {})
      closing.signal.addEventListener('abort', close, { once: true })
      if (closing.signal.aborted) close()
      onConnected()
      await lost
      closing.signal.removeEventListener('abort', close)
      await client.end().catch(() => {})
    }
  }
  const listening = listen()
  return {
    close: async () => {
      closing.abort()
      await listening
    },
  }
}
