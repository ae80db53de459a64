import { invalidAt, InvalidRequest, ResourceNotFound, type BenefitGrantCreate } from '@bursar/contract'
import type { z } from 'zod'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { findBenefit, holdBenefits } from '../../catalog/index.ts'
import { becomeBuyer, clockOf, findCustomers, findMember, lockCustomers } from '../../customers/index.ts'
import { holdPhase, permit } from '../../organizations/index.ts'
import type { Locksmith } from '../issuing/license-keys.ts'
import { newGrant, unwant, want } from './giving.ts'
import { findLoadedGrant, type LoadedGrant } from '../records/grant-lists.sql.ts'
import { findGrant, lockGrant, lockManual, type GrantRow } from '../records/grants.sql.ts'

/** Returns a grant with its related records. Requires the permission to read customers. */
export const requireGrant = async (db: Db, scope: TenantScope, id: string): Promise<LoadedGrant> => {
  const loaded = await findLoadedGrant(db, scope, id)
  if (!loaded) throw new ResourceNotFound()
  permit(scope, loaded.grant.organization_id, 'customers:read')
  return loaded
}

/** Checks that a benefit exists and is not deleted, and that the caller may read its grants. */
export const findGiven = async (db: Db, scope: TenantScope, id: string): Promise<void> => {
  const benefit = await findBenefit(db, scope, id)
  if (!benefit) throw new ResourceNotFound()
  permit(scope, benefit.organization_id, 'customers:read')
}

/** Locks the organization's member phase for a transaction that writes grants. Returns the caller's scope with that phase. */
const holding = async (tx: Tx, scope: TenantScope, organization_id: string): Promise<TenantScope> => {
  const phase = await holdPhase(tx, organization_id)
  return within(organization_id, scope.organizations.get(organization_id)!, phase)
}

/** A grant that was given or revoked, and the scope with the locked phase. `loaded` is set if an event has shown the grant. */
export interface ChangedGrant {
  readonly grant: GrantRow
  readonly loaded?: LoadedGrant | undefined
  readonly scope: TenantScope
}

/**
 * Gives a benefit without a purchase to a customer or to one of its members. The grant lasts until it is revoked.
 * Idempotent. Locks the customer, so that no concurrent request gives the same benefit or deletes the customer.
 */
export const grantByHand = async (wall: Tx, scope: TenantScope, platform: Locksmith, body: z.output<typeof BenefitGrantCreate>): Promise<ChangedGrant> => {
  const unknown = () => new InvalidRequest(invalidAt(['body', 'customer_id'], 'There is no customer with this id.', body.customer_id))
  const [seen] = await findCustomers(wall, scope, { id: body.customer_id })
  if (!seen) throw unknown()
  const { organization_id } = seen
  permit(scope, organization_id, 'customers:manage')
  const held = await holding(wall, scope, organization_id)
  const [customer] = await lockCustomers(wall, held, { id: body.customer_id })
  if (!customer) throw unknown()
  const [benefit] = await holdBenefits(wall, organization_id, [body.benefit_id])
  const member = body.member_id ? await findMember(wall, customer, { id: body.member_id }) : undefined
  const problems = [
    ...(benefit ? [] : [invalidAt(['body', 'benefit_id'], 'This organization has no benefit with this id.', body.benefit_id)]),
    ...(body.member_id && !member ? [invalidAt(['body', 'member_id'], 'This customer has no member with this id.', body.member_id)] : []),
  ]
  if (!benefit || problems.length > 0) throw new InvalidRequest(problems)
  const tx = await inTimeOf(wall, customer)
  const belonging = { organization_id, benefit_id: benefit.id, buyer_customer_id: customer.id, member_id: member?.id ?? null }
  const known = await lockManual(tx, belonging)
  if (known?.is_wanted) return { grant: known, scope: held }
  // The customer now has a benefit of its own. It therefore no longer counts as a customer that only holds seats.
  await becomeBuyer(tx, held, customer, { seats: false })
  const grant = known ?? newGrant(tx, { ...belonging, subscription_id: null, order_id: null, seat_id: null, holder_customer_id: null })
  const { grants, told } = await want(tx, held, platform, [{ grant, benefit }], null)
  return { grant: grants[0]!, loaded: told[0], scope: held }
}

/** Revokes one recipient's grant. A manual grant can be given again. A purchased grant stays revoked, even if the purchase changes. */
export const revokeByHand = async (wall: Tx, scope: TenantScope, id: string): Promise<ChangedGrant> => {
  const seen = await findGrant(wall, scope, id)
  if (!seen) throw new ResourceNotFound()
  const { organization_id, buyer_customer_id } = seen
  permit(scope, organization_id, 'customers:read')
  permit(scope, organization_id, 'customers:manage')
  const held = await holding(wall, scope, organization_id)
  const grant = await lockGrant(wall, held, id)
  if (!grant) throw new ResourceNotFound()
  if (!grant.is_wanted && (grant.is_manual || grant.is_withheld)) return { grant, scope: held }
  const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: buyer_customer_id }))
  const { grants, told } = await unwant(tx, held, [grant], { is_withheld: !grant.is_manual })
  return { grant: grants[0]!, loaded: told[0], scope: held }
}
