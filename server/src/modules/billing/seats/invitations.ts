import { customerSeatClaimed, InvalidInvitationToken, ResourceNotFound, SeatNotPending, type SeatClaimInfo } from '@bursar/contract'
import type { z } from 'zod'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { newToken, Secret } from '../../../kernel/secrets.ts'
import { nameWithoutLinks } from '../../../kernel/texts.ts'
import { days, later } from '../../../platform/clock.ts'
import { inTimeOf, timeOf } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { isAnonymous } from '../../../platform/personal.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { loadProductRows, loadProducts } from '../../catalog/index.ts'
import { findCustomers, languageOfCustomer, findMember, findOwnerOf, loadMembers, openCustomerSession } from '../../customers/index.ts'
import { addCredential, dropCredentials, findSubject } from '../../identity/index.ts'
import { findSeller, holdPhase, portalUrl, sendMail, type OrganizationRow } from '../../organizations/index.ts'
import { invitationLife, nameHolder } from './assigning.ts'
import { endLink, findEndedLink, noteRequest, purgeLinks, type InvitationEnd } from './links.sql.ts'
import { findPool, lockPurchase, withPlaces } from './pools.ts'
import { loadComing, type Pool } from './pools.sql.ts'
import { recipientWindow } from './recipients.ts'
import { purgeRecipients } from './recipients.sql.ts'
import { changeSeat, claimPending, findLoadedSeat, findSeat, holdsAnother, lockSeat, type LoadedSeat, type SeatRow } from './seats.sql.ts'
import { addressOf, entitle, holderAddress, invite, needSeats, presentSeat, subjectOf } from './seats.ts'

const isOpen = (seat: SeatRow, now: Date): boolean => seat.status === 'pending' && seat.invitation_expires_at! > now

/**
 * Sends a new invitation link and invalidates the earlier one. Refuses an expired invitation, because its seat may have
 * been assigned again.
 */
export const resend = async (wall: Tx, scope: TenantScope, found: SeatRow, platform: Platform): Promise<LoadedSeat> => {
  const purchase = await lockPurchase(wall, scope, found)
  const seat = await lockSeat(wall, found)
  const tx = await inTimeOf(wall, seat)
  if (seat.status !== 'pending') throw new SeatNotPending(`This seat is ${seat.status} and has no open invitation.`)
  const now = tx.clock.business()
  if (!isOpen(seat, now)) throw new SeatNotPending('This invitation has expired, and its seat is free again. Assign the seat again.')
  if (purchase.closed !== null) throw new InvalidInvitationToken(`The invitation could not be accepted at the moment. ${purchase.closed}`)
  const expires_at = later(now, invitationLife)
  // A seat without a member stores the address that its link is mailed to. `claim` refuses the link once the holder has another address.
  const email = seat.member_id === null ? holderAddress((await findLoadedSeat(tx, scope, seat.id))!) : seat.email
  const again = await changeSeat(tx, seat, { email, invitation_expires_at: expires_at, due_at: expires_at })
  await dropCredentials(tx, 'seat_invitation', seat.id)
  // The mail is sent to the holder's current address, which may differ from the first invited address.
  const pool = withPlaces(purchase, await loadComing(tx, purchase))
  await invite(tx, pool, again.seat, addressOf(again.seat, again.member ?? undefined), platform, 'known')
  return again
}

/** The customers whose erasure erases the address of a seat. */
const peopleOf = ({ buyer_customer_id, holder_customer_id }: SeatRow): string[] =>
  holder_customer_id === null ? [buyer_customer_id] : [buyer_customer_id, holder_customer_id]

/**
 * Job that creates the secret of an invitation link and emails the link, if the invitation is still open. Stores only
 * the hash of the secret. All earlier links become invalid.
 */
export const mailInvitation = async (deps: Deps, { organization_id, seat_id: id }: { organization_id: string; seat_id: string }): Promise<void> => {
  const { db, transact, platform } = deps
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
  const scope = within(organization_id, 'machine', seller.member_phase)
  const product = open && (await productOf(db, await findPool(db, scope, open.seat)))
  if (!product) return
  const [buyer] = await findCustomers(db, scope, { id: open.seat.buyer_customer_id })
  await sendMail(deps, {
    to: open.to,
    seller,
    customer_ids: peopleOf(open.seat),
    language: languageOfCustomer(buyer),
    view: {
      kind: 'seat_invitation',
      product: product.name,
      invited_by: nameWithoutLinks(buyer?.name ?? null),
      until: open.seat.invitation_expires_at!,
      claim_url: portalUrl(platform, seller, `/claim?token=${secret.reveal()}`),
    },
  })
}

