import { z } from 'zod'
import { emptyIsAbsent, email, merchant, named, NotPermitted, operation, page, pageQuery, resource, sorting, stamps, uuid, webhook } from '../kit/index.ts'
import { AmbiguousExternalCustomerID, byCustomerId, byExternalId, externalId, NoSuchCustomer, personName } from './customers.ts'

export const MemberRole = named('MemberRole', z.enum(['owner', 'billing_manager', 'member']))
export type MemberRole = z.output<typeof MemberRole>

/** A person who uses the purchases of a customer. */
export const Member = resource('Member', {
  ...stamps,
  id: uuid(),
  customer_id: uuid().describe('The customer who pays.'),
  email: z.string(),
  name: z.string().nullable(),
  external_id: z.string().nullable().describe('Your own identifier, unique within the customer.'),
  external_member_id: z.string().nullable().describe('The same identifier, under the name that requests use.'),
  role: MemberRole,
})
export type Member = z.output<typeof Member>

export const MemberCreateFromCustomer = resource('MemberCreateFromCustomer', {
  email: email(),
  name: personName(),
  external_id: externalId(),
  role: z.enum(['member', 'billing_manager']).default('member'),
})
export const MemberUpdate = resource('MemberUpdate', { name: personName(), email: email().nullish(), role: MemberRole.nullish() })

const read = merchant(['members:read', 'members:write'])
const write = merchant('members:write')
const role = emptyIsAbsent(MemberRole).describe('Only members with this role.')
const listing = { role, ...pageQuery, sorting: sorting('MemberSortProperty', ['created_at'], ['-created_at']) }
const MemberPage = page('MemberPage', Member)
const byBothIds = byCustomerId.extend({ member_id: uuid() })
const byBothExternalIds = byExternalId.extend({ member_external_id: z.string().min(1).max(256) })

