import { z } from 'zod'
import {
  email,
  failure,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  session,
  stamps,
  timestamp,
  uuid,
} from '../kit/index.ts'

/** The roles of an organization's users. An organization has exactly one owner. */
export const organizationRoles = ['owner', 'admin', 'finance', 'member'] as const
export const OrganizationRole = named('OrganizationRole', z.enum(organizationRoles))
export type OrganizationRole = z.infer<typeof OrganizationRole>

const AssignableRole = named('AssignableOrganizationRole', OrganizationRole.exclude(['owner']))

export const Membership = resource('OrganizationMembership', {
  ...stamps,
  organization_id: uuid(),
  user_id: uuid(),
  email: z.string(),
  avatar_url: z.string().nullable(),
  role: OrganizationRole,
})
export type Membership = z.output<typeof Membership>

export const Invitation = resource('OrganizationInvitation', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  email: z.string(),
  role: AssignableRole,
  status: named('OrganizationInvitationStatus', z.enum(['pending', 'accepted', 'expired'])),
  expires_at: timestamp(),
})
export type Invitation = z.output<typeof Invitation>

export const InvitationInvalid = failure(
  'InvitationInvalid',
  410,
  'This invitation was used or withdrawn, has expired, or was sent to another address. Ask for a new one.',
)

const inOrganization = z.object({ id: uuid() })
const ofUser = z.object({ id: uuid(), user_id: uuid() })

export const listMemberships = operation({
  id: 'organizations:list_members',
  method: 'GET',
  path: '/v1/organizations/{id}/members',
  summary: 'List the people of an organization',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  params: inOrganization,
  query: z.object(pageQuery),
  returns: page('OrganizationMembershipPage', Membership),
  fails: [NotPermitted, ResourceNotFound],
})

export const updateMembership = operation({
  id: 'organizations:update_member',
  method: 'PATCH',
  path: '/v1/organizations/{id}/members/{user_id}',
  summary: 'Change the role of a person',
  description: 'The owner keeps the role of owner.',
  access: session('organizations:write', { fresh: true }),
  costs: 'none',
  params: ofUser,
  body: resource('OrganizationMembershipUpdate', { role: AssignableRole }),
  returns: Membership,
  fails: [NotPermitted, ResourceNotFound],
})

export const removeMembership = operation({
  id: 'organizations:remove_member',
  method: 'DELETE',
  path: '/v1/organizations/{id}/members/{user_id}',
  summary: 'Remove a person',
  description: 'The credentials of that person lose access to this organization with the next request. The owner cannot be removed.',
  access: session('organizations:write'),
  costs: 'none',
  params: ofUser,
  fails: [NotPermitted, ResourceNotFound],
})

export const leaveOrganization = operation({
  id: 'organizations:leave',
  method: 'DELETE',
  path: '/v1/organizations/{id}/members/leave',
  summary: 'Leave an organization',
  description: 'The owner cannot leave.',
  access: session('organizations:write'),
  costs: 'none',
  params: inOrganization,
  fails: [NotPermitted, ResourceNotFound],
})

export const inviteMember = operation({
  id: 'organizations:invite_member',
  method: 'POST',
  path: '/v1/organizations/{id}/members/invite',
  summary: 'Invite a person by e-mail',
  description: 'The person joins when they accept. Inviting the same address again replaces the earlier invitation.',
  access: session('organizations:write', { fresh: true }),
  costs: 'mail',
  params: inOrganization,
  body: resource('OrganizationInvitationCreate', { email: email(), role: AssignableRole.default('member') }),
  returns: Invitation,
  status: 201,
  fails: [NotPermitted, ResourceNotFound],
})

export const listInvitations = operation({
  id: 'organizations:list_invitations',
  method: 'GET',
  path: '/v1/organizations/{id}/invitations',
  summary: 'List invitations',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  params: inOrganization,
  query: z.object(pageQuery),
  returns: page('OrganizationInvitationPage', Invitation),
  fails: [NotPermitted, ResourceNotFound],
})

export const revokeInvitation = operation({
  id: 'organizations:revoke_invitation',
  method: 'DELETE',
  path: '/v1/organizations/{id}/invitations/{invitation_id}',
  summary: 'Withdraw an invitation',
  access: session('organizations:write'),
  costs: 'none',
  params: z.object({ id: uuid(), invitation_id: uuid() }),
  fails: [NotPermitted, ResourceNotFound],
})

export const acceptInvitation = operation({
  id: 'organizations:accept_invitation',
  method: 'POST',
  path: '/v1/organization-invitations/accept',
  summary: 'Accept an invitation',
  description: 'The signed-in person must own the address of the invitation.',
  access: session('organizations:write'),
  costs: 'none',
  body: resource('OrganizationInvitationAccept', { token: z.string().min(1).max(200) }),
  returns: Membership,
  fails: [InvitationInvalid],
})
