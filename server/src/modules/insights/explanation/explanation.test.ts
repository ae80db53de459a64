import {
  confirmClientCheckout,
  createBenefit,
  createBenefitGrant,
  createCheckout,
  createCustomer,
  createProduct,
  explainAccess,
  listOrders,
  revokeBenefitGrant,
  revokeSeat,
  revokeSubscription,
  updateProductBenefits,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
let teams: Awaited<ReturnType<typeof openTeams>>
beforeAll(async () => {
  world = await openWorld()
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

type Shop = Awaited<ReturnType<World['shop']>>
const benefitOf = ({ api }: Shop, description = 'Library') =>
  api.call(createBenefit, { body: { type: 'custom', description, properties: { note: null } } as never })

/** A team in phase 2 with a benefit, and one member with a claimed seat. */
const open = async () => {
  const shop = await world.shop()
  const benefit = await benefitOf(shop)
  const team = await teams.buy({ shop, seats: 3, benefits: [benefit.id], phase: 'phase2' })
  const { seat } = await teams.claim(await teams.assign(team))
  const explain = (who: { customer_id?: string; member_id?: string }, benefit_id = benefit.id) =>
    shop.api.call(explainAccess, { query: { ...who, benefit_id } })
  const member_id = seat.member_id!
  return { ...shop, benefit, team, seat, member_id, explain }
}
const states = ({ links }: { links: readonly { kind: string; state: string; holds: boolean }[] }) => links.map(({ kind, state, holds }) => [kind, state, holds])

test('shows the chain from order over subscription and seat to the grant, and what would end it', async () => {
  const { api, team, seat, member_id, benefit, explain } = await open()
  const yes = await explain({ member_id })
  expect(yes).toMatchObject({
    has_access: true,
    reason: 'granted',
    benefit_id: benefit.id,
    benefit_description: 'Library',
    customer_id: team.customer_id,
    member_id,
  })
  expect(yes.chains).toHaveLength(1)
  const [chain] = yes.chains
  expect(states(chain!)).toEqual([
    ['order', 'paid', true],
    ['subscription', 'active', true],
    ['seat', 'claimed', true],
    ['grant', 'granted', true],
  ])
  expect(chain!.links.map(({ id }) => id).slice(0, 3)).toEqual([team.order_id, team.subscription_id, seat.id])
  for (const { since } of chain!.links) expect(since).not.toBeNull()
  expect(chain!.ends.map(({ cause }) => cause)).toEqual([
    'subscription_canceled',
    'payment_fails',
    'seat_revoked',
    'benefit_removed_from_product',
    'grant_revoked_by_seller',
  ])
  await api.call(updateSubscription, { params: { id: team.subscription_id! }, body: { cancel_at_period_end: true } })
  const ending = (await explain({ member_id })).chains[0]!
  expect(ending.ends[0]).toMatchObject({ cause: 'subscription_ends', resource_id: team.subscription_id, at: expect.any(String) })
})

test('says that the person has no seat after the seat was revoked', async () => {
  const { api, seat, member_id, explain } = await open()
  await api.call(revokeSeat, { params: { seat_id: seat.id } })
  await teams.settle()
  const no = await explain({ member_id })
  expect([no.has_access, no.reason]).toEqual([false, 'no_seat'])
  expect(states(no.chains[0]!)).toEqual([
    ['order', 'paid', true],
    ['subscription', 'active', true],
    ['seat', 'revoked', false],
    ['grant', 'revoked', false],
  ])
  const link = no.chains[0]!.links.find(({ kind }) => kind === 'seat')!
  expect(link).toMatchObject({ until: expect.any(String), note: 'The seat was revoked.' })
  expect(no.chains[0]!.ends).toEqual([])
})

test('tells an unclaimed seat, a missing seat, a canceled subscription and a grant that was taken away apart', async () => {
  const { api, team, member_id, explain } = await open()
  const pending = await teams.assign(team)
  const waiting = await explain({ member_id: pending.member_id! })
  expect([waiting.reason, waiting.chains[0]!.links.find(({ kind }) => kind === 'seat')!.state]).toEqual(['no_seat', 'pending'])
  expect((await explain({ member_id: team.owner.id })).reason).toBe('no_seat')
  const [grant] = (await explain({ member_id })).chains[0]!.links.filter(({ kind }) => kind === 'grant')
  await api.call(revokeBenefitGrant, { params: { grant_id: grant!.id } })
  await teams.settle()
  expect((await explain({ member_id })).reason).toBe('withheld')
  await api.call(revokeSubscription, { params: { id: team.subscription_id! } })
  await teams.settle()
  const ended = await explain({ member_id })
  expect(ended.has_access).toBe(false)
  expect(ended.chains[0]!.links.find(({ kind }) => kind === 'subscription')).toMatchObject({
    state: 'canceled',
    holds: false,
    note: 'The subscription is canceled.',
  })
})

test('explains purchases without seats, grants by hand, and benefits that were never granted', async () => {
  const shop = await world.shop()
  const { api } = shop
  const [bought, given, other] = [await benefitOf(shop, 'Bought'), await benefitOf(shop, 'Given'), await benefitOf(shop, 'Other')]
  const product = await api.call(createProduct, { body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 500, price_currency: 'usd' }] } })
  await api.call(updateProductBenefits, { params: { id: product.id }, body: { benefits: [bought.id] } })
  const customer = await api.call(createCustomer, { body: { email: 'solo@people.test' } })
  const checkout = await api.call(createCheckout, { body: { products: [product.id], customer_id: customer.id } })
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout.client_secret },
    body: { customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  await api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: given.id } })
  await teams.settle()
  const explain = (benefit_id: string) => api.call(explainAccess, { query: { customer_id: customer.id, benefit_id } })
  const [order] = (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items
  const purchase = await explain(bought.id)
  expect([purchase.has_access, states(purchase.chains[0]!)]).toEqual([
    true,
    [
      ['order', 'paid', true],
      ['grant', 'granted', true],
    ],
  ])
  expect(purchase.chains[0]!.ends.map(({ cause, resource_id }) => [cause, resource_id])).toContainEqual(['order_refunded_with_benefits', order!.id])
  const manual = await explain(given.id)
  expect([manual.has_access, manual.chains[0]!.by_hand, states(manual.chains[0]!)]).toEqual([true, true, [['grant', 'granted', true]]])
  expect(await explain(other.id)).toMatchObject({ has_access: false, reason: 'never_granted', chains: [], complete: true })
})

test('rejects two recipients, missing rights, and people and benefits of another organization', async () => {
  const { api, organization, benefit, member_id, team } = await open()
  const ask = (query: Record<string, string>, by = api) => by.sendRaw(explainAccess, { query })
  expect((await ask({ benefit_id: benefit.id })).status).toBe(422)
  expect((await ask({ benefit_id: benefit.id, member_id, customer_id: team.customer_id })).status).toBe(422)
  const theirs = await open()
  expect((await ask({ benefit_id: benefit.id, member_id: theirs.member_id })).status).toBe(404)
  expect((await ask({ benefit_id: theirs.benefit.id, member_id })).status).toBe(404)
  expect((await ask({ benefit_id: benefit.id, member_id }, theirs.api)).status).toBe(404)
  expect((await ask({ benefit_id: benefit.id, member_id }, world.client())).status).toBe(401)
  const reader = world.client({ token: (await organization.token(['orders:read'])).secret })
  expect((await ask({ benefit_id: benefit.id, member_id }, reader)).status).toBe(403)
})
