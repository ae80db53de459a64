import { accountLimits } from '@bursar/contract'
import { newId } from '../../../kernel/ids.ts'
import { sameText, type Secret } from '../../../kernel/secrets.ts'
import { later } from '../../../platform/clock.ts'
import { insertCode, lockMailbox, returnTries, spendTries, type CodeLimits, type CodeOrigin, type Mailbox } from '../../../platform/postgres/codes.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { codeLife } from './browsers.ts'

/** Number of attempts per code. The requesting browser, its network, and all other callers each have their own count. */
export const triesPerCode = accountLimits.tries_per_sign_in_code

/**
 * Number of codes sent to one mailbox per hour. The first two limits apply to unknown browsers. Recognized browsers
 * have their own limit. Guessing: at most 30 + 10 codes an hour, each open to 3 × 5 tries, are 600 comparisons an hour.
 * A code is one of 32^8. The probability to break into a mailbox under constant attack is 600 / 32^8 = 5.5e-10 an hour,
 * 4.8e-6 a year.
 */
export const codesPerHour: CodeLimits = {
  perNetwork: accountLimits.sign_in_codes_per_mailbox_network_and_hour,
  unrecognised: accountLimits.sign_in_codes_per_mailbox_and_hour,
  recognised: accountLimits.sign_in_codes_per_mailbox_and_hour_for_recognised_browsers,
}

/** Inserts a request for a code. Returns its id, or null if the hourly limit is reached. Earlier codes stay valid in both cases. */
export const requestMailedCode = async (tx: Tx, mailbox: Mailbox, origin: CodeOrigin, sendTo: string): Promise<string | null> => {
  const wall = tx.clock.wall()
  const code = { id: newId(wall), email: sendTo, created_at: wall, expires_at: later(wall, codeLife) }
  await lockMailbox(tx, mailbox)
  return (await insertCode(tx, mailbox, code, origin, triesPerCode, codesPerHour)) ? code.id : null
}

/** A correct code, with a function that undoes the counting of the attempt. */
export interface MatchedCode {
  readonly id: string
  readonly returnTry: () => Promise<void>
}

/**
 * Finds the valid code that was typed. The attempt is counted before any comparison, so that concurrent guesses cannot
 * exceed the limit. Returns null if no code matches. The attempt still counts.
 */
export const matchCode = async (
  tx: Tx,
  { hasher }: Platform,
  mailbox: Mailbox,
  origin: CodeOrigin,
  boundTo: (id: string) => Secret,
): Promise<MatchedCode | null> => {
  await lockMailbox(tx, mailbox)
  const open = await spendTries(tx, mailbox, origin, tx.clock.wall())
  const found = open.find(({ id, hash }) => hasher.candidates(boundTo(id)).some((one) => sameText(one, hash ?? '')))
  return found
    ? {
        id: found.id,
        returnTry: () =>
          returnTries(
            tx,
            mailbox,
            origin,
            open.map(({ id }) => id),
          ),
      }
    : null
}
