import { pluralIn } from '@bursar/views'

const plural = pluralIn('en')
export const en = {
  continueTo: (name: string) => `to continue to ${name}`,
  email: 'E-mail address',
  sendCode: 'Send me a code',
  codeTitle: 'Check your e-mail',
  codeSent: (email: string) => `If ${email} can sign in here, a code is on its way. It works for 15 minutes.`,
  codeResent: 'A new code is on its way. The previous one no longer works.',
  code: 'Code from the mail',
  submit: 'Sign in',
  again: 'Send a new code',
  beginAgain: 'Begin again',
  otherAddress: 'Use another address',
  factorTitle: 'Second factor',
  factorHint: 'Open your authenticator app, or use one of your recovery codes.',
  triesLeft: (count: number) => plural(count, { one: 'One try is left.', other: `${count} tries are left.` }),
}
