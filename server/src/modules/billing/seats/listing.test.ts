import { assignSeat, listPortalSeats, listSeats, updateSubscription, type CustomerSeat } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { openTeams, type Team, type Teams } from '../../../../test/harness/teams.ts'
import { openApp, openVisitor } from '../../../../test/harness/visitor.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { days } from '../../../platform/clock.ts'

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

type Seat = z.input<typeof CustomerSeat>
const idsOf = (seats: readonly Seat[]) => seats.map(({ id }) => id)
const query = <T extends object>(text: string, values: readonly unknown[]) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
const assign = async (team: Team, email: string, immediate_claim = true) => {
  world.clock.advance(1)
  return teams.assign(team, { email, immediate_claim })
}
const sumOf = async (all: readonly Team[]) => {
  const lists = await Promise.all(all.map((team) => team.seats()))
  const sum = (field: 'total_seats' | 'available_seats') => lists.reduce((total, list) => total + list[field], 0)
  return { total_seats: sum('total_seats'), available_seats: sum('available_seats') }
}
/** Inserts seats of a purchase by SQL, each one second later than the last. Skips triggers, which would take minutes. */
const fill = (team: Team, count: number, status: 'claimed' | 'revoked' = 'claimed') =>
  world.database.owner(async (owner) => {
    await owner.query('begin; set local session_replication_role = replica')
    await owner.query(
      `with people as (
         insert into members (organization_id, id, customer_id, created_at, email, role)
         select $1, gen_random_uuid(), $2, timestamptz '2020-01-01' + n * interval '1 second', $4 || n || '@people.test', 'member' from generate_series(1, $5::int) n returning *)
       insert into seats (organization_id, id, created_at, subscription_id, status, buyer_customer_id, member_id, email, claimed_at, revoked_at, metadata)
       select organization_id, gen_random_uuid(), created_at, $3, $6, customer_id, id, email, created_at, case when $6 = 'revoked' then created_at end, '{}' from people`,
      [team.organization.id, team.customer_id, team.subscription_id, `${status}-`, count, status],
    )
    await owner.query('commit')
  })

test('lists all seats of an organization newest first, as a collection, with the totals of all purchases [S4-22] [S8-01]', async () => {
  const first = await teams.buy({ seats: 5 })
  const { shop, api } = first
  const second = await teams.buy({ shop, seats: 4, once: true })
  const third = await teams.buy({ shop, seats: 4 })
  const unused = await teams.buy({ shop, seats: 7 })
  await teams.plain(shop)
  const stranger = await teams.buy({ seats: 2 })
  await assign(stranger, 'stranger@people.test')
  const seats: Seat[] = []
  for (let at = 0; at < 12; at++) seats.unshift(await assign([first, second, third][at % 3]!, `all-${at}@people.test`, at !== 5))
  const page = await api.call(listSeats, {})
  expect(page.items).toEqual(seats.slice(0, 10))
  expect(page.seats).toEqual(page.items)
  expect(page.pagination).toMatchObject({ total_count: 12, max_page: 2 })
  expect(page).toMatchObject({ total_seats: 20, available_seats: 8 })
  const all = [first, second, third, unused]
  expect(await sumOf(all)).toEqual({ total_seats: 20, available_seats: 8 })

  // Pages by page number and by cursor.
  expect(idsOf((await api.call(listSeats, { query: { page: 2 } })).items)).toEqual(idsOf(seats.slice(10)))
  expect(idsOf((await api.call(listSeats, { query: { cursor: page.pagination.next_cursor! } })).seats)).toEqual(idsOf(seats.slice(10)))
  expect(idsOf((await api.call(listSeats, { query: { limit: 100 } })).items)).toEqual(idsOf(seats))
  // Filters.
  const own = seats.filter(({ subscription_id }) => subscription_id === first.subscription_id).toReversed()
  expect((await api.call(listSeats, { query: { subscription_id: first.subscription_id! } })).items).toEqual(own)
  const ordered = seats.filter(({ order_id }) => order_id === second.order_id).toReversed()
  expect((await api.call(listSeats, { query: { order_id: second.order_id } })).items).toEqual(ordered)

  // After each change, the totals of the organization equal the sums over its purchases.
  const states: (() => Promise<unknown>)[] = [
    () => api.call(updateSubscription, { params: { id: unused.subscription_id! }, body: { seats: 2, proration_behavior: 'next_period' } }),
    () => query(`update subscriptions set status = 'past_due' where id = $1`, [first.subscription_id]),
    () => query(`update subscriptions set status = 'paused' where id = $1`, [first.subscription_id]),
    () => query(`update subscriptions set status = 'canceled', ended_at = now() where id = $1`, [third.subscription_id]),
    () => query(`update orders set status = 'partially_refunded' where id = $1`, [second.order_id]),
    () => query(`update orders set benefits_revoked_at = now() where id = $1`, [second.order_id]),
    async () => world.clock.advance(15 * days),
    () => query(`update seats set status = 'revoked', revoked_at = now() where id = $1`, [seats[0]!.id]),
  ]
  for (const [at, change] of states.entries()) {
    await change()
    const { total_seats, available_seats } = await api.call(listSeats, {})
    expect([at, { total_seats, available_seats }]).toEqual([at, await sumOf(all)])
  }
  expect((await api.call(listSeats, {})).available_seats).toBe(2)
})

