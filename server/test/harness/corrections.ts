import { correctEvents, createCustomer, createMeter, ingestEvents, type Aggregation, type Filter, type Meter } from '@bursar/contract'
import { within } from '../../src/kernel/actors.ts'
import { loadConsumed } from '../../src/modules/usage/index.ts'
import { openDeployment, openLife } from './crashes.ts'
import { openWorld, type World } from './world.ts'

export type Shop = Awaited<ReturnType<World['shop']>>
export type Correction = Record<string, unknown>

const all: Filter = { conjunction: 'and', clauses: [] }
export const aggregations: readonly Aggregation[] = [
  { func: 'count' },
  ...(['sum', 'max', 'min', 'avg', 'unique'] as const).map((func) => ({ func, property: 'units' })),
]
export const meterOf = (shop: Shop, aggregation: Aggregation) => shop.api.call(createMeter, { body: { name: 'Meter', filter: all, aggregation } })
/** Makes a meter of each function. */
export const metersOf = (shop: Shop) => Promise.all(aggregations.map((aggregation) => meterOf(shop, aggregation)))
export const customerOf = (shop: Shop, external_id: string) => shop.api.call(createCustomer, { body: { email: `${external_id}@people.test`, external_id } })
export const correct = (shop: Shop, ...corrections: Correction[]) => shop.api.call(correctEvents, { body: { corrections: corrections as never } })
export const voiding = (event_id: string): Correction => ({ action: 'void', event_id, reason: 'sent by mistake' })
export const replacing = (event_id: string, replacement: Record<string, unknown>): Correction => ({
  action: 'replace',
  event_id,
  reason: 'wrong number',
  replacement,
})

export const start = Date.UTC(2026, 0, 5, 10, 7, 30)
/** Sends events of one customer with the external ids e0, e1, …, one for each number, at a distance of `step` milliseconds. */
export const send = (shop: Shop, customer_id: string, units: readonly unknown[], step = 60_000) =>
  shop.api.call(ingestEvents, {
    body: {
      events: units.map((value, at) => ({
        name: 'call',
        customer_id,
        external_id: `e${at}`,
        timestamp: new Date(start + at * step).toISOString(),
        metadata: { units: value as number },
      })),
    },
  })

/** Opens a system whose totals are merged and backfilled by the test. */
export const openUsage = async () => {
  const world = await openWorld()
  const deployment = await openDeployment(world, openLife(null))
  return {
    world,
    deployment,
    backfill: async () => {
      for (let round = 0; round < 20; round++) await deployment.sweep('usage.backfill_meters')
    },
    /** Returns the quantities of all time. */
    consumedOf: (shop: Shop, customer_id: string, meters: readonly Pick<Meter, 'id' | 'filter' | 'aggregation'>[]) => {
      const { id: organization_id } = shop.organization
      const asked = meters.map((meter) => ({ organization_id, customer_id, meter, since: null, until: null }))
      return loadConsumed(world.api.postgres.db, within(organization_id, 'machine', 'before'), asked)
    },
    close: async () => {
      await deployment.close()
      await world.close()
    },
  }
}
export type Usage = Awaited<ReturnType<typeof openUsage>>
