import {
  authenticatePortalCode,
  createCustomer,
  createCustomerSession,
  createMember,
  deleteCustomer,
  deleteMember,
  endCustomerSession,
  exchangePortalCode,
  getCustomer,
  getPortalCustomer,
  getPortalUser,
  introspectCustomerSession,
  listCustomerMembers,
  listCustomers,
  listPortalMembers,
  operations,
  removePortalMember,
  reportLeaks,
  requestPortalCode,
  updateCustomer,
  updatePortalMember,
} from '@bursar/contract'
import { generateKeyPairSync, sign } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Hasher, Secret } from '../../../kernel/secrets.ts'
import { newId } from '../../../kernel/ids.ts'
import { codeIn, otherCode } from '../../../../test/harness/mail.ts'
import { eventually, exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { purge } from './sessions.ts'

const scanner = generateKeyPairSync('ec', { namedCurve: 'P-256' })
let world: World
beforeAll(async () => {
  world = await openWorld({
    worker: true,
    settings: { BURSAR_SCANNING_KEYS: JSON.stringify({ k1: scanner.publicKey.export({ type: 'spki', format: 'pem' }) }) },
  })
})
afterAll(() => world.close())

const minute = 60_000
const codeOf = (url: string) => new URL(url).searchParams.get('code')!

const team = async () => {
  const shop = await world.shop()
  const customer = await shop.api.call(createCustomer, { body: { type: 'team', email: 'pay@people.test', external_id: 'works' } })
  const member = await shop.api.call(createMember, { params: { id: customer.id }, body: { email: 'uma@people.test', name: 'Uma', external_id: 'uma' } })
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: customer.id }, query: { role: 'owner' } })).items
  const session = async (member_id: string) => (await shop.api.call(createCustomerSession, { body: { customer_id: customer.id, member_id } })).token
  return { ...shop, customer, member, owner: owner!, session }
}

test('a server creates a session, and the browser uses its token in the portal [S1-07] [S2-04] [S4-28]', async () => {
  const { api, customer, member, organization } = await team()
  for (const naming of [
    { customer_id: customer.id, member_id: member.id },
    { customer_id: customer.id, external_member_id: 'uma' },
    { external_customer_id: 'works', member_id: member.id },
    { customer_external_id: 'works', external_member_id: 'uma' },
  ]) {
    const made = await api.call(createCustomerSession, { body: { ...naming, return_url: 'https://shop.test/back' } })
    expect(made).toMatchObject({ customer_id: customer.id, customer, return_url: 'https://shop.test/back', modified_at: null })
    expect(made.token).toMatch(/^bursar_test_mst_/)
    expect(Date.parse(made.expires_at) - Date.parse(made.created_at)).toBe(60 * minute)
    expect(made.customer_portal_url).toMatch(new RegExp(`^https://bursar\\.test/${organization.slug}/portal\\?code=bursar_test_cpc_\\w{43}$`))
    expect(made.customer_portal_url).not.toContain(made.token)
    const portal = world.client({ token: made.token })
    expect(await portal.call(getPortalUser, {})).toEqual({
      type: 'member',
      has_team: true,
      name: 'Uma',
      email: 'uma@people.test',
      customer_id: customer.id,
      member_id: member.id,
      role: 'member',
    })
    expect(await portal.call(introspectCustomerSession, {})).toEqual({ expires_at: made.expires_at, return_url: 'https://shop.test/back' })
  }
  const { rows } = await world.database.owner((owner) => owner.query('select * from credentials where organization_id = $1', [organization.id]))
  expect(JSON.stringify(rows)).not.toContain('_mst_')
})

