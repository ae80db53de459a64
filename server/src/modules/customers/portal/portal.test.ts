import {
  addPortalMember,
  checkEmailUpdate,
  createCustomer,
  createCustomerSession,
  createMember,
  createProduct,
  deleteCustomer,
  deleteMember,
  getCustomer,
  getMember,
  getPortalCustomer,
  getPortalOrganization,
  getPortalUser,
  listCustomerMembers,
  listPortalMembers,
  listPortalPaymentMethods,
  operations,
  removePortalMember,
  requestEmailUpdate,
  updateCustomer,
  updateMember,
  updateOrganization,
  updatePortalCustomer,
  updatePortalMember,
  verifyEmailUpdate,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { killLeaked } from '../../identity/leaks/leaks.ts'
import { newId } from '../../../kernel/ids.ts'
import { eventually, exchange, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const roles = ['owner', 'billing_manager', 'member'] as const

/** A team with one member of each role, and a portal client for each of them. */
const team = async () => {
  const shop = await world.shop()
  const { api } = shop
  const customer = await api.call(createCustomer, {
    body: {
      type: 'team',
      email: 'billing@people.test',
      name: 'Works',
      owner: { email: 'owner@people.test', name: 'Olga' },
      billing_address: { country: 'DE', city: 'Berlin', line1: 'Hidden Street 1' },
      tax_id: 'DE136695976',
    },
  })
  const params = { id: customer.id }
  await api.call(createMember, { params, body: { email: 'manager@people.test', role: 'billing_manager' } })
  await api.call(createMember, { params, body: { email: 'plain@people.test', name: 'Paula' } })
  const members = (await api.call(listCustomerMembers, { params, query: { sorting: 'created_at' } })).items
  const sessions = await Promise.all(members.map(({ id }) => api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: id } })))
  const of = <T>(list: readonly T[]) => ({ owner: list[0]!, billing_manager: list[1]!, member: list[2]! })
  return { ...shop, customer, people: of(members), portal: of(sessions.map(({ token }) => world.client({ token }))) }
}

test('payers see and edit billing details, and a plain member sees only which customer they belong to', async () => {
  const { portal, customer, events } = await team()
  for (const role of ['owner', 'billing_manager'] as const)
    expect(await portal[role].call(getPortalCustomer, {})).toMatchObject({
      id: customer.id,
      email: 'billing@people.test',
      billing_address: { line1: 'Hidden Street 1' },
      tax_id: ['DE136695976', 'eu_vat'],
      type: 'team',
    })
  expect(await portal.member.call(getPortalCustomer, {})).toEqual({
    id: customer.id,
    created_at: customer.created_at,
    modified_at: null,
    name: 'Works',
    type: 'team',
    locale: null,
    oauth_accounts: {},
    email: null,
    email_verified: false,
    billing_name: null,
    billing_address: null,
    tax_id: null,
    default_payment_method_id: null,
  })
  const changed = await portal.billing_manager.call(updatePortalCustomer, {
    body: { billing_name: 'Works Ltd', billing_address: { country: 'GB' }, tax_id: 'GB 980 7806 84' },
  })
  expect(changed).toMatchObject({ billing_name: 'Works Ltd', name: 'Works', billing_address: { country: 'GB' }, tax_id: ['GB980780684', 'gb_vat'] })
  expect((await events('customer.updated')).map(({ data }) => data.billing_name)).toEqual(['Works Ltd'])
  for (const body of [
    { billing_address: null },
    { tax_id: 'x' },
    { default_payment_method_id: newId(world.clock.wall()) },
    { default_payment_method_id: null },
  ])
    expect((await portal.owner.sendRaw(updatePortalCustomer, { body })).status).toBe(422)
  expect((await portal.owner.call(listPortalPaymentMethods, {})).items).toEqual([])
})

