import { pluralIn } from '@bursar/views'
import { scopeSentences } from '@bursar/contract'
import type { Mishap } from '@bursar/views'

const plural = pluralIn('en')

export const en = {
  mishaps: {
    email_invalid: 'This is not an e-mail address. Write one like name@example.com.',
    code_wrong: 'This code is not right.',
    code_expired: 'This code was already used or is too old. Request a new one.',
    factor_wrong: 'This code is not right. Each code works once: wait for the next one, or use a recovery code.',
    organization_missing: 'Choose at least one organization, or all of them.',
    organization_single: 'This app works with one organization: choose one.',
    name_missing: 'Give the token a name of at most 256 characters.',
    scopes_missing: 'Choose at least one permission.',
    forever_unconfirmed: 'Choose how long the token is valid. For a token that never expires, tick the box below.',
    session_old: 'Your sign-in is more than an hour old. Sign in again, then make the token.',
    not_allowed: 'You run this service, so you need a second factor before you can do this. Set one up under Sign-in security.',
  } satisfies Record<Mishap, string>,
  signIn: 'Sign in',
  factor: 'Code',
  verified: 'Verified by the operator of this service',
  unverified: 'Not verified',
  fresh: 'new',
  marks: { read: 'read', write: 'change' },
  count: (count: number) => plural(count, { one: '1 permission', other: `${count} permissions` }),
  scopes: scopeSentences as Record<string, string>,
}
