import { z } from 'zod'
import { email, failure, openAccess, operation, resource, session, stamps, timestamp, uuid } from '../kit/index.ts'
import { OrganizationPermission } from '../organizations/permissions.ts'
import { OrganizationRole } from './memberships.ts'

export const User = resource('User', {
  ...stamps,
  id: uuid(),
  email: z.string(),
  email_verified: z.boolean(),
  avatar_url: z.string().nullable(),
  is_operator: z.boolean().describe('True if the person operates this deployment. Independent of the roles in organizations.'),
})
export type User = z.output<typeof User>

export const SignInRefused = failure('SignInRefused', 401, 'This code is wrong, used or expired. Request a new one.')

export const SecondFactorRequired = failure(
  'SecondFactorRequired',
  403,
  'The code is correct, and this account has a second factor. Send the second factor to /v1/auth/second-factor with the cookie of this answer.',
)

export const requestSignInCode = operation({
  id: 'auth:request_code',
  method: 'POST',
  path: '/v1/auth/email-otp',
  summary: 'Request a sign-in code by e-mail',
  description:
    'The answer is the same for every address, known or unknown, rate-limited or not. Limits per address and hour: 5 codes for each network (IPv4 /24, IPv6 /48), 30 in total, and 10 more for browsers that signed in before. Sent codes stay valid. The cookie of the answer binds the code to the browser. Send it with the code, so that attempts by others do not count.',
  access: openAccess(),
  costs: 'mail',
  budget: 'sign_in',
  body: resource('SignInCodeRequest', { email: email() }),
  status: 202,
  fails: [],
})

export const verifySignInCode = operation({
  id: 'auth:verify_code',
  method: 'POST',
  path: '/v1/auth/email-otp/verify',
  summary: 'Sign in with a code',
  description:
    'Sets the session cookie. A code works once, for 15 minutes. The browser that requested it has five attempts. Other callers in its network share five, and all remaining callers share five.',
  access: openAccess(),
  costs: 'none',
  budget: 'sign_in',
  body: resource('SignInCodeVerify', { email: email(), code: z.string().trim().min(1).max(20) }),
  returns: User,
  fails: [SignInRefused, SecondFactorRequired],
})

export const verifySecondFactor = operation({
  id: 'auth:verify_second_factor',
  method: 'POST',
  path: '/v1/auth/second-factor',
  summary: 'Complete a sign-in with the second factor',
  description: 'Takes an authenticator code or a recovery code, from the browser that has just sent the correct e-mail code.',
  access: openAccess(),
  costs: 'none',
  budget: 'sign_in',
  body: resource('SecondFactorVerify', { code: z.string().trim().min(1).max(40) }),
  returns: User,
  fails: [SignInRefused],
})

export const signOut = operation({
  id: 'auth:sign_out',
  method: 'DELETE',
  path: '/v1/auth/session',
  summary: 'Sign out',
  description: 'Ends the session on the server and clears the cookie.',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  fails: [],
})

export const signOutEverywhere = operation({
  id: 'auth:sign_out_everywhere',
  method: 'DELETE',
  path: '/v1/auth/sessions',
  summary: 'Sign out everywhere',
  description:
    'Ends every browser session of the person, including this one, and clears the cookie. Access tokens and apps are not affected: revoke them separately.',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  fails: [],
})

export const UserMembership = resource('UserMembership', {
  organization_id: uuid(),
  organization_name: z.string(),
  organization_slug: z.string(),
  role: OrganizationRole,
  permissions: z.array(OrganizationPermission).describe('What the role may do. The server checks the same permissions.'),
})
export type UserMembership = z.output<typeof UserMembership>

/** The signed-in person with their organizations and the state of this session. */
export const CurrentUser = resource('CurrentUser', {
  ...User.shape,
  second_factor: resource('UserSecondFactor', {
    enabled: z.boolean().describe('True if the person has a confirmed second factor.'),
    required: z.boolean().describe('True for people who operate this deployment.'),
    missing: z.boolean().describe('True if the factor is required and this session was opened without it. The session may then only read the account.'),
  }),
  signed_in_at: timestamp().describe('When the person signed in, or last confirmed the session with a code.'),
  fresh_until: timestamp().describe('Until when operations are allowed that need a recent sign-in.'),
  memberships: z.array(UserMembership).describe('The organizations of the person, sorted by name.'),
})
export type CurrentUser = z.output<typeof CurrentUser>

export const getCurrentUser = operation({
  id: 'users:me',
  method: 'GET',
  path: '/v1/users/me',
  summary: 'Get the signed-in person',
  description: 'With the organizations of the person, and what their role allows in each.',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  returns: CurrentUser,
  fails: [],
})

export const requestRenewalCode = operation({
  id: 'auth:request_renewal_code',
  method: 'POST',
  path: '/v1/auth/session/code',
  summary: 'Request a code that renews the sign-in of this session',
  description:
    'Sends a code to the address of the signed-in person. Use it if an operation answers `SessionNotFreshError`. The limits and the cookie are those of sign-in codes. The answer is the same if a limit is reached.',
  access: session(['user:read', 'user:write']),
  costs: 'mail',
  budget: 'sign_in',
  status: 202,
  fails: [],
})

export const renewSession = operation({
  id: 'auth:renew_session',
  method: 'POST',
  path: '/v1/auth/session/renew',
  summary: 'Renew the sign-in of this session',
  description:
    'The session stays, and counts as just signed in. Then send the refused request again. A person with a second factor also sends `second_factor`; without it, the answer is `SecondFactorRequired` and the code stays valid.',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  budget: 'sign_in',
  body: resource('SessionRenew', {
    code: z.string().trim().min(1).max(20),
    second_factor: z.string().trim().min(1).max(40).nullish().describe('An authenticator code or a recovery code.'),
  }),
  returns: resource('SessionRenewal', { signed_in_at: timestamp(), fresh_until: timestamp() }),
  fails: [SignInRefused, SecondFactorRequired],
})