test('a plain member is refused every team operation and never sees colleagues, payments or addresses', async () => {
  const { portal, people, customer } = await team()
  const own = new Set([
    'customer_portal:customers:get',
    'customer_portal:customer-session:introspect',
    'customer_portal:customer-session:get_authenticated_user',
    'customer_portal:customer-session:end',
    'customer_portal:seats:list_claimed_subscriptions',
    'customer_portal:benefit-grants:list',
    'customer_portal:downloadables:list',
    'customer_portal:license_keys:list',
  ])
  // These operations are allowed for a member's own records. A colleague's record gets 404, like an unknown one.
  const ofOthers = new Set([
    'customer_portal:benefit-grants:get',
    'customer_portal:benefit-grants:update',
    'customer_portal:license_keys:get',
    'customer_portal:license_keys:rotate',
  ])
  const bodies: Record<string, unknown> = {
    'customer_portal:customers:update': { billing_name: 'X' },
    'customer_portal:customers:request_email_update': { email: 'x@people.test' },
    'customer_portal:customers:add_payment_method': { confirmation_token_id: 'tok_visa', set_default: true, return_url: 'https://shop.example' },
    'customer_portal:customers:confirm_payment_method': { setup_intent_id: 'x', set_default: true },
    'customer_portal:members:add_member': { email: 'x@people.test', role: 'owner' },
    'customer_portal:members:update_member': { name: 'X' },
    'customer_portal:orders:update': { billing_name: 'X' },
    'customer_portal:orders:confirm_retry_payment': { confirmation_token_id: 'tok_visa' },
    'customer_portal:subscriptions:update': { cancel_at_period_end: true },
    'customer_portal:subscriptions:preview': { seats: 2 },
    'customer_portal:benefit-grants:update': { benefit_type: 'custom' },
    'customer_portal:seats:assign_seat': { subscription_id: people.owner.id, email: 'x@people.test' },
  }
  let refused = 0
  for (const operation of operations.filter(({ access }) => access.kind === 'portal')) {
    if (operation.id === 'customer_portal:customer-session:end') continue
    const answer = await portal.member.sendRaw(operation, {
      params: { id: people.owner.id, seat_id: people.owner.id, refund_id: people.owner.id },
      ...(operation.id === 'customer_portal:seats:list_seats' ? { query: { subscription_id: people.owner.id } } : {}),
      ...(operation.body ? { body: bodies[operation.id] } : {}),
    })
    const shown = JSON.stringify(answer.body)
    for (const secret of ['owner@people.test', 'manager@people.test', 'billing@people.test', 'Hidden Street', 'DE136695976'])
      expect(shown).not.toContain(secret)
    if (own.has(operation.id)) expect([operation.id, answer.status]).toEqual([operation.id, 200])
    else if (ofOthers.has(operation.id)) expect([operation.id, answer.status]).toEqual([operation.id, 404])
    else expect([operation.id, answer.status, (answer.body as { error: string }).error, refused++]).toEqual([operation.id, 403, 'NotPermitted', refused - 1])
  }
  expect(refused).toBeGreaterThanOrEqual(7)
  expect(await portal.member.call(getPortalUser, {})).toMatchObject({ name: 'Paula', email: 'plain@people.test', customer_id: customer.id })
})

