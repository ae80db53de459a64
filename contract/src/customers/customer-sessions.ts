import { z } from 'zod'
import { email, failure, landing, merchant, NotPermitted, open, operation, portal, resource, stamps, timestamp, uuid } from '../kit/index.ts'
import { AmbiguousExternalCustomerID, Customer } from './customers.ts'

export const CustomerSessionCreate = resource('CustomerSessionCreate', {
  customer_id: uuid().nullish().describe('The customer, by id.'),
  external_customer_id: z.string().max(256).nullish().describe('The customer, by your own identifier.'),
  customer_external_id: z.string().max(256).nullish().describe('An older name of `external_customer_id`.'),
  member_id: uuid().nullish().describe('Whose session it is. A team must say; an individual has its owner.'),
  external_member_id: z.string().max(256).nullish().describe('The same, by your own identifier.'),
  return_url: landing().nullish().describe('Where the portal leads back to.'),
})

export const CustomerSession = resource('CustomerSession', {
  ...stamps,
  id: uuid(),
  token: z.string().describe('The customer access token, shown once.'),
  expires_at: timestamp(),
  return_url: z.string().nullable(),
  customer_portal_url: z.string().describe('Send the person here. The address opens the portal once.'),
  customer_id: uuid(),
  customer: Customer,
})

export const createCustomerSession = operation({
  id: 'customer-sessions:create',
  method: 'POST',
  path: '/v1/customer-sessions/',
  summary: 'Create a customer session',
  description: 'For an hour, the token authorizes the portal as that member, and nothing else.',
  access: merchant('customer_sessions:write'),
  body: CustomerSessionCreate,
  returns: CustomerSession,
  status: 201,
  reveals: true,
  fails: [NotPermitted, AmbiguousExternalCustomerID],
})

export const CustomerSessionCodeInvalidOrExpired = failure(
  'CustomerSessionCodeInvalidOrExpired',
  401,
  'This code is wrong, used or expired. Ask for a new one.',
)

export const CustomerCustomerSession = resource('CustomerCustomerSession', { expires_at: timestamp(), return_url: z.string().nullable() })

const read = portal(['customer_portal:read', 'customer_portal:write'])

export const introspectCustomerSession = operation({
  id: 'customer_portal:customer-session:introspect',
  method: 'GET',
  path: '/v1/customer-portal/customer-session/introspect',
  summary: 'Get the current session',
  access: read,
  returns: CustomerCustomerSession,
  fails: [],
})

export const getPortalUser = operation({
  id: 'customer_portal:customer-session:get_authenticated_user',
  method: 'GET',
  path: '/v1/customer-portal/customer-session/user',
  summary: 'Get whose session this is',
  access: read,
  returns: resource('PortalAuthenticatedUser', {
    type: z.enum(['customer', 'member']),
    name: z.string().nullable(),
    email: z.string(),
    customer_id: uuid(),
    member_id: uuid().nullable(),
    role: z.string().nullable(),
  }),
  fails: [],
})

export const endCustomerSession = operation({
  id: 'customer_portal:customer-session:end',
  method: 'DELETE',
  path: '/v1/customer-portal/customer-session',
  summary: 'Leave the portal',
  description: 'Ends the session on the server and clears the cookie.',
  access: read,
  fails: [],
})

export const requestPortalCode = operation({
  id: 'customer_portal:customer-session:request',
  method: 'POST',
  path: '/v1/customer-portal/customer-session/request',
  summary: 'Ask for a code to the portal by e-mail',
  description: 'The answer is the same whether or not the address is known.',
  access: open({ anyOrigin: true }),
  budget: 'sign_in',
  body: resource('CustomerSessionCodeRequest', { organization_id: uuid(), email: email() }),
  status: 202,
  fails: [],
})

export const authenticatePortalCode = operation({
  id: 'customer_portal:customer-session:authenticate',
  method: 'POST',
  path: '/v1/customer-portal/customer-session/authenticate',
  summary: 'Open the portal with the code',
  description:
    'The code counts for the organization and address it was sent for, works once, and burns after five wrong tries. Whoever belongs to several customers is answered with their list and no token: send the same again with one `customer_id`.',
  access: open({ anyOrigin: true }),
  budget: 'sign_in',
  body: resource('CustomerSessionCodeAuthenticate', {
    organization_id: uuid(),
    email: email(),
    code: z.string().trim().min(1).max(20),
    customer_id: uuid().nullish(),
  }),
  returns: resource('CustomerSessionCodeAuthenticated', {
    token: z.string().nullable().describe('The customer access token; null while a customer must be chosen.'),
    expires_at: timestamp().nullable(),
    customers: z.array(resource('CustomerChoice', { id: uuid(), name: z.string().nullable() })).describe('The customers to choose from; empty once chosen.'),
  }),
  reveals: true,
  fails: [CustomerSessionCodeInvalidOrExpired],
})

export const exchangePortalCode = operation({
  id: 'customer_portal:customer-session:exchange',
  method: 'POST',
  path: '/v1/customer-portal/customer-session/exchange',
  summary: 'Trade the code of a portal address for a cookie',
  description: 'For our own pages: the code of `customer_portal_url` works once, and the token never stands in an address.',
  access: open(),
  body: resource('PortalCodeExchange', { code: z.string().trim().min(1).max(200) }),
  returns: CustomerCustomerSession,
  reveals: true,
  fails: [CustomerSessionCodeInvalidOrExpired],
})
