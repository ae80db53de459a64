import {
  InvalidRequest,
  memberCreated,
  memberDeleted,
  memberUpdated,
  NotPermitted,
  ResourceNotFound,
  type Member,
  type MemberRole,
  type MemberUpdate,
} from '@bursar/contract'
import type { z } from 'zod'
import { newId } from '../../../kernel/ids.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { isTwin, type Db, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { touchState, type CustomerRow } from '../customers/customers.sql.ts'
import { allMembers, changeMember, findMember, findMemberByEmail, findOwner, insertMember, moveHeld, type MemberNaming, type MemberRow } from './members.sql.ts'

/** The member as the wire shows it: the caller's own identifier under both of its names. */
export const present = ({ organization_id: _, ...row }: MemberRow): Member => ({ ...row, external_member_id: row.external_id })

export interface NewMember {
  readonly email: string
  readonly name: string | null
  readonly external_id: string | null
  readonly role: MemberRole
}

/** An address is one member of a customer, however often it is added: the second time it is answered as it is. */
export const add = async (tx: Tx, customer: Locked<CustomerRow>, wish: NewMember): Promise<MemberRow> => {
  const there = await findMemberByEmail(tx, customer, wish.email)
  if (there) return there
  if (customer.type === 'individual')
    throw new NotPermitted('An individual customer has no members beside its owner. Make it a team first: PATCH the customer with type "team".')
  return insert(tx, customer, wish)
}

/** Writes a member and says so. The customer is held, so nobody adds the same one beside us; its unique keys stand behind that. */
export const insert = async (wall: Tx, customer: Locked<CustomerRow>, wish: NewMember): Promise<MemberRow> => {
  const tx = await inTimeOf(wall, customer)
  const { organization_id, id: customer_id } = customer
  // The owner has been there as long as the customer.
  const created_at = wish.role === 'owner' ? customer.created_at : tx.clock.business()
  const member: MemberRow = { organization_id, id: newId(tx.clock.wall()), customer_id, created_at, modified_at: null, ...wish }
  try {
    await insertMember(tx, member)
  } catch (error) {
    if (!isTwin(error, 'members_external_id')) throw error
    throw new InvalidRequest({
      loc: ['body', 'external_id'],
      msg: 'This customer already has a member with this external id.',
      type: 'value_error',
      input: wish.external_id,
    })
  }
  await emit(tx, memberCreated, subject(member), present(member))
  return member
}

/** A member of this customer, or nothing at all: somebody else's is answered like none. */
export const find = async (db: Db, customer: CustomerRow, naming: MemberNaming): Promise<MemberRow> => {
  const member = await findMember(db, customer, naming)
  if (!member) throw new ResourceNotFound()
  return member
}

/**
 * Changes what is given. A customer has exactly one owner at every moment: ownership is handed over, never dropped, and
 * of two who hand it over at once the second starts from what the first has left.
 */
export const update = async (tx: Tx, customer: Locked<CustomerRow>, member: MemberRow, body: z.output<typeof MemberUpdate>): Promise<MemberRow> => {
  const changes: Partial<MemberRow> = {}
  if (body.name !== undefined && body.name !== member.name) changes.name = body.name
  if (body.email && body.email !== member.email) {
    if (customer.type === 'individual' && member.role === 'owner')
      throw problem('email', 'The owner of an individual customer has its address: change the customer.', body.email)
    const holder = await findMemberByEmail(tx, customer, body.email)
    if (holder && holder.id !== member.id) throw problem('email', 'This customer already has a member with this e-mail address.', body.email)
    changes.email = body.email
  }
  if (body.role && body.role !== member.role) {
    if (member.role === 'owner') throw problem('role', 'The owner stays owner until another member takes over: make that one the owner.', body.role)
    if (body.role === 'owner') await demoteOwner(tx, customer)
    changes.role = body.role
  }
  return Object.keys(changes).length === 0 ? member : change(tx, customer, member, changes)
}

/** Gives a member the caller's own identifier, where it has none yet. */
export const nameMember = async (tx: Tx, customer: Locked<CustomerRow>, member: MemberRow, external_id: string): Promise<MemberRow> =>
  change(tx, customer, member, { external_id })

const demoteOwner = async (tx: Tx, customer: Locked<CustomerRow>): Promise<void> => {
  const owner = await findOwner(tx, customer)
  if (owner) await change(tx, customer, owner, { role: 'billing_manager' })
  await enqueue(tx, 'entitlements.owner_changed', { organization_id: customer.organization_id, customer_id: customer.id })
  // What is the customer's own is the next one's from here on.
  await touchState(tx, { organization_id: customer.organization_id, customer_id: customer.id })
}

/** Gone at once: sessions of the member end by that. The owner cannot be removed, only relieved. */
export const remove = async (tx: Tx, customer: Locked<CustomerRow>, member: MemberRow, param = 'member_id'): Promise<void> => {
  if (member.role === 'owner')
    throw new InvalidRequest({
      loc: ['path', param],
      msg: 'The owner cannot be removed: make another member the owner first, or delete the customer.',
      type: 'value_error',
    })
  await erase(tx, customer, member)
}

/** All of them, the owner too, because their customer goes. */
export const removeAll = async (tx: Tx, customer: Locked<CustomerRow>): Promise<void> => {
  for (const member of await allMembers(tx, customer)) await erase(tx, customer, member)
}

/** The owner of an individual customer is that customer: the address is one. */
export const mirrorEmail = async (tx: Tx, customer: Locked<CustomerRow>, email: string): Promise<void> => {
  const owner = await findOwner(tx, customer)
  if (!owner || owner.email === email) return
  const holder = await findMemberByEmail(tx, customer, email)
  if (holder && holder.id !== owner.id) throw problem('email', 'Another member of this customer has this e-mail address.', email)
  await change(tx, customer, owner, { email })
}

/** While whoever holds seats is a customer as well, the member that they are to those who pay follows their address, where it is free. */
export const mirrorHeld = async (wall: Tx, holder: Locked<CustomerRow>, before: string): Promise<void> => {
  const tx = await inTimeOf(wall, holder)
  for (const member of await moveHeld(tx, holder, before, tx.clock.business())) await emit(tx, memberUpdated, subject(member), present(member))
}

const change = async (wall: Tx, customer: Locked<CustomerRow>, member: MemberRow, changes: Partial<MemberRow>): Promise<MemberRow> => {
  const tx = await inTimeOf(wall, customer)
  const changed = await changeMember(tx, member, { ...changes, modified_at: tx.clock.business() })
  await emit(tx, memberUpdated, subject(changed), present(changed))
  return changed
}

const erase = async (wall: Tx, customer: Locked<CustomerRow>, member: MemberRow): Promise<void> => {
  const tx = await inTimeOf(wall, customer)
  await changeMember(tx, member, { deleted_at: tx.clock.business() })
  await emit(tx, memberDeleted, subject(member), present(member))
  const { organization_id, id: member_id } = member
  await enqueue(tx, 'billing.member_deleted', { organization_id, member_id })
  await enqueue(tx, 'entitlements.member_deleted', { organization_id, member_id })
}

const subject = ({ organization_id, id, customer_id }: MemberRow) => ({ organization_id, resource_id: id, customer_id })

const problem = (field: string, msg: string, input: unknown) => new InvalidRequest({ loc: ['body', field], msg, type: 'value_error', input })