test('lists the seats of the organizations that a personal or a restricted OAuth token can access, and no others [S4-22] [S5-08]', async () => {
  const person = await world.person()
  const sellers: Team[] = []
  for (const [seats, phase] of [
    [2, 'phase2'],
    [3, 'phase1'],
    [4, 'phase2'],
  ] as const)
    sellers.push(await teams.buy({ seats, phase }))
  const [here, there, other] = sellers as [Team, Team, Team]
  for (const team of sellers) await world.join(team.organization.id, person.id, 'finance')
  const outside = await teams.buy({ seats: 9 })
  const plain = await world.organization({ owner: person.id })
  await query(`update organizations set feature_settings = feature_settings || '{"seat_based_pricing_enabled": false}' where id = $1`, [plain.id])
  const seats: Seat[] = []
  for (const [at, team] of [here, there, outside, other, there].entries()) {
    const seat = await assign(team, `reach-${at}@people.test`)
    if (team !== outside) seats.unshift(seat)
  }
  const personal = world.client({ token: (await person.token(['customer_seats:read'])).secret })
  expect(await personal.call(listSeats, {})).toMatchObject({ items: seats, total_seats: 9, available_seats: 5, pagination: { total_count: 4 } })
  const two = await personal.call(listSeats, { query: { limit: 2 } })
  const rest = await personal.call(listSeats, { query: { limit: 2, cursor: two.pagination.next_cursor! } })
  expect([...idsOf(two.items), ...idsOf(rest.items)]).toEqual(idsOf(seats))

  const app = await openApp(world, { scope: 'openid customer_seats:read' })
  const visitor = openVisitor(world, await person.cookie())
  const chosen = [here.organization.id, there.organization.id]
  const { access_token } = await app.tokens(visitor, { scope: 'openid customer_seats:read' }, { organizations: chosen })
  const restricted = world.client({ token: access_token })
  const reached = seats.filter(({ subscription_id }) => subscription_id !== other.subscription_id)
  expect(await restricted.call(listSeats, {})).toMatchObject({ items: reached, total_seats: 5, available_seats: 2, pagination: { total_count: 3 } })
  for (const pool of [other.pool, outside.pool]) expect((await restricted.send(listSeats, { query: pool })).status).toBe(404)

  // An organization that sells no seats gets 403. A user without organizations gets an empty list.
  const machine = world.client({ token: (await plain.token()).secret })
  expect(await machine.send(listSeats, {})).toMatchObject({ status: 403, body: { error: 'FeatureNotEnabled' } })
  const nobody = world.client({ token: (await (await world.person()).token()).secret })
  expect(await nobody.call(listSeats, {})).toMatchObject({ items: [], total_seats: 0, available_seats: 0, pagination: { total_count: 0, max_page: 0 } })
})

test('returns 10 seats in `items` by default, and all seats of the purchase in `seats` unless a page is requested [S8-01]', async () => {
  const team = await teams.buy({ seats: 200 })
  await fill(team, 130)
  const portal = await team.portal()
  const asks: [string, (more: object) => Promise<Awaited<ReturnType<typeof team.seats>>>][] = [
    ['the seller', (more) => team.api.call(listSeats, { query: { ...team.pool, ...more } })],
    ['the portal', (more) => portal.call(listPortalSeats, { query: { ...team.pool, ...more } })],
  ]
  for (const [who, ask] of asks) {
    const { items, seats, pagination, ...totals } = await ask({})
    expect([who, items.length, seats.length, pagination.total_count, pagination.max_page, totals]).toEqual([
      who,
      10,
      130,
      130,
      13,
      { total_seats: 200, available_seats: 70 },
    ])
    expect(seats.map(({ email }) => email)).toEqual(Array.from({ length: 130 }, (_, at) => `claimed-${at + 1}@people.test`))
    expect(items).toEqual(seats.slice(0, 10))
    for (const [page, from, to] of [
      [{ page: 2 }, 10, 20],
      [{ limit: 50 }, 0, 50],
      [{ limit: 1000 }, 0, 100],
      [{ cursor: pagination.next_cursor! }, 10, 20],
    ] as const) {
      const part = await ask(page)
      expect(part.items).toEqual(seats.slice(from, to))
      expect(part.seats).toEqual(part.items)
    }
  }
  // The portal lists one purchase at a time.
  expect((await portal.sendRaw(listPortalSeats, {})).status).toBe(422)
})

test('returns at most 10,000 `seats`: those in use first, then the newest revoked ones', { timeout: 120_000 }, async () => {
  const team = await teams.buy({ seats: 500 })
  await fill(team, 60)
  await fill(team, 10_000, 'revoked')
  const { items, seats, pagination } = await team.seats()
  expect([items.length, seats.length, pagination.total_count]).toEqual([10, 10_000, 10_060])
  expect(seats.filter(({ status }) => status === 'claimed')).toHaveLength(60)
  const revoked = new Set(seats.flatMap(({ status, email }) => (status === 'revoked' ? [email] : [])))
  expect([revoked.size, revoked.has('revoked-60@people.test'), revoked.has('revoked-61@people.test')]).toEqual([9_940, false, true])
  const times = seats.map(({ created_at }) => Date.parse(created_at))
  expect(times).toEqual(times.toSorted((one, other) => one - other))
})

test('pages neither repeat nor skip a seat if seats are added meanwhile', async () => {
  const team = await teams.buy({ seats: 30 })
  const before = new Set<string>()
  for (let at = 0; at < 12; at++) before.add((await assign(team, `page-${at}@people.test`)).id)
  const seen: string[] = []
  const read = async (api: Client, cursor?: string): Promise<void> => {
    const { items, pagination } = await api.call(listSeats, { query: { limit: 5, ...(cursor === undefined ? {} : { cursor }) } })
    seen.push(...idsOf(items))
    await api.call(assignSeat, { body: { ...team.pool, email: `later-${newId(world.clock.wall())}@people.test` } })
    if (pagination.next_cursor !== null) await read(api, pagination.next_cursor)
  }
  await read(team.api)
  expect(new Set(seen)).toEqual(before)
  expect(seen).toHaveLength(12)
})
