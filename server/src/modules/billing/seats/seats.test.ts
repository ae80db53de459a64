import {
  assignSeat,
  claimSeat,
  confirmClientCheckout,
  createBenefit,
  createCheckout,
  createCustomer,
  createMember,
  createProduct,
  createRefund,
  createTestClock,
  deleteCustomer,
  deleteMember,
  getCustomer,
  getPortalCustomer,
  getPortalUser,
  getSeat,
  getSeatClaimInfo,
  getSubscription,
  listBenefitGrants,
  listCustomers,
  listSeats,
  requestSeatInvitation,
  resendSeatInvitation,
  revokeSeat,
  revokeSubscription,
  updateCustomer,
  updateMember,
  updateSubscription,
  type OrganizationRole,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTravels } from '../../../../test/harness/clocks.ts'
import { openTeams, tokenIn, type Team, type Teams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, hours, minutes } from '../../../platform/clock.ts'
import { forgetLinks } from './invitations.ts'

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
type Body = Record<string, unknown>
const errorOf = ({ status, body }: Answer) => `${status} ${(body as { error?: string }).error}`
const detailOf = ({ body }: Answer) => (body as { detail: string }).detail
const messagesOf = ({ body }: Answer) => (body as { detail: { msg: string }[] }).detail.map(({ msg }) => msg).join(' ')
const query = <T extends object>(text: string, values: readonly unknown[]) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
const tried = (team: Team, body: Body) => team.api.sendRaw(assignSeat, { body: { ...team.pool, ...body } })
const claimWith = (invitation_token: string) => world.client().send(claimSeat, { body: { invitation_token } })
/** Seat events after the first `from` events. */
const news = async (team: Team, from: number) =>
  (await team.events())
    .slice(from)
    .filter(({ type }) => type.startsWith('customer_seat.'))
    .map(({ type, data }) => `${type} ${String(data.customer_email)}`)

