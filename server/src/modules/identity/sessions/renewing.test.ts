import {
  getCurrentUser,
  inviteMember,
  organizationPermissions,
  renewSession,
  requestRenewalCode,
  requestSignInCode,
  verifySignInCode,
  type OrganizationRole,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeIn, otherCode } from '../../../../test/harness/mail.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { hours, minutes } from '../../../platform/clock.ts'
import { beginFactor, codeAt, confirmFactor, stepOf } from '../factors/factors.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const browser = () => ({ 'bursar-csrf': '1', origin: world.config.public_url.origin })

/** A person with an organization, whose sign-in is two hours old. */
const open = async (options: { is_operator?: boolean } = {}) => {
  const person = await world.person(options)
  const organization = await world.organization({ owner: person.id })
  const cookie = await person.cookie()
  world.clock.advance(2 * hours)
  const session = world.client({ cookie }, browser())
  const invite = () => session.send(inviteMember, { params: { id: organization.id }, body: { email: 'guest@people.test' } })
  /** Requests a code in this browser. Returns the code, and a client with the cookie that binds the code. */
  const request = async () => {
    const answer = await session.send(requestRenewalCode, {})
    expect(answer.status).toBe(202)
    const bound = answer.headers.getSetCookie()[0]!.split(';')[0]!
    return { code: codeIn((await world.mail.next(person.email)).text), session: world.client({ cookie: `${cookie}; ${bound}` }, browser()) }
  }
  return { person, organization, cookie, session, invite, request }
}

test('a mailed code renews the sign-in of a session, which stays', async () => {
  const { session, invite, request } = await open()
  const before = await session.call(getCurrentUser, {})
  expect(await invite()).toMatchObject({ status: 403, body: { error: 'SessionNotFreshError' } })
  const { code, session: bound } = await request()
  const renewed = await bound.call(renewSession, { body: { code } })
  expect(Date.parse(renewed.fresh_until) - Date.parse(renewed.signed_in_at)).toBe(1 * hours)
  expect((await invite()).status).toBe(201)
  const after = await session.call(getCurrentUser, {})
  expect(after).toMatchObject({ id: before.id, signed_in_at: renewed.signed_in_at, fresh_until: renewed.fresh_until })
  expect(Date.parse(after.signed_in_at)).toBeGreaterThan(Date.parse(before.signed_in_at))
  // A code works once.
  expect(await bound.send(renewSession, { body: { code } })).toMatchObject({ status: 401, body: { error: 'SignInRefused' } })
  world.clock.advance(61 * minutes)
  expect((await invite()).status).toBe(403)
})

test('a wrong code or the code of another person renews nothing, and five wrong codes use up the attempts', async () => {
  const { session, invite, request } = await open()
  const other = await open()
  const theirs = await other.request()
  expect((await session.send(renewSession, { body: { code: theirs.code } })).status).toBe(401)
  const { code, session: bound } = await request()
  for (let at = 0; at < 5; at++) expect((await bound.send(renewSession, { body: { code: otherCode(code) } })).status).toBe(401)
  expect((await bound.send(renewSession, { body: { code } })).status).toBe(401)
  expect((await invite()).status).toBe(403)
})

test('the code of a sign-in in another browser does not renew this session by itself', async () => {
  const { person, session, invite } = await open()
  await world.client().call(requestSignInCode, { body: { email: person.email } })
  const code = codeIn((await world.mail.next(person.email)).text)
  await world.client().call(verifySignInCode, { body: { email: person.email, code } })
  expect((await session.call(getCurrentUser, {})).email).toBe(person.email)
  expect((await invite()).status).toBe(403)
})

test('needs a session, and proof that our own page sends the change', async () => {
  const { cookie, person } = await open()
  for (const [operation, input] of [
    [requestRenewalCode, {}],
    [renewSession, { body: { code: 'ABCD-2345' } }],
  ] as const) {
    expect((await world.client().sendRaw(operation, input)).status).toBe(401)
    expect((await world.client({ token: (await person.token()).secret }).sendRaw(operation, input)).status).toBe(403)
    expect((await world.client({ cookie }, { 'sec-fetch-site': 'cross-site', origin: 'https://elsewhere.test' }).sendRaw(operation, input)).status).toBe(403)
  }
})

test('a person with a second factor needs it too, and the mailed code stays valid without it', async () => {
  const { person, invite, request } = await open()
  world.clock.advance(30_000 - (world.clock.wall().getTime() % 30_000))
  const factor = { user_id: person.id, credential_id: person.id }
  const { secret } = (await world.transact((tx) => beginFactor(tx, world.platform, { ...factor, email: person.email })))!
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = Array.from(secret, (letter) => letters.indexOf(letter).toString(2).padStart(5, '0')).join('')
  const key = new Secret(Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2))).toString('base64'))
  const codeOf = (steps: number) => codeAt(key, stepOf(world.clock.wall()) + steps)
  await world.transact((tx) => confirmFactor(tx, world.platform, factor, codeOf(-1)))
  const { code, session } = await request()
  const without = await session.send(renewSession, { body: { code } })
  expect(without).toMatchObject({ status: 403, body: { error: 'SecondFactorRequired' } })
  expect((await session.send(renewSession, { body: { code, second_factor: '000000' } })).status).toBe(401)
  expect((await session.send(renewSession, { body: { code, second_factor: codeOf(0) } })).status).toBe(200)
  expect((await invite()).status).toBe(201)
  expect((await session.call(getCurrentUser, {})).second_factor).toEqual({ enabled: true, required: false, missing: false })
})

test('users:me names the organizations with what the role may do there, and a missing second factor', async () => {
  const { person, organization, session } = await open()
  const second = await world.organization({ slug: 'aardvark-books' })
  await world.join(second.id, person.id, 'finance')
  const foreign = await world.organization()
  const me = await session.call(getCurrentUser, {})
  expect(new Map(me.memberships.map(({ organization_id, role }) => [organization_id, role]))).toEqual(
    new Map([
      [organization.id, 'owner'],
      [second.id, 'finance'],
    ]),
  )
  expect(JSON.stringify(me)).not.toContain(foreign.id)
  const permissionsOf = (role: OrganizationRole) => me.memberships.find((one) => one.role === role)!.permissions
  expect(permissionsOf('owner')).toEqual([...organizationPermissions])
  expect(permissionsOf('finance')).toContain('finance:read')
  expect(permissionsOf('finance')).not.toContain('organization:manage')
  expect(me.second_factor).toEqual({ enabled: false, required: false, missing: false })
  const operator = await world.person({ is_operator: true })
  const enrolling = world.client({ cookie: (await operator.cookie()).trim() }, browser())
  expect((await enrolling.call(getCurrentUser, {})).second_factor).toMatchObject({ required: true })
})
