import { getBenefitGrant, revokeBenefitGrant, updateBenefit, updatePortalBenefitGrant } from '@bursar/contract'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openEntitlements, type Entitlements } from '../../../../test/harness/entitlements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { CommunityRefusal, type Communities } from '../../../gateways/communities/communities.ts'
import { dueWork } from '../../../main/wire.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { claim, LeaseLost } from '../../../platform/jobs/leases.sql.ts'
import { hours, minutes } from '../../../platform/clock.ts'

let world: World
let people: Entitlements
beforeAll(async () => {
  world = await openWorld()
  people = await openEntitlements(world)
})
afterEach(() => people.misbehave(() => undefined))
afterAll(async () => {
  await people.close()
  await world.close()
})

/** Somebody who has bought one benefit for which somebody outside is needed. */
const open = async (kind: 'discord' | 'github_repository' = 'discord', changes: object = {}) => {
  const shop = await people.open()
  const benefit = await shop.benefit(kind, changes)
  const bought = await shop.buy((await shop.product([benefit])).id)
  const { id } = (await shop.grants())[0]!
  return {
    ...shop,
    benefit,
    bought,
    id,
    link: async (account_id: string | null) => shop.link(await shop.portal(bought.customer_id), id, account_id),
    seen: () => shop.api.call(getBenefitGrant, { params: { grant_id: id } }),
    inside: () => people.inside(benefit),
    types: async () => (await shop.told(id)).map(({ type }) => type.replace('benefit_grant.', '')),
    deeds: () =>
      people.communities
        .books()
        .filter(({ place }) => place.includes(shop.organization.slug))
        .map(({ did, account }) => `${did} ${account}`),
  }
}

/** Time passes on the wall, and what is due by then is tried. */
const after = async (milliseconds: number) => {
  world.clock.advance(milliseconds)
  await people.pass()
}

test('without an account nobody is let in: it says what is missing, says it of nobody as given, and waits', async () => {
  const { seen, link, types, inside } = await open()
  expect(await seen()).toMatchObject({
    is_granted: false,
    is_revoked: false,
    error: { type: 'BenefitActionRequiredError', message: expect.stringContaining('account_id') as string },
  })
  await after(24 * hours)
  expect(await types()).toEqual([])
  await link('ada')
  expect(await seen()).toMatchObject({ is_granted: true, error: null, properties: { account_id: 'ada', granted_account_id: 'ada' } })
  expect(await types()).toEqual(['created'])
  expect(inside()).toEqual(['ada'])
})

test.each(['before', 'after'] as const)(
  'silence %s the deed is an error that shows, is tried again later and later, and ends in one admission that is told once',
  async (when) => {
    const { seen, link, types, inside, deeds } = await open('github_repository')
    people.misbehave(() => when)
    await link('ada')
    expect(await seen()).toMatchObject({ is_granted: false, error: { type: 'BenefitRetriableError', message: expect.stringContaining('no answer') as string } })
    expect(await types()).toEqual([])
    // Not before its time.
    const first = (await seen()).error!.timestamp
    await after(30_000)
    expect((await seen()).error!.timestamp).toBe(first)
    await after(31_000)
    expect((await seen()).error!.timestamp).not.toBe(first)
    people.misbehave(() => undefined)
    await after(61_000)
    expect(await seen()).toMatchObject({ is_granted: false })
    await after(60_000)
    expect(await seen()).toMatchObject({ is_granted: true, error: null })
    expect([await types(), inside(), deeds()]).toEqual([['created'], ['ada'], ['admitted ada']])
  },
)

test('whoever may have been let in is shown out, also where nobody heard of it', async () => {
  const { seen, link, types, inside, api, id } = await open()
  people.misbehave(() => 'after')
  await link('ada')
  expect([inside(), await types()]).toEqual([['ada'], []])
  people.misbehave(() => undefined)
  await api.call(revokeBenefitGrant, { params: { grant_id: id } })
  await people.pass()
  expect(inside()).toEqual([])
  expect(await seen()).toMatchObject({ is_granted: false, is_revoked: true, error: null })
  // Nobody was told that it was there.
  expect(await types()).toEqual([])
})

