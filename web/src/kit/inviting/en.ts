import { pluralIn } from '@bursar/views'

const plural = pluralIn('en')
export const en = {
  results: 'Results',
  said: (count: number) => plural(count, { one: 'One person was invited.', other: `${count} people were invited.` }),
  none: 'This text contains no e-mail address. Enter at least one.',
  result: {
    invited: 'invited',
    has_one: 'has a seat already',
    no_address: 'is not an e-mail address',
    no_seat: 'not invited: no free seat',
    not_asked: 'not invited yet',
    refused: 'not invited',
  },
  halted: {
    at_once: (rest: number) => `You can invite at most 50 people at once. Send the ${plural(rest, { one: 'last one', other: `other ${rest}` })} now.`,
    signed_out: (rest: number) =>
      `Your session has ended, so ${plural(rest, { one: 'one person was', other: `${rest} people were` })} not invited. Sign in, and send the rest again.`,
  },
  /** The text before and after the wait that counts down. */
  wait: (rest: number): readonly [string, string] => [
    `You invited too many people in a short time. The ${plural(rest, { one: 'last invitation is sent', other: `other ${rest} invitations are sent` })} in`,
    '. Keep this page open, or send them again later.',
  ],
  signIn: 'Sign in to the portal',
}
