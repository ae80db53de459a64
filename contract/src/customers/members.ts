import { z } from 'zod'
import { email, merchant, named, NotPermitted, operation, page, pageQuery, resource, sorting, stamps, uuid, webhook } from '../kit/index.ts'
import { AmbiguousExternalCustomerID, byCustomerId, byExternalId, externalId, NoSuchCustomer, personName } from './customers.ts'

export const MemberRole = named('MemberRole', z.enum(['owner', 'billing_manager', 'member']))
export type MemberRole = z.output<typeof MemberRole>

/** Who uses what a customer pays for. */
export const Member = resource('Member', {
  ...stamps,
  id: uuid(),
  customer_id: uuid().describe('Who pays.'),
  email: z.string(),
  name: z.string().nullable(),
  external_id: z.string().nullable().describe('Your own identifier, one of a kind within the customer.'),
  external_member_id: z.string().nullable().describe('The same, under the name that requests use.'),
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
const role = MemberRole.or(z.literal('').transform(() => undefined))
  .optional()
  .describe('Only members with this role.')
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
  query: z.object({
    customer_id: uuid()
      .or(z.literal('').transform(() => undefined))
      .optional()
      .describe('Only members of this customer.'),
    external_customer_id: z.string().max(256).optional().describe('Only members of customers with this external id, in any of the organizations.'),
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
  params: byExternalId,
  query: z.object(listing),
  returns: MemberPage,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

const adding = 'An address that is a member already is answered with that member, unchanged. Only a team has members beside its owner.'
export const createMember = operation({
  id: 'customers:members:create',
  method: 'POST',
  path: '/v1/customers/{id}/members',
  summary: 'Add a member',
  description: adding,
  access: write,
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
  params: byBothExternalIds,
  returns: Member,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

const changing = 'What is absent stays as it is. Who becomes owner takes over from the owner before, who becomes a billing manager.'
export const updateMember = operation({
  id: 'customers:members:update',
  method: 'PATCH',
  path: '/v1/customers/{id}/members/{member_id}',
  summary: 'Update a member',
  description: changing,
  access: write,
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
  params: byBothExternalIds,
  body: MemberUpdate,
  returns: Member,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

const removing = 'The member is gone at once, with every portal session. The owner stays until another member takes over.'
export const deleteMember = operation({
  id: 'customers:members:delete',
  method: 'DELETE',
  path: '/v1/customers/{id}/members/{member_id}',
  summary: 'Remove a member',
  description: removing,
  access: write,
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
  params: byBothExternalIds,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

// The places where members stood before they moved under their customer: kept for clients of that time.
const flat = 'An older address: prefer the one under the customer.'
const byId = z.object({ id: uuid() })
const whose = {
  customer_id: uuid().nullish().describe('The customer, by id.'),
  external_customer_id: z.string().min(1).max(256).nullish().describe('The customer, by your own identifier.'),
}
const ofWhom = z.object({
  customer_id: uuid().optional().describe('The customer, by id: exactly one of the two.'),
  external_customer_id: z.string().min(1).max(256).optional().describe('The customer, by your own identifier.'),
})

export const createFlatMember = operation({
  id: 'members:create_member',
  method: 'POST',
  path: '/v1/members/',
  summary: 'Add a member (older address)',
  description: flat,
  access: write,
  body: resource('MemberCreate', { ...MemberCreateFromCustomer.shape, ...whose }),
  returns: Member,
  status: 201,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})
export const getFlatMember = operation({
  id: 'members:get_member',
  method: 'GET',
  path: '/v1/members/{id}',
  summary: 'Get a member (older address)',
  description: flat,
  access: read,
  params: byId,
  returns: Member,
  fails: [NoSuchCustomer],
})
export const updateFlatMember = operation({
  id: 'members:update_member',
  method: 'PATCH',
  path: '/v1/members/{id}',
  summary: 'Update a member (older address)',
  description: flat,
  access: write,
  params: byId,
  body: MemberUpdate,
  returns: Member,
  fails: [NotPermitted, NoSuchCustomer],
})
export const deleteFlatMember = operation({
  id: 'members:delete_member',
  method: 'DELETE',
  path: '/v1/members/{id}',
  summary: 'Remove a member (older address)',
  description: flat,
  access: write,
  params: byId,
  fails: [NotPermitted, NoSuchCustomer],
})
export const getFlatExternalMember = operation({
  id: 'members:get_member_by_external_id',
  method: 'GET',
  path: '/v1/members/external/{external_id}',
  summary: 'Get a member by external id (older address)',
  description: flat,
  access: read,
  params: byExternalId,
  query: ofWhom,
  returns: Member,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})
export const updateFlatExternalMember = operation({
  id: 'members:update_member_by_external_id',
  method: 'PATCH',
  path: '/v1/members/external/{external_id}',
  summary: 'Update a member by external id (older address)',
  description: flat,
  access: write,
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
  summary: 'Remove a member by external id (older address)',
  description: flat,
  access: write,
  params: byExternalId,
  query: ofWhom,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const memberCreated = webhook('member.created', Member, 'A person becomes a member of a customer.')
export const memberUpdated = webhook('member.updated', Member, 'A member changes name, address or role.')
export const memberDeleted = webhook('member.deleted', Member, 'A member is removed.')
