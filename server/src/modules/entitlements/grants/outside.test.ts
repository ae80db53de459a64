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

/** A buyer of one benefit that gives access to an external community. */
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

/** Advances the wall clock and runs the work that is due by then. */
const after = async (milliseconds: number) => {
  world.clock.advance(milliseconds)
  await people.pass()
}

test('a grant of an external benefit without an account waits, reports the missing account and emits no event', async () => {
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
  'a timeout %s the admission takes effect is reported and retried with backoff, and results in one admission and one event',
  async (when) => {
    const { seen, link, types, inside, deeds } = await open('github_repository')
    people.misbehave(() => when)
    await link('ada')
    expect(await seen()).toMatchObject({ is_granted: false, error: { type: 'BenefitRetriableError', message: expect.stringContaining('no answer') as string } })
    expect(await types()).toEqual([])
    // The call is not retried before the backoff has passed.
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

test('removes an account whose admission timed out, because the community may have admitted it', async () => {
  const { seen, link, types, inside, api, id } = await open()
  people.misbehave(() => 'after')
  await link('ada')
  expect([inside(), await types()]).toEqual([['ada'], []])
  people.misbehave(() => undefined)
  await api.call(revokeBenefitGrant, { params: { grant_id: id } })
  await people.pass()
  expect(inside()).toEqual([])
  expect(await seen()).toMatchObject({ is_granted: false, is_revoked: true, error: null })
  // No event reported the grant as given, so its end causes no event either.
  expect(await types()).toEqual([])
})

test('a grant whose account cannot be removed keeps an error, and is revoked after the removal succeeds', async () => {
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

test('stops after 20 refused admissions and resumes when the seller edits the benefit or the recipient names another account', async () => {
  const { seen, link, types, api, benefit, guild, organization, inside } = await open()
  await link('absent-minded')
  expect(await seen()).toMatchObject({
    is_granted: false,
    error: { type: 'BenefitRefusedError', message: expect.stringContaining('no account with this name') as string },
  })
  for (let tries = 1; tries < 20; tries++) await after(6 * hours)
  const [row] = await people.query<{ attempts: number; due_at: Date | null }>('select attempts, due_at from benefit_grants where organization_id = $1', [
    organization.id,
  ])
  expect(row).toEqual({ attempts: 20, due_at: null })
  await link('ada')
  expect(await seen()).toMatchObject({ is_granted: true, error: null })
  // The seller moves the benefit to a server that does not exist. Ada loses access, and the grant shows the error.
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

test('a newly named account replaces the old one in the community, and clearing the account removes access', async () => {
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
  // The recipient changes the account while the community does not answer. Only the last named account is admitted.
  people.misbehave(() => 'after')
  await link('bob')
  people.misbehave(() => undefined)
  await link('carl')
  expect(inside()).toEqual(['carl'])
  expect(await seen()).toMatchObject({ is_granted: true, properties: { account_id: 'carl', granted_account_id: 'carl' } })
})

test('an account shared by two grants stays until the last grant ends, and is admitted again if a grant returns during its removal', async () => {
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

  // Bert's grant is given again while the shared account is being removed for Anna's grant. The account is admitted again.
  const back = await shop.seat(team, { again: anna })
  expect(people.inside(benefit)).toEqual(['shared'])
  people.meanwhile('dismiss', () => shop.seat(team, { again: bert }))
  await shop.revokeSeat(back)
  expect((await shop.grants({ is_granted: true })).map(({ id }) => id)).toEqual([ofBert])
  await people.pass()
  expect(people.inside(benefit)).toEqual(['shared'])
})

test('admits an account again if it was removed for another grant right after its admission', async () => {
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

  const { deps } = people.deployment
  const { run } = dueWork.find(({ name }) => name === 'entitlements.apply')!
  const leases = await claim(deps.transact, 'benefit_grants', { holder: 'test', limit: 100, lease_ms: sweeps['entitlements.apply'].lease_ms })
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
      { ...deps, gateways: { ...deps.gateways, communities } },
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

test('a revoked grant leaves the customer state at once, even if the community does not answer', async () => {
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

test('retries the removal of an account without limit', async () => {
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

test('an unknown account counts as removed only if it was never admitted', async () => {
  const { link, inside, seen, api, id } = await open('github_repository')
  // The community does not know this account, which was never admitted. Naming another account therefore succeeds.
  await link('absent-minded')
  expect(await seen()).toMatchObject({ is_granted: false, error: { type: 'BenefitRefusedError' } })
  await link('ada')
  expect([inside(), await seen()]).toMatchObject([['ada'], { is_granted: true, error: null }])
  people.misbehave(() => {
    throw new CommunityRefusal('unknown_account', 'There is no account with this name.')
  })
  await api.call(revokeBenefitGrant, { params: { grant_id: id } })
  await people.pass()
  expect(await seen()).toMatchObject({ is_granted: true, is_revoked: false, error: { type: 'BenefitRefusedError' } })
  people.misbehave(() => undefined)
  await after(minutes)
  expect([inside(), await seen()]).toMatchObject([[], { is_granted: false, is_revoked: true, error: null }])
})

test('a grant that is revoked during the admission of its account leaves no access', async () => {
  const { link, seen, inside, types, api, id } = await open()
  people.meanwhile('admit', () => api.call(revokeBenefitGrant, { params: { grant_id: id } }))
  await link('ada')
  expect([inside(), await types()]).toEqual([[], []])
  expect(await seen()).toMatchObject({ is_granted: false, is_revoked: true })
})

test('a worker that lost its lease changes nothing, and the next worker adds the account to the community', async () => {
  const { link, seen, inside, types, organization } = await open()
  const { deployment } = people
  await people.query(`update benefit_grants set properties = '{"account_id": "ada"}', due_at = $2 where organization_id = $1`, [
    organization.id,
    world.clock.wall(),
  ])
  const run = dueWork.find(({ name }) => name === 'entitlements.apply')!.run
  const take = () => claim(deployment.deps.transact, 'benefit_grants', { holder: 'test', limit: 100, lease_ms: sweeps['entitlements.apply'].lease_ms })
  const [stale] = (await take()).filter((lease) => lease.organization_id === organization.id)
  world.clock.advance(2 * minutes)
  const [fresh] = (await take()).filter((lease) => lease.organization_id === organization.id)
  await expect(run(deployment.deps, stale!)).rejects.toThrow(LeaseLost)
  expect([await types(), inside()]).toEqual([[], []])
  await run(deployment.deps, fresh!)
  await expect(run(deployment.deps, fresh!)).rejects.toThrow(LeaseLost)
  expect([await types(), inside()]).toEqual([['created'], ['ada']])
  await link('bob')
  expect(await seen()).toMatchObject({ properties: { granted_account_id: 'bob' } })
})