test('who cannot be shown out still has it, which shows, and it is gone when they are', async () => {
  const { seen, link, types, inside, api, id } = await open()
  await link('ada')
  for (const when of ['before', 'after'] as const) {
    people.misbehave((call) => (call === 'dismiss' ? when : undefined))
    if (when === 'before') await api.call(revokeBenefitGrant, { params: { grant_id: id } })
    await after(10 * minutes)
    expect(await seen()).toMatchObject({ is_granted: true, is_revoked: false, error: { type: 'BenefitRetriableError' } })
    expect(await types()).toEqual(['created'])
  }
  people.misbehave(() => undefined)
  await after(10 * minutes)
  expect(await seen()).toMatchObject({ is_granted: false, is_revoked: true, error: null })
  expect([await types(), inside()]).toEqual([['created', 'revoked'], []])
})

test('what is refused is tried twenty times and then rests, until its seller or its recipient changes something', async () => {
  const { seen, link, types, api, benefit, guild, organization, inside } = await open()
  await link('absent-minded')
  expect(await seen()).toMatchObject({
    is_granted: false,
    error: { type: 'BenefitRefusedError', message: expect.stringContaining('nobody of this name') as string },
  })
  for (let tries = 1; tries < 20; tries++) await after(6 * hours)
  const [row] = await people.query<{ attempts: number; due_at: Date | null }>('select attempts, due_at from benefit_grants where organization_id = $1', [
    organization.id,
  ])
  expect(row).toEqual({ attempts: 20, due_at: null })
  await link('ada')
  expect(await seen()).toMatchObject({ is_granted: true, error: null })
  // Its seller names a server that is not there: ada is nowhere, and that is said.
  const move = async (id: string) => {
    const { role_id, kick_member } = benefit.properties as { role_id: string; kick_member: boolean }
    const moved = await api.call(updateBenefit, {
      params: { id: benefit.id },
      body: { type: 'discord', properties: { guild_token: guild(id), role_id, kick_member } } as never,
    })
    await people.pass()
    return moved
  }
  await move(`${organization.slug} absent`)
  expect(await seen()).toMatchObject({ is_granted: false, error: { type: 'BenefitRefusedError' } })
  expect(inside()).toEqual([])
  const elsewhere = await move(`${organization.slug} elsewhere`)
  expect(people.inside(elsewhere)).toEqual(['ada'])
  expect(await seen()).toMatchObject({ is_granted: true, properties: { guild_id: `${organization.slug} elsewhere` } })
  expect(await types()).toEqual(['created', 'updated', 'created'])
})

test('another account: the old one is shown out and the new one let in, and giving it back leaves nobody inside', async () => {
  const { seen, link, types, inside, told, id, deeds } = await open('github_repository')
  await link('ada')
  expect(await link('ada')).toMatchObject({ is_granted: true })
  expect(deeds()).toEqual(['admitted ada'])
  await link('bob')
  expect(inside()).toEqual(['bob'])
  expect((await told(id)).at(-1)).toMatchObject({
    type: 'benefit_grant.updated',
    data: { is_granted: true, properties: { granted_account_id: 'bob' }, previous_properties: { granted_account_id: 'ada' } },
  })
  await link(null)
  expect(inside()).toEqual([])
  expect(await seen()).toMatchObject({ is_granted: false, is_revoked: false, error: { type: 'BenefitActionRequiredError' } })
  await link('ada')
  expect(inside()).toEqual(['ada'])
  expect(await types()).toEqual(['created', 'updated', 'updated', 'created'])
  // Changed while nobody answers: what is wanted last is what comes of it.
  people.misbehave(() => 'after')
  await link('bob')
  people.misbehave(() => undefined)
  await link('carl')
  expect(inside()).toEqual(['carl'])
  expect(await seen()).toMatchObject({ is_granted: true, properties: { account_id: 'carl', granted_account_id: 'carl' } })
})

