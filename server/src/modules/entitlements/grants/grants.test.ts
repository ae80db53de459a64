import {
  assignSeat,
  createBenefitGrant,
  createCustomer,
  createRefund,
  createTestClock,
  deleteBenefit,
  deleteCustomer,
  deleteMember,
  getBenefitGrant,
  getSubscription,
  listBenefitGrants,
  listCustomerMembers,
  listGrantsOfBenefit,
  listPortalBenefitGrants,
  revokeBenefitGrant,
  revokeSeat,
  updateBenefit,
  updateMember,
  updateOrganization,
  updateSubscription,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTravels } from '../../../../test/harness/clocks.ts'
import { isOutside, kinds, openEntitlements, type Entitlements, type Kind } from '../../../../test/harness/entitlements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { jobs } from '../../../main/wire.ts'
import { days } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'

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

type Shop = Awaited<ReturnType<Entitlements['open']>>
type Answer = { status: number; body: unknown }
const errorOf = (answer: Answer) => `${answer.status} ${(answer.body as { error: string }).error}`
const locs = (answer: Answer) =>
  answer.status === 422 ? (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.')) : [`${answer.status}`]

const ofEachKind = async (shop: Shop) => {
  const benefits = []
  for (const kind of kinds) benefits.push(await shop.benefit(kind))
  return benefits
}
const outsideOnes = <T extends { type: string }>(benefits: readonly T[]) => benefits.filter(({ type }) => isOutside(type as Kind))
const typesOf = (told: readonly { type: string }[]) => told.map(({ type }) => type.replace('benefit_grant.', ''))
const end = (shop: Shop, subscription_id: string | null) => shop.api.call(updateSubscription, { params: { id: subscription_id! }, body: { revoke: true } })
const credits = (organization_id: string) =>
  people.query<{ units: string; period_start: Date | null; customer_id: string }>(
    'select units, period_start, customer_id from meter_credits where organization_id = $1 order by created_at',
    [organization_id],
  )

test('grants purchased benefits to the owner of the buying customer and revokes them when the purchase ends [S2-08] [S2-09] [S4-26] [S4-27] [S6-09]', async () => {
  const shop = await people.open()
  const benefits = await ofEachKind(shop)
  const { id: product_id } = await shop.product(benefits)
  const bought = await shop.buy(product_id)
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: bought.customer_id } })).items
  const portal = await shop.portal(bought.customer_id)
  for (const grant of await shop.grants()) {
    // Grants of external benefits wait for an account, and report that the account is missing.
    const waits = isOutside(grant.benefit_type as Kind)
    expect(grant).toMatchObject({ is_granted: !waits, is_revoked: false, error: waits ? { type: 'BenefitActionRequiredError' } : null })
    if (waits) await shop.link(portal, grant.id, 'ada')
  }
  const grants = await shop.grants()
  expect(grants.map(({ benefit_type }) => benefit_type).toSorted()).toEqual([...kinds].toSorted())
  for (const grant of grants) {
    expect(grant).toMatchObject({
      is_granted: true,
      error: null,
      customer_id: bought.customer_id,
      subscription_id: bought.subscription_id,
      order_id: null,
      member: null,
      member_id: owner!.id,
      benefit: { id: grant.benefit_id },
    })
    expect(await shop.api.call(getBenefitGrant, { params: { grant_id: grant.id } })).toEqual(grant)
    expect(typesOf(await shop.told(grant.id))).toEqual(['created'])
    expect((await shop.told(grant.id))[0]!.data).toMatchObject({ member: null, customer_id: bought.customer_id, is_granted: true })
  }
  for (const benefit of outsideOnes(benefits)) expect(people.inside(benefit)).toEqual(['ada'])
  expect((await portal.call(listPortalBenefitGrants, { query: { limit: 100 } })).items.map(({ id }) => id).toSorted()).toEqual(
    grants.map(({ id }) => id).toSorted(),
  )
  // Another reconciliation changes nothing.
  const rows = () => people.query('select to_jsonb(g) as g from benefit_grants g where organization_id = $1 order by id', [shop.organization.id])
  const before = await rows()
  await shop.reconcile(bought)
  await shop.reconcile(bought)
  expect(await rows()).toEqual(before)

  await end(shop, bought.subscription_id)
  await people.pass()
  for (const grant of await shop.grants()) {
    expect(grant).toMatchObject({ is_granted: false, is_revoked: true, granted_at: null })
    expect(typesOf(await shop.told(grant.id))).toEqual(['created', 'revoked'])
  }
  for (const benefit of outsideOnes(benefits)) expect(people.inside(benefit)).toEqual([])
  expect((await portal.call(listPortalBenefitGrants, {})).items).toEqual([])
})