const productOf = async (db: Db, pool: Pool | undefined) =>
  pool && pool.product_id !== null ? (await loadProductRows(db, [{ tenant: pool.organization_id, id: pool.product_id }]))[0] : undefined

/** The address that the link of a seat is mailed to: the member's current one, or the one that the seat stores. */
const invited = async (db: Db, seat: SeatRow): Promise<string | null> => {
  const { organization_id, member_id } = seat
  return addressOf(seat, member_id === null ? undefined : (await loadMembers(db, [{ organization_id, id: member_id }]))[0])
}

interface Invitation {
  readonly seat: SeatRow
  readonly seller: OrganizationRow
  /** Reason why the link is no longer valid. Null while it is valid. */
  readonly ended: InvitationEnd | null
}

/**
 * Finds the invitation of a link, even if the link is no longer valid. Returns undefined for unknown links, and for
 * links that a newer link has replaced.
 */
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
  // If the seat was claimed by this link and revoked later, the reason is `revoked`. A link may also have expired
  // before the sweep has ended it.
  if (dead) return { seat, seller, ended: dead.ended === 'claimed' && seat.status === 'revoked' ? 'revoked' : dead.ended }
  return { seat, seller, ended: isOpen(seat, await timeOf(db, platform.clock, seat)) ? null : 'expired' }
}

/** Returns details of an invitation without claiming the seat. Throws 404 for unknown tokens. */
export const inform = async (db: Db, platform: Platform, token: string): Promise<z.output<typeof SeatClaimInfo>> => {
  const found = await lookUp(db, platform, token)
  if (!found) throw new ResourceNotFound()
  const { seat, seller, ended } = found
  needSeats(seller.feature_settings.seat_based_pricing_enabled)
  const scope = within(seller.id, 'portal', seller.member_phase)
  const [pool, to, [buyer]] = [await findPool(db, scope, seat), await invited(db, seat), await findCustomers(db, scope, { id: seat.buyer_customer_id })]
  const [loaded] = pool && pool.product_id !== null ? await loadProducts(db, [{ tenant: pool.organization_id, id: pool.product_id }]) : []
  if (!pool || !loaded || to === null) throw new ResourceNotFound()
  return {
    product_name: loaded.product.name,
    product_cover_url: loaded.medias[0]?.public_url ?? null,
    product_id: loaded.product.id,
    organization_name: seller.name,
    organization_slug: seller.slug,
    customer_email: to,
    can_claim: ended === null && pool.closed === null,
    status: ended ?? 'pending',
    invited_by: buyer?.name ?? null,
    // Leaves out the seller's private benefits.
    benefits: loaded.benefits.filter(({ visibility }) => visibility === 'public').map(({ id, type, description }) => ({ id, type, description })),
  }
}

const oncePer = 1 * days

/**
 * Requests a new invitation for an expired link, at most once a day. Returns the same response for every token, so that
 * it reveals nothing about the link.
 */
export const requestAgain = async (tx: Tx, platform: Platform, token: string): Promise<void> => {
  const found = await lookUp(tx, platform, token)
  if (found?.ended !== 'expired') return
  const { organization_id, id } = await lockSeat(tx, found.seat)
  if (await noteRequest(tx, found.seat, later(tx.clock.wall(), -oncePer))) await enqueue(tx, 'mail.seat_requested', { organization_id, seat_id: id })
}

/**
 * Job that emails the team owner that an invited person requests a new invitation, because the old one expired. The
 * mail links to the page that assigns the seat again.
 */
export const mailRequest = async (deps: Deps, { organization_id, seat_id }: { organization_id: string; seat_id: string }): Promise<void> => {
  const { db, platform } = deps
  const seller = await findSeller(db, { id: organization_id })
  const scope = seller && within(organization_id, 'machine', seller.member_phase)
  const seat = scope && (await findSeat(db, scope, seat_id))
  if (!seat || seat.status === 'claimed') return
  const [who, product, [buyer]] = [
    await invited(db, seat),
    await productOf(db, await findPool(db, scope, seat)),
    await findCustomers(db, scope, { id: seat.buyer_customer_id }),
  ]
  const to = buyer && ((await findOwnerOf(db, buyer))?.email ?? buyer.email)
  if (!product || who === null || !to) return
  const view = { kind: 'seat_requested', who, product: product.name, team_url: portalUrl(platform, seller, '?flow=team') } as const
  await sendMail(deps, { to, seller, customer_ids: [buyer.id], language: languageOfCustomer(buyer), view })
}

