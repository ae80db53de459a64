import {
  CustomerNotFound,
  customerSeatAssigned,
  customerSeatClaimed,
  InvalidInvitationToken,
  InvalidSeatAssignmentRequest,
  MemberNotFound,
  ResourceNotFound,
  SeatAlreadyAssigned,
  SeatNotAvailable,
  type CustomerSeatAssign,
  type SeatAssign,
} from '@bursar/contract'
import { phaseOf, within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import {
  createHolder,
  findCustomers,
  findMember,
  findOwnerOf,
  holdAddress,
  holdStanding,
  lockCustomerByEmail,
  lockCustomers,
  memberWithAddress,
  type CustomerRow,
  type MemberRow,
} from '../../customers/index.ts'
import type { Platform } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { findPool, findPoolInPhase, lockPurchase, withPlaces } from './pools.ts'
import type { Pool, PoolKey, Purchase } from './pools.sql.ts'
import { changeSeat, hasBoughtSeat, loadOccupancy, lockExpired, lockSeat, seatInsertion, type LoadedSeat, type Occupancy, type SeatRow } from './seats.sql.ts'
import { entitle, lockTenantScope, invite, needSeats, presentSeat, revokeLockedSeat, subjectOf } from './seats.ts'

/** How long an invitation can be accepted. Long enough for holidays, because the seat stays reserved for the invited person. */
export const invitationLife = 14 * days

/** The identifiers that can name the future holder of a seat. */
type Naming = Pick<SeatAssign, 'email' | 'customer_id' | 'external_customer_id' | 'member_id' | 'external_member_id'>

interface SeatRequest {
  readonly metadata: Readonly<Record<string, unknown>>
  /** If null, the seat is claimed at once. Otherwise an invitation is mailed, within the limits on recipients. */
  readonly invites: Platform | null
}

export interface AssignedSeat {
  readonly scope: TenantScope
  readonly seat: LoadedSeat
}

/** Assigns a seat at the request of the seller. The request names the holder by one of five identifiers. */
export const assign = async (tx: Tx, given: TenantScope, body: SeatAssign, platform: Platform): Promise<AssignedSeat> => {
  const pool = await findPoolInPhase(tx, given, body)
  if (!pool) throw new ResourceNotFound()
  permit(given, pool.organization_id, 'customers:manage')
  needSeats(pool.sells)
  if (body.customer_id || body.external_customer_id) given.notice?.(pool.organization_id, 'assigned_by_customer')
  const scope = within(pool.organization_id, given.organizations.get(pool.organization_id)!, pool.phase)
  const [buyer] = await lockCustomers(tx, scope, { id: pool.customer_id })
  if (!buyer) throw new SeatNotAvailable('The customer who bought these seats was deleted.')
  return { scope, seat: await give(tx, scope, buyer, pool, body, { metadata: body.metadata ?? {}, invites: body.immediate_claim ? null : platform }) }
}

/**
 * Assigns a seat at the request of the buying team in the portal. The holder is named by e-mail address or as a member
 * of the same team.
 */
export const assignOwn = async (tx: Tx, given: TenantScope, actor: PortalActor, body: CustomerSeatAssign, platform: Platform): Promise<AssignedSeat> => {
  const scope = await lockTenantScope(tx, given, actor.organization_id)
  const buyer = await holdStanding(tx, scope, actor, 'seats:manage')
  const pool = await findPool(tx, scope, body)
  if (!pool || pool.customer_id !== actor.customer_id) throw new ResourceNotFound()
  needSeats(pool.sells)
  const { email, member_id } = body
  return { scope, seat: await give(tx, scope, buyer, pool, { email, member_id }, { metadata: body.metadata ?? {}, invites: platform }) }
}

/**
 * Assigns a seat. Locks the pool and counts its seats, so that concurrent calls never assign more seats than were
 * bought.
 */
const give = async (wall: Tx, scope: TenantScope, buyer: Locked<CustomerRow>, key: PoolKey, naming: Naming, wish: SeatRequest): Promise<LoadedSeat> => {
  const tx = await inTimeOf(wall, buyer)
  // Lock the customers before the subscription or order.
  const holder = await holderOf(tx, scope, buyer, naming)
  const purchase = await lockPurchase(tx, scope, key)
  if (purchase.closed !== null) throw new SeatNotAvailable(purchase.closed)
  const { has_seat, taken, coming } = await occupancyOf(tx, scope, purchase, holder)
  if (has_seat) throw new SeatAlreadyAssigned(`${holder.member.email} already has a seat in this purchase.`)
  const pool = withPlaces(purchase, coming)
  if (taken >= pool.places) throw new SeatNotAvailable(`All ${pool.places} seats are assigned. Revoke one, or buy more.`)
  return put(tx, scope, buyer, pool, holder, wish)
}

/** Loads the use of a locked purchase. First revokes its seats whose invitation has expired. */
const occupancyOf = async (tx: BusinessTx, scope: TenantScope, purchase: Locked<Purchase>, { member, customer_id }: Holder): Promise<Occupancy> => {
  const load = () => loadOccupancy(tx, purchase, { member_id: member.id, holder_customer_id: customer_id }, tx.clock.business())
  const found = await load()
  if (!found.has_expired) return found
  for (const seat of await lockExpired(tx, purchase, tx.clock.business())) await revokeLockedSeat(tx, scope, seat)
  return load()
}

/**
 * The future holder of a seat: always a member of the buyer. Before phase 2 of the member migration, the holder also
 * has a customer of its own.
 */
interface Holder {
  readonly member: MemberRow
  readonly customer_id: string | null
}

const holderOf = async (tx: BusinessTx, scope: TenantScope, buyer: Locked<CustomerRow>, naming: Naming): Promise<Holder> => {
  const { member_id, external_member_id, customer_id, external_customer_id, email } = naming
  const enabled = phaseOf(scope, buyer.organization_id) === 'phase2'
  const asCustomer = async (address: string) => (enabled ? null : customerAt(tx, scope, buyer, address))
  if (member_id || external_member_id) {
    const member = await findMember(tx, buyer, member_id ? { id: member_id } : { external_id: external_member_id! })
    if (!member) throw new MemberNotFound()
    return { member, customer_id: await asCustomer(member.email) }
  }
  if (email) return { member: await memberWithAddress(tx, buyer, email), customer_id: await asCustomer(email) }
  const [customer] = await findCustomers(tx, scope, customer_id ? { id: customer_id } : { external_id: external_customer_id! })
  if (!customer)
    throw enabled
      ? new InvalidSeatAssignmentRequest('There is no such customer, so its e-mail address is unknown. Give the e-mail address of the holder.')
      : new CustomerNotFound()
  if (customer.email === null) throw new InvalidSeatAssignmentRequest('This customer has no e-mail address. Give the e-mail address of the holder.')
  return { member: await memberWithAddress(tx, buyer, customer.email), customer_id: enabled ? null : customer.id }
}

/**
 * Sets the holder of a seat whose invitation was sent before the member model existed. The holder becomes a member, as
 * with a new invitation. Lock the buyer, then the pool, then the seat. The locks prevent a second seat for the same
 * person.
 */
export const nameHolder = async (wall: Tx, scope: TenantScope, found: SeatRow): Promise<SeatRow> => {
  if (found.member_id !== null || found.holder_customer_id !== null || found.email === null) return found
  const [buyer] = await lockCustomers(wall, scope, { id: found.buyer_customer_id })
  if (!buyer) return found
  const tx = await inTimeOf(wall, buyer)
  const { member, customer_id: holder_customer_id } = await holderOf(tx, scope, buyer, { email: found.email })
  const purchase = await lockPurchase(tx, scope, found)
  const seat = await lockSeat(tx, found)
  if (seat.member_id !== null) return seat
  if ((await loadOccupancy(tx, purchase, { member_id: member.id, holder_customer_id }, tx.clock.business())).has_seat)
    throw new InvalidInvitationToken(`${member.email} already has a seat in this purchase.`)
  return (await changeSeat(tx, seat, { member_id: member.id, holder_customer_id })).seat
}

/** Returns the customer that holds a seat before phase 2: the customer with this address, or a new one. */
const customerAt = async (tx: Tx, scope: TenantScope, { organization_id, clock_id }: CustomerRow, email: string): Promise<string> => {
  await holdAddress(tx, organization_id, email)
  const found = await lockCustomerByEmail(tx, scope, organization_id, email)
  return (found ?? (await createHolder(tx, { organization_id, clock_id }, email))).id
}

/**
 * Inserts a seat of a locked pool and emits its event. A revoked seat is never reused, so that it still shows its last
 * holder.
 */
const put = async (
  tx: BusinessTx,
  scope: TenantScope,
  buyer: CustomerRow,
  pool: Locked<Purchase> & Pool,
  { member, customer_id }: Holder,
  { metadata, invites }: SeatRequest,
): Promise<LoadedSeat> => {
  const isClaimed = invites === null
  const now = tx.clock.business()
  const expires_at = isClaimed ? null : later(now, invitationLife)
  const { organization_id, subscription_id, order_id } = pool
  const row: SeatRow = {
    ...unleased,
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: now,
    modified_at: null,
    subscription_id,
    order_id,
    status: isClaimed ? 'claimed' : 'pending',
    buyer_customer_id: buyer.id,
    holder_customer_id: customer_id,
    member_id: member.id,
    email: member.email,
    invitation_expires_at: expires_at,
    claimed_at: isClaimed ? now : null,
    revoked_at: null,
    metadata,
    due_at: expires_at,
    clock_id: buyer.clock_id,
  }
  const seat = isClaimed ? await seatInsertion(tx, row).executeTakeFirstOrThrow() : await invite(tx, pool, row, member.email, invites, 'new')
  const loaded: LoadedSeat = { id: seat.id, seat, member, holder_email: null }
  const shown = presentSeat(scope, loaded)
  if (isClaimed) {
    await emit(tx, customerSeatClaimed, subjectOf(seat), shown)
    await entitle(tx, seat)
  } else await emit(tx, customerSeatAssigned, subjectOf(seat), shown)
  return loaded
}

/**
 * Assigns one of the bought seats to the buyer, if a seat is free. The buyer can revoke it later. If the buyer already
 * has a seat from another order of the same product, assigns none.
 */
export const seatBuyer = async (wall: Tx, given: TenantScope, buyer: CustomerRow, key: PoolKey): Promise<void> => {
  const scope = await lockTenantScope(wall, given, buyer.organization_id)
  const member = await findOwnerOf(wall, buyer)
  const purchase = await lockPurchase(wall, scope, key)
  if (!member || purchase.closed !== null) return
  const tx = await inTimeOf(wall, buyer)
  const holder: Holder = { member, customer_id: phaseOf(scope, buyer.organization_id) === 'phase2' ? null : buyer.id }
  const { has_seat, taken, coming } = await loadOccupancy(tx, purchase, { member_id: member.id, holder_customer_id: holder.customer_id }, tx.clock.business())
  if (has_seat) return
  if (purchase.order_id !== null && (await hasBoughtSeat(tx, purchase, member.id))) return
  const pool = withPlaces(purchase, coming)
  if (taken < pool.places) await put(tx, scope, buyer, pool, holder, { metadata: {}, invites: null })
}
