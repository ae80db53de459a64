import { pluralIn } from '@bursar/views'

const plural = pluralIn('en')

export const en = {
  working: 'Your payment is on its way',
  preparing: 'Payment received',
  preparingText: 'We are preparing your purchase. This page updates by itself. You can close it: nothing is lost.',
  workingText: 'This page updates by itself. You can close it: nothing is lost.',
  waiting: 'We are waiting for your bank',
  waitingText: (email: string | null) =>
    `Your bank has not confirmed the payment yet. This can take a few minutes, and some days for a bank debit. You can close this page.${email === null ? '' : ` The receipt goes to ${email} when the payment has arrived.`}`,
  thanks: 'Thank you!',
  steps: 'Progress',
  payment: 'Payment',
  order: 'Order',
  access: 'Access',
  states: { done: 'done', doing: 'under way', waiting: 'next' },
  bought: (product: string) => `${product} is yours.`,
  paid: (price: string) => `${price} paid`,
  number: (number: string) => `Receipt ${number}`,
  receipt: (email: string) => `The receipt goes to ${email}.`,
  benefits: 'What you have now',
  benefit: { granted: 'ready', coming: 'being set up', failed: 'has a problem', unknown: 'in the portal' },
  portal: 'Open the portal',
  signIn: 'Sign in to the portal',
  signInText: (email: string) => `There is already an account for ${email}. To see what you bought, sign in with a code that we send to this address.`,
  invite: 'Invite your team',
  inviteText: 'Paste e-mail addresses in any form. Each person gets a link to accept their seat.',
  addresses: 'E-mail addresses',
  send: 'Send invitations',
  seats: (given: number, total: number) => `${given} of ${total} ${plural(total, { one: 'seat', other: 'seats' })} given`,
  full: 'All seats are given. You can buy more in the portal.',
}
