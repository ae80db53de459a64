import {
  createBenefit,
  createCustomer,
  createCustomerSession,
  createWebhookEndpoint,
  revokeOrganizationToken,
  scopes,
  getCustomer,
  getExternalCustomer,
  getMemberReadiness,
  listBenefitGrants,
  listCustomers,
  listLicenseKeys,
  updateCustomer,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeams, type Teams } from '../../../../test/harness/teams.ts'
import { openGrant } from '../../../../test/harness/visitor.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { statementsOf, withoutIntervals } from '../../../../test/faults/sizes/statements.ts'
import { days } from '../../../platform/clock.ts'

let world: World
let teams: Teams
beforeAll(async () => {
  world = await withoutIntervals(() => openWorld())
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

const open = async (phase: 'before' | 'phase1' | 'phase2' = 'phase1') => {
  const shop = await world.shop()
  const { organization } = shop
  const { id } = await shop.api.call(createBenefit, { body: { type: 'license_keys', description: 'A key', properties: { prefix: null } } })
  const team = await teams.buy({ shop, phase: phase === 'before' ? 'before' : 'phase1', benefits: [id] })
  const { seat } = await teams.claim(await teams.assign(team))
  await world.database.owner((owner) =>
    owner.query(`update customers set external_id = 'holder' where organization_id = $1 and id = $2`, [organization.id, seat.customer_id]),
  )
  await world.api.readiness.flush()
  if (phase === 'phase2') await shop.phase(phase)
  const token = await organization.token()
  const api = world.client({ token: token.secret })
  /** Returns the recorded findings of all integrations, or of one integration. */
  const report = async (one?: string) => {
    await world.api.readiness.flush()
    const { ready, items } = await shop.api.call(getMemberReadiness, { query: {} })
    return { ready, items: items.filter(({ id }) => one === undefined || id === one) }
  }
  const found = async (one = token.id) => {
    const [item] = (await report(one)).items
    return Object.fromEntries(item!.because.map(({ finding, count, sample }) => [finding, [count, sample]]))
  }
  return { ...team, seat, holder_id: seat.customer_id!, token, api, report, found }
}

test('records only those requests of an integration that the switch will break', async () => {
  const { api, token, found, report, holder_id, customer_id, pool, organization, ...team } = await open()
  expect(await report(token.id)).toMatchObject({ items: [{ kind: 'organization_token', name: 'test', ready: true, because: [], last_seen_at: null }] })

  await api.call(getCustomer, { params: { id: customer_id } })
  await api.call(listCustomers, { query: {} })
  await api.call(listBenefitGrants, { query: { member_id: [team.seat.member_id!] } })
  await teams.assign({ ...team, api, pool } as never)
  await api.call(createCustomerSession, { body: { customer_id, member_id: team.owner.id } })
  const plain = await api.call(createCustomer, { body: { email: 'plain@people.test' } })
  await api.call(createCustomerSession, { body: { customer_id: plain.id } })
  await api.send(updateCustomer, { params: { id: holder_id }, body: { type: 'nonsense' } as never })
  expect(await found()).toEqual({})
  expect((await report(token.id)).items[0]).toMatchObject({ ready: true, last_seen_at: expect.any(String) })

  await api.call(getCustomer, { params: { id: holder_id } })
  await api.call(getExternalCustomer, { params: { external_id: 'holder' } })
  expect(await found()).toEqual({ fetched_holder: [2, 'customers:get_external'] })
  await api.call(listBenefitGrants, { query: { customer_id: [holder_id] } })
  await api.call(listBenefitGrants, { query: { external_customer_id: ['holder'] } })
  await api.call(listLicenseKeys, { query: { customer_id: [holder_id] } })
  await api.call(listCustomers, { query: { email: team.seat.customer_email! } })
  await teams.assign({ ...team, api, pool } as never, { customer_id: plain.id })
  await api.call(createCustomerSession, { body: { customer_id } })
  expect(await found()).toEqual({
    fetched_holder: [2, 'customers:get_external'],
    filtered_by_holder: [4, 'customers:list'],
    assigned_by_customer: [1, 'customer-seats:assign_seat'],
    session_without_member: [1, 'customer-sessions:create'],
  })
  expect(await report(token.id)).toMatchObject({ ready: false, items: [{ ready: false }] })
  await world.database.owner((owner) =>
    owner.query(`update member_readiness set last_seen_at = $2 where organization_id = $1`, [
      organization.id,
      new Date(world.clock.wall().getTime() - 8 * days),
    ]),
  )
  expect((await report(token.id)).items[0]).toMatchObject({ ready: true, because: { length: 4 } })
})

test('records findings per user, personal token and app, and judges a webhook endpoint by its subscribed events', async () => {
  const { api, shop, found, report, token, holder_id, organization } = await open()
  const other = await world.organization()
  const person = await world.person()
  await world.join(organization.id, person.id, 'admin')
  await world.join(other.id, person.id, 'admin')
  const own = await person.token()
  const asks = { params: { id: holder_id } }
  await world.client({ token: own.secret }).call(getCustomer, asks)
  await world.client({ cookie: await person.cookie() }).call(getCustomer, asks)
  await world.client({ cookie: await person.cookie() }).call(getCustomer, asks)
  expect(await found(own.id)).toEqual({ fetched_holder: [1, 'customers:get'] })
  expect(await found(person.id)).toEqual({ fetched_holder: [2, 'customers:get'] })
  const asApp = await openGrant(world, person.id, [organization.id])
  await world.client({ token: await asApp([...scopes]) }).call(getCustomer, asks)
  await world.client({ token: await asApp([...scopes]) }).call(getCustomer, asks)
  const apps = (await report()).items.filter(({ kind }) => kind === 'oauth_client')
  expect(apps).toMatchObject([{ name: 'Ledgerly', ready: false, because: [{ finding: 'fetched_holder', count: 2 }] }])
  expect(await found()).toEqual({})
  const byPerson = world.client({ token: own.secret })
  expect((await byPerson.call(getMemberReadiness, { query: { organization_id: other.id } })).items).toEqual([])

  const endpoint = (events: string[]) => api.call(createWebhookEndpoint, { body: { url: 'https://example.com/hooks', format: 'raw', events: events as never } })
  const [deaf, hearing, apart] = [
    await endpoint(['order.paid', 'customer_seat.claimed']),
    await endpoint(['benefit_grant.created', 'member.created']),
    await endpoint(['order.paid']),
  ]
  expect((await report(deaf.id)).items).toMatchObject([
    {
      kind: 'webhook_endpoint',
      name: 'https://example.com/hooks',
      ready: false,
      because: [{ finding: 'listens_without_members', sample: 'customer_seat.claimed' }],
    },
  ])
  for (const { id } of [hearing, apart]) expect((await report(id)).items).toMatchObject([{ ready: true, because: [] }])

  const helper = await world.person()
  await world.join(organization.id, helper.id, 'member')
  const refused = await world.client({ token: (await helper.token()).secret }).send(getMemberReadiness, { query: {} })
  expect(refused.status).toBe(403)
  expect((await byPerson.sendRaw(getMemberReadiness, {})).status).toBe(422)

  await api.call(getCustomer, asks)
  expect((await report(token.id)).items.length).toBe(1)
  await world.client({ cookie: await person.cookie() }).call(revokeOrganizationToken, { params: { id: token.id } })
  await world.api.readiness.flush()
  expect((await shop.api.call(getMemberReadiness, { query: {} })).items.some(({ id }) => id === token.id)).toBe(false)
})

test('records readiness findings in phase 1 only, and none for requests with the look-ahead header', async () => {
  for (const phase of ['before', 'phase2'] as const) {
    const { api, found, holder_id } = await open(phase)
    await api.send(getCustomer, { params: { id: holder_id } })
    expect(await found()).toEqual({})
  }
  const { api, found, holder_id, customer_id } = await open()
  const headers = { 'bursar-member-phase': '2' }
  await api.send(getCustomer, { params: { id: holder_id }, headers })
  await api.call(listBenefitGrants, { query: { customer_id: [customer_id] }, headers })
  expect(await found()).toEqual({})
})

test('recording a finding adds no SQL statement to a request, and all findings are written in one statement', async () => {
  const { api, shop, holder_id } = await open('before')
  const ask = () => statementsOf(() => api.call(getCustomer, { params: { id: holder_id } }))
  await ask()
  const before = (await ask()).statements
  await shop.phase('phase1')
  const noted = (await ask()).statements
  expect(noted.map(({ text }) => text)).toEqual(before.map(({ text }) => text))
  await ask()
  const { statements } = await statementsOf(() => world.api.readiness.flush())
  expect(statements.filter(({ text }) => text.includes('member_readiness'))).toHaveLength(1)
  expect(statements.filter(({ text }) => !/^(begin|commit|start|set)/i.test(text.trim()))).toHaveLength(1)
  expect((await statementsOf(() => world.api.readiness.flush())).statements).toEqual([])
})
