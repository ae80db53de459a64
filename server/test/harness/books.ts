import { openTestProcessor } from '../../src/gateways/payments/test/processor.ts'
import type { World } from './world.ts'

/** The fields of a checkout that a simulated buyer needs. */
export interface Ticket {
  readonly id: string
  readonly client_secret: string
}

/** Reads charges, refunds and disputes from the test processor's own records, for one organization or for all. */
export const readBooks = async (world: World, organization_id?: string) => {
  const processor = openTestProcessor({
    url: world.config.database_url,
    environment: 'sandbox',
    clock: world.clock,
    log: world.base.log,
    timeout_ms: world.config.database_timeout_ms,
  })
  const { charges, refunds, disputes } = await processor.books()
  await processor.close()
  const own = <T extends { metadata: Readonly<Record<string, string>> }>(rows: readonly T[]) =>
    rows.filter(({ metadata }) => organization_id === undefined || metadata.organization_id === organization_id)
  const charged = own(charges)
  // A dispute has no metadata, so the organization of a dispute is found by its charge.
  const about = new Set(charged.map(({ intent_id }) => intent_id))
  return { charges: charged, refunds: own(refunds), disputes: disputes.filter(({ intent_id }) => about.has(intent_id)) }
}
