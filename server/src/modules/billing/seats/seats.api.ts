import {
  assignPortalSeat,
  assignSeat,
  claimSeat,
  getSeat,
  getSeatClaimInfo,
  listPortalSeats,
  listSeats,
  requestSeatInvitation,
  resendPortalSeatInvitation,
  resendSeatInvitation,
  ResourceNotFound,
  revokePortalSeat,
  revokeSeat as revokeSeatOperation,
} from '@bursar/contract'
import { within, type PortalActor } from '../../../kernel/actors.ts'
import { periodicTask, job, read, sweep, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { assign, assignOwn } from './assigning.ts'
import { endSeats, expire, memberDeleted } from './ending.ts'
import { claim, forgetLinks, inform, mailInvitation, mailRequest, mailRevoked, requestAgain, resend } from './invitations.ts'
import { findPool } from './pools.ts'
import { requireSeat, findManaged, findOwn, listPoolSeats, listAll, needSeats, presentSeat, revokeSeat } from './seats.ts'

/**
 * The scope that presents seats in the portal as in phase 2, with the buyer's customer id. The response must not reveal
 * which holders are customers themselves.
 */
const asBuyer = ({ organization_id }: PortalActor) => within(organization_id, 'portal', 'phase2')

export const operations = [
  write(assignSeat, async (tx, { scope, body, platform }) => {
    const given = await assign(tx, scope, body, platform)
    return presentSeat(given.scope, given.seat)
  }),
  read(listSeats, async (db, { scope, query, platform }) => {
    if (query.subscription_id === undefined && query.order_id === undefined) return listAll(db, scope, platform.clock, query)
    const pool = await findPool(db, scope, query)
    if (!pool) throw new ResourceNotFound()
    permit(scope, pool.organization_id, 'customers:read')
    needSeats(pool.sells)
    return listPoolSeats(db, scope, platform.clock, pool, query)
  }),
  read(getSeat, async (db, { scope, params }) => presentSeat(scope, await requireSeat(db, scope, params.seat_id))),
  write(revokeSeatOperation, async (tx, { scope: given, params }) => {
    const { scope, seat } = await findManaged(tx, given, params.seat_id)
    return presentSeat(scope, await revokeSeat(tx, scope, seat))
  }),
  write(resendSeatInvitation, async (tx, { scope: given, params, platform }) => {
    const { scope, seat } = await findManaged(tx, given, params.seat_id)
    return presentSeat(scope, await resend(tx, scope, seat, platform))
  }),
  read(getSeatClaimInfo, (db, { params, platform }) => inform(db, platform, params.invitation_token)),
  write(claimSeat, async (tx, { body, platform }) => {
    const { scope, seat, token } = await claim(tx, platform, body.invitation_token)
    return { seat: presentSeat(scope, seat), customer_session_token: token.reveal() }
  }),
  write(requestSeatInvitation, async (tx, { body, platform }) => {
    await requestAgain(tx, platform, body.invitation_token)
  }),

  read(listPortalSeats, async (db, { actor, scope, query, platform }) => {
    allow(actor.role, 'seats:manage')
    const pool = await findPool(db, scope, query)
    if (!pool || pool.customer_id !== actor.customer_id) throw new ResourceNotFound()
    needSeats(pool.sells)
    return listPoolSeats(db, asBuyer(actor), platform.clock, pool, query)
  }),
  write(assignPortalSeat, async (tx, { actor, scope, body, platform }) =>
    presentSeat(asBuyer(actor), (await assignOwn(tx, scope, actor, body, platform)).seat),
  ),
  write(revokePortalSeat, async (tx, { actor, scope: given, params }) => {
    const { scope, seat } = await findOwn(tx, given, actor, params.seat_id)
    return presentSeat(asBuyer(actor), await revokeSeat(tx, scope, seat))
  }),
  write(resendPortalSeatInvitation, async (tx, { actor, scope: given, params, platform }) => {
    const { scope, seat } = await findOwn(tx, given, actor, params.seat_id)
    return presentSeat(asBuyer(actor), await resend(tx, scope, seat, platform))
  }),
]

export const jobs = [
  job('mail.seat_invitation', mailInvitation),
  job('mail.seat_requested', mailRequest),
  job('mail.seat_revoked', mailRevoked),
  job('billing.end_seats', endSeats),
  job('billing.member_deleted', memberDeleted),
]
export const sweeps = [sweep('billing.expire_seats', expire)]
export const periodicTasks = [periodicTask('billing.forget_links', forgetLinks)]
