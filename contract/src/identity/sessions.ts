import { z } from 'zod'
import { email, failure, open, operation, resource, session, stamps, uuid } from '../kit/index.ts'

export const User = resource('User', {
  ...stamps,
  id: uuid(),
  email: z.string(),
  email_verified: z.boolean(),
  avatar_url: z.string().nullable(),
  is_operator: z.boolean().describe('Runs this deployment; stands outside all organizations.'),
})
export type User = z.output<typeof User>

export const SignInRefused = failure('SignInRefused', 401, 'This code is wrong, used or expired. Ask for a new one.')

export const SecondFactorRequired = failure(
  'SecondFactorRequired',
  403,
  'The code was right, and this account has a second factor: send it to /v1/auth/second-factor with the cookie of this answer.',
)

export const requestSignInCode = operation({
  id: 'auth:request_code',
  method: 'POST',
  path: '/v1/auth/email-otp',
  summary: 'Ask for a sign-in code by e-mail',
  description: 'The answer is the same whether or not the address is known.',
  access: open(),
  budget: 'sign_in',
  body: resource('SignInCodeRequest', { email: email() }),
  status: 202,
  fails: [],
})

export const verifySignInCode = operation({
  id: 'auth:verify_code',
  method: 'POST',
  path: '/v1/auth/email-otp/verify',
  summary: 'Sign in with the code',
  description: 'Answers with the session cookie. A code works once and burns after five wrong tries.',
  access: open(),
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
  description: 'Takes a code of the authenticator, or a recovery code, from the browser that has just sent the right mail code.',
  access: open(),
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
  fails: [],
})

export const getCurrentUser = operation({
  id: 'users:me',
  method: 'GET',
  path: '/v1/users/me',
  summary: 'Get the signed-in person',
  access: session(['user:read', 'user:write']),
  returns: User,
  fails: [],
})