test('an account that two grants let in stays until the last of them is gone, and whoever is shown out by mistake is let in again', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('discord')
  const team = await shop.buy((await shop.product([benefit], { seats: true })).id, { seats: 3 })
  const [anna, bert] = [await shop.seat(team), await shop.seat(team)]
  const linked = async ({ member_id }: { member_id: string }, account: string) => {
    const [grant] = await shop.grants({ member_id: [member_id] })
    await shop.link(await shop.portal(team.customer_id, member_id), grant!.id, account)
    return grant!.id
  }
  await linked(anna, 'shared')
  const ofBert = await linked(bert, 'shared')
  await shop.revokeSeat(anna)
  expect(people.inside(benefit)).toEqual(['shared'])
  expect((await shop.grants({ is_granted: true })).map(({ id }) => id)).toEqual([ofBert])
  await shop.revokeSeat(bert)
  expect(people.inside(benefit)).toEqual([])
  expect(await shop.grants({ is_granted: true })).toEqual([])

  // Bert is let in while anna's account is on its way out: he is inside in the end.
  const back = await shop.seat(team, { again: anna })
  expect(people.inside(benefit)).toEqual(['shared'])
  people.meanwhile('dismiss', () => shop.seat(team, { again: bert }))
  await shop.revokeSeat(back)
  expect((await shop.grants({ is_granted: true })).map(({ id }) => id)).toEqual([ofBert])
  await people.pass()
  expect(people.inside(benefit)).toEqual(['shared'])
})

