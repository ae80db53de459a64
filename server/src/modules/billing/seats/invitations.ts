import { customerSeatClaimed, InvalidInvitationToken, ResourceNotFound, SeatNotPending, type SeatClaimInfo } from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import { newToken, Secret } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf, timeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { loadProductRows, loadProducts } from '../../catalog/index.ts'
import { findCustomers, findMember, findOwnerOf, loadMembers, openCustomerSession } from '../../customers/index.ts'
import { addCredential, dropCredentials, findSubject } from '../../identity/index.ts'
import { findSeller, holdPhase, type OrganizationRow } from '../../organizations/index.ts'
import { seatInvitation, seatRequested } from '../mails/letters.ts'
import { invitationLife, nameHolder } from './assigning.ts'
import { endLink, findEndedLink, noteRequest, purgeLinks, type InvitationEnd } from './links.sql.ts'
import { findPool, lockPool } from './pools.ts'
import type { Pool } from './pools.sql.ts'
import { changeSeat, claimPending, findSeat, lockSeat, type SeatRow } from './seats.sql.ts'
import { addressOf, entitle, invite, needSeats, showOne, subjectOf } from './seats.ts'

const isOpen = (seat: SeatRow, now: Date): boolean => seat.status === 'pending' && seat.invitation_expires_at! > now

/** Invites again: the link before is void from now on, and a new one goes out. What has run out is not revived: its place may be somebody else's. */
export const resend = async (wall: Tx, reach: Reach, found: SeatRow): Promise<SeatRow> => {
  const pool = await lockPool(wall, reach, found)
  const seat = await lockSeat(wall, found)
  const tx = await inTimeOf(wall, seat)
  if (seat.status !== 'pending') throw new SeatNotPending(`This seat is ${seat.status}: nobody is invited to it.`)
  const now = tx.clock.business()
  if (!isOpen(seat, now)) throw new SeatNotPending('This invitation has run out, and its seat is free again: assign it anew.')
  if (pool.closed !== null) throw new InvalidInvitationToken(`An invitation could not be accepted now. ${pool.closed}`)
  const expires_at = later(now, invitationLife)
  const again = await changeSeat(tx, seat, { invitation_expires_at: expires_at, due_at: expires_at })
  await dropCredentials(tx, 'seat_invitation', seat.id)
  await invite(tx, again)
  return again
}

/** Makes the secret of the link and mails it to whoever is invited, as long as somebody is. Only its hash is kept; every link before is void. */
export const mailInvitation = async (
  { db, transact, gateways, platform }: Means,
  { organization_id, seat_id: id }: { organization_id: string; seat_id: string },
): Promise<void> => {
  const seller = await findSeller(db, { id: organization_id })
  if (!seller) return
  const secret = newToken('seat_invitation', platform.config.environment)
  const open = await transact(async (tx) => {
    const seat = await lockSeat(tx, { organization_id, id })
    const to = await invited(tx, seat)
    if (to === null || !isOpen(seat, (await inTimeOf(tx, seat)).clock.business())) return undefined
    await dropCredentials(tx, 'seat_invitation', id)
    await addCredential(tx, platform.hasher, secret, { kind: 'seat_invitation', subject_id: id, organization_id })
    return { seat, to }
  })
  const reach = within(organization_id, 'machine', seller.member_phase)
  const product = open && (await productOf(db, await findPool(db, reach, open.seat)))
  if (!product) return
  const link = new URL(`/${seller.slug}/portal/claim?token=${secret.reveal()}`, platform.config.public_url).href
  await gateways.mail.send({
    ...seatInvitation(seller, product.name, link, open.seat.invitation_expires_at!),
    to: open.to,
    from_name: seller.name,
    reply_to: seller.email ?? undefined,
  })
}

const productOf = async (db: Db, pool: Pool | undefined) =>
  pool && pool.product_id !== null ? (await loadProductRows(db, [{ tenant: pool.organization_id, id: pool.product_id }]))[0] : undefined

const invited = async (db: Db, seat: SeatRow): Promise<string | null> => {
  const { organization_id, member_id } = seat
  return addressOf(seat, member_id === null ? undefined : (await loadMembers(db, [{ organization_id, id: member_id }]))[0])
}

interface Invitation {
  readonly seat: SeatRow
  readonly seller: OrganizationRow
  /** What became of the link; null as long as it counts. */
  readonly ended: InvitationEnd | null
}

/** What a link leads to, whether it can still be used or not. One that was replaced, or never was, leads nowhere. */
const lookUp = async (db: Db, platform: Platform, token: string): Promise<Invitation | undefined> => {
  const secret = new Secret(token)
  const subject = await findSubject(db, platform.hasher, secret)
  const live = subject?.kind === 'seat_invitation' && subject.organization_id !== null ? { ...subject, organization_id: subject.organization_id } : undefined
  const dead = live ? undefined : await findEndedLink(db, platform.hasher.candidates(secret))
  const [organization_id, seat_id] = [live?.organization_id ?? dead?.organization_id, live?.subject_id ?? dead?.seat_id]
  if (organization_id === undefined || seat_id === undefined) return undefined
  const seller = await findSeller(db, { id: organization_id })
  const seat = seller && (await findSeat(db, within(seller.id, 'portal', seller.member_phase), seat_id))
  if (!seat) return undefined
  // What was claimed can have been taken back since. What has run out may wait for the sweep.
  if (dead) return { seat, seller, ended: dead.ended === 'claimed' && seat.status === 'revoked' ? 'revoked' : dead.ended }
  return { seat, seller, ended: isOpen(seat, await timeOf(db, platform.clock, seat)) ? null : 'expired' }
}

