import {
  CustomerNotFound,
  customerSeatAssigned,
  customerSeatClaimed,
  InvalidInvitationToken,
  InvalidSeatAssignmentRequest,
  MemberEmailMismatch,
  MemberNotFound,
  ResourceNotFound,
  SeatAlreadyAssigned,
  SeatNotAvailable,
  type CustomerSeatAssign,
  type SeatAssign,
} from '@bursar/contract'
import { phaseOf, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { hours, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import {
  createHolder,
  findCustomers,
  findMember,
  findMemberByEmail,
  findOwnerOf,
  holdAddress,
  holdStanding,
  insertMember,
  lockCustomerByEmail,
  lockCustomers,
  nameMember,
  type CustomerRow,
  type MemberRow,
} from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { findPool, lockPool } from './pools.ts'
import type { Pool, PoolKey } from './pools.sql.ts'
import { changeSeat, countTaken, hasBoughtSeat, hasSeat, insertSeat, lockExpired, lockSeat, type SeatRow } from './seats.sql.ts'
import { entitle, holdReach, invite, needSeats, revoke, showOne, subjectOf } from './seats.ts'

export const invitationLife = 24 * hours

/** The ways in which somebody is named who is to have a seat. */
type Naming = Pick<SeatAssign, 'email' | 'customer_id' | 'external_customer_id' | 'member_id' | 'external_member_id'>

interface Wish {
  readonly metadata: Readonly<Record<string, unknown>>
  /** Claimed at once; otherwise somebody is invited. */
  readonly immediate: boolean
}

export interface Given {
  readonly reach: Reach
  readonly seat: SeatRow
}

/** The seller's door: whoever is to have it is named in any of the five ways. */
export const assign = async (tx: Tx, given: Reach, body: SeatAssign): Promise<Given> => {
  const pool = await findPool(tx, given, body)
  if (!pool) throw new ResourceNotFound()
  permit(given, pool.organization_id, 'customers:manage')
  await needSeats(tx, pool.organization_id)
  if (body.customer_id || body.external_customer_id) given.notice?.(pool.organization_id, 'assigned_by_customer')
  const reach = await holdReach(tx, given, pool.organization_id)
  const [buyer] = await lockCustomers(tx, reach, { id: pool.customer_id })
  if (!buyer) throw new SeatNotAvailable('The customer who bought these seats is deleted.')
  return { reach, seat: await give(tx, reach, buyer, pool, body, { metadata: body.metadata ?? {}, immediate: body.immediate_claim }) }
}

/** The team's door: whoever pays invites by address, or seats a member of theirs. Others are not theirs to name. */
export const assignOwn = async (tx: Tx, given: Reach, actor: PortalActor, body: CustomerSeatAssign): Promise<Given> => {
  const reach = await holdReach(tx, given, actor.organization_id)
  const buyer = await holdStanding(tx, reach, actor, 'seats:manage')
  const pool = await findPool(tx, reach, body)
  if (!pool || pool.customer_id !== actor.customer_id) throw new ResourceNotFound()
  await needSeats(tx, pool.organization_id)
  const { email, member_id } = body
  return { reach, seat: await give(tx, reach, buyer, pool, { email, member_id }, { metadata: body.metadata ?? {}, immediate: false }) }
}

/** Seats in use never exceed those that were bought, however many callers race: hence the held pool, in which they are counted. */
const give = async (wall: Tx, reach: Reach, buyer: Locked<CustomerRow>, key: PoolKey, naming: Naming, wish: Wish): Promise<SeatRow> => {
  const tx = await inTimeOf(wall, buyer)
  // Customers are held before what they bought.
  const holder = await holderOf(tx, reach, buyer, naming)
  const pool = await lockPool(tx, reach, key)
  if (pool.closed !== null) throw new SeatNotAvailable(pool.closed)
  for (const seat of await lockExpired(tx, pool, tx.clock.business())) await revoke(tx, reach, seat)
  if (await hasSeat(tx, pool, { member_id: holder.member.id, holder_customer_id: holder.customer_id }))
    throw new SeatAlreadyAssigned(`${holder.member.email} has a seat here already.`)
  if ((await countTaken(tx, pool, tx.clock.business())) >= pool.places)
    throw new SeatNotAvailable(`All ${pool.places} seats are taken. Revoke one, or buy more.`)
  return put(tx, reach, buyer, pool, holder, wish)
}

/** Who is to have a seat: always a member of the buyer, and before there are members to the outside, a customer of their own as well. */
interface Holder {
  readonly member: MemberRow
  readonly customer_id: string | null
}

const holderOf = async (tx: Tx, reach: Reach, buyer: Locked<CustomerRow>, naming: Naming): Promise<Holder> => {
  const { member_id, external_member_id, customer_id, external_customer_id, email } = naming
  if (member_id || external_member_id) {
    const member = member_id ? await findMember(tx, buyer, { id: member_id }) : await memberNamed(tx, buyer, external_member_id!, email ?? null)
    if (!member) throw new MemberNotFound()
    return { member, customer_id: null }
  }
  const enabled = phaseOf(reach, buyer.organization_id) === 'phase2'
  if (email) return { member: await memberAt(tx, buyer, email), customer_id: enabled ? null : await customerAt(tx, reach, buyer, email) }
  const [customer] = await findCustomers(tx, reach, customer_id ? { id: customer_id } : { external_id: external_customer_id! })
  if (!customer)
    throw enabled ? new InvalidSeatAssignmentRequest('There is no such customer, so that nobody can be found by its e-mail address.') : new CustomerNotFound()
  if (customer.email === null) throw new InvalidSeatAssignmentRequest('This customer has no e-mail address: name whoever is to have the seat by theirs.')
  return { member: await memberAt(tx, buyer, customer.email), customer_id: enabled ? null : customer.id }
}

/**
 * Whoever was invited before there were members is nobody yet: as they accept, they become who somebody is that is invited
 * now. The buyer is held before the pool and the pool before the seat: nobody is given a second one meanwhile.
 */
export const nameHolder = async (wall: Tx, reach: Reach, found: SeatRow): Promise<SeatRow> => {
  if (found.member_id !== null || found.holder_customer_id !== null || found.email === null) return found
  const [buyer] = await lockCustomers(wall, reach, { id: found.buyer_customer_id })
  if (!buyer) return found
  const tx = await inTimeOf(wall, buyer)
  const { member, customer_id: holder_customer_id } = await holderOf(tx, reach, buyer, { email: found.email })
  const pool = await lockPool(tx, reach, found)
  const seat = await lockSeat(tx, found)
  if (seat.member_id !== null) return seat
  if (await hasSeat(tx, pool, { member_id: member.id, holder_customer_id })) throw new InvalidInvitationToken(`${member.email} has a seat here already.`)
  return changeSeat(tx, seat, { member_id: member.id, holder_customer_id })
}

const memberAt = async (tx: Tx, buyer: Locked<CustomerRow>, email: string, external_id: string | null = null): Promise<MemberRow> =>
  (await findMemberByEmail(tx, buyer, email)) ?? insertMember(tx, buyer, { email, name: null, external_id, role: 'member' })

/** A member by the seller's own name for them, who gets that name with their address where they have none yet. */
const memberNamed = async (tx: Tx, buyer: Locked<CustomerRow>, external_id: string, email: string | null): Promise<MemberRow | undefined> => {
  const known = await findMember(tx, buyer, { external_id })
  if (email === null) return known
  if (known && known.email.toLowerCase() !== email.toLowerCase())
    throw new MemberEmailMismatch(`The member ${external_id} has another e-mail address than ${email}.`)
  const member = known ?? (await memberAt(tx, buyer, email, external_id))
  if (member.external_id === external_id) return member
  if (member.external_id !== null) throw new MemberEmailMismatch(`The member with the e-mail address ${email} has another external id than ${external_id}.`)
  return nameMember(tx, buyer, member, external_id)
}

/** Without the member model whoever holds a seat is a customer too: the one with this address, or one that is made for it. */
const customerAt = async (tx: Tx, reach: Reach, { organization_id, clock_id }: CustomerRow, email: string): Promise<string> => {
  await holdAddress(tx, organization_id, email)
  const found = await lockCustomerByEmail(tx, reach, organization_id, email)
  return (found ?? (await createHolder(tx, { organization_id, clock_id }, email))).id
}

/** Writes a seat of a held pool, and says so. One that is given is never one that was: whoever held that stays its last holder. */
const put = async (tx: Tx, reach: Reach, buyer: CustomerRow, pool: Locked<Pool>, { member, customer_id }: Holder, wish: Wish): Promise<SeatRow> => {
  const now = tx.clock.business()
  const expires_at = wish.immediate ? null : later(now, invitationLife)
  const { organization_id, subscription_id, order_id } = pool
  const seat = await insertSeat(tx, {
    ...unleased,
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: now,
    modified_at: null,
    subscription_id,
    order_id,
    status: wish.immediate ? 'claimed' : 'pending',
    buyer_customer_id: buyer.id,
    holder_customer_id: customer_id,
    member_id: member.id,
    email: member.email,
    invitation_expires_at: expires_at,
    claimed_at: wish.immediate ? now : null,
    revoked_at: null,
    metadata: wish.metadata,
    due_at: expires_at,
    clock_id: buyer.clock_id,
  })
  const shown = await showOne(tx, reach, seat)
  if (wish.immediate) {
    await emit(tx, customerSeatClaimed, subjectOf(seat), shown)
    await entitle(tx, seat)
  } else {
    await emit(tx, customerSeatAssigned, subjectOf(seat), shown)
    await invite(tx, seat)
  }
  return seat
}

/**
 * Whoever buys seats for the first time has one of them at once, where one is free: nobody loses by it, and whoever does
 * not want it can be relieved of it. A second order of the same product is for others.
 */
export const seatBuyer = async (wall: Tx, given: Reach, buyer: CustomerRow, key: PoolKey): Promise<void> => {
  const reach = await holdReach(wall, given, buyer.organization_id)
  const member = await findOwnerOf(wall, buyer)
  const pool = await lockPool(wall, reach, key)
  if (!member || pool.closed !== null) return
  const tx = await inTimeOf(wall, buyer)
  const holder: Holder = { member, customer_id: phaseOf(reach, buyer.organization_id) === 'phase2' ? null : buyer.id }
  if (await hasSeat(tx, pool, { member_id: member.id, holder_customer_id: holder.customer_id })) return
  if (pool.order_id !== null && (await hasBoughtSeat(tx, pool, member.id))) return
  if ((await countTaken(tx, pool, tx.clock.business())) < pool.places) await put(tx, reach, buyer, pool, holder, { metadata: {}, immediate: true })
}
