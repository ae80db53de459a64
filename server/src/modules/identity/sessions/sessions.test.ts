import { createPersonalToken, getCurrentUser, listOrganizations, requestSignInCode, signOut, verifySignInCode } from '@bursar/contract'
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

test('a person signs in with a code from their mail, and out again', async () => {
  const person = await world.person()
  const open = world.client()
  expect((await open.send(requestSignInCode, { body: { email: person.email.toUpperCase() } })).status).toBe(202)
  const letter = await world.mail.next(person.email)
  const answer = await open.send(verifySignInCode, { body: { email: person.email, code: codeIn(letter.text) } })
  expect(answer).toMatchObject({ status: 200, body: { id: person.id, email: person.email, email_verified: true, is_operator: false } })
  expect(answer.headers.get('set-cookie')).toMatch(
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

test('an unknown address gets the same answer and no mail, until the operator opens sign-up', async () => {
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

test('asking several times at once leaves one code, and it works', async () => {
  const person = await world.person()
  const open = world.client()
  await Promise.all(Array.from({ length: 5 }, () => open.call(requestSignInCode, { body: { email: person.email } })))
  await eventually(
    'every mail job has run',
    async () => (await world.database.owner((owner) => owner.query('select 1 from graphile_worker._private_jobs'))).rows.length === 0,
  )
  const { rows } = await world.database.owner((owner) => owner.query('select 1 from sign_in_codes where email = $1', [person.email]))
  expect(rows).toHaveLength(1)
  const codes = world.mail.letters.filter(({ to }) => to === person.email).map(({ text }) => codeIn(text))
  // Letters may overtake each other: one of them has the code that counts.
  const statuses: number[] = []
  for (const code of new Set(codes)) statuses.push((await open.send(verifySignInCode, { body: { email: person.email, code } })).status)
  expect(statuses.filter((status) => status === 200)).toHaveLength(1)
})

test('what has run out is removed', async () => {
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

test('five wrong tries burn a code, also when they come all at once', async () => {
  const person = await world.person()
  const open = world.client()
  await open.call(requestSignInCode, { body: { email: person.email } })
  const code = codeIn((await world.mail.next(person.email)).text)
  const wrong = otherCode(code)
  const guesses = await Promise.all(Array.from({ length: 12 }, () => open.send(verifySignInCode, { body: { email: person.email, code: wrong } })))
  for (const guess of guesses) expect(guess).toMatchObject({ status: 401, body: { error: 'SignInRefused' } })
  expect((await open.send(verifySignInCode, { body: { email: person.email, code } })).status).toBe(401)
})

test('a code of one address opens no other, and none after a quarter of an hour', async () => {
  const [ann, ben] = await Promise.all([world.person(), world.person()])
  const open = world.client()
  for (const { email } of [ann, ben]) await open.call(requestSignInCode, { body: { email } })
  const forAnn = codeIn((await world.mail.next(ann.email)).text)
  const forBen = codeIn((await world.mail.next(ben.email)).text)
  if (forAnn !== forBen) expect((await open.send(verifySignInCode, { body: { email: ben.email, code: forAnn } })).status).toBe(401)
  world.clock.advance(15 * 60_000 + 1)
  expect((await open.send(verifySignInCode, { body: { email: ann.email, code: forAnn } })).status).toBe(401)
})

test('one code, presented many times at once, opens one session', async () => {
  const person = await world.person()
  const open = world.client()
  await open.call(requestSignInCode, { body: { email: person.email } })
  const code = codeIn((await world.mail.next(person.email)).text)
  const answers = await Promise.all(Array.from({ length: 5 }, () => open.send(verifySignInCode, { body: { email: person.email, code } })))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
})

test('mail that is refused at first is sent again', async () => {
  const person = await world.person()
  world.mail.refuse(1)
  await world.client().call(requestSignInCode, { body: { email: person.email } })
  const letter = await world.mail.next(person.email)
  expect((await world.client().send(verifySignInCode, { body: { email: person.email, code: codeIn(letter.text) } })).status).toBe(200)
})

test('a page elsewhere cannot make changes with the cookie', async () => {
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