test('one who is let in just before the same account is shown out for another grant is let in once more', async () => {
  const shop = await people.open()
  const benefit = await shop.benefit('discord')
  const { id: product_id } = await shop.product([benefit])
  const buyers = [await shop.buy(product_id), await shop.buy(product_id)] as const
  const [leaving, arriving] = await Promise.all(buyers.map(async ({ customer_id }) => (await shop.grants({ customer_id: [customer_id] }))[0]!))
  await shop.link(await shop.portal(buyers[0].customer_id), leaving!.id, 'shared')
  await shop.api.call(revokeBenefitGrant, { params: { grant_id: leaving!.id } })
  const portal = await shop.portal(buyers[1].customer_id)
  await portal.call(updatePortalBenefitGrant, {
    params: { id: arriving!.id },
    body: { benefit_type: 'discord', properties: { account_id: 'shared' } } as never,
  })

  const { means } = people.deployment
  const { run } = dueWork.find(({ name }) => name === 'entitlements.apply')!
  const leases = await claim(means.transact, 'benefit_grants', { holder: 'test', limit: 100, lease_ms: sweeps['entitlements.apply'].lease_ms })
  const [admitted, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let second: Promise<unknown> | undefined
  const communities: Communities = {
    ...people.communities,
    admit: async (place, account) => {
      await people.communities.admit(place, account)
      admitted.resolve()
      await goesOn.promise
    },
    dismiss: async (place, account) => {
      second = work(arriving!.id).catch((error: unknown) => error)
      await admitted.promise
      await people.communities.dismiss(place, account)
    },
  }
  const work = (id: string) =>
    run(
      { ...means, gateways: { ...means.gateways, communities } },
      leases.find((lease) => lease.id === id)!,
    )
  await work(leaving!.id)
  expect(people.inside(benefit)).toEqual([])
  goesOn.resolve()
  expect(await second).toBeInstanceOf(LeaseLost)
  const look = () => shop.api.call(getBenefitGrant, { params: { grant_id: arriving!.id } })
  expect(await look()).toMatchObject({ is_granted: false })
  await people.pass()
  expect([people.inside(benefit), (await look()).is_granted]).toEqual([['shared'], true])
})

test('what is taken away is gone from the state of its customer at once, also where nobody answers who could show them out', async () => {
  const { link, seen, api, id, bought, events } = await open()
  const told = async () => {
    await after(1001)
    await people.deployment.sweep('entitlements.tell_state')
    return (await events('customer.state_changed'))
      .filter(({ data }) => data.id === bought.customer_id)
      .map(({ data }) => (data.granted_benefits as unknown[]).length)
  }
  await link('ada')
  expect((await told()).at(-1)).toBe(1)
  const before = (await told()).length
  people.misbehave(() => 'before')
  await api.call(revokeBenefitGrant, { params: { grant_id: id } })
  expect((await told()).slice(before)).toEqual([0])
  expect(await seen()).toMatchObject({ is_granted: true, error: { type: 'BenefitRetriableError' } })
})

test('whoever is to be shown out is, however long it takes', async () => {
  const { link, inside, seen, api, id, types } = await open()
  await link('ada')
  people.misbehave(() => 'before')
  await api.call(revokeBenefitGrant, { params: { grant_id: id } })
  for (let tries = 1; tries <= 21; tries++) await after(6 * hours)
  const [row] = await people.query<{ attempts: number }>('select attempts from benefit_grants where id = $1', [id])
  expect(row!.attempts).toBeGreaterThan(20)
  expect(inside()).toEqual(['ada'])
  people.misbehave(() => undefined)
  await after(6 * hours)
  expect([inside(), await types(), (await seen()).is_revoked]).toEqual([[], ['created', 'revoked'], true])
})

test('an account that is unknown when it is to be shown out was let in under another name, or never', async () => {
  const { link, inside, seen, api, id } = await open('github_repository')
  // Nobody was let in: another account is.
  await link('absent-minded')
  expect(await seen()).toMatchObject({ is_granted: false, error: { type: 'BenefitRefusedError' } })
  await link('ada')
  expect([inside(), await seen()]).toMatchObject([['ada'], { is_granted: true, error: null }])
  people.misbehave(() => {
    throw new CommunityRefusal('unknown_account', 'There is nobody of this name.')
  })
  await api.call(revokeBenefitGrant, { params: { grant_id: id } })
  await people.pass()
  expect(await seen()).toMatchObject({ is_granted: true, is_revoked: false, error: { type: 'BenefitRefusedError' } })
  people.misbehave(() => undefined)
  await after(minutes)
  expect([inside(), await seen()]).toMatchObject([[], { is_granted: false, is_revoked: true, error: null }])
})

test('what is taken away while its account is being let in does not stay', async () => {
  const { link, seen, inside, types, api, id } = await open()
  people.meanwhile('admit', () => api.call(revokeBenefitGrant, { params: { grant_id: id } }))
  await link('ada')
  expect([inside(), await types()]).toEqual([[], []])
  expect(await seen()).toMatchObject({ is_granted: false, is_revoked: true })
})

test('a worker that lost its lease changes nothing, and the next one does it', async () => {
  const { link, seen, inside, types, organization } = await open()
  const { deployment } = people
  await people.query(`update benefit_grants set properties = '{"account_id": "ada"}', due_at = $2 where organization_id = $1`, [
    organization.id,
    world.clock.wall(),
  ])
  const run = dueWork.find(({ name }) => name === 'entitlements.apply')!.run
  const take = () => claim(deployment.means.transact, 'benefit_grants', { holder: 'test', limit: 100, lease_ms: sweeps['entitlements.apply'].lease_ms })
  const [stale] = (await take()).filter((lease) => lease.organization_id === organization.id)
  world.clock.advance(2 * minutes)
  const [fresh] = (await take()).filter((lease) => lease.organization_id === organization.id)
  await expect(run(deployment.means, stale!)).rejects.toThrow(LeaseLost)
  expect([await types(), inside()]).toEqual([[], []])
  await run(deployment.means, fresh!)
  await expect(run(deployment.means, fresh!)).rejects.toThrow(LeaseLost)
  expect([await types(), inside()]).toEqual([['created'], ['ada']])
  await link('bob')
  expect(await seen()).toMatchObject({ properties: { granted_account_id: 'bob' } })
})