test('a session of a team needs a member, a session of an individual uses the owner, and errors name the invalid field [S4-28] [S4-29]', async () => {
  const { api, customer, member } = await team()
  const solo = await api.call(createCustomer, { body: { email: 'solo@people.test', name: 'Solo' } })
  const made = await api.call(createCustomerSession, { body: { customer_id: solo.id } })
  expect(await world.client({ token: made.token }).call(getPortalUser, {})).toMatchObject({
    role: 'owner',
    email: 'solo@people.test',
    customer_id: solo.id,
    has_team: false,
  })
  const other = await team()
  const refused = async (body: object, ...fields: string[]) => {
    const answer = await api.sendRaw(createCustomerSession, { body })
    expect([answer.status, (answer.body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc[1])]).toEqual([422, fields])
  }
  await refused({ customer_id: customer.id }, 'member_id')
  await refused({ customer_id: customer.id, member_id: member.id, external_member_id: 'uma' }, 'external_member_id')
  await refused({ customer_id: customer.id, member_id: other.member.id }, 'member_id')
  await refused({ customer_id: solo.id, member_id: member.id }, 'member_id')
  await refused({ customer_id: customer.id, external_member_id: 'nobody' }, 'external_member_id')
  await refused({ customer_id: other.customer.id }, 'customer_id')
  await refused({ customer_id: newId(world.clock.wall()) }, 'customer_id')
  await refused({ external_customer_id: 'nobody' }, 'external_customer_id')
  await refused({ customer_id: solo.id, external_customer_id: 'works' }, 'external_customer_id')
  await refused({ customer_id: solo.id, customer_external_id: 'works' }, 'customer_external_id')
  await refused({}, 'customer_id')
  await refused({ customer_id: customer.id, member_id: member.id, return_url: 'javascript:alert(1)' }, 'return_url')
})

test('before phase 2, a session belongs to the customer unless the request names a member', async () => {
  const { api, customer, member, phase } = await team()
  for (const early of ['before', 'phase1'] as const) {
    await phase(early)
    const own = await api.call(createCustomerSession, { body: { customer_id: customer.id } })
    expect(own.token).toMatch(/^bursar_test_cst_/)
    expect(await world.client({ token: own.token }).call(getPortalUser, {})).toEqual({
      type: 'customer',
      has_team: true,
      name: null,
      email: 'pay@people.test',
      customer_id: customer.id,
      member_id: null,
      role: null,
    })
    const named = await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: member.id } })
    expect(await world.client({ token: named.token }).call(getPortalUser, {})).toMatchObject({ type: 'member', member_id: member.id })
  }
})

test('a portal session expires after an hour, and is rejected when its member or customer is deleted or its seller is blocked', async () => {
  const { api, customer, member, organization, session } = await team()
  const uma = world.client({ token: await session(member.id) })
  const look = async () => (await uma.send(getPortalUser, {})).status
  expect(await look()).toBe(200)
  await world.database.owner((owner) => owner.query(`update organizations set status = 'blocked' where id = $1`, [organization.id]))
  expect(await look()).toBe(401)
  await world.database.owner((owner) => owner.query(`update organizations set status = 'active' where id = $1`, [organization.id]))
  expect(await look()).toBe(200)
  world.clock.advance(59 * minute)
  expect(await look()).toBe(200)
  world.clock.advance(1 * minute)
  expect(await look()).toBe(401)
  const again = world.client({ token: await session(member.id) })
  await api.call(deleteMember, { params: { id: customer.id, member_id: member.id } })
  expect((await again.send(getPortalUser, {})).status).toBe(401)
  const solo = await api.call(createCustomer, { body: { email: 'solo@people.test' } })
  const last = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: solo.id } })).token })
  expect((await last.send(getPortalUser, {})).status).toBe(200)
  await api.call(deleteCustomer, { params: { id: solo.id } })
  expect((await last.send(getPortalUser, {})).status).toBe(401)
})

