import { createPersonalToken, getCurrentUser, listOrganizations, requestSignInCode, signOut, signOutEverywhere, verifySignInCode } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { purge } from './sessions.ts'
import { asOwner } from '../../../../test/harness/database.ts'
import { codeIn, otherCode } from '../../../../test/harness/mail.ts'
import { eventually, exchange, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const cookieIn = (headers: Headers) => headers.get('set-cookie')!.split(';')[0]!

test('a user signs in with a mailed code and signs out again', async () => {
  const person = await world.person()
  const open = world.client()
  expect((await open.send(requestSignInCode, { body: { email: person.email.toUpperCase() } })).status).toBe(202)
  const letter = await world.mail.next(person.email)
  const answer = await open.send(verifySignInCode, { body: { email: person.email, code: codeIn(letter.text) } })
  expect(answer).toMatchObject({ status: 200, body: { id: person.id, email: person.email, email_verified: true, is_operator: false } })
  expect(answer.headers.getSetCookie()[0]).toMatch(
    /^__Host-bursar_sandbox_session=bursar_test_us_\w{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=2678400; Secure$/,
  )
  const cookie = cookieIn(answer.headers)
  const session = world.client({ cookie })
  expect((await session.call(getCurrentUser, {})).email).toBe(person.email)
  expect((await session.call(listOrganizations, {})).items).toEqual([])
  const out = await session.send(signOut, {})
  expect(out.status).toBe(204)
  expect(out.headers.get('set-cookie')).toContain('Max-Age=0')
  expect((await session.send(getCurrentUser, {})).status).toBe(401)
  expect((await open.send(verifySignInCode, { body: { email: person.email, code: codeIn(letter.text) } })).status).toBe(401)
})

test('answers a code request for an unknown address the same way but sends no mail, until the operator opens sign-up', async () => {
  const email = 'newcomer@people.test'
  const known = await world.person()
  const open = world.client()
  const [stranger, friend] = [await open.send(requestSignInCode, { body: { email } }), await open.send(requestSignInCode, { body: { email: known.email } })]
  expect([stranger.status, stranger.body]).toEqual([friend.status, friend.body])
  await world.mail.next(known.email)
  expect(world.mail.letters.filter(({ to }) => to === email)).toEqual([])
  await asOwner(world.database.name, (owner) => owner.query('update deployment set sign_up_open = true'))
  await open.call(requestSignInCode, { body: { email } })
  const letter = await world.mail.next(email)
  const answer = await open.call(verifySignInCode, { body: { email, code: codeIn(letter.text) } })
  expect(answer).toMatchObject({ email, email_verified: true })
})

test('keeps all sign-in codes of concurrent requests by one browser valid until one of them is used', async () => {
  const person = await world.person()
  const asked = await world.client().send(requestSignInCode, { body: { email: person.email } })
  const browser = world.client({}, { cookie: cookieIn(asked.headers) })
  await Promise.all(Array.from({ length: 3 }, () => browser.call(requestSignInCode, { body: { email: person.email } })))
  await eventually(
    'every mail job has run',
    async () => (await world.database.owner((owner) => owner.query('select 1 from graphile_worker._private_jobs'))).rows.length === 0,
  )
  const codes = world.mail.letters.filter(({ to }) => to === person.email).map(({ text }) => codeIn(text))
  expect(new Set(codes).size).toBe(4)
  const statuses: number[] = []
  for (const code of codes) statuses.push((await browser.send(verifySignInCode, { body: { email: person.email, code } })).status)
  expect(statuses).toEqual([200, 401, 401, 401])
})

test('purges expired sessions', async () => {
  const person = await world.person()
  const cookie = await person.cookie()
  world.clock.advance(31 * 86_400_000 + 1)
  expect((await world.client({ cookie }).send(getCurrentUser, {})).status).toBe(401)
  await purge({ transact: world.transactAsWorker, platform: world.platform } as never)
  const { rows } = await world.database.owner((owner) =>
    owner.query(`select (select count(*) from user_sessions)::int + (select count(*) from credentials where kind = 'session')::int as left`),
  )
  expect(rows).toEqual([{ left: 0 }])
})

test('invalidates a sign-in code after five wrong attempts, even concurrent ones', async () => {
  const person = await world.person()
  const open = world.client()
  await open.call(requestSignInCode, { body: { email: person.email } })
  const code = codeIn((await world.mail.next(person.email)).text)
  const wrong = otherCode(code)
  const guesses = await Promise.all(Array.from({ length: 12 }, () => open.send(verifySignInCode, { body: { email: person.email, code: wrong } })))
  for (const guess of guesses) expect(guess).toMatchObject({ status: 401, body: { error: 'SignInRefused' } })
  expect((await open.send(verifySignInCode, { body: { email: person.email, code } })).status).toBe(401)
})

test('rejects a sign-in code for another address, and after 15 minutes', async () => {
  const [ann, ben] = await Promise.all([world.person(), world.person()])
  const open = world.client()
  for (const { email } of [ann, ben]) await open.call(requestSignInCode, { body: { email } })
  const forAnn = codeIn((await world.mail.next(ann.email)).text)
  const forBen = codeIn((await world.mail.next(ben.email)).text)
  if (forAnn !== forBen) expect((await open.send(verifySignInCode, { body: { email: ben.email, code: forAnn } })).status).toBe(401)
  world.clock.advance(15 * 60_000 + 1)
  expect((await open.send(verifySignInCode, { body: { email: ann.email, code: forAnn } })).status).toBe(401)
})

test('opens one session when concurrent requests present the same code', async () => {
  const person = await world.person()
  const open = world.client()
  await open.call(requestSignInCode, { body: { email: person.email } })
  const code = codeIn((await world.mail.next(person.email)).text)
  const answers = await Promise.all(Array.from({ length: 5 }, () => open.send(verifySignInCode, { body: { email: person.email, code } })))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
})

test('signing out everywhere ends every session of the user, but no tokens and no sessions of other users', async () => {
  const [person, other] = [await world.person(), await world.person()]
  const [here, there, elsewhere] = [await person.cookie(), await person.cookie(), await other.cookie()]
  const token = (await person.token()).secret
  const out = await world.client({ cookie: here }).send(signOutEverywhere, {})
  expect([out.status, out.headers.get('set-cookie')]).toEqual([204, expect.stringContaining('Max-Age=0')])
  for (const cookie of [here, there]) expect((await world.client({ cookie }).send(getCurrentUser, {})).status).toBe(401)
  expect((await world.client({ cookie: elsewhere }).send(getCurrentUser, {})).status).toBe(200)
  expect((await world.client({ token }).send(listOrganizations, {})).status).toBe(200)
  expect((await world.client({ token }).send(signOutEverywhere, {})).status).toBe(403)
})

test('declares the refusals of a body that signing out does not use', async () => {
  const person = await world.person()
  const headers = { cookie: await person.cookie(), origin: world.config.public_url.origin, 'bursar-csrf': '1' }
  // `exchange` throws if the contract does not declare the answer.
  expect((await exchange(world.port, 'DELETE', signOut.path, { ...headers, 'content-type': 'text/plain' }, 'x')).status).toBe(415)
  expect((await exchange(world.port, 'DELETE', signOut.path, { ...headers, 'content-type': 'application/json' }, `"${'x'.repeat(1_048_576)}"`)).status).toBe(
    413,
  )
  expect((await world.client({ cookie: headers.cookie }).send(getCurrentUser, {})).status).toBe(200)
})

test('sends the sign-in code although the mail server rejected the first delivery attempt', async () => {
  const person = await world.person()
  world.mail.refuse(1)
  await world.client().call(requestSignInCode, { body: { email: person.email } })
  const letter = await world.mail.next(person.email)
  expect((await world.client().send(verifySignInCode, { body: { email: person.email, code: codeIn(letter.text) } })).status).toBe(200)
})

test('rejects cross-site write requests with the session cookie', async () => {
  const person = await world.person()
  const cookie = await person.cookie()
  const body = JSON.stringify({ comment: 'forged', scopes: ['orders:read'] })
  const post = (headers: Record<string, string>) =>
    exchange(world.port, createPersonalToken.method, createPersonalToken.path, { cookie, 'content-type': 'application/json', ...headers }, body)
  expect((await post({})).status).toBe(403)
  expect((await post({ origin: 'https://evil.test', 'bursar-csrf': '1' })).status).toBe(403)
  expect((await post({ origin: 'https://bursar.test' })).status).toBe(403)
  expect((await post({ 'sec-fetch-site': 'cross-site', origin: 'https://bursar.test', 'bursar-csrf': '1' })).status).toBe(403)
  expect((await post({ 'sec-fetch-site': 'same-origin', 'bursar-csrf': '1' })).status).toBe(201)
})
