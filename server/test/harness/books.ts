import { openTestProcessor } from '../../src/gateways/payments/test/processor.ts'
import type { World } from './world.ts'

/** As much of a checkout as a buyer needs. */
export interface Ticket {
  readonly id: string
  readonly client_secret: string
}

/** What the processor charged and gave back, by its own record: of everybody, or of one organization. */
export const readBooks = async (world: World, organization_id?: string) => {
  const processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
  const { charges, refunds } = await processor.books()
  await processor.close()
  const own = <T extends { metadata: Readonly<Record<string, string>> }>(rows: readonly T[]) =>
    rows.filter(({ metadata }) => organization_id === undefined || metadata.organization_id === organization_id)
  return { charges: own(charges), refunds: own(refunds) }
}