describe.each(['before', 'phase1', 'phase2'] as const)('seats in member migration phase %s', (phase) => {
  const enabled = phase === 'phase2'

  test('assigns a seat, emails the invitation, shows it and claims it; the holder is a member of the buyer [S2-05] [S2-06] [S2-07] [S4-21] [S4-23] [S6-03] [S6-05] [S6-09]', async () => {
    const team = await teams.buy({ seats: 2, phase })
    const told = (await team.events()).length
    const seat = await teams.assign(team, { email: 'Ada@people.test', metadata: { desk: 7, tags: ['a'] } })
    const [holder] = (await team.api.call(listCustomers, { query: { email: 'ada@people.test' } })).items
    expect(holder === undefined).toBe(enabled)
    expect(seat).toMatchObject({
      subscription_id: team.subscription_id,
      order_id: null,
      status: 'pending',
      customer_id: enabled ? team.customer_id : holder!.id,
      member: { email: 'Ada@people.test', customer_id: team.customer_id, role: 'member' },
      email: 'Ada@people.test',
      customer_email: 'Ada@people.test',
      claimed_at: null,
      revoked_at: null,
      seat_metadata: { desk: 7, tags: ['a'] },
    })
    expect(seat.member_id).toBe(seat.member!.id)
    expect(Date.parse(seat.invitation_token_expires_at!) - Date.parse(seat.created_at)).toBe(14 * days)
    expect(await team.api.call(getSeat, { params: { seat_id: seat.id } })).toEqual(seat)
    expect((await team.events()).slice(told).map(({ type, data }) => `${type} ${String(data.customer_id ?? data.id)}`)).toEqual([
      `member.created ${team.customer_id}`,
      ...(enabled ? [] : [`customer.created ${holder!.id}`, `member.created ${holder!.id}`]),
      `customer_seat.assigned ${seat.customer_id}`,
    ])
    expect((await team.events('customer_seat.assigned'))[0]!.data).toEqual(seat)
    await teams.settle()
    const letter = await world.mail.next('Ada@people.test')
    expect(letter).toMatchObject({ subject: 'Works lädt Sie zu Workshop ein', from: { name: team.organization.name } })
    expect(letter.text).toContain(`https://bursar.test/${team.organization.slug}/portal/claim?token=bursar_test_sit_`)
    const invitation_token = tokenIn(letter.text)
    const anyone = world.client()
    expect(await anyone.call(getSeatClaimInfo, { params: { invitation_token } })).toEqual({
      product_name: 'Workshop',
      product_cover_url: null,
      product_id: team.product_id,
      organization_name: team.organization.name,
      organization_slug: team.organization.slug,
      customer_email: 'Ada@people.test',
      can_claim: true,
      status: 'pending',
      invited_by: 'Works',
      benefits: [],
    })
    const claimed = await anyone.call(claimSeat, { body: { invitation_token } })
    const { claimed_at, modified_at } = claimed.seat
    expect(claimed.seat).toEqual({ ...seat, status: 'claimed', invitation_token_expires_at: null, claimed_at, modified_at })
    expect(claimed_at).not.toBeNull()
    const [event] = await team.events('customer_seat.claimed')
    expect(event!.data).toEqual(claimed.seat)
    expect(event!.data).toMatchObject({ member: { email: 'Ada@people.test' } })
    const portal = world.client({ token: claimed.customer_session_token })
    expect((await portal.call(getPortalCustomer, {})).id).toBe(seat.customer_id)
    expect(await portal.call(getPortalUser, {})).toMatchObject({ email: 'Ada@people.test' })
    expect(claimed.customer_session_token).toMatch(enabled ? /^bursar_test_mst_/ : /^bursar_test_cst_/)
    expect(errorOf(await claimWith(invitation_token))).toBe('400 InvalidInvitationToken')
    expect(await anyone.call(getSeatClaimInfo, { params: { invitation_token } })).toMatchObject({ can_claim: false, status: 'claimed' })
    expect(await team.seats()).toMatchObject({ available_seats: 1, total_seats: 2 })
    expect((await query(`select from credentials where subject_id = $1`, [seat.id])).length).toBe(0)
  })

  test('assigns a seat by each of the five identifiers; `customer_id` is the buyer in phase 2, otherwise the holder [S3-11] [S4-23] [S4-24]', async () => {
    const team = await teams.buy({ phase })
    const { api, customer_id } = team
    const cora = await api.call(createCustomer, { body: { email: 'cora@people.test' } })
    const dora = await api.call(createCustomer, { body: { email: 'dora@people.test', external_id: 'dora-1' } })
    const given = await teams.assign(team, { email: 'erin@people.test', immediate_claim: true })
    // In phase 2 the seller can create members. Before phase 2, a member is created only together with a seat.
    await api.call(revokeSeat, { params: { seat_id: given.id } })
    await query(`update members set external_id = 'fay-1' where id = $1`, [given.member_id])
    const seated = await Promise.all([teams.assign(team, { customer_id: cora.id }), teams.assign(team, { external_customer_id: 'dora-1' })])
    const [byCustomer, byExternal] = seated
    expect(byCustomer).toMatchObject({ customer_id: enabled ? customer_id : cora.id, email: 'cora@people.test', member: { customer_id, role: 'member' } })
    expect(byExternal).toMatchObject({ customer_id: enabled ? customer_id : dora.id, email: 'dora@people.test', member: { customer_id } })
    const byMember = await teams.assign(team, { member_id: given.member_id })
    // In phase 1 `customer_id` is the holder, even if the seat was assigned to a member.
    const erin = (await api.call(listCustomers, { query: { email: 'erin@people.test' } })).items[0]
    expect(erin === undefined).toBe(enabled)
    expect(byMember).toMatchObject({ customer_id: erin?.id ?? customer_id, member_id: given.member_id, customer_email: 'erin@people.test' })
    expect(byMember.customer_id).toBe(given.customer_id)
    await api.call(revokeSeat, { params: { seat_id: byMember.id } })
    const byExternalMember = await teams.assign(team, { external_member_id: 'fay-1' })
    expect(byExternalMember).toMatchObject({ customer_id: byMember.customer_id, member_id: given.member_id, member: { external_id: 'fay-1' } })
    // The seat of the buyer belongs to the team owner. This holds for each identifier of the buyer.
    expect(await teams.assign(team, { customer_id })).toMatchObject({ customer_id, member_id: team.owner.id })
    expect((await team.members()).map(({ email }) => email).toSorted()).toEqual(
      [team.owner.email, 'cora@people.test', 'dora@people.test', 'erin@people.test'].toSorted(),
    )
    for (const seat of [byCustomer, byExternalMember]) {
      const { portal } = await teams.claim(seat)
      expect(await portal.call(getPortalUser, {})).toMatchObject({ email: seat.customer_email, customer_id: seat.customer_id })
    }
  })

  test('rejects unknown people, members of other teams and holders of another seat', async () => {
    const team = await teams.buy({ phase })
    const { api, customer_id } = team
    const other = await teams.buy({ shop: team.shop })
    const nowhere = newId(world.clock.wall())
    const before = (await team.events()).length
    const unknown = enabled ? '400 InvalidSeatAssignmentRequest' : '404 CustomerNotFound'
    expect(errorOf(await tried(team, { customer_id: nowhere }))).toBe(unknown)
    expect(errorOf(await tried(team, { external_customer_id: 'nobody' }))).toBe(unknown)
    expect(errorOf(await tried(team, { member_id: nowhere }))).toBe('404 MemberNotFound')
    expect(errorOf(await tried(team, { member_id: other.owner.id }))).toBe('404 MemberNotFound')
    expect(errorOf(await tried(team, { external_member_id: 'nobody' }))).toBe('404 MemberNotFound')
    expect((await team.events()).length).toBe(before)
    const nameless = await api.call(createCustomer, { body: { type: 'team', name: 'Nameless', owner: { email: 'someone@people.test' } } })
    expect(errorOf(await tried(team, { customer_id: nameless.id }))).toBe('400 InvalidSeatAssignmentRequest')
    const elsewhere = await (await world.shop()).api.call(createCustomer, { body: { email: 'elsewhere@people.test', external_id: 'elsewhere' } })
    expect(errorOf(await tried(team, { customer_id: elsewhere.id }))).toBe(unknown)
    const hal = await teams.assign(team, { email: 'hal@people.test' })
    await query(`update members set external_id = 'hal-1' where id = $1`, [hal.member_id])
    for (const again of [{ email: 'HAL@people.test' }, { external_member_id: 'hal-1' }, { member_id: hal.member_id }])
      expect(errorOf(await tried(team, again))).toBe('400 SeatAlreadyAssigned')
    await teams.assign(team, { email: 'ida@people.test' })
    const seats = await team.seats()
    expect(seats).toMatchObject({ total_seats: 5, available_seats: 3, pagination: { total_count: 2 } })
    expect(seats.items.map(({ member }) => member!.customer_id)).toEqual([customer_id, customer_id])
  })

  test('revokes a seat at once, keeps its last holder and never reuses it', async () => {
    const team = await teams.buy({ seats: 1, phase })
    const seat = await teams.assign(team, { email: 'jo@people.test' })
    const { seat: held } = await teams.claim(seat)
    const before = (await team.events()).length
    const params = { seat_id: seat.id }
    const revoked = await team.api.call(revokeSeat, { params })
    const { revoked_at, modified_at } = revoked
    expect(revoked).toEqual({ ...held, status: 'revoked', revoked_at, modified_at })
    expect(revoked).toMatchObject({ customer_email: 'jo@people.test', member: { email: 'jo@people.test' }, customer_id: seat.customer_id })
    expect((await team.events('customer_seat.revoked')).map(({ data }) => data)).toEqual([revoked])
    expect(await team.api.call(revokeSeat, { params })).toEqual(revoked)
    expect(await news(team, before)).toEqual(['customer_seat.revoked jo@people.test'])
    const next = await teams.assign(team, { email: 'jo@people.test' })
    expect(next.id).not.toBe(seat.id)
    expect(next.member_id).toBe(seat.member_id)
    expect((await team.seats()).items.map(({ id, status }) => [id, status])).toEqual([
      [seat.id, 'revoked'],
      [next.id, 'pending'],
    ])
  })

  test('assigns the buyer one of the bought seats, but no second seat if the same product is bought again', async () => {
    const team = await teams.buy({ seats: 1, phase, own: true })
    const [own, ...more] = (await team.seats()).items
    expect(more).toEqual([])
    expect(own).toMatchObject({ status: 'claimed', member_id: team.owner.id, customer_id: team.customer_id, customer_email: team.owner.email })
    expect((await team.events('customer_seat.claimed')).map(({ data }) => data)).toEqual([own])
    expect((await team.api.call(getCustomer, { params: { id: team.customer_id } })).type).toBe(enabled ? 'team' : 'individual')
    const first = await teams.buy({ seats: 2, shop: team.shop, once: true, own: true })
    expect((await first.seats()).items.map(({ member_id, order_id }) => [member_id, order_id])).toEqual([[first.owner.id, first.order_id]])
    const second = await teams.buy({ seats: 2, shop: team.shop, once: true, own: true, product_id: first.product_id, customer_id: first.customer_id })
    expect(await second.seats()).toMatchObject({ items: [], available_seats: 2 })
  })
})