describe.each(['before', 'phase1', 'phase2'] as const)('team with member phase %s', (phase) => {
  test('each member has their own grants, and a member who loses the seat loses only their own [S2-09] [S6-04] [S6-09]', async () => {
    const shop = await people.open(phase)
    const benefits = await ofEachKind(shop)
    const { id: product_id } = await shop.product(benefits, { seats: true })
    const bought = await shop.buy(product_id, { seats: 5 })
    // No grant exists before a seat is claimed, not even for the payer.
    expect(await shop.grants()).toEqual([])
    const [anna, bert] = [await shop.seat(bought), await shop.seat(bought)]
    for (const { member_id, email, holder_customer_id } of [anna, bert]) {
      const customer_id = holder_customer_id ?? bought.customer_id
      expect(holder_customer_id === null).toBe(phase === 'phase2')
      const theirs = await shop.grants({ member_id: [member_id] })
      expect(theirs).toHaveLength(kinds.length)
      for (const grant of theirs) expect(grant).toMatchObject({ customer_id, customer: { id: customer_id }, member_id, member: { id: member_id, email } })
      const portal = await shop.portal(customer_id, holder_customer_id ? undefined : member_id)
      for (const grant of theirs) if (isOutside(grant.benefit_type as Kind)) await shop.link(portal, grant.id, email)
    }
    for (const benefit of outsideOnes(benefits)) expect(people.inside(benefit)).toEqual([anna.email, bert.email])
    const created = (await shop.told()).filter(({ type }) => type === 'benefit_grant.created')
    expect(created).toHaveLength(2 * kinds.length)
    for (const { data } of created) {
      const { member_id, email, holder_customer_id } = data.member_id === anna.member_id ? anna : bert
      expect(data).toMatchObject({ is_granted: true, customer_id: holder_customer_id ?? bought.customer_id, member: { id: member_id, email } })
    }
    const ofBert = await shop.grants({ member_id: [bert.member_id] })

    await shop.revokeSeat(anna)
    for (const grant of await shop.grants({ member_id: [anna.member_id] })) expect(grant).toMatchObject({ is_granted: false, is_revoked: true })
    expect(await shop.grants({ member_id: [bert.member_id] })).toEqual(ofBert)
    for (const benefit of outsideOnes(benefits)) expect(people.inside(benefit)).toEqual([bert.email])
    const gone = (await shop.told()).slice(created.length).filter(({ type }) => type === 'benefit_grant.revoked')
    expect(gone.map(({ data }) => (data.member as { id: string }).id)).toEqual(kinds.map(() => anna.member_id))

    // A new seat for the same person reactivates the same grants.
    const before = await shop.grants({ member_id: [anna.member_id] })
    const back = await shop.seat(bought, { again: anna })
    expect((await shop.grants({ member_id: [anna.member_id], is_granted: true })).map(({ id }) => id)).toEqual(before.map(({ id }) => id))
    for (const benefit of outsideOnes(benefits)) expect(people.inside(benefit).toSorted()).toEqual([anna.email, bert.email].toSorted())

    // Reconciling all seats of the purchase has the same effect as reconciling one seat.
    await shop.revokeSeat(back, true)
    expect(await shop.grants({ member_id: [anna.member_id], is_granted: true })).toEqual([])
    expect(await shop.grants({ member_id: [bert.member_id] })).toEqual(ofBert)
    for (const benefit of outsideOnes(benefits)) expect(people.inside(benefit)).toEqual([bert.email])
  })

  test('filtering by customer finds the grants that are shown with that customer', async () => {
    const shop = await people.open(phase)
    const { id: product_id } = await shop.product([await shop.benefit('custom')], { seats: true })
    const bought = await shop.buy(product_id, { seats: 5 })
    const anna = await shop.seat(bought)
    await shop.seat(bought, { holder: false })
    const found = async (query: object) => (await shop.grants(query as never)).map(({ member_id }) => (member_id === anna.member_id ? 'anna' : 'bert'))
    expect(await found({ customer_id: bought.customer_id })).toEqual(phase === 'phase2' ? ['anna', 'bert'] : ['bert'])
    if (anna.holder_customer_id) expect(await found({ customer_id: anna.holder_customer_id })).toEqual(['anna'])
  })
})

test('shows existing grants with the buyer as soon as the organization switches to phase 2', async () => {
  const shop = await people.open('phase1')
  const { id: product_id } = await shop.product([await shop.benefit('custom')], { seats: true })
  const bought = await shop.buy(product_id, { seats: 2 })
  const anna = await shop.seat(bought)
  const [grant] = await shop.grants()
  expect(grant).toMatchObject({ customer_id: anna.holder_customer_id, member: { id: anna.member_id } })
  await shop.phase('phase2')
  expect(await shop.grants()).toMatchObject([
    { id: grant!.id, customer_id: bought.customer_id, customer: { id: bought.customer_id, type: 'team' }, member: { id: anna.member_id } },
  ])
  expect(await shop.grants({ customer_id: [anna.holder_customer_id!] })).toEqual([])
  await shop.revokeSeat(anna)
  expect((await shop.told()).at(-1)).toMatchObject({
    type: 'benefit_grant.revoked',
    data: { id: grant!.id, customer_id: bought.customer_id, member: { id: anna.member_id } },
  })
})

