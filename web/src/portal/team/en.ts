import { pluralIn } from '@bursar/views'
import { people } from '../en.ts'

const plural = pluralIn('en')

export const en = {
  title: 'Team',
  titleOf: (company: string) => `Team of ${company}`,
  none: 'You have bought no seats here, so there is no team to manage.',
  count: 'Change the number of seats',
  fixed: 'You cannot change the number of these seats here.',
  invite: 'Invite people',
  addresses: 'E-mail addresses',
  addressesHint: 'One or many: paste a list, a table, or whole lines from your mail.',
  role: 'Role for all of them',
  may: {
    owner: 'Can do everything, and can hand over the team.',
    billing_manager: 'Sees what is paid, changes seats and plan, invites and removes people.',
    member: 'Uses their own seat, and sees no prices.',
  } as Record<string, string>,
  submit: 'Send invitations',
  full: (count: number) =>
    `All seats are taken, so ${people(count)} could not be invited. The addresses are still in the field below. Check the price of more seats, change their number, and send the invitations again.`,
  allTaken: 'All seats are taken. Change the number of seats first, or take one back.',
  add: (count: number) => `See the price of ${count} more`,
  people: 'People',
  alone: (free: number) => `You are the only person here. You have ${plural(free, { one: '1 free seat', other: `${free} free seats` })}.`,
  nobody: (free: number) => `None of these seats is given to a person yet. You have ${plural(free, { one: '1 free seat', other: `${free} free seats` })}.`,
  noMatch: 'No person matches your filter.',
  clear: 'Show all people',
  filter: 'Filter people',
  status: 'Status',
  query: 'Address or name',
  search: 'Show',
  columns: { person: 'Person', status: 'Status', role: 'Role', since: 'Since', actions: 'Manage' },
  you: 'you',
  manage: 'Manage',
  resend: 'Send the invitation again',
  revoke: 'Take the seat back',
  loses: (email: string, gives: readonly string[]) =>
    gives.length === 0 ? `${email} loses access at once, and the seat is free.` : `${email} loses at once: ${gives.join(', ')}. The seat is then free.`,
  revokeNow: 'Yes, take it back',
  changeRole: 'Change role',
  handOver: 'Owner (you become billing manager)',
  ownRole: 'You cannot change your own role. Ask the owner or another billing manager.',
  lastOwner: 'A team always has one owner. To change this role, the owner hands the team over to another person.',
  others: 'In the team, without a seat',
  giveSeat: 'Give a seat',
  remove: 'Remove from the team',
  removes: (email: string) => `${email} leaves the team, and can no longer open its portal.`,
  removeNow: 'Yes, remove them',
}
