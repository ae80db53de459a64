export const en = {
  results: 'Results',
  said: (count: number) => (count === 1 ? 'One person was invited.' : `${count} people were invited.`),
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
    at_once: (rest: number) => `You can invite at most 50 people at once. Send the ${rest === 1 ? 'last one' : `other ${rest}`} now.`,
    wait: (rest: number, wait: string) =>
      `You invited too many people in a short time. Send the ${rest === 1 ? 'last one' : `other ${rest}`} again in ${wait}.`,
    signed_out: (rest: number) =>
      `Your session has ended, so ${rest === 1 ? 'one person was' : `${rest} people were`} not invited. Sign in, and send the rest again.`,
  },
  signIn: 'Sign in to the portal',
}