test('concurrent reconciliations grant each benefit once per recipient', async () => {
  const shop = await people.open()
  const benefits = [await shop.benefit('custom'), await shop.benefit('meter_credit'), await shop.benefit('discord')]
  const { id: product_id } = await shop.product(benefits, { seats: true })
  const bought = await shop.buy(product_id, { seats: 500 })
  await people.query(
    `with m as (
       insert into members (organization_id, id, customer_id, created_at, email, role)
       select $1, gen_random_uuid(), $2, now(), 'm' || n || '@people.test', 'member' from generate_series(1, 250) n returning id, email)
     insert into seats (organization_id, id, created_at, subscription_id, status, buyer_customer_id, member_id, email, claimed_at, metadata)
     select $1, gen_random_uuid(), now(), $3, 'claimed', $2, id, email, now(), '{}' from m`,
    [shop.organization.id, bought.customer_id, bought.subscription_id],
  )
  const { reconcile } = await import('./reconciling.ts')
  const key = { organization_id: shop.organization.id, subscription_id: bought.subscription_id, order_id: null, seat_id: null }
  await Promise.all([1, 2, 3].map(() => reconcile(people.deployment.deps, key)))
  expect((await shop.api.call(listBenefitGrants, { query: { limit: 1 } })).pagination.total_count).toBe(250 * 3)
  expect(await shop.told()).toHaveLength(250 * 2)
  expect(await credits(shop.organization.id)).toHaveLength(250)
  await end(shop, bought.subscription_id)
  await people.pass()
  expect((await shop.api.call(listBenefitGrants, { query: { limit: 1, is_granted: 'true' } })).pagination.total_count).toBe(0)
})

test('a plan change revokes dropped benefits before it grants new ones and leaves shared ones untouched', async () => {
  const shop = await people.open()
  const [old, both, fresh] = [await shop.benefit('custom'), await shop.benefit('feature_flag'), await shop.benefit('custom')]
  const basic = await shop.product([old, both])
  const grand = await shop.product([both, fresh])
  const bought = await shop.buy(basic.id)
  const [kept] = await shop.grants({ benefit_id: [both.id] })
  const heard = (await shop.told()).length
  await shop.api.call(updateSubscription, { params: { id: bought.subscription_id! }, body: { product_id: grand.id } })
  await people.pass()
  expect((await shop.told()).slice(heard).map(({ type, data }) => [type, data.benefit_id])).toEqual([
    ['benefit_grant.revoked', old.id],
    ['benefit_grant.created', fresh.id],
  ])
  expect(await shop.grants({ benefit_id: [both.id] })).toEqual([kept])
})

test('a failed payment revokes benefits exactly when the grace period ends, and a later payment restores them', async () => {
  const shop = await people.open()
  const { travel } = openTravels(world, people.deployment)
  const grace = (benefit_revocation_grace_period: number) =>
    shop.api.call(updateOrganization, {
      params: { id: shop.organization.id },
      body: { subscription_settings: { ...shop.organization.subscription_settings, benefit_revocation_grace_period } },
    })
  const { id: product_id } = await shop.product([await shop.benefit('custom')])
  const lapse = async (card: string) => {
    const clock = await shop.api.call(createTestClock, { body: { now: '2026-06-01T00:00:00.000Z' } })
    const bought = await shop.buy(product_id, { card, clock_id: clock.id })
    const grant = async () => (await shop.grants({ subscription_id: [bought.subscription_id!] }))[0]!
    const seen = () => shop.api.call(getSubscription, { params: { id: bought.subscription_id! } })
    return { grant, seen, to: (moment: string) => travel(shop.api, clock.id, moment) }
  }
  await grace(3)
  const late = await lapse('tok_declined_later')
  await late.to('2026-07-01T00:00:00Z')
  expect(await late.seen()).toMatchObject({ status: 'past_due' })
  expect(await late.grant()).toMatchObject({ is_granted: true })
  await late.to('2026-07-03T23:59:59Z')
  expect(await late.grant()).toMatchObject({ is_granted: true })
  await late.to('2026-07-04T12:00:00Z')
  expect(await late.grant()).toMatchObject({ is_granted: false, revoked_at: '2026-07-04T00:00:00.000Z' })
  // The subscription is paid within the grace period, so the benefits are never revoked.
  await grace(10)
  const recovers = await lapse('tok_recovers_later')
  await recovers.to('2026-07-01T00:00:00Z')
  expect(await recovers.seen()).toMatchObject({ status: 'past_due' })
  await recovers.to('2026-07-20T00:00:00Z')
  expect(await recovers.seen()).toMatchObject({ status: 'active' })
  expect(typesOf(await shop.told((await recovers.grant()).id))).toEqual(['created', 'cycled'])
  // Without a grace period, the benefits are revoked at once and restored by the payment.
  await grace(0)
  const strict = await lapse('tok_recovers_later')
  await strict.to('2026-07-01T00:00:00Z')
  expect(await strict.grant()).toMatchObject({ is_revoked: true, revoked_at: '2026-07-01T00:00:00.000Z' })
  await strict.to('2026-07-20T00:00:00Z')
  expect(await strict.grant()).toMatchObject({ is_granted: true, is_revoked: false, revoked_at: null })
  expect(typesOf(await shop.told((await strict.grant()).id))).toEqual(['created', 'revoked', 'created'])
})