describe('a person whose seat ends is mailed once', () => {
  const held = async (email: string) => {
    const team = await teams.buy({ phase: 'phase2', own: true })
    const { seat } = await teams.claim(await teams.assign(team, { email }))
    await teams.assign(team, { email: `invited-${email}` })
    await teams.settle()
    world.mail.letters.length = 0
    return { team, seat }
  }
  const told = async () => {
    await teams.settle()
    await teams.post('billing.end_seats', 'billing.member_deleted', 'mail.seat_revoked')
    return world.mail.letters.filter(({ subject }) => /Ihr Platz|Ihr Zugang/.test(subject)).map(({ to, subject }) => [to, subject])
  }

  test('if it is withdrawn', async () => {
    const { team, seat } = await held('fay@people.test')
    for (const _ of [1, 2]) await team.api.call(revokeSeat, { params: { seat_id: seat.id } })
    expect(await told()).toEqual([['fay@people.test', 'Ihr Platz für Workshop wurde zurückgenommen']])
  })

  test('not if the person was given another seat of the purchase before the mail was sent', async () => {
    const { team, seat } = await held('gus@people.test')
    await team.api.call(revokeSeat, { params: { seat_id: seat.id } })
    await teams.assign(team, { email: 'gus@people.test' })
    expect(await told()).toEqual([])
  })

  test('if the subscription ends. The owner and an invited person are not mailed about seats', async () => {
    const { team } = await held('hal@people.test')
    await team.api.call(revokeSubscription, { params: { id: team.subscription_id! } })
    expect(await told()).toEqual([['hal@people.test', 'Ihr Zugang zu Workshop ist beendet']])
    expect((await team.seats()).items.map(({ status }) => status)).toEqual(['revoked', 'revoked', 'revoked'])
  })

  test('if the member is removed from the team', async () => {
    const { team, seat } = await held('ida@people.test')
    await team.api.call(deleteMember, { params: { id: team.customer_id, member_id: seat.member_id! } })
    expect(await told()).toEqual([['ida@people.test', 'Ihr Platz für Workshop wurde zurückgenommen']])
  })
})

test('leaves the name of the team out of an invitation if the name contains an address', async () => {
  const team = await teams.buy()
  await team.api.call(updateCustomer, { params: { id: team.customer_id }, body: { name: 'Your account is locked, see evil.example' } })
  await teams.assign(team, { email: 'target@people.test' })
  await teams.settle()
  const { subject, text, html } = await world.mail.next('target@people.test')
  for (const part of [subject, text, html]) expect(part).not.toContain('evil.example')
})

test('changes only the `customer_id` that a seat shows when the member migration phase changes', async () => {
  const team = await teams.buy({ phase: 'phase1' })
  const seat = await teams.assign(team, { email: 'kim@people.test' })
  const waiting = await teams.assign(team, { email: 'leo@people.test' })
  const { seat: held } = await teams.claim(seat)
  const invitation = await teams.invited(waiting)
  await team.phase('phase2')
  expect(await team.api.call(getSeat, { params: { seat_id: seat.id } })).toEqual({ ...held, customer_id: team.customer_id })
  expect((await team.api.send(getCustomer, { params: { id: seat.customer_id! } })).status).toBe(404)
  const answer = await world.client().call(claimSeat, { body: { invitation_token: invitation } })
  expect(answer.seat).toMatchObject({ customer_id: team.customer_id, member_id: waiting.member_id })
  expect(await world.client({ token: answer.customer_session_token }).call(getPortalUser, {})).toMatchObject({
    email: 'leo@people.test',
    customer_id: team.customer_id,
  })
  expect(errorOf(await tried(team, { email: 'kim@people.test' }))).toBe('400 SeatAlreadyAssigned')
  expect((await team.api.call(revokeSeat, { params: { seat_id: seat.id } })).customer_id).toBe(team.customer_id)
})

test('rejects an assignment with no identifier or with two of them, and names those received [S4-25]', async () => {
  const team = await teams.buy()
  const id = newId(world.clock.wall())
  const values = { email: 'x@people.test', customer_id: id, external_customer_id: 'x', member_id: id, external_member_id: 'y' }
  const names = Object.keys(values) as (keyof typeof values)[]
  const pairs = names.flatMap((first, at) => names.slice(at + 1).map((second) => [first, second] as const))
  expect(pairs).toHaveLength(10)
  const mixed: [Body, string][] = [
    [{}, 'Received none; give exactly one of email, customer_id, external_customer_id, member_id or external_member_id.'],
    ...pairs.map(([first, second]): [Body, string] => [{ [first]: values[first], [second]: values[second] }, `Received ${first} and ${second}`]),
    [{ email: 'x@people.test', external_member_id: 'y', customer_id: id }, 'Received email, customer_id and external_member_id'],
  ]
  for (const [body, words] of mixed) {
    const answer = await tried(team, body)
    expect([answer.status, messagesOf(answer)]).toEqual([422, expect.stringContaining(words)])
  }
  for (const [body, words] of [
    [{ email: 'x@people.test' }, 'Received none; give exactly one of subscription_id or order_id'],
    [{ email: 'x@people.test', subscription_id: id, order_id: id }, 'Received subscription_id and order_id'],
    [{ ...team.pool, email: 'no address' }, ''],
    [{ ...team.pool, email: 'x@people.test', metadata: Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`k${at}`, 1])) }, 'at most 10 keys'],
    [{ ...team.pool, email: 'x@people.test', metadata: { long: 'x'.repeat(1024) } }, 'at most 1024 characters'],
  ] as [Body, string][]) {
    const answer = await team.api.sendRaw(assignSeat, { body })
    expect([answer.status, messagesOf(answer)]).toEqual([422, expect.stringContaining(words)])
  }
  expect(await team.seats()).toMatchObject({ items: [], available_seats: 5 })
})

