import { z } from 'zod'
import { email, failure, landing, merchant, NotPermitted, openAccess, operation, portal, resource, stamps, timestamp, uuid } from '../kit/index.ts'
import { AmbiguousExternalCustomerID, Customer } from './customers.ts'

export const CustomerSessionCreate = resource('CustomerSessionCreate', {
  customer_id: uuid().nullish().describe('The customer, by id.'),
  external_customer_id: z.string().max(256).nullish().describe('The customer, by your own identifier.'),
  customer_external_id: z.string().max(256).nullish().describe('Older name of `external_customer_id`.'),
  member_id: uuid().nullish().describe('The member of the session. Required for a team; an individual customer defaults to its owner.'),
  external_member_id: z.string().max(256).nullish().describe('The member, by your own identifier.'),
  return_url: landing().nullish().describe('The page to which the portal links back.'),
})

export const CustomerSession = resource('CustomerSession', {
  ...stamps,
  id: uuid(),
  token: z.string().describe('The customer access token. It is shown only once.'),
  expires_at: timestamp(),
  return_url: z.string().nullable(),
  customer_portal_url: z.string().describe('The address to send the person to. It opens the portal once.'),
  customer_id: uuid(),
  customer: Customer,
})

export const createCustomerSession = operation({
  id: 'customer-sessions:create',
  method: 'POST',
  path: '/v1/customer-sessions/',
  summary: 'Create a customer session',
  description: 'For one hour, the token authorizes portal requests as that member, and no other requests.',
  access: merchant('customer_sessions:write'),
  costs: 'none',
  body: CustomerSessionCreate,
  returns: CustomerSession,
  status: 201,
  reveals: true,
  fails: [NotPermitted, AmbiguousExternalCustomerID],
})

export const CustomerSessionCodeInvalidOrExpired = failure(
  'CustomerSessionCodeInvalidOrExpired',
  401,
  'This code is wrong, used or expired. Request a new one.',
)

export const CustomerCustomerSession = resource('CustomerCustomerSession', { expires_at: timestamp(), return_url: z.string().nullable() })

const read = portal(['customer_portal:read', 'customer_portal:write'])

export const introspectCustomerSession = operation({
  id: 'customer_portal:customer-session:introspect',
  method: 'GET',
  path: '/v1/customer-portal/customer-session/introspect',
  summary: 'Get the current session',
  access: read,
  costs: 'none',
  returns: CustomerCustomerSession,
  fails: [],
})

export const getPortalUser = operation({
  id: 'customer_portal:customer-session:get_authenticated_user',
  method: 'GET',
  path: '/v1/customer-portal/customer-session/user',
  summary: 'Get the person of the session',
  access: read,
  costs: 'none',
  returns: resource('PortalAuthenticatedUser', {
    type: z.enum(['customer', 'member']),
    has_team: z.boolean().describe('True if the customer is a team or has bought seats.'),
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
  costs: 'none',
  fails: [],
})

export const requestPortalCode = operation({
  id: 'customer_portal:customer-session:request',
  method: 'POST',
  path: '/v1/customer-portal/customer-session/request',
  summary: 'Request a portal sign-in code by e-mail',
  description:
    'The answer is the same for every address, known or unknown, rate-limited or not. Limits per address and hour: 5 codes for each network (IPv4 /24, IPv6 /48), 30 in total, and 10 more for browsers that signed in before. Sent codes stay valid. The cookie of the answer binds the code to the browser. A server that calls for its visitors keeps one cookie per visitor, so that attempts by others do not count.',
  access: openAccess({ anyOrigin: true }),
  costs: 'mail',
  budget: 'sign_in',
  body: resource('CustomerSessionCodeRequest', { organization_id: uuid(), email: email() }),
  status: 202,
  fails: [],
})

export const authenticatePortalCode = operation({
  id: 'customer_portal:customer-session:authenticate',
  method: 'POST',
  path: '/v1/customer-portal/customer-session/authenticate',
  summary: 'Open the portal with a code',
  description:
    'The code is valid for one organization and address, for 15 minutes, and works once. The browser that requested it has five attempts. Other callers in its network share five, and all remaining callers share five. If the address belongs to several customers, the answer lists them without a token. Send the same request again with one `customer_id`.',
  access: openAccess({ anyOrigin: true }),
  costs: 'none',
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
  summary: 'Exchange the code of a portal address for a cookie',
  description: 'For our own pages. The code of `customer_portal_url` works once, so that no token appears in an address.',
  access: openAccess(),
  costs: 'none',
  body: resource('PortalCodeExchange', { code: z.string().trim().min(1).max(200) }),
  returns: CustomerCustomerSession,
  reveals: true,
  fails: [CustomerSessionCodeInvalidOrExpired],
})
