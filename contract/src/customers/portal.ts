import { z } from 'zod'
import { email, failure, NotPermitted, openAccess, operation, page, pageQuery, portal, resource, ResourceNotFound, stamps, uuid } from '../kit/index.ts'
import { Address, AddressInput, TaxID } from './addresses.ts'
import { CustomerPaymentMethod, CustomerType, maybe, personName } from './customers.ts'
import { MemberRole } from './members.ts'

export const CustomerPortalCustomer = resource('CustomerPortalCustomer', {
  ...stamps,
  id: uuid(),
  email: z.string().nullable(),
  email_verified: z.boolean(),
  name: z.string().nullable(),
  billing_name: z.string().nullable(),
  billing_address: Address.nullable(),
  tax_id: TaxID.nullable(),
  oauth_accounts: z.record(z.string(), resource('CustomerPortalOAuthAccount', { account_id: z.string(), account_username: z.string().nullable() })),
  default_payment_method_id: uuid().nullable(),
  type: CustomerType,
  locale: z.string().nullable(),
})
export type CustomerPortalCustomer = z.output<typeof CustomerPortalCustomer>

export const CustomerPortalCustomerUpdate = resource('CustomerPortalCustomerUpdate', {
  billing_name: personName(),
  billing_address: AddressInput.nullish(),
  tax_id: maybe(100),
  default_payment_method_id: uuid().nullish(),
})

const read = portal(['customer_portal:read', 'customer_portal:write'])
const write = portal('customer_portal:write')

export const getPortalCustomer = operation({
  id: 'customer_portal:customers:get',
  method: 'GET',
  path: '/v1/customer-portal/customers/me',
  summary: 'Get the customer',
  description: 'A plain member sees the name of the customer, but no billing data.',
  access: read,
  costs: 'none',
  returns: CustomerPortalCustomer,
  fails: [],
})

export const updatePortalCustomer = operation({
  id: 'customer_portal:customers:update',
  method: 'PATCH',
  path: '/v1/customer-portal/customers/me',
  summary: 'Update the billing details',
  description: 'Absent fields stay unchanged.',
  access: write,
  costs: 'jobs',
  body: CustomerPortalCustomerUpdate,
  returns: CustomerPortalCustomer,
  fails: [NotPermitted],
})

export const listPortalPaymentMethods = operation({
  id: 'customer_portal:customers:list_payment_methods',
  method: 'GET',
  path: '/v1/customer-portal/customers/me/payment-methods',
  summary: 'List the payment methods',
  access: read,
  costs: 'none',
  query: z.object(pageQuery),
  returns: page('CustomerPaymentMethodPage', CustomerPaymentMethod),
  fails: [NotPermitted],
})

export const EmailUpdateInvalidOrExpired = failure('EmailUpdateInvalidOrExpired', 401, 'This link is used or expired. Request the change again.')

export const AddressNotProved = failure(
  'AddressNotProved',
  403,
  'Your e-mail address is not verified. Sign in to the portal with the code that is mailed to it, then try again.',
)

export const requestEmailUpdate = operation({
  id: 'customer_portal:customers:request_email_update',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/email-update/request',
  summary: 'Request a change of the e-mail address',
  description: 'Sends a link to the new address; nothing changes until it is used. The answer is the same whether or not the address is taken.',
  access: write,
  costs: 'mail',
  budget: 'sign_in',
  body: resource('CustomerEmailUpdateRequest', { email: email() }),
  returns: resource('CustomerEmailUpdateRequested', {}),
  status: 202,
  fails: [NotPermitted, AddressNotProved],
})

export const checkEmailUpdate = operation({
  id: 'customer_portal:customers:check_email_update',
  method: 'GET',
  path: '/v1/customer-portal/customers/me/email-update/check',
  summary: 'Check whether a link still works',
  access: openAccess({ anyOrigin: true }),
  costs: 'none',
  budget: 'sign_in',
  query: z.object({ token: z.string().max(200) }),
  fails: [EmailUpdateInvalidOrExpired],
})

export const verifyEmailUpdate = operation({
  id: 'customer_portal:customers:verify_email_update',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/email-update/verify',
  summary: 'Change the e-mail address',
  description: 'Exchanges the token of the link for the change. The token works once; the previous address is notified.',
  access: openAccess({ anyOrigin: true }),
  costs: ['mail', 'jobs'],
  budget: 'sign_in',
  body: resource('CustomerEmailUpdateVerifyRequest', { token: z.string().max(200) }),
  returns: resource('CustomerEmailUpdateVerifyResponse', {
    token: z.string().describe('A new customer access token for the member with this address; empty if the address of a team belongs to no member.'),
  }),
  reveals: true,
  fails: [EmailUpdateInvalidOrExpired],
})

export const CustomerPortalMember = resource('CustomerPortalMember', {
  ...stamps,
  id: uuid(),
  email: z.string(),
  name: z.string().nullable(),
  role: MemberRole,
})

/** The access rule for managing a team. It requires a member session; a customer session without a member is rejected. */
const team = portal('customer_portal:write', ['member_session'])
const byId = z.object({ id: uuid() })

export const listPortalMembers = operation({
  id: 'customer_portal:members:list_members',
  method: 'GET',
  path: '/v1/customer-portal/members',
  summary: 'List the team',
  access: team,
  costs: 'none',
  query: z.object(pageQuery),
  returns: page('CustomerPortalMemberPage', CustomerPortalMember),
  fails: [NotPermitted],
})

export const addPortalMember = operation({
  id: 'customer_portal:members:add_member',
  method: 'POST',
  path: '/v1/customer-portal/members',
  summary: 'Add a member to the team',
  description:
    'If the address already belongs to a member, the answer is that member, unchanged. A person who was admitted by a first purchase must verify their address before they assign roles.',
  access: team,
  costs: 'none',
  body: resource('CustomerPortalMemberCreate', { email: email(), name: personName(), role: MemberRole.default('member') }),
  returns: CustomerPortalMember,
  status: 201,
  fails: [NotPermitted, AddressNotProved],
})

export const updatePortalMember = operation({
  id: 'customer_portal:members:update_member',
  method: 'PATCH',
  path: '/v1/customer-portal/members/{id}',
  summary: 'Update a member of the team',
  description: 'Members cannot change their own role. Only the owner can hand over the team, and then becomes a billing manager.',
  access: team,
  costs: 'jobs',
  params: byId,
  body: resource('CustomerPortalMemberUpdate', { name: personName(), role: MemberRole.nullish() }),
  returns: CustomerPortalMember,
  fails: [NotPermitted, AddressNotProved, ResourceNotFound],
})

export const removePortalMember = operation({
  id: 'customer_portal:members:remove_member',
  method: 'DELETE',
  path: '/v1/customer-portal/members/{id}',
  summary: 'Remove a member from the team',
  description: 'Members cannot remove themselves. The owner cannot be removed until another member becomes owner.',
  access: team,
  costs: 'jobs',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})