test('lists the seats of a purchase as a collection, in order of assignment, also under the older field names [S4-22]', async () => {
  const team = await teams.buy({ seats: 4 })
  const emails = ['a@people.test', 'b@people.test', 'c@people.test']
  for (const email of emails) {
    world.clock.advance(1)
    await teams.assign(team, { email, immediate_claim: true })
  }
  const all = await team.seats()
  expect(all.items.map(({ email }) => email)).toEqual(emails)
  expect(all).toMatchObject({ seats: all.items, available_seats: 1, total_seats: 4, pagination: { total_count: 3, max_page: 1, next_cursor: null } })
  const { subscription_id } = team
  const page = await team.api.call(listSeats, { query: { subscription_id: subscription_id!, limit: 2 } })
  expect(page).toMatchObject({ items: [{ email: emails[0] }, { email: emails[1] }], pagination: { total_count: 3, max_page: 2 }, total_seats: 4 })
  const rest = await team.api.call(listSeats, { query: { subscription_id: subscription_id!, limit: 2, cursor: page.pagination.next_cursor! } })
  expect(rest.seats.map(({ email }) => email)).toEqual([emails[2]])
  const both = await team.api.sendRaw(listSeats, { query: { subscription_id, order_id: team.order_id } })
  expect([both.status, messagesOf(both)]).toEqual([422, 'Received subscription_id and order_id; give at most one of subscription_id or order_id.'])
  // The order of a subscription has no seats of its own.
  expect(await team.api.call(listSeats, { query: { order_id: team.order_id } })).toMatchObject({ items: [], total_seats: 0, available_seats: 0 })
  expect(errorOf(await team.api.send(assignSeat, { body: { order_id: team.order_id, email: 'd@people.test' } }))).toBe('400 SeatNotAvailable')
})

test('assigns no more seats than were bought', async () => {
  for (const once of [false, true]) {
    const team = await teams.buy({ seats: 2, once })
    await teams.assign(team)
    await teams.assign(team, { email: 'last@people.test', immediate_claim: true })
    const answer = await tried(team, { email: 'late@people.test' })
    expect([errorOf(answer), detailOf(answer)]).toEqual(['400 SeatNotAvailable', expect.stringContaining('All 2 seats are assigned')])
    // The refused assignment created no member.
    expect((await team.members()).map(({ email }) => email)).not.toContain('late@people.test')
    const [pending] = (await team.seats()).items
    await team.api.call(revokeSeat, { params: { seat_id: pending!.id } })
    expect((await tried(team, { email: 'late@people.test' })).status).toBe(200)
  }
})

test('sends no invitation for a seat that is claimed at once', async () => {
  const team = await teams.buy()
  const before = (await team.events()).length
  const seat = await teams.assign(team, { email: 'mia@people.test', immediate_claim: true })
  expect(seat).toMatchObject({ status: 'claimed', invitation_token_expires_at: null, revoked_at: null })
  expect(seat.claimed_at).toBe(seat.created_at)
  expect(await news(team, before)).toEqual(['customer_seat.claimed mia@people.test'])
  expect(errorOf(await team.api.send(resendSeatInvitation, { params: { seat_id: seat.id } }))).toBe('400 SeatNotPending')
  await teams.settle()
  expect(world.mail.letters.filter(({ to }) => to === 'mia@people.test')).toEqual([])
})

test('extends an invitation that is resent, and invalidates the old link at once', async () => {
  const team = await teams.buy()
  const seat = await teams.assign(team, { email: 'nina@people.test' })
  const first = await teams.invited(seat)
  world.clock.advance(13 * days)
  const params = { seat_id: seat.id }
  const again = await team.api.call(resendSeatInvitation, { params })
  expect(Date.parse(again.invitation_token_expires_at!)).toBeGreaterThanOrEqual(Date.parse(seat.invitation_token_expires_at!) + 13 * days)
  // The old link is already invalid, although the new mail has not been sent yet.
  expect(errorOf(await claimWith(first))).toBe('400 InvalidInvitationToken')
  const second = await teams.invited(seat)
  expect(second).not.toBe(first)
  expect((await world.client().send(getSeatClaimInfo, { params: { invitation_token: first } })).status).toBe(404)
  world.clock.advance(2 * days)
  await teams.deployment!.sweep('billing.expire_seats')
  expect((await claimWith(second)).status).toBe(200)
  expect(errorOf(await team.api.send(resendSeatInvitation, { params }))).toBe('400 SeatNotPending')
  await team.api.call(revokeSeat, { params })
  expect(errorOf(await team.api.send(resendSeatInvitation, { params }))).toBe('400 SeatNotPending')
})

test('frees the seat of an expired invitation on the next assignment, or else by the sweep', async () => {
  const team = await teams.buy({ seats: 1 })
  const seat = await teams.assign(team, { email: 'olaf@people.test' })
  const token = await teams.invited(seat)
  world.clock.advance(14 * days - 1 * minutes)
  await teams.deployment!.sweep('billing.expire_seats')
  expect(errorOf(await tried(team, { email: 'pia@people.test' }))).toBe('400 SeatNotAvailable')
  world.clock.advance(1 * minutes)
  expect(errorOf(await claimWith(token))).toBe('400 InvalidInvitationToken')
  expect(await world.client().call(getSeatClaimInfo, { params: { invitation_token: token } })).toMatchObject({ can_claim: false, status: 'expired' })
  expect(await team.seats()).toMatchObject({ available_seats: 1, items: [{ status: 'pending' }] })
  expect(errorOf(await team.api.send(resendSeatInvitation, { params: { seat_id: seat.id } }))).toBe('400 SeatNotPending')
  const before = (await team.events()).length
  const next = await teams.assign(team, { email: 'pia@people.test' })
  expect(await news(team, before)).toEqual(['customer_seat.revoked olaf@people.test', 'customer_seat.assigned pia@people.test'])
  world.clock.advance(14 * days)
  await teams.deployment!.sweep('billing.expire_seats')
  expect(await team.api.call(getSeat, { params: { seat_id: next.id } })).toMatchObject({
    status: 'revoked',
    customer_email: 'pia@people.test',
    claimed_at: null,
  })
  expect((await news(team, before)).slice(2)).toEqual(['customer_seat.revoked pia@people.test'])
  await teams.deployment!.sweep('billing.expire_seats')
  expect(await news(team, before)).toHaveLength(3)
})

