import {
  benefitGrantCreated,
  benefitGrantCycled,
  benefitGrantRevoked,
  benefitGrantUpdated,
  type BenefitGrant,
  type BenefitGrantWebhook,
} from '@bursar/contract'
import { phaseOf, type Reach } from '../../../kernel/actors.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { loadBenefits, presentBenefit, type BenefitTable } from '../../catalog/index.ts'
import {
  loadCustomers,
  loadMembers,
  loadOwners,
  presentCustomer,
  presentMember,
  shownCustomer,
  touchState,
  type CustomerRow,
  type MemberRow,
} from '../../customers/index.ts'
import type { GrantRow } from './grants.sql.ts'

/** A grant, with all that is shown of it. */
export interface LoadedGrant {
  readonly grant: GrantRow
  readonly benefit: BenefitTable
  /** Whose it is shown to be. */
  readonly customer: CustomerRow
  /** Who has it by a seat; null where it is the customer's own. */
  readonly member: MemberRow | null
  /** Who has what is the customer's own. */
  readonly owner: MemberRow | null
}

/** Grants with all that is shown of them, in their order. Whoever had them and what they were of may be gone: they are shown all the same. */
export const loadGrants = async (db: Db, reach: Reach, rows: readonly GrantRow[]): Promise<LoadedGrant[]> => {
  if (rows.length === 0) return []
  const whose = (row: GrantRow) => shownCustomer(row, phaseOf(reach, row.organization_id))
  const named = (idOf: (row: GrantRow) => string | null) => referred(rows, idOf).map(({ tenant, id }) => ({ organization_id: tenant, id }))
  const [benefits, customers, members, owners] = await Promise.all([
    loadBenefits(
      db,
      referred(rows, ({ benefit_id }) => benefit_id),
    ),
    loadCustomers(db, reach, rows.map(whose)),
    loadMembers(
      db,
      named(({ member_id }) => member_id),
    ),
    loadOwners(
      db,
      named((row) => (row.member_id === null ? whose(row) : null)),
    ),
  ])
  const benefit = new Map(benefits.map((one) => [one.id, one]))
  const customer = new Map(customers.map((one) => [one.id, one]))
  const member = new Map(members.map((one) => [one.id, one]))
  const owner = new Map(owners.map((one) => [one.customer_id, one]))
  return rows.map((grant) => ({
    grant,
    // The database's own keys hold them: they are there.
    benefit: benefit.get(grant.benefit_id)!,
    customer: customer.get(whose(grant))!,
    member: grant.member_id === null ? null : member.get(grant.member_id)!,
    owner: owner.get(whose(grant)) ?? null,
  }))
}

/** What every reader of a grant sees of it. */
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

/** The grant as the wire shows it. */
export const presentGrant = (loaded: LoadedGrant): BenefitGrant =>
  // The kind of the benefit decides what the properties are: only the pairing is lost on the compiler.
  ({
    ...commonOf(loaded),
    customer: presentCustomer(loaded.customer),
    member: loaded.member && presentMember(loaded.member),
    benefit: presentBenefit(loaded.benefit),
  }) as BenefitGrant

/** What became of a grant, and what its properties were before, where they changed. */
export interface News {
  readonly grant: GrantRow
  readonly became: 'created' | 'updated' | 'cycled' | 'revoked'
  readonly before?: GrantRow['properties'] | null
}

/**
 * Says what became of grants, each to whom it is shown to be; and that the state of those customers is another, as it is of
 * those who have the `quiet` ones, of which nothing else is to be said yet.
 */
export const tell = async (tx: Tx, reach: Reach, news: readonly News[], quiet: readonly GrantRow[] = []): Promise<void> => {
  const loaded = await loadGrants(
    tx,
    reach,
    news.map(({ grant }) => grant),
  )
  const touched = new Map<string, string>()
  for (const grant of quiet)
    touched.set(shownCustomer(grant, phaseOf(reach, grant.organization_id)), grant.organization_id).set(grant.buyer_customer_id, grant.organization_id)
  for (const [at, { became, before = null }] of news.entries()) {
    const one = loaded[at]!
    const { organization_id, id, buyer_customer_id } = one.grant
    const about = { organization_id, resource_id: id, customer_id: one.customer.id }
    const data = { ...presentGrant(one), previous_properties: before } as BenefitGrantWebhook
    if (became === 'created') await emit(tx, benefitGrantCreated, about, data)
    else if (became === 'updated') await emit(tx, benefitGrantUpdated, about, data)
    else if (became === 'cycled') await emit(tx, benefitGrantCycled, about, data)
    else await emit(tx, benefitGrantRevoked, about, data)
    touched.set(one.customer.id, organization_id).set(buyer_customer_id, organization_id)
  }
  // In one order, so that two who tell of the same customers do not wait for each other.
  for (const [customer_id, organization_id] of [...touched].toSorted(([a], [b]) => (a < b ? -1 : 1))) await touchState(tx, { organization_id, customer_id })
}
