import { createMeter, getMeterQuantities, ingestEvents, listUsageEvents } from '@bursar/contract'
import { connect, type Client } from '@bursar/contract/client'
import { fairStopwatch } from './fair.ts'
import { exchange, type World } from './world.ts'

/** Events of one call of `sendEvents`. */
const perCall = 50

/** Opens shops that send usage events to an API process, and ask questions whose answers are known. */
export const openUsageLanes = (world: World, port: number) => {
  const figures = { sent: 0, calls: 0, answers: 0, wrong: 0, longest: 0 }
  const ended = new AbortController()
  return {
    figures,
    end: () => ended.abort(),
    openShop: async (): Promise<Client> => {
      const { organization } = await world.shop()
      const token = (await organization.token()).secret.reveal()
      return connect((request) => exchange(port, request.method, request.url, request.headers, request.body), { authorization: `Bearer ${token}` })
    },
    sendOne: async (client: Client) => {
      await client.call(ingestEvents, { body: { events: [{ name: 'call', external_customer_id: 'ada' }] } })
      figures.sent++
    },
    /** Sends events as fast as they are answered. */
    sendEvents: async (client: Client) => {
      while (!ended.signal.aborted) {
        const events = Array.from({ length: perCall }, (_, at) => ({
          name: 'call',
          external_customer_id: `customer-${at}`,
          metadata: { units: at, region: 'eu' },
        }))
        const { inserted } = await client.call(ingestEvents, { body: { events } })
        figures.sent += inserted
        figures.calls++
      }
    },
    /** Sends an event, and asks for all events with its region. Only this lane writes to its organization, so each answer is known. */
    ask: async (client: Client) => {
      const filter = { conjunction: 'and' as const, clauses: [] }
      const meter = await client.call(createMeter, { body: { name: 'Units', filter, aggregation: { func: 'sum', property: 'units' } } })
      const known = new Map<string, { count: number; units: number }>()
      for (let round = 1; !ended.signal.aborted; round++) {
        const region = `region-${round % 3}`
        const before = known.get(region) ?? { count: 0, units: 0 }
        const expected = { count: before.count + 1, units: before.units + round }
        known.set(region, expected)
        await client.call(ingestEvents, { body: { events: [{ name: 'call', external_customer_id: 'ada', metadata: { units: round, region } }] } })
        figures.sent++
        const metadata = { region: [region] }
        const end = Date.now() + 3_600_000
        const range = { start_timestamp: new Date(end - 86_400_000).toISOString(), end_timestamp: new Date(end).toISOString(), interval: 'day' as const }
        const elapsed = fairStopwatch()
        const { pagination } = await client.call(listUsageEvents, { query: { metadata, limit: 1 } })
        const listed = elapsed()
        const { total } = await client.call(getMeterQuantities, { params: { id: meter.id }, query: { ...range, metadata } })
        figures.longest = Math.max(figures.longest, listed, elapsed() - listed)
        for (const [found, wanted] of [
          [(pagination as { total_count: number }).total_count, expected.count],
          [total, expected.units],
        ]) {
          figures.answers++
          if (found !== wanted) figures.wrong++
        }
      }
    },
  }
}
