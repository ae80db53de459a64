import type { Config } from '../../platform/config.ts'
import type { EventStore } from './event-store.ts'

/** Opens the store for the copy of the usage events. Undefined if none is configured, and PostgreSQL answers every question. */
export const openEventStore = async ({ event_store_urls }: Pick<Config, 'event_store_urls'>): Promise<EventStore | undefined> => {
  if (event_store_urls.length === 0) return undefined
  // Imports the client only for deployments that use it.
  const { openClickHouse } = await import('./clickhouse.ts')
  const servers = event_store_urls.map(openClickHouse)
  return {
    // The order of the servers does not make another store.
    address: servers
      .map(({ address }) => address)
      .toSorted()
      .join(','),
    servers,
    close: async () => {
      for (const server of servers) await server.close()
    },
  }
}
