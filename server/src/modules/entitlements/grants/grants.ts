import { invalidAt, InvalidRequest, ResourceNotFound, type BenefitGrantCreate } from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { findBenefit, holdBenefits } from '../../catalog/index.ts'
import { becomeBuyer, clockOf, findCustomers, findMember, lockCustomers } from '../../customers/index.ts'
import { holdPhase, permit } from '../../organizations/index.ts'
import type { Locksmith } from '../license-keys/giving.ts'
import { newGrant, unwant, want } from './giving.ts'
import { findGrant, lockGrant, lockManual, type GrantRow } from './grants.sql.ts'

/** One grant, for those who may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<GrantRow> => {
  const grant = await findGrant(db, reach, id)
  if (!grant) throw new ResourceNotFound()
  permit(reach, grant.organization_id, 'customers:read')
  return grant
}

/** A benefit whose grants are asked for; its seller's, and not deleted. */
export const findGiven = async (db: Db, reach: Reach, id: string): Promise<void> => {
  const benefit = await findBenefit(db, reach, id)
  if (!benefit) throw new ResourceNotFound()
  permit(reach, benefit.organization_id, 'customers:read')
}

/** The reach of a request, with the phase of one organization as it stands while seats and grants are written. */
const holding = async (tx: Tx, reach: Reach, organization_id: string): Promise<Reach> => {
  const phase = await holdPhase(tx, organization_id)
  return within(organization_id, reach.organizations.get(organization_id)!, phase)
}

/**
 * Gives a benefit without a purchase, to a customer or to one of its members, until it is revoked. Asked twice, there is
 * one: the customer is held, so that nobody else gives it or takes the customer away meanwhile.
 */
export const grantByHand = async (
  wall: Tx,
  reach: Reach,
  platform: Locksmith,
  body: z.output<typeof BenefitGrantCreate>,
): Promise<{ grant: GrantRow; reach: Reach }> => {
  const unknown = () => new InvalidRequest(invalidAt(['body', 'customer_id'], 'There is no customer with this id.', body.customer_id))
  const [seen] = await findCustomers(wall, reach, { id: body.customer_id })
  if (!seen) throw unknown()
  const { organization_id } = seen
  permit(reach, organization_id, 'customers:manage')
  const held = await holding(wall, reach, organization_id)
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
  if (known?.is_wanted) return { grant: known, reach: held }
  // Something of its own: it is no longer one that only holds seats.
  await becomeBuyer(tx, held, customer, { seats: false })
  const grant = known ?? newGrant(tx, { ...belonging, subscription_id: null, order_id: null, seat_id: null, holder_customer_id: null })
  return { grant: (await want(tx, held, platform, [{ grant, benefit }], null))[0]!, reach: held }
}

/**
 * Takes one recipient's grant away, and nobody else's. What was given by hand can be given again; what was bought stays
 * away, whatever becomes of the purchase.
 */
export const revokeByHand = async (wall: Tx, reach: Reach, id: string): Promise<{ grant: GrantRow; reach: Reach }> => {
  const { organization_id, buyer_customer_id } = await find(wall, reach, id)
  permit(reach, organization_id, 'customers:manage')
  const held = await holding(wall, reach, organization_id)
  const grant = await lockGrant(wall, held, id)
  if (!grant) throw new ResourceNotFound()
  if (!grant.is_wanted && (grant.is_manual || grant.is_withheld)) return { grant, reach: held }
  const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: buyer_customer_id }))
  const [after] = await unwant(tx, held, [grant], { is_withheld: !grant.is_manual })
  return { grant: after!, reach: held }
}
