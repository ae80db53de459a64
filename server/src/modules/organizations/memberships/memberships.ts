import { NotPermitted, ResourceNotFound, type Membership, type OrganizationRole } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { permit } from '../permissions.ts'
import { changeRole, deleteMembership, insertMembership, lockMembership } from './memberships.sql.ts'

/** The person who founds an organization owns it. */
export const addOwner = async (tx: Tx, organization_id: string, user_id: string): Promise<void> => {
  await insertMembership(tx, organization_id, user_id, 'owner', tx.clock.business())
}

/** Every role but the owner's can be given and taken; the owner's stays where it is. */
export const setRole = async (tx: Tx, reach: Reach, organization_id: string, user_id: string, role: OrganizationRole): Promise<Membership> =>
  changeRole(tx, await manage(tx, reach, organization_id, user_id), role, tx.clock.business())

/** A removed person's credentials stop reaching the organization with the next request: reach is read from these rows. */
export const remove = async (tx: Tx, reach: Reach, organization_id: string, user_id: string): Promise<void> => {
  await deleteMembership(tx, await manage(tx, reach, organization_id, user_id))
}

/** Anyone may leave but the owner, without whom nobody would answer for the organization. */
export const leave = async (tx: Tx, reach: Reach, organization_id: string, user_id: string): Promise<void> => {
  const membership = await lockMembership(tx, reach, organization_id, user_id)
  if (!membership) throw new ResourceNotFound()
  if (membership.role === 'owner') throw new NotPermitted('The owner cannot leave the organization.')
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
