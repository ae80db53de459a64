import { customerSeatClaimed, InvalidInvitationToken, ResourceNotFound, SeatNotPending, type SeatClaimInfo } from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import { newToken, Secret } from '../../../kernel/secrets.ts'
import { later } from '../../../platform/clock.ts'
import { inTimeOf, timeOf } from '../../../platform/clocks.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { loadProductRows } from '../../catalog/index.ts'
import { findCustomers, findMember, loadMembers, openCustomerSession } from '../../customers/index.ts'
import { addCredential, dropCredentials, findSubject } from '../../identity/index.ts'
import { findSeller, holdPhase, type OrganizationRow } from '../../organizations/index.ts'
import { seatInvitation } from '../mails/letters.ts'
import { invitationLife, nameHolder } from './assigning.ts'
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

/** What a link leads to, whether it can still be used or not. */
const lookUp = async (db: Db, platform: Platform, token: string): Promise<{ seat: SeatRow; seller: OrganizationRow } | undefined> => {
  const subject = await findSubject(db, platform.hasher, new Secret(token))
  if (subject?.kind !== 'seat_invitation' || subject.organization_id === null) return undefined
  const seller = await findSeller(db, { id: subject.organization_id })
  const seat = seller && (await findSeat(db, within(seller.id, 'portal', seller.member_phase), subject.subject_id))
  return seat && { seat, seller }
}

/** What an invitation is for; it uses nothing up. One that has run out is answered like none. */
export const inform = async (db: Db, platform: Platform, token: string): Promise<z.output<typeof SeatClaimInfo>> => {
  const found = await lookUp(db, platform, token)
  if (!found || !isOpen(found.seat, await timeOf(db, platform.clock, found.seat))) throw new ResourceNotFound()
  const { seat, seller } = found
  await needSeats(db, seller.id)
  const pool = await findPool(db, within(seller.id, 'portal', seller.member_phase), seat)
  const [product, to] = [await productOf(db, pool), await invited(db, seat)]
  if (!pool || !product || to === null) throw new ResourceNotFound()
  return {
    product_name: product.name,
    product_id: product.id,
    organization_name: seller.name,
    organization_slug: seller.slug,
    customer_email: to,
    can_claim: pool.closed === null,
  }
}

/**
 * Whoever has the link takes the seat, once: of any number at once, one finds the invitation open. It opens a session for
 * the member that they are, or without the member model for the customer that they are.
 */
export const claim = async (wall: Tx, platform: Platform, token: string): Promise<{ reach: Reach; seat: SeatRow; token: Secret }> => {
  const found = await lookUp(wall, platform, token)
  if (!found) throw new InvalidInvitationToken()
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
  await dropCredentials(tx, 'seat_invitation', seat.id)
  await emit(tx, customerSeatClaimed, subjectOf(seat), await showOne(tx, reach, seat))
  await entitle(tx, seat)
  const opened = await openCustomerSession(tx, platform, { organization_id, customer_id: customer.id, member_id: member?.id ?? null })
  return { reach, seat, token: opened.token }
}
