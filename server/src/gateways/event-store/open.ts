import type { Config } from '../../platform/config.ts'
import type { EventStore } from './event-store.ts'

/** Opens the store for the copy of the usage events. Undefined if none is configured, and PostgreSQL answers every question. */
export const openEventStore = async ({ event_store_url }: Pick<Config, 'event_store_url'>): Promise<EventStore | undefined> => {
  if (!event_store_url) return undefined
  // Imports the client only for deployments that use it.
  const { openClickHouse } = await import('./clickhouse.ts')
  return openClickHouse(event_store_url)
}