test('ends a grace period at its scheduled time when a test clock advances far past it', async () => {
  const shop = await people.open()
  const { travel } = openTravels(world, people.deployment)
  await shop.api.call(updateOrganization, {
    params: { id: shop.organization.id },
    body: { subscription_settings: { ...shop.organization.subscription_settings, benefit_revocation_grace_period: 3 } },
  })
  const clock = await shop.api.call(createTestClock, { body: { now: '2026-06-01T00:00:00.000Z' } })
  const bought = await shop.buy((await shop.product([await shop.benefit('custom')])).id, { card: 'tok_declined_later', clock_id: clock.id })
  await travel(shop.api, clock.id, '2026-09-15T00:00:00Z')
  expect(await shop.grants({ subscription_id: [bought.subscription_id!] })).toMatchObject([{ is_granted: false, revoked_at: '2026-07-04T00:00:00.000Z' }])
})

test('a pause revokes benefits but keeps seats, and resuming restores the benefits of seat holders', async () => {
  const shop = await people.open()
  const { travel } = openTravels(world, people.deployment)
  const clock = await shop.api.call(createTestClock, { body: { now: '2026-06-01T00:00:00.000Z' } })
  const { id: product_id } = await shop.product([await shop.benefit('custom')], { seats: true })
  const bought = await shop.buy(product_id, { seats: 2, clock_id: clock.id })
  const anna = await shop.seat(bought)
  const granted = async () => (await shop.grants({ member_id: [anna.member_id] })).map(({ is_granted }) => is_granted)
  await shop.api.call(updateSubscription, { params: { id: bought.subscription_id! }, body: { pause_at_period_end: true } })
  expect(await granted()).toEqual([true])
  await travel(shop.api, clock.id, '2026-07-02T00:00:00Z')
  expect(await granted()).toEqual([false])
  await shop.api.call(updateSubscription, { params: { id: bought.subscription_id! }, body: { resume: true } })
  await people.pass()
  expect(await granted()).toEqual([true])
})

test('a refund revokes benefits only if the refund request asks for it', async () => {
  const shop = await people.open()
  const { id: product_id } = await shop.product([await shop.benefit('custom')], { recurring: false })
  const bought = await shop.buy(product_id)
  expect(bought).toMatchObject({ subscription_id: null })
  const refund = async (amount: number, revoke_benefits: boolean) => {
    await shop.api.call(createRefund, { body: { order_id: bought.order_id!, reason: 'other', amount, revoke_benefits } })
    await people.pass()
    return (await shop.grants({ order_id: [bought.order_id!] })).map(({ is_granted }) => is_granted)
  }
  expect(await refund(100, false)).toEqual([true])
  expect(await refund(100, true)).toEqual([false])
})

test('a change to a product’s benefits grants the new ones to existing buyers and revokes the removed ones', async () => {
  const shop = await people.open()
  const [a, b] = [await shop.benefit('custom'), await shop.benefit('feature_flag')]
  const once = await shop.product([a], { recurring: false })
  const team = await shop.product([a], { seats: true })
  const [single, pool] = [await shop.buy(once.id), await shop.buy(team.id, { seats: 2 })]
  const anna = await shop.seat(pool)
  const has = async () =>
    (await shop.grants({ is_granted: true }))
      .map(
        ({ order_id, member, benefit_id }) =>
          `${order_id === single.order_id ? 'single' : member?.id === anna.member_id ? 'anna' : '?'} ${benefit_id === a.id ? 'a' : 'b'}`,
      )
      .toSorted()
  expect(await has()).toEqual(['anna a', 'single a'])
  for (const { id } of [once, team]) await shop.give(id, [b])
  await people.pass()
  expect(await has()).toEqual(['anna b', 'single b'])
})

