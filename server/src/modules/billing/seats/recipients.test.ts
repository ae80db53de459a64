import {
  assignPortalSeat,
  assignSeat,
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createProduct,
  createSubscription,
  listSubscriptions,
  resendSeatInvitation,
  revokeSeat,
  updateMember,
  updateSubscription,
} from '@bursar/contract'
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTeams, type Team, type Teams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { days, hours } from '../../../platform/clock.ts'
import { forgetLinks } from './invitations.ts'
import { recipientsPerPurchase } from './recipients.ts'

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

const errorOf = ({ status, body }: { status: number; body: unknown }) => `${status} ${(body as { error?: string }).error ?? ''}`.trim()
const detailOf = ({ body }: { body: unknown }) => (body as { detail: string }).detail
const rowsOf = (organization_id: string) =>
  world.database.owner(
    async (owner) => (await owner.query<{ address: string }>('select address from seat_recipients where organization_id = $1', [organization_id])).rows,
  )

/**
 * Assigns a seat to `count` different addresses and revokes it each time. An abuser could mail strangers in this way.
 */
const circle = async (team: Pick<Team, 'api'> & { readonly pool: object }, count: number, from = 0) => {
  const answers: string[] = []
  for (let at = from; at < from + count; at++) {
    const answer = await team.api.send(assignSeat, { body: { ...team.pool, email: `stranger-${at}@people.test` } })
    answers.push(errorOf(answer))
    if (answer.status < 300) await team.api.call(revokeSeat, { params: { seat_id: (answer.body as { id: string }).id } })
  }
  return answers
}
const many = (count: number, answer: string) => Array.from({ length: count }, () => answer)