test('a portal code can be exchanged once, even by concurrent requests, for a cookie with a token of its own', async () => {
  const { api, customer, member, organization } = await team()
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  const made = await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: member.id, return_url: 'https://shop.test/' } })
  const code = codeOf(made.customer_portal_url)
  const open = world.client()
  const tries = await Promise.all(Array.from({ length: 5 }, () => open.send(exchangePortalCode, { body: { code } })))
  expect(tries.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401, 401, 401, 401])
  const won = tries.find(({ status }) => status === 200)!
  expect(won.body).toEqual({ expires_at: made.expires_at, return_url: 'https://shop.test/' })
  const header = won.headers.get('set-cookie')!
  expect(header).toMatch(
    new RegExp(`^__Host-bursar_sandbox_portal_${organization.id}=bursar_test_mst_\\w{43}; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600; Secure$`),
  )
  expect(header).not.toContain(made.token)
  const cookie = header.split(';')[0]!
  const page = world.client({ cookie })
  expect(await page.call(getPortalUser, {})).toMatchObject({ member_id: member.id })
  // A session token is not accepted as a portal code, nor a code as a token. An unknown code is rejected.
  for (const wrong of [made.token, code, 'x']) expect((await open.send(exchangePortalCode, { body: { code: wrong } })).status).toBe(401)
  expect((await world.client({ token: code }).send(getPortalUser, {})).status).toBe(401)
  // Signing out revokes the cookie and the token of the session.
  const forged = await exchange(world.port, 'DELETE', '/v1/customer-portal/customer-session', { cookie })
  expect(forged.status).toBe(403)
  const left = await page.send(endCustomerSession, {})
  expect([left.status, left.headers.get('set-cookie')]).toEqual([204, expect.stringContaining('Max-Age=0')])
  expect((await page.send(getPortalUser, {})).status).toBe(401)
  expect((await world.client({ token: made.token }).send(getPortalUser, {})).status).toBe(401)
})

test('portal codes and cookies are rejected after their member is deleted, and a code after its session has expired', async () => {
  const { api, customer, member } = await team()
  const make = () => api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: member.id } })
  const trade = (url: string) => world.client().send(exchangePortalCode, { body: { code: codeOf(url) } })
  const old = await make()
  world.clock.advance(60 * minute)
  expect((await trade(old.customer_portal_url)).status).toBe(401)
  const [used, unused] = [await make(), await make()]
  const cookie = (await trade(used.customer_portal_url)).headers.get('set-cookie')!.split(';')[0]!
  expect((await world.client({ cookie }).send(getPortalUser, {})).status).toBe(200)
  await api.call(deleteMember, { params: { id: customer.id, member_id: member.id } })
  expect((await world.client({ cookie }).send(getPortalUser, {})).status).toBe(401)
  expect((await trade(unused.customer_portal_url)).status).toBe(401)
})

test('a request with the cookies of two portals must name the organization in a header', async () => {
  const [one, two] = [await team(), await team()]
  const cookieOf = async (at: typeof one) => {
    const made = await at.api.call(createCustomerSession, { body: { customer_id: at.customer.id, member_id: at.member.id } })
    const answer = await world.client().send(exchangePortalCode, { body: { code: codeOf(made.customer_portal_url) } })
    return answer.headers.get('set-cookie')!.split(';')[0]!
  }
  const cookie = `${await cookieOf(one)}; ${await cookieOf(two)}`
  expect((await world.client({ cookie }).send(getPortalUser, {})).status).toBe(401)
  for (const { organization, customer } of [one, two])
    expect(await world.client({ cookie }, { 'bursar-organization': organization.id }).call(getPortalUser, {})).toMatchObject({ customer_id: customer.id })
})