test('an edited benefit emits an update with the previous properties, and a deleted benefit is revoked for all recipients', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('custom')
  const { id: product_id } = await shop.product([benefit])
  for (let buyers = 0; buyers < 2; buyers++) await shop.buy(product_id)
  await shop.api.call(updateBenefit, { params: { id: benefit.id }, body: { type: 'custom', properties: { note: 'Louder' } } as never })
  await people.pass()
  const [one] = await shop.grants()
  expect((await shop.told(one!.id)).at(-1)).toMatchObject({
    type: 'benefit_grant.updated',
    data: { benefit: { properties: { note: 'Louder' } }, previous_properties: {} },
  })
  await shop.api.send(deleteBenefit, { params: { id: benefit.id } })
  await people.pass()
  expect(typesOf(await shop.told())).toEqual(['created', 'created', 'updated', 'updated', 'revoked', 'revoked'])
  expect(await shop.grants()).toMatchObject([1, 2].map(() => ({ is_granted: false, benefit: { is_deleted: true } })))
})

test('revokes the grants of a deleted member, seat holder or buyer', async () => {
  const shop = await people.open()
  const benefits = [await shop.benefit('custom'), await shop.benefit('discord')]
  const { id: product_id } = await shop.product(benefits, { seats: true })
  const bought = await shop.buy(product_id, { seats: 3 })
  const [anna, bert] = [await shop.seat(bought), await shop.seat(bought)]
  const byHand = await shop.api.call(createBenefitGrant, { body: { customer_id: bought.customer_id, benefit_id: benefits[0]!.id, member_id: anna.member_id } })
  for (const { member_id, email } of [anna, bert]) {
    const [discord] = (await shop.grants({ member_id: [member_id], benefit_id: [benefits[1]!.id] })) as { id: string }[]
    await shop.link(await shop.portal(bought.customer_id, member_id), discord!.id, email)
  }
  const live = async () => (await shop.grants({ is_granted: true })).map(({ member }) => (member?.id === anna.member_id ? 'anna' : 'bert'))
  expect((await live()).toSorted()).toEqual(['anna', 'anna', 'anna', 'bert', 'bert'])
  await shop.api.send(deleteMember, { params: { id: bought.customer_id, member_id: anna.member_id } })
  await people.pass()
  expect(await live()).toEqual(['bert', 'bert'])
  expect(await shop.api.call(getBenefitGrant, { params: { grant_id: byHand.id } })).toMatchObject({ is_revoked: true, member: { id: anna.member_id } })
  expect(people.inside(benefits[1]!)).toEqual([bert.email])
  await shop.api.send(deleteCustomer, { params: { id: bought.customer_id } })
  await people.pass()
  expect(await live()).toEqual([])
  expect(people.inside(benefits[1]!)).toEqual([])

  // Deletes a customer that held a seat in another customer's purchase.
  const early = await people.open('phase1')
  const sold = await early.buy((await early.product([await early.benefit('custom')], { seats: true })).id, { seats: 2 })
  const [carl, dora] = [await early.seat(sold), await early.seat(sold)]
  await early.api.send(deleteCustomer, { params: { id: carl.holder_customer_id! } })
  await people.pass()
  expect((await early.grants({ is_granted: true })).map(({ member_id }) => member_id)).toEqual([dora.member_id])
})

test('anonymizing a customer removes their external account first and then erases its name', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('discord')
  const bought = await shop.buy((await shop.product([benefit])).id)
  const [grant] = await shop.grants()
  await shop.link(await shop.portal(bought.customer_id), grant!.id, 'ada')
  expect(people.inside(benefit)).toEqual(['ada'])
  await shop.api.send(deleteCustomer, { params: { id: bought.customer_id }, query: { anonymize: 'true' } })
  await people.pass()
  expect(people.inside(benefit)).toEqual([])
  const rows = await people.query('select account, place, properties, granted_at from benefit_grants where id = $1', [grant!.id])
  expect(rows).toEqual([{ account: null, place: null, properties: {}, granted_at: null }])
})

