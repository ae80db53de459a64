import { NotPermitted, ResourceNotFound, type Membership, type OrganizationRole } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { permit } from '../../organizations/index.ts'
import { withdrawAll } from './invitations.ts'
import { changeRole, deleteMembership, lockMembership } from './memberships.sql.ts'

/** Changes a role. The owner role can be neither assigned nor removed. Pending invitations sent by or to the user are withdrawn. */
export const setRole = async (tx: Tx, scope: TenantScope, organization_id: string, user_id: string, role: OrganizationRole): Promise<Membership> => {
  const membership = await manage(tx, scope, organization_id, user_id)
  await withdrawAll(tx, organization_id, membership)
  return changeRole(tx, membership, role, tx.clock.wall())
}

/** Removes a member. The user's credentials lose access to the organization with the next request, because every request reads the membership rows. */
export const removeMembership = async (tx: Tx, scope: TenantScope, organization_id: string, user_id: string): Promise<void> => {
  const membership = await manage(tx, scope, organization_id, user_id)
  await withdrawAll(tx, organization_id, membership)
  await deleteMembership(tx, membership)
}

/** Removes the caller's own membership. The owner cannot leave, because every organization needs an owner. */
export const leave = async (tx: Tx, scope: TenantScope, organization_id: string, user_id: string): Promise<void> => {
  const membership = await lockMembership(tx, scope, organization_id, user_id)
  if (!membership) throw new ResourceNotFound()
  if (membership.role === 'owner') throw new NotPermitted('The owner cannot leave the organization.')
  await withdrawAll(tx, organization_id, membership)
  await deleteMembership(tx, membership)
}

const manage = async (tx: Tx, scope: TenantScope, organization_id: string, user_id: string): Promise<Locked<Membership>> => {
  if (!scope.organizations.has(organization_id)) throw new ResourceNotFound()
  permit(scope, organization_id, 'members:manage')
  const membership = await lockMembership(tx, scope, organization_id, user_id)
  if (!membership) throw new ResourceNotFound()
  if (membership.role === 'owner') throw new NotPermitted('The role of the owner cannot change, and the owner cannot be removed.')
  return membership
}