export const listMembers = operation({
  id: 'members:list_members',
  method: 'GET',
  path: '/v1/members/',
  summary: 'List members',
  access: read,
  costs: 'none',
  query: z.object({
    customer_id: emptyIsAbsent(uuid()).describe('Only members of this customer.'),
    external_customer_id: z.string().max(256).optional().describe('Only members of customers with this external id, in any organization.'),
    ...listing,
  }),
  returns: MemberPage,
  fails: [],
})
export const listCustomerMembers = operation({
  id: 'customers:members:list',
  method: 'GET',
  path: '/v1/customers/{id}/members',
  summary: "List a customer's members",
  access: read,
  costs: 'none',
  params: byCustomerId,
  query: z.object(listing),
  returns: MemberPage,
  fails: [NoSuchCustomer],
})
export const listExternalCustomerMembers = operation({
  id: 'customers:members:list_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/members',
  summary: "List a customer's members by external id",
  access: read,
  costs: 'none',
  params: byExternalId,
  query: z.object(listing),
  returns: MemberPage,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

const adding = 'If the address already belongs to a member, the answer is that member, unchanged. Only a team can have members besides its owner.'
export const createMember = operation({
  id: 'customers:members:create',
  method: 'POST',
  path: '/v1/customers/{id}/members',
  summary: 'Add a member',
  description: adding,
  access: write,
  costs: 'none',
  params: byCustomerId,
  body: MemberCreateFromCustomer,
  returns: Member,
  status: 201,
  fails: [NotPermitted, NoSuchCustomer],
})
export const createExternalMember = operation({
  id: 'customers:members:create_external',
  method: 'POST',
  path: '/v1/customers/external/{external_id}/members',
  summary: 'Add a member by external id',
  description: adding,
  access: write,
  costs: 'none',
  params: byExternalId,
  body: MemberCreateFromCustomer,
  returns: Member,
  status: 201,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const getMember = operation({
  id: 'customers:members:get',
  method: 'GET',
  path: '/v1/customers/{id}/members/{member_id}',
  summary: 'Get a member',
  access: read,
  costs: 'none',
  params: byBothIds,
  returns: Member,
  fails: [NoSuchCustomer],
})
export const getExternalMember = operation({
  id: 'customers:members:get_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/members/{member_external_id}',
  summary: 'Get a member by external ids',
  access: read,
  costs: 'none',
  params: byBothExternalIds,
  returns: Member,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

const changing = 'Absent fields stay unchanged. A member who becomes owner replaces the current owner, who becomes a billing manager.'
export const updateMember = operation({
  id: 'customers:members:update',
  method: 'PATCH',
  path: '/v1/customers/{id}/members/{member_id}',
  summary: 'Update a member',
  description: changing,
  access: write,
  costs: 'jobs',
  params: byBothIds,
  body: MemberUpdate,
  returns: Member,
  fails: [NotPermitted, NoSuchCustomer],
})
export const updateExternalMember = operation({
  id: 'customers:members:update_external',
  method: 'PATCH',
  path: '/v1/customers/external/{external_id}/members/{member_external_id}',
  summary: 'Update a member by external ids',
  description: changing,
  access: write,
  costs: 'jobs',
  params: byBothExternalIds,
  body: MemberUpdate,
  returns: Member,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

const removing = 'Removes the member at once and ends every portal session. The owner cannot be removed until another member becomes owner.'
export const deleteMember = operation({
  id: 'customers:members:delete',
  method: 'DELETE',
  path: '/v1/customers/{id}/members/{member_id}',
  summary: 'Remove a member',
  description: removing,
  access: write,
  costs: 'jobs',
  params: byBothIds,
  fails: [NotPermitted, NoSuchCustomer],
})
export const deleteExternalMember = operation({
  id: 'customers:members:delete_external',
  method: 'DELETE',
  path: '/v1/customers/external/{external_id}/members/{member_external_id}',
  summary: 'Remove a member by external ids',
  description: removing,
  access: write,
  costs: 'jobs',
  params: byBothExternalIds,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

// Older routes for members. Newer routes are below the customer's path. The older ones are kept for existing clients.
const flat = 'Older path: prefer the one under the customer.'
const byId = z.object({ id: uuid() })
const whose = {
  customer_id: uuid().nullish().describe('The customer, by id.'),
  external_customer_id: z.string().min(1).max(256).nullish().describe('The customer, by your own identifier.'),
}
const ofWhom = z.object({
  customer_id: uuid().optional().describe('The customer, by id. Give exactly one of the two.'),
  external_customer_id: z.string().min(1).max(256).optional().describe('The customer, by your own identifier.'),
})

export const createFlatMember = operation({
  id: 'members:create_member',
  method: 'POST',
  path: '/v1/members/',
  summary: 'Add a member (older path)',
  description: flat,
  access: write,
  costs: 'none',
  body: resource('MemberCreate', { ...MemberCreateFromCustomer.shape, ...whose }),
  returns: Member,
  status: 201,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})
export const getFlatMember = operation({
  id: 'members:get_member',
  method: 'GET',
  path: '/v1/members/{id}',
  summary: 'Get a member (older path)',
  description: flat,
  access: read,
  costs: 'none',
  params: byId,
  returns: Member,
  fails: [NoSuchCustomer],
})
export const updateFlatMember = operation({
  id: 'members:update_member',
  method: 'PATCH',
  path: '/v1/members/{id}',
  summary: 'Update a member (older path)',
  description: flat,
  access: write,
  costs: 'jobs',
  params: byId,
  body: MemberUpdate,
  returns: Member,
  fails: [NotPermitted, NoSuchCustomer],
})
export const deleteFlatMember = operation({
  id: 'members:delete_member',
  method: 'DELETE',
  path: '/v1/members/{id}',
  summary: 'Remove a member (older path)',
  description: flat,
  access: write,
  costs: 'jobs',
  params: byId,
  fails: [NotPermitted, NoSuchCustomer],
})
export const getFlatExternalMember = operation({
  id: 'members:get_member_by_external_id',
  method: 'GET',
  path: '/v1/members/external/{external_id}',
  summary: 'Get a member by external id (older path)',
  description: flat,
  access: read,
  costs: 'none',
  params: byExternalId,
  query: ofWhom,
  returns: Member,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})
export const updateFlatExternalMember = operation({
  id: 'members:update_member_by_external_id',
  method: 'PATCH',
  path: '/v1/members/external/{external_id}',
  summary: 'Update a member by external id (older path)',
  description: flat,
  access: write,
  costs: 'jobs',
  params: byExternalId,
  query: ofWhom,
  body: MemberUpdate,
  returns: Member,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})
export const deleteFlatExternalMember = operation({
  id: 'members:delete_member_by_external_id',
  method: 'DELETE',
  path: '/v1/members/external/{external_id}',
  summary: 'Remove a member by external id (older path)',
  description: flat,
  access: write,
  costs: 'jobs',
  params: byExternalId,
  query: ofWhom,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const memberCreated = webhook('member.created', Member, 'A person becomes a member of a customer.')
export const memberUpdated = webhook('member.updated', Member, 'A member changes name, address or role.')
export const memberDeleted = webhook('member.deleted', Member, 'A member is removed.')