test('credits meter units once per paid period, no matter how often the job runs', async () => {
  const shop = await people.open()
  const { travel } = openTravels(world, people.deployment)
  const clock = await shop.api.call(createTestClock, { body: { now: '2026-06-01T00:00:00.000Z' } })
  const { id: product_id } = await shop.product([await shop.benefit('meter_credit'), await shop.benefit('custom')])
  const bought = await shop.buy(product_id, { clock_id: clock.id })
  const starts = async () => (await credits(shop.organization.id)).map(({ period_start }) => period_start?.toISOString().slice(0, 10))
  expect(await credits(shop.organization.id)).toMatchObject([{ units: '100', customer_id: bought.customer_id }])
  // The test clock advances by three billing periods at once.
  await travel(shop.api, clock.id, '2026-09-01T12:00:00Z')
  expect(await starts()).toEqual(['2026-06-01', '2026-07-01', '2026-08-01', '2026-09-01'])
  const [grant] = await shop.grants({ benefit_id: [(await shop.grants()).find(({ benefit_type }) => benefit_type === 'meter_credit')!.benefit_id] })
  expect(grant!.properties).toMatchObject({ last_credited_meter_id: shop.meter.id, last_credited_units: 100 })
  expect(typesOf(await shop.told(grant!.id))).toEqual(['created', 'cycled', 'cycled', 'cycled'])
  expect((await shop.told(grant!.id)).at(-1)!.data.previous_properties).toMatchObject({ last_credited_units: 100 })
  // Runs the job again, and runs a late job for an earlier period.
  const { organization_id } = shop.meter
  for (const period_start of ['2026-09-01T00:00:00.000Z', '2026-07-01T00:00:00.000Z'])
    await world.transact((tx) => enqueue(tx, 'entitlements.cycled', { organization_id, subscription_id: bought.subscription_id!, period_start }))
  await people.pass()
  expect([await shop.told(grant!.id), await starts()].map(({ length }) => length)).toEqual([4, 4])
  // Switching to another plan and back credits nothing more, because the period was already credited.
  const other = await shop.product([])
  for (const id of [other.id, product_id]) {
    await shop.api.call(updateSubscription, { params: { id: bought.subscription_id! }, body: { product_id: id } })
    await people.pass()
  }
  expect(await shop.grants({ is_granted: true })).toHaveLength(2)
  expect(await starts()).toHaveLength(4)
})

test('a subscription that ends with its period gets no further credits and no cycle event', async () => {
  const shop = await people.open()
  const { organization_id } = shop.meter
  const waiting = () =>
    people.query<{ name: string }>(
      `select t.identifier as name from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
       where t.identifier = 'entitlements.cycled' and j.payload ->> 'organization_id' = $1`,
      [organization_id],
    )
  const promised: unknown[] = []
  const work = async () => {
    promised.push(...(await waiting()))
    await people.deployment.work()
  }
  const { travel } = openTravels(world, { ...people.deployment, work })
  const clock = await shop.api.call(createTestClock, { body: { now: '2026-06-01T00:00:00.000Z' } })
  const { id: product_id } = await shop.product([await shop.benefit('meter_credit')])
  const bought = await shop.buy(product_id, { clock_id: clock.id })
  await shop.api.call(updateSubscription, { params: { id: bought.subscription_id! }, body: { cancel_at_period_end: true } })
  await travel(shop.api, clock.id, '2026-07-02T00:00:00Z')
  expect(promised).toEqual([])
  expect(typesOf(await shop.told())).toEqual(['created', 'revoked'])
  expect(await credits(organization_id)).toHaveLength(1)

  // The cycle job runs before the benefits of the ended subscription are revoked.
  const late = await shop.buy(product_id)
  const [grant] = await shop.grants({ subscription_id: [late.subscription_id!] })
  await end(shop, late.subscription_id)
  const cycled = jobs.find(({ name }) => name === 'entitlements.cycled')!
  const period_start = new Date(world.clock.wall().getTime() + 40 * days).toISOString()
  await cycled.run(people.deployment.deps, { organization_id, subscription_id: late.subscription_id!, period_start } as never)
  expect(await shop.api.call(getBenefitGrant, { params: { grant_id: grant!.id } })).toEqual(grant)
  expect(await credits(organization_id)).toHaveLength(2)
  await people.pass()
  expect(typesOf(await shop.told(grant!.id))).toEqual(['created', 'revoked'])
})

test('an ownership transfer removes the previous owner’s external account, and the new owner can name one', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('discord')
  const bought = await shop.buy((await shop.product([benefit], { recurring: false })).id)
  const team = await shop.buy((await shop.product([], { seats: true })).id, { seats: 2, customer_id: bought.customer_id })
  const bert = await shop.member(team.customer_id)
  const [grant] = await shop.grants()
  await shop.link(await shop.portal(team.customer_id, grant!.member_id!), grant!.id, 'anna')
  expect(people.inside(benefit)).toEqual(['anna'])
  await shop.api.call(updateMember, { params: { id: team.customer_id, member_id: bert.id }, body: { role: 'owner' } })
  await people.pass()
  expect(people.inside(benefit)).toEqual([])
  const look = () => shop.api.call(getBenefitGrant, { params: { grant_id: grant!.id } })
  expect(await look()).toMatchObject({
    member_id: bert.id,
    is_granted: false,
    is_revoked: false,
    error: { type: 'BenefitActionRequiredError' },
    properties: {},
  })
  expect(JSON.stringify(await look())).not.toContain('"anna"')
  await shop.link(await shop.portal(team.customer_id, bert.id), grant!.id, 'bert')
  expect([people.inside(benefit), (await look()).is_granted]).toEqual([['bert'], true])
  expect(typesOf(await shop.told(grant!.id))).toEqual(['created', 'updated', 'created'])
})