test('owners and billing managers manage the team within their permissions', async () => {
  const { portal, people, events } = await team()
  for (const role of ['owner', 'billing_manager'] as const)
    expect((await portal[role].call(listPortalMembers, { query: { limit: '2' } })).pagination).toMatchObject({ total_count: 3, max_page: 2 })
  const added = await portal.billing_manager.call(addPortalMember, { body: { email: 'new@people.test', name: 'New' } })
  expect(added).toEqual({ id: added.id, created_at: added.created_at, modified_at: null, email: 'new@people.test', name: 'New', role: 'member' })
  expect(await portal.owner.call(addPortalMember, { body: { email: 'NEW@people.test', role: 'billing_manager' } })).toEqual(added)
  expect((await events('member.created')).map(({ data }) => data.email)).toContain('new@people.test')
  const change = (who: (typeof roles)[number], id: string, body: object) => portal[who].sendRaw(updatePortalMember, { params: { id }, body })
  expect(await change('billing_manager', added.id, { role: 'billing_manager' })).toMatchObject({ status: 200, body: { role: 'billing_manager' } })
  expect(await change('billing_manager', people.billing_manager.id, { name: 'Mona' })).toMatchObject({ status: 200, body: { name: 'Mona' } })
  expect(await change('billing_manager', people.billing_manager.id, { role: 'member' })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'role'] }] },
  })
  expect(await change('billing_manager', added.id, { role: 'owner' })).toMatchObject({ status: 403 })
  expect(await change('billing_manager', people.owner.id, { role: 'member' })).toMatchObject({ status: 422 })
  expect((await portal.owner.sendRaw(addPortalMember, { body: { email: 'second@people.test', role: 'owner' } })).status).toBe(422)
  const drop = async (who: (typeof roles)[number], id: string) => (await portal[who].send(removePortalMember, { params: { id } })).status
  expect(await drop('billing_manager', people.billing_manager.id)).toBe(422)
  expect(await drop('billing_manager', people.owner.id)).toBe(422)
  expect(await drop('owner', added.id)).toBe(204)
  expect(await drop('owner', added.id)).toBe(404)
  expect(await change('owner', people.member.id, { role: 'owner' })).toMatchObject({ status: 200, body: { role: 'owner' } })
  // After the transfer, the previous owner's existing session no longer has the permission.
  expect(await change('owner', people.billing_manager.id, { role: 'owner' })).toMatchObject({ status: 403 })
  expect(await portal.owner.call(getPortalUser, {})).toMatchObject({ role: 'billing_manager' })
  const other = await team()
  for (const id of [other.people.member.id, newId(world.clock.wall())]) {
    expect((await change('owner', id, { name: 'X' })).status).toBe(404)
    expect(await drop('owner', id)).toBe(404)
  }
})

test('an individual customer has no team, and a session without a member cannot manage one', async () => {
  const { api, phase } = await world.shop()
  const solo = await api.call(createCustomer, { body: { email: 'solo@people.test' } })
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: solo.id } })).token })
  expect((await portal.send(listPortalMembers, {})).status).toBe(403)
  expect((await portal.send(addPortalMember, { body: { email: 'friend@people.test' } })).status).toBe(403)
  await phase('phase1')
  const legacy = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: solo.id } })).token })
  expect((await legacy.send(listPortalMembers, {})).status).toBe(401)
  expect(await legacy.call(getPortalCustomer, {})).toMatchObject({ email: 'solo@people.test' })
})

test('a change of a member’s role and a deletion of the member take effect with the next request of an existing session', async () => {
  const { api, portal, people, customer } = await team()
  await api.call(updateMember, { params: { id: customer.id, member_id: people.billing_manager.id }, body: { role: 'member' } })
  expect((await portal.billing_manager.send(listPortalMembers, {})).status).toBe(403)
  await api.call(deleteMember, { params: { id: customer.id, member_id: people.billing_manager.id } })
  expect((await portal.billing_manager.send(getPortalUser, {})).status).toBe(401)
})

const allowChange = (shop: Awaited<ReturnType<typeof team>>) =>
  shop.api.call(updateOrganization, {
    params: { id: shop.organization.id },
    body: {
      customer_portal_settings: { usage: { show: true }, subscription: { update_seats: true, update_plan: true }, customer: { allow_email_change: true } },
    },
  })
const tokenIn = (text: string) => /token=(\S+)/.exec(text)![1]!