test('shows for a month why an invitation link is invalid, and responds 404 to an unknown link', async () => {
  const team = await teams.buy({ seats: 9 })
  const seats = await Promise.all(['taken', 'lapsed', 'withdrawn'].map((who) => teams.assign(team, { email: `${who}@ends.test` })))
  const [taken, lapsed, withdrawn] = [await teams.invited(seats[0]!), await teams.invited(seats[1]!), await teams.invited(seats[2]!)]
  const anyone = world.client()
  const ended = async (invitation_token: string) => {
    const { status, body } = await anyone.send(getSeatClaimInfo, { params: { invitation_token } })
    return status === 200 ? `${body.status} ${body.customer_email} ${body.can_claim}` : status
  }
  const revoke = (at: number) => team.api.call(revokeSeat, { params: { seat_id: seats[at]!.id } })
  expect((await claimWith(taken)).status).toBe(200)
  await revoke(2)
  world.clock.advance(14 * days)
  await teams.deployment!.sweep('billing.expire_seats')
  expect(await Promise.all([taken, lapsed, withdrawn].map(ended))).toEqual([
    'claimed taken@ends.test false',
    'expired lapsed@ends.test false',
    'revoked withdrawn@ends.test false',
  ])
  expect(await Promise.all([taken, lapsed, withdrawn].map(async (token) => detailOf(await claimWith(token))))).toEqual([
    'This invitation was already accepted.',
    'This invitation has expired. Ask for a new one.',
    'This invitation was withdrawn.',
  ])
  // A claimed seat that was revoked later.
  await revoke(0)
  expect(await ended(taken)).toBe('revoked taken@ends.test false')

  // However often a new invitation is requested, one mail is sent per day, and only for expired links. The response
  // does not reveal which links have expired.
  const asks = () =>
    Promise.all([lapsed, lapsed, taken, withdrawn, 'made-up'].map((invitation_token) => anyone.send(requestSeatInvitation, { body: { invitation_token } })))
  expect((await asks()).map(({ status, body }) => `${status} ${JSON.stringify(body)}`)).toEqual(Array(5).fill('202 ""'))
  const promised = async () => (await query(`select from mails where kind = 'mail.seat_requested' and organization_id = $1`, [team.organization.id])).length
  expect(await promised()).toBe(1)
  world.clock.advance(24 * hours)
  await asks()
  expect(await promised()).toBe(2)

  world.clock.advance(29 * days)
  await forgetLinks(teams.deployment!.deps)
  expect(await Promise.all([taken, lapsed, withdrawn].map(ended))).toEqual([404, 404, 404])
})

test("expires an invitation by the customer's test clock", async () => {
  const shop = await world.shop()
  const clock = await shop.api.call(createTestClock, { body: { now: '2030-01-01T00:00:00Z' } })
  const customer = await shop.api.call(createCustomer, { body: { email: 'clocked@people.test', test_clock_id: clock.id } })
  const team = await teams.buy({ shop, customer_id: customer.id })
  const seat = await teams.assign(team, { email: 'quin@people.test' })
  expect([seat.created_at, seat.invitation_token_expires_at].map((at) => Date.parse(at!))).toEqual([
    Date.parse('2030-01-01T00:00:00Z'),
    Date.parse('2030-01-15T00:00:00Z'),
  ])
  world.clock.advance(15 * days)
  await teams.deployment!.sweep('billing.expire_seats')
  expect((await claimWith(await teams.invited(seat))).status).toBe(200)
  const second = await teams.assign(team, { email: 'rosa@people.test' })
  await openTravels(world, teams.deployment!).travel(shop.api, clock.id, '2030-01-15T12:00:00Z')
  const gone = await shop.api.call(getSeat, { params: { seat_id: second.id } })
  expect([gone.status, Date.parse(gone.revoked_at!)]).toEqual(['revoked', Date.parse('2030-01-15T00:00:00Z')])
})

test('assigns seats only while the subscription is trialing, active or past due, or the order is paid', async () => {
  const team = await teams.buy()
  const invited = await teams.assign(team, { email: 'ruth@people.test' })
  const token = await teams.invited(invited)
  const { subscription_id } = team
  for (const [status, gives] of [
    ['trialing', true],
    ['past_due', true],
    ['paused', false],
    ['incomplete', false],
    ['unpaid', false],
    ['canceled', false],
  ] as const) {
    await query('update subscriptions set status = $2 where id = $1', [subscription_id, status])
    const answer = await tried(team, { email: `${status}@people.test` })
    expect([status, errorOf(answer)]).toEqual([status, gives ? '200 undefined' : '400 SeatNotAvailable'])
    const seats = await team.seats()
    expect([status, seats.available_seats > 0, seats.total_seats]).toEqual([status, gives, 5])
    expect(await world.client().call(getSeatClaimInfo, { params: { invitation_token: token } })).toMatchObject({ can_claim: gives })
    if (gives) continue
    expect(detailOf(answer)).toContain(status)
    expect(errorOf(await claimWith(token))).toBe('400 InvalidInvitationToken')
    expect(errorOf(await team.api.send(resendSeatInvitation, { params: { seat_id: invited.id } }))).toBe('400 InvalidInvitationToken')
  }
  await query(`update subscriptions set status = 'active' where id = $1`, [subscription_id])
  expect((await claimWith(token)).status).toBe(200)

  const bought = await teams.buy({ once: true })
  for (const [status, gives] of [
    ['partially_refunded', true],
    ['pending', false],
    ['refunded', false],
    ['void', false],
  ] as const) {
    await query('update orders set status = $2, invoice_number = null where id = $1', [bought.order_id, status])
    expect([status, (await tried(bought, { email: `${status}@people.test` })).status]).toEqual([status, gives ? 200 : 400])
  }
  const plain = await teams.buy()
  await query('update subscriptions set seats = null where id = $1', [plain.subscription_id])
  expect(errorOf(await tried(plain, { email: 'nobody@people.test' }))).toBe('400 SeatNotAvailable')
})