describe('manual grants', () => {
  test('granting a benefit by hand is idempotent, and gives it again after it was revoked', async () => {
    const shop = await people.open()
    const benefit = await shop.benefit('meter_credit')
    const customer = await shop.api.call(createCustomer, { body: { email: 'ada@people.test' } })
    const body = { customer_id: customer.id, benefit_id: benefit.id }
    const grant = await shop.api.call(createBenefitGrant, { body })
    expect(grant).toMatchObject({ ...body, is_granted: true, subscription_id: null, order_id: null, member: null })
    expect(await shop.api.call(createBenefitGrant, { body })).toEqual(grant)
    expect(await credits(shop.organization.id)).toMatchObject([{ units: '100', period_start: null }])
    const params = { grant_id: grant.id }
    expect(await shop.api.call(revokeBenefitGrant, { params })).toMatchObject({ id: grant.id, is_granted: false, is_revoked: true })
    const gone = await shop.api.call(getBenefitGrant, { params })
    expect(await shop.api.call(revokeBenefitGrant, { params })).toEqual(gone)
    expect(typesOf(await shop.told())).toEqual(['created', 'revoked'])
    expect(await shop.api.call(createBenefitGrant, { body })).toMatchObject({ id: grant.id, is_granted: true, revoked_at: null })
    expect(await credits(shop.organization.id)).toHaveLength(1)
  })

  test('a purchased benefit that the seller revoked for one member stays revoked, and other members keep theirs', async () => {
    const shop = await people.open()
    const benefit = await shop.benefit('github_repository')
    const bought = await shop.buy((await shop.product([benefit], { seats: true })).id, { seats: 2 })
    const [anna, bert] = [await shop.seat(bought), await shop.seat(bought)]
    const [ofAnna] = await shop.grants({ member_id: [anna.member_id] })
    for (const { member_id, email } of [anna, bert])
      await shop.link(await shop.portal(bought.customer_id, member_id), (await shop.grants({ member_id: [member_id] }))[0]!.id, email)
    expect(people.inside(benefit)).toEqual([anna.email, bert.email])
    await shop.api.call(revokeBenefitGrant, { params: { grant_id: ofAnna!.id } })
    await people.pass()
    expect(people.inside(benefit)).toEqual([bert.email])
    await shop.reconcile(bought)
    await shop.revokeSeat(anna)
    await shop.seat(bought, { again: anna })
    expect(await shop.grants({ member_id: [anna.member_id] })).toMatchObject([{ id: ofAnna!.id, is_granted: false, is_revoked: true }])
    expect(people.inside(benefit)).toEqual([bert.email])
  })

  test.each(['before', 'phase1'] as const)(
    'in phase %s a benefit revoked for a person stays revoked when a seat is assigned to them by another identifier',
    async (phase) => {
      const shop = await people.open(phase)
      const bought = await shop.buy((await shop.product([await shop.benefit('custom')], { seats: true })).id, { seats: 2 })
      const assign = async (who: object) => {
        const seat = await shop.api.call(assignSeat, { body: { subscription_id: bought.subscription_id!, immediate_claim: true, ...who } })
        await people.pass()
        return seat
      }
      const seat = await assign({ email: 'eve@people.test' })
      const granted = async () => (await shop.grants({ is_granted: true })).length
      expect(await granted()).toBe(1)
      await shop.api.call(revokeBenefitGrant, { params: { grant_id: (await shop.grants())[0]!.id } })
      await people.pass()
      expect(await granted()).toBe(0)
      await shop.api.call(revokeSeat, { params: { seat_id: seat.id } })
      await people.pass()
      const again = await assign({ member_id: seat.member_id })
      expect(again.member_id).toBe(seat.member_id)
      expect(again.customer_id).toBe(seat.customer_id)
      expect(await granted()).toBe(0)
      await assign({ email: 'fay@people.test' })
      expect(await granted()).toBe(1)
    },
  )

  test('rejects an unknown customer, benefit or member with the location of the error, and rejects callers without permission', async () => {
    const shop = await people.open()
    const other = await people.open()
    const benefit = await shop.benefit('custom')
    const customer = await shop.api.call(createCustomer, { body: { email: 'ada@people.test' } })
    const foreign = await other.api.call(createCustomer, { body: { email: 'ada@people.test' } })
    const foreignBenefit = await other.benefit('custom')
    const [stranger] = (await other.api.call(listCustomerMembers, { params: { id: foreign.id } })).items
    const ask = async (body: object, client = shop.api) =>
      client.send(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id, ...body } })
    for (const id of [foreign.id, newId(world.clock.wall())]) expect(locs(await ask({ customer_id: id }))).toEqual(['body.customer_id'])
    for (const id of [foreignBenefit.id, newId(world.clock.wall())]) expect(locs(await ask({ benefit_id: id }))).toEqual(['body.benefit_id'])
    expect(locs(await ask({ member_id: stranger!.id }))).toEqual(['body.member_id'])
    expect(locs(await ask({ member_id: stranger!.id, benefit_id: foreignBenefit.id }))).toEqual(['body.benefit_id', 'body.member_id'])
    const grant = await shop.api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
    const params = { grant_id: grant.id }
    const nowhere = (await shop.api.send(getBenefitGrant, { params: { grant_id: newId(world.clock.wall()) } })).body
    for (const answer of [await other.api.send(getBenefitGrant, { params }), await other.api.send(revokeBenefitGrant, { params })])
      expect([answer.status, answer.body]).toEqual([404, nowhere])
    expect((await other.api.send(listGrantsOfBenefit, { params: { id: benefit.id } })).status).toBe(404)
    expect((await other.grants()).length).toBe(0)
    const reader = world.client({ token: (await shop.organization.token(['benefits:read'])).secret })
    expect((await reader.send(getBenefitGrant, { params })).status).toBe(200)
    expect((await ask({}, reader)).status).toBe(403)
    expect((await reader.send(revokeBenefitGrant, { params })).status).toBe(403)
    expect((await world.client().send(getBenefitGrant, { params })).status).toBe(401)
    // The finance role may read grants, but not create or revoke them.
    const accountant = await world.person()
    await world.join(shop.organization.id, accountant.id, 'finance')
    const finance = world.client({ token: (await accountant.token()).secret })
    expect((await finance.send(getBenefitGrant, { params })).status).toBe(200)
    expect(errorOf(await ask({}, finance))).toBe('403 NotPermitted')
    expect(errorOf(await finance.send(revokeBenefitGrant, { params }))).toBe('403 NotPermitted')
  })
})

