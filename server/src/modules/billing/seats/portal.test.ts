import {
  assignPortalSeat,
  createMember,
  getSubscription,
  listClaimedSubscriptions,
  listPortalSeats,
  resendPortalSeatInvitation,
  revokePortalSeat,
  updatePortalSubscription,
  updateMember,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTeams, type Team, type Teams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

let world: World
let teams: Teams
beforeAll(async () => {
  world = await openWorld()
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

type Answer = { status: number; body: unknown }
const errorOf = ({ status, body }: Answer) => `${status} ${(body as { error?: string }).error}`
const messagesOf = ({ body }: Answer) => (body as { detail: { msg: string }[] }).detail.map(({ msg }) => msg).join(' ')

/** Opens the portal as a member with this role. */
const as = async (team: Team, role: 'billing_manager' | 'member', email: string) => {
  const member = await team.api.call(createMember, { params: { id: team.customer_id }, body: { email, role } })
  return { member, portal: await team.portal(member.id) }
}

describe.each(['before', 'phase1', 'phase2'] as const)('portal seats in member migration phase %s', (phase) => {
  const enabled = phase === 'phase2'

  test('lets the owner, a billing manager or the customer assign, resend and revoke seats, and change their number [S4-30]', async () => {
    const team = await teams.buy({ seats: 3, phase })
    await world.database.owner((owner) =>
      owner.query(
        `update organizations set customer_portal_settings = customer_portal_settings || '{"subscription": {"update_seats": true, "update_plan": true}}' where id = $1`,
        [team.organization.id],
      ),
    )
    const leaders = [await team.portal(), ...(enabled ? [(await as(team, 'billing_manager', 'manager@people.test')).portal] : [await team.portal(null)])]
    for (const [at, portal] of leaders.entries()) {
      const seat = await portal.call(assignPortalSeat, { body: { ...team.pool, email: `guest-${at}@people.test` } })
      expect(seat).toMatchObject({
        status: 'pending',
        subscription_id: team.subscription_id,
        member: { customer_id: team.customer_id },
        customer_email: `guest-${at}@people.test`,
      })
      // The response must not reveal which holders are customers, so it contains the buyer's customer id.
      expect(seat.customer_id).toBe(team.customer_id)
      const first = await teams.invited(seat)
      const params = { seat_id: seat.id }
      expect(await portal.call(resendPortalSeatInvitation, { params })).toMatchObject({ id: seat.id, status: 'pending' })
      expect(await teams.invited(seat)).not.toBe(first)
      expect(await portal.call(listPortalSeats, { query: team.pool })).toMatchObject({
        available_seats: 2,
        total_seats: 3,
        items: expect.arrayContaining([expect.objectContaining({ id: seat.id })]),
      })
      expect(await portal.call(revokePortalSeat, { params })).toMatchObject({ status: 'revoked', customer_email: `guest-${at}@people.test` })
      expect(errorOf(await portal.send(resendPortalSeatInvitation, { params }))).toBe('400 SeatNotPending')
      // Assigns by the id of an existing member, and by the checkout id.
      const again = await portal.call(assignPortalSeat, { body: { checkout_id: team.checkout_id, member_id: seat.member_id } })
      expect(again).toMatchObject({ subscription_id: team.subscription_id, member_id: seat.member_id })
      await portal.call(revokePortalSeat, { params: { seat_id: again.id } })
      const subscribed = { params: { id: team.subscription_id! } }
      expect((await portal.send(updatePortalSubscription, { ...subscribed, body: { seats: 4 + at } })).status).toBe(200)
      await teams.settle()
      expect((await team.api.call(getSubscription, subscribed)).seats).toBe(4 + at)
      await world.database.owner((owner) => owner.query('update subscriptions set seats = 3 where id = $1', [team.subscription_id]))
    }
  })

  test('shows seat holders their subscription without the team, prices or payments [S4-31]', async () => {
    const team = await teams.buy({ phase })
    const seat = await teams.assign(team, { email: 'plain@people.test' })
    const { portal } = await teams.claim(seat)
    const other = await teams.assign(team, { email: 'colleague@people.test' })
    const { items } = await portal.call(listClaimedSubscriptions, {})
    expect(items).toMatchObject([
      {
        id: team.subscription_id,
        status: 'active',
        product: { id: team.product_id, name: 'Workshop', prices: [], organization: { id: team.organization.id } },
        amount: 0,
        prices: [],
        discount_id: null,
        checkout_id: null,
        pending_update: null,
      },
    ])
    // An owner who has claimed a seat sees the full subscription, with its amount and checkout.
    const leader = await team.portal()
    expect((await leader.call(listClaimedSubscriptions, {})).items).toEqual([])
    await teams.assign(team, { member_id: team.owner.id, immediate_claim: true })
    expect((await leader.call(listClaimedSubscriptions, {})).items).toMatchObject([{ id: team.subscription_id, amount: 5000, checkout_id: team.checkout_id }])
    const wanted = enabled ? '403 NotPermitted' : '404 ResourceNotFound'
    for (const answer of [
      await portal.send(listPortalSeats, { query: team.pool }),
      await portal.send(assignPortalSeat, { body: { ...team.pool, email: 'friend@people.test' } }),
      await portal.send(revokePortalSeat, { params: { seat_id: seat.id } }),
      await portal.send(revokePortalSeat, { params: { seat_id: other.id } }),
      await portal.send(resendPortalSeatInvitation, { params: { seat_id: other.id } }),
    ]) {
      expect(errorOf(answer)).toBe(wanted)
      expect(JSON.stringify(answer.body)).not.toContain('colleague')
    }
    await leader.call(revokePortalSeat, { params: { seat_id: seat.id } })
    expect((await portal.call(listClaimedSubscriptions, {})).items).toEqual([])
  })
})

test('assigns a seat by e-mail address or to a member of the team, and rejects identifiers that only the seller may use', async () => {
  const team = await teams.buy()
  const other = await teams.buy({ shop: team.shop })
  const portal = await team.portal()
  const tried = (body: Record<string, unknown>) => portal.sendRaw(assignPortalSeat, { body: { ...team.pool, ...body } })
  for (const [body, words] of [
    [{ customer_id: other.customer_id }, 'Received customer_id'],
    [{ external_customer_id: 'x' }, 'Received external_customer_id'],
    [{ external_member_id: 'x' }, 'Received external_member_id'],
    [{ external_member_id: 'x', email: 'x@people.test' }, 'Received external_member_id'],
    [{ email: 'x@people.test', immediate_claim: true }, 'Received true'],
    [{ email: 'x@people.test', member_id: team.owner.id }, 'Received email and member_id'],
    [{}, 'Received none'],
    [{ email: 'x@people.test', order_id: team.order_id }, 'Received subscription_id and order_id'],
  ] as const) {
    const answer = await tried(body)
    expect([answer.status, messagesOf(answer)]).toEqual([422, expect.stringContaining(words)])
  }
  expect(errorOf(await tried({ member_id: other.owner.id }))).toBe('404 MemberNotFound')
  expect(errorOf(await tried({ member_id: newId(world.clock.wall()) }))).toBe('404 MemberNotFound')
  expect(await team.seats()).toMatchObject({ items: [], available_seats: 5 })
  await tried({ member_id: team.owner.id })
  expect(errorOf(await tried({ email: team.owner.email }))).toBe('400 SeatAlreadyAssigned')
})

test('responds 404 to seats of another customer', async () => {
  const team = await teams.buy({ once: true })
  const seat = await teams.assign(team)
  const other = await teams.buy({ shop: team.shop })
  const portal = await other.portal()
  const absent = { seat_id: newId(world.clock.wall()) }
  for (const params of [{ seat_id: seat.id }, absent])
    for (const answer of [await portal.send(revokePortalSeat, { params }), await portal.send(resendPortalSeatInvitation, { params })])
      expect(errorOf(answer)).toBe('404 ResourceNotFound')
  for (const pool of [team.pool, { order_id: absent.seat_id }, { checkout_id: team.checkout_id }])
    expect(errorOf(await portal.send(assignPortalSeat, { body: { ...pool, email: 'x@people.test' } }))).toBe('404 ResourceNotFound')
  expect(errorOf(await portal.send(listPortalSeats, { query: team.pool }))).toBe('404 ResourceNotFound')
  for (const client of [world.client(), team.api]) expect((await client.send(listPortalSeats, { query: team.pool })).status).toBe(401)
  expect((await team.seats()).items).toEqual([seat])
})

test('refuses seat assignments of a billing manager whose role was changed to member', async () => {
  const team = await teams.buy()
  const { member, portal } = await as(team, 'billing_manager', 'manager@people.test')
  const body = { ...team.pool, email: 'guest@people.test' }
  expect((await portal.send(assignPortalSeat, { body })).status).toBe(200)
  await team.api.call(updateMember, { params: { id: team.customer_id, member_id: member.id }, body: { role: 'member' } })
  expect(errorOf(await portal.send(assignPortalSeat, { body }))).toBe('403 NotPermitted')
})

test('assigns a seat of a one-time purchase by its checkout, and lists no subscription for it', async () => {
  const team = await teams.buy({ once: true, seats: 1 })
  const portal = await team.portal()
  const seat = await portal.call(assignPortalSeat, { body: { checkout_id: team.checkout_id, email: 'once@people.test' } })
  expect(seat).toMatchObject({ order_id: team.order_id, subscription_id: null })
  const { portal: holder } = await teams.claim(seat)
  expect((await holder.call(listClaimedSubscriptions, {})).items).toEqual([])
  expect(errorOf(await portal.send(assignPortalSeat, { body: { ...team.pool, email: 'late@people.test' } }))).toBe('400 SeatNotAvailable')
})
