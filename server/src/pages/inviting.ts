import { assignPortalSeat, updatePortalMember, type Invitations, type Invited } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { atOnce, readAddresses } from './addresses.ts'
import { complaintsOf } from './visits.ts'

/** The purchase whose seats are given. */
type Key = { readonly checkout_id: string } | { readonly subscription_id: string } | { readonly order_id: string }

/** Invites whoever was pasted, one after the other, and says of every piece what came of it. */
export const inviteAll = async (api: Client, key: Key, text: string, role: 'member' | 'billing_manager' = 'member'): Promise<Invitations> => {
  const { addresses, others } = readAddresses(text)
  const people: Invited[] = []
  let halted: Invitations['halted'] = null
  for (const address of addresses) {
    if (people.length === atOnce) halted ??= 'at_once'
    // Where nobody more can be asked, whoever comes after would hear the same.
    const came: Invited | NonNullable<Invitations['halted']> = halted ?? (await invite(api, key, address, role))
    if (typeof came === 'string') halted = came
    people.push(typeof came === 'string' ? { address, result: came === 'full' ? 'no_seat' : 'not_asked', why: null } : came)
  }
  return { people: [...people, ...others.map((address): Invited => ({ address, result: 'no_address', why: null }))], halted }
}

/** One of them; or why nobody more can be asked now. */
const invite = async (api: Client, key: Key, email: string, role: 'member' | 'billing_manager'): Promise<Invited | 'full' | 'wait' | 'signed_out'> => {
  const answer = await api.send(assignPortalSeat, { body: { ...key, email } })
  if (answer.status === 401) return 'signed_out'
  if (answer.status === 429 || answer.status >= 500) return 'wait'
  if (answer.status < 300) {
    const { member } = answer.body
    // A role only for whoever has a seat; whoever leads already stays what they are.
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
