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
import { emit, emitEach } from '../../../platform/outbox/outbox.sql.ts'
import { isUniqueViolation, type BusinessTx, type Db, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { touchState } from '../records/customers.sql.ts'
import { type CustomerRow } from '../records/customer-rows.sql.ts'
import {
  changeMember,
  deleteMembersOf,
  findMember,
  findMemberByEmail,
  findOwnerOf,
  insertMemberOnce,
  insertMemberRow,
  moveHeld,
  type MemberNaming,
} from '../records/members.sql.ts'
import type { MemberRow } from '../records/member-rows.sql.ts'

/** Presents the member in the API's format. The external id appears as `external_id` and `external_member_id`. */
export const presentMember = ({ organization_id: _, ...row }: MemberRow): Member => ({ ...row, external_member_id: row.external_id })

export interface NewMember {
  readonly email: string
  readonly name: string | null
  readonly external_id: string | null
  readonly role: MemberRole
}

/** Adds a member. An address is unique among a customer's members, so adding it again returns the existing member. */
export const addMember = async (tx: Tx, customer: Locked<CustomerRow>, wish: NewMember): Promise<MemberRow> => {
  const there = await findMemberByEmail(tx, customer, wish.email)
  if (there) return there
  if (customer.type === 'individual')
    throw new NotPermitted('An individual customer has no members besides its owner. Make it a team first: PATCH the customer with type "team".')
  return insertMember(tx, customer, wish)
}

/**
 * Inserts a member and emits `member.created`. The lock on the customer prevents concurrent inserts of the same member.
 * Unique keys are a second safeguard.
 */
const insertMember = async (wall: Tx, customer: Locked<CustomerRow>, wish: NewMember): Promise<MemberRow> => {
  const tx = await inTimeOf(wall, customer)
  const member = newMember(tx, customer, wish)
  try {
    await insertMemberRow(tx, member)
  } catch (error) {
    if (!isUniqueViolation(error, 'members_external_id')) throw error
    throw new InvalidRequest({
      loc: ['body', 'external_id'],
      msg: 'This customer already has a member with this external id.',
      type: 'value_error',
      input: wish.external_id,
    })
  }
  await emitMemberCreated(tx, member)
  return member
}

/** Builds a member. An owner gets the creation time of the customer. */
export const newMember = (tx: BusinessTx, { organization_id, id: customer_id, created_at }: CustomerRow, wish: NewMember): MemberRow => ({
  organization_id,
  id: newId(tx.clock.wall()),
  customer_id,
  created_at: wish.role === 'owner' ? created_at : tx.clock.business(),
  modified_at: null,
  ...wish,
})

export const emitMemberCreated = (tx: BusinessTx, member: MemberRow): Promise<void> => emit(tx, memberCreated, subject(member), presentMember(member))

/** Returns the customer's member with this address. Inserts the member if there is none. */
export const memberWithAddress = async (tx: BusinessTx, customer: Locked<CustomerRow>, email: string): Promise<MemberRow> => {
  const { member, inserted } = await insertMemberOnce(tx, newMember(tx, customer, { email, name: null, external_id: null, role: 'member' }))
  if (inserted) await emitMemberCreated(tx, member)
  return member
}

/** Returns a member of this customer. A member of another customer is reported as not found. */
export const requireMember = async (db: Db, customer: CustomerRow, naming: MemberNaming): Promise<MemberRow> => {
  const member = await findMember(db, customer, naming)
  if (!member) throw new ResourceNotFound()
  return member
}

/**
 * Updates the given fields of a member. A customer always has exactly one owner: ownership can only be transferred. The
 * customer is locked, so that concurrent transfers run one after the other.
 */
export const updateMember = async (tx: Tx, customer: Locked<CustomerRow>, member: MemberRow, body: z.output<typeof MemberUpdate>): Promise<MemberRow> => {
  const changes: Partial<MemberRow> = {}
  if (body.name !== undefined && body.name !== member.name) changes.name = body.name
  if (body.email && body.email !== member.email) {
    if (customer.type === 'individual' && member.role === 'owner')
      throw problem('email', 'The owner of an individual customer has the same address as the customer. Change the customer instead.', body.email)
    const holder = await findMemberByEmail(tx, customer, body.email)
    if (holder && holder.id !== member.id) throw problem('email', 'This customer already has a member with this e-mail address.', body.email)
    changes.email = body.email
  }
  if (body.role && body.role !== member.role) {
    if (member.role === 'owner')
      throw problem('role', 'The owner keeps this role until another member becomes owner. Make another member the owner first.', body.role)
    if (body.role === 'owner') await demoteOwner(tx, customer)
    changes.role = body.role
  }
  return Object.keys(changes).length === 0 ? member : change(tx, customer, member, changes)
}

const demoteOwner = async (tx: Tx, customer: Locked<CustomerRow>): Promise<void> => {
  const owner = await findOwnerOf(tx, customer)
  if (owner) await change(tx, customer, owner, { role: 'billing_manager' })
  await enqueue(tx, 'entitlements.owner_changed', { organization_id: customer.organization_id, customer_id: customer.id })
  // Grants of the customer itself now belong to the new owner, so the customer's state has changed.
  await touchState(tx, { organization_id: customer.organization_id, customer_id: customer.id })
}

/** Deletes a member. Its sessions are invalid immediately. The owner cannot be deleted: ownership must be transferred first. */
export const deleteMember = async (tx: Tx, customer: Locked<CustomerRow>, member: MemberRow, param = 'member_id'): Promise<void> => {
  if (member.role === 'owner')
    throw new InvalidRequest({
      loc: ['path', param],
      msg: 'The owner cannot be removed. Make another member the owner first, or delete the customer.',
      type: 'value_error',
    })
  await erase(tx, customer, member)
}

/** Deletes all members, including the owner, because their customer is deleted. */
export const removeAll = async (wall: Tx, customer: Locked<CustomerRow>): Promise<void> => {
  const tx = await inTimeOf(wall, customer)
  const gone = await deleteMembersOf(tx, customer, tx.clock.business())
  await emitEach(
    tx,
    memberDeleted,
    gone.map((member) => [subject(member), presentMember(member)] as const),
  )
  for (const member of gone) await lookAfterDeleted(tx, member)
}

/** Applies the new address of an individual customer to its owner, because both are the same person. */
export const mirrorEmail = async (tx: Tx, customer: Locked<CustomerRow>, email: string): Promise<void> => {
  const owner = await findOwnerOf(tx, customer)
  if (!owner || owner.email === email) return
  const holder = await findMemberByEmail(tx, customer, email)
  if (holder && holder.id !== owner.id) throw problem('email', 'Another member of this customer already has this e-mail address.', email)
  await change(tx, customer, owner, { email })
}

/**
 * Applies the new address of a seat holder to the holder's members at paying customers, unless another member has it.
 * Called before phase 2, while seat holders are also customers.
 */
export const mirrorHeld = async (wall: Tx, holder: Locked<CustomerRow>, before: string): Promise<void> => {
  const tx = await inTimeOf(wall, holder)
  for (const member of await moveHeld(tx, holder, before, tx.clock.business())) await emit(tx, memberUpdated, subject(member), presentMember(member))
}

const change = async (wall: Tx, customer: Locked<CustomerRow>, member: MemberRow, changes: Partial<MemberRow>): Promise<MemberRow> => {
  const tx = await inTimeOf(wall, customer)
  const changed = await changeMember(tx, member, { ...changes, modified_at: tx.clock.business() })
  await emit(tx, memberUpdated, subject(changed), presentMember(changed))
  return changed
}

const erase = async (wall: Tx, customer: Locked<CustomerRow>, member: MemberRow): Promise<void> => {
  const tx = await inTimeOf(wall, customer)
  await changeMember(tx, member, { deleted_at: tx.clock.business() })
  await emit(tx, memberDeleted, subject(member), presentMember(member))
  await lookAfterDeleted(tx, member)
}

/** Enqueues the jobs that end the seats and benefits of a deleted member. */
const lookAfterDeleted = async (tx: Tx, { organization_id, id: member_id }: MemberRow): Promise<void> => {
  await enqueue(tx, 'billing.member_deleted', { organization_id, member_id })
  await enqueue(tx, 'entitlements.member_deleted', { organization_id, member_id })
}

const subject = ({ organization_id, id, customer_id }: MemberRow) => ({ organization_id, resource_id: id, customer_id })

const problem = (field: string, msg: string, input: unknown) => new InvalidRequest({ loc: ['body', field], msg, type: 'value_error', input })