test('changes the customer’s email address once, after the link sent to the new address is opened, and notifies the old address', async () => {
  const shop = await team()
  const { api, portal, customer, events } = shop
  const wish = { body: { email: 'fresh@people.test' } }
  expect((await portal.owner.send(requestEmailUpdate, wish)).status).toBe(403)
  await allowChange(shop)
  expect((await portal.owner.send(requestEmailUpdate, wish)).status).toBe(202)
  const stale = tokenIn((await world.mail.next('fresh@people.test')).text)
  expect((await portal.billing_manager.send(requestEmailUpdate, wish)).status).toBe(202)
  const token = tokenIn((await world.mail.next('fresh@people.test')).text)
  const open = world.client()
  const check = async (given: string) => (await open.send(checkEmailUpdate, { query: { token: given } })).status
  expect([await check(token), await check(token), await check(stale), await check('x')]).toEqual([204, 204, 401, 401])
  expect(await api.call(getCustomer, { params: { id: customer.id } })).toMatchObject({ email: 'billing@people.test' })
  const tries = await Promise.all(Array.from({ length: 4 }, () => open.send(verifyEmailUpdate, { body: { token } })))
  expect(tries.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401, 401, 401])
  const { body } = tries.find(({ status }) => status === 200)!
  // No member has the new address of the team. The link proves only access to the mailbox, so no session is opened.
  expect(body.token).toBe('')
  expect(await api.call(getCustomer, { params: { id: customer.id } })).toMatchObject({ email: 'fresh@people.test', email_verified: true })
  expect((await world.mail.next('billing@people.test')).subject).toContain('wurde geändert')
  expect(await check(token)).toBe(401)
  expect((await events('customer.updated')).map(({ data }) => data.email)).toEqual(['fresh@people.test'])
})

test('an address change also applies to an individual’s owner, and its link is rejected after an hour or if the requester lost permission', async () => {
  const shop = await team()
  const { api, portal, customer, people } = shop
  await allowChange(shop)
  const solo = await api.call(createCustomer, { body: { email: 'me@people.test' } })
  const me = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: solo.id } })).token })
  await me.call(requestEmailUpdate, { body: { email: 'me2@people.test' } })
  const { token } = await world.client().call(verifyEmailUpdate, { body: { token: tokenIn((await world.mail.next('me2@people.test')).text) } })
  const who = await world.client({ token }).call(getPortalUser, {})
  expect(who).toMatchObject({ email: 'me2@people.test', customer_id: solo.id })
  expect(await api.call(getMember, { params: { id: solo.id, member_id: who.member_id! } })).toMatchObject({ email: 'me2@people.test' })
  await portal.billing_manager.call(requestEmailUpdate, { body: { email: 'late@people.test' } })
  const lost = tokenIn((await world.mail.next('late@people.test')).text)
  await api.call(updateMember, { params: { id: customer.id, member_id: people.billing_manager.id }, body: { role: 'member' } })
  expect((await world.client().send(verifyEmailUpdate, { body: { token: lost } })).status).toBe(401)
  await portal.owner.call(requestEmailUpdate, { body: { email: 'later@people.test' } })
  const late = tokenIn((await world.mail.next('later@people.test')).text)
  world.clock.advance(3_600_000)
  expect((await world.client().send(checkEmailUpdate, { query: { token: late } })).status).toBe(401)
  expect((await world.client().send(verifyEmailUpdate, { body: { token: late } })).status).toBe(401)
})

