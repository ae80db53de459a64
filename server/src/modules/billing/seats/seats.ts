import {
  customerSeatRevoked,
  FeatureNotEnabled,
  paginate,
  ResourceNotFound,
  SeatNotPending,
  TooManyRequests,
  type CustomerSeat,
  type PageRequest,
  type SeatsList,
} from '@bursar/contract'
import { phaseOf, within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { hours, later, type Clock } from '../../../platform/clock.ts'
import { inTimeOf, timeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { holdStanding, loadMembers, presentMember, shownCustomer, type MemberRow } from '../../customers/index.ts'
import { findLivingOrganization, holdPhase, permit } from '../../organizations/index.ts'
import { endLink } from './links.sql.ts'
import type { Pool } from './pools.sql.ts'
import { changeSeat, countInvitations, countTaken, findSeat, listSeats, lockSeat, noteInvitation, type SeatRow } from './seats.sql.ts'

/** The address of whoever holds the seat, or held it last; null: nobody was ever named for it. */
export const addressOf = (seat: SeatRow, member: MemberRow | undefined): string | null => member?.email ?? seat.email

/** Seats as the wire shows them: with who holds them, and the customer that the phase of their organization shows. */
export const show = async (db: Db, reach: Reach, seats: readonly SeatRow[]): Promise<CustomerSeat[]> => {
  const keys = seats.flatMap(({ organization_id, member_id }) => (member_id === null ? [] : [{ organization_id, id: member_id }]))
  const members = await loadMembers(db, keys)
  return seats.map((seat) => {
    const member = members.find(({ id }) => id === seat.member_id)
    return {
      ...seat,
      customer_id: shownCustomer(seat, phaseOf(reach, seat.organization_id)),
      member: member ? presentMember(member) : null,
      customer_email: addressOf(seat, member),
      invitation_token_expires_at: seat.invitation_expires_at,
      seat_metadata: { ...seat.metadata },
    }
  })
}

export const showOne = async (db: Db, reach: Reach, seat: SeatRow): Promise<CustomerSeat> => (await show(db, reach, [seat]))[0]!

/** Events about a seat are about whoever pays for it, in every phase: they stay in one order. */
export const subjectOf = ({ organization_id, id, buyer_customer_id }: SeatRow) => ({ organization_id, resource_id: id, customer_id: buyer_customer_id })

/** What the seat gives to its holder is to be looked at again. */
export const entitle = (tx: Tx, { organization_id, subscription_id, order_id, id: seat_id }: SeatRow): Promise<void> =>
  enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id })

/** So many invitations an address gets in an hour: nobody is to be flooded with them. */
const perHour = 20

/** A link is made and mailed soon. A seat that nobody was named for has nobody to invite. */
export const invite = async (tx: Tx, seat: SeatRow): Promise<void> => {
  if (seat.email === null) throw new SeatNotPending('Nobody is named for this seat, so that nobody can be invited to it: revoke it, and assign it anew.')
  if ((await countInvitations(tx, seat.organization_id, seat.email, later(tx.clock.wall(), -1 * hours))) >= perHour)
    throw new TooManyRequests(`${seat.email} was invited ${perHour} times within an hour. Try again later.`, { 'retry-after': '3600' })
  await noteInvitation(tx, seat)
  await enqueue(tx, 'mail.seat_invitation', { organization_id: seat.organization_id, seat_id: seat.id })
}

/** Whoever sells no seats has none to give. */
export const needSeats = async (db: Db, organization_id: string): Promise<void> => {
  const seller = await findLivingOrganization(db, { id: organization_id })
  if (!seller?.feature_settings.seat_based_pricing_enabled) throw new FeatureNotEnabled()
}

/** The seat that a caller means, if the caller may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<SeatRow> => {
  const seat = await findSeat(db, reach, id)
  if (!seat) throw new ResourceNotFound()
  permit(reach, seat.organization_id, 'customers:read')
  await needSeats(db, seat.organization_id)
  return seat
}

/** The reach of a transaction that holds the phase of one organization: what it writes and what it says go by the same. */
export const holdReach = async (tx: Tx, reach: Reach, organization_id: string): Promise<Reach> =>
  within(organization_id, reach.organizations.get(organization_id)!, await holdPhase(tx, organization_id))

/** A seat of the seller's, for whoever may change it. */
export const findManaged = async (tx: Tx, reach: Reach, id: string): Promise<{ reach: Reach; seat: SeatRow }> => {
  const seat = await find(tx, reach, id)
  permit(reach, seat.organization_id, 'customers:manage')
  return { seat, reach: await holdReach(tx, reach, seat.organization_id) }
}

/** A seat that the customer in the portal pays for; somebody else's is answered like none. The customer is held first, then the seat. */
export const findOwn = async (tx: Tx, given: Reach, actor: PortalActor, id: string): Promise<{ reach: Reach; seat: SeatRow }> => {
  const reach = await holdReach(tx, given, actor.organization_id)
  await holdStanding(tx, reach, actor, 'seats:manage')
  const seat = await findSeat(tx, reach, id)
  if (!seat || seat.buyer_customer_id !== actor.customer_id) throw new ResourceNotFound()
  await needSeats(tx, seat.organization_id)
  return { reach, seat }
}

/** One page of the seats of a pool, how many were bought, and how many can still be given. */
export const list = async (db: Db, reach: Reach, clock: Clock, pool: Pool, query: PageRequest): Promise<SeatsList> => {
  const { items, total, next_cursor } = await listSeats(db, pool, query)
  const shown = await show(db, reach, items)
  const taken = await countTaken(db, pool, await timeOf(db, clock, pool))
  const available_seats = pool.closed === null ? Math.max(0, pool.places - taken) : 0
  return { ...paginate(query, shown, total, next_cursor), seats: shown, available_seats, total_seats: pool.bought }
}

/** Takes a seat from whoever has it. Whoever asks again gets the same, and nobody hears of it twice. */
export const revokeSeat = async (tx: Tx, reach: Reach, { organization_id, id }: Pick<SeatRow, 'organization_id' | 'id'>): Promise<SeatRow> =>
  revoke(tx, reach, await lockSeat(tx, { organization_id, id }))

/** The same for a seat that is held. It keeps saying whose it was; its invitation is void. */
export const revoke = async (wall: Tx, reach: Reach, seat: Locked<SeatRow>): Promise<SeatRow> => {
  if (seat.status === 'revoked') return seat
  const tx = await inTimeOf(wall, seat)
  const now = tx.clock.business()
  const revoked = await changeSeat(tx, seat, { status: 'revoked', revoked_at: now, invitation_expires_at: null, due_at: null })
  await endLink(tx, seat, seat.invitation_expires_at !== null && seat.invitation_expires_at <= now ? 'expired' : 'revoked')
  await emit(tx, customerSeatRevoked, subjectOf(revoked), await showOne(tx, reach, revoked))
  if (seat.status === 'claimed') await entitle(tx, revoked)
  return revoked
}