test('portal session tokens work only for portal operations, and all other tokens only for other operations [S1-03] [S1-04] [S1-05] [S5-11]', async () => {
  const { api, customer, owner, session, phase, organization } = await team()
  const member = await session(owner.id)
  await phase('phase1')
  const legacy = (await api.call(createCustomerSession, { body: { customer_id: customer.id } })).token
  await phase('phase2')
  const person = await world.person()
  const merchant = [(await organization.token()).secret.reveal(), (await person.token()).secret.reveal()]
  const id = newId(world.clock.wall())
  const refused = async (token: string, { method, path, body }: (typeof operations)[number]) => {
    const answer = await exchange(
      world.port,
      method,
      path.replace(/\{[^}]+\}/g, id),
      { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      body ? '{}' : undefined,
    )
    expect([path, answer.status, answer.headers.has('www-authenticate')]).toEqual([path, 401, true])
  }
  let [outside, inside] = [0, 0]
  for (const operation of operations) {
    if (['open', 'visitor', 'protocol'].includes(operation.access.kind) && operation.id !== 'oauth2:userinfo') continue
    if (operation.access.kind === 'portal') for (const token of merchant) await refused(token, operation).then(() => inside++)
    else for (const token of [member, legacy]) await refused(token, operation).then(() => outside++)
  }
  expect(outside).toBeGreaterThan(60)
  expect(inside).toBeGreaterThan(15)
  // A session sees only its own customer: neither another seller's customer nor another customer of the same seller.
  const other = await team()
  const next = await api.call(createCustomer, { body: { type: 'team', email: 'next@people.test' } })
  const [neighbour] = (await api.call(listCustomerMembers, { params: { id: next.id } })).items
  const beside = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: next.id, member_id: neighbour!.id } })).token })
  expect(await beside.call(getPortalCustomer, {})).toMatchObject({ id: next.id })
  expect((await beside.call(listPortalMembers, {})).items.map(({ email }) => email)).toEqual(['next@people.test'])
  expect((await beside.send(updatePortalMember, { params: { id: owner.id }, body: { name: 'X' } })).status).toBe(404)
  expect((await beside.send(removePortalMember, { params: { id: owner.id } })).status).toBe(404)
  // A dashboard cookie is not accepted in the portal, nor a portal cookie outside of it.
  const staff = world.client({ cookie: await (await world.person()).cookie() })
  expect((await staff.send(getPortalCustomer, {})).status).toBe(401)
  const made = await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: owner.id } })
  const cookie = (await world.client().send(exchangePortalCode, { body: { code: codeOf(made.customer_portal_url) } })).headers.get('set-cookie')!.split(';')[0]!
  expect((await world.client({ cookie }).send(listCustomers, {})).status).toBe(401)
  const disguised = cookie.replace(/^[^=]+/, '__Host-bursar_sandbox_session')
  expect((await world.client({ cookie: disguised }).send(listCustomers, {})).status).toBe(401)
  expect(await world.client({ token: member }).call(getPortalCustomer, {})).toMatchObject({ id: customer.id })
  expect(await world.client({ token: await other.session(other.owner.id) }).call(getPortalCustomer, {})).toMatchObject({ id: other.customer.id })
  expect((await world.client({ token: member }, { 'bursar-organization': other.organization.id }).send(getPortalCustomer, {})).status).toBe(401)
})

const ask = async (organization_id: string, email: string) => {
  expect((await world.client().send(requestPortalCode, { body: { organization_id, email } })).status).toBe(202)
  return codeIn((await world.mail.next(email.toLowerCase())).text)
}
const enter = (organization_id: string, email: string, code: string, customer_id?: string) =>
  world.client().send(authenticatePortalCode, { body: { organization_id, email, code, ...(customer_id ? { customer_id } : {}) } })
const quiet = () =>
  eventually(
    'every job has run',
    async () => (await world.database.owner((owner) => owner.query('select 1 from graphile_worker._private_jobs'))).rows.length === 0,
  )

test('a person signs in to the portal with a mailed code, which marks the address as verified', async () => {
  const { api, organization, events } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'self@people.test', name: 'Self' } })
  const code = await ask(organization.id, 'SELF@people.test')
  const answer = await enter(organization.id, 'self@people.test', code)
  expect(answer).toMatchObject({ status: 200, body: { customers: [] } })
  expect(await world.client({ token: answer.body.token! }).call(getPortalUser, {})).toMatchObject({ type: 'member', role: 'owner', customer_id: customer.id })
  expect(await api.call(getCustomer, { params: { id: customer.id } })).toMatchObject({ email_verified: true })
  expect((await events('customer.updated')).map(({ data }) => data.email_verified)).toEqual([true])
  expect((await enter(organization.id, 'self@people.test', code)).status).toBe(401)
  await api.call(updateCustomer, { params: { id: customer.id }, body: { email: 'moved@people.test' } })
  expect(await api.call(getCustomer, { params: { id: customer.id } })).toMatchObject({ email_verified: false })
})

