import { pluralIn } from '@bursar/views'

const plural = pluralIn('en')
export const en = {
  title: 'Sign-in security',
  intro: 'With a second factor, a stolen mailbox is not enough to sign in as you.',
  required: 'You run this service, so you need a second factor. Until you set one up, you can only view your account.',
  off: 'You have no second factor.',
  on: 'Your second factor is on.',
  left: (count: number) => plural(count, { one: '1 recovery code is left.', other: `${count} recovery codes are left.` }),
  begin: 'Set up a second factor',
  setup: 'Add this account to your authenticator app',
  scan: 'Scan this code with the app.',
  qr: 'QR code that adds this account to an authenticator app',
  secret: 'Or type this secret into the app',
  link: 'Open in an authenticator on this device',
  code: 'Code from the app',
  confirm: 'Turn on',
  codesTitle: 'Your recovery codes',
  codes: 'Use one if you do not have your authenticator at hand. Each code works once. Keep them somewhere safe: they are not shown again.',
  end: 'Turn the second factor off',
  endHint: 'You have to enter a code once more.',
  confirmHint: 'Turning it on signs you out on every other browser.',
  sessionsTitle: 'Signed-in browsers',
  sessions: (count: number) =>
    plural(count, { one: 'You are signed in on this browser only.', other: `You are signed in on ${count} browsers, this one included.` }),
  everywhere: 'Sign out everywhere',
  everywhereHint: 'Ends your sessions on all browsers, this one included. Access tokens and apps keep working.',
}