/**
 * Job that emails the former holder of a seat that it was withdrawn, or that it ended with the purchase. Does nothing if the holder has a
 * seat of the purchase again. The owner of the team is told of the end of the purchase by another mail.
 */
export const mailRevoked = async (deps: Deps, { organization_id, seat_id }: { organization_id: string; seat_id: string }): Promise<void> => {
  const { db, platform } = deps
  const seller = await findSeller(db, { id: organization_id })
  const scope = seller && within(organization_id, 'machine', seller.member_phase)
  const loaded = scope && (await findLoadedSeat(db, scope, seat_id))
  const to = loaded && holderAddress(loaded)
  if (!to || isAnonymous(to) || loaded.seat.status !== 'revoked') return
  const pool = await findPool(db, scope, loaded.seat)
  const product = await productOf(db, pool)
  if (!pool || !product || (pool.over && loaded.member?.role === 'owner') || (await holdsAnother(db, loaded.seat))) return
  const [buyer] = await findCustomers(db, scope, { id: loaded.seat.buyer_customer_id })
  const view = {
    kind: 'seat_revoked',
    reason: pool.over ? 'ended' : 'withdrawn',
    product: product.name,
    team: nameWithoutLinks(buyer?.name ?? null),
    portal_url: portalUrl(platform, seller, '/sign-in'),
  } as const
  await sendMail(deps, { to, seller, customer_ids: peopleOf(loaded.seat), language: languageOfCustomer(buyer), view })
}

/** Time for which an invalid invitation link still shows why it is invalid. */
const remembered = 30 * days

export const forgetLinks = ({ transact }: Deps): Promise<void> =>
  transact(async (tx) => {
    await purgeLinks(tx, later(tx.clock.wall(), -remembered))
    await purgeRecipients(tx, later(tx.clock.wall(), -recipientWindow))
  })

const ends: Record<InvitationEnd, string> = {
  claimed: 'This invitation was already accepted.',
  expired: 'This invitation has expired. Ask for a new one.',
  revoked: 'This invitation was withdrawn.',
}

/**
 * Claims a seat by its invitation link. Of several concurrent calls, only one succeeds. Opens a portal session for the
 * member, or before phase 2 for the customer that holds the seat.
 */
export const claim = async (wall: Tx, platform: Platform, token: string): Promise<{ scope: TenantScope; seat: LoadedSeat; token: Secret }> => {
  const found = await lookUp(wall, platform, token)
  if (!found) throw new InvalidInvitationToken()
  if (found.ended !== null) throw new InvalidInvitationToken(ends[found.ended])
  const { organization_id } = found.seat
  needSeats(found.seller.feature_settings.seat_based_pricing_enabled)
  const phase = await holdPhase(wall, organization_id)
  const scope = within(organization_id, 'portal', phase)
  const named = await nameHolder(wall, scope, found.seat)
  const { buyer_customer_id, holder_customer_id, member_id } = named
  const purchase = await lockPurchase(wall, scope, named)
  if (purchase.closed !== null) throw new InvalidInvitationToken(`This invitation cannot be accepted at the moment. ${purchase.closed}`)
  const asCustomer = phase !== 'phase2' && holder_customer_id !== null
  const [customer] = await findCustomers(wall, scope, { id: asCustomer ? holder_customer_id : buyer_customer_id })
  const member = customer && !asCustomer && member_id !== null ? await findMember(wall, customer, { id: member_id }) : undefined
  if (!customer || (!asCustomer && !member)) throw new InvalidInvitationToken()
  // The link proves access only to the address that it was mailed to. It is refused if the customer has another
  // address, or if the seat has no address.
  const to = member ? addressOf(named, member) : await invited(wall, named)
  if (to === null || (asCustomer && customer.email?.toLowerCase() !== to.toLowerCase())) throw new InvalidInvitationToken()
  const tx = await inTimeOf(wall, named)
  const claimed = await claimPending(tx, purchase, named, platform.hasher.candidates(new Secret(token)))
  if (!claimed) throw new InvalidInvitationToken()
  const { seat } = claimed
  await endLink(tx, seat, 'claimed')
  await emit(tx, customerSeatClaimed, subjectOf(seat), presentSeat(scope, claimed))
  await entitle(tx, seat)
  const opened = await openCustomerSession(tx, platform, { organization_id, customer_id: customer.id, member_id: member?.id ?? null })
  return { scope, seat: claimed, token: opened.token }
}
