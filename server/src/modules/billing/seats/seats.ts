import {
  accountLimits,
  customerSeatRevoked,
  FeatureNotEnabled,
  paginate,
  ResourceNotFound,
  SeatNotPending,
  TooManyRequests,
  type CustomerSeat,
  type PageRequest,
  type SeatListing,
  type SeatsList,
} from '@bursar/contract'
import { phaseOf, within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { hours, later, type Clock } from '../../../platform/clock.ts'
import { inTimeOf, timeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { isAnonymous } from '../../../platform/personal.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { holdStanding, presentMember, shownCustomer } from '../../customers/index.ts'
import type { Platform } from '../../handlers.ts'
import { confine, findSeatSellers, holdPhase, permit } from '../../organizations/index.ts'
import { endLink } from './links.sql.ts'
import { sumAllPools } from './pools.ts'
import type { Pool, Purchase } from './pools.sql.ts'
import { limitRecipients, recipientLimits, recipientOf, recipientWindow } from './recipients.ts'
import { noteInvitation } from './recipients.sql.ts'
import { changeSeat, countTaken, findLoadedSeat, listAllSeats, listSeats, loadPoolSeats, lockSeat, type LoadedSeat, type SeatRow } from './seats.sql.ts'

/**
 * Returns the current address of the seat's holder. If the holder was anonymized, returns the anonymized address of the
 * seat. Null if the seat was never assigned.
 */
export const addressOf = (seat: SeatRow, holder: { readonly email: string | null } | undefined): string | null =>
  seat.email !== null && isAnonymous(seat.email) ? seat.email : (holder?.email ?? seat.email)

/** The current address of a seat's holder: the address of its member, or of the customer that holds a seat without a member. */
export const holderAddress = ({ seat, member, holder_email }: LoadedSeat): string | null =>
  addressOf(seat, seat.member_id === null ? { email: holder_email } : (member ?? undefined))

/** Presents the seat in the API's format. `customer_id` depends on the organization's phase of the member migration. */
export const presentSeat = (scope: TenantScope, loaded: LoadedSeat): CustomerSeat => {
  const { seat, member } = loaded
  const address = holderAddress(loaded)
  return {
    ...seat,
    customer_id: shownCustomer(seat, phaseOf(scope, seat.organization_id)),
    member: member && presentMember(member),
    email: address,
    customer_email: address,
    invitation_token_expires_at: seat.invitation_expires_at,
    seat_metadata: { ...seat.metadata },
  }
}

/**
 * Event subject of a seat. The customer is the buyer in every phase, so that all events of a purchase keep their
 * sequence.
 */
export const subjectOf = ({ organization_id, id, buyer_customer_id }: SeatRow) => ({ organization_id, resource_id: id, customer_id: buyer_customer_id })

/** Enqueues the job that grants or revokes the benefits of the seat for its holder. */
export const entitle = (tx: Tx, { organization_id, subscription_id, order_id, id: seat_id }: SeatRow): Promise<void> =>
  enqueue(tx, 'entitlements.reconcile', { organization_id, subscription_id, order_id, seat_id })

/** Limit of invitations per address and hour, so that no recipient is flooded. */
export const perHour = accountLimits.seat_invitations_per_address_and_hour

/**
 * Enqueues the invitation mail to an address, and inserts the seat if it is new. Throws if the address was invited too
 * often, or the purchase has invited too many distinct addresses. Returns the seat.
 */
export const invite = async (
  tx: Tx,
  pool: Locked<Purchase> & Pool,
  invited: SeatRow,
  to: string | null,
  platform: Platform,
  is: 'new' | 'known',
): Promise<SeatRow> => {
  if (invited.email === null || to === null)
    throw new SeatNotPending('This seat has no holder, so no invitation can be sent. Revoke the seat, and assign it again.')
  const now = tx.clock.wall()
  const since = { recipients: later(now, -recipientWindow), invitations: later(now, -1 * hours) }
  const invitation = { recipient: recipientOf(pool, to, platform), limits: recipientLimits(pool, platform), since }
  const { seat, noted } = await noteInvitation(tx, invited, invitation, is)
  if (noted.invited >= perHour)
    throw new TooManyRequests(`${invited.email} was invited ${perHour} times within an hour. Try again later.`, { 'retry-after': '3600' })
  if (noted.is_new) limitRecipients(tx, pool, noted, to, platform)
  await enqueue(tx, 'mail.seat_invitation', { organization_id: seat.organization_id, seat_id: seat.id })
  return seat
}

/** Throws if the organization does not sell seats. */
export const needSeats = (sells: boolean | undefined): void => {
  if (!sells) throw new FeatureNotEnabled()
}

/** Returns the seat if the caller may see it. */
export const requireSeat = async (db: Db, scope: TenantScope, id: string): Promise<LoadedSeat> => {
  const found = await findLoadedSeat(db, scope, id)
  if (!found) throw new ResourceNotFound()
  permit(scope, found.seat.organization_id, 'customers:read')
  needSeats(found.sells)
  return found
}

/**
 * Locks the organization's phase of the member migration and returns the scope with it. Writes and events of this
 * transaction then use the same phase.
 */
export const lockTenantScope = async (tx: Tx, scope: TenantScope, organization_id: string): Promise<TenantScope> =>
  within(organization_id, scope.organizations.get(organization_id)!, await holdPhase(tx, organization_id))

/** Returns a seat if the caller may change it. */
export const findManaged = async (tx: Tx, scope: TenantScope, id: string): Promise<{ scope: TenantScope; seat: SeatRow }> => {
  const { seat } = await requireSeat(tx, scope, id)
  permit(scope, seat.organization_id, 'customers:manage')
  return { seat, scope: await lockTenantScope(tx, scope, seat.organization_id) }
}

/**
 * Returns a seat that the portal customer pays for. Throws 404 for seats of other customers. Lock the customer before
 * the seat.
 */
export const findOwn = async (tx: Tx, given: TenantScope, actor: PortalActor, id: string): Promise<{ scope: TenantScope; seat: SeatRow }> => {
  const scope = await lockTenantScope(tx, given, actor.organization_id)
  await holdStanding(tx, scope, actor, 'seats:manage')
  const found = await findLoadedSeat(tx, scope, id)
  if (!found || found.seat.buyer_customer_id !== actor.customer_id) throw new ResourceNotFound()
  needSeats(found.sells)
  return { scope, seat: found.seat }
}

/** Applies the defaults of page and limit. */
const pageOf = ({ page = 1, limit = 10, cursor }: SeatListing): PageRequest => ({ page, limit, cursor })

/**
 * Returns one page of the seats of a pool, the number of bought seats, and the number still available. If no page is
 * requested, `seats` contains all seats, because official clients cannot page that field.
 */
export const listPoolSeats = async (db: Db, scope: TenantScope, clock: Clock, pool: Pool, query: SeatListing): Promise<SeatsList> => {
  const request = pageOf(query)
  const show = (loaded: LoadedSeat) => presentSeat(scope, loaded)
  const { items, total, next_cursor } = await listSeats(db, pool, request)
  const page = items.map(show)
  const unpaged = query.page === undefined && query.limit === undefined && query.cursor === undefined
  const seats = unpaged && total > items.length ? (await loadPoolSeats(db, pool)).map(show) : page
  const taken = await countTaken(db, pool, await timeOf(db, clock, pool))
  const available_seats = pool.closed === null ? Math.max(0, pool.places - taken) : 0
  return { ...paginate(request, page, total, next_cursor), seats, available_seats, total_seats: pool.bought }
}

/** Returns one page of all seats within the scope, newest first. Organizations that sell no seats are left out. */
export const listAll = async (db: Db, given: TenantScope, clock: Clock, query: SeatListing): Promise<SeatsList> => {
  const allowed = confine(given, 'customers:read')
  const sellers = await findSeatSellers(db, allowed)
  if (sellers.length === 0 && allowed.organizations.size > 0) throw new FeatureNotEnabled()
  const scope = { ...allowed, organizations: new Map([...allowed.organizations].filter(([id]) => sellers.includes(id))) }
  const request = pageOf(query)
  const { items, total, next_cursor } = await listAllSeats(db, scope, request)
  const seats = items.map((loaded) => presentSeat(scope, loaded))
  const { bought, available } = await sumAllPools(db, scope, clock.business())
  return { ...paginate(request, seats, total, next_cursor), seats, available_seats: available, total_seats: bought }
}

/** Locks a seat and revokes it. Idempotent: a second call returns the same seat and emits no event. */
export const revokeSeat = async (
  tx: Tx,
  scope: TenantScope,
  { organization_id, id }: Pick<SeatRow, 'organization_id' | 'id'>,
  told?: { readonly mails: boolean },
): Promise<LoadedSeat> => {
  const seat = await lockSeat(tx, { organization_id, id })
  if (seat.status === 'revoked') return (await findLoadedSeat(tx, scope, id))!
  return revokeLockedSeat(tx, scope, seat, told)
}

/**
 * Revokes a locked seat that is not revoked yet, and mails its holder. The seat keeps its last holder, and its invitation becomes
 * invalid. An invitation needs no mail, because its link says that it was withdrawn.
 */
export const revokeLockedSeat = async (wall: Tx, scope: TenantScope, seat: Locked<SeatRow>, { mails = true } = {}): Promise<LoadedSeat> => {
  const tx = await inTimeOf(wall, seat)
  const now = tx.clock.business()
  const revoked = await changeSeat(tx, seat, { status: 'revoked', revoked_at: now, invitation_expires_at: null, due_at: null })
  await endLink(tx, seat, seat.invitation_expires_at !== null && seat.invitation_expires_at <= now ? 'expired' : 'revoked')
  await emit(tx, customerSeatRevoked, subjectOf(revoked.seat), presentSeat(scope, revoked))
  if (seat.status !== 'claimed') return revoked
  await entitle(tx, revoked.seat)
  if (mails) await enqueue(tx, 'mail.seat_revoked', { organization_id: seat.organization_id, seat_id: seat.id })
  return revoked
}