test('revokes every seat of an ended subscription once, and no other seats', async () => {
  const team = await teams.buy({ seats: 130 })
  const other = await teams.buy({ shop: team.shop })
  const kept = await teams.assign(other, { email: 's0@people.test', immediate_claim: true })
  await teams.assign(team, { email: 's0@people.test' })
  await query(
    `with people as (
       insert into members (organization_id, id, customer_id, created_at, email, role)
       select $1, gen_random_uuid(), $2, now(), 's' || n || '@people.test', 'member' from generate_series(1, 120) n returning *)
     insert into seats (organization_id, id, created_at, subscription_id, status, buyer_customer_id, member_id, email, claimed_at, metadata)
     select organization_id, gen_random_uuid(), created_at, $3, 'claimed', customer_id, id, email, created_at, '{}' from people`,
    [team.organization.id, team.customer_id, team.subscription_id],
  )
  await query(`update subscriptions set status = 'past_due' where id = $1`, [team.subscription_id])
  await teams.settle()
  expect((await team.seats()).available_seats).toBe(9)
  await query(`update subscriptions set status = 'active' where id = $1`, [team.subscription_id])
  const before = (await team.events()).length
  await team.api.call(revokeSubscription, { params: { id: team.subscription_id! } })
  await teams.settle()
  const rows = await query<{ status: string; told: number }>(
    `select s.status, (select count(*)::int from events e where e.resource_id = s.id and e.kind = 'customer_seat.revoked') as told from seats s where subscription_id = $1`,
    [team.subscription_id],
  )
  expect(rows).toHaveLength(121)
  expect(rows.every(({ status, told }) => status === 'revoked' && told === 1)).toBe(true)
  expect(await team.api.call(getSeat, { params: { seat_id: kept.id } })).toEqual(kept)
  expect(
    (
      await query(`select from credentials where kind = 'seat_invitation' and subject_id in (select id from seats where subscription_id = $1)`, [
        team.subscription_id,
      ])
    ).length,
  ).toBe(0)
  expect((await news(team, before)).filter((one) => one.startsWith('customer_seat.revoked'))).toHaveLength(121)
})

test('revokes the seats of an order only with a refund that revokes benefits', async () => {
  const team = await teams.buy({ seats: 2, once: true })
  const seat = await teams.assign(team, { email: 'tom@people.test', immediate_claim: true })
  const refund = (amount: number, revoke_benefits: boolean) =>
    team.api.call(createRefund, { body: { order_id: team.order_id, reason: 'customer_request', amount, revoke_benefits } })
  await refund(100, false)
  await teams.settle()
  const look = async () => (await team.api.call(getSeat, { params: { seat_id: seat.id } })).status
  expect(await look()).toBe('claimed')
  await refund(1900, true)
  await teams.settle()
  expect(await look()).toBe('revoked')
  expect(await team.seats()).toMatchObject({ available_seats: 0, total_seats: 2 })
})

test('revokes the seats of a deleted member, and before phase 2 those of a deleted customer', async () => {
  const team = await teams.buy()
  const second = await teams.buy({ shop: team.shop, customer_id: team.customer_id, once: true })
  const uma = await teams.assign(team, { email: 'uma@people.test', immediate_claim: true })
  const again = await teams.assign(second, { email: 'uma@people.test' })
  const vera = await teams.assign(team, { email: 'vera@people.test' })
  await team.api.call(deleteMember, { params: { id: team.customer_id, member_id: uma.member_id! } })
  await teams.settle()
  const statusOf = async (from: Team, id: string) => (await from.api.call(getSeat, { params: { seat_id: id } })).status
  expect([await statusOf(team, uma.id), await statusOf(team, again.id), await statusOf(team, vera.id)]).toEqual(['revoked', 'revoked', 'pending'])
  expect((await team.events('customer_seat.revoked')).map(({ data }) => data.customer_email)).toEqual(['uma@people.test', 'uma@people.test'])
  const early = await teams.buy({ phase: 'phase1' })
  const seat = await teams.assign(early, { email: 'uma@people.test', immediate_claim: true })
  const stays = await teams.assign(early, { email: 'vera@people.test', immediate_claim: true })
  await early.api.call(deleteCustomer, { params: { id: seat.customer_id! } })
  await teams.settle()
  expect([await statusOf(early, seat.id), await statusOf(early, stays.id)]).toEqual(['revoked', 'claimed'])
})

test.each([
  ['before', 'revoked', 0],
  ['phase1', 'revoked', 0],
  // In phase 2 a seat belongs to its member, so it stays when the customer is deleted.
  ['phase2', 'claimed', 1],
] as const)("in phase %s, a seat in another team is %s after the holder's own customer is deleted", async (phase, status, grants) => {
  const shop = await world.shop()
  const flag = await shop.api.call(createBenefit, { body: { type: 'feature_flag', description: 'Beta', properties: {} } })
  // A holder from before phase 2 is also a customer.
  const team = await teams.buy({ shop, phase: phase === 'phase2' ? 'phase1' : phase, benefits: [flag.id] })
  const own = await shop.api.call(createCustomer, { body: { email: 'yara@people.test' } })
  const seat = await teams.assign(team, { customer_id: own.id, immediate_claim: true })
  await teams.settle()
  await team.phase(phase)
  const stands = async () => [
    (await team.api.call(getSeat, { params: { seat_id: seat.id } })).status,
    (await team.api.call(listBenefitGrants, { query: { is_granted: true } })).items.length,
  ]
  expect(await stands()).toEqual(['claimed', 1])
  await team.api.call(deleteCustomer, { params: { id: own.id } })
  await teams.settle()
  expect(await stands()).toEqual([status, grants])
})

