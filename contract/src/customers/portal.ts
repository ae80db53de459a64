import { z } from 'zod'
import { email, failure, NotPermitted, open, operation, page, pageQuery, portal, resource, ResourceNotFound, stamps, uuid } from '../kit/index.ts'
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
  description: 'A plain member sees whom they belong to, and nothing of what is paid or by whom.',
  access: read,
  returns: CustomerPortalCustomer,
  fails: [],
})

export const updatePortalCustomer = operation({
  id: 'customer_portal:customers:update',
  method: 'PATCH',
  path: '/v1/customer-portal/customers/me',
  summary: 'Update the billing details',
  description: 'What is absent stays as it is.',
  access: write,
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
  query: z.object(pageQuery),
  returns: page('CustomerPaymentMethodPage', CustomerPaymentMethod),
  fails: [NotPermitted],
})

export const EmailUpdateInvalidOrExpired = failure('EmailUpdateInvalidOrExpired', 401, 'This link is used or expired. Ask for the change again.')

export const AddressNotProved = failure(
  'AddressNotProved',
  403,
  'Your address is not proved yet. Sign in to the portal with the code that is mailed to it, then do this.',
)

export const requestEmailUpdate = operation({
  id: 'customer_portal:customers:request_email_update',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/email-update/request',
  summary: 'Ask to change the e-mail address',
  description: 'A link goes to the new address; nothing changes until it is used. The answer is the same whether or not the address is taken.',
  access: write,
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
  summary: 'Ask whether a link still works',
  access: open({ anyOrigin: true }),
  budget: 'sign_in',
  query: z.object({ token: z.string().max(200) }),
  fails: [EmailUpdateInvalidOrExpired],
})

export const verifyEmailUpdate = operation({
  id: 'customer_portal:customers:verify_email_update',
  method: 'POST',
  path: '/v1/customer-portal/customers/me/email-update/verify',
  summary: 'Change the e-mail address',
  description: 'Trades the token of the link for the change. It works once; the address before is told.',
  access: open({ anyOrigin: true }),
  budget: 'sign_in',
  body: resource('CustomerEmailUpdateVerifyRequest', { token: z.string().max(200) }),
  returns: resource('CustomerEmailUpdateVerifyResponse', {
    token: z.string().describe('A new customer access token for the member whose address this is; empty where a team’s address is nobody’s own.'),
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

/** A team manages itself only through people: a session without a member cannot. */
const team = portal('customer_portal:write', ['member_session'])
const byId = z.object({ id: uuid() })

export const listPortalMembers = operation({
  id: 'customer_portal:members:list_members',
  method: 'GET',
  path: '/v1/customer-portal/members',
  summary: 'List the team',
  access: team,
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
    'An address that is a member already is answered with that member, unchanged. Whoever was let in by a first purchase proves their address before they give roles.',
  access: team,
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
  description: 'Nobody changes their own role. Only the owner hands over the team, and becomes a billing manager.',
  access: team,
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
  description: 'Nobody removes themselves, and the owner stays until another member takes over.',
  access: team,
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})