describe('a purchase with seats', () => {
  test('can invite as many addresses at once as it has seats, and twice as many per day', async () => {
    const team = await teams.buy({ seats: 20 })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => team.api.send(assignSeat, { body: { ...team.pool, email: `colleague-${at}@people.test` } })),
    )
    expect(answers.map(errorOf)).toEqual(many(20, '200'))
    expect(recipientsPerPurchase(500)).toBe(1000)
    expect(recipientsPerPurchase(1)).toBe(10)
  })

  test('cannot mail strangers by assigning and revoking in a loop; the error states the limit, the wait and alternatives', async () => {
    const team = await teams.buy({ seats: 2 })
    expect(await circle(team, 12)).toEqual([...many(10, '200'), ...many(2, '429 TooManyRequests')])
    const refused = await team.api.send(assignSeat, { body: { ...team.pool, email: 'one-more@people.test' } })
    expect(detailOf(refused)).toBe(
      'one-more@people.test exceeds the limit of 10 different addresses that a purchase with 2 seats may invite in 24 hours. Wait 24 h, invite addresses that were already invited today, or buy more seats.',
    )
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(86_000)
    // An address that was already invited today does not count again. The portal has the same limit.
    expect(await circle(team, 1, 3)).toEqual(['200'])
    const portal = await team.portal()
    expect(errorOf(await portal.send(assignPortalSeat, { body: { ...team.pool, email: 'two-more@people.test' } }))).toBe('429 TooManyRequests')
    expect((await team.seats()).items.some((seat) => seat.customer_email === 'two-more@people.test')).toBe(false)
    world.clock.advance(1 * days)
    expect(await circle(team, 1, 50)).toEqual(['200'])
  })

  test("cannot mail strangers by changing a member's address and resending the invitation", async () => {
    const team = await teams.buy({ seats: 1, phase: 'phase2' })
    const seat = await teams.assign(team, { email: 'first@people.test' })
    const answers: string[] = []
    for (let at = 0; at < 11; at++) {
      await team.api.call(updateMember, { params: { id: team.customer_id, member_id: seat.member_id! }, body: { email: `moved-${at}@people.test` } })
      answers.push(errorOf(await team.api.send(resendSeatInvitation, { params: { seat_id: seat.id } })))
    }
    expect(answers).toEqual([...many(9, '200'), ...many(2, '429 TooManyRequests')])
  })

  test('can invite at most 20 distinct addresses per day while it is unpaid, however many seats it has', async () => {
    const shop = await world.shop()
    const plan = (price_per_seat: number, more: object = {}) =>
      shop.api.call(createProduct, {
        body: {
          name: 'Workshop',
          recurring_interval: 'month',
          prices: [{ amount_type: 'seat_based', price_currency: 'usd', seat_tiers: { tiers: [{ min_seats: 1, price_per_seat }] } }],
          ...more,
        } as never,
      })
    const raise = async (id: string) => {
      await shop.api.call(updateSubscription, { params: { id }, body: { seats: 10_000 } })
      return { ...shop, pool: { subscription_id: id } }
    }
    const customer = async (email: string) => (await shop.api.call(createCustomer, { body: { email } })).id
    const free = await shop.api.call(createSubscription, { body: { product_id: (await plan(0)).id, customer_id: await customer('free@people.test') } })
    expect(await circle(await raise(free.id), 21)).toEqual([...many(20, '200'), '429 TooManyRequests'])

    const customer_id = await customer('trial@people.test')
    const trial = await plan(1, { trial_interval: 'day', trial_interval_count: 30 })
    const { client_secret } = await shop.api.call(createCheckout, { body: { products: [trial.id], customer_id, seats: 1 } })
    const body = { customer_billing_address: { country: 'DE' as const }, confirmation_token_id: 'tok_visa' }
    await world.client().call(confirmClientCheckout, { params: { client_secret }, body })
    await teams.settle()
    const { items } = await shop.api.call(listSubscriptions, { query: { customer_id: [customer_id] } })
    const trialing = await raise(items[0]!.id)
    expect(await circle(trialing, 20)).toEqual(many(20, '200'))
    const refused = await trialing.api.send(assignSeat, { body: { ...trialing.pool, email: 'one-more@people.test' } })
    expect([refused.status, detailOf(refused)]).toEqual([
      429,
      'one-more@people.test exceeds the limit of 20 different addresses that a purchase that is not paid yet may invite in 24 hours. Wait 24 h, invite addresses that were already invited today, or wait for its first payment.',
    ])
    await shop.api.call(updateSubscription, { params: { id: trialing.pool.subscription_id }, body: { trial_end: 'now' } })
    // The first period has begun and is not paid yet.
    expect(await circle(trialing, 1, 50)).toEqual(['429 TooManyRequests'])
    await teams.deployment!.sweep()
    await teams.settle()
    expect(await circle(trialing, 5, 50)).toEqual(many(5, '200'))
  })

  test('stores only keyed digests of the invited addresses, for a day', async () => {
    const team = await teams.buy({ seats: 3 })
    await circle(team, 2)
    const rows = await rowsOf(team.organization.id)
    expect(rows).toHaveLength(2)
    expect(rows.map(({ address }) => address).join()).not.toContain('@')
    // The digests are keyed: hashing a known address does not find its row.
    const plain = ['stranger-0@people.test', 'stranger-1@people.test'].map((address) => createHash('sha256').update(address).digest('hex'))
    expect(rows.filter(({ address }) => plain.includes(address))).toEqual([])
    const keyed = [0, 1].map((at) => world.platform.hasher.digest(`seat recipient ${team.organization.id} stranger-${at}@people.test`))
    expect(rows.map(({ address }) => address).toSorted()).toEqual(keyed.toSorted())
    world.clock.advance(25 * hours)
    await forgetLinks(teams.deployment!.deps)
    expect(await rowsOf(team.organization.id)).toEqual([])
  })
})

test('limits the invited addresses of all purchases of an organization together, and each purchase to a tenth of that', async () => {
  const own = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], seat_recipients: [[20, 86_400]] }) } })
  const sellers = await openTeams(own)
  const shop = await own.shop()
  const buy = () => sellers.buy({ seats: 5, shop })
  const last = await buy()
  for (let at = 0; at < 9; at++)
    expect(await circle(await buy(), at === 0 ? 3 : 2, 10 * at)).toEqual([...many(2, '200'), ...(at === 0 ? ['429 TooManyRequests'] : [])])
  expect(await circle(await buy(), 1, 100)).toEqual(['200'])
  const [accepted, refused] = await circle(last, 2, 200)
  expect([accepted, refused]).toEqual(['200', '429 TooManyRequests'])
  const answer = await last.api.send(assignSeat, { body: { ...last.pool, email: 'one-more@people.test' } })
  expect(detailOf(answer)).toMatch(
    /^one-more@people\.test exceeds the limit of 20 different addresses that an organization may invite to seats in 24 hours\. Wait \d+ h, /,
  )
  // Another organization has its own limit.
  const other = await sellers.buy({ seats: 5 })
  expect(await circle(other, 2)).toEqual(many(2, '200'))
  expect(detailOf(await other.api.send(assignSeat, { body: { ...other.pool, email: 'one-more@people.test' } }))).toBe(
    'one-more@people.test exceeds the limit of 2 different addresses that a purchase may invite in 24 hours. Wait 24 h, invite addresses that were already invited today.',
  )
  await sellers.close()
  await own.close()
})