/** What an invitation is or was for; it uses nothing up. One that never was is answered like none. */
export const inform = async (db: Db, platform: Platform, token: string): Promise<z.output<typeof SeatClaimInfo>> => {
  const found = await lookUp(db, platform, token)
  if (!found) throw new ResourceNotFound()
  const { seat, seller, ended } = found
  await needSeats(db, seller.id)
  const reach = within(seller.id, 'portal', seller.member_phase)
  const [pool, to, [buyer]] = [await findPool(db, reach, seat), await invited(db, seat), await findCustomers(db, reach, { id: seat.buyer_customer_id })]
  const [loaded] = pool && pool.product_id !== null ? await loadProducts(db, [{ tenant: pool.organization_id, id: pool.product_id }]) : []
  if (!pool || !loaded || to === null) throw new ResourceNotFound()
  return {
    product_name: loaded.product.name,
    product_id: loaded.product.id,
    organization_name: seller.name,
    organization_slug: seller.slug,
    customer_email: to,
    can_claim: ended === null && pool.closed === null,
    status: ended ?? 'pending',
    invited_by: buyer?.name ?? null,
    // What the seller keeps to itself stays there.
    benefits: loaded.benefits.filter(({ visibility }) => visibility === 'public').map(({ id, type, description }) => ({ id, type, description })),
  }
}

const oncePer = 1 * days

/** Whoever has a link that ran out can ask for another, once a day; what happens looks the same for every token. */
export const requestAgain = async (tx: Tx, platform: Platform, token: string): Promise<void> => {
  const found = await lookUp(tx, platform, token)
  if (found?.ended !== 'expired') return
  const { organization_id, id } = await lockSeat(tx, found.seat)
  if (await noteRequest(tx, found.seat, later(tx.clock.wall(), -oncePer))) await enqueue(tx, 'mail.seat_requested', { organization_id, seat_id: id })
}

/** Tells whoever leads the team that an invitation ran out before it was accepted, and where to give it anew. */
export const mailRequest = async (
  { db, gateways, platform }: Means,
  { organization_id, seat_id }: { organization_id: string; seat_id: string },
): Promise<void> => {
  const seller = await findSeller(db, { id: organization_id })
  const reach = seller && within(organization_id, 'machine', seller.member_phase)
  const seat = reach && (await findSeat(db, reach, seat_id))
  if (!seat || seat.status === 'claimed') return
  const [who, product, [buyer]] = [
    await invited(db, seat),
    await productOf(db, await findPool(db, reach, seat)),
    await findCustomers(db, reach, { id: seat.buyer_customer_id }),
  ]
  const to = buyer && ((await findOwnerOf(db, buyer))?.email ?? buyer.email)
  if (!product || who === null || !to) return
  const link = new URL(`/${seller.slug}/portal?flow=team`, platform.config.public_url).href
  await gateways.mail.send({ ...seatRequested(seller, who, product.name, link), to, from_name: seller.name, reply_to: seller.email ?? undefined })
}

/** For so long somebody with a dead link is told what became of it. */
const remembered = 30 * days

export const forgetLinks = ({ transact }: Means): Promise<void> => transact((tx) => purgeLinks(tx, later(tx.clock.wall(), -remembered)))

const ends: Record<InvitationEnd, string> = {
  claimed: 'This invitation has been accepted already.',
  expired: 'This invitation has run out. Ask for a new one.',
  revoked: 'This invitation was withdrawn.',
}

/**
 * Whoever has the link takes the seat, once: of any number at once, one finds the invitation open. It opens a session for
 * the member that they are, or without the member model for the customer that they are.
 */
export const claim = async (wall: Tx, platform: Platform, token: string): Promise<{ reach: Reach; seat: SeatRow; token: Secret }> => {
  const found = await lookUp(wall, platform, token)
  if (!found) throw new InvalidInvitationToken()
  if (found.ended !== null) throw new InvalidInvitationToken(ends[found.ended])
  const { organization_id } = found.seat
  await needSeats(wall, organization_id)
  const phase = await holdPhase(wall, organization_id)
  const reach = within(organization_id, 'portal', phase)
  const named = await nameHolder(wall, reach, found.seat)
  const { buyer_customer_id, holder_customer_id, member_id } = named
  const pool = await lockPool(wall, reach, named)
  if (pool.closed !== null) throw new InvalidInvitationToken(`This invitation cannot be accepted now. ${pool.closed}`)
  const asCustomer = phase !== 'phase2' && holder_customer_id !== null
  const [customer] = await findCustomers(wall, reach, { id: asCustomer ? holder_customer_id : buyer_customer_id })
  const member = customer && !asCustomer && member_id !== null ? await findMember(wall, customer, { id: member_id }) : undefined
  if (!customer || (!asCustomer && !member)) throw new InvalidInvitationToken()
  // The link was sent to the seat's address: it proves nothing about a customer who has another by now, and nothing at all where there is none.
  const to = await invited(wall, named)
  if (to === null || (asCustomer && customer.email?.toLowerCase() !== to.toLowerCase())) throw new InvalidInvitationToken()
  const tx = await inTimeOf(wall, named)
  const seat = await claimPending(tx, pool, named, platform.hasher.candidates(new Secret(token)))
  if (!seat) throw new InvalidInvitationToken()
  await endLink(tx, seat, 'claimed')
  await emit(tx, customerSeatClaimed, subjectOf(seat), await showOne(tx, reach, seat))
  await entitle(tx, seat)
  const opened = await openCustomerSession(tx, platform, { organization_id, customer_id: customer.id, member_id: member?.id ?? null })
  return { reach, seat, token: opened.token }
}
