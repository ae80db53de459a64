/** The kinds of declined payments. Each kind has its own advice for the buyer. */
export type DeclineKind = 'funds' | 'expired' | 'typed' | 'unconfirmed' | 'later' | 'unsuited' | 'other'

const kinds: readonly (readonly [RegExp, DeclineKind])[] = [
  [/insufficient funds/, 'funds'],
  [/expired/, 'expired'],
  [/security code|number is incorrect/, 'typed'],
  [/did not confirm|wants the payer to confirm|authenticate|was canceled/, 'unconfirmed'],
  [/processing (the|your) card/, 'later'],
  [/not support/, 'unsuited'],
]

/** Returns the kind of a decline from the message of the bank or of the processor. */
export const declineKind = (message: string): DeclineKind => kinds.find(([pattern]) => pattern.test(message))?.[1] ?? 'other'
