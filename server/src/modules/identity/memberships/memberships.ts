import { NotPermitted, ResourceNotFound, type Membership, type OrganizationRole } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { permit } from '../../organizations/index.ts'
import { withdrawAll } from '../invitations/invitations.ts'
import { changeRole, deleteMembership, lockMembership } from './memberships.sql.ts'

/** Every role but the owner's can be given and taken; the owner's stays where it is. What the person offered under the old role ends with it. */
export const setRole = async (tx: Tx, reach: Reach, organization_id: string, user_id: string, role: OrganizationRole): Promise<Membership> => {
  const membership = await manage(tx, reach, organization_id, user_id)
  await withdrawAll(tx, organization_id, membership)
  return changeRole(tx, membership, role, tx.clock.business())
}

/** A removed person's credentials stop reaching the organization with the next request: reach is read from these rows. */
export const remove = async (tx: Tx, reach: Reach, organization_id: string, user_id: string): Promise<void> => {
  const membership = await manage(tx, reach, organization_id, user_id)
  await withdrawAll(tx, organization_id, membership)
  await deleteMembership(tx, membership)
}

/** Anyone may leave but the owner, without whom nobody would answer for the organization. */
export const leave = async (tx: Tx, reach: Reach, organization_id: string, user_id: string): Promise<void> => {
  const membership = await lockMembership(tx, reach, organization_id, user_id)
  if (!membership) throw new ResourceNotFound()
  if (membership.role === 'owner') throw new NotPermitted('The owner cannot leave the organization.')
  await withdrawAll(tx, organization_id, membership)
  await deleteMembership(tx, membership)
}

const manage = async (tx: Tx, reach: Reach, organization_id: string, user_id: string): Promise<Locked<Membership>> => {
  if (!reach.organizations.has(organization_id)) throw new ResourceNotFound()
  permit(reach, organization_id, 'members:manage')
  const membership = await lockMembership(tx, reach, organization_id, user_id)
  if (!membership) throw new ResourceNotFound()
  if (membership.role === 'owner') throw new NotPermitted('The owner of an organization can be neither changed nor removed.')
  return membership
}
