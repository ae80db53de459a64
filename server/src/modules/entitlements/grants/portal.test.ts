import {
  createBenefitGrant,
  createMember,
  getPortalBenefitGrant,
  listPortalBenefitGrants,
  updateBenefit,
  updateMember,
  updatePortalBenefitGrant,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEntitlements, type Entitlements } from '../../../../test/harness/entitlements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'

let world: World
let people: Entitlements
beforeAll(async () => {
  world = await openWorld()
  people = await openEntitlements(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

const ids = async (client: Client, query: object = {}) =>
  (await client.call(listPortalBenefitGrants, { query: { limit: 100, ...query } })).items.map(({ id }) => id).toSorted()

test('members see their own grants, the owner also sees the customer’s own grants, and no member sees a colleague’s', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('custom')
  const team = await shop.buy((await shop.product([benefit], { seats: true })).id, { seats: 5 })
  const [anna, bert] = [await shop.seat(team), await shop.seat(team)]
  const direct = await shop.api.call(createBenefitGrant, { body: { customer_id: team.customer_id, benefit_id: benefit.id } })
  const owner_id = direct.member_id!
  const own = async ({ member_id }: { member_id: string }) => (await shop.grants({ member_id: [member_id] })).map(({ id }) => id)
  const manager = await shop.api.call(createMember, { params: { id: team.customer_id }, body: { email: 'manager@people.test', role: 'billing_manager' } })
  const doors = {
    anna: await shop.portal(team.customer_id, anna.member_id),
    bert: await shop.portal(team.customer_id, bert.member_id),
    owner: await shop.portal(team.customer_id, owner_id),
    manager: await shop.portal(team.customer_id, manager.id),
  }
  expect(await ids(doors.anna)).toEqual(await own(anna))
  expect(await ids(doors.bert)).toEqual(await own(bert))
  expect(await ids(doors.owner)).toEqual([direct.id])
  expect(await ids(doors.manager)).toEqual([])
  const seen = await doors.owner.call(getPortalBenefitGrant, { params: { id: direct.id } })
  expect(seen).toMatchObject({
    member_id: owner_id,
    customer: { id: team.customer_id },
    benefit: { properties: { note: 'Psst' }, organization: { id: shop.organization.id } },
  })
  expect(seen).not.toHaveProperty('member')
  // After an ownership transfer the grant belongs to the new owner, although its row is unchanged.
  await shop.api.call(updateMember, { params: { id: team.customer_id, member_id: anna.member_id }, body: { role: 'owner' } })
  const handed = await shop.portal(team.customer_id, anna.member_id)
  expect(await ids(handed)).toEqual([...(await own(anna)), direct.id].filter((id, at, all) => all.indexOf(id) === at).toSorted())
  expect(await ids(await shop.portal(team.customer_id, owner_id))).toEqual([])
  // A colleague's grant returns 404 for reads and writes, like one that does not exist.
  const [ofBert] = await own(bert)
  const nothing = (await handed.send(getPortalBenefitGrant, { params: { id: newId(world.clock.wall()) } })).body
  const stranger = await people.open()
  const other = await stranger.buy((await stranger.product([await stranger.benefit('custom')])).id)
  for (const client of [handed, doors.manager, await stranger.portal(other.customer_id)]) {
    const read = await client.send(getPortalBenefitGrant, { params: { id: ofBert! } })
    const write = await client.send(updatePortalBenefitGrant, { params: { id: ofBert! }, body: { benefit_type: 'custom' } })
    expect([read.status, read.body, write.status, write.body]).toEqual([404, nothing, 404, nothing])
  }
  for (const client of [world.client(), shop.api]) expect((await client.send(listPortalBenefitGrants, {})).status).toBe(401)
})

test.each(['before', 'phase1'] as const)('in %s the customer that holds a seat sees its grants, and the buyer does not', async (phase) => {
  const shop = await people.open(phase)
  const team = await shop.buy((await shop.product([await shop.benefit('custom')], { seats: true })).id, { seats: 5 })
  const [anna, bert] = [await shop.seat(team), await shop.seat(team)]
  const of = async ({ member_id }: { member_id: string }) => (await shop.grants({ member_id: [member_id] })).map(({ id }) => id)
  expect(await ids(await shop.portal(anna.holder_customer_id!))).toEqual(await of(anna))
  expect(await ids(await shop.portal(bert.holder_customer_id!))).toEqual(await of(bert))
  expect(await ids(await shop.portal(team.customer_id))).toEqual([])
})

test('hides benefits that are not public, and shows a note only while the benefit is granted', async () => {
  const shop = await people.open()
  const [note, flag, gone] = [await shop.benefit('custom'), await shop.benefit('feature_flag', { visibility: 'private' }), await shop.benefit('custom')]
  const bought = await shop.buy((await shop.product([note, flag, gone])).id)
  const portal = await shop.portal(bought.customer_id)
  const [shown, hidden, taken] = await Promise.all([note, flag, gone].map(async ({ id }) => (await shop.grants({ benefit_id: [id] }))[0]!))
  await shop.api.call(updateBenefit, { params: { id: gone.id }, body: { type: 'custom', visibility: 'draft' } })
  expect(await ids(portal)).toEqual([shown!.id])
  for (const { id } of [hidden!, taken!]) expect((await portal.send(getPortalBenefitGrant, { params: { id } })).status).toBe(404)
  await people.query('update benefit_grants set granted_at = null where id = $1', [shown!.id])
  expect(await portal.call(getPortalBenefitGrant, { params: { id: shown!.id } })).toMatchObject({ is_granted: false, benefit: { properties: { note: null } } })
})

test('filters portal grants by every parameter, and sorts them in every order', async () => {
  const shop = await people.open()
  const [first, second] = [await shop.benefit('feature_flag', { description: 'Alpha' }), await shop.benefit('custom', { description: 'Beta' })]
  const plan = await shop.buy((await shop.product([first, second])).id)
  const once = await shop.buy((await shop.product([second], { recurring: false })).id, { customer_id: plan.customer_id })
  const portal = await shop.portal(plan.customer_id)
  const [{ checkout_id }] = (await people.query<{ checkout_id: string }>('select checkout_id from orders where id = $1', [once.order_id])) as [
    { checkout_id: string },
  ]
  const owner = (await shop.grants())[0]!.member_id
  const found = async (query: object) =>
    (await portal.call(listPortalBenefitGrants, { query })).items.map(({ order_id, benefit_type }) => `${order_id ? 'once' : 'plan'} ${benefit_type}`)
  expect(await found({})).toEqual(['once custom', 'plan feature_flag', 'plan custom'])
  expect(await found({ query: 'ALPH' })).toEqual(['plan feature_flag'])
  expect(await found({ type: ['feature_flag'] })).toEqual(['plan feature_flag'])
  expect(await found({ benefit_id: [first.id] })).toEqual(['plan feature_flag'])
  expect(await found({ order_id: [once.order_id] })).toEqual(['once custom'])
  expect(await found({ subscription_id: [plan.subscription_id], sorting: 'type' })).toEqual(['plan custom', 'plan feature_flag'])
  expect(await found({ checkout_id: [checkout_id] })).toEqual(['once custom'])
  expect(await found({ member_id: [owner], limit: 1 })).toHaveLength(1)
  expect(await found({ member_id: [newId(world.clock.wall())] })).toEqual([])
  expect((await found({ sorting: '-granted_at' }))[0]).toBe('once custom')
  expect(await found({ sorting: 'organization' })).toHaveLength(3)
})

test('rejects an update of a grant without the benefit’s type or with invalid properties', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('discord')
  const bought = await shop.buy((await shop.product([benefit])).id)
  const portal = await shop.portal(bought.customer_id)
  const [grant] = await shop.grants()
  const change = (body: object, client = portal) => client.send(updatePortalBenefitGrant, { params: { id: grant!.id }, body: body as never })
  expect(await change({ benefit_type: 'custom' })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'benefit_type'], msg: expect.stringContaining('discord') as string }] },
  })
  expect((await change({ benefit_type: 'discord' })).status).toBe(422)
  expect((await change({ benefit_type: 'discord', properties: { account_id: '' } })).status).toBe(422)
  expect((await change({ benefit_type: 'discord', properties: { account_id: null } })).body).toMatchObject({ error: { type: 'BenefitActionRequiredError' } })
  expect((await change({ benefit_type: 'discord', properties: { account_id: 'ada' } })).body).toMatchObject({
    is_granted: false,
    error: null,
    properties: { account_id: 'ada' },
  })
  await people.pass()
  expect(people.inside(benefit)).toEqual(['ada'])
  const [custom] = [await shop.api.call(createBenefitGrant, { body: { customer_id: bought.customer_id, benefit_id: (await shop.benefit('custom')).id } })]
  expect(await portal.call(updatePortalBenefitGrant, { params: { id: custom.id }, body: { benefit_type: 'custom' } })).toMatchObject({
    id: custom.id,
    is_granted: true,
  })
})