test('a code request for an unknown address or seller gets the same answer as for a known one, but sends no mail', async () => {
  const { api, organization } = await world.shop()
  await api.call(createCustomer, { body: { email: 'known@people.test' } })
  const send = (organization_id: string, email: string) => world.client().send(requestPortalCode, { body: { organization_id, email } })
  const answers = [
    await send(organization.id, 'known@people.test'),
    await send(organization.id, 'unknown@people.test'),
    await send(newId(world.clock.wall()), 'known@people.test'),
  ]
  expect(answers.map(({ status, body }) => [status, body])).toEqual([
    [202, ''],
    [202, ''],
    [202, ''],
  ])
  await world.mail.next('known@people.test')
  await quiet()
  expect(world.mail.letters.filter(({ to }) => to.includes('known@'))).toEqual([])
})

test('a sign-in code is invalid after six wrong attempts, and still valid after four', async () => {
  const { api, organization } = await world.shop()
  await api.call(createCustomer, { body: { email: 'guess@people.test' } })
  const wrongs = async (code: string, count: number) => {
    const wrong = otherCode(code)
    const answers = await Promise.all(Array.from({ length: count }, () => enter(organization.id, 'guess@people.test', wrong)))
    for (const { status } of answers) expect(status).toBe(401)
  }
  const first = await ask(organization.id, 'guess@people.test')
  await wrongs(first, 4)
  expect((await enter(organization.id, 'guess@people.test', first)).status).toBe(200)
  const second = await ask(organization.id, 'guess@people.test')
  await wrongs(second, 6)
  expect((await enter(organization.id, 'guess@people.test', second)).status).toBe(401)
})

test('code requests beyond the rate limit send no mail, and the last mailed code still works', async () => {
  const { api, organization } = await world.shop()
  await api.call(createCustomer, { body: { email: 'often@people.test' } })
  let code = ''
  for (let round = 0; round < 5; round++) code = await ask(organization.id, 'often@people.test')
  await world.client().call(requestPortalCode, { body: { organization_id: organization.id, email: 'often@people.test' } })
  await quiet()
  expect(world.mail.letters.filter(({ to }) => to === 'often@people.test')).toEqual([])
  expect((await enter(organization.id, 'often@people.test', code.toLowerCase().replace('-', ' '))).status).toBe(200)
})

test('a sign-in code is never accepted for another organization or another address', async () => {
  const [one, two] = [await world.shop(), await world.shop()]
  for (const { api } of [one, two]) for (const name of ['ann', 'ben']) await api.call(createCustomer, { body: { email: `${name}@people.test` } })
  const code = await ask(one.organization.id, 'ann@people.test')
  await ask(two.organization.id, 'ann@people.test')
  await ask(one.organization.id, 'ben@people.test')
  expect((await enter(two.organization.id, 'ann@people.test', code)).status).toBe(401)
  expect((await enter(one.organization.id, 'ben@people.test', code)).status).toBe(401)
  expect((await enter(one.organization.id, 'ann@people.test', code)).status).toBe(200)
  // The hash of a code depends on the id of its request. A hash copied to another request is therefore rejected.
  const moved = await ask(one.organization.id, 'ben@people.test')
  const late = await ask(one.organization.id, 'ann@people.test')
  await world.database.owner((client) =>
    client.query(
      `update customer_session_codes set hash = (select hash from customer_session_codes where organization_id = $1 and email = 'ben@people.test' order by created_at desc limit 1) where organization_id = $2 and email = 'ann@people.test'`,
      [one.organization.id, two.organization.id],
    ),
  )
  expect((await enter(two.organization.id, 'ann@people.test', moved)).status).toBe(401)
  world.clock.advance(15 * minute)
  expect((await enter(one.organization.id, 'ann@people.test', late)).status).toBe(401)
})

