import { assignPortalSeat, updatePortalMember } from '@bursar/contract'
import type { Invitations, Invited } from '@bursar/views'
import type { Client } from '@bursar/contract/client'
import { atOnce, readAddresses } from './addresses.ts'
import { complaintsOf, waitOf } from './visits.ts'

/** The purchase whose seats are assigned. */
type Key = { readonly checkout_id: string } | { readonly subscription_id: string } | { readonly order_id: string }

/** Invites all pasted addresses in order, and reports a result for every piece of the pasted text. */
export const inviteAll = async (api: Client, key: Key, text: string, role: 'member' | 'billing_manager' = 'member'): Promise<Invitations> => {
  const { addresses, others } = readAddresses(text)
  const people: Invited[] = []
  let halted: Invitations['halted'] = null
  let wait_seconds: number | null = null
  for (const address of addresses) {
    if (people.length === atOnce) halted ??= 'at_once'
    // Once a response stops all further invitations, the remaining addresses are not sent to the API.
    const came: Answered | NonNullable<Invitations['halted']> = halted ?? (await invite(api, key, address, role))
    if (typeof came === 'object' && 'wait_seconds' in came) {
      halted = 'wait'
      wait_seconds = came.wait_seconds
    } else if (typeof came === 'string') halted = came
    else {
      people.push(came)
      continue
    }
    people.push({ address, result: halted === 'full' ? 'no_seat' : 'not_asked', why: null })
  }
  return { people: [...people, ...others.map((address): Invited => ({ address, result: 'no_address', why: null }))], halted, wait_seconds }
}

type Answered = Invited | { readonly wait_seconds: number } | 'full' | 'signed_out'

/** Invites one address. Returns its result, or the reason why no further invitations are possible. */
const invite = async (api: Client, key: Key, email: string, role: 'member' | 'billing_manager'): Promise<Answered> => {
  const answer = await api.send(assignPortalSeat, { body: { ...key, email } })
  if (answer.status === 401) return 'signed_out'
  if (answer.status === 429 || answer.status >= 500) return { wait_seconds: waitOf(answer) }
  if (answer.status < 300) {
    const { member } = answer.body
    // Gives the selected role only to a member whose current role is `member`. A member with a higher role keeps it.
    const raised =
      role !== 'member' && member?.role === 'member' ? await api.send(updatePortalMember, { params: { id: member.id }, body: { role } }) : undefined
    return { address: email, result: 'invited', why: raised && raised.status !== 200 ? complaintsOf(raised)[0]! : null }
  }
  const why = complaintsOf(answer)[0]!
  if (answer.status === 422) return { address: email, result: 'no_address', why: null }
  if (why.type === 'SeatAlreadyAssigned') return { address: email, result: 'has_one', why: null }
  if (why.type === 'SeatNotAvailable') return 'full'
  return { address: email, result: 'refused', why }
}
