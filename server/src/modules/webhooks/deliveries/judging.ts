import { days, later } from '../../../platform/clock.ts'
import type { Transact } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { lockEndpointOf, markHealth } from '../endpoints/endpoints.sql.ts'
import { pause } from '../endpoints/endpoints.ts'
import { type Outcome } from '../records/deliveries.sql.ts'

const failingFor = 3 * days

/** Endpoints with a failed delivery by this worker since their last success. The row of such an endpoint may have `failing_since` set. */
const suspects = new Set<string>()

/**
 * Records since when an endpoint has accepted no delivery. Disables it after three days without success, or when it
 * answers 410. Results for an old URL are ignored if the URL was changed since.
 */
export const judge = async ({ transact, platform }: Deps, outcomes: readonly Outcome[]): Promise<void> => {
  try {
    const now = platform.clock.wall()
    const tried = outcomes.filter(({ attempt }) => attempt !== null)
    const verdicts = (own: readonly Outcome[]) => [...Map.groupBy(own, ({ claimed }) => claimed.endpoint_id).values()].map(([first]) => first!.claimed)
    const good = verdicts(tried.filter(({ status }) => status === 'delivered'))
    const bad = verdicts(tried).filter(({ endpoint_id }) => !good.some((one) => one.endpoint_id === endpoint_id))
    for (const { endpoint_id } of bad) suspects.add(endpoint_id)
    const cleared = good.filter(({ endpoint_id, failing_since }) => failing_since !== null || suspects.delete(endpoint_id))
    if (cleared.length > 0 || bad.length > 0) {
      const overdue = await transact((tx) => markHealth(tx, cleared, bad, now, later(now, -failingFor)))
      for (const { organization_id, id } of overdue) await switchOff(transact, organization_id, id, 'failing')
    }
    for (const { claimed } of tried.filter(({ attempt }) => attempt?.http_code === 410))
      await switchOff(transact, claimed.organization_id, claimed.endpoint_id, 'gone', claimed.url)
    if (suspects.size > 100_000) suspects.clear()
  } catch (error) {
    platform.log.warn('webhooks_judging_failed', { error })
  }
}

const switchOff = (transact: Transact, organization_id: string, id: string, reason: 'failing' | 'gone', url?: string): Promise<void> =>
  transact(async (tx) => {
    const endpoint = await lockEndpointOf(tx, organization_id, id)
    if (endpoint && (url === undefined || endpoint.url === url)) await pause(tx, endpoint, reason)
  })