test('a person with several customers sees them only after entering a correct code, and then chooses one', async () => {
  const { api, organization } = await world.shop()
  const made = []
  for (const name of ['North', 'South']) {
    const customer = await api.call(createCustomer, { body: { type: 'team', name, email: `${name}@people.test` } })
    await api.call(createMember, { params: { id: customer.id }, body: { email: 'both@people.test', role: name === 'North' ? 'member' : 'billing_manager' } })
    made.push(customer)
  }
  const code = await ask(organization.id, 'both@people.test')
  for (let round = 0; round < 6; round++)
    expect((await enter(organization.id, 'both@people.test', code)).body).toEqual({
      token: null,
      expires_at: null,
      customers: made.map(({ id, name }) => ({ id, name })),
    })
  const elsewhere = await api.call(createCustomer, { body: { email: 'else@people.test' } })
  expect(await enter(organization.id, 'both@people.test', code, elsewhere.id)).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'customer_id'] }] },
  })
  const answer = await enter(organization.id, 'both@people.test', code, made[1]!.id)
  expect(await world.client({ token: answer.body.token! }).call(getPortalUser, {})).toMatchObject({ customer_id: made[1]!.id, role: 'billing_manager' })
  expect((await enter(organization.id, 'both@people.test', code, made[0]!.id)).status).toBe(401)
})

test('before phase 2, a sign-in opens a session for the customer instead of a member', async () => {
  const { api, organization, phase } = await world.shop()
  const customer = await api.call(createCustomer, { body: { email: 'early@people.test' } })
  await phase('before')
  const answer = await enter(organization.id, 'early@people.test', await ask(organization.id, 'early@people.test'))
  expect(await world.client({ token: answer.body.token! }).call(getPortalUser, {})).toMatchObject({ type: 'customer', customer_id: customer.id })
})

test('a reported leak of a session token revokes all credentials of the session, and notifies its member', async () => {
  const { api, customer, member } = await team()
  const made = await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: member.id } })
  const body = JSON.stringify([{ token: made.token, type: 'anything' }])
  const answer = await exchange(
    world.port,
    'POST',
    reportLeaks.path,
    {
      'content-type': 'application/json',
      'github-public-key-identifier': 'k1',
      'github-public-key-signature': sign('sha256', Buffer.from(body), scanner.privateKey).toString('base64'),
    },
    body,
  )
  expect(JSON.parse(answer.text)).toEqual([{ token_raw: made.token, token_type: 'bursar_member_session_token', label: 'true_positive' }])
  expect((await world.client({ token: made.token }).send(getPortalUser, {})).status).toBe(401)
  expect((await world.client().send(exchangePortalCode, { body: { code: codeOf(made.customer_portal_url) } })).status).toBe(401)
  expect((await world.mail.next('uma@people.test')).subject).toContain('was ended')
})

test('the purge deletes expired sessions and codes, and keeps valid ones', async () => {
  const { api, customer, member, organization } = await team()
  const old = await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: member.id } })
  await ask(organization.id, 'uma@people.test')
  world.clock.advance(61 * minute)
  const fresh = await api.call(createCustomerSession, { body: { customer_id: customer.id, member_id: member.id } })
  const { platform } = world
  await purge({ transact: world.transactAsWorker, platform, db: world.api.postgres.db, gateways: {} as never })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string }>('select id from customer_sessions where organization_id = $1', [organization.id]),
  )
  expect(rows.map(({ id }) => id)).toEqual([fresh.id])
  const hasher = new Hasher(world.config.peppers)
  const kept = await world.database.owner((owner) =>
    owner.query('select 1 from credentials where hash = any($1)', [
      [hasher.hash(new Secret(old.token)), hasher.hash(new Secret(codeOf(old.customer_portal_url)))],
    ]),
  )
  expect(kept.rows).toEqual([])
  const codes = await world.database.owner((owner) => owner.query('select 1 from customer_session_codes where organization_id = $1', [organization.id]))
  expect(codes.rows).toEqual([])
  expect((await world.client({ token: fresh.token }).send(getPortalUser, {})).status).toBe(200)
})
