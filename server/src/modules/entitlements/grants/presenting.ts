import {
  benefitGrantCreated,
  benefitGrantCycled,
  benefitGrantRevoked,
  benefitGrantUpdated,
  type BenefitGrant,
  type BenefitGrantWebhook,
} from '@bursar/contract'
import { phaseOf, type TenantScope } from '../../../kernel/actors.ts'
import { emitEach, type Subject } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx } from '../../../platform/postgres/postgres.ts'
import { presentBenefit } from '../../catalog/index.ts'
import { presentCustomer, presentMember, shownCustomer, touchStates } from '../../customers/index.ts'
import { loadGrants, type LoadedGrant } from '../records/grant-lists.sql.ts'
import type { GrantRow } from '../records/grants.sql.ts'

/** Fields of a grant that all readers see. */
export const commonOf = ({ grant, customer, member, owner, benefit }: LoadedGrant) => ({
  id: grant.id,
  created_at: grant.created_at,
  modified_at: grant.modified_at,
  granted_at: grant.granted_at,
  is_granted: grant.granted_at !== null,
  revoked_at: grant.revoked_at,
  is_revoked: grant.revoked_at !== null,
  subscription_id: grant.subscription_id,
  order_id: grant.order_id,
  customer_id: customer.id,
  member_id: (member ?? owner)?.id ?? null,
  benefit_id: grant.benefit_id,
  benefit_type: benefit.type,
  error: grant.error && { ...grant.error, timestamp: new Date(grant.error.timestamp) },
  properties: grant.properties,
})

/** Presents the grant in the API's format. */
export const presentGrant = (loaded: LoadedGrant): BenefitGrant =>
  // The benefit's type determines the type of its properties. TypeScript loses this pairing, hence the cast.
  ({
    ...commonOf(loaded),
    customer: presentCustomer(loaded.customer),
    member: loaded.member && presentMember(loaded.member),
    benefit: presentBenefit(loaded.benefit),
  }) as BenefitGrant

/** A change of a grant. `before` holds the previous properties if they changed. */
export interface News {
  readonly grant: GrantRow
  readonly became: 'created' | 'updated' | 'cycled' | 'revoked'
  readonly before?: GrantRow['properties'] | null
}

/**
 * Emits an event for each changed grant, on behalf of the customer that the grant is shown with. Marks the state of
 * these customers as changed. Grants in `quiet` only mark the state, because they have no event to emit yet. Returns the
 * changed grants with their related records.
 */
export const emitGrantEvents = async (tx: BusinessTx, scope: TenantScope, news: readonly News[], quiet: readonly GrantRow[] = []): Promise<LoadedGrant[]> => {
  const loaded = await loadGrants(
    tx,
    scope,
    news.map(({ grant }) => grant),
  )
  const runs: { became: News['became']; events: [Subject, BenefitGrantWebhook][] }[] = []
  for (const [at, { became, before = null }] of news.entries()) {
    const one = loaded[at]!
    const subject = { organization_id: one.grant.organization_id, resource_id: one.id, customer_id: one.customer.id }
    if (runs.at(-1)?.became !== became) runs.push({ became, events: [] })
    runs.at(-1)!.events.push([subject, { ...presentGrant(one), previous_properties: before } as BenefitGrantWebhook])
  }
  // Consecutive events of one kind are inserted by one statement. Their order stays the same.
  for (const { became, events } of runs)
    if (became === 'created') await emitEach(tx, benefitGrantCreated, events)
    else if (became === 'updated') await emitEach(tx, benefitGrantUpdated, events)
    else if (became === 'cycled') await emitEach(tx, benefitGrantCycled, events)
    else await emitEach(tx, benefitGrantRevoked, events)
  await touchStates(tx, [
    ...quiet.flatMap((grant) => touchedBy(grant, shownCustomer(grant, phaseOf(scope, grant.organization_id)))),
    ...loaded.flatMap(({ grant, customer }) => touchedBy(grant, customer.id)),
  ])
  return loaded
}

/** The customers whose state a grant changes: the one that it is shown with, and the buyer. */
const touchedBy = ({ organization_id, buyer_customer_id }: GrantRow, shown: string) => [
  { organization_id, customer_id: shown },
  { organization_id, customer_id: buyer_customer_id },
]