test.each(['before', 'phase1'] as const)("in phase %s, rejects a link that was sent to another address than the customer's", async (phase) => {
  const team = await teams.buy({ phase })
  // The member gets another address, and the invitation is sent to the new address.
  const seat = await teams.assign(team, { email: `vic-${phase}@people.test` })
  await team.api.call(updateMember, { params: { id: team.customer_id, member_id: seat.member_id! }, body: { email: `mallory-${phase}@people.test` } })
  const first = await teams.invited({ ...seat, customer_email: `mallory-${phase}@people.test` })
  // For a second seat, the address of the holder's customer changes after the invitation was sent.
  const other = await teams.assign(team, { email: `old-${phase}@people.test` })
  const second = await teams.invited(other)
  await team.api.call(updateCustomer, { params: { id: other.customer_id! }, body: { email: `new-${phase}@people.test` } })
  const sessions = async () => (await query(`select from credentials where organization_id = $1 and kind = 'customer_session'`, [team.organization.id])).length
  const before = await sessions()
  for (const token of [first, second]) expect(errorOf(await claimWith(token))).toBe('400 InvalidInvitationToken')
  expect((await team.seats()).items.map(({ status }) => status)).toEqual(['pending', 'pending'])
  expect(await sessions()).toBe(before)
  // With the original address restored, the link is valid again.
  await team.api.call(updateCustomer, { params: { id: other.customer_id! }, body: { email: `old-${phase}@people.test` } })
  expect((await claimWith(second)).status).toBe(200)
  expect(await sessions()).toBe(before + 1)
})

test('limits invitations to twenty per hour and address, across all seats', async () => {
  const team = await teams.buy({ seats: 3 })
  const again = ({ id }: { id: string }) => team.api.send(resendSeatInvitation, { params: { seat_id: id } })
  const first = await teams.assign(team, { email: 'flo@people.test' })
  for (let sent = 1; sent < 10; sent++) expect((await again(first)).status).toBe(200)
  await team.api.call(revokeSeat, { params: { seat_id: first.id } })
  const second = await teams.assign(team, { email: 'FLO@people.test' })
  for (let sent = 11; sent < 20; sent++) expect((await again(second)).status).toBe(200)
  const refused = await again(second)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '3600'])
  expect(detailOf(refused)).toContain('flo@people.test was invited 20 times')
  await team.api.call(revokeSeat, { params: { seat_id: second.id } })
  expect((await tried(team, { email: 'flo@people.test' })).status).toBe(429)
  expect(await team.seats()).toMatchObject({ available_seats: 3 })
  const gus = await teams.assign(team, { email: 'gus@people.test' })
  expect((await again(gus)).status).toBe(200)
  world.clock.advance(hours + minutes)
  expect((await tried(team, { email: 'flo@people.test' })).status).toBe(200)
})

test.each(['before', 'phase1', 'phase2'] as const)(
  'in phase %s, `email` and `customer_email` of a seat show the current address of its member [S2-05] [S2-06]',
  async (phase) => {
    const team = await teams.buy({ phase })
    const seat = await teams.assign(team, { email: `will-${phase}@people.test` })
    const address = `william-${phase}@people.test`
    await team.api.call(updateMember, { params: { id: team.customer_id, member_id: seat.member_id! }, body: { email: address } })
    const shown = { email: address, customer_email: address, member: { email: address } }
    expect(await team.api.call(getSeat, { params: { seat_id: seat.id } })).toMatchObject(shown)
    expect((await team.seats()).items).toMatchObject([shown])
    expect(await team.api.call(revokeSeat, { params: { seat_id: seat.id } })).toMatchObject({ ...shown, status: 'revoked' })
    expect((await team.events('customer_seat.revoked')).map(({ data }) => data.email)).toEqual([address])
  },
)

test('rejects a reduction below the seats in use, now or for the next period; a scheduled reduction limits assignments', async () => {
  const team = await teams.buy({ seats: 5 })
  for (const email of ['x1@people.test', 'x2@people.test', 'x3@people.test']) await teams.assign(team, { email, immediate_claim: email !== 'x1@people.test' })
  const params = { id: team.subscription_id! }
  const change = (seats: number, proration_behavior: 'invoice' | 'prorate' | 'next_period') =>
    team.api.send(updateSubscription, { params, body: { seats, proration_behavior } })
  for (const behavior of ['invoice', 'prorate', 'next_period'] as const) {
    const answer = await change(2, behavior)
    expect([errorOf(answer), detailOf(answer)]).toEqual(['400 SeatsAlreadyAssigned', expect.stringContaining('Received 2 seats, but 3 are assigned')])
  }
  expect((await change(3, 'next_period')).status).toBe(200)
  expect(await team.seats()).toMatchObject({ total_seats: 5, available_seats: 0 })
  const full = await tried(team, { email: 'x4@people.test' })
  expect([errorOf(full), detailOf(full)]).toEqual(['400 SeatNotAvailable', expect.stringContaining('All 3 seats are assigned')])
  expect((await change(4, 'next_period')).status).toBe(200)
  expect((await tried(team, { email: 'x4@people.test' })).status).toBe(200)
  expect((await change(4, 'prorate')).status).toBe(200)
  expect((await team.api.call(getSubscription, { params })).seats).toBe(4)
  // Expired invitations are not in use.
  world.clock.advance(15 * days)
  expect((await change(2, 'prorate')).status).toBe(200)
})

test('assigns a seat to a subscriber who switches to a product with seats', async () => {
  const shop = await world.shop()
  const seated = await teams.buy({ shop })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string }>(`select id from product_prices where product_id = $1`, [seated.product_id]),
  )
  expect(rows).toHaveLength(1)
  const plain = await teams.plain(shop)
  await shop.api.call(updateSubscription, { params: { id: plain.subscription_id }, body: { product_id: seated.product_id, proration_behavior: 'invoice' } })
  await teams.settle()
  const { items, total_seats } = await shop.api.call(listSeats, { query: { subscription_id: plain.subscription_id } })
  expect([total_seats, items.map(({ status, customer_id }) => [status, customer_id])]).toEqual([1, [['claimed', plain.customer_id]]])
  expect((await shop.api.call(getCustomer, { params: { id: plain.customer_id } })).type).toBe('team')
})