test('filters grants by every parameter, and sorts them in every order [S4-27]', async () => {
  const shop = await people.open()
  const [a, b] = [await shop.benefit('custom'), await shop.benefit('feature_flag')]
  const direct = await shop.buy((await shop.product([a])).id)
  const once = await shop.buy((await shop.product([b], { recurring: false })).id)
  const team = await shop.buy((await shop.product([a], { seats: true })).id, { seats: 2 })
  const anna = await shop.seat(team)
  const customer = await shop.api.call(createCustomer, { body: { email: 'own@people.test', external_id: 'theirs' } })
  world.clock.advance(1000)
  const byHand = await shop.api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: b.id } })
  await shop.revokeSeat(anna)
  const names = new Map(
    (await shop.grants()).map((grant) => [
      grant.id,
      grant.subscription_id === direct.subscription_id ? 'direct' : grant.order_id ? 'once' : grant.member ? 'seat' : 'hand',
    ]),
  )
  const found = async (query: object) => (await shop.grants(query as never)).map(({ id }) => names.get(id))
  expect(await found({})).toEqual(['direct', 'once', 'seat', 'hand'])
  expect(await found({ customer_id: direct.customer_id })).toEqual(['direct'])
  expect(await found({ external_customer_id: 'theirs' })).toEqual(['hand'])
  expect(await found({ member_id: anna.member_id })).toEqual(['seat'])
  // The customer's own grants are shown with the owner's member id, so the filter by that id finds them.
  expect(await found({ member_id: byHand.member_id })).toEqual(['hand'])
  expect(await found({ benefit_id: [a.id] })).toEqual(['direct', 'seat'])
  expect(await found({ subscription_id: [direct.subscription_id, team.subscription_id] })).toEqual(['direct', 'seat'])
  expect(await found({ order_id: [once.order_id] })).toEqual(['once'])
  expect(await found({ is_granted: true })).toEqual(['direct', 'once', 'hand'])
  expect(await found({ is_granted: false })).toEqual(['seat'])
  expect(await found({ organization_id: [(await people.open()).organization.id] })).toEqual([])
  expect(await found({ sorting: ['-created_at'] })).toEqual(['hand', 'seat', 'once', 'direct'])
  expect((await found({ sorting: ['granted_at'] })).at(-1)).toBe('seat')
  expect((await found({ sorting: ['revoked_at'] }))[0]).toBe('seat')
  const ofBenefit = async (query: object) => (await shop.api.call(listGrantsOfBenefit, { params: { id: a.id }, query })).items.map(({ id }) => names.get(id))
  expect(await ofBenefit({})).toEqual(['seat', 'direct'])
  expect(await ofBenefit({ is_granted: true })).toEqual(['direct'])
  expect(await ofBenefit({ customer_id: [team.customer_id] })).toEqual(['seat'])
  expect(await ofBenefit({ member_id: [anna.member_id] })).toEqual(['seat'])
  expect((await shop.api.call(listBenefitGrants, { query: { limit: 1 } })).pagination).toMatchObject({ total_count: 4, max_page: 4 })
})
