import { openTestProcessor } from '../../src/gateways/payments/test/processor.ts'
import type { World } from './world.ts'

/** As much of a checkout as a buyer needs. */
export interface Ticket {
  readonly id: string
  readonly client_secret: string
}

/** What the processor charged and gave back, by its own record: of everybody, or of one organization. */
export const readBooks = async (world: World, organization_id?: string) => {
  const processor = openTestProcessor({
    url: world.config.database_url,
    environment: 'sandbox',
    clock: world.clock,
    log: world.base.log,
    patience_ms: world.config.database_patience_ms,
  })
  const { charges, refunds, disputes } = await processor.books()
  await processor.close()
  const own = <T extends { metadata: Readonly<Record<string, string>> }>(rows: readonly T[]) =>
    rows.filter(({ metadata }) => organization_id === undefined || metadata.organization_id === organization_id)
  const charged = own(charges)
  // A dispute knows nothing but its charge.
  const about = new Set(charged.map(({ intent_id }) => intent_id))
  return { charges: charged, refunds: own(refunds), disputes: disputes.filter(({ intent_id }) => about.has(intent_id)) }
}