test('responds 404 to other organizations, 401 or 403 without the scope, and 403 to roles that may not manage customers', async () => {
  const team = await teams.buy()
  const seat = await teams.assign(team, { email: 'yves@people.test' })
  const params = { seat_id: seat.id }
  const absent = { seat_id: newId(world.clock.wall()) }
  const body = { ...team.pool, email: 'zoe@people.test' }
  const stranger = (await world.shop()).api
  for (const [client, where] of [
    [stranger, params],
    [team.api, absent],
  ] as const)
    for (const answer of [
      await client.send(getSeat, { params: where }),
      await client.send(revokeSeat, { params: where }),
      await client.send(resendSeatInvitation, { params: where }),
    ])
      expect(errorOf(answer)).toBe('404 ResourceNotFound')
  expect(errorOf(await stranger.send(assignSeat, { body }))).toBe('404 ResourceNotFound')
  expect(errorOf(await stranger.send(listSeats, { query: team.pool }))).toBe('404 ResourceNotFound')
  const reader = world.client({ token: (await team.organization.token(['customer_seats:read'])).secret })
  expect((await reader.send(getSeat, { params })).status).toBe(200)
  const blind = world.client({ token: (await team.organization.token(['customers:write'])).secret })
  for (const [client, wanted] of [
    [reader, 403],
    [blind, 403],
    [world.client(), 401],
  ] as const) {
    expect((await client.send(assignSeat, { body })).status).toBe(wanted)
    expect((await client.send(revokeSeat, { params })).status).toBe(wanted)
    expect((await client.send(resendSeatInvitation, { params })).status).toBe(wanted)
    if (client !== reader)
      expect([(await client.send(getSeat, { params })).status, (await client.send(listSeats, { query: team.pool })).status]).toEqual([wanted, wanted])
  }
  const as = async (role: OrganizationRole) => {
    const person = await world.person()
    await world.join(team.organization.id, person.id, role)
    return world.client({ token: (await person.token()).secret })
  }
  const finance = await as('finance')
  expect((await finance.send(getSeat, { params })).status).toBe(200)
  for (const answer of [
    await finance.send(assignSeat, { body }),
    await finance.send(revokeSeat, { params }),
    await finance.send(resendSeatInvitation, { params }),
  ])
    expect(errorOf(answer)).toBe('403 NotPermitted')
  expect((await (await as('member')).send(assignSeat, { body })).status).toBe(200)
  for (const invitation_token of ['made-up', 'bursar_test_sit_made_up']) {
    expect(errorOf(await claimWith(invitation_token))).toBe('400 InvalidInvitationToken')
    expect((await world.client().send(getSeatClaimInfo, { params: { invitation_token } })).status).toBe(404)
  }
  // A secret of another kind, here an organization token, cannot claim a seat.
  expect(errorOf(await claimWith((await team.organization.token()).secret.reveal()))).toBe('400 InvalidInvitationToken')
})

test('rejects all seat operations if the organization sells no seats', async () => {
  const team = await teams.buy()
  const seat = await teams.assign(team, { email: 'abe@people.test' })
  const invitation_token = await teams.invited(seat)
  await query(`update organizations set feature_settings = feature_settings || '{"seat_based_pricing_enabled": false}' where id = $1`, [team.organization.id])
  const params = { seat_id: seat.id }
  for (const answer of [
    await tried(team, { email: 'bea@people.test' }),
    await team.api.send(listSeats, { query: team.pool }),
    await team.api.send(getSeat, { params }),
    await team.api.send(revokeSeat, { params }),
    await team.api.send(resendSeatInvitation, { params }),
    await world.client().send(getSeatClaimInfo, { params: { invitation_token } }),
    await claimWith(invitation_token),
  ])
    expect(errorOf(answer)).toBe('403 FeatureNotEnabled')
})

test('creates one customer when several teams invite the same person concurrently', async () => {
  const first = await teams.buy({ phase: 'phase1' })
  const all = [first, ...(await Promise.all([1, 2, 3].map(() => teams.buy({ shop: first.shop }))))]
  const seats = await Promise.all(all.map((team) => teams.assign(team, { email: 'shared@people.test' })))
  expect(new Set(seats.map(({ customer_id }) => customer_id)).size).toBe(1)
  expect(new Set(seats.map(({ member_id }) => member_id)).size).toBe(4)
})

test('creates one customer per address under concurrent invitations, API calls and purchases', async () => {
  const team = await teams.buy({ seats: 20, phase: 'before' })
  const { id: product_id } = await team.api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 1000, price_currency: 'usd' }] },
  })
  const addresses = [1, 2, 3].map((at) => `twin-${at}@people.test`)
  const checkouts = await Promise.all(addresses.map(() => team.api.call(createCheckout, { body: { products: [product_id] } })))
  await Promise.all(
    addresses.flatMap((email, at) => [
      tried(team, { email }),
      team.api.send(createCustomer, { body: { email } }),
      world.client().call(confirmClientCheckout, {
        params: { client_secret: checkouts[at]!.client_secret },
        body: { customer_email: email, customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
      }),
    ]),
  )
  await teams.settle()
  const rows = await query<{ email: string; living: number; buyers: number }>(
    `select email, count(*)::int as living, count(*) filter (where not pure_holder)::int as buyers from customers
     where organization_id = $1 and email like 'twin-%' and deleted_at is null group by email order by email`,
    [team.organization.id],
  )
  expect(rows).toEqual(addresses.map((email) => ({ email, living: 1, buyers: 1 })))
})

test('merges a seat holder from phase 1 with the customer of the same address created in phase 2, who can then buy', async () => {
  const team = await teams.buy({ phase: 'phase1' })
  const seat = await teams.assign(team, { email: 'ines@people.test' })
  await team.phase('phase2')
  const twin = await team.api.call(createCustomer, { body: { email: 'ines@people.test' } })
  await team.phase('phase1')
  const bought = await teams.buy({ shop: team.shop, customer_id: seat.customer_id!, once: true })
  expect(bought.customer_id).toBe(twin.id)
  expect(await bought.seats()).toMatchObject({ available_seats: 5 })
})

test('assigns the seat to the existing member of the team with the same address', async () => {
  const team = await teams.buy()
  const member = await team.api.call(createMember, { params: { id: team.customer_id }, body: { email: 'cleo@people.test', name: 'Cleo' } })
  const seat = await teams.assign(team, { email: 'CLEO@people.test' })
  expect(seat).toMatchObject({ member_id: member.id, member: { name: 'Cleo' }, email: 'cleo@people.test' })
})