test('rejects an address change link after a leaked session, another address change, a setting that forbids changes, or a deleted customer', async () => {
  const shop = await team()
  const { api, organization } = shop
  await allowChange(shop)
  let serial = 0
  const wish = async () => {
    const at = serial++
    const customer = await api.call(createCustomer, { body: { email: `wish-${at}@people.test` } })
    const session = await api.call(createCustomerSession, { body: { customer_id: customer.id } })
    await world.client({ token: session.token }).call(requestEmailUpdate, { body: { email: `granted-${at}@people.test` } })
    return { customer, session, token: tokenIn((await world.mail.next(`granted-${at}@people.test`)).text) }
  }
  const dead = async (token: string) => {
    expect((await world.client().send(checkEmailUpdate, { query: { token } })).status).toBe(401)
    expect((await world.client().send(verifyEmailUpdate, { body: { token } })).status).toBe(401)
  }
  const gone = await wish()
  await api.call(deleteCustomer, { params: { id: gone.customer.id } })
  await dead(gone.token)
  const moved = await wish()
  await api.call(updateCustomer, { params: { id: moved.customer.id }, body: { email: 'moved@people.test' } })
  await dead(moved.token)
  const leaked = await wish()
  await world.transact((tx) => killLeaked(tx, world.platform, { token: leaked.session.token, type: 'any' }))
  await world.mail.next(leaked.customer.email!)
  await dead(leaked.token)
  const refused = await wish()
  await api.call(updateOrganization, {
    params: { id: organization.id },
    body: {
      customer_portal_settings: { usage: { show: true }, subscription: { update_seats: true, update_plan: true }, customer: { allow_email_change: false } },
    },
  })
  await dead(refused.token)
})

test('limits the number of requested email address changes per customer and hour', async () => {
  const shop = await team()
  await allowChange(shop)
  for (let round = 0; round < 5; round++) await shop.portal.owner.call(requestEmailUpdate, { body: { email: `target-${round}@people.test` } })
  const answer = await shop.portal.billing_manager.send(requestEmailUpdate, { body: { email: 'target-5@people.test' } })
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '3600'])
})

test('a request for a new email address does not reveal whether it is taken, and only the mailed link does', async () => {
  const shop = await team()
  const { api, portal } = shop
  await allowChange(shop)
  await api.call(createCustomer, { body: { email: 'taken@people.test' } })
  const answers = [
    await portal.owner.send(requestEmailUpdate, { body: { email: 'taken@people.test' } }),
    await portal.owner.send(requestEmailUpdate, { body: { email: 'soon@people.test' } }),
  ]
  expect(answers.map(({ status, body }) => [status, body])).toEqual([
    [202, {}],
    [202, {}],
  ])
  const token = tokenIn((await world.mail.next('soon@people.test')).text)
  await eventually(
    'every job has run',
    async () => (await world.database.owner((owner) => owner.query('select 1 from graphile_worker._private_jobs'))).rows.length === 0,
  )
  expect(world.mail.letters.filter(({ to }) => to === 'taken@people.test')).toEqual([])
  await api.call(createCustomer, { body: { email: 'Soon@people.test' } })
  expect(await world.client().send(verifyEmailUpdate, { body: { token } })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'token'] }] } })
})

test('shows a seller and its public products by slug, without authentication', async () => {
  const { api, organization } = await world.shop()
  const price = [{ amount_type: 'fixed' as const, price_amount: 1000 }]
  const shown = await api.call(createProduct, { body: { name: 'Public', prices: price } })
  await api.call(createProduct, { body: { name: 'Private', visibility: 'private', prices: price } })
  const open = world.client()
  const seen = await open.call(getPortalOrganization, { params: { slug: organization.slug } })
  expect(seen.organization).toMatchObject({ id: organization.id, slug: organization.slug, organization_features: { member_model_enabled: true } })
  expect(Object.keys(seen.organization)).not.toContain('email')
  expect(seen.products.map(({ id }) => id)).toEqual([shown.id])
  expect((await open.send(getPortalOrganization, { params: { slug: 'nobody-here' } })).status).toBe(404)
  await world.database.owner((owner) => owner.query(`update organizations set status = 'blocked' where id = $1`, [organization.id]))
  expect((await open.send(getPortalOrganization, { params: { slug: organization.slug } })).status).toBe(404)
})

test('the portal allows cross-origin requests from any site, without credentials', async () => {
  const answer = await exchange(world.port, 'GET', '/v1/customer-portal/customers/me', { origin: 'https://shop.test' })
  expect([answer.status, answer.headers.get('access-control-allow-origin'), answer.headers.get('access-control-allow-credentials')]).toEqual([401, '*', null])
})
