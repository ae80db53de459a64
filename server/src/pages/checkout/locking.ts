import { setTimeout } from 'node:timers/promises'
import type { Reply } from '@bursar/contract/client'
import { complaintsOf } from '../visits.ts'

/** Waits between the tries, in milliseconds. A request holds the lock on a checkout for a few statements. */
const waits = [100, 200, 400, 800]

/** Sends a request again while another one holds the lock on the checkout. Returns the last answer. */
export const unlessLocked = async <Body>(ask: () => Promise<Reply<Body>>): Promise<Reply<Body>> => {
  for (const wait of waits) {
    const answer = await ask()
    if (answer.status !== 409 || complaintsOf(answer)[0]!.type !== 'CheckoutLocked') return answer
    await setTimeout(wait)
  }
  return ask()
}
