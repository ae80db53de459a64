import {
  assignPortalSeat,
  assignSeat,
  claimSeat,
  getSeat,
  getSeatClaimInfo,
  listClaimedSubscriptions,
  listPortalSeats,
  listSeats,
  paginate,
  requestSeatInvitation,
  resendPortalSeatInvitation,
  resendSeatInvitation,
  ResourceNotFound,
  revokePortalSeat,
  revokeSeat as revokeSeatOperation,
} from '@bursar/contract'
import { within, type PortalActor } from '../../../kernel/actors.ts'
import { chore, job, read, sweep, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { showOwn } from '../subscriptions/portal.ts'
import { listSubscriptionsSeating } from '../subscriptions/subscriptions.sql.ts'
import { assign, assignOwn } from './assigning.ts'
import { endSeats, expire, memberDeleted } from './ending.ts'
import { claim, forgetLinks, inform, mailInvitation, mailRequest, requestAgain, resend } from './invitations.ts'
import { findPool } from './pools.ts'
import { find, findManaged, findOwn, list, needSeats, revokeSeat, showOne } from './seats.ts'

/** In the portal a seat is its buyer's, in every phase: who else is a customer, and since when, is not theirs to know. */
const asBuyer = ({ organization_id }: PortalActor) => within(organization_id, 'portal', 'phase2')

export const operations = [
  write(assignSeat, async (tx, { reach, body }) => {
    const given = await assign(tx, reach, body)
    return showOne(tx, given.reach, given.seat)
  }),
  read(listSeats, async (db, { reach, query, platform }) => {
    const pool = await findPool(db, reach, query)
    if (!pool) throw new ResourceNotFound()
    permit(reach, pool.organization_id, 'customers:read')
    await needSeats(db, pool.organization_id)
    return list(db, reach, platform.clock, pool, query)
  }),
  read(getSeat, async (db, { reach, params }) => showOne(db, reach, await find(db, reach, params.seat_id))),
  write(revokeSeatOperation, async (tx, { reach: given, params }) => {
    const { reach, seat } = await findManaged(tx, given, params.seat_id)
    return showOne(tx, reach, await revokeSeat(tx, reach, seat))
  }),
  write(resendSeatInvitation, async (tx, { reach: given, params }) => {
    const { reach, seat } = await findManaged(tx, given, params.seat_id)
    return showOne(tx, reach, await resend(tx, reach, seat))
  }),
  read(getSeatClaimInfo, (db, { params, platform }) => inform(db, platform, params.invitation_token)),
  write(claimSeat, async (tx, { body, platform }) => {
    const { reach, seat, token } = await claim(tx, platform, body.invitation_token)
    return { seat: await showOne(tx, reach, seat), customer_session_token: token.reveal() }
  }),
  write(requestSeatInvitation, async (tx, { body, platform }) => {
    await requestAgain(tx, platform, body.invitation_token)
  }),

  read(listPortalSeats, async (db, { actor, reach, query, platform }) => {
    allow(actor.role, 'seats:manage')
    const pool = await findPool(db, reach, query)
    if (!pool || pool.customer_id !== actor.customer_id) throw new ResourceNotFound()
    await needSeats(db, pool.organization_id)
    return list(db, asBuyer(actor), platform.clock, pool, query)
  }),
  write(assignPortalSeat, async (tx, { actor, reach, body }) => showOne(tx, asBuyer(actor), (await assignOwn(tx, reach, actor, body)).seat)),
  write(revokePortalSeat, async (tx, { actor, reach: given, params }) => {
    const { reach, seat } = await findOwn(tx, given, actor, params.seat_id)
    return showOne(tx, asBuyer(actor), await revokeSeat(tx, reach, seat))
  }),
  write(resendPortalSeatInvitation, async (tx, { actor, reach: given, params }) => {
    const { reach, seat } = await findOwn(tx, given, actor, params.seat_id)
    return showOne(tx, asBuyer(actor), await resend(tx, reach, seat))
  }),
  // Their own, whoever they are.
  read(listClaimedSubscriptions, async (db, { actor, reach, query }) => {
    const { items, total, next_cursor } = await listSubscriptionsSeating(db, reach, actor, query)
    return paginate(query, await showOwn(db, reach, actor, items), total, next_cursor)
  }),
]

export const jobs = [
  job('mail.seat_invitation', mailInvitation),
  job('mail.seat_requested', mailRequest),
  job('billing.end_seats', endSeats),
  job('billing.member_deleted', memberDeleted),
]
export const sweeps = [sweep('billing.expire_seats', expire)]
export const chores = [chore('billing.forget_links', forgetLinks)]
