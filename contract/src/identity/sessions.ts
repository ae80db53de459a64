import { z } from 'zod'
import { email, failure, openAccess, operation, resource, session, stamps, uuid } from '../kit/index.ts'

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

export const getCurrentUser = operation({
  id: 'users:me',
  method: 'GET',
  path: '/v1/users/me',
  summary: 'Get the signed-in person',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  returns: User,
  fails: [],
})
